//! Reallocation events made by hand: what is taken up in which order, and where it ends up. Properties over
//! random federations are in `tests/federation.rs`.

use pliant_model::{
    Cluster, ClusterId, JobId, MapReason, MoveReason, Platform, Procs, Reason, Request, Span, Speed, Speedup,
    Time,
};

use super::order::{Candidate, take_next};
use super::{Algorithm, Heuristic, Move, Reallocation, Urgency, reallocate};
use crate::federation::{Admission, FederatedCluster, Federation, Tracked};
use crate::nodes::{ClusterSnapshot, Node, Nodes, Pending, Shape};
use crate::tuning::Tuner;

/// Rigid jobs by these numbers, in order of submission.
const A: u32 = 10;
const B: u32 = 11;
const C: u32 = 12;
const D: u32 = 13;
const E: u32 = 14;

fn request(id: u32, procs: u32, walltime: i64) -> Request {
    let (id, procs, walltime) = (JobId(id), Procs(procs), Span(walltime));
    Request::new(id, Time::ZERO, procs, walltime, Speedup::Rigid)
}

fn submit(federation: &mut Federation, cluster: u32, request: Request) {
    let cluster = ClusterId(cluster);
    let estimate = federation.estimate(Time::ZERO, &request, cluster).unwrap();
    let reason = Reason::Mapped(MapReason::Given);
    federation.submit(Time::ZERO, Tracked { request, cluster, moves: 0, reason }, estimate.shape());
}

/// Clusters of so many processors, each wholly busy from 0 until the given time.
fn busy(clusters: &[(u32, i64)]) -> Federation {
    let cluster = |(index, (procs, _)): (usize, &(u32, i64))| Cluster {
        name: format!("c{index}"),
        procs: Procs(*procs),
        speed: Speed::REFERENCE,
        batch: "cbf".to_owned(),
        nodes: None,
    };
    let platform = Platform::new(clusters.iter().enumerate().map(cluster).collect()).unwrap();
    let mut federation = Federation::new(&platform, Tuner::Exact, Time::ZERO).unwrap();
    for (index, (procs, until)) in clusters.iter().enumerate() {
        submit(&mut federation, index as u32, request(index as u32, *procs, *until));
        let mut started = Vec::new();
        federation.scheduler(ClusterId(index as u32)).start_due(Time::ZERO, &mut started);
        federation.started(started[0].job);
    }
    federation
}

fn start(federation: &mut Federation, job: u32) -> i64 {
    federation.plan(Time::ZERO, JobId(job)).unwrap().start.0
}

/// The order in which a window is taken up when nothing changes in between, each job with the cluster and
/// the completion that it is offered.
fn order(
    heuristic: Heuristic,
    may_stay: bool,
    jobs: [(u32, u32, i64, i64); 4],
) -> Vec<(u32, Option<(u32, i64)>)> {
    let mut federation = busy(&[(8, 100), (4, 10), (2, 30)]);
    let candidate = |(id, procs, walltime, current)| {
        Candidate::new(request(id, procs, walltime), ClusterId(0), Time(current), may_stay)
    };
    let mut window: Vec<Candidate> = jobs.into_iter().map(candidate).collect();
    let mut taken = Vec::new();
    while let Some((next, best)) =
        take_next(Urgency::Named(heuristic), &mut window, &mut federation, Time::ZERO)
    {
        taken.push((next.request.id.0, best.map(|(id, estimate)| (id.0, estimate.completion().0))));
    }
    taken
}

/// Completions on the three clusters, and the gain over the present one:
/// A 120 30 50, 100 (a processor) - B 290 200 220, 300 (2) - C 110 - -, 90 (8) - D 150 60 -, 340 (4).
#[test]
fn cancelled_jobs_are_taken_up_in_the_order_of_the_heuristic() {
    let jobs = [(A, 1, 20, 130), (B, 2, 190, 500), (C, 8, 10, 200), (D, 4, 50, 400)];
    let best = |id| match id {
        A => (A, Some((1, 30))),
        B => (B, Some((1, 200))),
        C => (C, Some((0, 110))),
        _ => (D, Some((1, 60))),
    };
    for (heuristic, expected) in [
        (Heuristic::Mct, [A, B, C, D]),
        (Heuristic::MinMin, [A, D, C, B]),
        (Heuristic::MaxMin, [B, C, D, A]),
        // C has one option only, D suffers 90, A and B 20 each: the older first.
        (Heuristic::Sufferage, [C, D, A, B]),
        (Heuristic::MaxGain, [D, B, A, C]),
        (Heuristic::MaxRelGain, [B, A, D, C]),
    ] {
        assert_eq!(order(heuristic, false, jobs), expected.map(best), "{heuristic}");
    }
}

/// With the first cluster as home, where A completes at 130, B at 150, C at 200 and D at 400: staying counts
/// as an option, but is never what is offered.
#[test]
fn jobs_that_may_stay_are_taken_up_in_the_order_of_the_heuristic() {
    let jobs = [(A, 1, 20, 130), (B, 2, 190, 150), (C, 8, 10, 200), (D, 4, 50, 400)];
    let best = |id| match id {
        A => (A, Some((1, 30))),
        B => (B, Some((1, 200))),
        C => (C, None),
        _ => (D, Some((1, 60))),
    };
    for (heuristic, expected) in [
        (Heuristic::Mct, [A, B, C, D]),
        (Heuristic::MinMin, [A, D, B, C]),
        (Heuristic::MaxMin, [C, B, D, A]),
        (Heuristic::Sufferage, [C, D, B, A]),
        (Heuristic::MaxGain, [D, A, B, C]),
        (Heuristic::MaxRelGain, [A, D, B, C]),
    ] {
        assert_eq!(order(heuristic, true, jobs), expected.map(best), "{heuristic}");
    }
}

/// Four jobs queue on a cluster that is busy until 1000; another has room for all of them from 100 on.
fn queue_and_free_processors() -> Federation {
    let mut federation = busy(&[(8, 1000), (64, 100)]);
    for (id, procs, walltime) in [(A, 8, 50), (B, 8, 400), (C, 1, 300), (D, 4, 100)] {
        submit(&mut federation, 0, request(id, procs, walltime));
    }
    assert_eq!([A, B, C, D].map(|id| start(&mut federation, id)), [1000, 1050, 1450, 1450]);
    federation
}

/// Those left behind slide forward after each move, so what a job has before its own depends on the order.
#[test]
fn regular_moves_follow_the_heuristic_and_each_move_is_seen_by_the_next() {
    for (heuristic, expected) in [
        (Heuristic::Mct, [(A, 1050, 150), (B, 1400, 500), (C, 1300, 400), (D, 1100, 200)]),
        (Heuristic::MinMin, [(A, 1050, 150), (D, 1500, 200), (C, 1700, 400), (B, 1400, 500)]),
        (Heuristic::MaxMin, [(B, 1450, 500), (C, 1350, 400), (D, 1150, 200), (A, 1050, 150)]),
        (Heuristic::Sufferage, [(C, 1750, 400), (D, 1550, 200), (B, 1450, 500), (A, 1050, 150)]),
        (Heuristic::MaxGain, [(C, 1750, 400), (D, 1550, 200), (B, 1450, 500), (A, 1050, 150)]),
        (Heuristic::MaxRelGain, [(C, 1750, 400), (D, 1550, 200), (B, 1450, 500), (A, 1050, 150)]),
    ] {
        let mut federation = queue_and_free_processors();
        let moves =
            reallocate(&Reallocation::new(Algorithm::Regular, heuristic), &mut federation, Time::ZERO);
        let seen = moves.iter().map(|one| (one.job.0, one.before.0, one.estimate.completion().0));
        assert_eq!(seen.collect::<Vec<_>>(), expected, "{heuristic}");
        let by = |one: &Move| (one.from.0, one.to.0, one.reason) == (0, 1, MoveReason::EarlierCompletion);
        assert!(moves.iter().all(by), "{heuristic}: {moves:?}");
        for tracked in federation.waiting().values() {
            assert_eq!((tracked.cluster, tracked.moves), (ClusterId(1), 1));
            assert_eq!(tracked.reason, Reason::Moved(MoveReason::EarlierCompletion));
        }
    }
}

#[test]
fn regular_considers_the_window_of_the_oldest_and_all_jobs_with_mct() {
    for heuristic in Heuristic::ALL {
        let mut federation = queue_and_free_processors();
        let policy = Reallocation { window: 2, ..Reallocation::new(Algorithm::Regular, *heuristic) };
        let moves = reallocate(&policy, &mut federation, Time::ZERO);
        let mut moved: Vec<u32> = moves.iter().map(|one| one.job.0).collect();
        moved.sort_unstable();
        let expected: &[u32] = if *heuristic == Heuristic::Mct { &[A, B, C, D] } else { &[A, B] };
        assert_eq!(moved, expected, "{heuristic}");
    }
}

#[test]
fn the_threshold_holds_for_every_heuristic() {
    for heuristic in Heuristic::ALL {
        for (gain, expected) in [(59, 0), (60, 1), (61, 1)] {
            let mut federation = busy(&[(4, 100 + gain), (4, 100)]);
            submit(&mut federation, 0, request(A, 4, 50));
            let policy = Reallocation::new(Algorithm::Regular, *heuristic);
            let moves = reallocate(&policy, &mut federation, Time::ZERO);
            assert_eq!(moves.len(), expected, "{heuristic}: a gain of {gain} s");
        }
    }
}

/// Starts of five jobs as wide as their only cluster, busy until 100, after an event with a window of three.
fn resubmitted(algorithm: Algorithm, heuristic: Heuristic) -> [i64; 5] {
    let mut federation = busy(&[(4, 100)]);
    for (id, walltime) in [(A, 50), (B, 10), (C, 30), (D, 20), (E, 5)] {
        submit(&mut federation, 0, request(id, 4, walltime));
    }
    let policy = Reallocation { window: 3, ..Reallocation::new(algorithm, heuristic) };
    assert_eq!(reallocate(&policy, &mut federation, Time::ZERO), [], "back on its own cluster is no move");
    for tracked in federation.waiting().values() {
        assert_eq!((tracked.moves, tracked.reason), (0, Reason::Mapped(MapReason::Given)));
    }
    [A, B, C, D, E].map(|id| start(&mut federation, id))
}

#[test]
fn all_cancellation_orders_the_window_and_the_rest_follows() {
    let unchanged = [100, 150, 160, 190, 210];
    for (heuristic, expected) in [
        (Heuristic::Mct, unchanged),
        (Heuristic::MinMin, [140, 100, 110, 190, 210]),
        (Heuristic::MaxMin, [100, 180, 150, 190, 210]),
        // Cancelled jobs had 150, 160 and 190: C gains 60 at first, then B 20 at 130 and A.
        (Heuristic::MaxGain, [140, 130, 100, 190, 210]),
    ] {
        assert_eq!(resubmitted(Algorithm::AllCancellation, heuristic), expected, "{heuristic}");
        assert_eq!(resubmitted(Algorithm::NoWorse, heuristic), unchanged, "{heuristic}: no job may lose");
    }
}

/// After the first job is placed, B completes earlier on the other cluster than C, which had been ahead.
#[test]
fn estimates_are_made_anew_after_each_placement() {
    let mut federation = busy(&[(4, 100), (2, 105)]);
    for (id, procs, walltime) in [(A, 4, 10), (B, 2, 20), (C, 4, 18)] {
        submit(&mut federation, 0, request(id, procs, walltime));
    }
    let policy = Reallocation::new(Algorithm::AllCancellation, Heuristic::MinMin);
    let moves = reallocate(&policy, &mut federation, Time::ZERO);
    let seen: Vec<_> = moves.iter().map(|one| (one.job.0, one.to.0, one.estimate.completion().0)).collect();
    assert_eq!(seen, [(B, 1, 125)]);
    assert_eq!([A, B, C].map(|id| start(&mut federation, id)), [100, 105, 110]);
}

/// The guard keeps the reservation of a job that would complete later, and lets the others gain.
#[test]
fn no_worse_moves_the_others_around_a_job_that_would_lose() {
    let mut federation = busy(&[(4, 1000), (2, 100)]);
    for (id, procs, walltime) in [(A, 4, 50), (D, 4, 10), (B, 2, 400), (C, 2, 10)] {
        submit(&mut federation, 0, request(id, procs, walltime));
    }
    let starts = |federation: &mut Federation| [A, D, B, C].map(|id| start(federation, id));
    assert_eq!(starts(&mut federation), [1000, 1050, 1060, 1060]);
    let mut policy = Reallocation::new(Algorithm::AllCancellation, Heuristic::MinMin);
    let mut unguarded = federation.clone();
    reallocate(&policy, &mut unguarded, Time::ZERO);
    assert_eq!(starts(&mut unguarded), [1010, 1000, 110, 100], "A loses its reservation to D");
    policy.algorithm = Algorithm::NoWorse;
    let moves = reallocate(&policy, &mut federation, Time::ZERO);
    assert_eq!(starts(&mut federation), [1000, 1050, 110, 100]);
    let seen: Vec<_> = moves.iter().map(|one| (one.job.0, one.from.0, one.to.0, one.before.0)).collect();
    assert_eq!(seen, [(C, 0, 1, 1070), (B, 0, 1, 1460)]);
    assert!(moves.iter().all(|one| one.reason == MoveReason::Resubmitted));
}

/// A job whose reservation begins now counts as started.
#[test]
fn a_job_that_is_due_stays() {
    for algorithm in Algorithm::ALL.iter().filter(|one| **one != Algorithm::Siblings) {
        for heuristic in Heuristic::ALL {
            let mut federation = busy(&[(4, 1000), (4, 1000), (4, 2000)]);
            submit(&mut federation, 0, request(A, 4, 50));
            let now = Time(1000);
            federation.scheduler(ClusterId(0)).finish(now, JobId(0));
            federation.scheduler(ClusterId(1)).finish(now, JobId(1));
            let plan = federation.plan(now, JobId(A));
            assert_eq!(plan.map(|plan| plan.start), Some(now));
            let policy = Reallocation { threshold: Span(-100), ..Reallocation::new(*algorithm, *heuristic) };
            assert_eq!(reallocate(&policy, &mut federation, now), [], "{algorithm} {heuristic}");
            assert_eq!(federation.plan(now, JobId(A)), plan, "{algorithm} {heuristic}");
        }
    }
}

/// Each is sized where it waits, behind all that wait there, and none is made twice.
#[test]
fn every_other_cluster_that_accepts_a_job_has_a_sibling() {
    let mut federation = busy(&[(8, 1000), (4, 100), (8, 30), (2, 10)]);
    submit(&mut federation, 0, request(A, 4, 50));
    submit(&mut federation, 2, request(B, 8, 20));
    let policy = Reallocation::new(Algorithm::Siblings, Heuristic::Mct);
    let made = reallocate(&policy, &mut federation, Time::ZERO);
    let seen = made.iter().map(|one| {
        assert_eq!(one.reason, MoveReason::FirstStart);
        (one.job.0, one.from.0, one.to.0, one.before.0, one.estimate.completion().0)
    });
    // A is on the first cluster, its sibling on the third waits behind B; the fourth is too small.
    assert_eq!(seen.collect::<Vec<_>>(), [(A, 0, 1, 1050, 150), (A, 0, 2, 1050, 100), (B, 2, 0, 50, 1070)]);
    assert_eq!(federation.siblings(JobId(A)), [ClusterId(1), ClusterId(2)]);
    assert_eq!([A, B].map(|id| start(&mut federation, id)), [1000, 30], "no job moves");
    assert_eq!(reallocate(&policy, &mut federation, Time::ZERO), []);
    federation.started(JobId(A));
    assert_eq!(federation.siblings(JobId(A)), []);
}

#[test]
fn a_job_keeps_its_reservation_on_a_cluster_that_takes_no_more() {
    for algorithm in [Algorithm::Regular, Algorithm::AllCancellation, Algorithm::NoWorse] {
        let (clusters, queue) = (busy(&[(4, 10), (4, 100)]), request(A, 4, 50));
        let mut federation = clusters;
        submit(&mut federation, 0, queue);
        let from_clusters = |federation: &mut Federation, cluster, admission| FederatedCluster {
            procs: Procs(4),
            speed: Speed::REFERENCE,
            tuner: Tuner::Exact,
            scheduler: federation.scheduler(ClusterId(cluster)).boxed_clone(),
            admission,
        };
        let waiting: Vec<Tracked> = federation.waiting().values().cloned().collect();
        let (home, other) = (Admission::Closed, Admission::Open);
        let closed = [from_clusters(&mut federation, 0, home), from_clusters(&mut federation, 1, other)];
        let mut federation = Federation::from_clusters(closed.into(), waiting);
        let policy = Reallocation::new(algorithm, Heuristic::Mct);
        assert_eq!(reallocate(&policy, &mut federation, Time::ZERO), [], "{algorithm}");
        assert_eq!(start(&mut federation, A), 10, "{algorithm}");
    }
}

/// A cluster of 4 cores on which nothing runs and job A waits, planned or not, next to a cluster that is busy until 100.
fn unplanned(blocked: bool, admission: Admission) -> Federation {
    let mut federation = busy(&[(4, 1), (4, 100)]);
    let node = Node::of("n", Procs(4));
    let pending = Pending { blocked, ..Pending::of(JobId(A), Shape::of(Procs(2)), Span(50)) };
    let snapshot =
        ClusterSnapshot { nodes: vec![node], pending: vec![pending], ..ClusterSnapshot::default() };
    let home = Nodes::from_snapshot(Time::ZERO, &snapshot).unwrap();
    let from_clusters = |scheduler, admission| FederatedCluster {
        procs: Procs(4),
        speed: Speed::REFERENCE,
        tuner: Tuner::Exact,
        scheduler,
        admission,
    };
    let other = federation.scheduler(ClusterId(1)).boxed_clone();
    let request = request(A, 2, 50);
    let reason = Reason::Mapped(MapReason::Given);
    let waits = Tracked { request, cluster: ClusterId(0), moves: 0, reason };
    Federation::from_clusters(
        vec![from_clusters(Box::new(home), Admission::Open), from_clusters(other, admission)],
        [waits],
    )
}

#[test]
fn a_job_without_a_plan_moves_to_any_cluster_that_accepts_it() {
    for algorithm in [Algorithm::Regular, Algorithm::AllCancellation, Algorithm::NoWorse] {
        for &heuristic in Heuristic::ALL {
            let policy = Reallocation::new(algorithm, heuristic);
            let event = |mut federation: Federation| {
                let moves = reallocate(&policy, &mut federation, Time::ZERO);
                let waiting = federation.waiting()[&JobId(A)].cluster;
                let to = |one: &Move| (one.to.0, one.before, one.estimate.start.0);
                (moves.iter().map(to).collect::<Vec<_>>(), waiting.0)
            };
            let case = format!("{algorithm}, {heuristic}");
            assert_eq!(event(unplanned(true, Admission::Open)), (vec![(1, Time::MAX, 100)], 1), "{case}");
            assert_eq!(
                event(unplanned(false, Admission::Open)),
                (vec![], 0),
                "{case}: it starts at once where it is"
            );
            assert_eq!(
                event(unplanned(true, Admission::Closed)),
                (vec![], 0),
                "{case}: the other takes none"
            );
            let mut avoiding = unplanned(true, Admission::Open);
            avoiding.exclude(JobId(A), ClusterId(1));
            assert_eq!(event(avoiding), (vec![], 0), "{case}: it was there without a plan");
        }
    }
}

/// On two clusters of 4 cores job 90 runs until 10, or until 1000. Of jobs A and B on the first one, only A starts there at once.
#[test]
fn waiting_jobs_leave_a_drained_cluster_even_for_a_later_completion() {
    for algorithm in [Algorithm::Regular, Algorithm::AllCancellation, Algorithm::NoWorse] {
        for &heuristic in Heuristic::ALL {
            let mut busy = busy(&[(4, 10), (4, 1000)]);
            submit(&mut busy, 0, request(A, 4, 50));
            submit(&mut busy, 0, request(B, 4, 50));
            let now = Time(10);
            busy.scheduler(ClusterId(0)).finish(now, JobId(0));
            let waiting: Vec<Tracked> = busy.waiting().values().cloned().collect();
            let cluster = |busy: &mut Federation, cluster, admission| FederatedCluster {
                procs: Procs(4),
                speed: Speed::REFERENCE,
                tuner: Tuner::Exact,
                scheduler: busy.scheduler(ClusterId(cluster)).boxed_clone(),
                admission,
            };
            let (home, other) = (Admission::Drained, Admission::Open);
            let clusters = vec![cluster(&mut busy, 0, home), cluster(&mut busy, 1, other)];
            let mut federation = Federation::from_clusters(clusters, waiting);
            let moves = reallocate(&Reallocation::new(algorithm, heuristic), &mut federation, now);
            let seen = |one: &Move| (one.job.0, one.to.0, one.before.0, one.estimate.start.0, one.reason);
            let expected = [(B, 1, 110, 1000, MoveReason::Drained)];
            assert_eq!(moves.iter().map(seen).collect::<Vec<_>>(), expected, "{algorithm} {heuristic}");
        }
    }
}

/// The window is of the jobs that may gain.
#[test]
fn all_waiting_jobs_leave_a_drained_cluster_whatever_the_window_is() {
    for &heuristic in Heuristic::ALL {
        let mut busy = busy(&[(4, 1000), (4, 1000), (4, 2000)]);
        for job in 0..30 {
            submit(&mut busy, 0, request(A + job, 4, 50));
            submit(&mut busy, 1, request(A + 100 + job, 4, 50));
        }
        let waiting: Vec<Tracked> = busy.waiting().values().cloned().collect();
        let admissions = [Admission::Open, Admission::Drained, Admission::Open];
        let clusters = (0..).zip(admissions).map(|(cluster, admission)| FederatedCluster {
            procs: Procs(4),
            speed: Speed::REFERENCE,
            tuner: Tuner::Exact,
            scheduler: busy.scheduler(ClusterId(cluster)).boxed_clone(),
            admission,
        });
        let clusters = clusters.collect();
        let mut federation = Federation::from_clusters(clusters, waiting);
        reallocate(&Reallocation::new(Algorithm::Regular, heuristic), &mut federation, Time::ZERO);
        let left = federation.waiting().values().filter(|tracked| tracked.cluster == ClusterId(1));
        assert_eq!(left.count(), 0, "{heuristic}");
    }
}
