//! The jobs of a campaign: workloads are read or generated once and prepared for each run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pliant_model::{Job, Platform, Procs, Speedup};
use pliant_policy::batch::order::local_policy;
use pliant_trace::moldable::{JobTypes, ManagedShare, MoldableShare, PerceivedSpeedups, within_twice};
use pliant_trace::platform;
use pliant_trace::{LoadOptions, RepairOptions, RepairPolicy, TraceError};

use super::experiment::Shared;
use super::{CampaignError, Group, JobSource, Moldable, PlatformChoice, SimulationCampaign, Workload};
use crate::SimJob;

/// Prepares the jobs of a workload for a run, one after the other. A seed draws which jobs are moldable and how, and which
/// go through the federation (paper 000, sections 4.2.1 and 4.3.2).
#[derive(Clone, Debug)]
pub struct SimJobs {
    types: JobTypes,
    freedom: TypeUse,
    locality: ManagedShare,
}

/// How a job uses its drawn type.
#[derive(Clone, Debug)]
enum TypeUse {
    /// Every job keeps its size.
    None,
    /// It scales as its type.
    Whole,
    /// It scales as its type, from half to twice the requested size.
    WithinTwice,
    /// Some jobs scale as their type, the others keep their size.
    Share(MoldableShare),
    /// Its assumed speedup is wrong.
    Misjudged(PerceivedSpeedups),
}

impl SimJobs {
    /// Starts with the first job of a workload.
    pub fn new(moldable: Moldable, dedicated_share: f64, seed: u64) -> SimJobs {
        let freedom = match moldable {
            Moldable::None => TypeUse::None,
            Moldable::Paper => TypeUse::Whole,
            Moldable::PaperWithin2x => TypeUse::WithinTwice,
            Moldable::PaperThird => TypeUse::Share(MoldableShare::new(1.0 / 3.0, seed)),
            Moldable::PaperMisjudged => TypeUse::Misjudged(PerceivedSpeedups::new(seed)),
        };
        SimJobs { types: JobTypes::new(seed), freedom, locality: ManagedShare::new(dedicated_share, seed) }
    }

    /// Prepares the next job.
    pub fn take(&mut self, job: Job) -> SimJob {
        let managed = self.locality.draw();
        let drawn = self.types.draw(&job);
        let (speedup, true_speedup) = match &mut self.freedom {
            TypeUse::None => (Speedup::Rigid, None),
            TypeUse::Whole => (drawn, None),
            TypeUse::WithinTwice => (within_twice(&drawn, job.procs), None),
            TypeUse::Share(share) => (if share.draw() { drawn } else { Speedup::Rigid }, None),
            TypeUse::Misjudged(beliefs) => match beliefs.draw(&drawn) {
                believed if believed == drawn => (drawn, None),
                believed => (believed, Some(drawn)),
            },
        };
        SimJob { job, speedup, true_speedup, managed }
    }
}

/// Prepares all jobs of a workload with [`SimJobs`].
pub fn sim_jobs(jobs: Vec<Job>, moldable: Moldable, dedicated_share: f64, seed: u64) -> Vec<SimJob> {
    let mut drawn = SimJobs::new(moldable, dedicated_share, seed);
    jobs.into_iter().map(|job| drawn.take(job)).collect()
}

/// A workload on a platform.
pub(super) struct Loaded {
    pub(super) platform: Platform,
    pub(super) jobs: Vec<Job>,
}

/// The workloads that are equal for every seed, each read or generated once.
pub(super) struct Cache<'a> {
    campaign: &'a SimulationCampaign,
    /// By workload, then by platform.
    loaded: Vec<Vec<Shared<Arc<Loaded>>>>,
}

impl<'a> Cache<'a> {
    pub(super) fn new(campaign: &'a SimulationCampaign) -> Cache<'a> {
        let slots = |platforms: usize| (0..platforms).map(|_| Shared::new()).collect();
        let loaded = campaign.workloads.iter().map(|workload| slots(workload.platforms.len())).collect();
        Cache { campaign, loaded }
    }

    /// The workload of a group, or the sequence of it for the group's seed.
    pub(super) fn get(&self, group: &Group) -> Result<Arc<Loaded>, CampaignError> {
        let loaded = self.whole(group)?;
        let workload = &self.campaign.workloads[group.workload];
        let Some(sequence) = &workload.sequence else { return Ok(loaded) };
        let position = self.campaign.seeds.iter().position(|seed| *seed == group.seed).unwrap_or_default();
        let too_short = |problem| CampaignError::Sequence { workload: workload.name.clone(), problem };
        let jobs = sequence.of(&loaded.jobs, position, group.seed).map_err(too_short)?;
        Ok(Arc::new(Loaded { platform: loaded.platform.clone(), jobs }))
    }

    fn whole(&self, group: &Group) -> Result<Arc<Loaded>, CampaignError> {
        let workload = &self.campaign.workloads[group.workload];
        if let JobSource::Generated { per_seed: true, .. } = workload.source {
            return self.load(group).map(Arc::new);
        }
        let slot = &self.loaded[group.workload][group.platform];
        slot.get(|| self.load(group).map(Arc::new)).map(Arc::clone)
    }

    fn load(&self, group: &Group) -> Result<Loaded, CampaignError> {
        let Workload { source, platforms, .. } = &self.campaign.workloads[group.workload];
        let base = &self.campaign.base;
        let platform = platforms[group.platform].load(base)?;
        let mut workload = match source {
            JobSource::File { path, keep_bad, month, load } => {
                let policy = if *keep_bad { RepairPolicy::KeepBad } else { RepairPolicy::Clean };
                let repair = RepairOptions { policy, strict: false };
                let path = self.campaign.log(path)?;
                let log_dirs = self.campaign.log_dirs.clone();
                let mut workload = pliant_trace::load(&path, &LoadOptions { repair, log_dirs })?;
                if let Some(month) = month {
                    workload.keep_month(*month).map_err(|problem| CampaignError::Month { path, problem })?;
                }
                if let Some(load) = load {
                    workload.offer(platform.capacity(), *load);
                }
                workload
            }
            JobSource::Generated { recipe, seed, per_seed } => {
                recipe.generate(&platform, if *per_seed { group.seed } else { *seed })
            }
            JobSource::Scenario(_) => unreachable!("a scenario has no jobs"),
        };
        workload.resolve_origins(&platform);
        Ok(Loaded { platform, jobs: workload.jobs })
    }
}

/// Finds a log in the folder of the campaign file or in the first of `log_dirs` that has it.
pub(super) fn find_log(base: &Path, log_dirs: &[PathBuf], file: &Path) -> Result<PathBuf, CampaignError> {
    let in_base = base.join(file);
    let in_log_dirs = log_dirs.iter().map(|dir| dir.join(file));
    let found = std::iter::once(in_base.clone()).chain(in_log_dirs).find(|path| path.exists());
    found.ok_or(CampaignError::NoLog(in_base))
}

/// An optional workload whose file is absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkippedWorkload {
    /// The workload.
    pub workload: String,
    /// The file, as in the campaign file.
    pub file: PathBuf,
}

impl SimulationCampaign {
    /// Finds a log.
    pub(super) fn log(&self, file: &Path) -> Result<PathBuf, CampaignError> {
        find_log(&self.base, &self.log_dirs, file)
    }

    /// Removes the optional workloads whose file is absent. The result is another campaign than the whole one, and their folders
    /// are not mixed.
    pub fn skip_absent(&mut self) -> Vec<SkippedWorkload> {
        let mut skipped = Vec::new();
        let (all, mut kept) = (std::mem::take(&mut self.workloads), Vec::new());
        for workload in all {
            match &workload.source {
                JobSource::File { path, .. } if workload.optional && self.log(path).is_err() => {
                    skipped.push(SkippedWorkload { workload: workload.name, file: path.clone() });
                }
                _ => kept.push(workload),
            }
        }
        self.workloads = kept;
        skipped
    }
}

impl PlatformChoice {
    /// Loads the platform; a file's path is relative to `base`.
    pub fn load(&self, base: &Path) -> Result<Platform, TraceError> {
        match self {
            Self::Procs(procs) => Ok(Platform::single(Procs((*procs).max(1)), platform::DEFAULT_BATCH)
                .expect("one cluster with processors is a platform")),
            Self::Named(word) => {
                platform::built_in(word).map_or_else(|| platform::load(&base.join(word), local_policy), Ok)
            }
            Self::Under { platform, batch } => Ok(platform.load(base)?.with_batch(batch)),
        }
    }

    /// Its file, if it is not built in.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::Named(word) if !platform::BUILT_IN.contains(&word.as_str()) => Some(Path::new(word)),
            Self::Named(_) | Self::Procs(_) => None,
            Self::Under { platform, .. } => platform.file(),
        }
    }

    /// Its name in keys and tables.
    pub fn label(&self) -> String {
        match self {
            Self::Procs(procs) => format!("{procs}-procs"),
            Self::Named(word) => Path::new(word)
                .file_stem()
                .map_or_else(|| word.clone(), |stem| stem.to_string_lossy().into_owned()),
            Self::Under { platform, batch } => format!("{}-{batch}", platform.label()),
        }
    }
}
