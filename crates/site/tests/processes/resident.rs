//! A resident process under its supervisor: calls in turn, and whatever ends one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pliant_calls::frame::{self, FrameKind};
use pliant_calls::{Array, Value, decode, encode};
use pliant_site::processes::{
    CallSpec, Ending, Exit, JobLimits, NewCall, ProcessState, ResidentSpec, Residents, Running, find,
    put_call, terminate,
};
use pliant_wire::{CALL_OUTCOME, Outcome};
use tempfile::TempDir;

const SIGNATURE: &str = "in int mode, in int n, in double a[n][n], inout double b[n], in file data, out int pid, \
                         out string text[64], out file copy, in string gate";

/// This program, as the supervisor of the resident process in its last argument.
fn supervisor() -> Vec<OsString> {
    let own = std::env::current_exe().unwrap();
    [own.into_os_string()]
        .into_iter()
        .chain(["--exact", "as_resident", "--ignored", "--nocapture"].map(Into::into))
        .collect()
}

struct Bench {
    root: TempDir,
    residents: Residents,
    spec: ResidentSpec,
    calls: u32,
    stored: BTreeMap<String, PathBuf>,
    kept: BTreeMap<String, bool>,
}

/// A call under way, in its folder.
struct Call {
    running: Running,
    dir: PathBuf,
}

impl Bench {
    fn new(idle_s: u64) -> Bench {
        let root = tempfile::tempdir().unwrap();
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = root.path().join("service");
        let mut cc = Command::new("cc");
        cc.args(["-std=c99", "-D_DEFAULT_SOURCE", "-O1", "-I"])
            .arg(manifest.join("../../examples/resident-service"));
        cc.arg("-o").arg(&program).arg(manifest.join("../cli/tests/federation/calls/service.c"));
        let compiled = cc.output().unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let spec = ResidentSpec {
            program: vec![program.to_string_lossy().into_owned()],
            env: BTreeMap::new(),
            idle_s,
            grace_s: 1,
            max_output_bytes: 100,
            limits: JobLimits::default(),
        };
        let (stored, kept) = Default::default();
        Bench { root, residents: Residents::default(), spec, calls: 0, stored, kept }
    }

    fn call(&self, mode: i32, walltime_s: u64) -> CallSpec {
        let matrix = Value::Matrix { rows: 2, columns: 2, elements: Array::Double(vec![1.0, 2.0, 3.0, 4.0]) };
        let vector = Value::Vector(Array::Double(vec![1.0, 10.0]));
        let text = |text: &str| Some(Value::String(text.to_owned()));
        let gate = self.root.path().join("gate");
        let given = |name: &str, value| Some(value).filter(|_| !self.stored.contains_key(name));
        let values = [
            Some(Value::Int(mode)),
            Some(Value::Int(2)),
            given("a", matrix),
            given("b", vector),
            Some(Value::File("data".to_owned())),
            None,
            None,
            None,
            text(gate.to_str().unwrap()),
        ];
        CallSpec {
            signature: SIGNATURE.to_owned(),
            program: Vec::new(),
            env: BTreeMap::new(),
            formats: BTreeMap::new(),
            outputs: BTreeMap::new(),
            numbers: BTreeMap::new(),
            values: encode(&values).unwrap().into(),
            stored: self.stored.clone(),
            kept: self.kept.clone(),
            procs: 1,
            walltime_s,
            grace_s: 1,
        }
    }

    async fn start(&mut self, mode: i32, walltime_s: u64) -> Call {
        self.calls += 1;
        let dir = self.root.path().join(format!("jobs/{}", self.calls));
        put_call(&dir, self.call(mode, walltime_s)).unwrap();
        fs::write(dir.join("work/data"), "content").unwrap();
        self.hand_over(dir, None).await
    }

    async fn hand_over(&self, dir: PathBuf, new: Option<NewCall>) -> Call {
        let home = self.root.path().join("resident");
        let turn = self.residents.turn("f").await;
        let running = turn.hand_over((&supervisor(), &home), &self.spec, &dir, new).await.unwrap();
        Call { running, dir }
    }

    async fn run(&mut self, mode: i32) -> (Exit, Result<Vec<Option<Value>>, String>) {
        let mut call = self.start(mode, 60).await;
        ended(&mut call).await
    }
}

async fn ended(call: &mut Call) -> (Exit, Result<Vec<Option<Value>>, String>) {
    let Ending::Ended(exit) = call.running.ended().await.unwrap() else { panic!("it has no end") };
    let outcome = fs::read(call.dir.join("work").join(CALL_OUTCOME)).unwrap();
    let (header, payload) = frame::read(&mut &outcome[..]).unwrap().unwrap();
    let outcome = match header.kind {
        FrameKind::Result => Ok(decode(&payload).unwrap()),
        _ => Err(String::from_utf8(payload).unwrap()),
    };
    (exit, outcome)
}

fn pid(results: &[Option<Value>]) -> i32 {
    let Some(Value::Int(pid)) = results[5] else { panic!("{results:?}") };
    pid
}

#[tokio::test]
async fn calls_are_answered_in_turn_and_a_dead_process_is_replaced() {
    let mut bench = Bench::new(60);
    let (exit, results) = bench.run(0).await;
    let results = results.unwrap();
    assert!(exit.is_success(), "{exit:?}");
    let first = pid(&results);
    let file = Some(Value::File("copy".to_owned()));
    let text = Some(Value::String("done".to_owned()));
    let vector = Some(Value::Vector(Array::Double(vec![21.0, 43.0])));
    assert_eq!(results, [None, None, None, vector, None, Some(Value::Int(first)), text, file, None]);
    let dir = bench.root.path().join("jobs/1");
    assert_eq!(fs::read_to_string(dir.join("work/copy")).unwrap(), "content");
    assert_eq!(fs::read_to_string(dir.join("stderr")).unwrap(), "mode 0\n");

    for (mode, expected) in [
        (1, "the matrix is singular"),
        (3, "the results of the resident process: `b`: expected double[2], found double[1]"),
    ] {
        let (exit, failed) = bench.run(mode).await;
        assert_eq!((exit.outcome, failed.unwrap_err().as_str()), (Outcome::ExitCode(1), expected));
    }
    assert_eq!(pid(&bench.run(0).await.1.unwrap()), first, "failures of calls cost the process nothing");
    let (exit, failed) = bench.run(2).await;
    assert_eq!(exit.outcome, Outcome::Signal(9));
    assert_eq!(failed.unwrap_err(), "the resident process ended with signal 9 during the call");
    let second = pid(&bench.run(0).await.1.unwrap());
    assert_ne!(second, first);
    let (exit, failed) = bench.run(4).await;
    assert_eq!(exit.outcome, Outcome::ExitCode(1));
    assert!(
        failed.unwrap_err().starts_with("the resident process has written something else than an answer")
    );
    assert_ne!(pid(&bench.run(0).await.1.unwrap()), second);
}

#[tokio::test]
async fn a_call_is_cancelled_and_ended_at_its_walltime() {
    let mut bench = Bench::new(60);
    let first = pid(&bench.run(0).await.1.unwrap());
    let mut call = bench.start(5, 60).await;
    while !bench.root.path().join("gate").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(matches!(find(&call.dir).unwrap(), ProcessState::Running(_)), "as any job that runs");
    terminate(&call.dir).unwrap();
    let (exit, failed) = ended(&mut call).await;
    assert!(exit.cancelled && !exit.over_walltime, "{exit:?}");
    assert_eq!(failed.unwrap_err(), "the call was cancelled");
    drop(call);
    let mut call = bench.start(5, 1).await;
    let (exit, failed) = ended(&mut call).await;
    assert!(exit.over_walltime && !exit.cancelled, "{exit:?}");
    assert_eq!(failed.unwrap_err(), "the call has exceeded its walltime");
    drop(call);
    assert_ne!(pid(&bench.run(0).await.1.unwrap()), first);
}

#[tokio::test]
async fn what_cannot_be_started_says_why_and_is_tried_with_the_next_call() {
    let mut bench = Bench::new(60);
    let program = std::mem::replace(&mut bench.spec.program, vec!["/nonexistent/program".to_owned()]);
    let (exit, failed) = bench.run(0).await;
    let Outcome::NotStarted(why) = exit.outcome else { panic!("{exit:?}") };
    assert!(why.contains("`/nonexistent/program`: no such program"), "{why}");
    assert_eq!(failed.unwrap_err(), why);
    // The operator has mended the declaration.
    bench.spec.program = program;
    assert!(bench.run(0).await.0.is_success());
}

#[tokio::test]
async fn a_call_is_lost_with_its_supervisor_and_never_begun_twice() {
    let mut bench = Bench::new(60);
    let mut call = bench.start(5, 60).await;
    while !bench.root.path().join("gate").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let pid: i32 = fs::read_to_string(call.dir.join("lock")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let ending = call.running.ended().await.unwrap();
    assert!(matches!(ending, Ending::Lost(_)), "{ending:?}");
    let dir = call.dir.clone();
    drop(call);
    // Handed over again, as by a server that had not journaled its end, it is not begun.
    let new = NewCall { call: bench.call(5, 60), submitted: None };
    for new in [None, Some(new)] {
        let mut again = bench.hand_over(dir.clone(), new).await;
        assert!(matches!(again.running.ended().await.unwrap(), Ending::Lost(_)));
    }
    assert_eq!(fs::read_to_string(bench.root.path().join("gate")).unwrap(), "begun\n");
    assert!(bench.run(0).await.0.is_success());
}

#[tokio::test]
async fn an_answer_without_a_call_is_no_answer_to_the_next_one() {
    let mut bench = Bench::new(60);
    let first = pid(&bench.run(7).await.1.unwrap());
    for _ in 0..3 {
        let next = pid(&bench.run(0).await.1.unwrap());
        assert_ne!(next, first, "the process cannot be trusted with another call");
    }
}

#[tokio::test]
async fn a_process_that_writes_without_end_holds_up_no_call() {
    let mut bench = Bench::new(60);
    let first = pid(&bench.run(8).await.1.unwrap());
    for _ in 0..3 {
        assert_eq!(pid(&bench.run(0).await.1.unwrap()), first);
    }
    let kept = fs::read_to_string(bench.root.path().join("jobs/2/stderr")).unwrap();
    assert!(kept.len() < 200 && kept.ends_with("[pliant: further output was dropped]\n"), "{kept:?}");
}

#[tokio::test]
async fn what_a_dead_process_has_started_ends_with_it() {
    let mut bench = Bench::new(60);
    let (exit, _) = bench.run(9).await;
    assert_eq!(exit.outcome, Outcome::Signal(9));
    let child: i32 = fs::read_to_string(bench.root.path().join("gate")).unwrap().trim().parse().unwrap();
    let child = rustix::process::Pid::from_raw(child).unwrap();
    assert!(rustix::process::test_kill_process(child).is_err(), "it was in a session of its own");
}

#[tokio::test]
async fn values_stay_at_the_server_and_are_arguments_there() {
    let mut bench = Bench::new(60);
    bench.kept = [("a".to_owned(), true), ("b".to_owned(), false), ("text".to_owned(), true)].into();
    let results = bench.run(0).await.1.unwrap();
    let vector = Value::Vector(Array::Double(vec![21.0, 43.0]));
    let text = Some(Value::String("done".to_owned()));
    assert_eq!((&results[3], &results[6]), (&None, &text), "the vector stays, the text comes back, too");
    let dir = bench.root.path().join("jobs/1/kept");
    let read = |name: &str| decode(&fs::read(dir.join(name)).unwrap()).unwrap();
    assert_eq!((read("b"), read("text")), (vec![Some(vector)], vec![text]));
    bench.kept.clear();
    bench.stored = ["a", "b"].map(|name| (name.to_owned(), dir.join(name))).into();
    let results = bench.run(0).await.1.unwrap();
    assert_eq!(results[3], Some(Value::Vector(Array::Double(vec![107.0, 235.0]))));
    // Gone, or of another type than the parameter.
    bench.stored.insert("b".to_owned(), dir.join("none"));
    let why = bench.run(0).await.1.unwrap_err();
    assert_eq!(why, "`b`: expected its data at the server, found none any more");
    bench.stored.insert("b".to_owned(), dir.join("text"));
    let why = bench.run(0).await.1.unwrap_err();
    assert_eq!(why, "`b`: expected double[2], found string of 4 bytes");
}

#[tokio::test]
async fn files_of_a_call_are_its_inputs_and_no_others() {
    let bench = Bench::new(60);
    let secret = bench.root.path().join("secret");
    fs::write(&secret, "key of the server").unwrap();
    let (dir, outside) = (bench.root.path().join("jobs/1"), secret.to_string_lossy().into_owned());
    let call = |name: &str| CallSpec {
        signature: "in file data, out file copy".to_owned(),
        program: Vec::new(),
        env: BTreeMap::new(),
        formats: BTreeMap::new(),
        outputs: BTreeMap::new(),
        numbers: BTreeMap::new(),
        // As it comes in an input file, which nothing has looked at before.
        values: encode(&[Some(Value::File(name.to_owned())), None]).unwrap().into(),
        stored: BTreeMap::new(),
        kept: BTreeMap::new(),
        procs: 1,
        walltime_s: 60,
        grace_s: 1,
    };
    for (number, name, expected) in [
        (1, outside.as_str(), "a file name relative to the job's folder, without a leading `/`"),
        (2, "../../../secret", "a file name without `.` and `..`"),
        (3, "data", "an input file of the job"),
    ] {
        let dir = dir.with_file_name(number.to_string());
        put_call(&dir, call(name)).unwrap();
        if name == "data" {
            std::os::unix::fs::symlink(&secret, dir.join("work/data")).unwrap();
        }
        let (_, outcome) = ended(&mut bench.hand_over(dir, None).await).await;
        assert_eq!(outcome.unwrap_err(), format!("`data`: expected {expected}, found `{name}`"));
    }
}

#[tokio::test]
async fn the_supervisor_makes_the_folder_of_a_call_without_files() {
    let bench = Bench::new(60);
    let dir = bench.root.path().join("jobs/1");
    let new = || Some(NewCall { call: bench.call(0, 60), submitted: Some("{}".to_owned()) });
    let mut call = bench.hand_over(dir.clone(), new()).await;
    let (exit, outcome) = ended(&mut call).await;
    assert_eq!(exit.outcome, Outcome::ExitCode(1));
    assert_eq!(outcome.unwrap_err(), "`data`: expected an input file of the job, found `data`");
    assert_eq!(fs::read_to_string(dir.join("submitted.json")).unwrap(), "{}");
    drop(call);
    // A restarted server finds the end that was reported.
    let ProcessState::Ended(found) = find(&dir).unwrap() else { panic!("it has ended") };
    assert_eq!(found, exit);
    let kept = fs::read(dir.join("work").join(CALL_OUTCOME)).unwrap();
    assert_eq!((bench.residents.take_outcome(&dir), bench.residents.take_outcome(&dir)), (Some(kept), None));
    // Handed over again by mistake it is not begun: its end is the recorded one.
    let mut again = bench.hand_over(dir.clone(), new()).await;
    assert_eq!(ended(&mut again).await.0, exit);
    assert_eq!(bench.residents.take_outcome(&dir), None);
}

#[tokio::test]
async fn a_call_whose_folder_cannot_be_made_was_never_started() {
    let bench = Bench::new(60);
    fs::write(bench.root.path().join("jobs"), "in the way").unwrap();
    let dir = bench.root.path().join("jobs/1");
    let new = NewCall { call: bench.call(0, 60), submitted: None };
    let mut call = bench.hand_over(dir, Some(new)).await;
    let error = call.running.ended().await.unwrap_err();
    assert!(error.to_string().contains("jobs"), "{error}");
}
