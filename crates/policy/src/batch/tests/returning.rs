//! A job that left and is submitted again has no chosen shape.

use pliant_model::{JobId, Procs, Span, Time};

use super::super::{Submission, by_name, names};

/// The plan of a job that arrives second under that ID next to a job on so many processors, after a first job with ID 1 has left: it was
/// cancelled, or had started.
fn second(policy: &str, taken: u32, number: u32) -> Option<(Procs, Span, Time)> {
    let mut cluster = (by_name(policy).expect("registered").new)(Procs(8), Time(0));
    let submission = |job, procs, walltime| Submission::new(JobId(job), Procs(procs), Span(walltime));
    cluster.submit(Time(0), submission(0, taken, 100));
    cluster.start_due(Time(0), &mut Vec::new());
    cluster.submit(Time(10), submission(1, 8, 10));
    cluster.start_due(Time(10), &mut Vec::new());
    if taken == 8 {
        assert_eq!(cluster.queue_length(), 1, "{policy}: it waits at the head of the queue");
    }
    if cluster.cancel(Time(20), &[JobId(1)]) == 0 {
        cluster.finish(Time(20), JobId(1));
    }
    if taken < 8 {
        cluster.finish(Time(25), JobId(0));
    }
    cluster.submit(Time(30), submission(number, 4, 200));
    let plan = cluster.plan(Time(30), JobId(number))?;
    Some((plan.procs, plan.walltime, plan.start))
}

#[test]
fn a_withdrawn_job_leaves_no_shape_behind() {
    for policy in names() {
        for taken in [8, 5] {
            let fresh = second(policy, taken, 2);
            assert!(fresh.is_some(), "{policy}");
            assert_eq!(second(policy, taken, 1), fresh, "{policy} next to {taken}");
        }
    }
}
