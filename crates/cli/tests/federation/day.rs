//! A day of operation in compressed time: users submit and cancel all the while, and operators do to the daemons what they do on other days
//! one by one. Nothing is lost, nothing runs twice, and the audit trail has all of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pliant_client::{Client, SubmitOrder};
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_control::names::Handle;
use pliant_testing::{Needed, skip};
use pliant_transport::Role;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::certificates::renew;
use crate::harness::*;
use crate::restored::{back_up, put_back};

/// The program of an earlier build, with which the day begins.
const EARLIER: &str = "PLIANT_EARLIER_BUILD";
const SERVERS: [&str; 2] = ["lyon", "paris"];
/// After how many submissions a user cancels one.
const CANCELLED: usize = 4;

/// What a user did in the day.
#[derive(Default)]
struct Submitted {
    accepted: Vec<Handle>,
    /// Those of them that the user asked to cancel.
    cancelled: Vec<Handle>,
}

/// How many submissions of a user were accepted, and how many refused since the user was banned.
#[derive(Default)]
struct Counts {
    accepted: AtomicU32,
    banned: AtomicU32,
}

/// A user who submits and cancels until the day ends.
struct Worker {
    task: JoinHandle<Submitted>,
    counts: Arc<Counts>,
}

impl Worker {
    fn begin(client: Client, lines: PathBuf, ends: Arc<AtomicBool>) -> Worker {
        let counts = Arc::new(Counts::default());
        let task = tokio::spawn(work(client, lines, ends, counts.clone()));
        Worker { task, counts }
    }

    /// Waits until the user has got so many more jobs.
    async fn gets(&self, more: u32) {
        let until_now = self.counts.accepted.load(Ordering::Relaxed);
        let is_there = || self.counts.accepted.load(Ordering::Relaxed) >= until_now + more;
        until(&format!("{more} more jobs"), async || is_there().then_some(())).await;
    }

    fn banned(&self) -> u32 {
        self.counts.banned.load(Ordering::Relaxed)
    }
}

async fn work(client: Client, lines: PathBuf, ends: Arc<AtomicBool>, counts: Arc<Counts>) -> Submitted {
    let mut submitted = Submitted::default();
    while !ends.load(Ordering::Relaxed) {
        let order = order(rigid(&noting(&lines, "sleep 0.3"), 1, 60));
        match accepted_or_refused(&client, &order).await {
            Ok(handle) => {
                submitted.accepted.push(handle.clone());
                counts.accepted.fetch_add(1, Ordering::Relaxed);
                if submitted.accepted.len().is_multiple_of(CANCELLED) {
                    cancel(&client, &handle).await;
                    submitted.cancelled.push(handle);
                }
            }
            Err(said) => {
                assert!(said.contains("root has banned the user since"), "{said}");
                counts.banned.fetch_add(1, Ordering::Relaxed);
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    submitted
}

async fn accepted_or_refused(client: &Client, order: &SubmitOrder) -> Result<Handle, String> {
    let answer = client.submit(order, |_| Ok(())).await;
    answer.map(|record| record.handle).map_err(|error| error.to_string())
}

/// Cancels a job, whose server may be down for a while.
async fn cancel(client: &Client, handle: &Handle) {
    let deadline = Instant::now() + TIMEOUT;
    while let Err(error) = client.cancel(handle).await {
        assert!(Instant::now() < deadline, "{handle} is not cancelled: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Limits bob to one running job at each server, sees that it is so while he gets more jobs, and ends the limit.
async fn limit(operator: &CommandUser, bob: &Worker) {
    act(operator, "admin limit bob running-jobs=1 --why exams");
    let at_most = || {
        let queue = act(operator, "queue --user bob --state ACTIVE");
        let jobs = queue["jobs"].as_array().unwrap();
        let at = |server: &&str| jobs.iter().filter(|job| job["server"] == **server).count();
        SERVERS.iter().map(at).max().unwrap()
    };
    until("those that run to end", async || (at_most() <= 1).then_some(())).await;
    for _ in 0..4 {
        bob.gets(1).await;
        assert!(at_most() <= 1);
    }
    act(operator, "admin limit bob running-jobs=none --why passed");
}

/// Copies the state of lyon, has a job that waits there run, and puts the copy back. Returns the jobs.
async fn restore(
    federation: &mut Federation,
    operator: &CommandUser,
    alice: &Worker,
    lines: &Path,
) -> Vec<Handle> {
    let carol = federation.client("carol");
    let (gate, state) = (federation.path().join("evening"), federation.folder("lyon").join("state"));
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let order = order_to("lyon", rigid(&noting(lines, &waiting_for(&gate)), 1, 600));
        jobs.push(submit(&carol, &order).await.handle);
    }
    act(operator, "admin drain lyon --why backup");
    // Until then what was submitted and cancelled there is in the copy.
    alice.gets(2).await;
    let copy = federation.path().join("backup");
    let (code, _, stderr) = back_up(&state, &copy);
    assert_eq!(code, 0, "{stderr}");
    std::fs::write(&gate, "").unwrap();
    for handle in &jobs {
        federation.reaches(&carol, handle, JobState::Completed).await;
    }
    federation.kill("lyon");
    put_back(&state, &copy);
    federation.revive("lyon");
    federation.logged("lyon", &["the journal is restored"]).await;
    federation.attached(SERVERS.len()).await;
    act(operator, "admin resume lyon --why restored");
    jobs
}

/// An operator's act, which must succeed.
fn act(operator: &CommandUser, line: &str) -> Value {
    let (code, document, stderr) = operator.run(line);
    assert_eq!(code, 0, "{line}: {stderr}");
    document
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_operation_loses_nothing_and_does_nothing_twice() {
    let mut federation = Federation::without_daemons();
    federation.build = std::env::var_os(EARLIER).map(PathBuf::from);
    if federation.build.is_none() {
        skip(
            Needed::Program,
            "an upgrade from an earlier build (needs PLIANT_EARLIER_BUILD); it is to the same one",
        );
    }
    federation.add_agent(MASTER, None, "");
    for name in SERVERS {
        federation.add_server(&Cluster::new(name, 2, 1.0));
    }
    federation.sized(SERVERS.len()).await;
    let (operator, mallory) = (CommandUser::operator(&federation), CommandUser::new(&federation, "mallory"));
    let (lines, ends) = (federation.path().join("lines"), Arc::new(AtomicBool::new(false)));
    let [alice, bob] =
        ["alice", "bob"].map(|user| Worker::begin(federation.client(user), lines.clone(), ends.clone()));
    alice.gets(3).await;

    // In the morning lyon is drained for maintenance, and its certificate is renewed.
    assert_eq!(mallory.run("admin drain lyon --why mischief").0, 2);
    act(&operator, "admin drain lyon --why maintenance");
    renew(&federation, &federation.folder("lyon"), Role::Server, "lyon", 60);
    federation.logged("lyon", &["certificate files read"]).await;
    alice.gets(3).await;
    act(&operator, "admin resume lyon --why maintained");

    // A job is held, and outlives a crash of everything.
    let carol = federation.client("carol");
    let gate = federation.path().join("gate");
    let mut full = Vec::new();
    for _ in 0..2 {
        full.push(
            submit(&carol, &order_to("paris", rigid(&noting(&lines, &waiting_for(&gate)), 1, 600)))
                .await
                .handle,
        );
    }
    let held = submit(&carol, &order_to("paris", rigid(&noting(&lines, "true"), 1, 60))).await.handle;
    act(&operator, &format!("admin hold {held} --why questions"));
    for name in [MASTER, "lyon", "paris"] {
        federation.kill(name);
        federation.revive(name);
    }
    federation.attached(SERVERS.len()).await;
    std::fs::write(&gate, "").unwrap();
    for handle in &full {
        federation.reaches(&carol, handle, JobState::Completed).await;
    }
    bob.gets(2).await;
    assert_eq!(carol.job(&held).await.unwrap().started, None);
    act(&operator, &format!("admin release {held} --why answered"));

    // At noon a user's key is thought to be stolen.
    act(&operator, "admin ban bob --why stolen");
    until("bob to be refused", async || (bob.banned() > 0).then_some(())).await;
    alice.gets(3).await;
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(SERVERS.len()).await;
    act(&operator, "admin unban bob --why found");
    bob.gets(2).await;

    // In the afternoon all daemons are upgraded, one after the other.
    federation.build = None;
    for name in ["lyon", "paris", MASTER] {
        federation.stop(name);
        federation.revive(name);
        federation.attached(SERVERS.len()).await;
        alice.gets(2).await;
    }

    // A user gets less for a while, and lyon loses its disk.
    limit(&operator, &bob).await;
    let restored = restore(&mut federation, &operator, &alice, &lines).await;
    alice.gets(2).await;

    // In the evening everything has ended, and is accounted for.
    ends.store(true, Ordering::Relaxed);
    let banned = [&alice, &bob].map(Worker::banned);
    assert_eq!(banned[0], 0, "only bob was banned");
    let [alice, bob] = [alice.task.await.unwrap(), bob.task.await.unwrap()];
    let carols = full.into_iter().chain([held.clone()]).chain(restored).collect();
    let carols = Submitted { accepted: carols, ..Submitted::default() };
    let days = [("alice", &alice), ("bob", &bob), ("carol", &carols)];
    let mut ends = Vec::new();
    for (user, submitted) in days {
        let client = federation.client(user);
        for handle in &submitted.accepted {
            ends.push(client.wait(handle, |_| {}).await.unwrap());
        }
    }
    // Once everything has ended.
    let mut trail = Trail::of(&operator);
    let mut executed = runs(&lines);
    let mut ends = ends.iter();
    for (user, submitted) in days {
        for (handle, ended) in submitted.accepted.iter().zip(&mut ends) {
            let times = executed.remove(&handle.to_string()).unwrap_or(0);
            check_end(ended, times, submitted.cancelled.contains(handle));
            trail.accepted(user, handle);
        }
        for handle in &submitted.cancelled {
            trail.cancelled(user, handle);
        }
    }
    assert_eq!(executed, BTreeMap::new(), "ran without a submission");
    let of_users = ["ban root", "unban root", "limit root", "limit root"];
    let of_lyon =
        [&["deny mallory", "drain root", "resume root"], &of_users[..], &["drain root", "resume root"]];
    assert_eq!(trail.left("lyon"), of_lyon.concat());
    assert_eq!(trail.left("paris"), [&["hold root", "release root"], &of_users[..]].concat());
    println!(
        "{} and {} jobs, {} cancelled, {} refused by a ban",
        alice.accepted.len(),
        bob.accepted.len(),
        alice.cancelled.len() + bob.cancelled.len(),
        banned[1]
    );
}

/// A job ran once, or not at all if it was cancelled before.
fn check_end(ended: &JobRecord, times: u32, was_cancelled: bool) {
    match ended.state {
        JobState::Completed => {
            assert_eq!((ended.exit.clone(), times), (Some(Exit::Code(0)), 1), "{ended:?}");
        }
        JobState::Canceled => assert!(was_cancelled && times <= 1, "ran {times} times: {ended:?}"),
        _ => panic!("{ended:?}"),
    }
}

/// The audit trails of all servers; what has been looked for and found is taken out.
struct Trail {
    records: BTreeMap<&'static str, Vec<Value>>,
}

impl Trail {
    fn of(operator: &CommandUser) -> Trail {
        let records = SERVERS.map(|name| {
            let output = operator.command(&format!("admin log {name} --lines")).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            (name, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
        });
        Trail { records: records.into() }
    }

    /// Takes out the only acceptance of a job, at the server that its handle names.
    fn accepted(&mut self, user: &str, handle: &Handle) {
        let found = self.take("accept", user, handle);
        let expected = SERVERS.iter().filter(|name| **name == handle.server.as_str());
        assert!(found.iter().eq(expected), "{handle} of {user} was accepted at {found:?}");
    }

    /// Takes out the cancellations of a job, wherever it was by then.
    fn cancelled(&mut self, user: &str, handle: &Handle) {
        assert!(!self.take("cancel", user, handle).is_empty(), "no cancellation of {handle} by {user}");
    }

    fn take(&mut self, act: &str, user: &str, handle: &Handle) -> Vec<&'static str> {
        let (by, job) = (format!("user/{user}"), handle.to_string());
        let mut found = Vec::new();
        for (name, records) in &mut self.records {
            records.retain(|record| {
                let is_it = record["act"] == act && record["by"] == *by && record["job"] == *job;
                if is_it {
                    found.push(*name);
                }
                !is_it
            });
        }
        found
    }

    /// What is left at a server of acts other than those by which servers hand jobs over: the act, and whose it was.
    fn left(&self, name: &str) -> Vec<String> {
        let word = |record: &Value, key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let by = |record: &Value| word(record, "by").rsplit('/').next().unwrap_or_default().to_owned();
        let others =
            |record: &&Value| !["hand-over", "take-over", "withdraw"].contains(&word(record, "act").as_str());
        self.records[name]
            .iter()
            .filter(others)
            .map(|one| format!("{} {}", word(one, "act"), by(one)))
            .collect()
    }
}
