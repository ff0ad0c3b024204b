//! Jobs that run again after a node failed under them.

use std::fs;
use std::path::Path;

use pliant_client::SubmitOrder;
use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_wire::Download;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::harness::*;
use crate::schedules::with;
use crate::slurm::Behind;

/// Ends a job as a restart of its host does, while the server is down: its supervisor is gone, and it ran in another boot.
fn end_with_host(folder: &Path) {
    let lock = fs::read_to_string(folder.join("lock")).unwrap();
    kill_process(Pid::from_raw(lock.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let path = folder.join("started.json");
    let mut started: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    started["boot_id"] = json!("another");
    fs::write(path, started.to_string()).unwrap();
}

async fn says(folder: &Path, line: &str) {
    let said = || fs::read_to_string(folder.join("stdout")).is_ok_and(|text| text.contains(line));
    until(&format!("the job to say {line}"), async || said().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_host_restarts_runs_again_in_a_new_folder_as_often_as_it_may() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    let alice = federation.client("alice");
    let (lines, gate) = (federation.path().join("lines"), federation.path().join("gate"));
    let data = user.dir().join("data");
    fs::write(&data, "as submitted\n").unwrap();
    let text = format!(
        "cat data; ls; echo run $PLIANT_REQUEUES; echo changed > data; touch left; {}",
        waiting_for(&gate)
    );
    let work = with(rigid(&noting(&lines, &text), 1, 600), |work| work.requeue = 2);
    let order = SubmitOrder { inputs: vec![input("data", &data)], ..order(work) };
    let handle = submit(&alice, &order).await.handle;
    let folder = federation.job_folder(&handle);
    says(&folder, "run 0").await;

    let (client, wanted) = (alice.clone(), Download { follow: true, ..stdout_of(&handle) });
    let followed = tokio::spawn(async move {
        let mut text = Vec::new();
        let piece = |piece: &[u8]| {
            text.extend(piece);
            Ok(())
        };
        client.output(&wanted, piece).await.unwrap();
        String::from_utf8(text).unwrap()
    });
    for requeues in 1..=2 {
        federation.kill("lyon");
        let earlier = requeues - 1;
        let run_folder = |run: u32| match run {
            0 => folder.clone(),
            _ => folder.with_file_name(format!("{}_{run}", handle.number)),
        };
        end_with_host(&run_folder(earlier));
        federation.revive("lyon");
        says(&run_folder(requeues), &format!("run {requeues}")).await;
    }
    let (code, status, error) = user.run(&format!("status {handle}"));
    let job = &status["jobs"][0];
    assert_eq!((code, &job["requeues"], &job["state"]), (0, &json!(2), &json!("ACTIVE")), "{error}");
    // A restart of the server alone changes nothing.
    federation.kill("lyon");
    federation.revive("lyon");
    fs::write(&gate, "").unwrap();
    let ended = alice.wait(&handle, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.requeues), (JobState::Completed, 2), "{ended:?}");
    let said = |run: u32| format!("I am {handle}\nas submitted\ndata\nrun {run}\n");
    let left = fetched(&alice, &handle).await;
    assert_eq!(String::from_utf8_lossy(&left["stdout"]), said(2), "no file of an earlier run is there");
    assert_eq!(left["work/data"], b"changed\n");
    assert_eq!(runs(&lines)[&handle.to_string()], 3);
    let followed = followed.await.unwrap();
    assert!(followed.ends_with(&said(2)), "{followed}");
    agree(&federation.operator(), &lines_of(&federation, &handle)).await;
}

/// A file that says that each job ran once, for a comparison of what agent and server know.
fn lines_of(federation: &Federation, handle: &Handle) -> std::path::PathBuf {
    let path = federation.path().join("once");
    fs::write(&path, format!("{handle}\n")).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_lost_once_more_than_it_may_run_again_is_lost() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let work = with(rigid("echo run $PLIANT_REQUEUES; sleep 600", 1, 600), |work| work.requeue = 1);
    let handle = submit(&alice, &order(work)).await.handle;
    let folder = federation.job_folder(&handle);
    for (run, dir) in
        [folder.clone(), folder.with_file_name(format!("{}_1", handle.number))].iter().enumerate()
    {
        says(dir, &format!("run {run}")).await;
        federation.kill("lyon");
        end_with_host(dir);
        federation.revive("lyon");
    }
    let ended = alice.wait(&handle, |_| {}).await.unwrap();
    assert!(matches!(&ended.exit, Some(Exit::Lost(why)) if why.contains("host was restarted")), "{ended:?}");
    assert_eq!(ended.requeues, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_slurm_whose_node_fails_runs_again_as_another_job() {
    let Some(mut behind) = Behind::without_servers(2, 2) else { return };
    behind.add_server("lyon", "period_s = 1\nnodes_every_s = 0\n");
    behind.federation.attached(1).await;
    behind.federation.sized(1).await;
    let alice = behind.federation.client("alice");
    let (lines, gate) = (behind.federation.path().join("lines"), behind.gate("lyon"));
    let work = with(rigid(&noting(&lines, &waiting_for(&gate)), 1, 600), |work| work.requeue = 1);
    let handle = submit(&alice, &order_to("lyon", work)).await.handle;
    let begun = |count: u32| {
        let runs = runs(&lines).get(&handle.to_string()).copied();
        (runs == Some(count)).then_some(())
    };
    until("it to run", async || begun(1)).await;
    let running = || {
        let listed = behind.slurm("lyon").run(&["squeue", "--noheader", "--states=R", "--format=%N %j"]);
        listed.trim().split_once(' ').map(|(node, name)| (node.to_owned(), name.to_owned()))
    };
    let (node, name) = until("it to be listed", async || running()).await;
    assert_eq!(name, format!("pliant:lyon:{}", handle.number));
    let down = format!("NodeName={node}");
    behind.slurm("lyon").run(&["scontrol", "update", &down, "State=DOWN", "Reason=test"]);
    until("it to run again", async || begun(2)).await;
    // Slurm gives it a node that is up: the other one, or the same after it was back.
    until("another job of Slurm", async || running().filter(|(_, again)| *again != name)).await;
    fs::write(&gate, "").unwrap();
    let ended = alice.wait(&handle, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.requeues, ended.exit), (JobState::Completed, 1, Some(Exit::Code(0))));
    until("nothing to be left", async || behind.queue("lyon").is_empty().then_some(())).await;
}
