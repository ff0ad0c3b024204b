//! Uploads are removed when they rest without a submission, and never under an accepted job; so are files of jobs that are unknown.

use pliant_control::payload::Payload;
use std::time::SystemTime;

use pliant_control::job::Work;
use pliant_control::names::{Key, Token, User};
use pliant_control::reason::DiscoverySummary;
use pliant_control::server::{Command, Event, ServerConfig, Submit, WaitingLimits};
use pliant_journal as journal;
use pliant_model::{Procs, Speed, Speedup};
use pliant_policy::tuning::Tuner;
use pliant_staging::{Checksum, FileSpec};
use pliant_testing::postgres;
use tempfile::TempDir;

use super::*;
use crate::host::{Driver, DurableRecord, MachineHost, MachineThread, Settings};

/// Carries nothing out: jobs stay as they are.
struct NoDriver;

impl Driver<Server> for NoDriver {
    fn keeps(&mut self, _command: &Command) -> DurableRecord {
        DurableRecord::Nothing
    }

    fn carry_out(&mut self, _machine: &Server, _now: Time, _command: Command, _notice: Option<u64>) {}
}

struct Bench {
    root: TempDir,
    upkeep: Upkeep,
    thread: MachineThread,
}

impl Bench {
    fn new() -> Bench {
        let root = tempfile::tempdir().unwrap();
        let journal = journal::open_sqlite(&root.path().join("state")).unwrap();
        Bench::with(root, journal)
    }

    fn with(root: TempDir, journal: Box<dyn journal::Journal>) -> Bench {
        let config = || ServerConfig {
            name: "lyon".parse().unwrap(),
            address: String::new(),
            procs: Procs(1),
            speed: Speed::REFERENCE,
            policy: "cbf".to_owned(),
            tuner: Tuner::Exact,
            waiting: WaitingLimits::of_jobs(10),
            host: None,
        };
        let new = |_, now| Server::new(config(), now).unwrap();
        let restore = |state| Server::from_state(config(), state).map_err(|error| error.to_string());
        let host = MachineHost::of(journal, new, restore).unwrap();
        let (archive, mailbox) = (host.archive().unwrap(), host.mailbox.clone());
        let thread = host.start("server", NoDriver, Settings::default()).unwrap();
        let upkeep = Upkeep {
            host: Arc::new(Host::for_tests(root.path(), &["pliant"])),
            archive,
            mailbox,
            kept: Span(86_400),
            results_bytes_per_user: None,
            results: ResultsUsage::default(),
            is_short: watch::channel(false).1,
            removals: Removals::default(),
        };
        Bench { root, upkeep, thread }
    }

    /// Uploads that have rested for two days.
    fn upload(&self, key: Key) {
        let spec = FileSpec { name: "a".parse().unwrap(), size: 1, sha256: Checksum::of(b"a") };
        let upload = self.upkeep.host.store.begin(&of_alice(key), spec).unwrap();
        upload.append(0, b"a").unwrap();
        upload.finish().unwrap();
        let folder = self.root.path().join(format!("staging/incoming/alice/{key}"));
        let long_ago = SystemTime::now() - Duration::from_secs(2 * 86_400);
        for entry in fs::read_dir(folder).unwrap() {
            fs::File::open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
        }
    }

    fn submit(&self, key: Key) {
        let work = Work::new(Procs(1), Span(60), Speedup::Rigid);
        let submit = Submit {
            key,
            owner: alice(),
            name: "test".to_owned(),
            work,
            own_time: false,
            pinned: false,
            latest: None,
            compared: Vec::new(),
            discovery: DiscoverySummary::default(),
            payload: Payload::default(),
            sample: None,
            claim: None,
        };
        self.upkeep.mailbox.send(Event::Submit { reply: Token(1), submit: Box::new(submit) }).unwrap();
    }

    async fn end(self) {
        self.thread.end().await.unwrap();
    }
}

fn alice() -> User {
    "alice".parse().unwrap()
}

fn of_alice(key: Key) -> UploadSet {
    UploadSet::of_owner(alice(), key)
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_without_a_submission_are_removed_and_others_stay() {
    let bench = Bench::new();
    let (wanted, forgotten) = (Key([1; 16]), Key([2; 16]));
    bench.upload(wanted);
    bench.upload(forgotten);
    bench.submit(wanted);
    bench.upkeep.once(Time(0)).await;
    assert_eq!(bench.upkeep.host.store.upload_sets(), [of_alice(wanted)]);
    bench.end().await;
}

/// Neither the machine nor the archive knows them.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_job_go_though_its_record_is_deleted() {
    let bench = Bench::new();
    let now = Clock::start(Time(0)).now();
    let folder = |job: &str, days: u64| {
        let dir = bench.root.path().join("jobs").join(job);
        fs::create_dir_all(&dir).unwrap();
        let changed = SystemTime::now() - Duration::from_secs(days * 86_400);
        fs::File::open(&dir).unwrap().set_modified(changed).unwrap();
        dir
    };
    let old = [folder("7", 2), folder("paris.3", 2)];
    let recent = folder("8", 0);
    bench.upkeep.once(now).await;
    assert!(old.iter().all(|dir| !dir.exists()), "as old as files are kept");
    assert!(recent.exists());
    bench.end().await;
}

/// The record of a job that has ended.
fn ended_job(owner: &str, number: u32, ended: i64) -> journal::JobRow {
    journal::JobRow {
        server: "lyon".to_owned(),
        number,
        key: None,
        owner: owner.to_owned(),
        name: "test".to_owned(),
        state: "completed".to_owned(),
        submitted: 0,
        started: None,
        ended,
        expected_start: None,
        expected_completion: None,
        record: "{}".to_owned(),
        last_server: "lyon".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_too_many_results_loses_the_oldest_of_them() {
    let root = tempfile::tempdir().unwrap();
    let mut journal = journal::open_sqlite(&root.path().join("state")).unwrap();
    let jobs = [("alice", 1), ("bob", 2), ("alice", 3), ("alice", 4), ("alice", 5)];
    // The archive forgets jobs that ended long ago.
    let now = Clock::start(Time(0)).now();
    let ended = jobs.map(|(owner, number)| ended_job(owner, number, now.0 - 9 + i64::from(number))).into();
    journal.commit(&journal::Batch { ended, ..journal::Batch::default() }).unwrap();
    let mut bench = Bench::with(root, journal);
    let dir = |number: u32| bench.root.path().join("jobs").join(number.to_string());
    for (_, number) in jobs {
        fs::create_dir_all(dir(number).join("work")).unwrap();
        fs::write(dir(number).join("work/result"), vec![1; 1 << 20]).unwrap();
    }
    let left = || jobs.map(|(_, number)| number).into_iter().filter(|number| dir(*number).exists());
    bench.upkeep.once(now).await;
    assert_eq!(left().count(), 5, "any number is allowed");
    bench.upkeep.results_bytes_per_user = Some(5 << 19);
    // What is measured in a cycle goes in the next one.
    bench.upkeep.once(now).await;
    bench.upkeep.results.settled().await;
    bench.upkeep.once(now).await;
    assert_eq!(left().collect::<Vec<_>>(), [2, 4, 5]);
    bench.upkeep.results.settled().await;
    bench.upkeep.results_bytes_per_user = Some(0);
    bench.upkeep.once(now).await;
    assert_eq!(left().collect::<Vec<_>>(), [2, 5], "the last results of a user stay");
    bench.end().await;
}

/// A later job of a user writes into the folder of an ended one.
#[tokio::test(flavor = "multi_thread")]
async fn results_that_grow_after_the_end_of_their_job_count() {
    let root = tempfile::tempdir().unwrap();
    let mut journal = journal::open_sqlite(&root.path().join("state")).unwrap();
    let now = Clock::start(Time(0)).now();
    let long_ago = now.0 - 3_600;
    let ended = [1, 2].map(|number| ended_job("alice", number, long_ago + i64::from(number))).into();
    journal.commit(&journal::Batch { ended, ..journal::Batch::default() }).unwrap();
    let mut bench = Bench::with(root, journal);
    bench.upkeep.results_bytes_per_user = Some(1 << 20);
    let dir = |number: u32| bench.root.path().join("jobs").join(number.to_string());
    for number in [1, 2] {
        fs::create_dir_all(dir(number).join("work")).unwrap();
    }
    let cycle = async || {
        bench.upkeep.once(now).await;
        bench.upkeep.results.settled().await;
    };
    cycle().await;
    fs::write(dir(1).join("work/later"), vec![1; 2 << 20]).unwrap();
    cycle().await;
    cycle().await;
    assert!(dir(1).exists(), "no job of the user runs");
    let (is_short, shown) = watch::channel(true);
    let upkeep = Upkeep { is_short: shown, ..bench.upkeep };
    for _ in 0..2 {
        upkeep.once(now).await;
        upkeep.results.settled().await;
    }
    assert_eq!([1, 2].map(|number| dir(number).exists()), [false, true]);
    drop((is_short, upkeep));
    bench.thread.end().await.unwrap();
}

/// A submission that is being accepted while its uploads are looked at.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_removed_under_a_submission_that_is_being_accepted() {
    let bench = Bench::new();
    let key = Key([1; 16]);
    bench.upload(key);
    let turn = bench.upkeep.host.store.lock(&alice(), key).await;
    let accepting = async {
        // Its files were found complete; now upkeep has all the time it wants, until it can only wait.
        tokio::time::sleep(Duration::from_millis(200)).await;
        bench.submit(key);
        drop(turn);
    };
    let ((), ()) = tokio::join!(bench.upkeep.once(Time(0)), accepting);
    assert_eq!(bench.upkeep.host.store.upload_sets(), [of_alice(key)]);
    bench.end().await;
}

/// A server that hung while another one took its journal over, and that goes on with its upkeep.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_lead_any_more_removes_nothing() {
    let opened = tokio::task::block_in_place(|| {
        let database = postgres::Server::start()?.database();
        let journal = journal::open_postgres(&database.connection()).unwrap();
        Some((database, journal))
    });
    let Some((database, journal)) = opened else { return };
    let bench = tokio::task::block_in_place(|| Bench::with(tempfile::tempdir().unwrap(), journal));
    let host = bench.upkeep.host.clone();
    // Of jobs that it does not know: those of the other one.
    let (upload, gate) = (Key([1; 16]), host.gate(7, None).unwrap());
    let begin = || {
        bench.upload(upload);
        gate.create(None).unwrap();
    };
    begin();
    bench.upkeep.once(Time(0)).await;
    assert_eq!((host.store.upload_sets(), host.gates().len()), (Vec::new(), 0), "it leads");
    begin();
    // As the other one does.
    tokio::task::block_in_place(|| database.query("UPDATE metadata SET term = term + 1"));
    let Bench { root: _root, upkeep, thread } = bench;
    let mailbox = upkeep.mailbox.clone();
    let ended = async { while mailbox.ask(|_, _| ()).await.is_ok() {} };
    tokio::select! {
        () = upkeep.once(Time(0)) => panic!("it does nothing more"),
        () = ended => {}
    }
    let error = thread.end().await.unwrap_err();
    assert!(error.to_string().contains("another daemon has taken over"), "{error}");
    assert_eq!((host.store.upload_sets(), host.gates().len()), (vec![of_alice(upload)], 1));
    tokio::task::block_in_place(|| drop(database));
}
