//! Running a campaign: groups in parallel, runs of a group in order, finished runs kept.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pliant_model::{Platform, Run, Speedup};
use pliant_policy::batch::order::LocalPolicyChange;
use rayon::prelude::*;

use super::jobs::{Cache, sim_jobs};
use super::store::{Manifest, Store, Stored};
use super::{
    Campaign, CampaignError, Damage, Group, JobSource, Measure, Measured, Record, Results, Shard, Sizes,
    Treatment,
};
use crate::optional::{self, Scenario, System};
use crate::{Policies, Silent, SimError, SimJob, simulate};

/// The most threads that a campaign is run on: more than any machine has cores. Each costs memory even if
/// there is nothing for it to do.
pub const THREADS_MAX: usize = 1_024;

/// How a campaign is run; nothing here changes its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Threads, at most [`THREADS_MAX`]; 0 for as many as the thread pool has by default. There are
    /// never more than groups of runs.
    pub threads: usize,
    /// Which part of the campaign.
    pub shard: Shard,
}

/// Is told how far a campaign is, from any thread.
pub trait Progress: Sync {
    /// `total` runs belong to this shard; `kept` of them are there already.
    fn planned(&self, total: usize, kept: usize);
    /// One more run is there.
    fn finished(&self, key: &str);
}

/// What came out.
#[derive(Clone, PartialEq, Debug)]
pub struct Finished {
    /// Every result in the folder.
    pub results: Results,
    /// Runs that were simulated now.
    pub simulated: usize,
    /// Runs that were there already.
    pub kept: usize,
    /// Files of runs that were there and could not be used; these runs were simulated again.
    pub damaged: Vec<Damage>,
}

/// Runs a campaign, or what is left of it, into `dir`.
pub fn run(
    campaign: &Campaign,
    dir: &Path,
    options: Options,
    measure: &Measure<'_>,
    progress: &dyn Progress,
) -> Result<Finished, CampaignError> {
    let threads = checked(options.threads)?;
    if campaign.workloads.is_empty() {
        return Err(CampaignError::NoWorkload);
    }
    // A mistake in one of them is told before anything is written or simulated.
    for workload in campaign.workloads.iter().filter(|one| !matches!(one.source, JobSource::Scenario(_))) {
        workload.platforms.iter().try_for_each(|platform| platform.load(&campaign.base).map(drop))?;
    }
    let store = Store::create(dir, Manifest::of(campaign)?)?;
    let groups = campaign.groups();
    let groups: Vec<Group> =
        (0..groups.len()).filter(|at| options.shard.holds(*at)).map(|at| groups[at]).collect();
    let mut damaged = Vec::new();
    let pending: Vec<(Group, Vec<usize>)> = groups
        .iter()
        .map(|group| (*group, missing(campaign, &store, group, &mut damaged)))
        .filter(|(_, policies)| !policies.is_empty())
        .collect();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.min(pending.len()))
        .build()
        .map_err(|error| CampaignError::Threads(error.to_string()))?;
    let total = groups.len() * campaign.policies.len();
    let simulated: usize = pending.iter().map(|(_, policies)| policies.len()).sum();
    let kept = total - simulated;
    progress.planned(total, kept);
    let timing = Mutex::new(BTreeMap::new());
    let cache = Cache::new(campaign);
    let shared = Shared { campaign, store: &store, cache: &cache, measure, progress, timing: &timing };
    let outcome = pool.install(|| {
        pending.par_iter().with_max_len(1).try_for_each(|(group, policies)| shared.run_group(group, policies))
    });
    store.write_timing(&timing.into_inner().unwrap_or_else(PoisonError::into_inner))?;
    outcome?;
    Ok(Finished { results: store.write_results()?, simulated, kept, damaged })
}

/// A number of threads that is not too high.
pub(super) fn checked(threads: usize) -> Result<usize, CampaignError> {
    if threads > THREADS_MAX { Err(CampaignError::TooManyThreads(threads)) } else { Ok(threads) }
}

/// Policies of a group whose results are not there, the reference first.
fn missing(campaign: &Campaign, store: &Store, group: &Group, damaged: &mut Vec<Damage>) -> Vec<usize> {
    let mut policies: Vec<usize> = (0..campaign.policies.len())
        .filter(|policy| match store.read_run(&campaign.key(group, *policy)) {
            Stored::Whole(_) => false,
            Stored::Absent => true,
            Stored::Damaged(damage) => {
                damaged.push(damage);
                true
            }
        })
        .collect();
    policies.sort_by_key(|policy| *policy != campaign.reference);
    policies
}

/// What all groups use.
struct Shared<'a> {
    campaign: &'a Campaign,
    store: &'a Store,
    cache: &'a Cache<'a>,
    measure: &'a Measure<'a>,
    progress: &'a dyn Progress,
    timing: &'a Mutex<BTreeMap<String, f64>>,
}

impl Shared<'_> {
    /// Simulates `policies` of a group.
    fn run_group(&self, group: &Group, policies: &[usize]) -> Result<(), CampaignError> {
        match &self.campaign.workloads[group.workload].source {
            JobSource::Scenario(scenario) => self.run_requests(group, policies, scenario),
            JobSource::File { .. } | JobSource::Generated { .. } => self.run_jobs(group, policies),
        }
    }

    /// The reference is simulated even if its own result is there: the others are compared with it job by job, and
    /// only results are kept on disk.
    fn run_jobs(&self, group: &Group, policies: &[usize]) -> Result<(), CampaignError> {
        let workload = self.cache.get(group)?;
        let jobs = sim_jobs(workload.jobs.clone(), group.moldable, group.share, group.seed);
        let reference = self.campaign.reference;
        let (reference_run, mut seconds) = self.simulate(group, reference, &workload.platform, &jobs)?;
        for &policy in policies {
            let run;
            let measured = if policy == reference {
                Measured::Jobs { run: &reference_run, reference: None }
            } else {
                (run, seconds) = self.simulate(group, policy, &workload.platform, &jobs)?;
                Measured::Jobs { run: &run, reference: Some(&reference_run) }
            };
            self.keep(group, policy, measured, seconds)?;
        }
        Ok(())
    }

    fn run_requests(
        &self,
        group: &Group,
        policies: &[usize],
        scenario: &Scenario,
    ) -> Result<(), CampaignError> {
        for &policy in policies {
            let begun = Instant::now();
            let run = optional::simulate(scenario, &self.system(policy), group.seed);
            self.keep(group, policy, Measured::Requests(&run), begun.elapsed().as_secs_f64())?;
        }
        Ok(())
    }

    /// Measures a run and keeps its result.
    fn keep(
        &self,
        group: &Group,
        policy: usize,
        measured: Measured<'_>,
        seconds: f64,
    ) -> Result<(), CampaignError> {
        let key = self.campaign.key(group, policy);
        let failed = |problem| CampaignError::Measure { key: key.clone(), problem };
        let metrics = (self.measure)(measured).map_err(failed)?;
        self.store.write_run(&self.record(group, policy, metrics))?;
        self.timing.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), seconds);
        self.progress.finished(&key);
        Ok(())
    }

    /// What is done with requests.
    fn system(&self, policy: usize) -> System {
        match self.campaign.policies[policy].treatment {
            Treatment::Requests(system) => system,
            Treatment::Jobs { .. } => unreachable!("scenarios are read with systems only"),
        }
    }

    /// What is done with jobs.
    fn policies(&self, policy: usize) -> (Policies, &LocalPolicyChange, Sizes) {
        match &self.campaign.policies[policy].treatment {
            Treatment::Jobs { policies, local, sizes } => (policies.clone(), local, *sizes),
            Treatment::Requests(_) => unreachable!("workloads are read with policies only"),
        }
    }

    fn simulate(
        &self,
        group: &Group,
        policy: usize,
        platform: &Platform,
        jobs: &[SimJob],
    ) -> Result<(Run, f64), CampaignError> {
        let (mut policies, local, sizes) = self.policies(policy);
        policies.seed = group.seed;
        // Moves are counted; which job moved where is not kept in a campaign.
        policies.keep_moves = false;
        let begun = Instant::now();
        let failed = |source| CampaignError::Run { key: self.campaign.key(group, policy), source };
        let platform = local.made_to(platform).map_err(|unknown| failed(SimError::Batch(unknown)))?;
        let run = match sizes {
            Sizes::Chosen => simulate(&platform, jobs, &policies, &mut Silent),
            Sizes::Asked => simulate(&platform, jobs.iter().map(rigid), &policies, &mut Silent),
        };
        Ok((run.map_err(failed)?, begun.elapsed().as_secs_f64()))
    }

    fn record(&self, group: &Group, policy: usize, metrics: BTreeMap<String, f64>) -> Record {
        let workload = &self.campaign.workloads[group.workload];
        Record {
            key: self.campaign.key(group, policy),
            workload: workload.name.clone(),
            platform: workload.platforms[group.platform].label(),
            moldable: group.moldable.name().to_owned(),
            dedicated_share: group.share,
            seed: group.seed,
            policy: self.campaign.policies[policy].name.clone(),
            metrics,
        }
    }
}

/// The job in the size that its user asked for.
fn rigid(one: &SimJob) -> SimJob {
    SimJob { speedup: Speedup::Rigid, true_speedup: None, ..one.clone() }
}
