//! Tentative jobs: their turn comes like that of any other, and what starts then waits to be told whether it may begin.

use super::*;
use crate::batch::external::RELEASE_TIMEOUT;

impl Bench {
    /// A tentative job in the queue as `41`.
    fn tentative() -> Bench {
        let mut bench = Bench::new();
        let (commands, news) =
            bench.act(|external, now, effects| external.submit_tentatively(now, submission(), effects));
        let queue = Queue {
            job: JOB,
            procs: Procs(2),
            walltime: Span(600) + RELEASE_TIMEOUT,
            held: false,
            tentative: true,
            resubmitted: false,
            alternatives: Vec::new(),
        };
        assert_eq!((commands, news), (vec![Command::Queue(queue)], vec![]));
        let (commands, news) = bench.tell(Event::Queued { job: JOB, ids: ids() });
        assert_eq!((commands, news), (vec![], vec![StatusUpdate::Held { job: JOB }]));
        bench
    }

    /// The same when its turn has come.
    fn with_turn() -> Bench {
        let mut bench = Bench::tentative();
        assert_eq!(bench.list(vec![waits()]), (vec![], vec![]));
        assert_eq!(bench.list(vec![runs()]), (vec![], vec![StatusUpdate::Ready { job: JOB }]));
        assert_eq!(bench.list(vec![runs()]), (vec![], vec![]), "that is told once");
        bench
    }

    fn release(&mut self) {
        let released = self.act(|external, now, effects| external.release(now, JOB, effects));
        assert_eq!(released, (vec![release()], vec![]));
        assert_eq!(self.external.unanswered(), [Outer::External(release())]);
    }
}

fn waits() -> ListedJob {
    listed("41", Some(7), State::Pending)
}

fn runs() -> ListedJob {
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
fn it_starts_when_it_is_released() {
    let mut bench = Bench::with_turn();
    bench.release();
    assert_eq!(bench.list(vec![runs()]), (vec![], vec![]), "whoever waits has not been told");
    assert_eq!(bench.tell(Event::Released { job: JOB }), (vec![], vec![]));
    assert_eq!(bench.list(vec![runs()]), (vec![], vec![started()]));
    let over = listed("41", Some(7), State::Completed);
    let (commands, _) = bench.list(vec![over]);
    assert!(matches!(commands[..], [Command::Inspect { .. }]), "{commands:?}");
    assert_eq!(bench.tell(ended(Exit::Code(0))).1, [end(Exit::Code(0))]);
}

#[test]
fn one_that_is_released_before_its_turn_waits_like_any_other() {
    let mut bench = Bench::tentative();
    bench.list(vec![waits()]);
    bench.release();
    bench.tell(Event::Released { job: JOB });
    assert_eq!(bench.list(vec![waits()]), (vec![], vec![]));
    assert_eq!(bench.list(vec![runs()]), (vec![], vec![started()]));
}

/// Nobody has begun it, so that nobody has to look: whoever was to start it gave up, or somebody cancelled it, or a
/// controller that was killed has forgotten it.
#[test]
fn one_that_is_gone_unreleased_has_lost_its_turn() {
    for left in
        [vec![listed("41", Some(7), State::Completed)], vec![listed("41", Some(7), State::Cancelled)], vec![]]
    {
        for mut bench in [Bench::tentative(), Bench::with_turn()] {
            assert_eq!(bench.list(left.clone()), (vec![], vec![lost_processors()]), "{left:?}");
            assert_eq!(bench.list(left.clone()), (vec![], vec![]));
        }
    }
    let mut bench = Bench::tentative();
    let early = Changes { at: bench.now, ..Changes::default() };
    assert_eq!(bench.tell(Event::Listed(early)), (vec![], vec![]), "it was not listed yet");
    // Submitted twice: what still waits has no use.
    let mut bench = Bench::with_turn();
    let began =
        ListedJob { started: Some(Time(50)), places: runs().places, ..listed("41", Some(7), State::Failed) };
    let both = || vec![began.clone(), listed("42", Some(7), State::Pending)];
    assert_eq!(bench.list(both()).1, [lost_processors()]);
    let remove = Command::Remove { job: JOB, ids: vec!["42".to_owned()] };
    assert_eq!(bench.list(both()), (vec![remove], vec![]));
}

/// Its release came too late: whatever is known of it, it never runs.
#[test]
fn one_that_missed_its_release_is_told_once_as_what_was_asked_for() {
    let cancel = |external: &mut External, now, effects: &mut Effects| external.cancel(now, JOB, effects);
    let withdraw = |external: &mut External, now, effects: &mut Effects| external.withdraw(now, JOB, effects);
    let check = |asked: Option<fn(&mut External, Time, &mut Effects)>, expected: StatusUpdate| {
        let mut bench = Bench::with_turn();
        bench.release();
        asked.map(|ask| bench.act(ask));
        assert_eq!(bench.list(vec![listed("41", Some(7), State::Completed)]), (vec![], vec![]));
        assert_eq!(bench.tell(Event::ReleasedTooLate { job: JOB }), (vec![], vec![expected]));
        assert_eq!(bench.tell(Event::ReleasedTooLate { job: JOB }), (vec![], vec![]));
        assert_eq!(
            bench.tell(Event::Withdrawal { job: JOB, outcome: WithdrawalOutcome::Started }),
            (vec![], vec![])
        );
        assert_eq!(bench.external.unanswered(), []);
    };
    check(None, StatusUpdate::ReleasedTooLate { job: JOB });
    check(Some(cancel), end_of(Exit::Cancelled));
    check(Some(withdraw), StatusUpdate::Withdrawn { job: JOB });
}

#[test]
fn it_is_dropped_whatever_it_does() {
    for mut bench in [Bench::tentative(), Bench::with_turn()] {
        let terminate = Command::Terminate { job: JOB, ids: ids() };
        let dropped = bench.act(|external, now, effects| external.cancel(now, JOB, effects));
        assert_eq!(dropped, (vec![terminate], vec![]));
        bench.tell(Event::Terminated { job: JOB });
        assert_eq!(bench.list(vec![]), (vec![], vec![lost_processors()]));
    }
}

/// A submission that nobody has answered is repeated as what it is; one that is forgotten once it was released is like any
/// other.
#[test]
fn it_is_submitted_again_as_what_it_is() {
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
    let mut bench = Bench::with_turn();
    bench.release();
    bench.tell(Event::Released { job: JOB });
    bench.list(vec![]);
    let (commands, _) = bench.tell(Event::Unclaimed { job: JOB });
    let [Command::Queue(queue)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(
        (queue.tentative, queue.held, queue.resubmitted, queue.walltime),
        (false, false, true, Span(600))
    );
}
