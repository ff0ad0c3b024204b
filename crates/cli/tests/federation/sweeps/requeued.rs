//! Operators requeue tasks of arrays and take nodes away: no instance is lost, and none that has ended runs again.

use std::fs;

use super::{User, runs, shell};
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
            "[ $1 -le 12 ] || {{{{ echo $SLURM_ARRAY_JOB_ID.$SLURM_ARRAY_TASK_ID >> {}; while [ ! -e {} ]; do sleep \
             0.05; done; }}}}; echo $PLIANT_INSTANCE >> {}",
            waiting(name).display(),
            gate.display(),
            lines.display()
        );
        let tables = SERVICES.to_owned() + &shell("gated", &line).replace("\"2s\"", "\"300s\"");
        let (slurm, slurm_keys) =
            (Some(behind.slurm(name).conf.clone()), "period_s = 1\nnodes_every_s = 0\n");
        behind.federation.add_server(&Cluster { slurm, slurm_keys, tables, ..Cluster::new(name, 0, 1.0) });
    }
    behind.federation.sized(2).await;
    let alice = User::new(&behind.federation, "alice");
    let client = alice.begin(&format!("sweep gated --vary x=1..{INSTANCES} --out kept"));
    // Then nothing else runs, so the first ones have ended, whatever is still to be told of them.
    let at_gate = async |name: &str| {
        until("the gate to be reached by all cores", async || {
            let tasks = fs::read_to_string(waiting(name)).unwrap_or_default();
            (tasks.lines().count() == CORES as usize).then_some(tasks)
        })
        .await
    };
    let tasks = at_gate("lyon").await;
    at_gate("paris").await;
    assert_eq!(runs(&lines).len(), 12);

    let lyon = behind.slurm("lyon");
    let listed =
        |states: &str| lyon.run(&["squeue", "--noheader", &format!("--states={states}"), "--format=%i"]);
    let in_arrays = tasks.lines().find(|task| !task.starts_with('.'));
    let task = in_arrays.expect("a task of an array").replace('.', "_");
    // Jobs are submitted with --no-requeue: that is taken back first.
    lyon.run(&["scontrol", "update", &format!("JobId={task}"), "Requeue=1"]);
    lyon.run(&["scontrol", "requeue", &task]);
    until("it to wait again", async || listed("PD").lines().any(|id| id == task).then_some(())).await;
    // Slurm would have it wait for minutes.
    lyon.run(&["scontrol", "update", &format!("JobId={task}"), "StartTime=now"]);

    let paris = behind.slurm("paris");
    let node = format!("NodeName={}1", paris.name);
    paris.run(&["scontrol", "update", &node, "State=DOWN", "Reason=test"]);
    until("nothing to run at paris", async || {
        (!behind.queue("paris").iter().any(|job| job.ends_with("RUNNING"))).then_some(())
    })
    .await;
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
    let tried_again: Vec<u32> =
        rows.iter().filter(|row| row["tries"] != "1").map(|row| row["x"].parse().unwrap()).collect();
    assert!(!tried_again.is_empty() && tried_again.iter().all(|x| *x > 12), "{tried_again:?}");
    println!("run again: {tried_again:?}");
}
