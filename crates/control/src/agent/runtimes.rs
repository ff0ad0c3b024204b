//! The runtimes of jobs, over all servers below this agent.
//!
//! Servers report a runtime with the status update of a job that has ended well ([`JobRecord::unit_runtime`],
//! [`JobRecord::runtime`]), by the rules of their own statistics ([`crate::server`]): in milliseconds, on a processor of
//! speed 1 and the fewest processors that the work takes. A service's runtime is divided by the factor of its arguments.
//! Users and all jobs count the runtimes as they were, and a batch counts as the mean of its instances.
//!
//! Only services that everybody may use are kept by name. Names of scripts are private to their users and unbounded in
//! number, and a script with the name of a service does not count for it. Jobs have no group: the federation knows a user
//! by the name in their certificate, and the accounts of a cluster stay inside that cluster.
//!
//! The agent also keeps prediction errors: the absolute error of the mean, and the share of jobs within a high quantile.
//! O(log categories + window) for each job.

use pliant_model::{Span, SpanMs};
use pliant_policy::runtimes::{
    CalibratedDump, CalibratedRuntimes, Categories, Errors, Level, Settings, Summary,
};
use serde::{Deserialize, Serialize};

use super::Agent;
use crate::job::JobRecord;
use crate::multi_job::Expectation;
use crate::names::User;
use crate::server_info::ServerInfo;

pub use pliant_policy::runtimes::CALIBRATED;

/// The most summaries to return; those with the most jobs.
const SUMMARIES_MAX: usize = 1_000;

/// Runtime statistics of a service, a user or all jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RuntimeSummary {
    /// The level: a service, a user or all jobs.
    pub level: Level,
    /// The service or the user; none of all jobs.
    pub name: Option<String>,
    /// The number of jobs that have ended well.
    pub jobs: u64,
    /// Their mean runtime.
    pub mean: SpanMs,
    /// The standard deviation.
    pub deviation: SpanMs,
    /// The runtime that half of the last jobs stayed within.
    pub median: SpanMs,
    /// The runtime that 95 % of the last jobs stayed within.
    pub p95: SpanMs,
}

/// Makes empty statistics.
pub(super) fn empty() -> CalibratedRuntimes {
    CalibratedRuntimes::new(Settings::FEDERATION)
}

/// Restores dumped statistics.
pub(super) fn restore(dump: CalibratedDump) -> CalibratedRuntimes {
    CalibratedRuntimes::restore(Settings::FEDERATION, dump)
}

impl Agent {
    /// Records the runtime of a job that has just ended.
    pub(super) fn learn_runtime(&mut self, record: &JobRecord) {
        let Some(ran) = record.runtime else { return };
        let is_offered = |info: &ServerInfo| info.services.iter().any(|(name, _)| *name == record.name);
        let is_public = record.unit_runtime.is_some() && self.servers().any(|(info, ..)| is_offered(info));
        let executable = is_public.then(|| record.name.clone());
        let of = Categories { executable, user: Some(record.owner.to_string()), group: None };
        self.learned.record(&of, Span(record.unit_runtime.unwrap_or(ran).0), Span(ran.0));
    }

    /// The expected runtime of a user's next job of a service: by the service or, where too few of its jobs have ended, by
    /// the user, or by all jobs. None before the first one.
    pub fn expectation(&self, service: &str, user: &User) -> Option<Expectation> {
        let of =
            Categories { executable: Some(service.to_owned()), user: Some(user.to_string()), group: None };
        let found = self.learned.expected(&of)?;
        Some(Expectation { runtime: SpanMs(found.runtime.0), level: found.level, jobs: found.jobs })
    }

    /// Runtime statistics of every service, every user and all jobs; those with the most jobs if there are many.
    pub fn runtimes(&self) -> Vec<RuntimeSummary> {
        let known = |one: Summary| RuntimeSummary {
            level: one.level,
            name: one.key,
            jobs: one.jobs,
            mean: SpanMs(one.mean.0),
            deviation: SpanMs(one.deviation.0),
            median: SpanMs(one.median.0),
            p95: SpanMs(one.p95.0),
        };
        self.learned.summaries(SUMMARIES_MAX).into_iter().map(known).collect()
    }

    /// The prediction error of the mean of a job's service, user or all jobs.
    pub fn runtime_errors(&self) -> Errors {
        self.learned.mean_errors()
    }

    /// The same for the [`CALIBRATED`] quantile, whose share of jobs within it should be that number.
    pub fn quantile_errors(&self) -> Errors {
        self.learned.quantile_errors()
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::Time;

    use super::super::tests::{info, name, record};
    use super::super::{AgentConfig, ChildKind, Event};
    use super::*;
    use crate::job::JobState;
    use crate::replay::Machine;

    fn agent() -> Agent {
        let config = AgentConfig { name: name("master"), root: true, timeout: Span(3), reallocation: None };
        let mut agent = Agent::new(config);
        let services = ["fit", "sum"].map(|service| (service.to_owned(), String::new())).to_vec();
        let servers = vec![ServerInfo { services, ..info("a") }];
        let attached = Event::Attached { child: name("a"), kind: ChildKind::Server, journal: 1, servers };
        agent.on(Time(0), attached, &mut Vec::new());
        agent
    }

    fn ends(agent: &mut Agent, sequence: u64, name: &str, unit_runtime: Option<i64>) {
        let mut ended = record(sequence as u32, JobState::Completed);
        (ended.name, ended.unit_runtime, ended.runtime) =
            (name.to_owned(), unit_runtime.map(SpanMs), unit_runtime.map(SpanMs));
        handle(agent, sequence, ended);
    }

    fn handle(agent: &mut Agent, sequence: u64, record: Box<JobRecord>) {
        agent.on(Time(200), Event::StatusUpdate { child: name("a"), sequence, record }, &mut Vec::new());
    }

    fn summaries(agent: &Agent) -> Vec<String> {
        let one = |one: RuntimeSummary| {
            let RuntimeSummary { level, name, jobs, mean, deviation, median, p95 } = one;
            let name = name.unwrap_or_default();
            format!("{level} {name}: {jobs} of {} ({}), {}, {}", mean.0, deviation.0, median.0, p95.0)
        };
        agent.runtimes().into_iter().map(one).collect()
    }

    #[test]
    fn each_runtime_is_learned_once_for_service_user_and_all() {
        let mut agent = agent();
        for (sequence, unit_runtime) in [(1, 20_000), (2, 40_000), (3, 60_000)] {
            ends(&mut agent, sequence, "fit", Some(unit_runtime));
        }
        // A failed job, and a job of a server that reports no runtimes.
        handle(&mut agent, 4, record(4, JobState::Failed));
        ends(&mut agent, 5, "fit", None);
        ends(&mut agent, 6, "sum", Some(200_000));
        // The same status update again, also under a new number.
        ends(&mut agent, 6, "sum", Some(200_000));
        let mut again = record(6, JobState::Completed);
        (again.name, again.unit_runtime) = ("sum".to_owned(), Some(SpanMs(200_000)));
        handle(&mut agent, 7, again);
        // A user's own script with the name of a service, which reports only its runtime.
        let mut script = record(8, JobState::Completed);
        (script.name, script.runtime) = ("fit".to_owned(), Some(SpanMs(80_000)));
        handle(&mut agent, 8, script);
        let expected = [
            "executable fit: 3 of 40000 (16330), 40000, 60000",
            "executable sum: 1 of 200000 (0), 200000, 200000",
            "user alice: 5 of 80000 (63246), 60000, 200000",
            "all : 5 of 80000 (63246), 60000, 200000",
        ];
        assert_eq!(summaries(&agent), expected);
        // The first job had no prediction. 40 s and 60 s were predicted as 20 s and 30 s by all jobs, 200 s as 40 s and
        // 80 s as 80 s by the user's.
        let errors = agent.runtime_errors();
        assert_eq!((errors.jobs, errors.absolute, errors.runtimes), (4, 210_000, 380_000));
        // Only the last one was no longer than four of five jobs of its user.
        let errors_of_quantile = agent.quantile_errors();
        assert_eq!((errors_of_quantile.jobs, errors_of_quantile.within), (4, 1));
        let expected_runtime = |service: &str, user: &str| {
            let found = agent.expectation(service, &user.parse().unwrap()).unwrap();
            (found.runtime.0, found.level, found.jobs)
        };
        assert_eq!(expected_runtime("fit", "bob"), (40_000, Level::Executable, 3));
        // A service with one job and a user without jobs have too few samples.
        assert_eq!(expected_runtime("sum", "alice"), (80_000, Level::User, 5));
        assert_eq!(expected_runtime("sum", "bob"), (80_000, Level::All, 5));
        // A restored agent has the same statistics.
        let state = serde_json::to_string(&agent.dump(Time(200))).unwrap();
        let restored = Agent::from_state(agent.config().clone(), serde_json::from_str(&state).unwrap());
        assert_eq!(summaries(&restored), expected);
        assert_eq!(restored.runtime_errors(), errors);
        assert_eq!(restored.quantile_errors(), errors_of_quantile);
    }

    #[test]
    fn services_learn_unit_runtimes_and_users_plain_runtimes() {
        let mut agent = agent();
        for sequence in 1..=6 {
            let mut ended = record(sequence, JobState::Completed);
            (ended.name, ended.unit_runtime, ended.runtime) =
                ("fit".to_owned(), Some(SpanMs(1)), Some(SpanMs(200)));
            handle(&mut agent, sequence.into(), ended);
        }
        let user = "alice".parse().unwrap();
        let expected_runtime =
            |service| agent.expectation(service, &user).map(|found| (found.runtime.0, found.level));
        assert_eq!(expected_runtime("fit"), Some((1, Level::Executable)));
        assert_eq!(expected_runtime("sum"), Some((200, Level::User)));
        // All runtimes were as predicted: by all jobs, and then by those of the service.
        let errors = agent.runtime_errors();
        assert_eq!((errors.jobs, errors.absolute, errors.runtimes), (5, 0, 403));
        // A job without a runtime is not learned.
        let mut silent = record(7, JobState::Completed);
        silent.name = "secret.sh".to_owned();
        handle(&mut agent, 7, silent);
        let expected = [
            "executable fit: 6 of 1 (0), 1, 1",
            "user alice: 6 of 200 (0), 200, 200",
            "all : 6 of 200 (0), 200, 200",
        ];
        assert_eq!(summaries(&agent), expected);
    }
}
