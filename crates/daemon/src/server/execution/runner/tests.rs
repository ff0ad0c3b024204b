//! Executions under supervisors of shell: how each is started, found again, ended and reported.

use pliant_control::job::Exit;
use pliant_control::names::Key;
use pliant_control::optional::server::RequestKey;
use pliant_model::{JobId, Procs, Span};
use pliant_policy::optional::RequestId;
use tempfile::TempDir;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::super::{Allocation, Request};
use super::*;
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
        let root = tempfile::tempdir().unwrap();
        let host = Host::for_tests(root.path(), &["/bin/sh", "-c", supervisor, "supervisor"]);
        let (sender, ends) = mpsc::unbounded_channel();
        let runner = Runner::new(Arc::new(host), Ends(sender), None);
        Bench { root, runner, ends }
    }

    fn execution(&self, id: ExecutionId, work: Work) -> Execution {
        let allocation = Allocation { procs: Procs(1), cores: 1, pinned: None, walltime: Span(60) };
        Execution { id, work, dir: self.root.path().join("run"), allocation }
    }

    fn subjob(&self) -> Execution {
        self.execution(ExecutionId::Job(JobId(7)), Work::Subjob(Box::new(subjob())))
    }

    fn request(&self) -> Execution {
        let (owner, program) = ("alice".parse().unwrap(), program(&[]));
        let key = RequestKey { exploration: Key([1; 16]), number: 3 };
        let request = Request { key, owner, program };
        self.execution(ExecutionId::Request(RequestId(5)), Work::Request(Box::new(request)))
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

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_started_once_and_its_end_is_found_after_a_restart() {
    let mut bench = Bench::new(RUNS);
    // The server went down before it had started anything.
    bench.runner.resume(bench.subjob(), false);
    let end = bench.end().await;
    assert!(matches!(end, End::Recorded { asked: false, earlier: false, .. }), "{end:?}");
    assert_eq!(end.of_job(), (Exit::Code(0), Some(6)));
    // And after it had ended.
    bench.runner.resume(bench.subjob(), false);
    let end = bench.end().await;
    assert!(matches!(end, End::Recorded { asked: false, earlier: true, .. }), "{end:?}");
    bench.runner.start(bench.subjob());
    assert!(matches!(bench.end().await, End::NotStarted(why) if why.contains("never started again")));
    assert_eq!((bench.starts(), bench.runner.stops.lock().len()), (1, 0));
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
