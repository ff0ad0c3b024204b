//! Signatures of users and servers whose certificates are renewed, and whose authority is replaced, while their jobs wait and run.

use std::fs;
use std::path::Path;

use pliant_client::Client;
use pliant_control::handoff::{MoveOutcome, StayReason};
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_control::names::Handle;
use pliant_transport::Role;
use pliant_wire::MovingChange;

use crate::certificates::{anew, distribute, renew};
use crate::harness::*;

/// Waits until the agent knows that a job is so far.
async fn known_as(client: &Client, job: &Handle, state: JobState) -> JobRecord {
    until(&format!("the agent to know that {job} is {state:?}"), async || {
        client.find(job).await.ok().map(|found| found.record).filter(|record| record.state == state)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_signed_before_a_renewal_move_and_are_followed_after_a_rollover() {
    let mut federation = Federation::start(&["lyon", "paris"].map(|name| Cluster::new(name, 1, 1.0))).await;
    let dir = federation.path().to_owned();
    // Servers have folders of their names.
    let gate = |name: &str| dir.join(format!("{name}.gate"));
    let gated = |name: &str, walltime| rigid(&waiting_for(&gate(name)), 1, walltime);
    let open = |name: &str| fs::write(gate(name), "").unwrap();
    let bob = federation.client("bob");
    for (name, walltime) in [("lyon", 900), ("paris", 600)] {
        let blocker = submit(&bob, &order_to(name, gated(name, walltime))).await;
        federation.reaches(&bob, &blocker.handle, JobState::Active).await;
    }
    let folder = |role, name| federation.client_file(role, name).parent().unwrap().to_owned();
    let (alice_folder, root_folder) = (folder(Role::User, "alice"), folder(Role::Operator, "root"));
    // Goes on with its first certificate.
    let old_folder = dir.join("old-alice");
    fs::create_dir(&old_folder).unwrap();
    for file in fs::read_dir(&alice_folder).unwrap() {
        let path = file.unwrap().path();
        fs::copy(&path, old_folder.join(path.file_name().unwrap())).unwrap();
    }
    let old_alice = anew(&old_folder);
    let first = submit(&old_alice, &order(gated("first", 5_000))).await.handle;
    assert_eq!(first.server.as_str(), "paris");

    // All get certificates of a new root, while the old one is trusted: what was signed before counts.
    let folders = [MASTER, "lyon", "paris"].map(|name| federation.folder(name));
    let [master, lyon, paris] = &folders;
    let everybody: Vec<&Path> =
        folders.iter().chain([&alice_folder, &root_folder]).map(|folder| folder.as_path()).collect();
    let authority = federation.authority.clone();
    authority.begin_rollover(now()).unwrap();
    distribute(&federation, &everybody);
    authority.switch_rollover(now()).unwrap();
    for (folder, role, name) in [
        (master, Role::Agent, MASTER),
        (lyon, Role::Server, "lyon"),
        (paris, Role::Server, "paris"),
        (&alice_folder, Role::User, "alice"),
        (&root_folder, Role::Operator, "root"),
    ] {
        renew(&federation, folder, role, name, 60);
    }
    let alice = anew(&alice_folder);
    let operator = anew(&root_folder);
    operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap();
    open("lyon");
    until("the first job to move", async || {
        let report = operator.reallocate(false).await.ok()?;
        (moved(&report) == [&first]).then_some(())
    })
    .await;
    known_as(&alice, &first, JobState::Active).await;

    // The old root is trusted no longer. The agent follows the jobs that it knows, also after a restart.
    let second = submit(&old_alice, &order(gated("second", 60))).await.handle;
    assert_eq!(second.server.as_str(), "paris", "lyon is taken for longer");
    known_as(&alice, &second, JobState::Queued).await;
    authority.finish_rollover(true, now()).unwrap();
    distribute(&federation, &everybody);
    for daemon in [MASTER, "lyon", "paris"] {
        federation.logged(daemon, &["revocation list read"]).await;
    }
    federation.kill(MASTER);
    federation.revive(MASTER);
    federation.attached(2).await;
    open("first");
    let ended = known_as(&alice, &first, JobState::Completed).await;
    assert_eq!((ended.server().as_str(), &ended.exit), ("lyon", &Some(Exit::Code(0))));

    // A job that was signed with a certificate of the old root stays where it is, and runs there.
    let why = until("a move of the second job to be refused", async || {
        let report = operator.reallocate(false).await.ok()?;
        report.proposals.iter().find_map(|proposed| match &proposed.outcome {
            Some(MoveOutcome::Stays(StayReason::Refused(why))) if proposed.job == second => Some(why.clone()),
            _ => None,
        })
    })
    .await;
    assert!(why.contains("certificate of this federation"), "{why}");
    open("paris");
    open("second");
    let ended = known_as(&alice, &second, JobState::Completed).await;
    assert_eq!(ended.server().as_str(), "paris");
    // A new one is signed anew.
    assert_eq!(run(&alice, &order(rigid("true", 1, 60))).await.state, JobState::Completed);
}
