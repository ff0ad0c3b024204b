//! The pruned search for the cluster that completes a request first, against asking every cluster of a copy,
//! so that the questions of the test do not sharpen the bounds that the search prunes by. Local policies are
//! mixed: those that keep bounds on their starts and those that keep none.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;

use pliant_model::{
    Cluster, ClusterId, Estimate, JobId, MapReason, Owner, Platform, Procs, Reason, Request, Span, Speed,
    Speedup, Time,
};
use pliant_policy::batch::{self, Start};
use pliant_policy::federation::{Federation, Tracked};
use pliant_policy::mapping::{Mapping, MappingDecision, map};
use pliant_policy::tuning::Tuner;
use proptest::prelude::*;
use proptest::sample::select;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What happens next.
#[derive(Clone, Debug)]
enum Action {
    /// A request arrives.
    Submit { mapping: Mapping, shape: Shape },
    /// The question under test.
    Ask { shape: Shape, except: Option<u32>, slack: i64 },
    /// Time passes.
    Wait(i64),
    /// The oldest of the waiting requests with that remainder are withdrawn.
    Withdraw(u32),
}

type Shape = (u32, i64, Speedup, u32);

fn speedup() -> impl Strategy<Value = Speedup> {
    prop_oneof![
        2 => Just(Speedup::Rigid),
        1 => Just(Speedup::Folding),
        3 => (0.5..=1.0, 1..50_u32).prop_map(|(parallel, limit)| Speedup::Amdahl { parallel, limit: Procs(limit) }),
        1 => (1.0..30.0, 0.0..2.0)
            .prop_map(|(average_parallelism, sigma)| Speedup::Downey { average_parallelism, sigma }),
        1 => prop::collection::btree_map(1..40_u32, 1.0..50.0, 1..6)
            .prop_map(|table| Speedup::Table(table.into_iter().map(|(n, time)| (Procs(n), time)).collect())),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let shape = || (1..40_u32, 1..2000_i64, speedup(), any::<u32>());
    let mapping = prop_oneof![2 => Just(Mapping::Mct), 2 => Just(Mapping::Random), 1 => Just(Mapping::Given)];
    prop_oneof![
        24 => (mapping, shape()).prop_map(|(mapping, shape)| Action::Submit { mapping, shape }),
        4 => (shape(), prop::option::of(0..24_u32), -100..100_i64)
            .prop_map(|(shape, except, slack)| Action::Ask { shape, except, slack }),
        3 => (0..300_i64).prop_map(Action::Wait),
        1 => (0..5_u32).prop_map(Action::Withdraw),
    ]
}

/// Few sizes and speeds, so that completions tie.
fn platforms() -> impl Strategy<Value = Platform> {
    let speed = select(vec![0.5, 1.0, 1.0, 1.2, 1.4, 3.0]);
    let local = prop_oneof![3 => Just("cbf"), 1 => select(batch::names())];
    let cluster = (select(vec![1_u32, 4, 8, 8, 30, 37]), speed, local);
    prop::collection::vec(cluster, 1..24).prop_map(|clusters| {
        let cluster = |(index, (procs, speed, batch)): (usize, (u32, f64, &str))| Cluster {
            name: format!("c{index}"),
            procs: Procs(procs),
            speed: Speed::new(speed).unwrap(),
            batch: batch.to_owned(),
            nodes: None,
        };
        Platform::new(clusters.into_iter().enumerate().map(cluster).collect()).unwrap()
    })
}

struct World {
    federation: Federation,
    rng: ChaCha8Rng,
    now: i64,
    next: u32,
    /// (end, job, cluster).
    running: BTreeSet<(i64, JobId, ClusterId)>,
}

impl World {
    fn new(platform: &Platform) -> World {
        let federation = Federation::new(platform, Tuner::Exact, Time::ZERO).unwrap();
        World { federation, rng: ChaCha8Rng::seed_from_u64(1), now: 0, next: 0, running: BTreeSet::new() }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Submit { mapping, shape } => self.submit(*mapping, shape),
            Action::Ask { shape, except, slack } => self.ask(shape, except.map(ClusterId), *slack),
            Action::Wait(seconds) => self.wait(*seconds),
            Action::Withdraw(remainder) => self.withdraw(*remainder),
        }
    }

    fn request(&mut self, (procs, walltime, speedup, origin): &Shape) -> Request {
        self.next += 1;
        Request {
            id: JobId(self.next),
            submit: Time(self.now),
            procs: Procs(*procs),
            walltime: Span(*walltime),
            speedup: speedup.clone(),
            origin: Some(ClusterId(origin % self.federation.len() as u32)),
            owner: Owner::UNKNOWN,
            fixed_time: false,
            resources: None,
        }
    }

    /// What every cluster of a copy would give the request.
    fn offers(&self, request: &Request) -> Vec<(ClusterId, Estimate)> {
        let mut copy = self.federation.clone();
        let ids = self.federation.ids();
        ids.filter_map(|id| Some((id, copy.estimate(Time(self.now), request, id)?))).collect()
    }

    fn submit(&mut self, mapping: Mapping, shape: &Shape) {
        let request = self.request(shape);
        let offers = self.offers(&request);
        let now = Time(self.now);
        let mapped = map(mapping, &mut self.federation, now, &request, &mut self.rng);
        let Ok(MappingDecision { cluster, shape, reason }) = mapped else {
            let home =
                |(id, _): &(ClusterId, Estimate)| mapping != Mapping::Given || Some(*id) == request.origin;
            assert!(!offers.iter().any(home), "{mapping} refused what fits: {request:?}");
            return;
        };
        assert!(
            offers.iter().any(|(id, offer)| (*id, offer.shape()) == (cluster, shape)),
            "{mapping} promised what {cluster} does not offer"
        );
        match mapping {
            Mapping::Mct => assert_eq!(reason, MapReason::EarliestCompletion),
            Mapping::Random => assert_eq!(reason, MapReason::Drawn),
            Mapping::Given => assert_eq!((reason, Some(cluster)), (MapReason::Given, request.origin)),
        }
        let tracked = Tracked { request, cluster, moves: 0, reason: Reason::Mapped(reason) };
        self.federation.submit(now, tracked, shape);
    }

    fn ask(&mut self, shape: &Shape, except: Option<ClusterId>, slack: i64) {
        let request = self.request(shape);
        let now = Time(self.now);
        let offers = self.offers(&request).into_iter().filter(|(id, _)| Some(*id) != except);
        let best = offers.min_by_key(|(id, estimate)| (estimate.completion(), *id));
        assert_eq!(self.federation.earliest(now, &request, except, Time::MAX), best, "{request:?}");
        if let Some((_, estimate)) = best {
            let latest = estimate.completion() + Span(slack);
            let expected = best.filter(|_| slack >= 0);
            assert_eq!(self.federation.earliest(now, &request, except, latest), expected, "{request:?}");
        }
    }

    fn withdraw(&mut self, remainder: u32) {
        let chosen: Vec<JobId> =
            self.federation.waiting().keys().copied().filter(|job| job.0 % 5 == remainder).collect();
        self.federation.cancel_all(Time(self.now), &chosen);
    }

    fn wait(&mut self, seconds: i64) {
        let until = self.now + seconds;
        loop {
            self.start();
            let start = self.federation.ids().filter_map(|id| self.federation.scheduler(id).next_start());
            let start = start.map(|at| at.0).min().unwrap_or(until);
            let end = self.running.first().map_or(until, |(end, ..)| *end);
            let next = start.min(end).max(self.now);
            if next >= until {
                break;
            }
            self.now = next;
            while let Some((end, job, cluster)) = self.running.first().copied()
                && end <= self.now
            {
                self.running.pop_first();
                self.federation.scheduler(cluster).finish(Time(self.now), job);
            }
        }
        self.now = until;
    }

    fn start(&mut self) {
        for cluster in self.federation.ids() {
            let mut started: Vec<Start> = Vec::new();
            self.federation.scheduler(cluster).start_due(Time(self.now), &mut started);
            for start in started {
                self.federation.started(start.job);
                // Some end on time, most early.
                let runtime = (start.walltime.0 / i64::from(1 + start.job.0 % 3)).max(1);
                self.running.insert((self.now + runtime, start.job, cluster));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pruned_search_equals_asking_every_cluster_of_a_clone(
        platform in platforms(),
        actions in prop::collection::vec(action(), 1..400),
    ) {
        let mut world = World::new(&platform);
        for action in &actions {
            world.act(action);
        }
    }
}

/// Equal clusters under a balanced load and few shapes: bounds are known almost everywhere, and what one
/// early end or withdrawal frees decides the answer.
fn balanced_action() -> impl Strategy<Value = Action> {
    let moldable = |parallel, limit| Speedup::Amdahl { parallel, limit: Procs(limit) };
    let shape = || {
        let kind = select(vec![
            (8, 300, moldable(0.9, 8)),
            (2, 90, moldable(0.99, 6)),
            (1, 1, moldable(0.5, 2)),
            (4, 1, Speedup::Rigid),
            (8, 200, Speedup::Rigid),
        ]);
        (kind, any::<u32>())
            .prop_map(|((procs, walltime, speedup), origin)| (procs, walltime, speedup, origin))
    };
    let mapping = prop_oneof![3 => Just(Mapping::Mct), 1 => Just(Mapping::Random)];
    prop_oneof![
        8 => (mapping, shape()).prop_map(|(mapping, shape)| Action::Submit { mapping, shape }),
        4 => (shape(), prop::option::of(0..40_u32), 0..2_i64)
            .prop_map(|(shape, except, slack)| Action::Ask { shape, except, slack }),
        2 => (0..60_i64).prop_map(Action::Wait),
        1 => (0..5_u32).prop_map(Action::Withdraw),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pruned_search_is_right_over_groups_of_equal_clusters(
        clusters in 34..40_usize,
        actions in prop::collection::vec(balanced_action(), 300..500),
    ) {
        let mut world = World::new(&equal_clusters(clusters));
        for cluster in 0..clusters as u32 {
            world.submit(Mapping::Given, &(8, 400 + i64::from(cluster * 37 % 100), Speedup::Rigid, cluster));
        }
        for action in &actions {
            world.act(action);
        }
    }
}

fn equal_clusters(clusters: usize) -> Platform {
    let cluster = |index| Cluster {
        name: format!("c{index}"),
        procs: Procs(8),
        speed: Speed::REFERENCE,
        batch: "cbf".to_owned(),
        nodes: None,
    };
    Platform::new((0..clusters).map(cluster).collect()).unwrap()
}

/// Keeps a cluster wholly busy for so long, and gives it a plan of many steps after that, one processor wide
/// at first: only for long plans are bounds kept.
fn occupy(world: &mut World, cluster: u32, seconds: i64) {
    let shapes = [(8, seconds)].into_iter().chain((1..8).map(|step| (1, 10 * step)));
    for (procs, walltime) in shapes {
        world.submit(Mapping::Given, &(procs, walltime, Speedup::Rigid, cluster));
    }
}

/// A cluster far behind in the order, of which it was known that nothing starts for long, becomes free.
#[test]
fn the_search_sees_processors_freed_on_one_cluster() {
    let mut world = World::new(&equal_clusters(40));
    for cluster in 0..40 {
        occupy(&mut world, cluster, if cluster == 3 { 900 } else { 1000 });
    }
    world.start();
    let shape = (8, 100, Speedup::Amdahl { parallel: 0.5, limit: Procs(8) }, 0);
    let mut freed = vec![ClusterId(3)];
    for _ in 0..20 {
        let request = world.request(&shape);
        let found = world.federation.earliest(Time(0), &request, None, Time::MAX);
        let first = if freed.len() > 1 { freed[1..].iter().min() } else { freed.first() };
        assert_eq!(found.map(|(cluster, _)| cluster), first.copied());
        let (end, job, cluster) = world.running.pop_last().unwrap();
        assert_eq!(end, world.now + 1000 / i64::from(1 + job.0 % 3));
        world.federation.scheduler(cluster).finish(Time(0), job);
        freed.push(cluster);
    }
}

/// The first cluster's bound equals the second's completion: a tie, which goes to the first.
#[test]
fn a_bound_that_equals_the_best_completion_is_asked() {
    let cluster = |batch: &str| Cluster {
        name: batch.to_owned(),
        procs: Procs(8),
        speed: Speed::REFERENCE,
        batch: batch.to_owned(),
        nodes: None,
    };
    let mut world = World::new(&Platform::new(vec![cluster("cbf"), cluster("fcfs")]).unwrap());
    occupy(&mut world, 0, 10);
    world.submit(Mapping::Given, &(8, 10, Speedup::Rigid, 1));
    world.start();
    let request = world.request(&(1, 1, Speedup::Amdahl { parallel: 0.5, limit: Procs(2) }, 0));
    for _ in 0..3 {
        let (cluster, estimate) = world.federation.earliest(Time(0), &request, None, Time::MAX).unwrap();
        assert_eq!((cluster, estimate.completion()), (ClusterId(0), Time(11)));
    }
}
