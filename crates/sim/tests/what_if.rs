//! A what-if replay of a recorded federation under its own policies gives the same run, job for job.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::collections::BTreeMap;

use pliant_control::agent::AgentConfig;
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_control::server::{Command, ServerConfig};
use pliant_control::server_info::ServerInfo;
use pliant_model::{Cluster, ClusterId, JobOutcome, Platform, Span, Speedup, Time};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::tuning::Tuner;
use pliant_sim::protocol::{Hierarchy, Network, Node, Watcher, simulate_watched};
use pliant_sim::what_if::{WhatIfCluster, WhatIfReplay};
use pliant_sim::{Policies, SimJob};
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::speedups;

/// Collects the job records that the servers of a federation archive.
#[derive(Default)]
struct ArchiveRecorder {
    servers: Vec<ServerConfig>,
    jobs: BTreeMap<Handle, JobRecord>,
}

impl Watcher for ArchiveRecorder {
    fn begin(&mut self, _: Time, _: &[AgentConfig], servers: &[ServerConfig]) {
        self.servers = servers.to_vec();
    }

    fn server_commands(&mut self, _: Time, _: usize, commands: &[Command]) {
        for command in commands {
            if let Command::Archive(record) = command
                && record.state.is_final()
            {
                self.jobs.insert(record.handle.clone(), (**record).clone());
            }
        }
    }
}

impl ArchiveRecorder {
    fn replay(&self, tuner: Tuner) -> WhatIfReplay {
        let cluster = |(config, rank): (&ServerConfig, u32)| WhatIfCluster {
            info: ServerInfo {
                name: config.name.clone(),
                address: String::new(),
                rank,
                procs: config.procs,
                speed: config.speed,
                policy: config.policy.clone(),
                services: Vec::new(),
                scripts: true,
                optional_cores: 0,
                optional_per_core: 0,
            },
            tuner,
            nodes: None,
            locals: Vec::new(),
        };
        let records: Vec<JobRecord> = self.jobs.values().cloned().collect();
        WhatIfReplay::new(self.servers.iter().zip(0..).map(cluster).collect(), &records, Time::ZERO).unwrap()
    }
}

/// The time since the previous job, the shape, the walltime, the used share of it in percent, whether the job is managed, and
/// its origin cluster.
type DrawnJob = (i64, (u32, Speedup), i64, i64, bool, u32);

/// Jobs with distinct submission times whose time limits are nowhere longer than requested, so that their runtimes are known
/// to the second.
fn workloads() -> impl Strategy<Value = Vec<SimJob>> {
    let moldable = speedups().prop_map(|speedup| (1, speedup));
    let shape = prop_oneof![(1..20_u32).prop_map(|procs| (procs, Speedup::Rigid)), moldable];
    let one = (1..20_i64, shape, 1..300_i64, 1..=100_i64, prop::bool::weighted(0.8), 0..4_u32);
    prop::collection::vec(one, 1..60).prop_map(|drawn| {
        let mut submit = 0;
        let mut number = 0;
        let job = |(gap, (procs, speedup), walltime, percent, managed, origin): DrawnJob| {
            number += 1;
            submit += gap;
            let runtime = (walltime * percent / 100).max(1);
            let mut one = common::job(number, submit, procs, walltime, runtime);
            one.job.origin = Some(ClusterId(origin));
            SimJob { speedup, managed, ..one }
        };
        drawn.into_iter().map(job).collect()
    })
}

fn policies() -> impl Strategy<Value = Policies> {
    let reallocation = prop::option::of((select(Heuristic::ALL), 1..300_i64, 1..90_i64));
    (select(Tuner::ALL), reallocation).prop_map(|(tuner, reallocation)| {
        let reallocation = reallocation.map(|(heuristic, period, threshold)| Reallocation {
            period: Span(period),
            threshold: Span(threshold),
            ..Reallocation::new(Algorithm::Regular, heuristic)
        });
        Policies { tuner, reallocation, ..Policies::default() }
    })
}

/// Clusters under policies that do not fold: the record of a folded job has its longer time limit.
fn platforms() -> impl Strategy<Value = Platform> {
    common::platforms(4..=24_u32, prop_oneof![Just(1.0), 1.0..2.0], 4).prop_map(|platform| {
        let unfolding = |mut cluster: Cluster| {
            if cluster.batch.starts_with('h') {
                cluster.batch = "cbf".to_owned();
            }
            cluster
        };
        Platform::new(platform.clusters().iter().cloned().map(unfolding).collect()).unwrap()
    })
}

/// The fields of an outcome that must agree: all but the number and the reason.
fn comparable(job: &JobOutcome) -> (ClusterId, Time, Time, Time, u32, i64, u32) {
    (job.cluster, job.submit, job.start, job.end, job.procs.0, job.walltime.0, job.moves)
}

proptest! {
    #[test]
    fn a_replay_under_the_original_policies_equals_the_recorded_run(
        platform in platforms(),
        jobs in workloads(),
        policies in policies(),
    ) {
        let hierarchy = Hierarchy::new(platform.ids().map(Node::Cluster).collect());
        let mut archives = ArchiveRecorder::default();
        let ran = simulate_watched(&platform, &hierarchy, &jobs, &policies, &Network::default(), &mut archives).unwrap();
        let replay = archives.replay(policies.tuner);
        prop_assert_eq!(replay.measured().len(), ran.run.jobs.len());
        let replayed = replay.replay(&policies).unwrap();
        for (found, expected) in replayed.jobs.iter().zip(replay.measured()) {
            prop_assert_eq!(found.as_ref().map(comparable), Some(comparable(expected)));
        }
        prop_assert_eq!(replayed.moves, ran.run.reallocations);
    }
}
