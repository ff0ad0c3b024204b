//! A server whose disk is full: a small disk in a private mount, which ends with the test.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use pliant_client::{Explorer, SubmitOrder};
use pliant_control::job::{Exit, JobState};
use pliant_model::SpanMs;
use pliant_testing::{Needed, skip};

use crate::explorations::{pauses, server};
use crate::harness::*;
use crate::monitoring::{page, pages};

/// Where the small disk is.
const DISK: &str = "PLIANT_TEST_SMALL_DISK";
/// As many submissions of [`bulky`] jobs as do not fit on it.
const TOO_MANY: usize = 500;

#[test]
fn a_server_on_a_full_disk_accepts_nothing_and_loses_nothing() {
    with_small_disk("faults::disks::on_small_disk", "accepted before it was full");
}

#[test]
fn a_job_that_fills_the_disk_stops_no_other() {
    with_small_disk("faults::disks::on_filled_disk", "others went on");
}

/// Runs a test of this program that is ignored with a disk of its own.
fn with_small_disk(test: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=32m none "$1" || exit 77; shift; exec "$@""#;
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let outcome = command
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([folder.path().as_os_str(), std::env::current_exe().unwrap().as_os_str()])
        .args(["--exact", "--ignored", "--nocapture", test])
        .env(DISK, folder.path())
        .output();
    let said = |outcome: &Output| {
        let text = [&outcome.stdout[..], &outcome.stderr[..]].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    match outcome {
        Ok(outcome) if outcome.status.success() => {
            assert!(said(&outcome).contains(expected), "{}", said(&outcome));
            print!("{}", said(&outcome));
        }
        Ok(outcome) if said(&outcome).contains("running 1 test") => panic!("{}", said(&outcome)),
        // Not allowed here, or the program is not there.
        _ => skip(Needed::Program, "a file system of its own for a server on a full disk (unshare, mount)"),
    }
}

/// A file that fills the disk; dropping the value removes it.
struct Filler(PathBuf);

impl Filler {
    /// Takes so much of a disk, or what is left of it.
    fn new(path: PathBuf, most: u64) -> Filler {
        let mut file = fs::File::create(&path).unwrap();
        let mut written = 0;
        while written < most && file.write_all(&[1; 4096]).is_ok() {
            written += 4096;
        }
        Filler(path)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// A submission that takes space in the journal.
fn bulky(text: &str) -> SubmitOrder {
    SubmitOrder {
        timeout: Duration::from_secs(3),
        ..order(rigid(&format!("{text}\n#{}", "x".repeat(20_000)), 1, 60))
    }
}

/// Not a test: a federation whose server has a disk of 32 MB.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "on a file system of its own, made by another test"]
async fn on_small_disk() {
    let Some(disk) = std::env::var_os(DISK).map(PathBuf::from) else { return };
    let mut federation = Federation::agent_only("");
    fs::create_dir(federation.folder("lyon")).unwrap();
    symlink(&disk, federation.folder("lyon").join("state")).unwrap();
    let (http, table) = pages();
    let mut lyon = server("lyon", "cores = 1\npause = true");
    lyon.tables.push_str(&table);
    // So that the journal cannot be written.
    lyon.keys = "journal_reserve_bytes = 0";
    federation.add_server(&lyon);
    federation.attached(1).await;
    let alice = federation.client("alice");
    let (lines, gate) = (federation.path().join("lines"), federation.path().join("gate"));
    let left = federation.path().join("left");
    let text = noting(&lines, &format!("{}; : > '{}'", waiting_for(&gate), left.display()));
    let running = submit(&alice, &bulky(&text)).await.handle;
    federation.reaches(&alice, &running, JobState::Active).await;
    let spare = Filler::new(disk.join("spare"), 30 << 20);

    let (mut accepted, mut refused) = (vec![running.clone()], Vec::new());
    while refused.is_empty() && accepted.len() < TOO_MANY {
        let order = bulky(&noting(&lines, "true"));
        match alice.submit(&order, |_| Ok(())).await {
            Ok(record) => accepted.push(record.handle),
            // The first one may have come in and be written later.
            Err(error) => refused.push((order, error.to_string())),
        }
    }
    println!("{} accepted before it was full; then: {}", accepted.len(), refused[0].1);
    assert!(accepted.len() > 1 && refused[0].1.contains("lyon"), "{}", refused[0].1);
    // From then on submissions are refused at once, and go to other servers.
    let order = bulky(&noting(&lines, "true"));
    let error = alice.submit(&order, |_| Ok(())).await.unwrap_err().to_string();
    assert!(error.contains("lyon: the server cannot write its journal at the moment"), "{error}");
    refused.push((order, error));
    federation.logged("lyon", &["ERROR", "cannot write the journal", "full"]).await;

    // Not a byte is left when the first one ends and the next one's turn comes. Questions are answered.
    let rest = Filler::new(disk.join("rest"), u64::MAX);
    fs::write(&gate, "").unwrap();
    until("the first one to end", async || left.exists().then_some(())).await;
    for handle in &accepted {
        assert!(!alice.job(handle).await.unwrap().state.is_final(), "{handle}");
    }
    assert_eq!(alice.job(accepted.last().unwrap()).await.unwrap().state, JobState::Queued);
    assert_eq!(runs(&lines).len(), 1);
    // The journal of explorations is one of its own.
    let explorer = Explorer::new(&alice, &pauses(50, 10, SpanMs(1_000)), None).unwrap();
    let explores = tokio::spawn(explorer.run(std::future::pending(), |_| {}));
    let unready =
        async || page(http, "/readyz").filter(|page| page.contains("{\"part\":\"explorations\",")).map(drop);
    until("the page to say that the requests of explorations cannot be kept", unready).await;
    // A crash in that state takes nothing with it.
    federation.kill("lyon");

    drop((rest, spare));
    federation.revive("lyon");
    federation.attached(1).await;
    for (order, _) in &refused {
        // As its user would: the same key again.
        let again = SubmitOrder { timeout: TIMEOUT, ..order.clone() };
        accepted.push(submit(&alice, &again).await.handle);
    }
    for handle in &accepted {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, ended.exit), (JobState::Completed, Some(Exit::Code(0))), "{handle}");
        assert_eq!(fetched(&alice, handle).await["stdout"], format!("I am {handle}\n").as_bytes());
    }
    assert_eq!(explores.await.unwrap().unwrap().progress.mandatory, 3);
    let ready = async || page(http, "/readyz").filter(|page| page.contains("\"ready\":true")).map(drop);
    until("lyon to be ready again", ready).await;
    agree(&federation.operator(), &lines).await;
    let runs = runs(&lines);
    assert_eq!(runs.len(), accepted.len());
    assert!(accepted.iter().all(|handle| runs[&handle.to_string()] == 1), "{runs:?}");
}

/// Not a test: a federation whose server has a disk of 32 MB, which one of its jobs fills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "on a file system of its own, made by another test"]
async fn on_filled_disk() {
    let Some(disk) = std::env::var_os(DISK).map(PathBuf::from) else { return };
    let mut federation = Federation::agent_only("");
    fs::create_dir(federation.folder("lyon")).unwrap();
    symlink(&disk, federation.folder("lyon").join("state")).unwrap();
    let (http, table) = pages();
    let mut lyon = Cluster { keys: "journal_reserve_bytes = 4194304", ..Cluster::new("lyon", 2, 1.0) };
    lyon.tables.push_str(&table);
    federation.add_server(&lyon);
    federation.attached(1).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let (lines, gate) = (federation.path().join("lines"), federation.path().join("gate"));

    // It goes on filling whatever becomes free, and only its end gives anything back.
    let fills = "exec 3> full; rm full; while :; do cat /dev/zero >&3; sleep 0.01; done";
    let fills = format!("{}; {fills}", waiting_for(&gate));
    let fills = submit(&alice, &order(rigid(&noting(&lines, &fills), 1, 3_600))).await.handle;
    federation.reaches(&alice, &fills, JobState::Active).await;
    let long = submit(&bob, &order(rigid(&noting(&lines, "sleep 1000"), 1, 10))).await.handle;
    federation.reaches(&bob, &long, JobState::Active).await;
    let waits = submit(&bob, &order(rigid(&noting(&lines, "true"), 2, 60))).await.handle;
    fs::write(&gate, "").unwrap();
    let is_full = async || (rustix::fs::statvfs(&disk).unwrap().f_bavail == 0).then_some(());
    until("the disk to be full", is_full).await;
    let full_since = Instant::now();

    // Jobs end and can be cancelled; nothing new is accepted, and the pages say why.
    let unready =
        async || page(http, "/readyz").filter(|page| page.contains("{\"part\":\"disk\",")).map(drop);
    until("the page to say that the disk is full", unready).await;
    let none = "pliant_journal_disk_free_bytes 0\n";
    let measured = async || page(http, "/metrics").filter(|page| page.contains(none)).map(drop);
    until("the metric to say that nothing is free", measured).await;
    let metrics = page(http, "/metrics").unwrap();
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {metrics}"))
    };
    assert!(value("pliant_journal_stored_bytes ") > 0.0);
    assert!(value("pliant_events_waiting ") < 1_000.0, "the journal can be written: nothing piles up");
    let error = bob.submit(&bulky("true"), |_| Ok(())).await.unwrap_err().to_string();
    assert!(error.contains("lyon: the server accepts no new work at the moment: the disk has"), "{error}");
    let ended = bob.wait(&long, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.exit), (JobState::Failed, Some(Exit::OverWalltime)));
    println!(
        "the job over its walltime ended {:.1} s after the disk was full",
        full_since.elapsed().as_secs_f64()
    );
    until("the disk to be full all the same", is_full).await;
    assert_eq!(bob.job(&waits).await.unwrap().state, JobState::Queued);
    let asked = Instant::now();
    alice.cancel(&fills).await.unwrap();
    println!("the cancellation was answered after {:.3} s", asked.elapsed().as_secs_f64());
    assert_eq!(alice.wait(&fills, |_| {}).await.unwrap().state, JobState::Canceled);

    let ended = bob.wait(&waits, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.exit), (JobState::Completed, Some(Exit::Code(0))));
    let ready = async || page(http, "/readyz").filter(|page| page.contains("\"ready\":true")).map(drop);
    until("lyon to be ready again", ready).await;
    let again = run(&bob, &order(rigid(&noting(&lines, "true"), 1, 60))).await;
    assert_eq!(again.state, JobState::Completed);
    agree(&federation.operator(), &lines).await;
    println!("others went on");
}
