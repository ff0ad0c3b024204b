//! The whole simulator on real logs, job for job, against schedules that independent simulators made of them
//! (../shared/oracle/README.md; docs/validation.md).
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use pliant_model::{Job, Platform, Procs, Run, Span, Speedup, Time};
use pliant_sim::{Policies, Silent, SimJob, Ties, simulate};

#[derive(Clone, Copy)]
struct Log {
    /// Its name among the schedules.
    name: &'static str,
    file: &'static str,
    procs: u32,
    jobs: usize,
}

const KTH: Log = Log { name: "kth", file: "KTH-SP2-1996-2.1-cln.swf.gz", procs: 100, jobs: 28_467 };
const NASA: Log = Log { name: "nasa", file: "NASA-iPSC-1993-3.1-cln.swf.gz", procs: 128, jobs: 18_066 };
const CTC: Log = Log { name: "ctc", file: "CTC-SP2-1996-3.1-cln.swf.gz", procs: 338, jobs: 77_205 };

/// The text of a compressed file that lies outside the repository.
fn unpacked(variable: &str, folder: &str, name: &str) -> Option<String> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder);
    let path = std::env::var_os(variable).map_or_else(beside, PathBuf::from).join(name);
    let Ok(file) = std::fs::File::open(&path) else {
        println!("skipped: {} is absent (set {variable})", path.display());
        return None;
    };
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    Some(text)
}

/// A line of a log, repaired as everybody does: without a runtime or processors it is dropped, the walltime
/// is the runtime if none was asked for, and no job runs past its walltime.
fn job(line: &str) -> Option<SimJob> {
    let numbers = line.split_whitespace().map_while(|field| field.parse::<f64>().ok());
    let fields: Vec<i64> = numbers.map(|value| value as i64).collect();
    let [id, submit, _, runtime, allocated, _, _, requested, limit, ..] = fields[..] else { return None };
    let procs = if allocated > 0 { allocated } else { requested };
    if runtime <= 0 || procs <= 0 {
        return None;
    }
    let walltime = if limit > 0 { limit } else { runtime };
    let job = Job {
        log_id: id as u64,
        submit: Time(submit),
        procs: Procs(procs as u32),
        walltime: Span(walltime),
        runtime: Span(runtime.min(walltime)),
        user: -1,
        group: -1,
        executable: -1,
        origin: None,
    };
    Some(SimJob { job, speedup: Speedup::Rigid, managed: true })
}

/// The jobs of a log, sorted by submission, the first at 0.
fn jobs(log: Log) -> Option<Vec<SimJob>> {
    let text = unpacked("PLIANT_TRACES", "traces", log.file)?;
    let mut jobs: Vec<SimJob> = text.lines().filter_map(job).collect();
    jobs.sort_by_key(|one| one.job.submit);
    let first = jobs[0].job.submit;
    for one in &mut jobs {
        one.job.submit = Time::ZERO + (one.job.submit - first);
    }
    assert_eq!(jobs.len(), log.jobs, "{}: jobs after repairs", log.name);
    Some(jobs)
}

/// The start of each job by its number, as other simulators have it.
fn schedule(log: Log, policy: &str) -> Option<BTreeMap<u64, i64>> {
    let text = unpacked("PLIANT_ORACLE", "oracle", &format!("{}.{policy}.csv.gz", log.name))?;
    let rows = text.lines().skip(1).map(|line| line.split_once(',').unwrap());
    Some(rows.map(|(id, start)| (id.parse().unwrap(), start.parse().unwrap())).collect())
}

fn simulated(log: Log, jobs: &[SimJob], batch: &str, ties: Ties) -> Run {
    let platform = Platform::single(Procs(log.procs), batch).unwrap();
    let run = simulate(&platform, jobs, &Policies { ties, ..Policies::default() }, &mut Silent).unwrap();
    assert_eq!((run.jobs.len(), run.refused.len()), (jobs.len(), 0), "{} {batch}", log.name);
    run
}

fn mean_wait_s(run: &Run) -> f64 {
    run.jobs.iter().map(|ran| ran.wait().0).sum::<i64>() as f64 / run.jobs.len() as f64
}

/// Every start is the schedule's; returns the mean wait in seconds, none if a file is absent.
fn check(log: Log, batch: &str, ties: Ties, policy: &str) -> Option<f64> {
    let (jobs, expected) = (jobs(log)?, schedule(log, policy)?);
    assert_eq!(jobs.len(), expected.len(), "{} {policy}: jobs of the schedule", log.name);
    let run = simulated(log, &jobs, batch, ties);
    let other = run.jobs.iter().find(|ran| expected.get(&ran.log_id) != Some(&ran.start.0));
    assert_eq!(
        other,
        None,
        "{} {policy}: starts at {:?} there",
        log.name,
        other.map(|ran| expected[&ran.log_id])
    );
    Some(mean_wait_s(&run))
}

fn check_mean(log: Log, batch: &str, ties: Ties, policy: &str, expected_s: f64) {
    if let Some(mean_s) = check(log, batch, ties, policy) {
        assert!((mean_s - expected_s).abs() < 0.000_5, "{} {policy}: mean wait {mean_s} s", log.name);
    }
}

#[test]
fn conservative_backfilling_on_kth() {
    check_mean(KTH, "cbf", Ties::SubmitFirst, "cbf.submit-first", 7_343.789);
    check_mean(KTH, "cbf", Ties::FinishFirst, "cbf.finish-first", 7_343.788);
}

#[test]
fn conservative_backfilling_on_nasa_and_ctc() {
    check_mean(NASA, "cbf", Ties::SubmitFirst, "cbf.submit-first", 4.067);
    check_mean(CTC, "cbf", Ties::SubmitFirst, "cbf.submit-first", 16_751.820);
}

#[test]
fn first_come_first_served() {
    for (log, mean_wait_s) in [(KTH, 354_175.950), (NASA, 8.081), (CTC, 655_548.457)] {
        check_mean(log, "fcfs", Ties::FinishFirst, "fcfs", mean_wait_s);
    }
}

#[test]
fn easy_backfilling() {
    for (log, mean_wait_s) in [(KTH, 6_892.864), (NASA, 4.067), (CTC, 14_271.527)] {
        check_mean(log, "easy", Ties::SubmitFirst, "easy", mean_wait_s);
    }
}
