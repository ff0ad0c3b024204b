//! What a submission says of its input files.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use super::error::StagingError;
use super::names::FileName;

/// A file as it is announced, and checked when it is there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Its name in the working folder of the job.
    pub name: FileName,
    /// Its size in bytes.
    pub size: u64,
    /// Its checksum.
    pub sha256: Checksum,
}

/// Checks that files can lie beside each other: no name twice, none a folder of another.
///
/// # Errors
///
/// [`StagingError::Clash`], with the two names.
pub fn check_manifest(files: &[FileSpec]) -> Result<(), StagingError> {
    let clash = |first: &FileName, second: &FileName| {
        Err(StagingError::Clash { first: first.clone(), second: second.clone() })
    };
    let mut names = BTreeSet::new();
    for file in files {
        if !names.insert(&file.name) {
            return clash(&file.name, &file.name);
        }
    }
    for file in files {
        for (end, _) in file.name.as_str().match_indices('/') {
            let folder = file.name.as_str()[..end].parse::<FileName>();
            if let Some(other) = folder.ok().as_ref().and_then(|folder| names.get(folder)) {
                return clash(other, &file.name);
            }
        }
    }
    Ok(())
}
