//! A cancelled job that is submitted again has no chosen shape.

use pliant_model::{JobId, Procs, Span, Time};

use super::super::{Submission, by_name, names};

/// The plan of a job that arrives second under that ID, after a first job with ID 1 was cancelled.
fn second(policy: &str, number: u32) -> Option<(Procs, Span, Time)> {
    let mut cluster = (by_name(policy).expect("registered").new)(Procs(8), Time(0));
    let submission = |job, procs, walltime| Submission::new(JobId(job), Procs(procs), Span(walltime));
    cluster.submit(Time(0), submission(0, 8, 100));
    cluster.start_due(Time(0), &mut Vec::new());
    cluster.submit(Time(10), submission(1, 8, 10));
    assert_eq!(cluster.queue_length(), 1, "{policy}: it waits at the head of the queue");
    assert_eq!(cluster.cancel(Time(20), &[JobId(1)]), 1, "{policy}");
    cluster.submit(Time(30), submission(number, 4, 200));
    let plan = cluster.plan(Time(30), JobId(number))?;
    Some((plan.procs, plan.walltime, plan.start))
}

#[test]
fn a_withdrawn_job_leaves_no_shape_behind() {
    for policy in names() {
        let fresh = second(policy, 2);
        assert!(fresh.is_some(), "{policy}");
        assert_eq!(second(policy, 1), fresh, "{policy}");
    }
}
