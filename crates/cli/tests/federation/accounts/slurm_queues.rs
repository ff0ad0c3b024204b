//! Jobs of several users in the queues of real Slurm clusters: siblings, whose start gates belong to their accounts, and arrays.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pliant_control::job::Exit;
use pliant_model::MoveReason;
use pliant_testing::slurm::Wanted;
use pliant_wire::MovingChange;

use super::site::{ALICE, BOB, LYON, spool, uid};
use super::slurm::{COMMANDS, PARIS, Shared, files_of, listed, owned};
use super::works::text;
use crate::harness::*;
use crate::siblings::siblings_every;

#[tokio::test(flavor = "multi_thread")]
async fn siblings_wait_and_start_as_their_user() {
    let Some(shared) = Shared::start(2).await else { return };
    let federation = &shared.federation;
    let (alice, bob) = (federation.client(ALICE), federation.client(BOB));
    federation.operator().change_moving(&MovingChange::Set(siblings_every(2))).await.unwrap();
    let gate = |name: &str| federation.path().join(format!("gate-{name}"));
    for name in [LYON, PARIS] {
        let accepted = submit(&bob, &order_to(name, rigid(&waiting_for(&gate(name)), 2, 1800))).await;
        federation.reaches(&bob, &accepted.handle, pliant_control::job::JobState::Active).await;
    }
    let lines = shared.lines();
    let waiting = submit(&alice, &order(rigid(&noting(&lines, "id -un"), 2, 60))).await;
    let home = waiting.handle.server.to_string();
    let (other, index) = if home == LYON { (PARIS, 1) } else { (LYON, 0) };
    until("a sibling", async || {
        (alice.explain(&waiting.handle).await.ok()?.waits?.siblings.len() == 1).then_some(())
    })
    .await;
    listed(shared.cluster(1 - index), &waiting.handle, ALICE, "PENDING").await;
    let queued = ["squeue", "--noheader", "--states=PD", "--format=%u"];
    until("the sibling to wait", async || (shared.cluster(index).run(&queued) == ALICE).then_some(())).await;
    fs::write(gate(other), "").unwrap();
    let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server().as_str(), &ended.exit), (other, &Some(Exit::Code(0))), "{ended:?}");
    assert!(ended.hops.iter().all(|hop| hop.reason == MoveReason::FirstStart), "{ended:?}");
    let said = text(&fetched(&alice, &ended.handle).await, "stdout");
    assert_eq!(said, format!("I am {}\n{ALICE}\n", ended.handle));
    assert_eq!(runs(&lines), [(waiting.handle.to_string(), 1)].into());
    fs::write(gate(&home), "").unwrap();
    shared.emptied().await;
    // Nothing is left of the one that did not start.
    let withdrawn = files_of(&home, &waiting.handle);
    until("no withdrawn job to be left", async || (!withdrawn.exists()).then_some(())).await;
    // The gate belonged to the account, too.
    let gates = fs::read_dir(spool()).unwrap().map(|entry| entry.unwrap().path());
    let gates: Vec<_> =
        gates.filter(|path| path.to_string_lossy().contains("_gate_")).map(|path| owned(&path)).collect();
    assert_eq!(gates, [(uid(ALICE), 0o700)]);
}

/// A service that says as whom it runs.
const WHO: &str = r#"
[[service]]
name = "who"
command = ["/bin/sh", "-c", "id -un; sleep 1", "who", "{x}"]
speedup = "rigid:1"
runtime = "2s"

[service.arguments.x]
type = "integer"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn arrays_are_of_one_user_each() {
    let commands = COMMANDS.map(Path::new);
    let wanted = Wanted { clusters: 1, nodes: 1, cpus: 8, ..Wanted::default() };
    let Some(mut shared) = Shared::without_servers(wanted, &commands) else { return };
    let (slurm, batch_keys) = (Some(shared.cluster(0).conf.clone()), "period_s = 1\n");
    let cluster = Cluster { slurm, batch_keys, ..shared.site.cluster_of(LYON, WHO) };
    shared.federation.add_server(&cluster);
    shared.federation.sized(1).await;
    let users = [ALICE, BOB].map(|name| (name, CommandUser::new(&shared.federation, name)));
    let sweeps: Vec<_> =
        users.iter().map(|(_, user)| user.begin("sweep who --vary x=1..40 --out results")).collect();
    for sweep in sweeps {
        let (code, stdout, stderr) = said(sweep.wait_with_output().unwrap());
        assert_eq!(code, 0, "{stdout}{stderr}");
    }
    let listed =
        shared.cluster(0).run(&["squeue", "--noheader", "--states=all", "--array", "--format=%F %u %K"]);
    let tasks: Vec<Vec<&str>> = listed.lines().map(|line| line.split(' ').collect()).collect();
    let arrays: BTreeSet<(&str, &str)> =
        tasks.iter().filter(|words| words[2] != "N/A").map(|words| (words[0], words[1])).collect();
    let ids: BTreeSet<&str> = arrays.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), arrays.len(), "an array is of one user: {listed}");
    let owners: BTreeSet<&str> = tasks.iter().map(|words| words[1]).collect();
    assert_eq!(owners, BTreeSet::from([ALICE, BOB]), "{listed}");
    println!("{} tasks in {} arrays", tasks.len(), arrays.len());
    shared.emptied().await;
}
