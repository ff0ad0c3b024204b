//! The client's end of staging: a result on its way down.

use std::path::Path;

use super::checksum::Checksum;
use super::error::StagingError;
use super::folder::Folder;
use super::manifest::FileSpec;
use super::partial::PartialFile;

/// A file that arrives in pieces in a folder of the user. Until it is whole and verified it has another name, from
/// which the next download of the same file continues.
///
/// The name comes from a server: it leads nowhere but into the folder, and through no symbolic link in it.
#[derive(Debug)]
pub struct Download {
    folder: Folder,
    on_its_way: String,
    part: PartialFile,
}

impl Download {
    /// Begins or continues the download of a file into `folder`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// If the folder, or one that the name has in it, cannot be made or is a symbolic link.
    pub fn begin(folder: &Path, spec: FileSpec) -> Result<Download, StagingError> {
        let mut folder = Folder::create(folder)?;
        for name in spec.name.folders() {
            folder = folder.make_child(name)?;
        }
        // Another version of the file does not continue this one.
        let version = Checksum::of(format!("{}\n{}", spec.name, spec.sha256).as_bytes()).to_string();
        let on_its_way = format!(".pliant-{}.part", &version[..16]);
        let part = PartialFile::open(&folder, &on_its_way, spec)?;
        Ok(Download { folder, on_its_way, part })
    }

    /// Where the next piece begins.
    pub fn offset(&self) -> u64 {
        self.part.offset()
    }

    /// Adds a piece that begins at `offset`; where the next one begins.
    ///
    /// # Errors
    ///
    /// [`StagingError::Offset`], [`StagingError::TooMuch`], [`StagingError::DiskFull`]; or the disk's.
    pub fn append(&mut self, offset: u64, piece: &[u8]) -> Result<u64, StagingError> {
        self.part.append(offset, piece)
    }

    /// Verifies the file and puts it in its place, where it replaces one that was there.
    ///
    /// # Errors
    ///
    /// [`StagingError::TooLittle`], [`StagingError::Checksum`] (what came is deleted); or the disk's.
    pub fn finish(mut self) -> Result<(), StagingError> {
        self.part.verify()?;
        self.folder.rename(&self.on_its_way, &self.folder, self.part.spec().name.last())?;
        self.folder.sync()
    }
}
