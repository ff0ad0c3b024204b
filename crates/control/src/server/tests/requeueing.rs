//! Jobs that run again after a node failed under them.

use super::external_siblings::{Slurm, job_41};
use super::*;
use crate::audit::AuditAct;
use crate::batch::external::{self, Queue};
use crate::listing::State;
use crate::replay::Machine;

fn requeue(requeue: u32, submit: Submit) -> Submit {
    Submit { work: Work { requeue, ..submit.work }, ..submit }
}

fn lost() -> Exit {
    Exit::Lost("the host was restarted while the job ran".to_owned())
}

fn node_failed(bench: &mut Bench, number: u32) {
    bench.deliver(Event::Batch(batch::Event::NodeFailed { job: JobId(number), exit: lost() }));
}

/// The number here of the job that was accepted as that number.
fn number_of(bench: &Bench, number: u32) -> u32 {
    bench.server.number_of(&Handle { server: "lyon".parse().unwrap(), number }).unwrap()
}

fn record(bench: &Bench, number: u32) -> JobRecord {
    bench.server.job(number_of(bench, number)).unwrap().clone()
}

/// Restores the server from its state.
fn restarted(bench: &mut Bench) {
    let text = serde_json::to_string(&bench.server.dump(bench.now)).unwrap();
    let config = bench.server.config().clone();
    bench.server = Server::from_state(config, serde_json::from_str(&text).unwrap()).unwrap();
}

#[test]
fn a_job_runs_again_and_completes_under_its_id() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 2);
        let accepted = bench.accepted(requeue(1, rigid(1, 2, 10)));
        bench.accepted(rigid(2, 2, 10));
        assert_eq!(bench.at(100).len(), 1, "{policy}");
        bench.now = Time(103);
        node_failed(&mut bench, 1);
        let again = record(&bench, 1);
        assert_eq!((again.state, again.requeues, again.started), (JobState::Queued, 1, None), "{policy}");
        let audited = bench.commands.iter().find_map(|command| match command {
            Command::Audit(record) => Some((record.act, record.job.clone(), record.why.clone())),
            _ => None,
        });
        let (act, job, why) = audited.unwrap();
        assert_eq!((act, job.as_ref()), (AuditAct::Requeue, Some(&accepted.handle)), "{policy}");
        assert!(why.starts_with("a node failed, queued again for time 1 of at most 1: lost: "), "{why}");
        let is_reported = |command: &Command| matches!(command, Command::Report(record) if **record == JobRecord { claim: None, ..again.clone() });
        assert!(bench.commands.iter().any(is_reported), "{policy}");
        assert!(again.progress() > JobRecord { state: JobState::Active, ..accepted.clone() }.progress());
        // It is counted as waiting once, also by a restarted server.
        let waiting = bench.server.waiting_of(&user("alice"));
        restarted(&mut bench);
        assert_eq!((waiting, bench.server.waiting_of(&user("alice"))), (2, 2), "{policy}");
        let (mut now, mut done) = (103, Vec::new());
        while done.len() < 2 {
            for run in bench.at(now) {
                done.push(run.job.0);
                bench.ended(run.job.0, Exit::Code(0));
            }
            now += 1;
            assert!(now < 200, "{policy}: {done:?}");
        }
        assert!(!done.contains(&1), "{policy}: a run has a number of its own");
        let record = record(&bench, 1);
        assert_eq!((record.state, record.handle, record.requeues), (JobState::Completed, accepted.handle, 1));
        // Its key still stands for it after it is forgotten.
        bench.at(now + 61);
        assert_eq!(bench.submit(rigid(1, 2, 10)), Answer::Known("lyon.1".parse().unwrap()), "{policy}");
    }
}

#[test]
fn a_job_that_is_lost_more_often_than_it_may_run_again_ends() {
    for most in [0, 1, 3] {
        let mut bench = Bench::new("cbf", 2);
        bench.accepted(requeue(most, rigid(1, 2, 10)));
        for round in 0..=most {
            assert_eq!(bench.at(100 + i64::from(round)).len(), 1);
            assert_eq!(record(&bench, 1).requeues, round);
            let number = number_of(&bench, 1);
            node_failed(&mut bench, number);
            // What is reported of an earlier run changes nothing.
            bench.ended(number, Exit::Code(0));
        }
        let record = record(&bench, 1);
        assert_eq!((record.state, record.exit, record.requeues), (JobState::Failed, Some(lost()), most));
        assert_eq!((bench.at(200).len(), bench.server.usage().free), (0, Procs(2)));
    }
}

#[test]
fn only_failures_of_nodes_have_a_job_run_again() {
    for exit in [Exit::Code(1), Exit::Signal(9), Exit::OverWalltime, lost()] {
        let mut bench = Bench::new("cbf", 2);
        bench.accepted(requeue(5, rigid(1, 2, 10)));
        bench.at(100);
        bench.ended(1, exit.clone());
        assert_eq!(record(&bench, 1).exit, Some(exit));
    }
    let mut bench = Bench::new("cbf", 2);
    bench.accepted(requeue(5, rigid(1, 2, 10)));
    bench.at(100);
    bench.cancel(1, "alice");
    node_failed(&mut bench, 1);
    assert_eq!(record(&bench, 1).exit, Some(lost()), "it was to be ended");
}

#[test]
fn a_waiting_job_may_have_been_started_by_the_node_that_failed() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 2);
        bench.accepted(rigid(1, 2, 10));
        bench.accepted(rigid(2, 2, 10));
        bench.accepted(requeue(1, rigid(3, 2, 10)));
        assert_eq!(bench.at(100).len(), 1, "{policy}");
        node_failed(&mut bench, 2);
        node_failed(&mut bench, 3);
        // Repeated, it changes nothing.
        node_failed(&mut bench, 2);
        let (ended, again) = (record(&bench, 2), record(&bench, 3));
        assert_eq!((ended.state, ended.exit, ended.started), (JobState::Failed, Some(lost()), None), "{policy}");
        assert_eq!((again.state, again.requeues), (JobState::Queued, 1), "{policy}");
        bench.ended(1, Exit::Code(0));
        let (mut now, mut runs) = (100, Vec::new());
        while runs.is_empty() {
            runs = bench.at(now);
            now += 1;
            assert!(now < 200, "{policy}");
        }
        assert_eq!((runs.len(), bench.server.usage().waiting), (1, 0), "{policy}");
        assert!(number_of(&bench, 3) > 3, "{policy}: under a number of its own");
    }
}

#[test]
fn a_job_that_cannot_keep_its_deadline_any_more_does_not_run_again() {
    let mut bench = Bench::new("cbf", 2);
    let submit = requeue(5, rigid(1, 2, 10));
    let submit = Submit { work: Work { deadline: Some(Time(120)), ..submit.work }, ..submit };
    bench.accepted(submit);
    bench.at(100);
    bench.now = Time(105);
    node_failed(&mut bench, 1);
    assert_eq!(bench.at(106).len(), 1);
    bench.now = Time(111);
    let number = number_of(&bench, 1);
    node_failed(&mut bench, number);
    let exit = record(&bench, 1).exit;
    assert!(matches!(&exit, Some(Exit::NotStarted(why)) if why.contains("deadline")), "{exit:?}");
    assert_eq!(bench.at(300).len(), 0);
}

/// Slurm started it just before it was to be withdrawn for its deadline.
#[test]
fn a_job_in_slurm_that_was_too_late_and_ran_all_the_same_does_not_run_again() {
    [true, false].into_iter().for_each(loses_node_when_too_late);
}

fn loses_node_when_too_late(is_answered: bool) {
    let mut slurm = Slurm::idle();
    let submit = requeue(5, rigid(1, 1, 180));
    let deadline = Some(slurm.bench.now + Span(200));
    slurm.bench.accepted(Submit { work: Work { deadline, ..submit.work }, ..submit });
    slurm.event(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
    slurm.bench.now += Span(30);
    slurm.bench.deliver(Event::Due);
    assert!(matches!(slurm.commands()[..], [external::Command::Withdraw { job: JobId(1), .. }]));
    if is_answered {
        slurm.list(vec![job_41(State::Running)]);
        let outcome = external::WithdrawalOutcome::Started;
        slurm.event(external::Event::Withdrawal { job: JobId(1), outcome });
        assert_eq!(slurm.bench.state(1), JobState::Active);
    }
    slurm.event(external::Event::NodeFailed { job: JobId(1), exit: lost(), started: None });
    let exit = record(&slurm.bench, 1).exit;
    assert!(matches!(&exit, Some(Exit::NotStarted(why)) if why.contains("deadline")), "{exit:?}");
}

#[test]
fn a_banned_user_has_no_job_run_again_before_the_end_of_the_ban() {
    let mut bench = Bench::new("cbf", 2);
    bench.accepted(requeue(1, rigid(1, 2, 10)));
    bench.at(100);
    let (by, why) = (user("root"), "test".to_owned());
    bench.deliver(Event::Ban { reply: Token(1), user: user("alice"), by: by.clone(), why: why.clone() });
    node_failed(&mut bench, 1);
    assert_eq!((bench.at(150).len(), record(&bench, 1).state), (0, JobState::Queued));
    bench.deliver(Event::Unban { reply: Token(2), user: user("alice"), by, why });
    assert_eq!(bench.at(150).len(), 1);
}

#[test]
fn a_replay_of_a_loss_gives_the_same_commands() {
    let run = |restart: bool| {
        let mut bench = Bench::new("easy", 2);
        bench.accepted(requeue(1, rigid(1, 1, 10)));
        bench.accepted(rigid(2, 2, 10));
        bench.at(100);
        node_failed(&mut bench, 1);
        let commands = bench.commands.clone();
        if restart {
            restarted(&mut bench);
        }
        let runs = bench.at(101);
        (commands, runs, serde_json::to_string(&bench.server.dump(bench.now)).unwrap())
    };
    assert_eq!(run(false), run(false));
    assert_eq!(run(false), run(true));
}

#[test]
fn a_moved_job_keeps_how_often_it_was_queued_again() {
    let mut bench = Bench::new("cbf", 2);
    let handoff = handoff_from_paris(5, 1);
    let handoff = Handoff { requeues: 1, work: Work { requeue: 1, ..handoff.work }, ..handoff };
    let id = handoff.id.clone();
    bench.deliver(Event::Prepare { reply: Token(1), handoff: Box::new(handoff) });
    bench.deliver(Event::Commit { reply: Token(2), id: id.clone(), cancelled: false, attempts: 1 });
    let number = bench.server.number_of(&id.job).unwrap();
    assert_eq!(bench.at(101).len(), 1);
    node_failed(&mut bench, number);
    assert_eq!(bench.state(number), JobState::Failed, "it ran again at the other server");
}

/// The journal that is put back knows the first run as running, or the job as waiting for it; the agent knows the second one.
#[test]
fn a_journal_that_is_put_back_goes_on_with_the_run_that_the_agent_knows() {
    for (has_started, state) in
        [(true, JobState::Queued), (false, JobState::Queued), (true, JobState::Active)]
    {
        let mut bench = Bench::new("cbf", 2);
        bench.accepted(requeue(3, rigid(1, 2, 10)));
        if has_started {
            bench.at(100);
        }
        let started = (state == JobState::Active).then_some(Time(105));
        let known = JobRecord { requeues: 1, state, started, ..record(&bench, 1) };
        bench.now = Time(200);
        bench.deliver(Event::Restored { journal: 77, highest: 1, known: vec![known] });
        let (number, found) = (number_of(&bench, 1), record(&bench, 1));
        assert_eq!((found.requeues, found.state, number > 1), (1, state, true), "{has_started}");
        assert_eq!(bench.server.had_started(number), state == JobState::Active, "it is looked for");
        let runs = bench.at(200).len() + usize::from(state == JobState::Active);
        assert_eq!((runs, bench.server.running().count()), (1, 1), "{has_started}");
        node_failed(&mut bench, 1);
        assert_eq!(record(&bench, 1).requeues, 1, "the first run is over");
        node_failed(&mut bench, number);
        assert_eq!(record(&bench, 1).requeues, 2);
    }
}

#[test]
fn a_job_in_slurm_is_submitted_again_as_another_job() {
    let mut slurm = Slurm::idle();
    slurm.bench.accepted(requeue(1, rigid(1, 1, 180)));
    slurm.event(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
    slurm.list(vec![job_41(State::Running)]);
    slurm.list(vec![job_41(State::NodeFailed)]);
    assert!(matches!(slurm.commands()[..], [external::Command::Inspect { job: JobId(1), .. }]));
    let failed = external::Event::NodeFailed { job: JobId(1), exit: lost(), started: Some(Time(150)) };
    slurm.event(failed.clone());
    let [external::Command::Queue(Queue { job: JobId(2), resubmitted: false, held: false, .. })] =
        &slurm.commands()[..]
    else {
        panic!("{:?}", slurm.bench.commands)
    };
    // The old job stays in the listing for some minutes, and the same may be reported again.
    slurm.event(failed);
    slurm.list(vec![job_41(State::NodeFailed)]);
    slurm.restore();
    assert_eq!(slurm.commands(), []);
    slurm.event(external::Event::Queued { job: JobId(2), ids: vec!["42".to_owned()] });
    let job_42 =
        |state| crate::listing::ListedJob { id: "42".to_owned(), job_number: Some(2), ..job_41(state) };
    slurm.list(vec![job_41(State::NodeFailed), job_42(State::Running)]);
    assert_eq!((slurm.bench.state(2), slurm.bench.server.had_started(2)), (JobState::Active, false));
    let ended = external::Event::Ended {
        job: JobId(2),
        exit: Exit::Code(0),
        started: Some(Time(300)),
        elapsed_ms: None,
    };
    slurm.event(ended);
    let record = record(&slurm.bench, 1);
    assert_eq!((record.state, record.requeues), (JobState::Completed, 1));
}

#[test]
fn a_job_in_slurm_that_was_cancelled_before_its_start_is_seen_does_not_run_again() {
    let mut slurm = Slurm::idle();
    slurm.bench.accepted(requeue(1, rigid(1, 1, 180)));
    slurm.event(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
    slurm.bench.cancel(1, "alice");
    slurm.event(external::Event::NodeFailed { job: JobId(1), exit: lost(), started: Some(Time(101)) });
    assert_eq!(slurm.bench.server.job(1).unwrap().exit, Some(lost()));
}
