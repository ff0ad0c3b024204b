//! Commands without the intended effect: crossing cancellations, duplicates, and killed controllers.

use super::*;

fn withdraw(external: &mut External, now: Time, effects: &mut Effects) {
    external.withdraw(now, JOB, effects);
}

fn cancel(external: &mut External, now: Time, effects: &mut Effects) {
    external.cancel(now, JOB, effects);
}

fn cancelled() -> StatusUpdate {
    StatusUpdate::Ended { job: JOB, exit: Exit::Cancelled, elapsed_ms: None }
}

#[test]
fn a_job_that_is_cancelled_during_its_withdrawal_ends() {
    let mut bench = Bench::queued(false);
    bench.act(withdraw);
    bench.act(cancel);
    let (_, updates) = bench.deliver(Event::Withdrawal { job: JOB, outcome: WithdrawalOutcome::Withdrawn });
    assert_eq!(updates, [cancelled()]);
}

#[test]
fn a_job_that_is_cancelled_before_its_submission_is_answered_does_not_start() {
    let mut bench = Bench::new();
    bench.act(|external, now, effects| external.submit(now, submission(), effects));
    let folder = Command::Terminate { job: JOB, ids: vec![] };
    assert_eq!(bench.act(cancel), (vec![folder.clone()], vec![]));
    bench.deliver(Event::Terminated { job: JOB });
    let unanswered = bench.external.unanswered();
    assert!(matches!(&unanswered[..], [Outer::External(first), _] if *first == folder), "{unanswered:?}");
    let terminate = Command::Terminate { job: JOB, ids: ids() };
    assert_eq!(bench.deliver(Event::Queued { job: JOB, ids: ids() }), (vec![terminate], vec![]));
    // Slurm reports a start, but the supervisor did not start it.
    bench.deliver(Event::Terminated { job: JOB });
    bench.list(vec![listed("41", Some(7), State::Cancelled)]);
    let exit = Exit::NotStarted("its batch script ended before it began".to_owned());
    let (_, updates) = bench.deliver(Event::Ended { job: JOB, exit, started: None, elapsed_ms: None });
    assert_eq!(updates, [cancelled()]);
}

#[test]
fn commands_that_a_killed_controller_forgot_are_repeated() {
    // Released, and held again.
    let mut bench = Bench::queued(true);
    bench.act(|external, now, effects| external.release(now, JOB, effects));
    bench.deliver(Event::Released { job: JOB });
    bench.list(vec![listed("41", Some(7), State::Pending)]);
    let release = Command::Release { job: JOB, ids: ids(), alternatives: Vec::new(), tentative: false };
    let (held, by_others) =
        (listed("41", Some(7), State::Held), listing::WaitReason::Other("JobHeldAdmin".to_owned()));
    let held_by_admin = ListedJob { wait_reason: Some(by_others), ..held.clone() };
    assert_eq!(bench.list(vec![held_by_admin]), (vec![], vec![]), "an administrator holds it");
    assert_eq!(bench.list(vec![held.clone()]), (vec![release], vec![]));
    assert_eq!(bench.list(vec![held.clone()]), (vec![], vec![]), "it is being released");
    // Cancelled, and listed again.
    bench.deliver(Event::Released { job: JOB });
    bench.act(cancel);
    bench.deliver(Event::Terminated { job: JOB });
    let terminate = Command::Terminate { job: JOB, ids: ids() };
    assert_eq!(bench.list(vec![held]), (vec![terminate], vec![]));
}

#[test]
fn unfinished_removals_are_repeated_after_a_restart() {
    let mut bench = Bench::queued(false);
    bench.act(withdraw);
    bench.deliver(Event::Withdrawal { job: JOB, outcome: WithdrawalOutcome::Withdrawn });
    let (commands, _) = bench.list(vec![listed("42", Some(7), State::Held)]);
    let remove = Command::Remove { job: JOB, ids: vec!["42".to_owned()] };
    assert_eq!(commands, std::slice::from_ref(&remove));
    assert_eq!(bench.restored().unanswered(), [Outer::External(remove)]);
}

#[test]
fn a_job_ends_with_the_duplicate_that_ran() {
    let duplicates = |first: ListedJob| vec![first, listed("42", Some(7), State::Held)];
    let ran = ListedJob {
        allocations: vec![NodeAllocation::new("n1", None)],
        ..listed("41", Some(7), State::Completed)
    };
    let mut bench = Bench::queued(false);
    let (commands, _) = bench.list(duplicates(ran.clone()));
    let [Command::Inspect { listed: found, .. }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(found.as_deref(), Some(&ran));
    let (_, updates) = bench.deliver(ended(Exit::Code(0)));
    assert_eq!(updates, [started(), end(Exit::Code(0))]);

    let mut bench = Bench::queued(false);
    bench.list(duplicates(ran));
    for not_started in [
        Event::Unclaimed { job: JOB },
        Event::Ended {
            job: JOB,
            exit: Exit::NotStarted("no folder".to_owned()),
            started: None,
            elapsed_ms: None,
        },
    ] {
        assert_eq!(bench.deliver(not_started), (vec![], vec![]));
    }
}

/// The withdrawal has locked its folder, or the duplicate has claimed it: only the answer says which.
#[test]
fn a_duplicate_that_starts_during_a_withdrawal_is_not_the_start_of_the_job() {
    let check = |outcome, expected: &[StatusUpdate]| {
        let mut bench = Bench::queued(false);
        bench.act(withdraw);
        let duplicates = vec![listed("41", Some(7), State::Pending), listed("42", Some(7), State::Running)];
        assert_eq!(bench.list(duplicates), (vec![], vec![]));
        assert_eq!(bench.deliver(Event::Withdrawal { job: JOB, outcome }).1, expected);
    };
    check(WithdrawalOutcome::Withdrawn, &[StatusUpdate::Withdrawn { job: JOB }]);
    check(WithdrawalOutcome::Started, &[started(), StatusUpdate::NotWithdrawn { job: JOB }]);
}
