//! Limits of single users.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::coallocation::{LaunchId, Subjob, SubjobId, SubjobState};
use crate::handoff::HandoffDecision;
use crate::reason::Cause;
use crate::replay::Machine;

impl Bench {
    pub(super) fn limit(&mut self, name: &str, changes: &[(LimitKey, Option<u64>)]) -> Answer {
        let (reply, by, why) = (Token(0), user("root"), "exam week".to_owned());
        let changes = changes.iter().map(|(key, value)| LimitChange { key: *key, value: *value }).collect();
        self.deliver(Event::Limit { reply, user: user(name), changes, by, why }).unwrap()
    }

    pub(super) fn restarted(&mut self) {
        let text = serde_json::to_string(&self.server.dump(self.now)).unwrap();
        let state: ServerState = serde_json::from_str(&text).unwrap();
        self.server = Server::from_state(self.server.config().clone(), state).unwrap();
    }

    /// The processors of each running job of a user.
    fn running(&self, name: &str) -> Vec<u32> {
        let owner = user(name);
        let own = self.server.jobs().filter(|record| record.owner == owner);
        own.filter(|record| record.state == JobState::Active).map(|record| record.procs.0).collect()
    }
}

fn of(owner: &str, submit: Submit) -> Submit {
    Submit { owner: user(owner), ..submit }
}

const MANY: WaitingLimits = WaitingLimits { jobs_per_user: 1_000, bytes_per_user: 1 << 30, bytes: 1 << 30 };
const WHY: &str = "root has limited the user since 1970-01-01 00:01:40Z to 1 running job here: exam week";

#[test]
fn jobs_over_the_limit_of_what_runs_wait_and_others_pass_them() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 3);
        assert!(matches!(
            bench.limit("alice", &[(LimitKey::RunningJobs, Some(1))]),
            Answer::Limited(Some(_))
        ));
        assert!(!Server::is_without_effect(&bench.commands), "an act is journaled");
        for key in 1..=3 {
            bench.accepted(rigid(key, 1, 10));
        }
        bench.accepted(of("bob", rigid(4, 1, 10)));
        bench.restarted();
        bench.at(100);
        let states = |bench: &Bench| [1, 2, 3, 4].map(|number| bench.state(number) == JobState::Active);
        assert_eq!(states(&bench), [true, false, false, true], "{policy}");
        assert_eq!(bench.is_unplanned(2).as_deref(), Some(WHY), "{policy}");

        bench.now = Time(105);
        bench.ended(1, Exit::Code(0));
        bench.at(120);
        assert_eq!((bench.state(2), bench.state(3)), (JobState::Active, JobState::Queued), "{policy}");
        bench.limit("alice", &[(LimitKey::RunningJobs, None)]);
        bench.at(120);
        assert_eq!(bench.state(3), JobState::Active, "{policy}");
        assert!(bench.server.user_limits().is_empty());
    }
}

#[test]
fn an_estimate_is_not_before_the_limits_leave_room() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 8);
        bench.deliver(Event::WaitingLimits(MANY));
        bench.limit("alice", &[(LimitKey::RunningJobs, Some(2)), (LimitKey::Processors, Some(4))]);
        bench.accepted(rigid(1, 1, 50));
        bench.accepted(rigid(2, 2, 30));
        bench.at(100);
        let mut starts = |submit: Submit| bench.accepted(submit).expected.start.0;
        // The first and the second one run until 150 and 130. The third one has room at 130 until 140, the fourth one at 140.
        assert_eq!(starts(rigid(3, 1, 10)), 130, "{policy}");
        assert_eq!(starts(rigid(4, 3, 20)), 140, "{policy}");
        // It needs the processors of the first and the fourth one.
        assert_eq!(starts(rigid(5, 4, 20)), 160, "{policy}");
        assert_eq!(starts(of("bob", rigid(6, 1, 10))), 100, "{policy}");
    }
}

#[test]
fn a_job_is_sized_within_the_limit_of_processors_or_refused() {
    let mut bench = Bench::new("cbf", 8);
    bench.limit("alice", &[(LimitKey::Processors, Some(4))]);
    let moldable = |key| {
        let speedup = Speedup::Amdahl { parallel: 1.0, limit: Procs(8) };
        Submit { work: Work::new(Procs(1), Span(80), speedup), ..rigid(key, 1, 80) }
    };
    assert_eq!(bench.accepted(of("bob", moldable(1))).procs, Procs(8));
    assert_eq!(bench.accepted(moldable(2)).procs, Procs(4));
    let Answer::Refused(why) = bench.submit(rigid(3, 5, 10)) else { panic!("it never fits") };
    let text = "needs 5 processors, but root has limited the user since 1970-01-01 00:01:40Z to 4 processors here: exam week";
    assert_eq!((why.cause(), why.to_string()), (Cause::TooLarge, text.to_owned()));
}

#[test]
fn a_small_job_waits_behind_a_large_one_but_not_behind_one_that_never_fits() {
    let mut bench = Bench::new("cbf", 8);
    bench.deliver(Event::WaitingLimits(MANY));
    for (key, procs) in [(1, 4), (2, 6), (3, 4), (4, 1)] {
        bench.accepted(rigid(key, procs, 10));
    }
    bench.limit("alice", &[(LimitKey::Processors, Some(5))]);
    assert_eq!(bench.at(100).len(), 1, "2 is too large, and 3 does not fit");
    assert_eq!(bench.running("alice"), [4]);
    assert_eq!(bench.state(4), JobState::Queued, "3 is before it");
    bench.limit("alice", &[(LimitKey::Processors, Some(8))]);
    bench.at(101);
    assert_eq!(bench.running("alice"), [4], "now 2 is before 3");
    bench.now = Time(105);
    bench.ended(1, Exit::Code(0));
    bench.at(105);
    assert_eq!(bench.running("alice"), [6]);
}

#[test]
fn a_submission_over_a_limit_of_what_waits_is_refused() {
    let mut bench = Bench::new("cbf", 1);
    bench.limit("alice", &[(LimitKey::WaitingJobs, Some(1)), (LimitKey::WaitingBytes, Some(100))]);
    bench.restarted();
    let refused = |bench: &mut Bench, submit| match bench.submit(submit) {
        Answer::Refused(why) => why,
        other => panic!("expected a refusal, found {other:?}"),
    };
    let long = Submit { name: "x".repeat(101), ..rigid(1, 1, 10) };
    let why = refused(&mut bench, long.clone());
    assert_eq!(why.cause(), Cause::TooMany);
    let text = "the user would have 105 bytes of waiting jobs, but root has limited the user since 1970-01-01 00:01:40Z to \
                100 bytes of waiting jobs here: exam week";
    assert_eq!(why.to_string(), text);
    bench.accepted(of("bob", Submit { key: Key([9; 16]), ..long.clone() }));
    bench.accepted(rigid(2, 1, 10));
    let why = refused(&mut bench, rigid(3, 1, 10));
    let text = "the user would have 2 waiting jobs, but root has limited the user since 1970-01-01 00:01:40Z to 1 waiting \
                job here: exam week";
    assert_eq!((why.cause(), why.to_string()), (Cause::TooMany, text.to_owned()));
    let handoff = Box::new(handoff_from_paris(1, 1));
    let reply = bench.deliver(Event::Prepare { reply: Token(1), handoff });
    assert_eq!(reply, Some(Answer::NotPrepared(text.to_owned())));
    bench.limit("alice", &[(LimitKey::WaitingJobs, None)]);
    bench.accepted(rigid(3, 1, 10));
    assert_eq!(refused(&mut bench, long).cause(), Cause::TooMany, "the other limit stays");
}

#[test]
fn the_same_act_keeps_its_time() {
    let mut bench = Bench::new("cbf", 1);
    let at = |answer: Answer| match answer {
        Answer::Limited(limits) => limits.map(|limits| limits.at.0),
        other => panic!("expected the limits, found {other:?}"),
    };
    let one = [(LimitKey::RunningJobs, Some(1))];
    assert_eq!(at(bench.limit("alice", &one)), Some(100));
    bench.now = Time(200);
    assert_eq!(at(bench.limit("alice", &one)), Some(100));
    let audited = bench.commands.iter().find_map(|command| match command {
        Command::Audit(record) => Some(record.clone()),
        _ => None,
    });
    let audited = audited.unwrap();
    assert_eq!((audited.act, audited.why.as_str()), (AuditAct::Limit, "running-jobs=1: exam week"));
    assert_eq!(at(bench.limit("alice", &[(LimitKey::RunningJobs, Some(2))])), Some(200));
    assert_eq!(at(bench.limit("alice", &[(LimitKey::RunningJobs, None)])), None);
}

#[test]
fn what_runs_is_limited_by_an_external_batch_system_itself() {
    let mut bench = Bench::new(external::SLURM, 1);
    let answer = bench.limit("alice", &[(LimitKey::RunningJobs, Some(1))]);
    assert!(matches!(&answer, Answer::Unsuited(why) if why.contains("sacctmgr")), "{answer:?}");
    assert!(Server::is_without_effect(&bench.commands));
    assert!(matches!(bench.limit("alice", &[(LimitKey::WaitingJobs, Some(1))]), Answer::Limited(Some(_))));
    assert!(matches!(bench.limit("alice", &[(LimitKey::RunningJobs, None)]), Answer::Limited(Some(_))));
}

#[test]
fn a_job_is_taken_from_another_server_if_it_may_run_here() {
    let mut bench = Bench::new("cbf", 4);
    bench.limit("alice", &[(LimitKey::RunningJobs, Some(1))]);
    let prepare = |bench: &mut Bench, number, sibling| {
        let handoff = Handoff { sibling, key: Key([number as u8 + 40; 16]), ..handoff_from_paris(number, 1) };
        let id = handoff.id.clone();
        (bench.deliver(Event::Prepare { reply: Token(1), handoff: Box::new(handoff) }).unwrap(), id)
    };
    let refused = Answer::NotPrepared(WHY.to_owned());
    assert_eq!(prepare(&mut bench, 1, true).0, refused, "a sibling would be started by its source");
    let (first, second) = (prepare(&mut bench, 2, false).1, prepare(&mut bench, 3, false).1);
    for id in [first, second] {
        bench.deliver(Event::Commit { reply: Token(2), id, cancelled: false, attempts: 1 });
    }
    assert_eq!(bench.at(100).len(), 1, "both were prepared while there was room");
    let refused = Answer::NotPrepared(format!("the user would have 2 running jobs, but {WHY}"));
    assert_eq!(prepare(&mut bench, 4, false).0, refused);
}

#[test]
fn a_job_that_never_fits_keeps_no_job_of_another_server_away() {
    let mut bench = Bench::new("cbf", 4);
    bench.deliver(Event::WaitingLimits(MANY));
    bench.accepted(rigid(1, 3, 10));
    bench.limit("alice", &[(LimitKey::Processors, Some(2))]);
    let prepare = |bench: &mut Bench, number| {
        let key = Key([100 + number as u8; 16]);
        let handoff = Box::new(Handoff { key, ..handoff_from_paris(number, 1) });
        bench.deliver(Event::Prepare { reply: Token(1), handoff }).unwrap()
    };
    let prepared = prepare(&mut bench, 1);
    assert!(matches!(prepared, Answer::Handoff(Reply::Prepared(_))), "{prepared:?}");
    bench.accepted(rigid(2, 1, 10));
    bench.accepted(rigid(3, 2, 10));
    let found = prepare(&mut bench, 2);
    let act = "root has limited the user since 1970-01-01 00:01:40Z to 2 processors here: exam week";
    let why = format!("other jobs of the user are before it: {act}");
    assert_eq!(found, Answer::NotPrepared(why), "job 3 waits for job 2");
}

#[test]
fn what_may_never_run_is_refused() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 4);
        bench.limit("alice", &[(LimitKey::RunningJobs, Some(0)), (LimitKey::Processors, Some(2))]);
        let Answer::Refused(why) = bench.submit(rigid(1, 1, 10)) else { panic!("{policy}: it never runs") };
        let act = "root has limited the user since 1970-01-01 00:01:40Z to 0 running jobs here: exam week";
        let text = format!("needs 1 running job, but {act}");
        assert_eq!((why.cause(), why.to_string()), (Cause::TooMany, text), "{policy}");
        bench.accepted(of("bob", rigid(2, 1, 10)));
    }
}

/// A refusal is not journaled: a replay would not have what it changes.
#[test]
fn what_waits_for_a_larger_cluster_keeps_no_job_back() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 8);
        bench.limit("alice", &[(LimitKey::RunningJobs, Some(1))]);
        bench.accepted(rigid(1, 1, 50));
        bench.at(100);
        bench.accepted(rigid(2, 6, 10));
        bench.accepted(rigid(3, 1, 10));
        let configure = |bench: &mut Bench, procs| {
            bench.deliver(Event::Configured { procs: Procs(procs), policy: policy.clone(), host: None });
        };
        configure(&mut bench, 4);
        bench.now = Time(105);
        bench.ended(1, Exit::Code(0));
        let before = bench.server.dump(bench.now);
        assert!(matches!(bench.submit(rigid(4, 9, 10)), Answer::Refused(_)), "{policy}");
        assert_eq!(bench.server.dump(bench.now), before, "{policy}");
        bench.at(105);
        assert_eq!((bench.state(2), bench.state(3)), (JobState::Queued, JobState::Active), "{policy}");
        configure(&mut bench, 8);
        bench.at(106);
        assert_eq!(bench.state(2), JobState::Queued, "{policy}: job 3 runs");
        bench.ended(3, Exit::Code(0));
        bench.at(106);
        assert_eq!(bench.state(2), JobState::Active, "{policy}");
    }
}

#[test]
fn a_sibling_that_waits_already_gives_its_processors_back() {
    let mut bench = Bench::new("cbf", 1);
    let handoff = Box::new(Handoff { sibling: true, ..handoff_from_paris(5, 1) });
    let id = handoff.id.clone();
    bench.deliver(Event::Prepare { reply: Token(1), handoff });
    bench.limit("alice", &[(LimitKey::RunningJobs, Some(0))]);
    bench.at(100);
    bench.deliver(Event::Decided { id: id.clone(), decision: HandoffDecision::Undecided });
    assert_eq!(bench.server.usage().waiting, 0, "it yielded, and is not queued again");
    bench.deliver(Event::Commit { reply: Token(2), id, cancelled: false, attempts: 1 });
    assert!(bench.at(110).is_empty());
    bench.limit("alice", &[(LimitKey::RunningJobs, Some(1))]);
    assert_eq!(bench.at(110).len(), 1);
}

#[test]
fn a_subjob_counts_and_is_refused_over_the_limit() {
    let mut bench = Bench::new("cbf", 4);
    bench.limit("alice", &[(LimitKey::RunningJobs, Some(1))]);
    let prepare = |bench: &mut Bench, number| {
        let launch = LaunchId { agent: "agent".parse().unwrap(), key: Key([1; 16]) };
        let id = SubjobId { launch, number };
        let subjob = Box::new(Subjob {
            id: id.clone(),
            coordinator: Peer { name: "agent".parse().unwrap(), address: String::new() },
            owner: user("alice"),
            name: "row".to_owned(),
            tasks: Vec::new(),
            procs: Procs(1),
            walltime: Span(60),
            timeout: Span(120),
            signed: Payload::default(),
        });
        bench.deliver(Event::Subjob(SubjobEvent::Prepare { reply: Token(1), subjob }));
        bench.server.subjob_state(&id)
    };
    assert_eq!(prepare(&mut bench, 0), SubjobState::Queued);
    let expected = format!("the user would have 2 running jobs, but {WHY}");
    assert!(
        matches!(prepare(&mut bench, 1), SubjobState::Over { exit: Exit::NotStarted(why), .. } if why == expected)
    );
    // It has its processors for 60 s, and for the 120 s in which it is prepared.
    assert_eq!(bench.accepted(rigid(1, 1, 10)).expected.start, Time(280));
    bench.at(100);
    assert_eq!(bench.accepted(rigid(2, 1, 10)).expected.start, Time(290));
    assert_eq!(bench.is_unplanned(2).as_deref(), Some(WHY), "the subjob is the one that may run");
}

/// Submissions, ends, cancellations, holds, bans, other limits, other sizes and restarts in any order: no start exceeds the limits, a journal of
/// questions changes nothing, and without limits everything runs.
#[test]
fn no_start_exceeds_the_limits_whatever_happens() {
    for (seed, policy) in pliant_policy::batch::local_names().iter().cycle().take(60).enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(seed as u64);
        let mut bench = Bench::new(policy, 8);
        bench.deliver(Event::WaitingLimits(MANY));
        for step in 0..120_u8 {
            let number = rng.random_range(1..=40);
            let act = |reply| (Token(reply), user("root"), String::new());
            let (reply, by, why) = act(0);
            match rng.random_range(0..13) {
                0..=4 => {
                    let owner = if rng.random_bool(0.7) { "alice" } else { "bob" };
                    let procs = rng.random_range(1..=6);
                    bench.submit(of(owner, rigid(step, procs, rng.random_range(5..50))));
                }
                5 => _ = bench.cancel(number, "root"),
                6 => _ = bench.deliver(Event::Hold { reply, number, by, why }),
                7 => _ = bench.deliver(Event::Release { reply, number, by, why }),
                8 => {
                    let user = user("alice");
                    let event = match rng.random_bool(0.5) {
                        true => Event::Ban { reply, user, by, why },
                        false => Event::Unban { reply, user, by, why },
                    };
                    bench.deliver(event);
                }
                9 => {
                    let key = LimitKey::ALL[rng.random_range(0..2)];
                    let most = rng.random_bool(0.8).then(|| rng.random_range(0..8));
                    bench.limit("alice", &[(key, most)]);
                }
                10 => bench.restarted(),
                11 => {
                    let procs = Procs(rng.random_range(1..=8));
                    bench.deliver(Event::Configured { procs, policy: policy.clone(), host: None });
                }
                _ => {}
            }
            let before = bench.server.dump(bench.now);
            bench.server.keep_within_limits(bench.now, &mut Vec::new());
            assert_eq!(bench.server.dump(bench.now), before, "{policy} {seed}: applied twice");
            for number in 1..=40 {
                let runs = bench.server.job(number).is_some_and(|job| job.state == JobState::Active);
                if runs && rng.random_bool(0.1) {
                    bench.ended(number, Exit::Code(0));
                }
            }
            check_starts(&mut bench, &format!("{policy} {seed} step {step}"));
        }
        finish(&mut bench, &format!("{policy} {seed}"));
    }
}

/// Advances the time, and checks the state after each start.
fn check_starts(bench: &mut Bench, what: &str) {
    let before = bench.running("alice");
    let now = bench.now.0 + 1;
    bench.at(now);
    let after = bench.running("alice");
    let Some(limits) = bench.server.user_limits().get(&user("alice")) else { return };
    if after.len() > before.len() {
        let within = |key, count: u64| limits.values.get(&key).is_none_or(|most| count <= *most);
        let procs = after.iter().map(|procs| u64::from(*procs)).sum();
        assert!(within(LimitKey::RunningJobs, after.len() as u64), "{what}: {after:?} over {limits:?}");
        assert!(within(LimitKey::Processors, procs), "{what}: {after:?} over {limits:?}");
    }
}

/// Ends the bans, the limits and the holds: all jobs run.
fn finish(bench: &mut Bench, what: &str) {
    let (user, by) = (user("alice"), user("root"));
    let (_, policy, _) = bench.server.configuration().unwrap();
    bench.deliver(Event::Configured { procs: Procs(8), policy, host: None });
    bench.deliver(Event::Unban { reply: Token(0), user, by, why: String::new() });
    bench.limit("alice", &LimitKey::ALL.map(|key| (key, None)));
    for number in 1..=130 {
        bench.release(number);
    }
    for _ in 0..200 {
        let now = bench.now.0 + 1;
        bench.at(now);
        for number in 1..=130 {
            if bench.server.job(number).is_some_and(|job| job.state == JobState::Active) {
                bench.ended(number, Exit::Code(0));
            }
        }
    }
    let left = bench.server.jobs().find(|job| !job.state.is_final());
    assert!(left.is_none(), "{what}: {left:?}");
}
