//! The uploads of one submission, on disk.
//!
//! Each file has an id, so that no announced name is a name on disk. A file is done when it is *called* done:
//! that takes one rename, after its bytes were checked and made durable.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use pliant_model::Time;
use rustix::fs::Mode;

use super::checksum::Checksum;
use super::error::StagingError;
use super::folder::Folder;
use super::manifest::FileSpec;
use super::names::FileName;
use super::partial::PartialFile;

/// The folder of one submission's uploads.
pub(crate) struct Incoming {
    folder: Folder,
}

fn on_disk(name: &FileName, kind: &str) -> String {
    // 128 bits: no two names meet by chance, and who makes two names of his own meet spoils his own upload.
    let id = Checksum::of(name.as_str().as_bytes()).to_string();
    format!("{}.{kind}", &id[..32])
}

impl Incoming {
    pub(crate) fn new(folder: Folder) -> Incoming {
        Incoming { folder }
    }

    /// What was announced under this name.
    pub(crate) fn announced(&self, name: &FileName) -> Result<Option<FileSpec>, StagingError> {
        let spec = self.read(&on_disk(name, "meta"))?;
        Ok(spec.filter(|spec| spec.name == *name))
    }

    /// A damaged announcement is none: its file is uploaded again.
    fn read(&self, meta: &str) -> Result<Option<FileSpec>, StagingError> {
        let content = self.folder.read(meta)?;
        Ok(content.and_then(|content| serde_json::from_slice(&content).ok()))
    }

    /// Announces a file. If another was announced under its name, the part of that one so far is deleted.
    pub(crate) fn announce(&self, spec: &FileSpec) -> Result<(), StagingError> {
        if self.announced(&spec.name)?.as_ref() == Some(spec) {
            return Ok(());
        }
        self.folder.remove(&on_disk(&spec.name, "done"))?;
        self.folder.remove(&on_disk(&spec.name, "part"))?;
        let content = serde_json::to_vec(spec).map_err(std::io::Error::from);
        let meta = on_disk(&spec.name, "meta");
        let content = content.map_err(|error| StagingError::io(self.folder.path_of(&meta), error))?;
        self.folder.replace(&meta, &content, Mode::RUSR | Mode::WUSR)
    }

    /// What came so far of an announced file.
    pub(crate) fn part(&self, spec: &FileSpec) -> Result<PartialFile, StagingError> {
        PartialFile::open(&self.folder, &on_disk(&spec.name, "part"), spec.clone())
    }

    /// Bytes that came of an announced file.
    pub(crate) fn received(&self, spec: &FileSpec) -> Result<u64, StagingError> {
        for kind in ["done", "part"] {
            if let Some((_, metadata)) = self.folder.file(&on_disk(&spec.name, kind))? {
                return Ok(metadata.len().min(spec.size));
            }
        }
        Ok(0)
    }

    /// Calls a verified file done.
    pub(crate) fn settle(&self, name: &FileName) -> Result<(), StagingError> {
        self.folder.rename(&on_disk(name, "part"), &self.folder, &on_disk(name, "done"))?;
        self.folder.sync()
    }

    /// What the kernel knows of a file that is as announced and done; none if it is not.
    pub(crate) fn done(&self, spec: &FileSpec) -> Result<Option<Metadata>, StagingError> {
        if self.announced(&spec.name)?.as_ref() != Some(spec) {
            return Ok(None);
        }
        let file = self.folder.file(&on_disk(&spec.name, "done"))?;
        Ok(file.map(|(_, metadata)| metadata).filter(|metadata| metadata.len() == spec.size))
    }

    /// A file that is as announced and done; none if it is not.
    pub(crate) fn open_done(&self, spec: &FileSpec) -> Result<Option<File>, StagingError> {
        if self.announced(&spec.name)?.as_ref() != Some(spec) {
            return Ok(None);
        }
        let found = self.folder.file(&on_disk(&spec.name, "done"))?;
        Ok(found.filter(|(_, metadata)| metadata.len() == spec.size).map(|(file, _)| file))
    }

    /// Moves a done file to where its job finds it. False if it is not there.
    pub(crate) fn hand_over(&self, name: &FileName, target: &Folder) -> Result<bool, StagingError> {
        let done = on_disk(name, "done");
        if self.folder.file(&done)?.is_none() {
            return Ok(false);
        }
        self.folder.rename(&done, target, name.last())?;
        Ok(true)
    }

    /// Gives a done file a second name, where jobs find it that share it.
    pub(crate) fn link(&self, name: &FileName, target: &Folder) -> Result<(), StagingError> {
        self.folder.link(&on_disk(name, "done"), target, name.last())
    }

    /// Everything announced.
    pub(crate) fn all(&self) -> Result<Vec<FileSpec>, StagingError> {
        let mut specs = Vec::new();
        for entry in self.folder.entries(usize::MAX)?.0 {
            if let Some(name) = entry.name.to_str().ok().filter(|name| name.ends_with(".meta")) {
                specs.extend(self.read(name)?);
            }
        }
        Ok(specs)
    }

    /// Sets the time that [`touched`](Incoming::touched) returns.
    pub(crate) fn touch(&self, now: SystemTime) -> Result<(), StagingError> {
        for spec in self.all()?.iter().take(1) {
            let meta = on_disk(&spec.name, "meta");
            if let Some((file, _)) = self.folder.file(&meta)? {
                let touched = file.set_modified(now);
                touched.map_err(|error| StagingError::io(self.folder.path_of(&meta), error))?;
            }
        }
        Ok(())
    }

    /// When anything last came, by the clock of the file system.
    pub(crate) fn touched(&self) -> Result<Time, StagingError> {
        let mut newest = Time(0);
        for entry in self.folder.entries(usize::MAX)?.0 {
            if let Ok(name) = entry.name.to_str()
                && let Some((_, metadata)) = self.folder.file(name)?
            {
                newest = newest.max(Time(metadata.mtime()));
            }
        }
        Ok(newest)
    }
}
