//! Joining the folders of shards: the result is what one machine would have written, byte for byte.

use std::path::Path;

use super::store::{Store, Stored};
use super::{CampaignError, Damage, Results};

/// What came out of a merge.
#[derive(Clone, PartialEq, Debug)]
pub struct Merged {
    /// The results of all folders.
    pub results: Results,
    /// Keys of the runs that no folder has.
    pub missing: Vec<String>,
    /// Files of runs that could not be used. Their runs are missing unless another folder had them.
    pub damaged: Vec<Damage>,
}

/// Joins campaign folders of one campaign into `out`, which may hold some of its runs already.
pub fn merge(out: &Path, dirs: &[&Path]) -> Result<Merged, CampaignError> {
    let Some(first) = dirs.first() else { return Err(CampaignError::NothingToMerge) };
    let manifest = Store::open(first)?.manifest;
    // All are looked at before anything is written.
    let mut parts = Vec::with_capacity(dirs.len());
    for dir in dirs {
        let part = Store::open(dir)?;
        if part.manifest != manifest {
            return Err(CampaignError::Changed {
                dir: (*dir).to_owned(),
                expected: (manifest.name, manifest.fingerprint),
                found: (part.manifest.name, part.manifest.fingerprint),
            });
        }
        parts.push(part);
    }
    let whole = Store::create(out, manifest)?;
    let (mut missing, mut damaged) = (Vec::new(), Vec::new());
    for key in &whole.manifest.runs {
        let mut usable = |stored| match stored {
            Stored::Whole(run) => Some(run),
            Stored::Damaged(damage) => {
                damaged.push(damage);
                None
            }
            Stored::Absent => None,
        };
        if usable(whole.read_run(key)).is_some() {
            continue;
        }
        match parts.iter().find_map(|part| usable(part.read_run(key))) {
            Some(run) => whole.write_run(&run)?,
            None => missing.push(key.clone()),
        }
    }
    damaged.dedup();
    Ok(Merged { results: whole.write_results()?, missing, damaged })
}
