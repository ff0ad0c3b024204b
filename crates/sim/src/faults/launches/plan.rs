//! Draws the launches of a schedule from its seed.

use pliant_control::coallocation::{
    Application, LaunchSpec, Mapping, SpawnSpec, SpawnedTask, TaskEdge, TaskSpec,
};
use pliant_control::names::Key;
use pliant_control::payload::Payload;
use pliant_model::Span;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// The first keys of launches and of spawned tasks. Jobs have lower keys.
const KEYS: (u128, u128) = (1 << 64, 1 << 65);

/// A planned launch, and what its user does.
pub(in crate::faults) struct PlannedLaunch {
    /// When it is submitted, in milliseconds.
    pub(super) at: u64,
    pub(super) spec: LaunchSpec,
    /// The runtime of each task in milliseconds and its exit code. The last entry is that of the spawned task.
    pub(super) tasks: Vec<(u64, i32)>,
    pub(super) spawn: Option<SpawnSpec>,
    /// How long after the submission its user cancels it, in milliseconds.
    pub(super) cancelled_after: Option<u64>,
}

impl PlannedLaunch {
    pub(in crate::faults) fn draw(rng: &mut ChaCha8Rng, number: u32, last: u64) -> PlannedLaunch {
        let count = rng.random_range(1..=6_u32);
        let task_spec = |rng: &mut ChaCha8Rng, name: String| TaskSpec {
            name,
            rcr: rng.random_range(1.0..3.0),
            payload: Payload::default(),
        };
        let tasks: Vec<TaskSpec> = (0..count).map(|at| task_spec(rng, format!("t{at}"))).collect();
        // Every task communicates with an earlier one, so that the graph is connected.
        let edge = |rng: &mut ChaCha8Rng, at: u32| TaskEdge {
            between: [rng.random_range(0..at), at],
            rqoc: rng.random_range(1.0..10.0),
        };
        let edges = (1..count).map(|at| edge(rng, at)).collect();
        let owner =
            format!("u{}", rng.random_range(0..4)).parse().expect("letters and digits are a user's name");
        let walltime = Span(rng.random_range(5..=120));
        let spawn = rng.random_bool(0.5).then(|| SpawnSpec {
            key: Key((KEYS.1 + u128::from(number)).to_be_bytes()),
            tasks: vec![SpawnedTask {
                task: task_spec(rng, "spawned".to_owned()),
                neighbours: vec![(format!("t{}", rng.random_range(0..count)), 2.0)],
            }],
            signed: Payload::default(),
        });
        // Most launches have no failing task, otherwise few would complete.
        let fails = rng.random_bool(0.25);
        let length = |rng: &mut ChaCha8Rng| {
            let most = walltime.0 as u64 * if rng.random_bool(0.03) { 1_100 } else { 950 };
            (rng.random_range(100..=most), i32::from(fails && rng.random_bool(0.3)))
        };
        PlannedLaunch {
            at: rng.random_range(500..=last),
            tasks: (0..=count).map(|_| length(rng)).collect(),
            spec: LaunchSpec {
                key: Key((KEYS.0 + u128::from(number)).to_be_bytes()),
                owner,
                name: format!("launch-{number}"),
                application: Application {
                    mcr_mflops: [20.0, 40.0, 60.0][rng.random_range(0..3)],
                    bandwidth_mbps: rng.random_ratio(1, 4).then_some(0.5),
                    tasks,
                    edges,
                },
                walltime,
                timeout: Span(rng.random_range(10..=300)),
                user_lan: None,
                threshold: 0.5,
                mapping: if rng.random_ratio(1, 4) { Mapping::Refined } else { Mapping::Wase },
                dry_run: rng.random_ratio(1, 20),
                signed: Payload::default(),
            },
            spawn,
            cancelled_after: rng.random_bool(0.25).then(|| rng.random_range(0..120_000)),
        }
    }
}
