//! A job that runs past its walltime keeps its processors until its termination is delivered.

use pliant_model::{JobId, Procs, Span, Time};

use super::super::{Start, Submission, by_name};

#[test]
fn no_job_takes_the_processors_of_an_overdue_job() {
    for policy in ["fcfs", "easy", "easy-sjbf", "backfill", "h1", "h1-completion", "h2", "h3-head"] {
        let mut cluster = (by_name(policy).expect("registered").new)(Procs(4), Time(0));
        let (procs, walltime) = (Procs(3), Span(10));
        let mut started = Vec::new();
        cluster.submit(Time(0), Submission::new(JobId(0), procs, walltime));
        cluster.submit(Time(0), Submission::new(JobId(1), procs, walltime));
        cluster.start_due(Time(0), &mut started);
        assert_eq!(cluster.plan(Time(5), JobId(1)).map(|plan| plan.start), Some(Time(10)), "{policy}");
        cluster.submit(Time(15), Submission::new(JobId(2), procs, walltime));
        cluster.start_due(Time(15), &mut started);
        assert_eq!(started, [Start { job: JobId(0), procs, walltime }], "{policy}");
        assert_eq!(cluster.plan(Time(16), JobId(1)).map(|plan| plan.start), Some(Time(16)), "{policy}");
        cluster.finish(Time(17), JobId(0));
        cluster.start_due(Time(17), &mut started);
        assert_eq!(started[1..], [Start { job: JobId(1), procs, walltime }], "{policy}");
    }
}
