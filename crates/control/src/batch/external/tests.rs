//! Events of external batch systems and their effects, checked at every step against a mirror restored from its dump.

mod competing;
mod limited;
mod partitions;
mod planning;
mod resources;
mod tentative;
mod unplanned;

use pliant_model::{Estimate, Procs, Request, Span, Speed, Speedup, Time};
use pliant_policy::batch::{BatchScheduler, Submission};
use pliant_policy::nodes::Nodes;
use pliant_policy::tuning::Tuner;

use super::*;
use crate::batch::{BatchSystem, Command as Outer, Usage};
use crate::listing::{self, CoreLayout, NodeAllocation, State};
use crate::local::LocalJob;

mod resubmission;

const JOB: JobId = JobId(7);

fn submission() -> Submission {
    Submission::new(JOB, Procs(2), Span(600))
}

fn node(name: &str, cores: u32) -> listing::Node {
    let partitions = vec!["main".to_owned()];
    listing::Node { name: name.to_owned(), cores, partitions, ..listing::Node::default() }
}

fn listed(id: &str, job_number: Option<u32>, state: State) -> ListedJob {
    let runs = state.phase() == Phase::Running;
    let allocation = NodeAllocation::new("n1", Some(2));
    ListedJob {
        id: id.to_owned(),
        job_number,
        partition: "main".to_owned(),
        shape: CoreLayout { cores: 2, nodes: Some(1), exclusive: false },
        allocations: if runs { vec![allocation] } else { Vec::new() },
        walltime: Some(Span(600)),
        started: runs.then_some(Time(50)),
        priority: 1000 - id.len() as u64,
        state,
        ..ListedJob::default()
    }
}

/// Applies each event to a mirror and to one restored from its dump, and compares the effects.
struct Bench {
    external: External,
    listing: Listing,
    now: Time,
}

impl Bench {
    fn new() -> Bench {
        let mut bench = Bench { external: External::new(), listing: Listing::default(), now: Time(100) };
        let (interval, partition) = (Span(30), Some("main".to_owned()));
        bench.deliver(Event::configured(interval, partition, Expect::Limits));
        bench.list(vec![]);
        bench
    }

    fn restored(&mut self) -> External {
        let batch::Dump::External(dump) = self.external.dump(self.now) else {
            panic!("expected an external dump")
        };
        let written = serde_json::to_string(&batch::Dump::External(dump)).unwrap();
        let batch::Dump::External(dump) = serde_json::from_str(&written).unwrap() else {
            panic!("{written}")
        };
        External::restore(*dump)
    }

    fn act(&mut self, act: impl Fn(&mut External, Time, &mut Effects)) -> (Vec<Command>, Vec<StatusUpdate>) {
        let (mut effects, mut restored_effects) = (Effects::default(), Effects::default());
        let mut restored = self.restored();
        act(&mut self.external, self.now, &mut effects);
        act(&mut restored, self.now, &mut restored_effects);
        assert_eq!(
            (&effects.commands, &effects.updates),
            (&restored_effects.commands, &restored_effects.updates)
        );
        assert_eq!(self.external.dump(self.now), restored.dump(self.now));
        let inner = |command| match command {
            Outer::External(command) => command,
            other => panic!("{other:?}"),
        };
        (effects.commands.into_iter().map(inner).collect(), effects.updates)
    }

    fn deliver(&mut self, event: Event) -> (Vec<Command>, Vec<StatusUpdate>) {
        self.now += Span(1);
        self.act(|external, now, effects| {
            external.on(now, batch::Event::External(event.clone()), effects);
        })
    }

    fn list(&mut self, jobs: Vec<ListedJob>) -> (Vec<Command>, Vec<StatusUpdate>) {
        let next = Listing::new(self.now + Span(1), vec![node("n1", 4), node("n2", 4)], jobs);
        let changes = next.changes(&self.listing);
        self.listing = next;
        self.deliver(Event::Listed(changes))
    }

    /// A job in the queue with the ID `41`.
    fn queued(held: bool) -> Bench {
        let mut bench = Bench::new();
        let (commands, updates) = bench.act(|external, now, effects| match held {
            true => external.hold(now, submission(), effects),
            false => external.submit(now, submission(), effects),
        });
        let queue = Queue {
            job: JOB,
            procs: Procs(2),
            walltime: Span(600),
            held,
            tentative: false,
            resubmitted: false,
            alternatives: Vec::new(),
            resources: None,
            partition: None,
        };
        assert_eq!((commands, updates), (vec![Command::Queue(queue.clone())], vec![]));
        let resubmission = vec![Outer::External(Command::Queue(Queue { resubmitted: true, ..queue }))];
        assert_eq!(bench.external.unanswered(), resubmission);
        let (commands, updates) = bench.deliver(Event::Queued { job: JOB, ids: ids() });
        assert_eq!(
            (commands, updates),
            (vec![], if held { vec![StatusUpdate::Held { job: JOB }] } else { vec![] })
        );
        assert_eq!(bench.external.unanswered(), []);
        bench
    }
}

fn ids() -> Vec<String> {
    vec!["41".to_owned()]
}

fn started() -> StatusUpdate {
    StatusUpdate::Started { job: JOB, procs: Procs(2), walltime: Span(600), at: Time(50) }
}

fn ended(exit: Exit) -> Event {
    Event::Ended { job: JOB, exit, started: Some(Time(50)), elapsed_ms: Some(1500) }
}

fn end(exit: Exit) -> StatusUpdate {
    StatusUpdate::Ended { job: JOB, exit, elapsed_ms: Some(1500) }
}

#[test]
fn a_job_waits_runs_and_ends() {
    let mut bench = Bench::queued(false);
    assert_eq!(bench.list(vec![listed("41", Some(7), State::Pending)]), (vec![], vec![]));
    assert_eq!(bench.list(vec![listed("41", Some(7), State::Running)]), (vec![], vec![started()]));
    assert_eq!(bench.list(vec![listed("41", Some(7), State::Completing)]), (vec![], vec![]));
    let over = listed("41", Some(7), State::Completed);
    let inspect = Command::Inspect { job: JOB, ids: ids(), listed: Some(Box::new(over.clone())) };
    assert_eq!(bench.list(vec![over]), (vec![inspect.clone()], vec![]));
    assert_eq!(bench.external.unanswered(), [Outer::External(inspect)]);
    assert_eq!(bench.deliver(ended(Exit::Code(0))), (vec![], vec![end(Exit::Code(0))]));
    assert_eq!(bench.deliver(ended(Exit::Code(0))), (vec![], vec![]), "a repeated end is ignored");
}

#[test]
fn a_job_that_ran_between_two_listings_has_started() {
    let mut bench = Bench::queued(false);
    let (commands, _) = bench.list(vec![listed("41", Some(7), State::Completed)]);
    assert!(matches!(commands[..], [Command::Inspect { .. }]));
    assert_eq!(bench.deliver(ended(Exit::Code(3))), (vec![], vec![started(), end(Exit::Code(3))]));
}

#[test]
fn a_refused_job_ends_without_having_started() {
    let mut bench = Bench::new();
    bench.act(|external, now, effects| external.submit(now, submission(), effects));
    let (commands, updates) = bench.deliver(Event::Refused { job: JOB, why: "no such partition".to_owned() });
    let exit = Exit::NotStarted("no such partition".to_owned());
    assert_eq!((commands, updates), (vec![], vec![StatusUpdate::Ended { job: JOB, exit, elapsed_ms: None }]));
}

#[test]
fn a_job_that_vanishes_without_a_start_is_submitted_again() {
    let mut bench = Bench::queued(false);
    let list_nothing = |bench: &mut Bench| bench.list(vec![]);
    // A listing of the second in which the job was queued.
    let at = bench.now;
    let early = Changes { at, ..Changes::default() };
    assert_eq!(bench.deliver(Event::Listed(early)), (vec![], vec![]));
    let gone = Command::Inspect { job: JOB, ids: ids(), listed: None };
    assert_eq!(list_nothing(&mut bench), (vec![gone.clone()], vec![]));
    assert_eq!(list_nothing(&mut bench), (vec![], vec![]), "it is being inspected");
    let resubmission = Queue {
        job: JOB,
        procs: Procs(2),
        walltime: Span(600),
        held: false,
        tentative: false,
        resubmitted: true,
        alternatives: Vec::new(),
        resources: None,
        partition: None,
    };
    assert_eq!(bench.deliver(Event::Unclaimed { job: JOB }), (vec![Command::Queue(resubmission)], vec![]));
    assert_eq!(bench.deliver(Event::Queued { job: JOB, ids: vec!["42".to_owned()] }), (vec![], vec![]));
    // The first entry shows up again, and either of the two may run.
    let both = vec![listed("41", Some(7), State::Running), listed("42", Some(7), State::Pending)];
    assert_eq!(bench.list(both), (vec![], vec![started()]));
    let both = vec![listed("41", Some(7), State::Completed), listed("42", Some(7), State::Pending)];
    let (commands, _) = bench.list(both);
    let [Command::Inspect { ids, .. }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(ids, &["42", "41"], "the folder shows which of the two ran");
}

#[test]
fn leftover_entries_of_a_withdrawn_job_are_removed_and_no_others() {
    let mut bench = Bench::queued(true);
    bench.act(|external, now, effects| external.withdraw(now, JOB, effects));
    bench.deliver(Event::Withdrawal { job: JOB, outcome: WithdrawalOutcome::Withdrawn });
    let late = || vec![listed("42", Some(7), State::Held), listed("43", Some(6), State::Held)];
    let remove = Command::Remove { job: JOB, ids: vec!["42".to_owned()] };
    assert_eq!(bench.list(late()), (vec![remove.clone()], vec![]), "number 6 is of another journal");
    assert_eq!(bench.list(late()), (vec![], vec![]), "it is being removed");
    bench.deliver(Event::Removed { job: JOB });
    assert_eq!(bench.list(late()), (vec![remove], vec![]), "the entry is still listed");
    bench.deliver(Event::Removed { job: JOB });
    let over = listed("42", Some(7), State::Cancelled);
    assert_eq!(bench.list(vec![over]), (vec![], vec![]));
}

#[test]
fn a_held_job_is_released_or_cancelled() {
    let mut bench = Bench::queued(true);
    assert_eq!(bench.list(vec![listed("41", Some(7), State::Held)]), (vec![], vec![]));
    let release = Command::Release { job: JOB, ids: ids(), alternatives: Vec::new(), tentative: false };
    let released = bench.act(|external, now, effects| external.release(now, JOB, effects));
    assert_eq!(released, (vec![release.clone()], vec![]));
    assert_eq!(bench.external.unanswered(), [Outer::External(release)]);
    assert_eq!(bench.deliver(Event::Released { job: JOB }), (vec![], vec![]));
    assert_eq!(bench.external.unanswered(), []);

    let mut bench = Bench::queued(true);
    let terminate = Command::Terminate { job: JOB, ids: ids() };
    let cancelled = bench.act(|external, now, effects| external.cancel(now, JOB, effects));
    assert_eq!(cancelled, (vec![terminate], vec![]));
    bench.deliver(Event::Terminated { job: JOB });
    bench.list(vec![]);
    let (commands, updates) = bench.deliver(Event::Unclaimed { job: JOB });
    let gone = StatusUpdate::Ended { job: JOB, exit: Exit::Cancelled, elapsed_ms: None };
    assert_eq!((commands, updates), (vec![], vec![gone]), "a cancelled job is not submitted again");
}

#[test]
fn commands_before_the_answer_to_a_submission_follow_it() {
    let check = |ask: fn(&mut External, Time, &mut Effects), held: bool, expected: Command| {
        let mut bench = Bench::new();
        bench.act(|external, now, effects| match held {
            true => external.hold(now, submission(), effects),
            false => external.submit(now, submission(), effects),
        });
        bench.act(ask);
        let (commands, updates) = bench.deliver(Event::Queued { job: JOB, ids: ids() });
        assert_eq!((commands, updates), (vec![expected], vec![]));
    };
    let ids = ids();
    check(
        |f, now, e| f.release(now, JOB, e),
        true,
        Command::Release { job: JOB, ids: ids.clone(), alternatives: Vec::new(), tentative: false },
    );
    check(
        |f, now, e| f.withdraw(now, JOB, e),
        false,
        Command::Withdraw { job: JOB, ids: ids.clone(), tentative: false },
    );
    check(|f, now, e| f.cancel(now, JOB, e), false, Command::Terminate { job: JOB, ids });
}

#[test]
fn a_job_is_withdrawn_or_has_started() {
    let withdraw = |external: &mut External, now, effects: &mut Effects| external.withdraw(now, JOB, effects);
    let check = |outcome, expected: StatusUpdate| {
        let mut bench = Bench::queued(false);
        let command = Command::Withdraw { job: JOB, ids: ids(), tentative: false };
        assert_eq!(bench.act(withdraw), (vec![command], vec![]));
        assert_eq!(bench.deliver(Event::Withdrawal { job: JOB, outcome }), (vec![], vec![expected]));
        assert_eq!(bench.external.unanswered(), []);
        assert_eq!(bench.deliver(Event::Withdrawal { job: JOB, outcome }), (vec![], vec![]));
    };
    check(WithdrawalOutcome::Withdrawn, StatusUpdate::Withdrawn { job: JOB });
    check(WithdrawalOutcome::Started, StatusUpdate::NotWithdrawn { job: JOB });
    // The disappearance is found twice, and reported once.
    let mut bench = Bench::queued(false);
    bench.act(withdraw);
    bench.list(vec![]);
    assert_eq!(bench.deliver(Event::Unclaimed { job: JOB }), (vec![], vec![]));
    let (_, updates) = bench.deliver(Event::Withdrawal { job: JOB, outcome: WithdrawalOutcome::Withdrawn });
    assert_eq!(updates, [StatusUpdate::Withdrawn { job: JOB }]);
    // A running job is not withdrawn.
    let mut bench = Bench::queued(false);
    bench.list(vec![listed("41", Some(7), State::Running)]);
    assert_eq!(bench.act(withdraw), (vec![], vec![StatusUpdate::NotWithdrawn { job: JOB }]));
}

/// Otherwise the release could prepare the folder that the withdrawal has removed, and start the job a second time.
#[test]
fn a_withdrawal_waits_for_the_release_before_it() {
    let mut bench = Bench::queued(true);
    let release = Command::Release { job: JOB, ids: ids(), alternatives: Vec::new(), tentative: false };
    let withdraw = Command::Withdraw { job: JOB, ids: ids(), tentative: false };
    bench.act(|external, now, effects| external.release(now, JOB, effects));
    assert_eq!(bench.act(|external, now, effects| external.withdraw(now, JOB, effects)), (vec![], vec![]));
    assert_eq!(bench.external.unanswered(), [Outer::External(release)], "in this order after a restart, too");
    assert_eq!(bench.deliver(Event::Released { job: JOB }), (vec![withdraw.clone()], vec![]));
    assert_eq!(bench.external.unanswered(), [Outer::External(withdraw)]);
    let outcome = WithdrawalOutcome::Withdrawn;
    assert_eq!(
        bench.deliver(Event::Withdrawal { job: JOB, outcome }),
        (vec![], vec![StatusUpdate::Withdrawn { job: JOB }])
    );
    assert_eq!(bench.external.unanswered(), []);
}

/// The withdrawal itself cancels the entry: the job has not ended, but goes on at another server.
#[test]
fn a_job_that_is_being_withdrawn_may_be_listed_as_cancelled_first() {
    for outcome in [WithdrawalOutcome::Withdrawn, WithdrawalOutcome::Started] {
        let mut bench = Bench::queued(false);
        bench.list(vec![listed("41", Some(7), State::Pending)]);
        bench.act(|external, now, effects| external.withdraw(now, JOB, effects));
        let cancelled = || vec![listed("41", Some(7), State::Cancelled)];
        assert_eq!(bench.list(cancelled()), (vec![], vec![]));
        let (commands, updates) = bench.deliver(Event::Withdrawal { job: JOB, outcome });
        let (expected, inspections) = match outcome {
            WithdrawalOutcome::Withdrawn => (StatusUpdate::Withdrawn { job: JOB }, 0),
            // A user or an administrator had cancelled it.
            WithdrawalOutcome::Started => (StatusUpdate::NotWithdrawn { job: JOB }, 1),
        };
        assert_eq!((commands, updates), (vec![], vec![expected]));
        let (commands, updates) = bench.list(cancelled());
        let inspected = commands.iter().filter(|command| matches!(command, Command::Inspect { .. })).count();
        assert_eq!((inspected, commands.len(), updates), (inspections, inspections, vec![]), "{commands:?}");
    }
}

fn request() -> Request {
    Request::new(JobId(8), Time(100), Procs(4), Span(300), Speedup::Rigid)
}

#[test]
fn estimates_are_behind_all_waiting_jobs() {
    let mut bench = Bench::new();
    let external_job = |id: &str, state| ListedJob {
        shape: CoreLayout { cores: 4, ..CoreLayout::default() },
        ..listed(id, None, state)
    };
    let mut local = external_job("9", State::Running);
    local.allocations = ["n1", "n2"].map(|node| NodeAllocation::new(node, Some(2))).to_vec();
    bench.list(vec![local, external_job("10", State::Pending), external_job("11", State::Held)]);
    bench.act(|external, now, effects| external.submit(now, submission(), effects));
    let request = request();
    let walltimes = request.on(Procs(8), Speed::REFERENCE).unwrap();
    let found = bench.external.estimate(bench.now, None, &walltimes, Tuner::Exact);
    let mut nodes = Nodes::from_snapshot(bench.now, &bench.external.nodes(bench.now).unwrap()).unwrap();
    assert_eq!(found, nodes.estimate(bench.now, &walltimes, Tuner::Exact));
    // Four cores are free for the first waiting job; ours, which no listing shows yet, is planned behind it.
    assert_eq!(bench.external.plan(bench.now, JOB).unwrap().procs, Procs(2));
    let Estimate { start, .. } = found.unwrap();
    assert!(start > bench.now, "{start}");
    assert_eq!(bench.external.capacity(), Some(Procs(8)));
    let Usage { free, running, waiting } = bench.external.usage();
    assert_eq!((free, running, waiting), (Procs(4), 1, 3));
    assert_eq!(bench.external.waiting(bench.now).len(), 2, "a held job has no known start");
}

/// A listing is older than later commands: it still shows a released job as held, and a withdrawn one as waiting.
#[test]
fn plans_consider_commands_since_the_listing() {
    let check = |bench: &mut Bench, at_once, why: &str| {
        let (request, now) = (request(), bench.now);
        let walltimes = request.on(Procs(8), Speed::REFERENCE).unwrap();
        let start = bench.external.estimate(now, None, &walltimes, Tuner::Exact).unwrap().start;
        assert_eq!(start == now, at_once, "{why}: {start}");
    };
    let taken = || ListedJob {
        shape: CoreLayout { cores: 8, nodes: Some(2), exclusive: false },
        ..listed("41", Some(7), State::Held)
    };
    let mut bench = Bench::queued(true);
    check(&mut bench, true, "the job keeps two cores, six are left");
    bench.list(vec![taken()]);
    check(&mut bench, false, "the job is held, and will be released");
    bench.act(|external, now, effects| external.release(now, JOB, effects));
    bench.deliver(Event::Released { job: JOB });
    check(&mut bench, false, "the job was released");
    let wait_reason = Some(listing::WaitReason::Other("JobHeldAdmin".to_owned()));
    bench.list(vec![ListedJob { wait_reason, ..taken() }]);
    check(&mut bench, true, "an administrator holds the job");
    bench.list(vec![ListedJob { state: State::Pending, ..taken() }]);
    check(&mut bench, false, "the job waits");
    bench.act(|external, now, effects| external.withdraw(now, JOB, effects));
    bench.deliver(Event::Withdrawal { job: JOB, outcome: WithdrawalOutcome::Withdrawn });
    check(&mut bench, true, "the job was withdrawn");
}

#[test]
fn a_cluster_without_a_listing_has_no_processors() {
    let external = External::new();
    assert_eq!((external.capacity(), external.next_due()), (Some(Procs(0)), None));
}

#[test]
fn each_ended_run_of_a_local_job_is_reported_once() {
    let mut bench = Bench::queued(false);
    let local = |id, state| listed(id, None, state);
    let elsewhere = |state| ListedJob {
        allocations: vec![NodeAllocation::new("other", None)],
        ..listed("4", None, state)
    };
    let over = |id, ended| ListedJob {
        ended: Some(Time(ended)),
        started: Some(Time(50)),
        ..local(id, State::Failed)
    };
    let placed = |job| ListedJob { allocations: local("", State::Running).allocations, ..job };
    let ended_runs = |updates: &[StatusUpdate]| -> Vec<(i64, i64)> {
        let one = |update: &StatusUpdate| match update {
            StatusUpdate::LocalEnded(LocalJob {
                started: Some(started), ended: Some(ended), shape, ..
            }) => {
                assert_eq!(shape.cores, Procs(2));
                Some((started.0, ended.0))
            }
            _ => None,
        };
        updates.iter().filter_map(one).collect()
    };
    let first = vec![
        local("1", State::Running),
        local("2", State::Running),
        local("3", State::Running),
        elsewhere(State::Running),
        local("5", State::Pending),
        listed("41", Some(7), State::Running),
        placed(over("6", 80)),
    ];
    let (_, updates) = bench.list(first.clone());
    assert_eq!(ended_runs(&updates), [(50, 80)], "a job that ran between two listings");
    let current = bench.external.local_jobs();
    let runs = |jobs: &[LocalJob]| jobs.iter().filter(|job| job.started.is_some()).count();
    assert_eq!((current.len(), runs(&current)), (4, 3), "{current:?}");
    assert_eq!(ended_runs(&bench.list(first).1), []);
    // One run has ended, one was requeued, one is no longer listed; one job never ran.
    let next =
        vec![placed(over("1", 101)), local("2", State::Requeued), listed("41", Some(7), State::Failed)];
    let (_, updates) = bench.list(next);
    let now = bench.now.0;
    assert_eq!(ended_runs(&updates), [(50, 101), (50, now), (50, now)]);
    assert_eq!(ended_runs(&bench.list(vec![placed(over("1", 101))]).1), []);
    // Nothing shows the end of a job with a time limit.
    bench.list(vec![local("8", State::Running)]);
    bench.now = Time(10_000);
    assert_eq!(ended_runs(&bench.list(vec![]).1), [(50, 650)]);
}
