//! Jobs in front of real Slurm clusters that run and are submitted as the accounts of their users: what users see of them there, in the
//! accounts and against their limits.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_testing::slurm::{SlurmCluster, SlurmClusters, Wanted};
use pliant_wire::MovingChange;
use rustix::process::Signal;

use super::site::{ALICE, BOB, LYON, SERVER, Site, base, program, spool, uid};
use super::works::text;
use crate::harness::*;

/// The commands that run as accounts.
pub(crate) const COMMANDS: [&str; 3] = ["/usr/bin/sbatch", "/usr/bin/scancel", "/usr/bin/scontrol"];
/// The name of a second server.
pub(super) const PARIS: &str = "paris";

/// A host with Slurm clusters, and a federation whose servers submit to them as accounts.
pub(crate) struct Shared {
    pub(crate) federation: Federation,
    pub(crate) slurm: SlurmClusters,
    pub(crate) site: Site,
}

impl Shared {
    /// The clusters, an agent and no server; none, with a note, where they cannot be.
    pub(crate) fn without_servers(wanted: Wanted, commands: &[&Path]) -> Option<Shared> {
        // The host first: one test has it at a time.
        let site = Site::running(commands)?;
        let slurm = SlurmClusters::start(wanted)?;
        Some(Shared { federation: site.agent(), slurm, site })
    }

    /// The same with servers.
    pub(crate) async fn start(clusters: u32) -> Option<Shared> {
        let commands = COMMANDS.map(Path::new);
        let wanted = Wanted { clusters, nodes: 1, cpus: 2, ..Wanted::default() };
        let mut shared = Shared::without_servers(wanted, &commands)?;
        for (index, name) in [LYON, PARIS].into_iter().take(clusters as usize).enumerate() {
            shared.add_server(index, name, "period_s = 1\n");
        }
        shared.federation.sized(clusters as usize).await;
        Some(shared)
    }

    /// Puts a server in front of a cluster, with these keys in its file.
    pub(super) fn add_server(&mut self, index: usize, name: &'static str, batch_keys: &'static str) {
        let slurm = Some(self.cluster(index).conf.clone());
        self.federation.add_server(&Cluster { slurm, batch_keys, ..self.site.cluster_of(name, "") });
    }

    pub(crate) fn cluster(&self, index: usize) -> &SlurmCluster {
        &self.slurm.clusters()[index]
    }

    /// Adds lines to the slurm.conf of the first cluster, and starts its controller with them.
    fn configure(&self, lines: &str) {
        let mut conf = OpenOptions::new().append(true).open(&self.cluster(0).conf).unwrap();
        conf.write_all(lines.as_bytes()).unwrap();
        self.cluster(0).signal_controller(Signal::KILL);
        self.slurm.restart();
    }

    /// A file that all users may write to.
    pub(super) fn lines(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.federation.path().join("lines");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        path
    }

    /// Waits until nothing of the federation is in a queue.
    pub(crate) async fn emptied(&self) {
        let left = || -> String {
            let listed =
                |one: &SlurmCluster| one.run(&["squeue", "--noheader", "--states=PD,R,S,CG", "--format=%j"]);
            self.slurm.clusters().iter().map(listed).collect()
        };
        until("nothing to be left", async || left().is_empty().then_some(())).await;
    }
}

/// The jobs of a user that a cluster lists: their names and states.
fn queue_of(cluster: &SlurmCluster, user: &str) -> String {
    cluster.run(&["squeue", "--noheader", "--user", user, "--format=%j %T %u"])
}

pub(super) async fn listed(cluster: &SlurmCluster, handle: &Handle, user: &str, state: &str) {
    let line = format!("pliant:{}:{} {state} {user}", handle.server, handle.number);
    until(&format!("{line} in the queue"), async || (queue_of(cluster, user) == line).then_some(())).await;
}

/// The folder of a job's account at the server that accepted it.
pub(super) fn files_of(server: &str, handle: &Handle) -> PathBuf {
    let name =
        if *handle.server.as_str() == *server { handle.number.to_string() } else { handle.to_string() };
    spool().join(format!("{server}_job_{name}"))
}

pub(super) fn owned(path: &Path) -> (u32, u32) {
    let found = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (found.uid(), found.mode() & 0o777)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_in_slurm_as_their_users() {
    let Some(shared) = Shared::start(1).await else { return };
    let (federation, cluster) = (&shared.federation, shared.cluster(0));
    let data = federation.path().join("data");
    fs::write(&data, "three\nlines\nhere\n").unwrap();
    for name in [ALICE, BOB] {
        let client = federation.client(name);
        let gate = federation.path().join(format!("gate-{name}"));
        let shell = format!(
            "id -un; echo $HOME; pwd; stat -c '%U %a' ..; wc -l < data; mkdir left; echo $SLURM_JOB_USER > left/user; {}; exit 3",
            waiting_for(&gate)
        );
        let mut asked = order(rigid(&shell, 1, 60));
        asked.inputs.push(input("data", &data));
        let accepted = submit(&client, &asked).await;
        listed(cluster, &accepted.handle, name, "RUNNING").await;
        fs::write(&gate, "").unwrap();
        let ended = client.wait(&accepted.handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, ended.exit.clone()), (JobState::Failed, Some(Exit::Code(3))), "{ended:?}");
        let (found, files) = (fetched(&client, &ended.handle).await, files_of(LYON, &ended.handle));
        let (home, work) = (base("home").join(name), files.join("work"));
        let expected = format!("{name}\n{}\n{}\n{name} 700\n3\n", home.display(), work.display());
        assert_eq!(text(&found, "stdout"), expected, "{}", text(&found, "stderr"));
        assert_eq!(text(&found, "work/left/user"), format!("{name}\n"));
        // All of it is the account's but what says where that is.
        assert_eq!(owned(&files), (uid(name), 0o700));
        assert_eq!(owned(&files.join("exit.json")), (uid(name), 0o600));
        let records = federation.job_folder(&ended.handle);
        assert_eq!(owned(&records), (uid(SERVER), 0o700));
        assert!(!records.join("work").exists(), "the server's copies of the inputs are gone with the job");
    }
    refused(
        federation.client("carol").submit(&order(rigid("true", 1, 60)), |_| Ok(())).await,
        &["account", "carol"],
    );

    let alice = federation.client(ALICE);
    let never = federation.path().join("never");
    let shell = format!("trap 'echo asked; exit 9' TERM; echo on; {}", waiting_for(&never));
    let running = submit(&alice, &order(rigid(&shell, 2, 600))).await;
    let waiting = submit(&alice, &order(rigid("true", 2, 600))).await;
    federation.reaches(&alice, &running.handle, JobState::Active).await;
    let on = files_of(LYON, &running.handle).join("stdout");
    until("it to be on", async || fs::read_to_string(&on).ok().filter(|text| text == "on\n")).await;
    for handle in [&waiting.handle, &running.handle] {
        alice.cancel(handle).await.unwrap();
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, &ended.exit), (JobState::Canceled, &Some(Exit::Cancelled)), "{ended:?}");
    }
    assert_eq!(text(&fetched(&alice, &running.handle).await, "stdout"), "on\nasked\n", "it was sent TERM");
    let ended = run(&alice, &order(rigid("sleep 100", 1, 1))).await;
    assert_eq!(ended.exit, Some(Exit::OverWalltime), "{ended:?}");
    shared.emptied().await;

    // Another user's job with a tag of the server's is not the server's, whatever its number.
    let next = ended.handle.number + 1;
    let tag = format!("--job-name=pliant:{LYON}:{next}");
    let mut command = cluster.command("sbatch");
    command.args(["--parsable", &tag, "--chdir=/", "--output=/dev/null", "--hold", "--wrap=true"]);
    std::os::unix::process::CommandExt::uid(&mut command, uid(BOB));
    let forged = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let ran = run(&alice, &order(rigid("id -un", 1, 60))).await;
    assert_eq!((ran.handle.number, &ran.exit), (next, &Some(Exit::Code(0))), "{ran:?}");
    assert_eq!(text(&fetched(&alice, &ran.handle).await, "stdout"), format!("{ALICE}\n"));
    assert!(queue_of(cluster, BOB).ends_with(&format!("PENDING {BOB}")), "it was left alone");
    cluster.run(&["scancel", forged.trim()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_between_slurm_clusters_keeps_the_user() {
    let Some(shared) = Shared::start(2).await else { return };
    let federation = &shared.federation;
    let (alice, bob, operator) = (federation.client(ALICE), federation.client(BOB), federation.operator());
    operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap();
    let gate = |name: &str| federation.path().join(format!("gate-{name}"));
    let mut taken = Vec::new();
    for (name, minutes) in [(LYON, 30), (PARIS, 10)] {
        let order = order_to(name, rigid(&waiting_for(&gate(name)), 2, minutes * 60));
        let accepted = submit(&bob, &order).await;
        federation.reaches(&bob, &accepted.handle, JobState::Active).await;
        taken.push(accepted.handle);
    }
    let data = federation.path().join("data");
    fs::write(&data, "three\nlines\nhere\n").unwrap();
    let mut asked = order(rigid("id -un; wc -l < data", 2, 60));
    asked.inputs.push(input("data", &data));
    let waiting = submit(&alice, &asked).await;
    assert_eq!(waiting.server().as_str(), PARIS, "{waiting:?}");
    listed(shared.cluster(1), &waiting.handle, ALICE, "PENDING").await;
    fs::write(gate(LYON), "").unwrap();
    bob.wait(&taken[0], |_| {}).await.unwrap();
    until("a move", async || {
        let report = operator.reallocate(false).await.ok()?;
        report.proposals.iter().any(|_| moved(&report) == [&waiting.handle]).then_some(())
    })
    .await;
    let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server().as_str(), &ended.exit), (LYON, &Some(Exit::Code(0))), "{ended:?}");
    assert_eq!(ended.hops.len(), 1);
    assert_eq!(text(&fetched(&alice, &ended.handle).await, "stdout"), format!("{ALICE}\n3\n"));
    assert_eq!(owned(&files_of(LYON, &ended.handle)), (uid(ALICE), 0o700));
    assert!(!files_of(PARIS, &ended.handle).exists(), "nothing is left where it was");
    fs::write(gate(PARIS), "").unwrap();
    bob.wait(&taken[1], |_| {}).await.unwrap();
    shared.emptied().await;
}

/// What a command of Slurm's says of accounts.
fn accounted(cluster: &SlurmCluster, words: &[&str]) -> String {
    cluster.run(&[words, &["--noheader", "--parsable2"]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn slurm_accounts_for_users_and_their_limits_make_jobs_wait() {
    let commands = COMMANDS.map(Path::new);
    let wanted = Wanted { clusters: 1, nodes: 1, cpus: 4, accounts: true, ..Wanted::default() };
    let Some(mut shared) = Shared::without_servers(wanted, &commands) else { return };
    for name in [ALICE, BOB] {
        let account = format!("account=of-{name}");
        shared.cluster(0).run(&["sacctmgr", "-i", "add", "account", &account[8..]]);
        shared.cluster(0).run(&["sacctmgr", "-i", "add", "user", name, &account]);
    }
    shared.configure(
        "AccountingStorageEnforce=associations,limits\nPriorityType=priority/multifactor\nPriorityCalcPeriod=1\n\
         PriorityWeightFairshare=1000\nPrivateData=jobs,usage\n",
    );
    // The server's user does not see the jobs of accounts.
    shared.add_server(0, LYON, "period_s = 1\n");
    shared.federation.logged(LYON, &["hides the jobs of accounts", "adminlevel=operator"]).await;
    let mut check = Command::new("setpriv");
    check.args(["--reuid", SERVER, "--regid", SERVER, "--init-groups"]).arg(program());
    check.args(["server", "--check"]).arg(shared.federation.folder(LYON).join("server.toml"));
    let checked = check.output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.stderr).contains("adminlevel=operator"), "{checked:?}");
    let (alice, bob) = (shared.federation.client(ALICE), shared.federation.client(BOB));
    refused(alice.submit(&order(rigid("true", 1, 60)), |_| Ok(())).await, &["batch system"]);
    shared.cluster(0).run(&["sacctmgr", "-i", "add", "account", "daemons"]);
    shared.cluster(0).run(&[
        "sacctmgr",
        "-i",
        "add",
        "user",
        SERVER,
        "account=daemons",
        "adminlevel=operator",
    ]);
    shared.federation.sized(1).await;
    let cluster = &shared.cluster(0).clone();

    // A user for each account, as Slurm sees it.
    let gate = shared.federation.path().join("gate");
    let shell = format!("sleep 3; {}", waiting_for(&gate));
    let mut handles = Vec::new();
    for (name, client) in [(ALICE, &alice), (BOB, &bob)] {
        let accepted = submit(client, &order(rigid(&shell, 1, 600))).await;
        listed(cluster, &accepted.handle, name, "RUNNING").await;
        handles.push((name, client, accepted.handle));
    }

    // Alice may have one job. The second one waits at the server, and the third is cancelled there.
    cluster.run(&["sacctmgr", "-i", "modify", "user", ALICE, "set", "maxsubmitjobs=1"]);
    let (second, third) = (
        submit(&alice, &order(rigid("true", 1, 60))).await,
        submit(&alice, &order(rigid("true", 1, 60))).await,
    );
    shared.federation.logged(LYON, &["AssocMaxSubmitJobLimit", "waits at this server"]).await;
    until("the reason to be known", async || {
        let explained = alice.explain(&second.handle).await.ok()?;
        explained.unplanned.filter(|why| why.contains("AssocMaxSubmitJobLimit"))
    })
    .await;
    let other = run(&bob, &order(rigid("true", 1, 60))).await;
    assert_eq!(other.exit, Some(Exit::Code(0)), "the limit is not bob's: {other:?}");
    assert_eq!(queue_of(cluster, ALICE).lines().count(), 1);
    // It goes on waiting when the server is started again, and what was cancelled ends.
    shared.federation.kill(LYON);
    shared.federation.revive(LYON);
    alice.cancel(&third.handle).await.unwrap();
    let ended = alice.wait(&third.handle, |_| {}).await.unwrap();
    assert_eq!((ended.state, &ended.exit), (JobState::Canceled, &Some(Exit::Cancelled)), "{ended:?}");
    let state = alice.job(&second.handle).await.unwrap().state;
    assert_eq!(state, JobState::Queued);
    fs::write(&gate, "").unwrap();
    let ended = alice.wait(&second.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");

    // The accounts and the fair share know them.
    for (name, client, handle) in &handles {
        let ended = client.wait(handle, |_| {}).await.unwrap();
        assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
        let tag = format!("pliant:{LYON}:{}|{name}|of-{name}|COMPLETED", handle.number);
        let words = ["sacct", "--allusers", "--allocations", "--format=jobname,user,account,state"];
        until(&tag, async || accounted(cluster, &words).lines().any(|line| line == tag).then_some(())).await;
        let words = ["sshare", "--all", "--format=user,rawusage"];
        until(&format!("a share that {name} has used"), async || {
            let shares = accounted(cluster, &words);
            let used =
                shares.lines().find_map(|line| line.strip_prefix(&format!("{name}|"))?.parse::<u64>().ok());
            used.filter(|used| *used > 0)
        })
        .await;
    }

    // What does not pass fails the job, with the reason.
    cluster.run(&["sacctmgr", "-i", "delete", "user", BOB]);
    let ended = run(&bob, &order(rigid("true", 1, 60))).await;
    let Some(Exit::NotStarted(why)) = &ended.exit else { panic!("{ended:?}") };
    assert!(why.contains("Invalid account"), "{why}");
    shared.emptied().await;
}
