//! The jobs of a campaign: workloads read or generated once, and made ready for a run.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pliant_model::{Job, Platform, Procs, Speedup};
use pliant_policy::batch;
use pliant_trace::moldable::{assign_managed, assign_types};
use pliant_trace::platform;
use pliant_trace::{LoadOptions, RepairOptions, RepairPolicy, TraceError};

use super::{Campaign, CampaignError, Group, JobSource, Moldable, PlatformChoice, Workload};
use crate::SimJob;

/// The jobs as a run treats them: which are moldable and how, and which come through the federation, are
/// drawn from `seed` (paper 000, sections 4.2.1 and 4.3.2).
pub fn sim_jobs(jobs: Vec<Job>, moldable: Moldable, dedicated_share: f64, seed: u64) -> Vec<SimJob> {
    let speedups = match moldable {
        Moldable::None => vec![Speedup::Rigid; jobs.len()],
        Moldable::Paper => assign_types(&jobs, seed),
    };
    let managed = assign_managed(&jobs, dedicated_share, seed);
    let drawn = speedups.into_iter().zip(managed);
    jobs.into_iter().zip(drawn).map(|(job, (speedup, managed))| SimJob { job, speedup, managed }).collect()
}

/// A workload on a platform.
pub(super) struct Loaded {
    pub(super) platform: Platform,
    pub(super) jobs: Vec<Job>,
}

/// Workloads that are the same for every seed, each read or generated once.
pub(super) struct Cache<'a> {
    campaign: &'a Campaign,
    /// By workload, then by platform.
    loaded: Vec<Vec<OnceLock<Arc<Loaded>>>>,
}

impl<'a> Cache<'a> {
    pub(super) fn new(campaign: &'a Campaign) -> Cache<'a> {
        let slots = |platforms: usize| (0..platforms).map(|_| OnceLock::new()).collect();
        let loaded = campaign.workloads.iter().map(|workload| slots(workload.platforms.len())).collect();
        Cache { campaign, loaded }
    }

    /// The workload of a group.
    pub(super) fn get(&self, group: &Group) -> Result<Arc<Loaded>, CampaignError> {
        let workload = &self.campaign.workloads[group.workload];
        if let JobSource::Generated { per_seed: true, .. } = workload.source {
            return self.load(group).map(Arc::new);
        }
        let slot = &self.loaded[group.workload][group.platform];
        if let Some(loaded) = slot.get() {
            return Ok(Arc::clone(loaded));
        }
        // Two threads may both come here; the second one's work is thrown away.
        let loaded = Arc::new(self.load(group)?);
        Ok(Arc::clone(slot.get_or_init(|| loaded)))
    }

    fn load(&self, group: &Group) -> Result<Loaded, CampaignError> {
        let Workload { source, platforms, .. } = &self.campaign.workloads[group.workload];
        let base = &self.campaign.base;
        let platform = platforms[group.platform].load(base)?;
        let mut workload = match source {
            JobSource::File { path, keep_bad } => {
                let policy = if *keep_bad { RepairPolicy::KeepBad } else { RepairPolicy::Clean };
                let repair = RepairOptions { policy, strict: false };
                let log_dirs = std::env::var_os("PLIANT_TRACES").map(PathBuf::from).into_iter().collect();
                pliant_trace::load(&base.join(path), &LoadOptions { repair, log_dirs })?
            }
            JobSource::Generated { recipe, seed, per_seed } => {
                recipe.generate(&platform, if *per_seed { group.seed } else { *seed })
            }
        };
        workload.resolve_origins(&platform);
        Ok(Loaded { platform, jobs: workload.jobs })
    }
}

impl PlatformChoice {
    /// The platform; a file's path starts from `base`.
    pub fn load(&self, base: &Path) -> Result<Platform, TraceError> {
        match self {
            Self::Procs(procs) => Ok(Platform::single(Procs((*procs).max(1)), platform::DEFAULT_BATCH)
                .expect("one cluster with processors is a platform")),
            Self::Named(word) => {
                platform::built_in(word).map_or_else(|| platform::load(&base.join(word), &batch::names()), Ok)
            }
        }
    }

    /// The file that describes it, if it is not built in.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::Named(word) if !platform::BUILT_IN.contains(&word.as_str()) => Some(Path::new(word)),
            Self::Named(_) | Self::Procs(_) => None,
        }
    }

    /// Its name in keys and tables.
    pub fn label(&self) -> String {
        match self {
            Self::Procs(procs) => format!("{procs}-procs"),
            Self::Named(word) => Path::new(word)
                .file_stem()
                .map_or_else(|| word.clone(), |stem| stem.to_string_lossy().into_owned()),
        }
    }
}
