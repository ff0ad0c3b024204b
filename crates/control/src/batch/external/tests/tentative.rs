//! Tentative jobs: they get their processors like other jobs, and their start gate waits for the release.

use super::*;
use crate::batch::external::RELEASE_TIMEOUT;

impl Bench {
    /// A tentative job in the queue with the ID `41`.
    fn tentative() -> Bench {
        let mut bench = Bench::new();
        let (commands, updates) =
            bench.act(|external, now, effects| external.submit_tentatively(now, submission(), effects));
        let queue = Queue {
            job: JOB,
            procs: Procs(2),
            walltime: Span(600) + RELEASE_TIMEOUT,
            held: false,
            tentative: true,
            resubmitted: false,
            alternatives: Vec::new(),
            resources: None,
            partition: None,
        };
        assert_eq!((commands, updates), (vec![Command::Queue(queue)], vec![]));
        let (commands, updates) = bench.deliver(Event::Queued { job: JOB, ids: ids() });
        assert_eq!((commands, updates), (vec![], vec![StatusUpdate::Held { job: JOB }]));
        bench
    }

    /// A tentative job that has its processors.
    fn ready() -> Bench {
        let mut bench = Bench::tentative();
        assert_eq!(bench.list(vec![waiting()]), (vec![], vec![]));
        assert_eq!(bench.list(vec![running()]), (vec![], vec![StatusUpdate::Ready { job: JOB }]));
        assert_eq!(bench.list(vec![running()]), (vec![], vec![]), "it is reported once");
        bench
    }

    fn release(&mut self) {
        let released = self.act(|external, now, effects| external.release(now, JOB, effects));
        assert_eq!(released, (vec![release()], vec![]));
        assert_eq!(self.external.unanswered(), [Outer::External(release())]);
    }
}

fn waiting() -> ListedJob {
    listed("41", Some(7), State::Pending)
}

fn running() -> ListedJob {
    listed("41", Some(7), State::Running)
}

fn release() -> Command {
    Command::Release { job: JOB, ids: ids(), alternatives: Vec::new(), tentative: true }
}

fn lost_processors() -> StatusUpdate {
    end_of(Exit::NotStarted("it lost its processors before it was released".to_owned()))
}

fn end_of(exit: Exit) -> StatusUpdate {
    StatusUpdate::Ended { job: JOB, exit, elapsed_ms: None }
}

#[test]
fn a_ready_job_starts_when_it_is_released() {
    let mut bench = Bench::ready();
    bench.release();
    assert_eq!(bench.list(vec![running()]), (vec![], vec![]), "the start gate has not got the release");
    assert_eq!(bench.deliver(Event::Released { job: JOB }), (vec![], vec![]));
    assert_eq!(bench.list(vec![running()]), (vec![], vec![started()]));
    let over = listed("41", Some(7), State::Completed);
    let (commands, _) = bench.list(vec![over]);
    assert!(matches!(commands[..], [Command::Inspect { .. }]), "{commands:?}");
    assert_eq!(bench.deliver(ended(Exit::Code(0))).1, [end(Exit::Code(0))]);
}

#[test]
fn a_job_that_is_released_before_it_is_ready_waits_like_any_other() {
    let mut bench = Bench::tentative();
    bench.list(vec![waiting()]);
    bench.release();
    bench.deliver(Event::Released { job: JOB });
    assert_eq!(bench.list(vec![waiting()]), (vec![], vec![]));
    assert_eq!(bench.list(vec![running()]), (vec![], vec![started()]));
}

/// It has not started, so its folder is not inspected: its start gate gave up, it was cancelled, or a killed controller has
/// forgotten it.
#[test]
fn an_unreleased_job_that_is_gone_has_lost_its_processors() {
    for left in
        [vec![listed("41", Some(7), State::Completed)], vec![listed("41", Some(7), State::Cancelled)], vec![]]
    {
        for mut bench in [Bench::tentative(), Bench::ready()] {
            assert_eq!(bench.list(left.clone()), (vec![], vec![lost_processors()]), "{left:?}");
            assert_eq!(bench.list(left.clone()), (vec![], vec![]));
        }
    }
    let mut bench = Bench::tentative();
    let early = Changes { at: bench.now, ..Changes::default() };
    assert_eq!(bench.deliver(Event::Listed(early)), (vec![], vec![]), "it was not listed yet");
    // Submitted twice: the waiting duplicate is removed.
    let mut bench = Bench::ready();
    let began = ListedJob {
        started: Some(Time(50)),
        allocations: running().allocations,
        ..listed("41", Some(7), State::Failed)
    };
    let both = || vec![began.clone(), listed("42", Some(7), State::Pending)];
    assert_eq!(bench.list(both()).1, [lost_processors()]);
    let remove = Command::Remove { job: JOB, ids: vec!["42".to_owned()] };
    assert_eq!(bench.list(both()), (vec![remove], vec![]));
}

/// Whatever is listed of it, it never runs.
#[test]
fn a_job_that_is_released_too_late_is_reported_once() {
    let cancel = |external: &mut External, now, effects: &mut Effects| external.cancel(now, JOB, effects);
    let withdraw = |external: &mut External, now, effects: &mut Effects| external.withdraw(now, JOB, effects);
    let check = |asked: Option<fn(&mut External, Time, &mut Effects)>, expected: StatusUpdate| {
        let mut bench = Bench::ready();
        bench.release();
        asked.map(|ask| bench.act(ask));
        assert_eq!(bench.list(vec![listed("41", Some(7), State::Completed)]), (vec![], vec![]));
        assert_eq!(bench.deliver(Event::ReleasedTooLate { job: JOB }), (vec![], vec![expected]));
        assert_eq!(bench.deliver(Event::ReleasedTooLate { job: JOB }), (vec![], vec![]));
        assert_eq!(
            bench.deliver(Event::Withdrawal { job: JOB, outcome: WithdrawalOutcome::Started }),
            (vec![], vec![])
        );
        assert_eq!(bench.external.unanswered(), []);
    };
    check(None, StatusUpdate::ReleasedTooLate { job: JOB });
    check(Some(cancel), end_of(Exit::Cancelled));
    check(Some(withdraw), StatusUpdate::Withdrawn { job: JOB });
}

#[test]
fn a_tentative_job_can_be_cancelled_at_any_time() {
    for mut bench in [Bench::tentative(), Bench::ready()] {
        let terminate = Command::Terminate { job: JOB, ids: ids() };
        let cancelled = bench.act(|external, now, effects| external.cancel(now, JOB, effects));
        assert_eq!(cancelled, (vec![terminate], vec![]));
        bench.deliver(Event::Terminated { job: JOB });
        assert_eq!(bench.list(vec![]), (vec![], vec![lost_processors()]));
    }
}

/// An unanswered submission is repeated as tentative. A job that is forgotten after its release is submitted like any
/// other.
#[test]
fn a_resubmission_is_tentative_until_the_release() {
    let mut bench = Bench::new();
    bench.act(|external, now, effects| external.submit_tentatively(now, submission(), effects));
    let open = bench.external.unanswered();
    assert!(
        matches!(
            &open[..],
            [Outer::External(Command::Queue(Queue { tentative: true, resubmitted: true, .. }))]
        ),
        "{open:?}"
    );
    let mut bench = Bench::ready();
    bench.release();
    bench.deliver(Event::Released { job: JOB });
    bench.list(vec![]);
    let (commands, _) = bench.deliver(Event::Unclaimed { job: JOB });
    let [Command::Queue(queue)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(
        (queue.tentative, queue.held, queue.resubmitted, queue.walltime),
        (false, false, true, Span(600))
    );
}
