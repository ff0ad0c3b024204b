//! Mapping and reallocation over several clusters: pruned searches compared with asking every cluster, and what the
//! reallocation algorithms promise.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;

use pliant_model::{
    Cluster, ClusterId, Estimate, JobId, MapReason, Owner, Platform, Procs, Reason, RefusalCause, Request,
    Span, Speed, Speedup, Time,
};
use pliant_policy::batch::{Start, Submission};
use pliant_policy::federation::{Federation, Tracked};
use pliant_policy::mapping::{Mapping, map};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation, reallocate};
use pliant_policy::tuning::Tuner;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A loaded federation under random submissions, early ends and local jobs.
struct World {
    federation: Federation,
    rng: ChaCha8Rng,
    now: i64,
    next: u32,
    running: Vec<(ClusterId, JobId, i64)>,
    started: BTreeMap<JobId, u32>,
    local: BTreeMap<JobId, (ClusterId, i64)>,
    /// When each job ended.
    ended: BTreeMap<JobId, i64>,
}

const LOCAL: u32 = 1_000_000;

impl World {
    fn new(clusters: u32, tuner: Tuner, seed: u64) -> World {
        World::under(&["cbf"], clusters, tuner, seed)
    }

    /// The same under these batch policies by turns.
    fn under(batches: &[&str], clusters: u32, tuner: Tuner, seed: u64) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let cluster = |index| Cluster {
            name: format!("c{index}"),
            procs: Procs(rng.random_range(4..40)),
            speed: Speed::new(f64::from(rng.random_range(5..20)) / 10.0).unwrap(),
            batch: batches[index as usize % batches.len()].to_owned(),
            nodes: None,
        };
        let platform = Platform::new((0..clusters).map(cluster).collect()).unwrap();
        let federation = Federation::new(&platform, tuner, Time::ZERO).unwrap();
        let (running, started, local) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        World { federation, rng, now: 0, next: 0, running, started, local, ended: BTreeMap::new() }
    }

    fn request(&mut self) -> Request {
        let rng = &mut self.rng;
        let speedup = match rng.random_range(0..3) {
            0 => Speedup::Rigid,
            _ => Speedup::Amdahl { parallel: rng.random(), limit: Procs(rng.random_range(1..50)) },
        };
        self.next += 1;
        let (procs, walltime) = (Procs(rng.random_range(1..30)), Span(rng.random_range(30..3000)));
        Request::new(JobId(self.next), Time(self.now), procs, walltime, speedup)
    }

    fn submit_anywhere(&mut self) {
        let request = self.request();
        let cluster = ClusterId(self.rng.random_range(0..self.federation.len() as u32));
        if let Some(estimate) = self.federation.estimate(Time(self.now), &request, cluster) {
            let reason = Reason::Mapped(MapReason::Drawn);
            self.federation.submit(
                Time(self.now),
                Tracked { request, cluster, moves: 0, reason },
                estimate.shape(),
            );
        }
    }

    fn submit_locally(&mut self) {
        self.next += 1;
        let job = JobId(LOCAL + self.next);
        let cluster = ClusterId(self.rng.random_range(0..self.federation.len() as u32));
        let (procs, walltime) = (Procs(self.rng.random_range(1..4)), Span(self.rng.random_range(30..3000)));
        self.federation.scheduler(cluster).submit(Time(self.now), Submission::new(job, procs, walltime));
        let plan = self.federation.scheduler(cluster).plan(Time(self.now), job).unwrap();
        self.local.insert(job, (cluster, plan.completion().0));
    }

    /// Starts what is due, then lets time pass and some jobs end.
    fn step(&mut self) {
        for cluster in self.federation.ids() {
            let mut started: Vec<Start> = Vec::new();
            self.federation.scheduler(cluster).start_due(Time(self.now), &mut started);
            for start in started {
                *self.started.entry(start.job).or_default() += 1;
                self.federation.started(start.job);
                let runtime = (start.walltime.0 / self.rng.random_range(1..4)).max(1);
                self.running.push((cluster, start.job, self.now + runtime));
            }
        }
        let starts = self.federation.ids().filter_map(|id| self.federation.scheduler(id).next_start());
        let next_start = starts.map(|at| at.0).min().unwrap_or(i64::MAX);
        let next_end = self.running.iter().map(|(_, _, end)| *end).min().unwrap_or(i64::MAX);
        self.now = next_start.min(next_end).min(self.now + self.rng.random_range(1..200)).max(self.now + 1);
        let now = self.now;
        let (ended, running) =
            std::mem::take(&mut self.running).into_iter().partition(|(_, _, end)| *end <= now);
        self.running = running;
        let ended: Vec<(ClusterId, JobId, i64)> = ended;
        for (cluster, job, _) in ended {
            self.federation.scheduler(cluster).finish(Time(now), job);
            self.ended.insert(job, now);
        }
    }
}

/// The cluster that completes a request first among all but one.
fn first_of_all(
    federation: &mut Federation,
    now: Time,
    request: &Request,
    except: Option<ClusterId>,
) -> Option<(ClusterId, Estimate)> {
    let others = federation.ids().filter(|id| Some(*id) != except);
    let estimates = others.filter_map(|id| Some((id, federation.estimate(now, request, id)?)));
    estimates.min_by_key(|(id, estimate)| (estimate.completion(), *id))
}

fn check_pruned(mut world: World, rounds: u32) {
    let clusters = world.federation.len() as u32;
    for round in 0..rounds {
        for _ in 0..clusters.min(20) {
            world.submit_anywhere();
        }
        world.step();
        for _ in 0..4 {
            let request = world.request();
            let now = Time(world.now);
            let except = (round % 3 == 0).then(|| ClusterId(world.rng.random_range(0..clusters)));
            let best = first_of_all(&mut world.federation, now, &request, except);
            let latest = match (round % 2, best) {
                (1, Some((_, estimate))) => estimate.completion() - Span(world.rng.random_range(0..2)),
                _ => Time::MAX,
            };
            let expected = best.filter(|(_, estimate)| estimate.completion() <= latest);
            let found = world.federation.earliest(now, &request, except, latest);
            assert_eq!(found, expected, "round {round} on {clusters} clusters");
        }
    }
}

#[test]
fn the_pruned_search_equals_asking_every_cluster() {
    let greedy = [(3, 1), (12, 2), (40, 3), (70, 4)].map(|(clusters, seed)| (Tuner::Exact, clusters, seed));
    let slack = [(3, 5), (12, 6), (40, 7)].map(|(clusters, seed)| (Tuner::default(), clusters, seed));
    for (tuner, clusters, seed) in greedy.into_iter().chain(slack) {
        check_pruned(World::new(clusters, tuner, seed), 120);
    }
}

/// Groups of groups, with clusters whose plans bound nothing among them.
#[test]
fn many_clusters_are_searched_as_if_all_were_asked() {
    check_pruned(World::new(600, Tuner::Exact, 8), 150);
    check_pruned(World::under(&["cbf", "cbf-replan", "easy", "cbf"], 300, Tuner::default(), 9), 60);
    // All are busy: nearly nothing starts at once.
    let mut busy = World::new(300, Tuner::Exact, 10);
    for _ in 0..3000 {
        busy.submit_anywhere();
    }
    check_pruned(busy, 60);
}

/// Regular reallocation by MCT that asks every cluster for each job.
fn reallocate_by_asking_all(
    policy: &Reallocation,
    federation: &mut Federation,
    now: Time,
) -> Vec<(JobId, ClusterId, Estimate)> {
    let mut moves = Vec::new();
    let jobs: Vec<JobId> = federation.waiting().keys().copied().collect();
    for job in jobs {
        let plan = federation.plan(now, job).unwrap();
        if plan.start <= now {
            continue;
        }
        let tracked = federation.waiting()[&job].clone();
        let best = first_of_all(federation, now, &tracked.request, Some(tracked.cluster));
        let gains = |estimate: &Estimate| estimate.completion() <= plan.completion() - policy.threshold;
        if let Some((cluster, estimate)) = best.filter(|(_, estimate)| gains(estimate)) {
            assert!(federation.cancel(now, job));
            federation.submit(now, Tracked { cluster, ..tracked }, estimate.shape());
            moves.push((job, cluster, estimate));
        }
    }
    moves
}

/// A cycle that looks at what can gain only makes the moves of one that asks every cluster for every waiting job.
#[test]
fn a_cycle_moves_the_jobs_that_asking_every_cluster_would_move() {
    let policy = Reallocation::new(Algorithm::Regular, Heuristic::Mct);
    let mut count = 0;
    for (tuner, seed) in [(Tuner::Exact, 30), (Tuner::default(), 31)] {
        let mut world = World::new(300, tuner, seed);
        for round in 0..60 {
            for _ in 0..60 {
                world.submit_anywhere();
            }
            world.step();
            if round % 6 != 0 {
                continue;
            }
            let now = Time(world.now);
            let mut asked = world.federation.clone();
            let expected = reallocate_by_asking_all(&policy, &mut asked, now);
            let made = reallocate(&policy, &mut world.federation, now);
            let made: Vec<_> = made.iter().map(|one| (one.job, one.to, one.estimate)).collect();
            assert_eq!(made, expected, "{tuner} round {round}");
            assert_eq!(planned(&mut world.federation, now), planned(&mut asked, now));
            count += made.len();
        }
    }
    assert!(count > 100, "jobs move: {count}");
}

/// Bounded-slack sizing promises at most 1.5 times the earliest response, on every cluster and hence after mapping; under
/// conservative backfilling the response itself keeps to that.
#[test]
fn no_response_exceeds_the_slack() {
    for seed in 20..26 {
        let mut world = World::new(1 + seed as u32 % 5, Tuner::default(), seed);
        let mut greedy = World::new(1 + seed as u32 % 5, Tuner::Exact, seed);
        let mut latest: BTreeMap<JobId, Time> = BTreeMap::new();
        let mut cheaper = 0;
        for _ in 0..150 {
            for _ in 0..4 {
                let (request, now) = (world.request(), Time(world.now));
                let Some((cluster, estimate)) = world.federation.earliest(now, &request, None, Time::MAX)
                else {
                    continue;
                };
                // The same plans, sized for the request alone.
                for id in world.federation.ids() {
                    let plans = world.federation.scheduler(id).boxed_clone();
                    greedy.federation.replace(id, plans);
                }
                let (_, earliest) = greedy.federation.earliest(now, &request, None, Time::MAX).unwrap();
                let response = earliest.completion() - now;
                let bound = now + response + Span(response.0 / 2);
                assert!(earliest.completion() <= estimate.completion() && estimate.completion() <= bound);
                cheaper += u32::from(estimate.procs < earliest.procs);
                latest.insert(request.id, bound);
                let reason = Reason::Mapped(MapReason::EarliestCompletion);
                world.federation.submit(
                    now,
                    Tracked { request, cluster, moves: 0, reason },
                    estimate.shape(),
                );
            }
            world.step();
        }
        while !world.running.is_empty() || !world.federation.waiting().is_empty() {
            world.step();
        }
        assert!(cheaper > 100, "sizes are smaller: {cheaper}");
        assert_eq!(world.ended.len(), latest.len(), "every job has ended");
        for (job, end) in &world.ended {
            assert!(*end <= latest[job].0, "job {job} ended at {end}, promised by {}", latest[job]);
        }
    }
}

/// A month in the life of a federation; returns how many moves there were.
fn live(algorithm: Algorithm, heuristic: Heuristic, tuner: Tuner, seed: u64) -> usize {
    let policy = Reallocation { window: 5, ..Reallocation::new(algorithm, heuristic) };
    let mut world = World::new(4, tuner, seed);
    let mut moves = 0;
    for round in 0..150 {
        for _ in 0..3 {
            world.submit_anywhere();
        }
        world.submit_locally();
        world.step();
        if round % 4 != 0 {
            continue;
        }
        let now = Time(world.now);
        let before: BTreeMap<JobId, (ClusterId, Time)> = planned(&mut world.federation, now);
        let made = reallocate(&policy, &mut world.federation, now);
        let after = planned(&mut world.federation, now);
        assert_eq!(before.len(), after.len(), "{algorithm} {heuristic}: a job was lost");
        for one in &made {
            assert_ne!(one.from, one.to);
            // Moves before it in the event may have brought it forward already.
            let (home, earlier) = before[&one.job];
            assert!(home == one.from && one.before <= earlier, "{algorithm} {heuristic}");
            if algorithm == Algorithm::Regular {
                assert!(
                    one.estimate.completion() <= one.before - policy.threshold || heuristic != Heuristic::Mct
                );
            }
        }
        for (job, (_, earlier)) in &before {
            if algorithm == Algorithm::NoWorse {
                assert!(after[job].1 <= *earlier, "no-worse {heuristic}: job {job} lost");
            }
        }
        for (job, (cluster, promised)) in &mut world.local {
            if let Some(plan) = world.federation.scheduler(*cluster).plan(now, *job) {
                assert!(plan.completion().0 <= *promised, "{algorithm}: a local job was delayed");
                *promised = plan.completion().0;
            } else {
                assert_eq!(world.started.get(job), Some(&1), "a local job was touched");
            }
        }
        moves += made.len();
    }
    for _ in 0..4000 {
        world.step();
    }
    assert!(world.federation.waiting().is_empty(), "{algorithm} {heuristic}: jobs are left");
    assert!(
        world.started.values().all(|starts| *starts == 1),
        "{algorithm} {heuristic}: a job started twice"
    );
    moves
}

fn planned(federation: &mut Federation, now: Time) -> BTreeMap<JobId, (ClusterId, Time)> {
    let waiting: Vec<(JobId, ClusterId)> =
        federation.waiting().iter().map(|(job, tracked)| (*job, tracked.cluster)).collect();
    waiting
        .into_iter()
        .map(|(job, cluster)| (job, (cluster, federation.plan(now, job).unwrap().completion())))
        .collect()
}

#[test]
fn reallocation_keeps_its_promises_under_every_heuristic() {
    for algorithm in Algorithm::ALL.iter().filter(|one| **one != Algorithm::Siblings) {
        for heuristic in Heuristic::ALL {
            let worlds = [(Tuner::Exact, 0), (Tuner::default(), 1), (Tuner::Exact, 2)];
            let moves: usize =
                worlds.iter().map(|(tuner, seed)| live(*algorithm, *heuristic, *tuner, *seed)).sum();
            assert!(moves > 0, "{algorithm} {heuristic} moved nothing");
        }
    }
}

#[test]
fn mapping_chooses_among_clusters_that_fit() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let cluster = |name: &str, procs| Cluster {
        name: name.to_owned(),
        procs: Procs(procs),
        speed: Speed::REFERENCE,
        batch: "cbf".to_owned(),
        nodes: None,
    };
    let platform =
        Platform::new(vec![cluster("small", 4), cluster("large", 16), cluster("other", 16)]).unwrap();
    let mut federation = Federation::new(&platform, Tuner::Exact, Time::ZERO).unwrap();
    let rigid = |procs, origin| Request {
        id: JobId(0),
        submit: Time::ZERO,
        procs: Procs(procs),
        walltime: Span(10),
        speedup: Speedup::Rigid,
        origin,
        owner: Owner::UNKNOWN,
        fixed_time: false,
        resources: None,
    };
    let mut choose = |mapping, request: &Request| {
        map(mapping, &mut federation, Time::ZERO, request, &mut rng).map(|mapped| mapped.cluster.0)
    };
    assert_eq!(choose(Mapping::Mct, &rigid(2, None)), Ok(0), "ties go to the first");
    assert_eq!(choose(Mapping::Mct, &rigid(8, None)), Ok(1));
    assert_eq!(choose(Mapping::Given, &rigid(8, Some(ClusterId(2)))), Ok(2));
    let too_large = RefusalCause::LargerThanAll { requested: Procs(20), available: Procs(16) };
    assert_eq!(choose(Mapping::Mct, &rigid(20, None)), Err(too_large));
    let larger =
        RefusalCause::LargerThanCluster { cluster: ClusterId(0), requested: Procs(8), available: Procs(4) };
    assert_eq!(choose(Mapping::Given, &rigid(8, Some(ClusterId(0)))), Err(larger));
    assert_eq!(choose(Mapping::Given, &rigid(8, None)), Err(RefusalCause::NoOrigin));
    let drawn: std::collections::BTreeSet<u32> =
        (0..40).filter_map(|_| choose(Mapping::Random, &rigid(8, None)).ok()).collect();
    assert_eq!(drawn, [1, 2].into());
}
