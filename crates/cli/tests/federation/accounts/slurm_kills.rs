//! A server in front of Slurm that is killed at every step of a job which runs as its user's account: nothing runs twice, or as another
//! user, or is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pliant_client::Client;
use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_testing::slurm::Wanted;
use pliant_wire::MovingChange;

use super::site::{ALICE, BOB, LYON, base};
use super::slurm::{PARIS, Shared, listed};
use crate::harness::*;

/// The commands that servers call.
const COMMANDS: [&str; 7] = ["sbatch", "scancel", "scontrol", "squeue", "sinfo", "sacct", "sacctmgr"];
/// Where the tests put commands that wait at certain points: the key for the server's file.
const KEYS: &str =
    "period_s = 1\ndeadline_s = 60\ncommands = \"/var/lib/pliant-launcher-under-test/slurm\"\n";

/// A point of `sbatch` or `scancel` that a test holds.
fn hold(point: &str) -> PathBuf {
    base("slurm").join(format!("hold-{point}"))
}

/// Commands of Slurm's that wait where they are held.
fn write_commands() {
    fs::create_dir_all(base("slurm")).unwrap();
    fs::set_permissions(base("slurm"), fs::Permissions::from_mode(0o755)).unwrap();
    // Each of these commands writes there that a point is reached.
    fs::create_dir_all(base("slurm/reached")).unwrap();
    fs::set_permissions(base("slurm/reached"), fs::Permissions::from_mode(0o1777)).unwrap();
    let folder = base("slurm");
    for name in COMMANDS {
        let at = format!(
            "cd {}\nat() {{ [ -e hold-$1 ] || return 0; : > reached/$1; while [ -e hold-$1 ]; do sleep 0.05; done; }}\n",
            folder.display()
        );
        let shell = match name {
            "sbatch" => format!(
                "#!/bin/sh\n{at}script=$(cat)\nat before\nprintf '%s\\n' \"$script\" | /usr/bin/sbatch \"$@\"\nrc=$?\nat after\n\
                 exit $rc\n",
            ),
            "scancel" => format!("#!/bin/sh\n{at}at cancel\nexec /usr/bin/scancel \"$@\"\n"),
            name => format!("#!/bin/sh\nexec /usr/bin/{name} \"$@\"\n"),
        };
        fs::write(folder.join(name), shell).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

async fn reached(point: &str) {
    let path = base("slurm/reached").join(point);
    until(&format!("the point {point}"), async || path.exists().then_some(())).await;
    fs::remove_file(path).unwrap();
}

fn start(clusters: u32) -> Option<Shared> {
    let commands = COMMANDS.map(|name| base("slurm").join(name));
    let commands: Vec<&Path> = commands.iter().map(PathBuf::as_path).collect();
    let mut shared =
        Shared::without_servers(Wanted { clusters, nodes: 1, cpus: 2, ..Wanted::default() }, &commands)?;
    write_commands();
    for (index, name) in [LYON, PARIS].into_iter().take(clusters as usize).enumerate() {
        shared.add_server(index, name, KEYS);
    }
    Some(shared)
}

/// Notes whose job runs, and as whom.
fn noting_user(lines: &Path, rest: &str) -> String {
    format!("echo $PLIANT_JOB $(id -un) >> '{}'; {rest}", lines.display())
}

/// A job whose server was killed at a point ends as if it had not been.
async fn completes(client: &Client, job: &Handle, point: &str) {
    let ended = client.wait(job, |_| {}).await.unwrap();
    let expected = (JobState::Completed, &Some(Exit::Code(0)));
    assert_eq!((ended.state, &ended.exit), expected, "{point}: {ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_once_and_as_its_user_whenever_the_server_is_killed() {
    let Some(mut shared) = start(1) else { return };
    shared.federation.sized(1).await;
    let (alice, lines) = (shared.federation.client(ALICE), shared.lines());
    let mut expected = Vec::new();
    // Before and after the submission, which goes on without the server, or is over before the next one.
    for (point, is_late) in [("before", false), ("before", true), ("after", false), ("after", true)] {
        fs::write(hold(point), "").unwrap();
        let accepted = submit(&alice, &order(rigid(&noting_user(&lines, "sleep 0.5"), 1, 60))).await;
        reached(point).await;
        shared.federation.kill(LYON);
        if !is_late {
            fs::remove_file(hold(point)).unwrap();
        }
        shared.federation.revive(LYON);
        if is_late {
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            fs::remove_file(hold(point)).unwrap();
        }
        completes(&alice, &accepted.handle, point).await;
        expected.push((format!("{} {ALICE}", accepted.handle), 1));
        shared.emptied().await;
    }
    // While it runs; its end is recorded by its supervisor while the server is down, and found later.
    let bob = shared.federation.client(BOB);
    for ends_meanwhile in [false, true] {
        let gate = shared.federation.path().join(format!("gate-{ends_meanwhile}"));
        let accepted = submit(&bob, &order(rigid(&noting_user(&lines, &waiting_for(&gate)), 1, 60))).await;
        shared.federation.reaches(&bob, &accepted.handle, JobState::Active).await;
        shared.federation.kill(LYON);
        if ends_meanwhile {
            fs::write(&gate, "").unwrap();
            shared.emptied().await;
        }
        shared.federation.revive(LYON);
        fs::write(&gate, "").unwrap();
        completes(&bob, &accepted.handle, "running").await;
        expected.push((format!("{} {BOB}", accepted.handle), 1));
    }
    assert_eq!(runs(&lines), expected.into_iter().collect());
    shared.emptied().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_while_the_server_is_killed_does_not_run() {
    let Some(mut shared) = start(1) else { return };
    shared.federation.sized(1).await;
    let (alice, bob, lines) =
        (shared.federation.client(ALICE), shared.federation.client(BOB), shared.lines());
    fs::write(hold("before"), "").unwrap();
    let accepted = submit(&alice, &order(rigid(&noting_user(&lines, "true"), 1, 60))).await;
    reached("before").await;
    alice.cancel(&accepted.handle).await.unwrap();
    shared.federation.kill(LYON);
    fs::remove_file(hold("before")).unwrap();
    shared.federation.revive(LYON);
    let ended = alice.wait(&accepted.handle, |_| {}).await.unwrap();
    assert_eq!((ended.state, &ended.exit), (JobState::Canceled, &Some(Exit::Cancelled)), "{ended:?}");
    shared.emptied().await;
    // One that runs.
    let never = shared.federation.path().join("never");
    let running = submit(&bob, &order(rigid(&noting_user(&lines, &waiting_for(&never)), 1, 600))).await;
    shared.federation.reaches(&bob, &running.handle, JobState::Active).await;
    bob.cancel(&running.handle).await.unwrap();
    shared.federation.kill(LYON);
    shared.federation.revive(LYON);
    let ended = bob.wait(&running.handle, |_| {}).await.unwrap();
    assert_eq!((ended.state, &ended.exit), (JobState::Canceled, &Some(Exit::Cancelled)), "{ended:?}");
    assert_eq!(runs(&lines), [(format!("{} {BOB}", running.handle), 1)].into());
    shared.emptied().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_moves_runs_once_and_as_its_user_whenever_a_server_is_killed() {
    let Some(mut shared) = start(2) else { return };
    shared.federation.sized(2).await;
    let (alice, bob) = (shared.federation.client(ALICE), shared.federation.client(BOB));
    let lines = shared.lines();
    shared.federation.operator().change_moving(&MovingChange::Set(on_demand())).await.unwrap();
    let mut expected = Vec::new();
    // The server that gives the job while it withdraws it; the one that takes it before and after its submission.
    for (point, killed) in [("cancel", PARIS), ("before", LYON), ("after", LYON)] {
        let gate = |name: &str| shared.federation.path().join(format!("gate-{point}-{name}"));
        let mut others = Vec::new();
        for (name, minutes) in [(LYON, 30), (PARIS, 10)] {
            let order = order_to(name, rigid(&waiting_for(&gate(name)), 2, minutes * 60));
            let accepted = submit(&bob, &order).await;
            shared.federation.reaches(&bob, &accepted.handle, JobState::Active).await;
            others.push((accepted.handle, gate(name)));
        }
        let waiting = submit(&alice, &order(rigid(&noting_user(&lines, "sleep 0.5"), 2, 60))).await;
        assert_eq!(waiting.server().as_str(), PARIS, "{waiting:?}");
        listed(shared.cluster(1), &waiting.handle, ALICE, "PENDING").await;
        fs::write(&others[0].1, "").unwrap();
        bob.wait(&others[0].0, |_| {}).await.unwrap();
        fs::write(hold(point), "").unwrap();
        let operator = shared.federation.operator();
        let moving = tokio::spawn(async move {
            while operator.reallocate(false).await.is_ok_and(|report| report.proposals.is_empty()) {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        });
        reached(point).await;
        shared.federation.kill(killed);
        shared.federation.revive(killed);
        fs::remove_file(hold(point)).unwrap();
        moving.await.unwrap();
        fs::write(&others[1].1, "").unwrap();
        completes(&alice, &waiting.handle, point).await;
        expected.push((format!("{} {ALICE}", waiting.handle), 1));
        bob.wait(&others[1].0, |_| {}).await.unwrap();
        shared.emptied().await;
    }
    assert_eq!(runs(&lines), expected.into_iter().collect());
}
