//! How uploads become the inputs of a job.
//!
//! Three steps, each of which can be cut short and taken again: `inputs.json` says which files are to be moved
//! and how to know them again; each is moved by one rename; `inputs.json` says that all were. What a job does to its
//! inputs after that is its own business: a fourth time, nothing happens.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use rustix::fs::Mode;
use serde::{Deserialize, Serialize};

use super::error::StagingError;
use super::folder::Folder;
use super::incoming::Incoming;
use super::manifest::FileSpec;

/// The working folder of a job, in the job's folder.
pub const WORK: &str = "work";
const INPUTS: &str = "inputs.json";

/// The inputs of a job, as they were when it got them.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Inputs {
    moved: bool,
    files: Vec<Input>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Input {
    spec: FileSpec,
    inode: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl Input {
    fn new(spec: FileSpec, metadata: &Metadata) -> Input {
        let (modified_s, modified_ns) = (metadata.mtime(), metadata.mtime_nsec());
        Input { spec, inode: metadata.ino(), modified_s, modified_ns }
    }

    fn is_still(&self, metadata: &Metadata) -> bool {
        let now = (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        (self.inode, self.spec.size, self.modified_s, self.modified_ns) == now
    }
}

impl Inputs {
    /// Those of the job in this folder; none before the first step of an adoption.
    pub(crate) fn read(job: &Folder) -> Result<Option<Inputs>, StagingError> {
        let Some(content) = job.read(INPUTS)? else { return Ok(None) };
        let inputs = serde_json::from_slice(&content);
        inputs.map(Some).map_err(|error| StagingError::Damaged {
            path: job.path_of(INPUTS),
            message: format!("expected the list of inputs, found {error}"),
        })
    }

    /// These files, which the job is given now: what it finds under their names is an input of it as long as it is not touched.
    pub(crate) fn given(
        job: &Folder,
        files: impl IntoIterator<Item = (FileSpec, Metadata)>,
    ) -> Result<(), StagingError> {
        let mut files: Vec<Input> =
            files.into_iter().map(|(spec, metadata)| Input::new(spec, &metadata)).collect();
        files.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        Inputs { moved: true, files }.write(job)
    }

    /// Whether the job was given all of its files.
    pub(crate) fn are_given(job: &Folder) -> Result<bool, StagingError> {
        Ok(Inputs::read(job)?.is_some_and(|inputs| inputs.moved))
    }

    fn write(&self, job: &Folder) -> Result<(), StagingError> {
        let content = serde_json::to_vec(self).map_err(std::io::Error::from);
        let content = content.map_err(|error| StagingError::io(job.path_of(INPUTS), error))?;
        job.replace(INPUTS, &content, Mode::RUSR | Mode::WUSR)
    }

    /// True if `name` in the working folder is an input that was not touched.
    pub(crate) fn has_unchanged(&self, name: &str, metadata: &Metadata) -> bool {
        let at = self.files.binary_search_by(|input| input.spec.name.as_str().cmp(name));
        at.is_ok_and(|at| self.files[at].is_still(metadata))
    }
}

/// One adoption. Dropped at any moment, it can be begun again.
pub(crate) struct Adoption<'a> {
    job: &'a Folder,
    incoming: Option<Incoming>,
    inputs: Inputs,
}

impl<'a> Adoption<'a> {
    /// The first step: knows the files, or finds that they are known. `files` must be in a valid manifest.
    pub(crate) fn begin(
        job: &'a Folder,
        incoming: Option<Incoming>,
        files: &[FileSpec],
    ) -> Result<Adoption<'a>, StagingError> {
        let mut files = files.to_vec();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(inputs) = Inputs::read(job)? {
            if inputs.files.iter().map(|input| &input.spec).eq(&files) {
                return Ok(Adoption { job, incoming, inputs });
            }
            let message = "expected the inputs of this submission, found those of another".to_owned();
            return Err(StagingError::Damaged { path: job.path_of(INPUTS), message });
        }
        let mut inputs = Inputs::default();
        for spec in files {
            let metadata = match &incoming {
                Some(incoming) => incoming.done(&spec)?,
                None => None,
            };
            let metadata = metadata.ok_or_else(|| StagingError::Missing { name: spec.name.clone() })?;
            inputs.files.push(Input::new(spec, &metadata));
        }
        inputs.write(job)?;
        Ok(Adoption { job, incoming, inputs })
    }

    /// The second step, once for each file until it returns false.
    pub(crate) fn move_file(&self, index: usize) -> Result<bool, StagingError> {
        let Some(input) = self.inputs.files.get(index).filter(|_| !self.inputs.moved) else {
            return Ok(false);
        };
        let mut folder = self.job.make_child(WORK)?;
        for name in input.spec.name.folders() {
            folder = folder.make_child(name)?;
        }
        let name = &input.spec.name;
        let moved = match &self.incoming {
            Some(incoming) => incoming.hand_over(name, &folder)?,
            None => false,
        };
        let there = folder.file(name.last())?.is_some_and(|(_, metadata)| input.is_still(&metadata));
        if !there {
            return Err(StagingError::Missing { name: name.clone() });
        }
        if moved {
            folder.sync()?;
        }
        Ok(true)
    }

    /// The last step.
    pub(crate) fn end(mut self) -> Result<(), StagingError> {
        if self.inputs.moved {
            return Ok(());
        }
        self.job.make_child(WORK)?;
        self.inputs.moved = true;
        self.inputs.write(self.job)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::checksum::Checksum;
    use super::*;

    /// Uploads of two files that are done, and the folder of their job.
    fn two_files(root: &Path) -> Vec<FileSpec> {
        let specs = ["a.txt", "in/b.txt"].map(|name| FileSpec {
            name: name.parse().unwrap(),
            size: name.len() as u64,
            sha256: Checksum::of(name.as_bytes()),
        });
        let incoming = incoming(root).unwrap();
        for spec in &specs {
            incoming.announce(spec).unwrap();
            let mut part = incoming.part(spec).unwrap();
            part.append(0, spec.name.as_str().as_bytes()).unwrap();
            part.verify().unwrap();
            incoming.settle(&spec.name).unwrap();
        }
        specs.to_vec()
    }

    fn incoming(root: &Path) -> Option<Incoming> {
        let folder = Folder::create(root).unwrap();
        Some(Incoming::new(folder.make_child("incoming").unwrap()))
    }

    fn adopt(root: &Path, files: &[FileSpec]) -> Result<(), StagingError> {
        let job = Folder::create(&root.join("job"))?;
        let adoption = Adoption::begin(&job, incoming(root), files)?;
        (0..)
            .try_for_each(|index| match adoption.move_file(index) {
                Ok(true) => Ok(()),
                Ok(false) => Err(None),
                Err(error) => Err(Some(error)),
            })
            .or_else(|stopped: Option<StagingError>| stopped.map_or(Ok(()), Err))?;
        adoption.end()
    }

    /// Cut after every number of steps, and begun again by another process.
    #[test]
    fn an_adoption_that_was_cut_short_goes_on() {
        for moves in 0..=2 {
            let root = tempfile::tempdir().unwrap();
            let files = two_files(root.path());
            let job = Folder::create(&root.path().join("job")).unwrap();
            let cut = Adoption::begin(&job, incoming(root.path()), &files).unwrap();
            for index in 0..moves {
                assert!(cut.move_file(index).unwrap());
            }
            drop(cut);
            adopt(root.path(), &files).unwrap();
            for name in ["a.txt", "in/b.txt"] {
                assert_eq!(std::fs::read_to_string(root.path().join("job/work").join(name)).unwrap(), name);
            }
        }
    }

    #[test]
    fn a_job_that_has_its_inputs_may_do_with_them_what_it_likes() {
        let root = tempfile::tempdir().unwrap();
        let files = two_files(root.path());
        adopt(root.path(), &files).unwrap();
        std::fs::remove_file(root.path().join("job/work/a.txt")).unwrap();
        std::fs::write(root.path().join("job/work/in/b.txt"), "mine").unwrap();
        adopt(root.path(), &files).unwrap();
        assert!(!root.path().join("job/work/a.txt").exists());
        assert_eq!(std::fs::read_to_string(root.path().join("job/work/in/b.txt")).unwrap(), "mine");
    }

    #[test]
    fn a_file_in_neither_folder_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let files = two_files(root.path());
        let job = Folder::create(&root.path().join("job")).unwrap();
        drop(Adoption::begin(&job, incoming(root.path()), &files).unwrap());
        std::fs::remove_dir_all(root.path().join("incoming")).unwrap();
        assert!(
            matches!(adopt(root.path(), &files), Err(StagingError::Missing { name }) if name.as_str() == "a.txt")
        );
        assert!(
            matches!(adopt(root.path(), &files[..1]), Err(StagingError::Damaged { .. })),
            "another submission's"
        );
    }
}
