//! Atomic output files, compressed by name.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::error::{Problem, TraceError};
use crate::workload::Format;

/// The format that a file of that name is written in; an error if the name promises none that is written.
pub fn written_format(path: &Path) -> Result<Format, TraceError> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    match plain.rsplit_once('.') {
        Some((_, "swf")) => Ok(Format::Swf),
        Some((_, "gwf")) => Ok(Format::Gwf),
        _ => {
            let message = "expected a name that ends in .swf, .swf.gz, .gwf or .gwf.gz".to_owned();
            let hint = "the ending decides the format that is written".to_owned();
            Err(TraceError::new(path, Problem::Content { message, hint }))
        }
    }
}

/// True if both names lead to one file, through whatever links.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// A file, gzipped if its name ends in `.gz`. It appears under its name when it is finished; a failure leaves an existing
/// file unchanged.
pub(crate) struct Output {
    encoder: Encoder,
    target: OutputPath,
}

enum Encoder {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

/// The path of the file and its temporary path.
struct OutputPath {
    path: PathBuf,
    /// None if the file is written in place, as pipes and devices are.
    temporary: Option<PathBuf>,
}

impl OutputPath {
    fn of(path: &Path) -> OutputPath {
        // Links keep pointing to the file.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let replaced = fs::metadata(&path).map_or(true, |there| there.is_file());
        let temporary = replaced.then(|| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".partial-{}", std::process::id()));
            path.with_file_name(name)
        });
        OutputPath { path, temporary }
    }

    fn rename(mut self) -> io::Result<()> {
        match self.temporary.take() {
            Some(temporary) => fs::rename(&temporary, &self.path).inspect_err(|_| {
                // The rename's error is reported; the temporary file is removed if possible.
                let _ = fs::remove_file(&temporary);
            }),
            None => Ok(()),
        }
    }
}

impl Drop for OutputPath {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

impl Output {
    /// Makes the file.
    pub(crate) fn create(path: &Path) -> io::Result<Output> {
        let target = OutputPath::of(path);
        let written = target.temporary.as_ref().unwrap_or(&target.path);
        let file = BufWriter::with_capacity(256 * 1024, File::create(written)?);
        let gzip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        let encoder = match gzip {
            true => Encoder::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
            false => Encoder::Plain(file),
        };
        Ok(Output { encoder, target })
    }

    /// Completes the file and gives it its name.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.encoder {
            Encoder::Plain(mut file) => file.flush()?,
            Encoder::Gzip(file) => file.finish()?.flush()?,
        }
        self.target.rename()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.encoder {
            Encoder::Plain(file) => file.write(bytes),
            Encoder::Gzip(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Plain(file) => file.flush(),
            Encoder::Gzip(file) => file.flush(),
        }
    }
}

/// Text that stays on its line.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_promise_formats() {
        let check = |name: &str, format| assert_eq!(written_format(Path::new(name)).ok(), format, "{name}");
        check("a.swf", Some(Format::Swf));
        check("dir.x/A.SWF.GZ", Some(Format::Swf));
        check("a.gwf", Some(Format::Gwf));
        check("a.b.gwf.gz", Some(Format::Gwf));
        for other in ["a.txt", "swf", "a.gz", "a", "", "a.json", "a.toml", "a.swf.bz2", "dir.swf/a"] {
            check(other, None);
        }
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let (path, link) = (dir.path().join("a.swf"), dir.path().join("link.swf"));
        fs::write(&path, "old").expect("writable");
        std::os::unix::fs::symlink(&path, &link).expect("links are possible");
        let names = || fs::read_dir(dir.path()).expect("a folder").count();
        let mut output = Output::create(&link).expect("writable");
        output.write_all(b"half").expect("written");
        output.flush().expect("written");
        assert_eq!((fs::read(&path).expect("there"), names()), (b"old".to_vec(), 3));
        drop(output);
        assert_eq!((fs::read(&path).expect("there"), names()), (b"old".to_vec(), 2));
        let mut output = Output::create(&link).expect("writable");
        output.write_all(b"whole").expect("written");
        output.finish().expect("written");
        assert_eq!((fs::read(&path).expect("there"), names()), (b"whole".to_vec(), 2));
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink(), "a link stays one");
        assert!(is_same_file(&path, &link) && !is_same_file(&path, dir.path()));
    }
}
