//! The results of an ended job, with their checksums.

use std::io::Read;
use std::path::Path;

use pliant_model::Time;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use super::error::StagingError;
use super::folder::Folder;
use super::names::{FileName, shown};
use super::results::{
    LeftOut, LeftOutReason, ResultFile, ResultLimits, ResultName, Results, open_result, results,
};

const SEALED: &str = "results.json";

/// The results of an ended job.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SealedResults {
    /// The standard outputs, then the files in the order of their names.
    pub files: Vec<SealedFile>,
    /// What is not given back, as far as it is named.
    pub left_out: Vec<LeftOut>,
    /// How much is not given back.
    pub left_out_count: usize,
    /// The input files that the job left as they were, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<FileName>,
}

impl SealedResults {
    /// True if there are no more files and names than that: what an account answers is not trusted.
    pub fn is_within(&self, limits: ResultLimits) -> bool {
        let name_bytes = |name: &ResultName| match name {
            ResultName::File(name) => name.as_str().len(),
            ResultName::Stdout | ResultName::Stderr => 0,
        };
        // The standard outputs do not count.
        self.files.len() <= limits.files.saturating_add(2)
            && self.files.iter().map(|file| name_bytes(&file.name)).sum::<usize>() <= Results::NAME_BYTES_MAX
            && self.inputs.len() <= limits.files
            && self.inputs.iter().map(|name| name.as_str().len()).sum::<usize>() <= Results::NAME_BYTES_MAX
            && self.left_out.len() <= Results::LEFT_OUT_MAX
            && self.left_out.iter().all(|left| left.name.len() <= FileName::LENGTH_MAX)
    }
}

/// A result that does not change any more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SealedFile {
    /// What it is.
    pub name: ResultName,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written to, since the Unix epoch.
    pub modified: Time,
    /// Its checksum.
    pub sha256: Checksum,
}

/// Lists the results of a job that ended, reads each once for its checksum, and keeps the list beside them. May
/// be called again after a crash; what it finds then counts.
///
/// # Errors
///
/// If the job's folder cannot be read or written: [`StagingError::DiskFull`] among others.
pub fn seal(job_dir: &Path, limits: ResultLimits) -> Result<SealedResults, StagingError> {
    let sealed = sum_up(job_dir, limits)?;
    keep_sealed(job_dir, &sealed)?;
    Ok(sealed)
}

/// Lists results of a job that ended, and reads each once for its checksum.
///
/// # Errors
///
/// If the job's folder cannot be read.
pub fn sum_up(job_dir: &Path, limits: ResultLimits) -> Result<SealedResults, StagingError> {
    Ok(with_checksums(job_dir, results(job_dir, limits)?))
}

/// Reads listed results, each up to the size that it had when it was listed.
fn with_checksums(job_dir: &Path, listed: Results) -> SealedResults {
    let Results { files, left_out, left_out_count, mut inputs } = listed;
    inputs.sort();
    let mut sealed =
        SealedResults { files: Vec::with_capacity(files.len()), left_out, left_out_count, inputs };
    for ResultFile { name, size, modified } in files {
        let read = open_result(job_dir, &name, 0).and_then(|reader| {
            Checksum::of_reader(reader.take(size))
                .map_err(|error| StagingError::io(job_dir.join(name.to_string()), error))
        });
        match read {
            Ok((sha256, size)) => sealed.files.push(SealedFile { name, size, modified, sha256 }),
            Err(_) => {
                let name = shown(&name.to_string());
                if sealed.left_out.len() < Results::LEFT_OUT_MAX {
                    sealed.left_out.push(LeftOut { name, reason: LeftOutReason::Unreadable });
                }
                sealed.left_out_count += 1;
            }
        }
    }
    sealed
}

/// Keeps what was summed up, for [`sealed`], in a folder, which is made if it is not there.
///
/// # Errors
///
/// If it cannot be written: [`StagingError::DiskFull`] among others.
pub fn keep_sealed(dir: &Path, sealed: &SealedResults) -> Result<(), StagingError> {
    let job = Folder::create(dir)?;
    let content = serde_json::to_vec(sealed).map_err(std::io::Error::from);
    let content = content.map_err(|error| StagingError::io(job.path_of(SEALED), error))?;
    job.replace(SEALED, &content, Mode::RUSR | Mode::WUSR)
}

/// What [`seal`] kept; none if it did not end.
///
/// # Errors
///
/// [`StagingError::Damaged`] if it is not what [`seal`] writes; or the disk's.
pub fn sealed(job_dir: &Path) -> Result<Option<SealedResults>, StagingError> {
    let job = match Folder::open(job_dir) {
        Err(StagingError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        opened => opened?,
    };
    let Some(content) = job.read(SEALED)? else { return Ok(None) };
    serde_json::from_slice(&content).map(Some).map_err(|error| StagingError::Damaged {
        path: job.path_of(SEALED),
        message: format!("expected the list of results, found {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_is_read_up_to_the_size_that_was_listed() {
        let job = tempfile::tempdir().unwrap();
        std::fs::write(job.path().join("stdout"), "said").unwrap();
        let listed = results(job.path(), ResultLimits { files: 10, bytes: 10 }).unwrap();
        // It would take days to read.
        let file = std::fs::OpenOptions::new().write(true).open(job.path().join("stdout")).unwrap();
        file.set_len(1 << 40).unwrap();
        let found = with_checksums(job.path(), listed);
        assert_eq!((found.files[0].size, found.files[0].sha256), (4, Checksum::of(b"said")));
    }
}
