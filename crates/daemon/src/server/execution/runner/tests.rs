//! Executions under supervisors of shell: how each is started, found again, ended and reported.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use pliant_control::batch;
use pliant_control::job::Exit;
use pliant_control::names::Key;
use pliant_control::optional::server::{self as optional, RequestKey};
use pliant_control::payload::Payload;
use pliant_model::{JobId, Procs, Span};
use pliant_policy::optional::RequestId;
use tempfile::TempDir;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::super::{Allocation, Program, Request};
use super::*;
use crate::config::AccountsFile;
use crate::server::accounts::Accounts;
use crate::server::subjobs::tests::{program, subjob};

/// Passes ends on.
#[derive(Clone)]
struct Ends(UnboundedSender<(ExecutionId, End)>);

impl Observer for Ends {
    fn starting(&self, _execution: &Execution) {}

    async fn progress(&self, _execution: &Execution) {}

    async fn details(&self, _execution: &Execution) {}

    fn ended(&self, id: ExecutionId, end: End) {
        self.0.send((id, end)).unwrap();
    }
}

/// Records a start in `starts` beside the folder, and that the program ended with code 0.
const RUNS: &str = r#"echo start >> "$1/../starts"; touch "$1/started.json"; cat > "$1/exit.json" <<X
{"outcome":{"exit_code":0},"over_walltime":false,"cancelled":false,"started_unix_ms":1,"ended_unix_ms":7,
"elapsed_ms":6,"cpu_s":0,"max_rss_kb":null,"stdout_cut":false,"stderr_cut":false}
X"#;

struct Bench {
    root: TempDir,
    runner: Runner<Ends>,
    ends: UnboundedReceiver<(ExecutionId, End)>,
}

impl Bench {
    /// A supervisor is a shell that runs a text, with the folder as its first argument.
    fn new(supervisor: &str) -> Bench {
        Bench::with(supervisor, |_| Accounts::own())
    }

    /// The launcher is a shell script, and the file system of its folders may be missing.
    fn with_launcher(launcher: &str, is_mounted: bool) -> Bench {
        Bench::with(RUNS, |root| {
            let program = root.join("launcher");
            std::fs::write(&program, format!("#!/bin/sh\n{launcher}\n")).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            let file =
                AccountsFile { launcher: program, folder: Some(root.join("spool")), ..AccountsFile::own() };
            let guard = if is_mounted { root.to_owned() } else { root.join("missing") };
            Accounts::new(&file, "/pliant".into()).unwrap().guarded_by(guard)
        })
    }

    fn with(supervisor: &str, accounts: impl FnOnce(&Path) -> Accounts) -> Bench {
        let root = tempfile::tempdir().unwrap();
        let mut host = Host::for_tests(root.path(), &["/bin/sh", "-c", supervisor, "supervisor"]);
        host.accounts = Arc::new(accounts(root.path()));
        let (sender, ends) = mpsc::unbounded_channel();
        let runner = Runner::new(Arc::new(host), Ends(sender), None);
        Bench { root, runner, ends }
    }

    fn execution(&self, id: ExecutionId, work: Work) -> Execution {
        let allocation =
            Allocation { procs: Procs(1), cores: 1, pinned: None, walltime: Span(60), held: None };
        let dir = self.root.path().join("run");
        Execution { id, work, dir, allocation, had_started: false }
    }

    fn subjob(&self) -> Execution {
        self.execution(ExecutionId::Job(JobId(7)), Work::Subjob(Box::new(subjob())))
    }

    /// The subjob as an account.
    fn subjob_of_account(&self, walltime_s: i64) -> Execution {
        let mut run = subjob();
        for task in &mut run.subjob.tasks {
            task.payload = Payload::of(&Program { account: Some("alice".to_owned()), ..program(&[]) });
        }
        let mut execution = self.execution(ExecutionId::Job(JobId(7)), Work::Subjob(Box::new(run)));
        execution.allocation.walltime = Span(walltime_s);
        execution
    }

    fn request(&self) -> Execution {
        let (owner, program) = ("alice".parse().unwrap(), program(&[]));
        let key = RequestKey { exploration: Key([1; 16]), number: 3 };
        let request = Request { key, owner, program };
        self.execution(ExecutionId::Request(RequestId(5)), Work::Request(Box::new(request)))
    }

    /// The request as an account.
    fn request_of_account(&self) -> Execution {
        let mut execution = self.request();
        if let Work::Request(request) = &mut execution.work {
            request.program.account = Some("alice".to_owned());
        }
        execution.allocation.walltime = Span(1);
        execution
    }

    async fn end(&mut self) -> End {
        self.ends.recv().await.unwrap().1
    }

    fn starts(&self) -> usize {
        std::fs::read_to_string(self.root.path().join("starts")).map_or(0, |text| text.lines().count())
    }

    fn has_folder(&self) -> bool {
        self.root.path().join("run").exists()
    }
}

const JOB: JobId = JobId(1);

fn completed() -> batch::Event {
    batch::Event::Ended { job: JOB, exit: Exit::Code(0), elapsed_ms: Some(6) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_boot_went_with_its_node() {
    let mut bench = Bench::new(RUNS);
    let started = r#"{"supervisor": 1, "group": 1, "boot_id": "another", "started_unix_ms": 1}"#;
    let dir = bench.subjob().dir;
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("started.json"), started).unwrap();
    bench.runner.resume(bench.subjob(), false);
    let end = bench.end().await;
    assert!(matches!(end, End::NodeFailed(_)), "{end:?}");
    let batch::Event::NodeFailed { job: JOB, exit: Exit::Lost(_) } = end.of_job(JOB) else {
        panic!("its batch system is not notified")
    };
    assert_eq!(bench.starts(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_started_once_and_its_end_is_found_afterwards() {
    let mut bench = Bench::new(RUNS);
    // The server went down before it had started anything.
    bench.runner.resume(bench.subjob(), false);
    let end = bench.end().await;
    assert!(matches!(end, End::Recorded { asked: false, earlier: false, .. }), "{end:?}");
    assert_eq!(end.of_job(JOB), completed());
    // And after it had ended.
    bench.runner.resume(bench.subjob(), false);
    let end = bench.end().await;
    assert!(matches!(end, End::Recorded { asked: false, earlier: true, .. }), "{end:?}");
    // It waits in a journal that was put back.
    bench.runner.start(bench.subjob());
    let end = bench.end().await;
    assert!(matches!(end, End::Recorded { asked: false, earlier: true, .. }), "{end:?}");
    assert_eq!(end.of_job(JOB), completed());
    assert_eq!((bench.starts(), bench.runner.stops.lock().len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_had_started_before_the_journal_was_put_back_is_found_or_lost() {
    let mut bench = Bench::new(RUNS);
    let had_started = |bench: &Bench| Execution { had_started: true, ..bench.subjob() };
    bench.runner.start(had_started(&bench));
    let end = bench.end().await;
    assert!(matches!(&end, End::Lost(why) if why.contains("folder is missing")), "{end:?}");
    assert_eq!(bench.starts(), 0);
    bench.runner.start(bench.subjob());
    bench.end().await;
    bench.runner.start(had_started(&bench));
    let end = bench.end().await;
    assert!(matches!(end, End::Recorded { earlier: true, .. }), "{end:?}");
    assert_eq!(bench.starts(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cancelled_before_it_was_started_never_is() {
    let mut bench = Bench::new(RUNS);
    bench.runner.resume(bench.subjob(), true);
    assert_eq!(bench.end().await, End::Cancelled);
    bench.runner.resume(bench.request(), true);
    assert_eq!(bench.end().await, End::Cancelled);
    assert_eq!((bench.starts(), bench.has_folder()), (0, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_unknown_outcome_is_lost_and_a_request_is_run_again() {
    let dies_once = format!(
        "if [ ! -e \"$1/../died\" ]; then touch \"$1/../died\" \"$1/started.json\"; exit; fi; {RUNS}"
    );
    let mut bench = Bench::new(&dies_once);
    bench.runner.start(bench.subjob());
    let end = bench.end().await;
    assert!(matches!(&end, End::Lost(why) if why.contains("supervisor")), "{end:?}");
    std::fs::remove_file(bench.root.path().join("died")).unwrap();
    bench.runner.start(bench.request());
    let end = bench.end().await;
    assert!(matches!(end, End::Recorded { .. }), "{end:?}");
    assert_eq!(bench.starts(), 1, "the second time");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_complaint_of_a_supervisor_is_the_reason() {
    let mut bench = Bench::new("echo \"error: $1/work: no space\" >&2");
    bench.runner.start(bench.subjob());
    assert_eq!(bench.end().await, End::NotStarted("work: no space".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_ended_leaves_no_folder() {
    // It ends when it is asked to, and records nothing.
    let mut bench = Bench::new("touch \"$1/../begun\"; while [ ! -e \"$1/cancel\" ]; do sleep 0.02; done");
    bench.runner.start(bench.request());
    while !bench.root.path().join("begun").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.runner.end(ExecutionId::Request(RequestId(5)));
    assert_eq!(bench.end().await, End::Cancelled);
    assert!(!bench.has_folder());
    // What has ended is not ended again.
    bench.runner.end(ExecutionId::Request(RequestId(5)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_account_fails_for_too_long_is_given_up() {
    let timeout_s = ACCOUNT_TIMEOUT_MIN.as_secs().cast_signed();
    for walltime_s in [1, timeout_s + 2] {
        // As when the user of the account kills what takes its files.
        let mut bench = Bench::with_launcher("kill -9 $$", true);
        let begun = Instant::now();
        bench.runner.start(bench.subjob_of_account(walltime_s));
        let end = bench.end().await;
        let expected = "what runs as the account alice ended with signal: 9";
        assert!(matches!(&end, End::NotStarted(why) if why.contains(expected)), "{end:?}");
        assert!(begun.elapsed() >= Duration::from_secs(walltime_s.max(timeout_s).unsigned_abs()));
        assert_eq!(bench.starts(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_as_long_as_the_file_system_of_accounts_is_missing() {
    let mut bench = Bench::with_launcher("exit 9", false);
    bench.runner.start(bench.subjob_of_account(1));
    tokio::time::sleep(ACCOUNT_TIMEOUT_MIN + 2 * AGAIN).await;
    assert!(bench.ends.try_recv().is_err());
    bench.runner.end(ExecutionId::Job(JobId(7)));
    assert_eq!(bench.end().await, End::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_gives_the_account_of_a_job_no_more_time() {
    let mut bench = Bench::with_launcher("kill -9 $$", true);
    let forever_s = 1_000_000_000;
    bench.runner.start(bench.subjob_of_account(forever_s));
    let record = bench.root.path().join("run/account-failed.json");
    while !record.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.runner.end(ExecutionId::Job(JobId(7)));
    assert_eq!(bench.end().await, End::Cancelled);
    // The server is down for longer than the account may fail.
    std::fs::write(record, "1").unwrap();
    bench.runner.resume(bench.subjob_of_account(forever_s), false);
    let end = bench.end().await;
    assert!(matches!(&end, End::NotStarted(why) if why.contains("ended with signal: 9")), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_account_fails_keeps_no_core() {
    let banned = "cat > /dev/null; echo 'pliant-launcher: account: banned' >&2; exit 125";
    for (launcher, expected) in [("kill -9 $$", "ended with signal: 9"), (banned, "account: banned")] {
        let mut bench = Bench::with_launcher(launcher, true);
        bench.runner.start(bench.request_of_account());
        let end = bench.end().await;
        assert!(matches!(&end, End::NotStarted(why) if why.contains(expected)), "{end:?}");
        assert_eq!(end.of_request().0, optional::Exit::Failed);
    }
}

/// Its files cannot be removed either: what was recorded of it is of no later run all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_an_account_that_is_killed_is_reported_at_once() {
    let mut bench = Bench::with_launcher("kill -9 $$", true);
    let records = bench.root.path().join("run");
    bench.runner.start(bench.request_of_account());
    while !records.join("account-failed.json").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.runner.end(ExecutionId::Request(RequestId(5)));
    assert_eq!(bench.end().await, End::Cancelled);
    for left in ["exit.json", "started.json", "account-failed.json"] {
        assert!(!records.join(left).exists(), "{left} is of no later run");
    }
    bench.runner.resume(bench.request_of_account(), false);
    let end = bench.end().await;
    assert!(matches!(end, End::NotStarted(_)), "it is begun anew: {end:?}");
}
