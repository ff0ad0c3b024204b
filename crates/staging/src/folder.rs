//! Folders that are opened one by one, never by a path.
//!
//! Each is opened relative to the one above it and not through a symbolic link, which is what the kernel's
//! own "beneath" resolution does in one call; done step by step it is the same on every kernel and inside
//! every sandbox. Components come from [`FileName`](super::FileName) or from the kernel's own listing, so
//! none is `..`.

use std::ffi::CString;
use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::StagingError;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(SAFELY);
const SAFELY: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// The largest of the store's own files, in bytes: a manifest of the most files with the longest names.
const OWN_FILE_MAX: u64 = 64 << 20;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    /// Where it was when it was opened; for messages only.
    path: PathBuf,
}

/// What lies in a folder.
pub(crate) struct Entry {
    pub(crate) name: CString,
    pub(crate) kind: FileType,
}

impl Folder {
    /// Opens a folder that the configuration names: links in this path are the operator's own.
    pub(crate) fn open(path: &Path) -> Result<Folder, StagingError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|error| StagingError::io(path, error))?;
        Ok(Folder { fd, path: path.to_owned() })
    }

    /// The same; makes it, and those it lies in, if it is not there.
    pub(crate) fn create(path: &Path) -> Result<Folder, StagingError> {
        if !path.is_dir() {
            std::fs::create_dir_all(path).map_err(|error| StagingError::io(path, error))?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Folder::open(parent)?.sync()?;
            }
        }
        Folder::open(path)
    }

    /// Where something in it is, for messages.
    pub(crate) fn path_of(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    fn failed(&self, name: impl AsRef<Path>) -> impl Fn(Errno) -> StagingError {
        let path = self.path_of(name);
        move |error| StagingError::io(path.clone(), error)
    }

    /// The folder of that name, if there is one. A symbolic link is none: [`StagingError::NotAFile`].
    pub(crate) fn child(&self, name: &str) -> Result<Option<Folder>, StagingError> {
        match rustix::fs::openat(&self.fd, name, FOLDER, Mode::empty()) {
            Ok(fd) => Ok(Some(Folder { fd, path: self.path_of(name) })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                Err(StagingError::NotAFile { name: self.path_of(name).display().to_string() })
            }
            Err(error) => Err(self.failed(name)(error)),
        }
    }

    /// The folder of that name, made durably if it is not there.
    pub(crate) fn make_child(&self, name: &str) -> Result<Folder, StagingError> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => self.sync()?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(self.failed(name)(error)),
        }
        self.child(name)?.ok_or_else(|| self.failed(name)(Errno::NOENT))
    }

    /// A regular file for reading, with what the kernel knows of it; none if there is nothing.
    pub(crate) fn file(&self, name: &str) -> Result<Option<(File, Metadata)>, StagingError> {
        let not_a_file = || StagingError::NotAFile { name: self.path_of(name).display().to_string() };
        let fd = match rustix::fs::openat(&self.fd, name, OFlags::RDONLY | SAFELY, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            // A link, or a socket.
            Err(Errno::LOOP | Errno::NXIO) => return Err(not_a_file()),
            Err(error) => return Err(self.failed(name)(error)),
        };
        let file = File::from(fd);
        let metadata = file.metadata().map_err(|error| StagingError::io(self.path_of(name), error))?;
        if metadata.is_file() { Ok(Some((file, metadata))) } else { Err(not_a_file()) }
    }

    /// A regular file for reading and writing, made if it is not there.
    pub(crate) fn file_to_write(&self, name: &str, mode: Mode) -> Result<File, StagingError> {
        let flags = OFlags::RDWR | OFlags::CREATE | SAFELY;
        let fd = rustix::fs::openat(&self.fd, name, flags, mode).map_err(self.failed(name))?;
        let file = File::from(fd);
        let metadata = file.metadata().map_err(|error| StagingError::io(self.path_of(name), error))?;
        if metadata.is_file() {
            return Ok(file);
        }
        Err(StagingError::NotAFile { name: self.path_of(name).display().to_string() })
    }

    /// Reads a file of the store's own, whole.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StagingError> {
        let Some((file, _)) = self.file(name)? else { return Ok(None) };
        let mut content = Vec::new();
        let read = file.take(OWN_FILE_MAX + 1).read_to_end(&mut content);
        read.map_err(|error| StagingError::io(self.path_of(name), error))?;
        if content.len() as u64 > OWN_FILE_MAX {
            let message = format!("expected at most {OWN_FILE_MAX} bytes, found more");
            return Err(StagingError::Damaged { path: self.path_of(name), message });
        }
        Ok(Some(content))
    }

    /// Puts a file in the place of another, or where none was: whole and durably, or not at all.
    pub(crate) fn replace(&self, name: &str, content: &[u8], mode: Mode) -> Result<(), StagingError> {
        self.written(name, (content, mode), |file| file.sync_all())?;
        self.sync()
    }

    /// The same without waiting for the disk: after a power failure the file may be missing or empty.
    pub(crate) fn replace_unsynced(
        &self,
        name: &str,
        content: &[u8],
        mode: Mode,
    ) -> Result<(), StagingError> {
        self.written(name, (content, mode), |_| Ok(()))
    }

    fn written(
        &self,
        name: &str,
        (content, mode): (&[u8], Mode),
        sync: impl FnOnce(&File) -> std::io::Result<()>,
    ) -> Result<(), StagingError> {
        let draft = format!("{name}.new");
        // What a crash left behind may have another mode, or be longer.
        self.remove(&draft)?;
        let written = self.file_to_write(&draft, mode).and_then(|mut file| {
            let written = file.write_all(content).and_then(|()| sync(&file));
            written.map_err(|error| StagingError::io(self.path_of(name), error))
        });
        if let Err(error) = written.and_then(|()| self.rename(&draft, self, name)) {
            // The first error is the one to report.
            let _ = self.remove(&draft);
            return Err(error);
        }
        Ok(())
    }

    /// Moves `name` to `target`, in the place of what is there.
    pub(crate) fn rename(&self, name: &str, target: &Folder, new_name: &str) -> Result<(), StagingError> {
        rustix::fs::renameat(&self.fd, name, &target.fd, new_name).map_err(target.failed(new_name))
    }

    /// Gives a file of this folder another name in `target`, where there must be none of that name.
    pub(crate) fn link(&self, name: &str, target: &Folder, new_name: &str) -> Result<(), StagingError> {
        let linked = rustix::fs::linkat(&self.fd, name, &target.fd, new_name, AtFlags::empty());
        linked.map_err(target.failed(new_name))
    }

    /// Removes a file; that it is not there is no error.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StagingError> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.failed(name)(error)),
        }
    }

    /// Removes a folder of files; that it is not there is no error.
    pub(crate) fn remove_child(&self, name: &str) -> Result<(), StagingError> {
        let Some(child) = self.child(name)? else { return Ok(()) };
        for entry in child.entries(usize::MAX)?.0 {
            let removed = rustix::fs::unlinkat(&child.fd, &entry.name, AtFlags::empty());
            removed.map_err(child.failed(entry.name.to_string_lossy().as_ref()))?;
        }
        rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR).map_err(self.failed(name))
    }

    /// What lies in it, in the order of names; at most `most`, and whether that is all.
    pub(crate) fn entries(&self, most: usize) -> Result<(Vec<Entry>, bool), StagingError> {
        let failed = self.failed("");
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let name = entry.file_name().to_owned();
            if matches!(name.as_bytes(), b"." | b"..") {
                continue;
            }
            if entries.len() == most {
                return Ok((entries, false));
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the type in a listing.
                FileType::Unknown => {
                    let stat = rustix::fs::statat(&self.fd, &name, AtFlags::SYMLINK_NOFOLLOW);
                    stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
                }
                known => known,
            };
            entries.push(Entry { name, kind });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((entries, true))
    }

    /// Makes durable which names it holds.
    pub(crate) fn sync(&self) -> Result<(), StagingError> {
        rustix::fs::fsync(&self.fd).map_err(self.failed(""))
    }
}
