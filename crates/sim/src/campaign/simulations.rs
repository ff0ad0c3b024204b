//! Campaigns of simulations. The runs of a group have the same jobs and share a reference run, which is simulated once and
//! kept in memory while its group runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use pliant_model::campaign::Results;
use pliant_model::campaign::simulations::{self, Record};
use pliant_model::{PlannedJob, Platform, Run, Speedup, Time};
use pliant_policy::batch::order::LocalPolicyChange;
use serde::{Deserialize, Serialize};

use super::experiment::{Experiment, Files, RecordSink};
use super::jobs::{Cache, sim_jobs};
use super::{
    CampaignError, Fingerprint, Group, JobSource, Kind, Measure, Measured, PlatformChoice, Progress,
    SimulationCampaign, Sizes, VariantPolicies, Workload,
};
use crate::optional::{self, Scenario, System};
use crate::{Observer, Policies, SimError, SimJob, simulate};

/// The version of `results.json`.
const SCHEMA: &str = "pliant.campaign/1";

/// A campaign of simulations in execution.
pub(super) struct Simulations<'a> {
    campaign: &'a SimulationCampaign,
    groups: Vec<Group>,
    cache: Cache<'a>,
    measure: &'a Measure<'a>,
    progress: &'a dyn Progress,
}

/// The input of results that is not in the records.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    reference: String,
    compare_with: BTreeMap<String, Vec<String>>,
}

impl<'a> Simulations<'a> {
    pub(super) fn new(
        campaign: &'a SimulationCampaign,
        measure: &'a Measure<'a>,
        progress: &'a dyn Progress,
    ) -> Simulations<'a> {
        Simulations { campaign, groups: campaign.groups(), cache: Cache::new(campaign), measure, progress }
    }
}

impl Experiment for Simulations<'_> {
    type Record = Record;
    type Plan = Plan;

    const KIND: Kind = Kind::Simulations;

    fn name(&self) -> &str {
        &self.campaign.name
    }

    fn check(&self) -> Result<(), CampaignError> {
        let SimulationCampaign { workloads, base, .. } = self.campaign;
        if workloads.is_empty() {
            return Err(CampaignError::NoWorkload);
        }
        for workload in workloads.iter().filter(|one| !matches!(one.source, JobSource::Scenario(_))) {
            workload.platforms.iter().try_for_each(|platform| platform.load(base).map(drop))?;
        }
        Ok(())
    }

    fn identify(&self, fingerprint: &mut Fingerprint) -> Result<(), CampaignError> {
        let SimulationCampaign { seeds, dedicated_shares, moldable, workloads, policies, reference, .. } =
            self.campaign;
        fingerprint.add(&(
            seeds,
            dedicated_shares,
            moldable,
            policies,
            reference,
            self.campaign.planned_starts,
        ));
        let mut logs: BTreeSet<&Path> = BTreeSet::new();
        let mut platforms: BTreeSet<&Path> = BTreeSet::new();
        for workload in workloads {
            // Whether a workload is optional does not change its results.
            let Workload { name, source, optional: _, sequence, platforms: choices } = workload;
            fingerprint.add(&(name, source, sequence, choices));
            if let JobSource::File { path, .. } = source {
                logs.insert(path);
            }
            platforms.extend(choices.iter().filter_map(PlatformChoice::file));
        }
        logs.into_iter().try_for_each(|log| fingerprint.file(&self.campaign.log(log)?))?;
        platforms.into_iter().try_for_each(|file| fingerprint.file(&self.campaign.base.join(file)))
    }

    fn plan(&self) -> Plan {
        let SimulationCampaign { policies, reference, .. } = self.campaign;
        let compared = policies.iter().filter(|one| !one.compare_with.is_empty());
        Plan {
            reference: policies[*reference].name.clone(),
            compare_with: compared.map(|one| (one.name.clone(), one.compare_with.clone())).collect(),
        }
    }

    fn groups(&self) -> Vec<Vec<String>> {
        let policies = 0..self.campaign.policies.len();
        let keys = |group| policies.clone().map(|at| self.campaign.key(group, at)).collect();
        self.groups.iter().map(keys).collect()
    }

    fn run(
        &self,
        group: usize,
        policies: &[usize],
        keep: &RecordSink<'_, Record>,
    ) -> Result<(), CampaignError> {
        let group = &self.groups[group];
        match &self.campaign.workloads[group.workload].source {
            JobSource::Scenario(scenario) => self.run_requests(group, policies, scenario, keep),
            JobSource::File { .. } | JobSource::Generated { .. } => self.run_jobs(group, policies, keep),
        }
    }

    fn collect(name: String, plan: Plan, planned: usize, runs: Vec<Record>) -> (Results, Files) {
        let Plan { reference, compare_with } = plan;
        let schema = SCHEMA.to_owned();
        let results = simulations::Results { schema, name, reference, compare_with, planned, runs };
        let table = to_csv(&results.runs);
        (Results::Simulations(results), vec![("results.csv", table.into_bytes())])
    }
}

impl Simulations<'_> {
    /// The reference is simulated even if it has a record: the others are compared with it job by job, and only metrics are kept
    /// on disk.
    fn run_jobs(
        &self,
        group: &Group,
        policies: &[usize],
        keep: &RecordSink<'_, Record>,
    ) -> Result<(), CampaignError> {
        let workload = self.cache.get(group)?;
        let jobs = sim_jobs(workload.jobs.clone(), group.moldable, group.share, group.seed);
        let reference = self.campaign.reference;
        let before = self.simulate(group, reference, &workload.platform, &jobs)?;
        for &policy in policies {
            let simulated;
            let (Simulated { run, plans, seconds }, reference) = if policy == reference {
                (&before, None)
            } else {
                simulated = self.simulate(group, policy, &workload.platform, &jobs)?;
                (&simulated, Some(&before.run))
            };
            let measured = Measured::Jobs { run, reference, plans: plans.as_deref() };
            keep(policy, self.record(group, policy, measured)?, *seconds)?;
        }
        Ok(())
    }

    fn run_requests(
        &self,
        group: &Group,
        policies: &[usize],
        scenario: &Scenario,
        keep: &RecordSink<'_, Record>,
    ) -> Result<(), CampaignError> {
        for &policy in policies {
            let started = Instant::now();
            let run = optional::simulate(scenario, &self.system(policy), group.seed);
            let seconds = started.elapsed().as_secs_f64();
            keep(policy, self.record(group, policy, Measured::Requests(&run))?, seconds)?;
        }
        Ok(())
    }

    /// The system of a variant for requests.
    fn system(&self, policy: usize) -> System {
        match self.campaign.policies[policy].treatment {
            VariantPolicies::Requests(system) => system,
            VariantPolicies::Jobs { .. } => unreachable!("scenarios are read with systems only"),
        }
    }

    /// The policies of a variant for jobs.
    fn policies(&self, policy: usize) -> (Policies, &LocalPolicyChange, Sizes) {
        match &self.campaign.policies[policy].treatment {
            VariantPolicies::Jobs { policies, local, sizes } => (Policies::clone(policies), local, *sizes),
            VariantPolicies::Requests(_) => unreachable!("workloads are read with policies only"),
        }
    }

    fn simulate(
        &self,
        group: &Group,
        policy: usize,
        platform: &Platform,
        jobs: &[SimJob],
    ) -> Result<Simulated, CampaignError> {
        let (mut policies, local, sizes) = self.policies(policy);
        policies.seed = group.seed;
        // Campaigns keep only the number of moves.
        policies.keep_moves = false;
        let started = Instant::now();
        let failed = |source| match source {
            SimError::Stopped => CampaignError::Cancelled,
            source => CampaignError::Run { key: self.campaign.key(group, policy), source },
        };
        let platform = local.made_to(platform).map_err(|unknown| failed(SimError::Batch(unknown)))?;
        let plans = self.campaign.planned_starts.then(Vec::new);
        let mut watcher = Watcher { plans, progress: self.progress };
        let run = match sizes {
            Sizes::Chosen => simulate(&platform, jobs, &policies, &mut watcher),
            Sizes::Asked => simulate(&platform, jobs.iter().map(rigid), &policies, &mut watcher),
        };
        let run = run.map_err(failed)?;
        Ok(Simulated { run, plans: watcher.plans, seconds: started.elapsed().as_secs_f64() })
    }

    /// Measures a run.
    fn record(&self, group: &Group, policy: usize, measured: Measured<'_>) -> Result<Record, CampaignError> {
        let key = self.campaign.key(group, policy);
        let metrics = (self.measure)(measured);
        let metrics = metrics.map_err(|problem| CampaignError::Measure { key: key.clone(), problem })?;
        let workload = &self.campaign.workloads[group.workload];
        Ok(Record {
            key,
            workload: workload.name.clone(),
            platform: workload.platforms[group.platform].label(),
            moldable: group.moldable.name().to_owned(),
            dedicated_share: group.share,
            seed: group.seed,
            policy: self.campaign.policies[policy].name.clone(),
            metrics,
        })
    }
}

/// A run, the plans of its jobs if they are measured, and how long the simulation took.
struct Simulated {
    run: Run,
    plans: Option<Vec<PlannedJob>>,
    seconds: f64,
}

/// Records the plans of jobs, if there is a list for them, and ends a run of a cancelled campaign.
struct Watcher<'a> {
    plans: Option<Vec<PlannedJob>>,
    progress: &'a dyn Progress,
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, _: usize, _: usize, _: Time) -> bool {
        !self.progress.is_cancelled()
    }

    fn plans(&mut self) -> Option<&mut Vec<PlannedJob>> {
        self.plans.as_mut()
    }
}

/// The job in the size that its user requested.
fn rigid(one: &SimJob) -> SimJob {
    SimJob { speedup: Speedup::Rigid, true_speedup: None, ..one.clone() }
}

/// One line per run; missing metrics are empty.
fn to_csv(runs: &[Record]) -> String {
    let metrics: BTreeSet<&str> =
        runs.iter().flat_map(|run| run.metrics.keys().map(String::as_str)).collect();
    let mut text = String::from("key,workload,platform,moldable,dedicated_share,seed,policy");
    metrics.iter().for_each(|metric| text.extend([",", metric]));
    text.push('\n');
    for run in runs {
        let Record { key, workload, platform, moldable, dedicated_share, seed, policy, .. } = run;
        text.push_str(&format!("{key},{workload},{platform},{moldable},{dedicated_share},{seed},{policy}"));
        for metric in &metrics {
            text.push(',');
            if let Some(value) = run.metrics.get(*metric) {
                text.push_str(&value.to_string());
            }
        }
        text.push('\n');
    }
    text
}
