//! Draws the plan of a schedule from its seed: a small federation, its jobs and its fault rates.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_control::agent::ReallocationConfig;
use pliant_control::batch::embedded::HostResources;
use pliant_control::batch::external;
use pliant_control::job::Work;
use pliant_control::names::{Key, User};
use pliant_control::server::WaitingLimits;
use pliant_model::rng::stream_seed;
use pliant_model::{Cluster, Platform, Procs, Span, Speed, Speedup};
use pliant_policy::batch;
use pliant_policy::batch::order::{ORDERS, local_policy};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::tuning::Tuner;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::FederationKind;
use super::bans::PlannedBan;
use super::deferrals::{draw_begin, draw_deadline};
use super::drains::PlannedDrain;
use super::external::SitePlan;
use super::holds::PlannedHold;
use super::launches::PlannedLaunch;
use super::limits::PlannedLimit;
use super::priorities::PlannedPriority;
use super::reallocations::PlannedReallocation;
use super::requeues::draw_requeue;
use super::resources::{draw_hosts, draw_needs, draw_sites, draw_tasks};
use crate::protocol::Hierarchy;

/// The maximal number of jobs in a schedule with launches.
const JOBS_WITH_LAUNCHES_MAX: usize = 12;

/// The number of users.
pub(super) const USERS: u32 = 4;

/// Seeds that are equal to the second number modulo the first submit sibling jobs.
const SIBLING_SEEDS: (u64, u64) = (5, 2);

/// The algorithms that move jobs.
const MOVE_ALGORITHMS: &[Algorithm] = &[Algorithm::Regular, Algorithm::AllCancellation, Algorithm::NoWorse];

/// A federation, its jobs and its faults.
pub(super) struct Plan {
    pub(super) platform: Platform,
    pub(super) hierarchy: Hierarchy,
    pub(super) tuner: Tuner,
    pub(super) moving: ReallocationConfig,
    /// Agents submit siblings instead of moving jobs, unless an operator changes that.
    pub(super) siblings: bool,
    /// Local agents move jobs too, not only the master agent.
    pub(super) all_agents_move: bool,
    /// Mean time between two requests of operators; 0: none.
    pub(super) operator_every: u64,
    pub(super) timeout: Span,
    pub(super) jobs: Vec<PlannedJob>,
    pub(super) faults: FaultRates,
    /// The external batch systems, by server.
    pub(super) sites: BTreeMap<usize, SitePlan>,
    /// The hosts that count more than processors, by server.
    pub(super) hosts: BTreeMap<usize, Arc<HostResources>>,
    pub(super) launches: Vec<PlannedLaunch>,
    pub(super) drains: Vec<PlannedDrain>,
    pub(super) holds: Vec<PlannedHold>,
    /// The bounds of what waits at each server.
    pub(super) waiting: WaitingLimits,
    pub(super) bans: Vec<PlannedBan>,
    pub(super) limits: Vec<PlannedLimit>,
    pub(super) priorities: Vec<PlannedPriority>,
    pub(super) reallocations: Vec<PlannedReallocation>,
}

/// A planned job, and what its user does.
pub(super) struct PlannedJob {
    /// When it is submitted, in milliseconds.
    pub(super) at: u64,
    pub(super) key: Key,
    pub(super) owner: User,
    pub(super) work: Work,
    pub(super) pinned: bool,
    /// Its runtime in percent of its walltime; above 100 if it exceeds its walltime.
    pub(super) percent: u64,
    /// Its exit code.
    pub(super) code: i32,
    /// How long after its acceptance its owner cancels it, in milliseconds.
    pub(super) cancelled_after: Option<u64>,
}

/// The fault model. Times are in milliseconds, probabilities in thousandths.
pub(super) struct FaultRates {
    /// When the last fault may happen.
    pub(super) until: u64,
    /// Messages that are lost, duplicated and delayed.
    pub(super) lost: u32,
    pub(super) duplicated: u32,
    pub(super) delayed: u32,
    /// The maximal delay.
    pub(super) delay_max: u64,
    /// Mean time between two daemon crashes, partitions, clock jumps and broken connections; 0: none.
    pub(super) crash_every: u64,
    pub(super) partition_every: u64,
    pub(super) jump_every: u64,
    pub(super) break_every: u64,
    /// Clients that crash after they have sent a submission.
    pub(super) client_crashes: u32,
    /// Commits after which a daemon crashes before it has executed all commands.
    pub(super) cut: u32,
    /// The maximal time of a commit.
    pub(super) commit: u64,
    /// Commits that take up to a minute, as on a disk that is full for a while.
    pub(super) stalled: u32,
    /// Crashes of servers with Pliant's own batch system in which the host restarts, with all processes.
    pub(super) host_restarts: u32,
}

impl Plan {
    /// Draws the plan of a seed.
    pub(super) fn draw(seed: u64, kind: FederationKind) -> Plan {
        let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "plan"));
        let clusters = rng.random_range(2..=5);
        let mut clusters: Vec<Cluster> = (0..clusters).map(|index| cluster(&mut rng, index, seed)).collect();
        let mut sites = match kind {
            FederationKind::Embedded | FederationKind::Launching => BTreeMap::new(),
            FederationKind::Mixed => {
                sites(&mut ChaCha8Rng::seed_from_u64(stream_seed(seed, "sites")), &mut clusters)
            }
        };
        let mut resources =
            (seed >= RESOURCES_FROM).then(|| ChaCha8Rng::seed_from_u64(stream_seed(seed, "resources")));
        if seed >= SITE_RESOURCES_FROM {
            draw_sites(&mut ChaCha8Rng::seed_from_u64(stream_seed(seed, "site resources")), &mut sites);
        }
        let hosts = resources.as_mut().map(|rng| draw_hosts(rng, &mut clusters, &sites)).unwrap_or_default();
        let platform = Platform::new(clusters);
        let platform = platform.expect("a platform has clusters with distinct names");
        let levels = rng.random_range(1..=2);
        let hierarchy = Hierarchy::regular(&platform, rng.random_range(1..=3), levels);
        let until = rng.random_range(60_000..600_000);
        let largest = platform.clusters().iter().map(|cluster| cluster.procs.0).max().unwrap_or(1);
        let count = rng.random_range(5..=60);
        let last = until * rng.random_range(1..=9) / if rng.random_bool(0.5) { 10 } else { 40 };
        let cancels = rng.random_range(0..=50);
        let mut jobs: Vec<PlannedJob> =
            (0..count).map(|number| planned(&mut rng, number, largest, last, cancels)).collect();
        if let Some(rng) = &mut resources {
            for job in &mut jobs {
                job.work.resources = draw_needs(rng);
            }
        }
        if seed >= TASKS_FROM {
            let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "tasks"));
            sites.values_mut().for_each(|site| site.has_tasks = true);
            for job in &mut jobs {
                let Work { procs, resources, speedup, .. } = &mut job.work;
                *procs = draw_tasks(&mut rng, resources, *procs, Procs(largest));
                // Only jobs of a fixed size have tasks.
                if resources.as_ref().is_some_and(|needed| needed.procs_per_task.is_some()) {
                    *speedup = Speedup::Rigid;
                }
            }
        }
        if seed >= DEFERRED_FROM {
            let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "begins"));
            let mut nice = ChaCha8Rng::seed_from_u64(stream_seed(seed, "nice"));
            for job in &mut jobs {
                job.work.begin = draw_begin(&mut rng, job.at);
                job.work.deadline = draw_deadline(&mut rng, job);
                job.work.nice = if nice.random_ratio(1, 3) { nice.random_range(1..=3) } else { 0 };
            }
        }
        let launches = match kind {
            FederationKind::Launching => {
                jobs.truncate(JOBS_WITH_LAUNCHES_MAX);
                launches(&mut ChaCha8Rng::seed_from_u64(stream_seed(seed, "launches")), until)
            }
            FederationKind::Embedded | FederationKind::Mixed => Vec::new(),
        };
        let drains = if seed < DRAINED_FROM {
            Vec::new()
        } else {
            let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "drains"));
            PlannedDrain::draw(&mut rng, platform.clusters().len(), until)
        };
        let holds = if seed < HELD_FROM {
            Vec::new()
        } else {
            let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "holds"));
            PlannedHold::draw(&mut rng, platform.clusters().len(), until)
        };
        let bans = if seed < BANNED_FROM {
            Vec::new()
        } else {
            PlannedBan::draw(&mut ChaCha8Rng::seed_from_u64(stream_seed(seed, "bans")), until)
        };
        let (mut limits, priorities) = if seed < LIMITED_FROM {
            (Vec::new(), Vec::new())
        } else {
            let limits =
                PlannedLimit::draw(&mut ChaCha8Rng::seed_from_u64(stream_seed(seed, "limits")), until);
            let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "priorities"));
            (limits, PlannedPriority::draw(&mut rng, platform.clusters().len(), until))
        };
        if seed >= REALLOCATED_FROM {
            let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "limits of bytes"));
            PlannedLimit::limit_bytes(&mut limits, &mut rng);
        }
        let tuner = tuner(&mut rng, seed);
        let (siblings, mut moving) = (seed % SIBLING_SEEDS.0 == SIBLING_SEEDS.1, draw_moving(&mut rng));
        if siblings {
            moving.policy.algorithm = Algorithm::Siblings;
        }
        let reallocations = if seed < REALLOCATED_FROM {
            Vec::new()
        } else {
            let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "reallocations"));
            PlannedReallocation::draw(&mut rng, siblings, until)
        };
        let mut plan = Plan {
            platform,
            hierarchy,
            tuner,
            moving,
            siblings,
            all_agents_move: rng.random_bool(0.2),
            operator_every: pick(&mut rng, &[0, 5_000, 40_000]),
            timeout: Span(rng.random_range(3..=8)),
            jobs,
            faults: fault_rates(&mut rng, until),
            sites,
            hosts,
            launches,
            drains,
            holds,
            waiting: waiting_limits(seed),
            bans,
            limits,
            priorities,
            reallocations,
        };
        if seed >= REQUEUED_FROM && kind != FederationKind::Launching {
            plan.let_nodes_fail(&mut ChaCha8Rng::seed_from_u64(stream_seed(seed, "requeues")));
        }
        plan
    }

    /// Draws how often nodes fail, and how often jobs may run again.
    fn let_nodes_fail(&mut self, rng: &mut ChaCha8Rng) {
        self.faults.host_restarts = rng.random_range(0..=500);
        for site in self.sites.values_mut() {
            site.node_failure_every = pick(rng, &[0, 5_000, 20_000, 60_000]);
        }
        for job in &mut self.jobs {
            job.work.requeue = draw_requeue(rng);
        }
    }
}

fn launches(rng: &mut ChaCha8Rng, until: u64) -> Vec<PlannedLaunch> {
    let count = rng.random_range(2..=10);
    (0..count).map(|number| PlannedLaunch::draw(rng, number, until * 9 / 10)).collect()
}

/// Schedules from this seed on use every tuner and every queue order. Tests name many lower seeds for rare events, which
/// other job sizes would remove.
const VARIED_FROM: u64 = 1_000_000;
/// In schedules from this seed on nodes fail under jobs, which may run again, too.
const REQUEUED_FROM: u64 = 440_000_000;
/// In schedules from this seed on operators drain servers, for the same reason.
const DRAINED_FROM: u64 = 200_000_000;
/// In schedules from this seed on operators hold jobs too.
const HELD_FROM: u64 = 210_000_000;
/// In schedules from this seed on few bytes may wait at a server too.
const BYTES_BOUNDED_FROM: u64 = 235_000_000;

/// What may wait at each server: jobs of 6 bytes or a few more, with their names.
fn waiting_limits(seed: u64) -> WaitingLimits {
    let limits = WaitingLimits::of_jobs(30);
    if seed < BYTES_BOUNDED_FROM {
        return limits;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "waiting bytes"));
    let bytes_per_user = rng.random_range(16..80);
    WaitingLimits { bytes_per_user, bytes: bytes_per_user + rng.random_range(0..80), ..limits }
}
/// In schedules from this seed on operators ban users too.
const BANNED_FROM: u64 = 230_000_000;
/// In schedules from this seed on operators limit users and give priorities to jobs too.
const LIMITED_FROM: u64 = 260_000_000;
/// In schedules from this seed on operators change the reallocation of agents until that is confirmed, and limit the waiting bytes of
/// users too.
const REALLOCATED_FROM: u64 = 320_000_000;

/// In schedules from this seed on servers count memory, GPUs, local disk space and licences, and jobs need some.
const RESOURCES_FROM: u64 = 410_000_000;
/// In schedules from this seed on the nodes of external clusters do so, too.
const SITE_RESOURCES_FROM: u64 = 491_000_000;
/// In schedules from this seed on some jobs have tasks of several processors, which no two nodes share.
const TASKS_FROM: u64 = 711_000_000;
/// In schedules from this seed on some jobs may start from an instant on only, have deadlines, or stand back behind others.
const DEFERRED_FROM: u64 = 421_000_000;

fn tuner(rng: &mut ChaCha8Rng, seed: u64) -> Tuner {
    let greedy = pick(rng, &[Tuner::Exhaustive, Tuner::Binary, Tuner::Exact]);
    let usual = ChaCha8Rng::seed_from_u64(stream_seed(seed, "tuner")).random_bool(0.5);
    if usual && seed >= VARIED_FROM { Tuner::default() } else { greedy }
}

fn pick<A: Copy>(rng: &mut ChaCha8Rng, all: &[A]) -> A {
    all[rng.random_range(0..all.len())]
}

fn cluster(rng: &mut ChaCha8Rng, index: usize, seed: u64) -> Cluster {
    let speed = pick(rng, &[1.0, 1.0, 0.5, 1.3, 2.0]);
    let procs = rng.random_range(1..=8);
    let batch = pick(rng, &batch::names());
    Cluster {
        name: format!("c{index}"),
        procs: Procs(procs),
        speed: Speed::new(speed).expect("a positive number is a speed"),
        batch: if seed < VARIED_FROM {
            batch.to_owned()
        } else {
            in_some_order(batch, index + procs as usize)
        },
        nodes: None,
    }
}

/// A batch policy with a queue order that is derived without a further draw, so that a seed keeps the rest of its schedule.
fn in_some_order(batch: &str, number: usize) -> String {
    let order = &ORDERS[number % ORDERS.len()];
    let aging = ["none", "5s", "24h"][number % 3];
    let ordered = local_policy(batch, Some(order.name), (!order.is_first_come()).then_some(aging));
    ordered.unwrap_or_else(|_| batch.to_owned())
}

/// Draws how waiting jobs are reallocated.
pub(super) fn draw_moving(rng: &mut ChaCha8Rng) -> ReallocationConfig {
    let (algorithm, heuristic) = (pick(rng, MOVE_ALGORITHMS), pick(rng, Heuristic::ALL));
    let period = Span(rng.random_range(2..=40));
    let threshold = Span(rng.random_range(1..=15));
    let window = rng.random_range(1..=20);
    let early = rng.random_bool(0.5).then(|| Span(rng.random_range(1..=10)));
    ReallocationConfig { policy: Reallocation { algorithm, heuristic, period, threshold, window }, early }
}

fn planned(rng: &mut ChaCha8Rng, number: u32, largest: u32, last: u64, cancels: u32) -> PlannedJob {
    let speedup = match rng.random_range(0..4) {
        0 => Speedup::Folding,
        1 => Speedup::Amdahl { parallel: 0.9, limit: Procs(rng.random_range(1..=8)) },
        _ => Speedup::Rigid,
    };
    let procs = Procs(rng.random_range(1..=largest));
    let walltime = Span(rng.random_range(3..=120));
    let owner =
        format!("u{}", rng.random_range(0..USERS)).parse().expect("letters and digits are a user's name");
    PlannedJob {
        at: rng.random_range(1_000..=last),
        key: Key(u128::from(number + 1).to_be_bytes()),
        owner,
        work: Work::new(procs, walltime, speedup),
        pinned: rng.random_ratio(1, 20),
        percent: rng.random_range(1..=110),
        code: i32::from(rng.random_ratio(1, 8)),
        cancelled_after: (rng.random_range(0..100) < cancels).then(|| rng.random_range(0..90_000)),
    }
}

/// Draws the fault rates. Each schedule leaves out some kinds of faults, so that the others have longer effects.
fn fault_rates(rng: &mut ChaCha8Rng, until: u64) -> FaultRates {
    let share =
        |rng: &mut ChaCha8Rng, most: u32| if rng.random_bool(0.4) { 0 } else { rng.random_range(1..=most) };
    let often = |rng: &mut ChaCha8Rng, least: u64, most: u64| match rng.random_bool(0.35) {
        true => 0,
        false => rng.random_range(least..=most),
    };
    FaultRates {
        until,
        lost: share(rng, 300),
        duplicated: share(rng, 300),
        delayed: share(rng, 300),
        delay_max: pick(rng, &[2_000, 20_000, 100_000]),
        crash_every: often(rng, 3_000, 60_000),
        partition_every: often(rng, 5_000, 60_000),
        jump_every: often(rng, 10_000, 120_000),
        break_every: often(rng, 2_000, 60_000),
        client_crashes: share(rng, 300),
        cut: share(rng, 40),
        commit: pick(rng, &[5, 50, 2_000, 5_000]),
        stalled: if rng.random_bool(0.15) { rng.random_range(20..=200) } else { 0 },
        host_restarts: 0,
    }
}

/// Gives external batch systems to some of the clusters.
fn sites(rng: &mut ChaCha8Rng, clusters: &mut [Cluster]) -> BTreeMap<usize, SitePlan> {
    let share = [0.3, 0.6, 1.0][rng.random_range(0..3)];
    let mut sites = BTreeMap::new();
    for (number, cluster) in clusters.iter_mut().enumerate() {
        if !rng.random_bool(share) {
            continue;
        }
        cluster.batch = external::SLURM.to_owned();
        let mut nodes = Vec::new();
        let mut left = cluster.procs.0;
        while left > 0 {
            let cores = rng.random_range(1..=left);
            nodes.push(cores);
            left -= cores;
        }
        let rare = |rng: &mut ChaCha8Rng, most: u32| {
            if rng.random_bool(0.5) { 0 } else { rng.random_range(1..=most) }
        };
        let often = |rng: &mut ChaCha8Rng, least: u64, most: u64| match rng.random_bool(0.4) {
            true => 0,
            false => rng.random_range(least..=most),
        };
        let plan = SitePlan {
            nodes,
            counted: None,
            period: pick(rng, &[500, 1_000, 5_000]),
            lost: rare(rng, 200),
            duplicated: rare(rng, 200),
            delayed: rare(rng, 200),
            unanswered: rare(rng, 200),
            delay_max: pick(rng, &[1_000, 20_000, 100_000]),
            outage_every: often(rng, 10_000, 120_000),
            local_job_every: often(rng, 3_000, 60_000),
            admin_every: often(rng, 20_000, 200_000),
            node_failure_every: 0,
            has_tasks: false,
        };
        sites.insert(number, plan);
    }
    sites
}
