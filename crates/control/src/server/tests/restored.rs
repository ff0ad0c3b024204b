//! A journal that was put back, and what the agent knows of its jobs.

use super::*;
use crate::job::Hop;
use crate::replay::Machine;

/// The events after which a copy is made, on three processors: job 1 runs, jobs 2 to 5 wait.
fn copy() -> Bench {
    copy_under("cbf")
}

fn copy_under(policy: &str) -> Bench {
    let mut bench = Bench::new(policy, 3);
    bench.server.config.waiting = WaitingLimits::of_jobs(10);
    for key in 1..=5 {
        bench.accepted(rigid(key, 3, 100));
    }
    assert_eq!(bench.at(100).len(), 1);
    bench
}

fn record(bench: &Bench, number: u32) -> JobRecord {
    bench.server.job(number).unwrap().clone()
}

fn restore(bench: &mut Bench, known: Vec<JobRecord>) {
    bench.deliver(Event::Restored { journal: 77, highest: 9, known });
}

fn archived(bench: &Bench) -> Vec<JobRecord> {
    let archived = bench.commands.iter().filter_map(|command| match command {
        Command::Archive(record) => Some((**record).clone()),
        _ => None,
    });
    archived.collect()
}

fn terminated(bench: &Bench) -> Vec<JobId> {
    let ends = bench.commands.iter().filter_map(|command| match command {
        Command::Batch(batch::Command::Terminate { job }) => Some(*job),
        _ => None,
    });
    ends.collect()
}

#[test]
fn what_the_agent_knows_is_closed_and_what_it_does_not_know_runs() {
    let mut bench = copy();
    let ended = |number| JobRecord {
        state: JobState::Failed,
        started: Some(Time(110)),
        ended: Some(Time(120)),
        exit: Some(Exit::Code(3)),
        ..record(&copy(), number)
    };
    let moved = JobRecord {
        hops: vec![Hop {
            from: "lyon".parse().unwrap(),
            to: "paris".parse().unwrap(),
            attempt: 1,
            at: Time(105),
            before: Time(300),
            expected: record(&bench, 3).expected,
            reason: pliant_model::MoveReason::EarlierCompletion,
            signed: None,
        }],
        ..record(&bench, 3)
    };
    let cancelled = JobRecord {
        state: JobState::Canceled,
        ended: Some(Time(106)),
        exit: Some(Exit::Cancelled),
        ..record(&bench, 4)
    };
    let same = record(&bench, 5);
    let known = vec![ended(1), ended(2), moved.clone(), cancelled.clone(), same];
    bench.now = Time(500);
    restore(&mut bench, known.clone());
    assert_eq!(archived(&bench), known[..4]);
    assert_eq!(bench.server.journal(), Some(77));
    assert_eq!(bench.server.waiting_of(&"alice".parse().unwrap()), 1);
    assert_eq!(bench.server.usage().free, Procs(3), "the processors of job 1 are free");
    // What its process reports late changes nothing.
    bench.ended(1, Exit::Code(0));
    assert_eq!(record(&bench, 1).exit, Some(Exit::Code(3)));
    let runs: Vec<u32> = bench.at(500).iter().map(|run| run.job.0).collect();
    assert_eq!((runs, bench.server.had_started(5)), (vec![5], false));
    assert_eq!(bench.accepted(rigid(9, 1, 1)).handle.number, 200_001);
    // All of that is in a snapshot.
    let state = bench.server.dump(bench.now);
    let again = Server::from_state(bench.server.config().clone(), state.clone()).unwrap();
    assert_eq!(again.journal(), Some(77));
    // A minute later the closed ones are forgotten like any others.
    bench.at(600);
    assert!(bench.server.job(2).is_none() && bench.server.job(5).is_some());
}

#[test]
fn what_had_started_runs_at_once_and_is_looked_for() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = copy_under(policy);
        let started = JobRecord { state: JobState::Active, started: Some(Time(130)), ..record(&bench, 2) };
        bench.now = Time(500);
        restore(&mut bench, vec![started]);
        // Job 1 has all processors in the copy.
        assert_eq!(bench.state(2), JobState::Active, "{policy}");
        assert_eq!(record(&bench, 2).started, Some(Time(130)), "as the agent knows it");
        assert!(
            bench.server.had_started(1) && bench.server.had_started(2) && !bench.server.had_started(3),
            "{policy}"
        );
        let state = bench.server.dump(bench.now);
        let mut again = Server::from_state(bench.server.config().clone(), state.clone()).unwrap();
        assert!(again.had_started(2) && again.dump(bench.now) == state, "{policy}");
        let runs: Vec<u32> = bench.server.running().map(|(record, ..)| record.handle.number).collect();
        assert_eq!(runs, [1, 2], "{policy}");
        bench.cancel(2, "alice");
        assert!(terminated(&bench).contains(&JobId(2)), "{policy}: its process is ended");
        bench.ended(1, Exit::Lost("its folder is missing".to_owned()));
        assert_eq!(bench.at(501).len(), 0, "{policy}: it has the processors");
        bench.ended(2, Exit::Cancelled);
        assert_eq!(bench.at(502)[0].job, JobId(3), "{policy}");
    }
}

#[test]
fn what_was_submitted_later_is_recorded_with_its_key() {
    let mut bench = copy();
    let later = |number, state, exit| JobRecord {
        handle: Handle { server: "lyon".parse().unwrap(), number },
        key: Key([number as u8; 16]),
        state,
        exit,
        ..record(&copy(), 5)
    };
    let done = JobRecord { ended: Some(Time(300)), ..later(6, JobState::Completed, Some(Exit::Code(0))) };
    let waits = later(7, JobState::Queued, None);
    let known = later(5, JobState::Failed, Some(Exit::Code(1)));
    bench.now = Time(500);
    bench.deliver(Event::RestoredLater(vec![known, done.clone(), waits.clone()]));
    let found = archived(&bench);
    assert_eq!(found.len(), 2, "the copy knows job 5");
    assert_eq!(found[0], done);
    let lost = &found[1];
    assert_eq!((lost.key, lost.state, lost.ended), (waits.key, JobState::Failed, Some(Time(500))));
    let reported =
        bench.commands.iter().any(|command| matches!(command, Command::Report(one) if **one == *lost));
    assert!(reported, "{:?}", bench.commands);
    // The same again, after a kill.
    bench.deliver(Event::RestoredLater(vec![done.clone()]));
    assert_eq!(archived(&bench), [done]);
}

/// Limits were lower when the copy was made: what has started since is not kept back, and counts.
#[test]
fn what_had_started_is_not_kept_back_by_limits() {
    let mut bench = Bench::new("cbf", 4);
    bench.server.config.waiting = WaitingLimits::of_jobs(10);
    let limit = |bench: &mut Bench, most| {
        let changes = vec![LimitChange { key: LimitKey::RunningJobs, value: Some(most) }];
        let (by, why) = (user("root"), String::new());
        bench.deliver(Event::Limit { reply: Token(0), user: user("alice"), changes, by, why });
    };
    limit(&mut bench, 1);
    for key in 1..=5 {
        bench.accepted(rigid(key, 1, 100));
    }
    bench.at(100);
    bench.hold(3);
    let started =
        |number| JobRecord { state: JobState::Active, started: Some(Time(130)), ..record(&bench, number) };
    let known = vec![started(2), started(3)];
    bench.now = Time(150);
    restore(&mut bench, known);
    limit(&mut bench, 3);
    assert!(matches!(bench.hold(2), Answer::Unsuited(_)), "it has started");
    let runs: Vec<u32> = bench.server.running().map(|(record, ..)| record.handle.number).collect();
    assert_eq!((runs, bench.at(150).len()), (vec![1, 2, 3], 0));
    assert!(bench.server.limited(4).is_some(), "three jobs run");
}

#[test]
fn a_job_that_has_come_back_waits() {
    let mut bench = copy();
    let hop = |from: &str, to: &str, attempt| Hop {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        attempt,
        at: Time(105),
        before: Time(300),
        expected: record(&copy(), 3).expected,
        reason: pliant_model::MoveReason::EarlierCompletion,
        signed: None,
    };
    let hops = vec![hop("lyon", "paris", 1), hop("paris", "lyon", 2)];
    let back = JobRecord { hops: hops.clone(), ..record(&bench, 3) };
    let other = JobRecord {
        key: Key([77; 16]),
        state: JobState::Canceled,
        exit: Some(Exit::Cancelled),
        ..record(&bench, 4)
    };
    restore(&mut bench, vec![back, other]);
    assert!(bench.commands.is_empty(), "{:?}", bench.commands);
    assert_eq!((bench.state(3), record(&bench, 3).hops), (JobState::Queued, hops));
    assert_eq!(bench.state(4), JobState::Queued, "another job has its number at the agent");
    assert!(!bench.server.had_started(3));
}

#[test]
fn a_copy_that_lacks_nothing_goes_on_with_later_numbers() {
    let mut bench = copy();
    let known = (1..=5).map(|number| record(&bench, number)).collect();
    restore(&mut bench, known);
    assert!(bench.commands.is_empty());
    for number in 2..=5 {
        assert_eq!(bench.state(number), JobState::Queued);
    }
    let open: Vec<String> = bench.server.open_jobs().map(ToString::to_string).collect();
    assert_eq!(open, ["lyon.1", "lyon.2", "lyon.3", "lyon.4", "lyon.5"]);
}
