//! Jobs that the batch system does not take for a limit: they wait at the server.

use super::*;

fn limited() -> Bench {
    let mut bench = Bench::new();
    bench.act(|external, now, effects| external.submit(now, submission(), effects));
    let why = "AssocMaxSubmitJobLimit".to_owned();
    assert_eq!(bench.deliver(Event::Limited { job: JOB, why }), (vec![], vec![]));
    bench
}

#[test]
fn a_limited_job_waits_without_a_plan_and_may_move() {
    let mut bench = limited();
    assert!(bench.external.waiting(bench.now).is_empty());
    assert_eq!(bench.external.usage().waiting, 1);
    let why = bench.external.unplanned(JOB).unwrap();
    assert!(
        why.contains("takes no more jobs of the user") && why.contains("AssocMaxSubmitJobLimit"),
        "{why}"
    );
    assert!(!bench.external.is_stuck(bench.now, JOB));
    assert!(bench.external.is_stuck(bench.now + Span(60), JOB));
    assert!(matches!(bench.external.unanswered()[..], [Outer::External(Command::Queue(_))]));
    // It is taken later, and is a job like any other.
    bench.deliver(Event::Queued { job: JOB, ids: ids() });
    assert_eq!(bench.external.waiting(bench.now).len(), 1);
    assert!(!bench.external.is_stuck(bench.now + Span(60), JOB) && !bench.external.is_unwanted(JOB));
}

#[test]
fn a_limited_job_is_cancelled_without_having_been_taken() {
    let mut bench = limited();
    assert!(!bench.external.is_unwanted(JOB));
    let (commands, _) = bench.act(|external, now, effects| external.cancel(now, JOB, effects));
    assert_eq!(commands, [Command::Terminate { job: JOB, ids: vec![] }]);
    assert!(bench.external.is_unwanted(JOB));
    let (commands, updates) = bench.deliver(Event::Refused { job: JOB, why: "a limit".to_owned() });
    let expected = StatusUpdate::Ended { job: JOB, exit: Exit::Cancelled, elapsed_ms: None };
    assert_eq!((commands, updates), (vec![], vec![expected]));
    assert!(bench.external.is_unwanted(JOB));
}

#[test]
fn a_limited_job_is_withdrawn_without_having_been_taken() {
    let mut bench = limited();
    bench.act(|external, now, effects| external.withdraw(now, JOB, effects));
    assert!(bench.external.is_unwanted(JOB));
    let (commands, _) = bench.deliver(Event::Queued { job: JOB, ids: vec![] });
    assert_eq!(commands, [Command::Withdraw { job: JOB, ids: vec![], tentative: false }]);
    let outcome = WithdrawalOutcome::Withdrawn;
    let (_, updates) = bench.deliver(Event::Withdrawal { job: JOB, outcome });
    assert_eq!(updates, [StatusUpdate::Withdrawn { job: JOB }]);
}
