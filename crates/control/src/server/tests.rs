mod audit;
mod banning;
mod changes;
mod deferring;
mod draining;
mod estimates;
mod external_siblings;
mod external_subjobs;
mod handoffs;
mod holding;
mod learning;
mod limiting;
mod nice;
mod orders;
mod priorities;
mod prioritising;
mod requeueing;
mod resources;
mod restored;
mod sizes;
mod summary;
mod waiting;

use crate::access::Caller;
use crate::payload::Payload;
use pliant_model::{Estimate, JobId, Procs, Span, Speed, Speedup, Time};
use pliant_policy::tuning::Tuner;

use self::handoffs::handoff_from_paris;
use super::*;
use crate::batch::Run;
use crate::handoff::{Handoff, HandoffId, Peer, Reply};
use crate::job::Work;
use crate::names::Token;
use crate::names::{Handle, User};
use crate::reason::DiscoverySummary;

/// A server with the commands of its last event.
struct Bench {
    server: Server,
    now: Time,
    commands: Vec<Command>,
    calls: u64,
}

impl Bench {
    fn new(policy: &str, procs: u32) -> Bench {
        let config = ServerConfig {
            address: String::new(),
            name: "lyon".parse().unwrap(),
            procs: Procs(procs),
            speed: Speed::REFERENCE,
            policy: policy.to_owned(),
            tuner: Tuner::Exact,
            waiting: WaitingLimits::of_jobs(3),
            host: None,
        };
        let server = Server::new(config, Time(100)).unwrap();
        Bench { server, now: Time(100), commands: Vec::new(), calls: 0 }
    }

    fn deliver(&mut self, event: Event) -> Option<Answer> {
        self.commands.clear();
        self.server.on(self.now, event, &mut self.commands);
        self.commands.iter().find_map(|command| match command {
            Command::Reply { answer, .. } => Some(answer.clone()),
            _ => None,
        })
    }

    fn submit(&mut self, submit: Submit) -> Answer {
        self.calls += 1;
        self.deliver(Event::Submit { reply: Token(self.calls), submit: Box::new(submit) }).unwrap()
    }

    fn accepted(&mut self, submit: Submit) -> JobRecord {
        match self.submit(submit) {
            Answer::Accepted(record) => *record,
            other => panic!("expected to be accepted, found {other:?}"),
        }
    }

    fn cancel(&mut self, number: u32, who: &str) -> Answer {
        let caller = Caller { user: user(who), operator: who == "root" };
        self.deliver(Event::Cancel { reply: Token(0), number, caller }).unwrap()
    }

    /// Advances the time; returns the jobs that were started, with their processors.
    fn at(&mut self, now: i64) -> Vec<Run> {
        self.now = Time(now);
        let mut runs = Vec::new();
        while self.server.next_due().is_some_and(|due| due <= self.now) {
            self.deliver(Event::Due);
            runs.extend(self.commands.iter().filter_map(|command| match command {
                Command::Batch(batch::Command::Run(run)) => Some(run.clone()),
                _ => None,
            }));
        }
        runs
    }

    fn ended(&mut self, number: u32, exit: Exit) {
        self.deliver(Event::Batch(batch::Event::Ended { job: JobId(number), exit, elapsed_ms: None }));
    }

    fn state(&self, number: u32) -> JobState {
        self.server.job(number).unwrap().state
    }
}

fn user(name: &str) -> User {
    name.parse().unwrap()
}

fn rigid(key: u8, procs: u32, walltime: i64) -> Submit {
    Submit {
        key: Key([key; 16]),
        owner: user("alice"),
        name: "test".to_owned(),
        work: Work::new(Procs(procs), Span(walltime), Speedup::Rigid),
        own_time: false,
        pinned: false,
        latest: None,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        payload: Payload::default(),
        sample: None,
        claim: None,
    }
}

fn cores(run: &[Run]) -> Vec<(u32, Vec<u32>)> {
    run.iter().map(|run| (run.job.0, run.cores.clone())).collect()
}

#[test]
fn a_job_is_queued_run_and_kept_for_a_minute_after_its_end() {
    let mut bench = Bench::new("cbf", 4);
    let record = bench.accepted(rigid(1, 2, 10));
    assert_eq!(record.handle.to_string(), "lyon.1");
    assert_eq!(record.expected, Estimate { procs: Procs(2), walltime: Span(10), start: Time(100) });
    assert_eq!(record.state, JobState::Queued);
    assert_eq!(cores(&bench.at(100)), [(1, vec![0, 1])]);
    assert_eq!(bench.state(1), JobState::Active);
    bench.now = Time(107);
    bench.ended(1, Exit::Code(0));
    let archived = bench.commands.iter().find_map(|command| match command {
        Command::Archive(record) => Some(record.clone()),
        _ => None,
    });
    let record = archived.unwrap();
    assert_eq!((record.state, record.ended), (JobState::Completed, Some(Time(107))));
    assert_eq!((record.start_error(), record.completion_error()), (Some(Span(0)), Some(Span(-3))));
    bench.at(166);
    assert!(bench.server.job(1).is_some(), "it is kept for a minute");
    bench.at(167);
    assert!(bench.server.job(1).is_none());
    assert_eq!(bench.submit(rigid(1, 2, 10)), Answer::Known("lyon.1".parse::<Handle>().unwrap()));
}

#[test]
fn a_key_is_accepted_once() {
    let mut bench = Bench::new("cbf", 4);
    let first = bench.accepted(rigid(7, 2, 10));
    assert_eq!(bench.accepted(rigid(7, 2, 10)).handle, first.handle);
    assert_eq!(bench.server.usage().waiting, 1);
    let other = Submit { owner: user("bob"), ..rigid(7, 2, 10) };
    assert_eq!(bench.submit(other), Answer::Refused(AdmissionRefusal::KeyTaken));
    assert_ne!(bench.accepted(rigid(8, 2, 10)).handle, first.handle);
}

#[test]
fn impossible_submissions_are_refused_with_a_reason() {
    let mut bench = Bench::new("cbf", 4);
    let too_large = AdmissionRefusal::TooLarge { needed: Procs(5), available: Procs(4) };
    assert_eq!(bench.submit(rigid(1, 5, 10)), Answer::Refused(too_large));
    // A speedup model may stretch any walltime.
    let steps = [(Procs(1), 1e300), (Procs(9), 1.0)];
    let endless = Work::new(Procs(9), Span(3600), Speedup::Table(steps.into()));
    let answer = bench.submit(Submit { work: endless, ..rigid(1, 1, 1) });
    assert!(matches!(answer, Answer::Refused(AdmissionRefusal::TooLong { .. })), "{answer:?}");
    bench.accepted(rigid(2, 4, 50));
    let late = Submit { latest: Some(Time(159)), ..rigid(3, 4, 10) };
    let now = Estimate { procs: Procs(4), walltime: Span(10), start: Time(150) };
    assert_eq!(bench.submit(late.clone()), Answer::Refused(AdmissionRefusal::Stale { now }));
    bench.accepted(Submit { latest: Some(Time(160)), ..late });
    bench.accepted(rigid(4, 1, 10));
    assert_eq!(bench.submit(rigid(5, 1, 10)), Answer::Refused(AdmissionRefusal::TooMany { limit: 3 }));
    bench.accepted(Submit { owner: user("bob"), ..rigid(6, 1, 10) });
    // Running jobs do not count.
    bench.at(100);
    bench.accepted(rigid(7, 1, 10));
}

#[test]
fn cancelling_ends_a_waiting_job_and_terminates_a_running_one() {
    let mut bench = Bench::new("cbf", 4);
    bench.accepted(rigid(1, 4, 10));
    bench.accepted(rigid(2, 4, 10));
    bench.at(100);
    assert_eq!(bench.cancel(2, "bob"), Answer::NoSuchJob, "users do not see others' jobs");
    assert_eq!(bench.cancel(9, "alice"), Answer::NoSuchJob);
    assert!(
        matches!(bench.cancel(2, "alice"), Answer::Cancelling(record) if record.state == JobState::Canceled)
    );
    assert!(
        matches!(bench.cancel(1, "root"), Answer::Cancelling(record) if record.state == JobState::Active)
    );
    assert!(bench.commands.contains(&Command::Batch(batch::Command::Terminate { job: JobId(1) })));
    assert_eq!(bench.server.running().map(|(_, _, cancelling)| cancelling).collect::<Vec<_>>(), [true]);
    bench.ended(1, Exit::Cancelled);
    assert_eq!(bench.state(1), JobState::Canceled);
    assert!(matches!(bench.cancel(1, "alice"), Answer::Cancelling(_)), "a repeated cancellation is harmless");
    assert_eq!(bench.commands.len(), 1, "and has no effect");
}

#[test]
fn a_job_that_is_due_can_be_cancelled_before_it_runs() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 4);
        bench.accepted(rigid(1, 4, 10));
        assert!(matches!(bench.cancel(1, "alice"), Answer::Cancelling(_)));
        assert_eq!(bench.state(1), JobState::Canceled, "{policy}");
        assert_eq!(bench.at(100), []);
        bench.accepted(rigid(2, 4, 10));
        assert_eq!(cores(&bench.at(100)), [(2, vec![0, 1, 2, 3])], "{policy}");
    }
}

#[test]
fn a_process_that_outlives_its_walltime_keeps_its_processors() {
    let mut bench = Bench::new("cbf", 4);
    bench.accepted(rigid(1, 3, 10));
    bench.accepted(rigid(2, 2, 10));
    bench.accepted(rigid(3, 1, 5));
    assert_eq!(cores(&bench.at(100)), [(1, vec![0, 1, 2]), (3, vec![3])]);
    bench.now = Time(105);
    bench.ended(3, Exit::Code(0));
    assert_eq!(bench.at(110), [], "planned for now, but only one processor is free");
    assert_eq!(bench.state(2), JobState::Queued);
    bench.now = Time(112);
    bench.ended(1, Exit::OverWalltime);
    assert_eq!(bench.state(1), JobState::Failed);
    assert_eq!(cores(&bench.at(112)), [(2, vec![0, 1])]);
    assert_eq!(bench.server.job(2).unwrap().started, Some(Time(112)));
    bench.ended(1, Exit::Code(0));
    assert_eq!(bench.state(1), JobState::Failed, "a repeated end changes nothing");
}

#[test]
fn a_folded_job_gets_fewer_processors_than_it_was_sized_for() {
    let mut bench = Bench::new("h1", 4);
    bench.accepted(rigid(1, 2, 1000));
    bench.at(100);
    // Unfolded it would wait for 1000 s; on two processors it takes twice its time.
    let folding = Work::new(Procs(4), Span(10), Speedup::Rigid);
    bench.accepted(Submit { work: folding, ..rigid(2, 4, 10) });
    let runs = bench.at(100);
    assert_eq!((runs[0].procs, runs[0].cores.len(), runs[0].walltime), (Procs(4), 2, Span(20)));
    let record = bench.server.job(2).unwrap();
    assert_eq!((record.procs, record.walltime), (Procs(2), Span(20)));
}

#[test]
fn an_explanation_shows_the_jobs_that_end_before_the_planned_start() {
    let mut bench = Bench::new("cbf", 4);
    bench.accepted(Submit { owner: user("bob"), ..rigid(1, 4, 10) });
    bench.at(100);
    bench.accepted(rigid(2, 4, 10));
    bench.accepted(rigid(3, 2, 10));
    let alice = Caller { user: user("alice"), operator: false };
    let explanation = bench.server.explain(Time(103), 3, &alice).unwrap();
    let wait = explanation.waits.unwrap();
    assert_eq!((wait.ahead, wait.free, wait.plan.start), (1, Procs(0), Time(120)));
    assert_eq!(wait.until.len(), 1);
    assert_eq!(
        (wait.until[0].end, &wait.until[0].handle),
        (Time(110), &None),
        "alice does not see the ID of bob's job"
    );
    assert!(bench.server.explain(Time(103), 1, &alice).is_none());
}

#[test]
fn a_restored_server_continues_unchanged() {
    use crate::replay::Machine;
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 4);
        bench.accepted(rigid(1, 3, 10));
        bench.accepted(rigid(2, 4, 10));
        bench.at(100);
        bench.accepted(rigid(3, 1, 5));
        bench.accepted(Submit { owner: user("bob"), ..rigid(4, 2, 7) });
        bench.cancel(1, "alice");
        let text = serde_json::to_string(&bench.server.dump(bench.now)).unwrap();
        let state: ServerState = serde_json::from_str(&text).unwrap();
        let server = Server::from_state(bench.server.config().clone(), state).unwrap();
        let mut again = Bench { server, now: bench.now, commands: Vec::new(), calls: bench.calls };
        for now in 100..140 {
            assert_eq!(bench.at(now), again.at(now), "{policy} at {now}");
            if now == 104 {
                bench.ended(1, Exit::Cancelled);
                again.ended(1, Exit::Cancelled);
            }
            assert_eq!(bench.server.next_due(), again.server.next_due(), "{policy} at {now}");
        }
        let states = |bench: &Bench| -> Vec<JobState> { bench.server.jobs().map(|job| job.state).collect() };
        assert_eq!(states(&bench), states(&again), "{policy}");
        assert_eq!(bench.accepted(rigid(3, 1, 5)).handle, again.accepted(rigid(3, 1, 5)).handle, "{policy}");
    }
}

#[test]
fn a_job_that_waits_for_processors_can_be_cancelled() {
    let mut bench = Bench::new("cbf", 4);
    bench.accepted(rigid(1, 4, 10));
    bench.accepted(rigid(2, 4, 10));
    bench.at(100);
    assert_eq!(bench.at(110), [], "job 1 has outlived its walltime");
    assert_eq!((bench.server.usage().waiting, bench.server.usage().running), (1, 1));
    bench.cancel(2, "alice");
    assert_eq!((bench.server.usage().waiting, bench.server.usage().running), (0, 1));
    bench.ended(1, Exit::OverWalltime);
    assert_eq!(bench.at(111), []);
    assert_eq!(bench.state(2), JobState::Canceled);
}

#[test]
fn an_end_that_is_seen_late_is_recorded_at_its_time() {
    let mut bench = Bench::new("cbf", 4);
    for key in 1..=3 {
        bench.accepted(rigid(key, 1, 1000));
    }
    bench.at(100);
    // The runtime, if it was measured, and the end.
    for (job, elapsed_ms, now, expected) in
        [(1, Some(8_033), 700, 109), (2, None, 710, 710), (3, Some(999_000), 720, 720)]
    {
        bench.now = Time(now);
        let ended = batch::Event::Ended { job: JobId(job), exit: Exit::Code(0), elapsed_ms };
        bench.deliver(Event::Batch(ended));
        assert_eq!(bench.server.job(job).unwrap().ended, Some(Time(expected)), "job {job}");
    }
}

#[test]
fn refused_and_repeated_submissions_change_nothing() {
    use crate::replay::Machine;
    for policy in &pliant_policy::batch::local_names() {
        let state = |bench: &mut Bench| serde_json::to_string(&bench.server.dump(bench.now)).unwrap();
        let (mut bench, mut other) = (Bench::new(policy, 4), Bench::new(policy, 4));
        for bench in [&mut bench, &mut other] {
            bench.accepted(rigid(200, 3, 100));
        }
        for now in 100..140 {
            for bench in [&mut bench, &mut other] {
                bench.at(now);
                if now % 6 == 0 {
                    bench.submit(rigid(now as u8, 1 + now as u32 % 3, now % 9 + 1));
                }
            }
            // The journal of the other server has none of these.
            for submit in [
                rigid(1, 5, 10),
                Submit { latest: Some(Time(0)), ..rigid(2, 2, 7) },
                Submit { owner: user("bob"), ..rigid(200, 1, 1) },
                rigid(200, 3, 100),
            ] {
                bench.submit(submit);
                assert!(Server::is_without_effect(&bench.commands), "{:?}", bench.commands);
            }
            assert_eq!(bench.cancel(99, "alice"), Answer::NoSuchJob);
            assert!(Server::is_without_effect(&bench.commands));
            assert_eq!(state(&mut bench), state(&mut other), "{policy} at {now}");
            assert_eq!(bench.server.next_due(), other.server.next_due(), "{policy} at {now}");
        }
    }
}

#[test]
fn a_new_journal_numbers_jobs_after_those_of_the_one_before() {
    use crate::replay::Machine;
    for (highest, first) in [(0, 1), (1, 200_001), (99_999, 200_001), (100_000, 300_001), (200_007, 400_001)]
    {
        let mut bench = Bench::new("cbf", 4);
        assert!(!bench.server.is_numbered());
        bench.deliver(Event::Numbered { highest });
        assert!(bench.server.is_numbered());
        bench.deliver(Event::Numbered { highest: 7_000_000 });
        assert_eq!(bench.accepted(rigid(1, 1, 1)).handle.number, first, "after {highest}");
    }
    let mut bench = Bench::new("cbf", 4);
    bench.deliver(Event::Numbered { highest: u32::MAX - 5 });
    assert_eq!(bench.submit(rigid(1, 1, 1)), Answer::Refused(AdmissionRefusal::NoNumbersLeft));
    let mut bench = Bench::new("cbf", 4);
    bench.accepted(rigid(1, 1, 1));
    bench.deliver(Event::SkipNumbers);
    assert_eq!(
        bench.accepted(rigid(2, 1, 1)).handle.number,
        10_002,
        "none that a user may know is given again"
    );
    // A server that has numbered jobs continues by itself.
    let mut bench = Bench::new("cbf", 4);
    bench.accepted(rigid(1, 1, 1));
    let state = bench.server.dump(bench.now);
    let server = Server::from_state(bench.server.config().clone(), state).unwrap();
    assert!(server.is_numbered());
}
