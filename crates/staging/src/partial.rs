//! One file on its way, in pieces.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use sha2::{Digest, Sha256};

use super::checksum::Checksum;
use super::error::StagingError;
use super::folder::Folder;
use super::manifest::FileSpec;

/// What came so far of a file: a beginning of it, on disk, and the state of its checksum.
#[derive(Debug)]
pub(crate) struct PartialFile {
    spec: FileSpec,
    file: File,
    path: PathBuf,
    length: u64,
    state: Sha256,
}

impl PartialFile {
    /// Opens `name` in `folder`, made if it is not there, and reads what is in it already.
    pub(crate) fn open(folder: &Folder, name: &str, spec: FileSpec) -> Result<PartialFile, StagingError> {
        let file = folder.file_to_write(name, Mode::RUSR | Mode::WUSR)?;
        let mut part =
            PartialFile { spec, file, path: folder.path_of(name), length: 0, state: Sha256::new() };
        part.read_again().map_err(|error| StagingError::io(&part.path, error))?;
        Ok(part)
    }

    fn read_again(&mut self) -> std::io::Result<()> {
        if self.file.metadata()?.len() > self.spec.size {
            return self.file.set_len(0);
        }
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    self.state.update(&buffer[..read]);
                    self.length += read as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What was announced.
    pub(crate) fn spec(&self) -> &FileSpec {
        &self.spec
    }

    /// Where the next piece begins.
    pub(crate) fn offset(&self) -> u64 {
        self.length
    }

    /// Adds a piece that begins at `offset`; where the next one begins. A piece is kept whole or not at all.
    ///
    /// It is in the hands of the operating system then: the end of this process does not lose it. The end of
    /// the machine may, until [`PartialFile::verify`]; the next [`PartialFile::open`] shows how far it came.
    pub(crate) fn append(&mut self, offset: u64, piece: &[u8]) -> Result<u64, StagingError> {
        let name = || self.spec.name.clone();
        if offset != self.length {
            return Err(StagingError::Offset { name: name(), expected: self.length, found: offset });
        }
        let found = self.length.saturating_add(piece.len() as u64);
        if found > self.spec.size {
            return Err(StagingError::TooMuch { name: name(), announced: self.spec.size, found });
        }
        let written = self.file.seek(SeekFrom::Start(offset)).and_then(|_| self.file.write_all(piece));
        if let Err(error) = written {
            // Part of the piece may be there. If it cannot be cut off, the checksum will show it.
            let _ = self.file.set_len(self.length);
            return Err(StagingError::io(&self.path, error));
        }
        self.state.update(piece);
        self.length = found;
        Ok(self.length)
    }

    /// Makes the file durable if it is what was announced. If all came and it is not, everything is thrown
    /// away, to begin again at 0.
    pub(crate) fn verify(&mut self) -> Result<(), StagingError> {
        let FileSpec { name, size, sha256 } = self.spec.clone();
        if self.length < size {
            return Err(StagingError::TooLittle { name, announced: size, found: self.length });
        }
        let found = Checksum(self.state.clone().finalize().into());
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| StagingError::io(path, error)
        };
        if found != sha256 {
            self.file.set_len(0).map_err(io(&self.path))?;
            (self.length, self.state) = (0, Sha256::new());
            return Err(StagingError::Checksum { name, expected: sha256, found });
        }
        self.file.sync_all().map_err(io(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every write to this device fails as on a full disk.
    #[test]
    fn a_piece_that_does_not_fit_on_the_disk_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::open(folder.path()).unwrap();
        let spec = FileSpec { name: "a".parse().unwrap(), size: 8, sha256: Checksum::of(b"12345678") };
        let mut part = PartialFile::open(&folder, "a.part", spec).unwrap();
        part.append(0, b"1234").unwrap();
        let real = std::mem::replace(&mut part.file, File::options().write(true).open("/dev/full").unwrap());
        let error = part.append(4, b"5678").unwrap_err();
        assert!(matches!(error, StagingError::DiskFull { .. }), "{error}");
        part.file = real;
        assert_eq!(part.append(4, b"5678").unwrap(), 8);
        part.verify().unwrap();
    }
}
