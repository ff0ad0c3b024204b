//! When jobs run: not before an instant, in time for a deadline or not at all, and in the order of their owner.

use std::fs;

use pliant_control::job::{Exit, JobState, Work};
use pliant_model::Span;
use pliant_wire::SubmittedWork;
use serde_json::json;

use crate::harness::*;
use crate::slurm::Behind;

/// The same script with other options.
pub(crate) fn with(what: SubmittedWork, change: impl FnOnce(&mut Work)) -> SubmittedWork {
    let SubmittedWork::Script(mut script) = what else { panic!("expected a script") };
    change(&mut script.work);
    SubmittedWork::Script(script)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_starts_at_its_instant_also_if_its_server_is_killed_before() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    let client = federation.client("alice");
    fs::write(user.dir().join("job.sh"), "#!/bin/sh\n#SBATCH --time=1\n#SBATCH -b now+8\n").unwrap();

    let (code, found, error) = user.run("submit ./job.sh --begin now+1h --dry-run");
    let start = found["estimates"][0]["start_s"].as_i64().unwrap();
    assert!(code == 0 && (3_590..=3_600).contains(&(start - now().0)), "{found} {error}");

    let (code, job, error) = user.run("submit ./job.sh");
    assert_eq!(code, 0, "{error}");
    let begin = job["requested"]["begin_s"].as_i64().unwrap();
    assert_eq!(job["expected"]["start_s"], json!(begin));
    let (_, explanation, _) = user.run(&format!("explain {}", job["job_id"].as_str().unwrap()));
    let why = explanation["unplanned"].as_str().unwrap_or_else(|| panic!("{explanation}"));
    assert!(why.starts_with("it does not start before "), "{why}");

    federation.kill("lyon");
    federation.revive("lyon");
    let handle = job["job_id"].as_str().unwrap().parse().unwrap();
    let ended = federation.reaches(&client, &handle, JobState::Completed).await;
    let started = ended.started.unwrap().0;
    assert!((begin..begin + 30).contains(&started), "started at {started}, expected {begin}");

    // It is for scripts.
    let (code, _, error) = user.run("submit pi --begin now+1h");
    assert_eq!(code, 2, "{error}");
    assert!(error.starts_with("error: expected --begin with a script"), "{error}");
    let (code, _, error) = user.run("submit ./job.sh --begin later");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("expected now+COUNT[UNIT]"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_would_complete_after_its_deadline_is_refused_or_fails() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    let client = federation.client("alice");
    fs::write(user.dir().join("job.sh"), "#!/bin/sh\n").unwrap();
    let (code, found, error) = user.run("submit ./job.sh --time 2m --deadline now+1m --dry-run");
    assert_eq!(code, 2, "{error}");
    assert_eq!(found["refusals"][0]["cause"], "deadline", "{found}");
    let (code, _, error) = user.run("submit ./job.sh --time 2m --deadline now+1m");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains(", after its deadline ") && error.contains("a later --deadline"), "{error}");

    // One that runs in time, and one that an operator holds for too long.
    let (code, job, error) = user.run("submit ./job.sh --time 1m --deadline now+70s --wait");
    assert_eq!((code, &job["state"]), (0, &json!("COMPLETED")), "{error}");
    let (code, job, error) = user.run("submit ./job.sh --time 5s --begin now+4s --deadline now+12s");
    assert_eq!(code, 0, "{error}");
    let handle = job["job_id"].as_str().unwrap();
    let (code, _, error) = CommandUser::operator(&federation).run(&format!("admin hold {handle} --why full"));
    assert_eq!(code, 0, "{error}");
    let handle = handle.parse().unwrap();
    let failed = federation.reaches(&client, &handle, JobState::Failed).await;
    let too_late = |why: &String| why.starts_with("its deadline could not be kept");
    assert!(matches!(&failed.exit, Some(Exit::NotStarted(why)) if too_late(why)), "{failed:?}");
    assert_eq!(failed.started, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn slurm_holds_a_job_until_its_instant_and_gives_it_back_if_it_is_too_late() {
    let Some(behind) = Behind::start(1, 2).await else { return };
    let (federation, alice) = (&behind.federation, behind.federation.client("alice"));
    let listed = || behind.slurm("lyon").run(&["squeue", "--noheader", "--format=%T %r"]);
    let begin = now() + Span(12);
    let later = with(rigid("true", 1, 60), |work| work.begin = Some(begin));
    let job = submit(&alice, &order_to("lyon", later)).await;
    assert_eq!(job.expected.start, begin);
    until("it to be held", async || (listed() == "PENDING JobHeldUser").then_some(())).await;
    let ran = federation.reaches(&alice, &job.handle, JobState::Completed).await;
    assert!(ran.started.unwrap() >= begin, "{ran:?}");

    // Local users take the processors before it may start.
    let begin = now() + Span(12);
    let late = with(rigid("true", 1, 60), |work| {
        (work.begin, work.deadline) = (Some(begin), Some(begin + Span(75)));
    });
    let job = submit(&alice, &order_to("lyon", late)).await;
    behind.take("lyon", 2, 15);
    let failed = federation.reaches(&alice, &job.handle, JobState::Failed).await;
    let too_late = |why: &String| why.starts_with("its deadline could not be kept");
    assert!(matches!(&failed.exit, Some(Exit::NotStarted(why)) if too_late(why)), "{failed:?}");
    until("it to leave the queue", async || (behind.queue("lyon") == ["local RUNNING"]).then_some(())).await;

    // Slurm has its own order.
    let nice = with(rigid("true", 1, 60), |work| work.nice = 7);
    submit(&alice, &order_to("lyon", nice)).await;
    let waits = || behind.slurm("lyon").run(&["squeue", "--noheader", "--states=PD", "--Format=Nice"]);
    until("it to stand back", async || (waits().trim() == "7").then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_stands_back_behind_others_of_its_owner() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    let client = federation.client("alice");
    let gate = federation.path().join("gate");
    let first = submit(&client, &order(rigid(&waiting_for(&gate), 1, 600))).await;
    federation.reaches(&client, &first.handle, JobState::Active).await;
    fs::write(user.dir().join("job.sh"), "#!/bin/sh\n#SBATCH --nice --time=1\n").unwrap();
    let (_, back, error) = user.run("submit ./job.sh");
    assert_eq!(back["requested"]["nice"], json!(100), "{error}");
    let (_, front, _) = user.run("submit ./job.sh --nice 3");
    let (_, explanation, _) = user.run(&format!("explain {}", back["job_id"].as_str().unwrap()));
    assert_eq!(explanation["unplanned"], json!("jobs of its owner with a lower --nice wait here"));
    // For people, both verbs say the same: the job in front has a start, the other one has none.
    let listed = user.lines("queue");
    for (job, is_planned) in [(&back, false), (&front, true)] {
        let job = job["job_id"].as_str().unwrap();
        let row = listed.iter().find(|line| line.split_whitespace().next() == Some(job)).unwrap();
        assert_eq!(row.contains(" in "), is_planned, "{listed:#?}");
        let explained = user.lines(&format!("explain {job}"));
        assert_eq!(explained[0].contains("expected to start"), is_planned, "{explained:#?}");
    }
    fs::write(&gate, "").unwrap();
    let [back, front] = [back, front].map(|job| job["job_id"].as_str().unwrap().parse().unwrap());
    let back = federation.reaches(&client, &back, JobState::Completed).await;
    let front = federation.reaches(&client, &front, JobState::Completed).await;
    assert!(front.ended.unwrap() <= back.started.unwrap(), "{front:?} {back:?}");
}
