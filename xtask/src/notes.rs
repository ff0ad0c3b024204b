//! Notes that tests of one run add to a file, which the run reads at its end. `crates/testing` writes them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::step::Failure;

/// The file of one test run.
pub(crate) struct Notes {
    path: PathBuf,
}

impl Notes {
    /// A file that is not there yet, with a name of what it notes and of this process.
    pub(crate) fn new(what: &str) -> Notes {
        let path = std::env::temp_dir().join(format!("pliant-{what}-{}", std::process::id()));
        // One that is left of another process of the same number says nothing about this run.
        let _ = std::fs::remove_file(&path);
        Notes { path }
    }

    /// Where tests write.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads and removes the file; empty if no test has noted anything.
    pub(crate) fn take(self) -> Result<String, Failure> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(Failure::Unreadable { path: self.path, cause: error.to_string() }),
        };
        // The next run of the same number removes what stays.
        let _ = std::fs::remove_file(&self.path);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_once() {
        let notes = Notes::new("test-of-notes");
        let path = notes.path().to_owned();
        assert_eq!(Notes { path: path.clone() }.take().unwrap(), "");
        std::fs::write(&path, "program\ta::b\tno browser\n").unwrap();
        assert_eq!(notes.take().unwrap(), "program\ta::b\tno browser\n");
        assert!(!path.exists());
    }
}
