//! The standard input of a job, and where its standard error goes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use pliant_staging::FileName;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// The standard streams of a job, as far as it says anything about them.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Streams {
    /// The file that is its standard input, in the folder in which it runs; nothing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<FileName>,
    /// Its standard error goes where its standard output goes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merge_output: bool,
}

impl Streams {
    /// True if nothing is said about them.
    pub(crate) fn are_default(&self) -> bool {
        *self == Streams::default()
    }

    /// Opens the standard input of a job that runs in `place`.
    ///
    /// # Errors
    /// The file cannot be opened, or it is none.
    pub(crate) fn open_stdin(&self, place: &Path) -> io::Result<File> {
        let Some(name) = &self.stdin else { return File::open("/dev/null") };
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("its standard input `{}`: {error}", name.as_str()))
        };
        // Opening a pipe without a writer must not block.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(place.join(name.as_str()));
        let file = file.map_err(failed)?;
        match file.metadata().map_err(failed)?.is_file() {
            true => Ok(file),
            false => Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn standard_input_is_a_file_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("data"), "42").unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        let opened = |name: Option<&str>| {
            let stdin = name.map(|name| name.parse().unwrap());
            Streams { stdin, merge_output: false }.open_stdin(dir.path())
        };
        let mut text = String::new();
        opened(None).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "");
        opened(Some("data")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "42");
        let why = |name| opened(Some(name)).unwrap_err().to_string();
        assert_eq!(why("folder"), "its standard input `folder`: it is no file");
        assert!(why("none").starts_with("its standard input `none`: No such file"));
    }
}
