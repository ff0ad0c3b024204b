//! Servers whose journal is put back from a backup: no job's outcome is lost at the agent, none runs twice, and the numbers go on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use pliant_client::Client;
use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_wire::MovingChange;

use crate::harness::*;
use crate::moves::{free, open};
use crate::schemas;

/// Makes a backup as an operator does.
pub(crate) fn back_up(state: &Path, dir: &Path) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pliant"));
    command.args(["--format", "json", "admin", "backup", "--state"]).arg(state).arg(dir);
    said(command.output().unwrap())
}

/// Puts a backup in the place of a state folder, and the folders of jobs with it, as `docs/guides/backup.md` says.
pub(crate) fn put_back(state: &Path, backup: &Path) {
    let lost = state.with_file_name("state.lost");
    fs::rename(state, &lost).unwrap();
    assert!(Command::new("cp").arg("-a").args([backup, state]).status().unwrap().success());
    fs::rename(lost.join("jobs"), state.join("jobs")).unwrap();
}

/// The state and the exit of each job in the agent's records, once all have ended.
async fn outcomes(client: &Client, jobs: &[&Handle]) -> BTreeMap<Handle, (JobState, Exit)> {
    let mut outcomes = BTreeMap::new();
    for handle in jobs {
        let what = format!("the agent to know the end of {handle}");
        let record = until(&what, async || {
            let record = client.find(handle).await.ok()?.record;
            record.state.is_final().then_some(record)
        })
        .await;
        outcomes.insert((*handle).clone(), (record.state, record.exit.unwrap()));
    }
    outcomes
}

/// Waits until the agent knows that a job runs.
async fn runs_at_agent(client: &Client, handle: &Handle) {
    until(&format!("the agent to know that {handle} runs"), async || {
        client.find(handle).await.ok().filter(|found| found.record.state == JobState::Active)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_server_loses_no_outcome_and_runs_nothing_twice() {
    const DATA: &[u8] = b"three\nlines\nhere\n";
    let clusters = ["lyon", "paris"].map(|name| Cluster::new(name, 1, 1.0));
    let mut federation = Federation::start(&clusters).await;
    let (alice, bob, operator) =
        (federation.client("alice"), federation.client("bob"), federation.operator());
    let (lines, state) = (federation.path().join("lines"), federation.folder("lyon").join("state"));
    let gate = |name: &str| waiting_for(&federation.path().join(format!("gate-{name}")));
    let at_lyon = |rest: &str, walltime_s| order_to("lyon", rigid(&noting(&lines, rest), 1, walltime_s));
    // Paris seems to be taken for long.
    let of_paris = submit(&bob, &order_to("paris", rigid(&gate("paris"), 1, 50_000))).await.handle;
    federation.reaches(&bob, &of_paris, JobState::Active).await;

    // In the copy the first one has ended, the second one runs, and all others wait.
    let ended = run(&alice, &at_lyon("exit 2", 60)).await.handle;
    let running = submit(&alice, &at_lyon(&gate("running"), 600)).await.handle;
    federation.reaches(&alice, &running, JobState::Active).await;
    let ends = submit(&alice, &at_lyon("exit 3", 60)).await.handle;
    let folder_goes = submit(&alice, &at_lyon("exit 4", 60)).await.handle;
    let cancelled = submit(&alice, &at_lyon("true", 60)).await.handle;
    let moves = submit(&alice, &order(rigid(&noting(&lines, "exit 5"), 1, 60))).await;
    assert_eq!(moves.server().as_str(), "lyon");
    let moves = moves.handle;
    let starts = submit(&alice, &at_lyon(&format!("{}; exit 6", gate("starts")), 60)).await.handle;
    let waits = submit(&alice, &at_lyon("exit 7", 60)).await.handle;
    let data = federation.path().join("data");
    fs::write(&data, DATA).unwrap();
    let mut with_input = order_to("lyon", service("count", &[("data", "data")]));
    with_input.inputs.push(input("data", &data));
    let with_input = submit(&alice, &with_input).await.handle;

    // The copy is made while jobs are submitted.
    let (carol, stream) = (federation.client("carol"), at_lyon("true", 60).what);
    let submitting = tokio::spawn(async move {
        let mut handles = Vec::new();
        for _ in 0..20 {
            handles.push(submit(&carol, &order_to("lyon", stream.clone())).await.handle);
        }
        handles
    });
    let (dir, from) = (federation.path().join("backup"), state.clone());
    let to = dir.clone();
    let (code, document, stderr) = tokio::task::spawn_blocking(move || back_up(&from, &to)).await.unwrap();
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(schemas::document(&document)["owner"], "server lyon");
    let submitted = submitting.await.unwrap();
    let (code, _, stderr) = back_up(&state, &dir);
    assert!(code == 2 && stderr.contains("an empty one"), "{stderr}");

    // What the copy does not know.
    let late_order = at_lyon("exit 8", 60);
    let late = submit(&alice, &late_order).await.handle;
    for handle in submitted.iter().chain([&cancelled, &late]) {
        operator.cancel(handle).await.unwrap();
    }
    assert_eq!(operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap(), Some(on_demand()));
    open(&federation, "paris");
    free(&operator, "paris").await;
    assert_eq!(moved(&operator.reallocate(false).await.unwrap()), [&moves]);
    open(&federation, "running");
    let of_agent: Vec<&Handle> = [&ended, &running, &ends, &folder_goes, &cancelled, &moves, &late]
        .into_iter()
        .chain(&submitted)
        .collect();
    let expected = outcomes(&operator, &of_agent).await;
    runs_at_agent(&alice, &starts).await;
    until("its script to run", async || runs(&lines).contains_key(&starts.to_string()).then_some(())).await;
    assert_eq!(expected[&folder_goes], (JobState::Failed, Exit::Code(4)));

    federation.kill("lyon");
    put_back(&state, &dir);
    fs::remove_dir_all(federation.job_folder(&folder_goes)).unwrap();
    let before = runs(&lines);
    // A copy that is not said to be one is refused by its agent, also by one that was down.
    fs::remove_file(state.join("restored")).unwrap();
    for agent_is_down in [false, true] {
        if agent_is_down {
            federation.kill(MASTER);
        }
        federation.stand_by("lyon");
        if agent_is_down {
            federation.logged("lyon", &["no parent to compare the journal with"]).await;
            federation.revive(MASTER);
        }
        assert_eq!(federation.ended("lyon").await, Some(2));
        federation.logged("lyon", &["older copy of itself"]).await;
        federation.logged("lyon", &["--restored"]).await;
    }
    // That it is one is not forgotten when the server is killed before an agent has said what has changed.
    federation.kill(MASTER);
    federation.options.push("--restored");
    federation.stand_by("lyon");
    federation.logged("lyon", &["cannot ask the parent"]).await;
    federation.kill("lyon");
    federation.options.clear();
    federation.revive(MASTER);
    assert_eq!(runs(&lines), before);
    federation.revive("lyon");
    federation.logged("lyon", &["the journal is restored"]).await;
    federation.attached(2).await;

    open(&federation, "starts");
    let later = outcomes(&operator, &[&starts, &waits, &with_input]).await;
    assert_eq!(later[&starts], (JobState::Failed, Exit::Code(6)));
    assert_eq!(later[&waits], (JobState::Failed, Exit::Code(7)));
    assert_eq!(fetched(&alice, &with_input).await["work/copy.bin"], DATA, "its input is in the backup");
    let next = run(&alice, &at_lyon("true", 60)).await.handle;
    assert_eq!(next.number, 200_001);
    assert_eq!(
        submit(&alice, &late_order).await.handle,
        late,
        "its key is known, although the copy is from before it"
    );
    assert_eq!(outcomes(&operator, &of_agent).await, expected, "nothing has changed at the agent");
    for handle in [&ended, &running, &ends, &folder_goes, &cancelled, &moves] {
        let known = alice.job(handle).await.unwrap();
        assert_eq!((known.state, known.exit.unwrap()), expected[handle], "{handle} at its server");
    }
    let all: BTreeMap<String, u32> = [&ended, &running, &ends, &folder_goes, &moves, &starts, &waits, &next]
        .map(|handle| (handle.to_string(), 1))
        .into();
    assert_eq!(runs(&lines), all);

    // An ordinary restart after that is one.
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(2).await;
    let last = run(&alice, &at_lyon("true", 60)).await.handle;
    assert_eq!(last.number, 200_002);
    assert_eq!(outcomes(&operator, &of_agent).await, expected);
    assert_eq!(runs(&lines).values().copied().collect::<Vec<_>>(), vec![1; all.len() + 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_that_grew_without_its_agent_is_still_one() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let (lines, state) = (federation.path().join("lines"), federation.folder("lyon").join("state"));
    let gate = federation.path().join("gate");
    let at_lyon = |rest: &str| order_to("lyon", rigid(&noting(&lines, rest), 1, 60));
    let blocker = submit(&alice, &at_lyon(&waiting_for(&gate))).await.handle;
    federation.reaches(&alice, &blocker, JobState::Active).await;
    let waits = submit(&alice, &at_lyon("exit 3")).await.handle;
    let dir = federation.path().join("backup");
    let (code, _, stderr) = back_up(&state, &dir);
    assert_eq!(code, 0, "{stderr}");
    fs::write(&gate, "").unwrap();
    let expected = outcomes(&alice, &[&blocker, &waits]).await;
    federation.kill("lyon");
    put_back(&state, &dir);
    fs::remove_file(state.join("restored")).unwrap();
    // Without an agent it goes on, and its journal grows beyond what the agent knows of the newer one. The folders say what has run.
    federation.kill(MASTER);
    federation.revive("lyon");
    for job in [&blocker, &waits] {
        federation.logged("lyon", &["found=\"ended\"", &job.to_string()]).await;
    }
    federation.stop("lyon");
    federation.revive("lyon");
    federation.revive(MASTER);
    assert_eq!(federation.ended("lyon").await, Some(2));
    federation.logged("lyon", &["older copy of itself"]).await;
    assert_eq!(outcomes(&alice, &[&blocker, &waits]).await, expected);
    assert_eq!(runs(&lines).values().copied().collect::<Vec<_>>(), [1, 1]);
}
