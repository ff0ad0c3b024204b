//! What is asked of a federation, and what comes of it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use pliant_client::{Client, ClientError, SubmitOrder};
use pliant_control::agent::{ReallocationConfig, ReallocationReport};
use pliant_control::handoff::MoveOutcome;
use pliant_control::job::{JobRecord, Work};
use pliant_control::names::{Handle, Key};
use pliant_model::{Procs, Span, Speedup};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_staging::{Checksum, FileSpec, ResultName};
use pliant_wire::{Download, JobsQuery, Script, SubmittedWork};
use rand_chacha::rand_core::{OsRng, TryRngCore};

use super::{TIMEOUT, until};

/// A random key.
pub(crate) fn fresh_key() -> Key {
    let mut bytes = [0; 16];
    OsRng.try_fill_bytes(&mut bytes).unwrap();
    Key(bytes)
}

/// A submission of that, to whomever.
pub(crate) fn order(what: SubmittedWork) -> SubmitOrder {
    SubmitOrder { timeout: TIMEOUT, ..SubmitOrder::new(fresh_key(), what) }
}

/// A submission of that, to one server.
pub(crate) fn order_to(server: &str, what: SubmittedWork) -> SubmitOrder {
    SubmitOrder { only: Some(server.parse().unwrap()), ..order(what) }
}

/// A call of a service.
pub(crate) fn service(name: &str, arguments: &[(&str, &str)]) -> SubmittedWork {
    let arguments = arguments.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    SubmittedWork::Service { name: name.to_owned(), arguments }
}

/// A shell script of a fixed size.
pub(crate) fn rigid(text: &str, procs: u32, walltime_s: i64) -> SubmittedWork {
    script(text, procs, walltime_s, Speedup::Rigid)
}

/// A shell script.
pub(crate) fn script(text: &str, procs: u32, walltime_s: i64, speedup: Speedup) -> SubmittedWork {
    let work = Work::new(Procs(procs), Span(walltime_s), speedup);
    let text = format!("#!/bin/sh\n{text}\n").into();
    SubmittedWork::Script(Script::new("job.sh".to_owned(), text, work))
}

/// A script that notes its handle in a file that all jobs share: one line for each time that one runs.
pub(crate) fn noting(lines: &Path, rest: &str) -> String {
    format!("echo $PLIANT_JOB >> '{}'; echo I am $PLIANT_JOB; {rest}", lines.display())
}

/// How often each job has run.
pub(crate) fn runs(lines: &Path) -> BTreeMap<String, u32> {
    let mut runs = BTreeMap::new();
    for line in fs::read_to_string(lines).unwrap_or_default().lines() {
        *runs.entry(line.to_owned()).or_default() += 1;
    }
    runs
}

/// Runs until that file is there.
pub(crate) fn waiting_for(gate: &Path) -> String {
    format!("while [ ! -e '{}' ]; do sleep 0.05; done", gate.display())
}

/// Submits and returns the record of the acceptance.
pub(crate) async fn submit(client: &Client, order: &SubmitOrder) -> JobRecord {
    *client.submit(order, |_| Ok(())).await.unwrap()
}

/// Submits and waits for the end.
pub(crate) async fn run(client: &Client, order: &SubmitOrder) -> JobRecord {
    let accepted = submit(client, order).await;
    client.wait(&accepted.handle, |_| {}).await.unwrap()
}

/// An input file, announced under that name.
pub(crate) fn input(name: &str, path: &Path) -> (FileSpec, PathBuf) {
    let (sha256, size) = Checksum::of_reader(File::open(path).unwrap()).unwrap();
    (FileSpec { name: name.parse().unwrap(), size, sha256 }, path.to_owned())
}

/// Waits until the agent lists exactly the jobs that ran, and says of each what its server says.
pub(crate) async fn agree(root: &Client, lines: &Path) {
    let query =
        JobsQuery { owner: None, all: true, server: None, states: Vec::new(), limit: 1000, before: None };
    let jobs = until("the agent to list what ran, and every end", async || {
        let jobs = root.jobs(&query).await.ok()?.jobs;
        let mut listed: Vec<String> = jobs.iter().map(|job| job.handle.to_string()).collect();
        listed.sort();
        let ended = jobs.iter().all(|job| job.state.is_final());
        (ended && listed == runs(lines).into_keys().collect::<Vec<_>>()).then_some(jobs)
    })
    .await;
    for job in jobs {
        let own = root.job(&job.handle).await.unwrap();
        assert_eq!((own.state, own.exit, own.key, own.ended), (job.state, job.exit, job.key, job.ended));
    }
}

/// Fetches everything that a job left: contents by name.
pub(crate) async fn fetched(client: &Client, handle: &Handle) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    for file in client.results(handle).await.unwrap().files {
        client.fetch(handle, &file, folder.path()).await.unwrap();
    }
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.path().to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Asserts that a call was refused with words that say why.
pub(crate) fn refused<A: Debug>(answer: Result<A, ClientError>, words: &[&str]) {
    let error = answer.expect_err("this must be refused").to_string();
    assert!(words.iter().all(|word| error.contains(word)), "expected {words:?} in: {error}");
}

/// The standard output of a job from its beginning.
pub(crate) fn stdout_of(handle: &Handle) -> Download {
    Download { handle: handle.clone(), name: ResultName::Stdout, offset: 0, follow: false, run: None }
}

/// Moves jobs on demand, for any gain of at least a minute.
pub(crate) fn on_demand() -> ReallocationConfig {
    let policy = Reallocation::new(Algorithm::Regular, Heuristic::Mct);
    ReallocationConfig { policy: Reallocation { period: Span(86_400), ..policy }, early: None }
}

/// The jobs that a reallocation cycle has moved.
pub(crate) fn moved(report: &ReallocationReport) -> Vec<&Handle> {
    let moved = report.proposals.iter().filter(|one| matches!(one.outcome, Some(MoveOutcome::Moved(_))));
    moved.map(|one| &one.job).collect()
}
