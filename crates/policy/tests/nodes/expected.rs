//! Jobs expected to end before their limits: the batch system plans by limits, a server with expectations plans further
//! ahead.

use pliant_model::{JobId, Procs, Span, Time};
use pliant_policy::batch::BatchScheduler;
use pliant_policy::nodes::{
    AllocatedJob, ClusterSnapshot, Node, NodeShare, Nodes, Pending, PublishedStart, Rules, Shape,
};

fn job(number: u32, cores: u32, walltime: i64, expected: Option<i64>) -> Pending {
    let shape = Shape::of(Procs(cores));
    Pending { expected: expected.map(Span), ..Pending::of(JobId(number), shape, Span(walltime)) }
}

/// One node of four cores, two of them held until 600 and expected to be free at some time before; where the waiting
/// jobs start.
fn check(held: Option<i64>, pending: &[Pending], rules: &Rules, starts: &[Option<i64>]) {
    let on = vec![NodeShare { node: 0, cores: Some(Procs(2)), gpus: 0 }];
    let holder =
        AllocatedJob { on, expected: held.map(Time), ..AllocatedJob::of(JobId(100), Procs(2), Time(600)) };
    let snapshot = ClusterSnapshot {
        nodes: vec![Node::of("n1", Procs(4))],
        running: vec![holder],
        pending: pending.to_vec(),
        rules: rules.clone(),
        ..ClusterSnapshot::default()
    };
    let mut nodes = Nodes::from_snapshot(Time::ZERO, &snapshot).unwrap();
    assert_eq!(nodes.snapshot(), snapshot, "expectations are kept");
    let found: Vec<Option<i64>> =
        pending.iter().map(|one| nodes.plan(Time::ZERO, one.job).map(|plan| plan.start.0)).collect();
    assert_eq!(found, starts, "held until {held:?}, waiting {pending:?}");
}

#[test]
fn jobs_start_when_those_before_them_are_expected_to_end() {
    let rules = Rules::slurm(Span(1));
    let four = |expected| job(1, 4, 300, expected);
    check(None, &[four(None)], &rules, &[Some(600)]);
    check(Some(60), &[four(None)], &rules, &[Some(60)]);
    // A second one waits for the first, by its limit or by what is expected of it.
    check(Some(60), &[four(None), job(2, 4, 60, None)], &rules, &[Some(60), Some(360)]);
    check(Some(60), &[four(Some(30)), job(2, 4, 60, None)], &rules, &[Some(60), Some(90)]);
    // Beyond what is played, too.
    let planned = Rules { passes: 0, ..rules };
    check(Some(60), &[four(Some(30)), job(2, 4, 60, None)], &planned, &[Some(60), Some(90)]);
}

#[test]
fn the_batch_system_goes_on_planning_by_limits() {
    // It backfills what fits in by its limit before the held cores are free at 600, though they are expected to be at 60:
    // from then on the first one waits for the second, which is expected to take 400 s.
    let waiting = [job(1, 4, 300, None), job(2, 2, 540, Some(400))];
    check(Some(60), &waiting, &Rules::slurm(Span(1)), &[Some(400), Some(0)]);
    // What does not fit in by its limit is not backfilled, though it is expected to end in time.
    let waiting = [job(1, 4, 300, None), job(2, 2, 660, Some(30))];
    check(Some(60), &waiting, &Rules::slurm(Span(1)), &[Some(60), Some(360)]);
}

#[test]
fn a_job_past_its_expectation_ends_soon_and_within_its_limit() {
    let rules = Rules::slurm(Span(1));
    check(Some(-5), &[job(1, 4, 300, None)], &rules, &[Some(1)]);
    check(Some(5000), &[job(1, 4, 300, Some(9000)), job(2, 4, 60, None)], &rules, &[Some(600), Some(900)]);
}

#[test]
fn starts_announced_for_before_the_next_pass_hold() {
    let rules = Rules::slurm(Span(30));
    let announced = |start: i64| {
        let published = Some(PublishedStart { start: Time(start), nodes: Vec::new() });
        Pending { published, ..job(1, 4, 300, None) }
    };
    // The held cores are free at 600 by their limit.
    check(None, &[announced(20), job(2, 4, 60, None)], &rules, &[Some(20), Some(900)]);
    // What lies farther away is not known better by the batch system, and what has passed is stale.
    check(None, &[announced(31)], &rules, &[Some(600)]);
    check(None, &[announced(-1)], &rules, &[Some(600)]);
    check(None, &[announced(0)], &rules, &[Some(600)]);
    // It may start before.
    check(Some(5), &[announced(20)], &rules, &[Some(5)]);
}
