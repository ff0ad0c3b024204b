//! Operators requeue tasks of arrays and remove nodes: no instance is lost, and none that has ended runs again.

use std::fs;
use std::path::Path;

use pliant_testing::slurm::SlurmCluster;

use super::{CommandUser, runs, shell};
use crate::harness::{Cluster, SERVICES, until};
use crate::slurm::Behind;

/// Instances of the sweep.
const INSTANCES: u32 = 60;
/// Of each cluster.
const CORES: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_requeued_tasks_and_failed_nodes_are_run_again_and_others_are_not() {
    let Some(mut behind) = Behind::without_servers(1, CORES) else { return };
    let folder = behind.federation.path().to_owned();
    let (lines, gate) = (folder.join("lines"), folder.join("gate"));
    let waiting = |name: &str| folder.join(format!("waiting-{name}"));
    for name in ["lyon", "paris"] {
        // The first ones have ended when something happens to the others, of which none gets beyond the gate.
        let line = format!(
            "[ $1 -le 12 ] || {{{{ echo $SLURM_JOB_ID $$ >> {}; while [ ! -e {} ]; do sleep \
             0.05; done; }}}}; echo $PLIANT_INSTANCE >> {}",
            waiting(name).display(),
            gate.display(),
            lines.display()
        );
        let tables = SERVICES.to_owned() + &shell("gated", &line).replace("\"2s\"", "\"300s\"");
        let (slurm, batch_keys) =
            (Some(behind.slurm(name).conf.clone()), "period_s = 1\nnodes_every_s = 0\n");
        behind.federation.add_server(&Cluster { slurm, batch_keys, tables, ..Cluster::new(name, 0, 1.0) });
    }
    behind.federation.sized(2).await;
    let alice = CommandUser::new(&behind.federation, "alice");
    let client = alice.begin(&format!("sweep gated --vary x=1..{INSTANCES} --out kept"));
    // Then nothing else runs: the first ones have ended, even if that is not reported yet. Jobs and processes.
    let at_gate = async |name: &str| {
        until("the gate to be reached by all cores", async || {
            let waiting = fs::read_to_string(waiting(name)).unwrap_or_default();
            let both =
                |line: &str| line.split_once(' ').map(|(job, process)| (job.to_owned(), process.to_owned()));
            let waiting: Vec<(String, String)> = waiting.lines().filter_map(both).collect();
            (waiting.len() == CORES as usize).then_some(waiting)
        })
        .await
    };
    // Slurm reports the end of a job before its processes have ended: what of it opens the gate would have run.
    let are_gone = async |processes: Vec<&str>| {
        until("processes that were to end to be gone", async || {
            // What has ended and is not waited for has no words any more.
            let words = |process: &&str| fs::read(Path::new("/proc").join(process).join("cmdline"));
            processes.iter().all(|process| words(process).unwrap_or_default().is_empty()).then_some(())
        })
        .await;
    };
    let (at_lyon, at_paris) = (at_gate("lyon").await, at_gate("paris").await);
    assert_eq!(runs(&lines).len(), 12);

    let lyon = behind.slurm("lyon");
    let listed = |cluster: &SlurmCluster, states: &str, format: &str| {
        let states = format!("--states={states}");
        let text = cluster.run(&["squeue", "--noheader", "--array", &states, &format!("--format={format}")]);
        text.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    let running = listed(lyon, "R", "%A %i");
    let process_of = |job: &str| at_lyon.iter().find(|(there, _)| there == job).map(|(_, process)| process);
    let jobs = running.iter().filter_map(|line| line.split_once(' '));
    let mut jobs: Vec<(&str, &String)> =
        jobs.filter_map(|(job, task)| process_of(job).map(|process| (task, process))).collect();
    // A batch that came more than a moment after the others, on a busy machine, is no task of an array.
    jobs.sort_by_key(|(task, _)| !task.contains('_'));
    let (task, process) = jobs[0];
    // Jobs are submitted with --no-requeue: that is taken back first.
    lyon.run(&["scontrol", "update", &format!("JobId={task}"), "Requeue=1"]);
    lyon.run(&["scontrol", "requeue", task]);
    until("it to wait again", async || listed(lyon, "PD", "%i").iter().any(|id| id == task).then_some(()))
        .await;
    are_gone(vec![process]).await;
    // Slurm would have it wait for minutes.
    lyon.run(&["scontrol", "update", &format!("JobId={task}"), "StartTime=now"]);

    let paris = behind.slurm("paris");
    let node = format!("NodeName={}1", paris.name);
    paris.run(&["scontrol", "update", &node, "State=DOWN", "Reason=test"]);
    // Others may begin at once, if the node comes back by itself.
    until("those at the gate of paris to be gone", async || {
        let runs = |job: &String| at_paris.iter().any(|(there, _)| there == job);
        (!listed(paris, "R", "%A").iter().any(runs)).then_some(())
    })
    .await;
    are_gone(at_paris.iter().map(|(_, process)| process.as_str()).collect()).await;
    until("the node to be back", async || {
        // An error if it has come back by itself.
        paris.command("scontrol").args(["update", &node, "State=RESUME"]).output().unwrap();
        let state = paris.run(&["sinfo", "--noheader", "--format=%T"]);
        ["idle", "mixed", "allocated"].contains(&state.trim()).then_some(())
    })
    .await;
    fs::write(&gate, "").unwrap();

    let output = client.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ran = runs(&lines);
    assert_eq!(ran.len(), INSTANCES as usize);
    assert!(ran.values().all(|times| *times == 1), "{ran:?}");
    let rows = alice.rows("kept");
    assert_eq!(rows.len(), INSTANCES as usize);
    assert!(rows.iter().all(|row| row["state"] == "completed"), "{rows:?}");
    let run_again: Vec<u32> =
        rows.iter().filter(|row| row["tries"] != "1").map(|row| row["x"].parse().unwrap()).collect();
    assert!(!run_again.is_empty() && run_again.iter().all(|x| *x > 12), "{run_again:?}");
    println!("requeued: {task}; run again: {run_again:?}");
}
