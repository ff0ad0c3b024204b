//! A simulation that stops at each decision of an agent: which waiting job of one cluster is next
//! ([`pliant_policy::batch::picked`]). Between two decisions it is the direct engine.

use std::borrow::Cow;

use pliant_model::{ClusterId, JobId, Platform, PlatformError, Procs, Run, Time};
use pliant_policy::batch::{Picks, picked};
use pliant_policy::mapping::Mapping;

use super::Engine;
use crate::{NoObserver, Policies, SimError, SimJob};

/// The only cluster.
const CLUSTER: ClusterId = ClusterId(0);

/// One simulation of one cluster.
pub struct Episode {
    engine: Engine<'static, std::vec::IntoIter<SimJob>>,
    picks: Picks,
    now: Time,
}

/// Where an episode stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A job is to be picked.
    Pick,
    /// All jobs have ended.
    Done,
}

impl Episode {
    /// The jobs, sorted by submission, on an empty cluster of that many processors, with or without backfilling.
    ///
    /// # Errors
    ///
    /// If there are no processors.
    pub fn new(procs: Procs, jobs: Vec<SimJob>, backfills: bool) -> Result<Episode, PlatformError> {
        let platform = Platform::single(procs, "fcfs")?;
        let policies = Policies { mapping: Mapping::Given, ..Policies::default() };
        let engine = Engine::new(&platform, jobs.into_iter(), Cow::Owned(policies), Default::default());
        let mut engine = engine.expect("fcfs is registered and supports these policies");
        let (scheduler, picks) = picked(procs, backfills);
        engine.federation.replace(CLUSTER, scheduler);
        Ok(Episode { engine, picks, now: Time::ZERO })
    }

    /// Goes on until a job is to be picked or all have ended. Changes nothing while a pick is due.
    ///
    /// # Errors
    ///
    /// If the jobs are not sorted.
    pub fn advance(&mut self) -> Result<Step, SimError> {
        while !self.picks.is_due() {
            let Some(now) = self.engine.next_instant() else { return Ok(Step::Done) };
            self.now = now;
            self.engine.pass(now, &mut NoObserver)?;
        }
        Ok(Step::Pick)
    }

    /// Picks a waiting job; returns false without any change if it does not wait, or no pick is due.
    pub fn pick(&mut self, job: JobId) -> bool {
        if !self.picks.pick(job) {
            return false;
        }
        // No end is extended: the cluster decides again.
        self.engine.federation.scheduler(CLUSTER).extend_running(self.now, &[]);
        self.engine.update_next_start(self.now, CLUSTER);
        self.engine.start_due(self.now);
        true
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The waiting jobs and the free processors.
    pub fn picks(&self) -> &Picks {
        &self.picks
    }

    /// What has run and ended, or started, so far.
    pub fn into_run(self) -> Run {
        self.engine.into_run()
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::{Job, Speedup};
    use pliant_policy::batch::order::LocalPolicyChange;

    use super::*;
    use crate::simulate;

    fn jobs() -> Vec<SimJob> {
        let platform = Platform::single(Procs(64), "fcfs").unwrap();
        let recipe = crate::campaign::Recipe {
            generator: crate::campaign::Generator::Lublin,
            month: None,
            jobs: Some(600),
            days: None,
            load: Some(0.9),
            walltime_max_s: None,
        };
        let sim = |job: Job| SimJob { job, speedup: Speedup::Rigid, true_speedup: None, managed: true };
        recipe.generate(&platform, 3).jobs.into_iter().map(sim).collect()
    }

    /// The run of an agent that always picks the oldest job.
    fn oldest_first(backfills: bool) -> Run {
        let mut episode = Episode::new(Procs(64), jobs(), backfills).unwrap();
        while episode.advance().unwrap() == Step::Pick {
            let mut oldest = None;
            episode.picks().oldest(1, |job| oldest = Some(job.job));
            assert!(episode.pick(oldest.unwrap()));
            assert!(!episode.pick(JobId(u32::MAX)), "a job that does not wait");
        }
        episode.into_run()
    }

    #[test]
    fn an_agent_that_picks_the_oldest_job_is_fcfs_and_with_backfilling_easy() {
        for (backfills, batch) in [(false, "fcfs"), (true, "easy")] {
            let platform = Platform::single(Procs(64), "fcfs").unwrap();
            let change = LocalPolicyChange { batch: Some(batch.to_owned()), ..LocalPolicyChange::default() };
            let platform = change.made_to(&platform).unwrap();
            let policies = Policies { mapping: Mapping::Given, ..Policies::default() };
            let expected = simulate(&platform, jobs(), &policies, &mut NoObserver).unwrap();
            assert!(expected.jobs.iter().any(|job| job.wait().0 > 0), "no job waits: nothing is decided");
            assert_eq!(oldest_first(backfills).jobs, expected.jobs, "{batch}");
        }
    }
}
