//! Files that are written, compressed if their name says so.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// A file, gzipped if its name ends in `.gz`.
pub(crate) enum Output {
    /// As it is.
    Plain(BufWriter<File>),
    /// Compressed on the way.
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

impl Output {
    /// Makes the file.
    pub(crate) fn create(path: &Path) -> io::Result<Output> {
        let file = BufWriter::with_capacity(256 * 1024, File::create(path)?);
        let gzip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        Ok(match gzip {
            true => Output::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
            false => Output::Plain(file),
        })
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Output::Plain(mut file) => file.flush(),
            Output::Gzip(file) => file.finish()?.flush(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Plain(file) => file.write(bytes),
            Output::Gzip(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Plain(file) => file.flush(),
            Output::Gzip(file) => file.flush(),
        }
    }
}

/// Text that stays on its line.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
