//! Converts the records of a live federation to a workload, to run it under other policies.

use std::collections::BTreeMap;

use pliant_control::job::JobRecord;
use pliant_control::names::Name;
use pliant_control::server_info::ServerInfo;
use pliant_model::{Cluster, ClusterId, Job, LoggedMemory, Platform, PlatformError, Span, Time};

use crate::SimJob;

/// A live run as input of the simulator.
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    /// The servers, by rank and name, so that ties are broken as live.
    pub platform: Platform,
    /// The jobs that ran, in the order of submission; the first one at time 0.
    pub jobs: Vec<SimJob>,
    /// The submission time of the first job.
    pub origin: Time,
    /// The live records of the jobs, in the order of `jobs`.
    pub records: Vec<JobRecord>,
}

impl Recorded {
    /// Converts the servers and jobs of a federation. Jobs that never ran or whose server is not listed are left out.
    ///
    /// A job takes the same share of its walltime in any size and on any cluster, as in a log (paper 000, section 4.2.2).
    ///
    /// # Errors
    ///
    /// If there is no server.
    pub fn new(mut servers: Vec<ServerInfo>, records: Vec<JobRecord>) -> Result<Recorded, PlatformError> {
        servers.sort_by(|a, b| (a.rank, &a.name).cmp(&(b.rank, &b.name)));
        servers.dedup_by(|later, kept| later.name == kept.name);
        let cluster = |server: &ServerInfo| Cluster {
            name: server.name.to_string(),
            procs: server.procs,
            speed: server.speed,
            batch: server.policy.clone(),
            nodes: None,
        };
        let platform = Platform::new(servers.iter().map(cluster).collect())?;
        let positions: BTreeMap<&Name, ClusterId> = servers
            .iter()
            .enumerate()
            .map(|(index, server)| (&server.name, ClusterId(index as u32)))
            .collect();
        let mut records: Vec<JobRecord> = records
            .into_iter()
            .filter(|one| ran(one) && positions.contains_key(&one.handle.server))
            .collect();
        records.sort_by(|a, b| (a.submitted, &a.handle).cmp(&(b.submitted, &b.handle)));
        let origin = records.first().map_or(Time::ZERO, |first| first.submitted);
        let job = |(index, record): (usize, &JobRecord)| {
            let origin = (record.submitted - origin).0;
            sim_job(index, Time(origin), record, positions.get(&record.handle.server).copied())
        };
        let jobs = records.iter().enumerate().map(job).collect();
        Ok(Recorded { platform, jobs, origin, records })
    }

    /// The live mean time from submission to end, in seconds.
    pub fn mean_response_s(&self) -> f64 {
        let responses = self.records.iter().filter_map(|one| Some((one.ended? - one.submitted).0 as f64));
        responses.sum::<f64>() / self.records.len().max(1) as f64
    }

    /// The live time from the first submission to the last end.
    pub fn makespan(&self) -> Span {
        let last = self.records.iter().filter_map(|one| one.ended).max();
        last.map_or(Span::ZERO, |last| last - self.origin)
    }
}

/// True if a job ran and has ended.
pub(crate) fn ran(record: &JobRecord) -> bool {
    record.started.is_some() && record.ended.is_some()
}

/// A number for the owner of a job: 31 bits of the owner's hash. Only equality counts.
pub(crate) fn user(record: &JobRecord) -> i32 {
    (record.owner.owner().0 >> 33) as i32
}

/// Converts a job that ran to a job of the simulator.
pub(crate) fn sim_job(index: usize, submit: Time, record: &JobRecord, origin: Option<ClusterId>) -> SimJob {
    let JobRecord { work, started, ended, walltime, .. } = record;
    let elapsed = ended.zip(*started).map_or(Span(1), |(ended, started)| ended - started);
    // The same share of the walltime. Rounded down because a simulated runtime is rounded up again; it then equals the measured
    // one wherever the walltime is not longer.
    let share = i128::from(elapsed.0) * i128::from(work.walltime.0) / i128::from(walltime.0.max(1));
    let runtime = i64::try_from(share).unwrap_or(i64::MAX);
    let job = Job {
        log_id: index as u64 + 1,
        submit,
        procs: work.procs,
        walltime: work.walltime,
        runtime: Span(runtime.clamp(1, work.walltime.0)),
        user: user(record),
        group: -1,
        executable: -1,
        origin,
        memory: LoggedMemory::default(),
        resources: work.resources.clone(),
    };
    SimJob { job, speedup: work.speedup.clone(), true_speedup: None, managed: true }
}

#[cfg(test)]
mod tests {
    use pliant_control::job::{Exit, JobState, Work};
    use pliant_model::{Estimate, Procs, Speed, Speedup};

    use super::*;

    fn server(name: &str, rank: u32, procs: u32, speed: f64) -> ServerInfo {
        ServerInfo {
            name: name.parse().unwrap(),
            address: String::new(),
            rank,
            procs: Procs(procs),
            speed: Speed::new(speed).unwrap(),
            policy: "cbf".to_owned(),
            services: Vec::new(),
            scripts: true,
            optional_cores: 0,
            optional_per_core: 0,
        }
    }

    fn record(handle: &str, submitted: i64, started: Option<i64>, ended: i64, walltime: i64) -> JobRecord {
        let estimate = Estimate { procs: Procs(2), walltime: Span(walltime), start: Time(submitted) };
        JobRecord {
            handle: handle.parse().unwrap(),
            key: pliant_control::names::Key([0; 16]),
            owner: "alice".parse().unwrap(),
            name: "test".to_owned(),
            work: Work::new(Procs(2), Span(100), Speedup::Rigid),
            state: JobState::Completed,
            submitted: Time(submitted),
            expected: estimate,
            procs: Procs(2),
            walltime: Span(walltime),
            started: started.map(Time),
            ended: Some(Time(ended)),
            exit: Some(Exit::Code(0)),
            requeues: 0,
            compared: Vec::new(),
            discovery: pliant_control::reason::DiscoverySummary::default(),
            pinned: false,
            hops: Vec::new(),
            unit_runtime: None,
            runtime: None,
            size_choice: None,
            gpus: None,
            estimates: Vec::new(),
            claim: None,
        }
    }

    #[test]
    fn a_recorded_run_becomes_a_platform_and_a_workload() {
        let servers = vec![server("b", 0, 4, 2.0), server("a", 1, 2, 1.0), server("c", 0, 8, 1.0)];
        let records = vec![
            record("a.2", 1010, Some(1020), 1070, 100),
            record("b.1", 1000, Some(1000), 1025, 50),
            record("b.2", 1001, None, 1002, 50),
            record("gone.1", 1001, Some(1001), 1002, 50),
        ];
        let recorded = Recorded::new(servers, records).unwrap();
        let names: Vec<&str> = recorded.platform.clusters().iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["b", "c", "a"]);
        let jobs: Vec<(i64, i64, Option<ClusterId>)> =
            recorded.jobs.iter().map(|one| (one.job.submit.0, one.job.runtime.0, one.job.origin)).collect();
        // Half of the walltime on each cluster, whatever its speed.
        assert_eq!(jobs, [(0, 50, Some(ClusterId(0))), (10, 50, Some(ClusterId(2)))]);
        assert_eq!(recorded.mean_response_s(), (25.0 + 60.0) / 2.0);
        assert_eq!(recorded.makespan(), Span(70));
    }

    #[test]
    fn without_servers_there_is_no_platform() {
        assert!(Recorded::new(Vec::new(), Vec::new()).is_err());
    }
}
