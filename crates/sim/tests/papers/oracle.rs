//! Compares simulations of real logs, job for job, with schedules of independent simulators and, in either order of the
//! events of one instant, with the reference implementations in [`reference`] (docs/research/validation.md).

mod reference;

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use pliant_model::{JobOutcome, Platform, Procs, Speedup};
use pliant_sim::Ties::{self, FinishFirst, SubmitFirst};
use pliant_sim::{NoObserver, Policies, SimJob, simulate};
use pliant_testing::{log, schedule};
use pliant_trace::{LoadOptions, load};

#[derive(Clone, Copy)]
struct Log {
    /// Its name in the file names of schedules.
    name: &'static str,
    file: &'static str,
    procs: u32,
    jobs: usize,
}

const KTH: Log = Log { name: "kth", file: "KTH-SP2-1996-2.1-cln.swf.gz", procs: 100, jobs: 28_467 };
const NASA: Log = Log { name: "nasa", file: "NASA-iPSC-1993-3.1-cln.swf.gz", procs: 128, jobs: 18_066 };
const CTC: Log = Log { name: "ctc", file: "CTC-SP2-1996-3.1-cln.swf.gz", procs: 338, jobs: 77_205 };

/// Its jobs after the default repairs, which are those of the other simulators. Managed jobs go through the federation, the
/// others directly to the cluster.
fn jobs(log_of: Log, managed: bool) -> Option<Vec<SimJob>> {
    let workload = load(&log(log_of.file)?, &LoadOptions::default()).unwrap();
    assert_eq!(workload.jobs.len(), log_of.jobs, "{}: jobs after repairs", log_of.name);
    let rigid = |job| SimJob { job, speedup: Speedup::Rigid, true_speedup: None, managed };
    Some(workload.jobs.into_iter().map(rigid).collect())
}

/// The start of each job by its number, from a schedule of another simulator.
fn reference_starts(log: Log, policy: &str) -> Option<BTreeMap<u64, i64>> {
    let file = std::fs::File::open(schedule(&format!("{}.{policy}.csv.gz", log.name))?).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split_once(',').unwrap());
    Some(rows.map(|(id, start)| (id.parse().unwrap(), start.parse().unwrap())).collect())
}

/// Simulates a log on one cluster. Every start must equal that of the reference implementation, if there is one, and all but
/// `others` that of the schedule in `file`; the mean wait is known to the millisecond.
fn check(log: Log, batch: &str, ties: Ties, (file, others): (&str, usize), mean_s: f64) {
    // On CTC thousands of jobs wait under FCFS: an estimate for each would take most of the time.
    let managed = ties == SubmitFirst && (log.name, batch) != ("ctc", "fcfs");
    let (Some(jobs), Some(elsewhere)) = (jobs(log, managed), reference_starts(log, file)) else {
        return;
    };
    let what = format!("{} {batch} {ties:?}", log.name);
    let platform = Platform::single(Procs(log.procs), batch).unwrap();
    let run = simulate(&platform, &jobs, &Policies { ties, ..Policies::default() }, &mut NoObserver).unwrap();
    assert_eq!((run.jobs.len(), run.refused.len(), elsewhere.len()), (log.jobs, 0, log.jobs), "{what}");
    if let Some(expected) = reference::starts(batch, log.procs, &jobs, ties) {
        let other = run.jobs.iter().zip(expected).find(|(ran, expected)| ran.start != *expected);
        assert_eq!(other, None, "{what}: a start differs from the reference implementation");
    }
    let other = |ran: &&JobOutcome| elsewhere.get(&ran.log_id) != Some(&ran.start.0);
    let first = run.jobs.iter().find(other);
    let count = run.jobs.iter().filter(other).count();
    assert_eq!(count, others, "{what}: starts that are not in {file}, the first {first:?}");
    let wait_s: i64 = run.jobs.iter().map(|ran| ran.wait().0).sum();
    let found_s = wait_s as f64 / run.jobs.len() as f64;
    assert!((found_s - mean_s).abs() < 0.000_5, "{what}: mean wait {found_s} s");
}

#[test]
fn first_come_first_served() {
    for (log, mean_s) in [(KTH, 354_175.950), (NASA, 8.081), (CTC, 655_548.457)] {
        for ties in [SubmitFirst, FinishFirst] {
            check(log, "fcfs", ties, ("fcfs", 0), mean_s);
        }
    }
}

/// The schedules have submissions first. The order matters only if a job is submitted at the second at which another ends
/// early, as on CTC (docs/research/validation.md).
#[test]
fn easy_backfilling() {
    for (log, mean_s) in [(KTH, 6_892.864), (NASA, 4.067)] {
        for ties in [SubmitFirst, FinishFirst] {
            check(log, "easy", ties, ("easy", 0), mean_s);
        }
    }
    check(CTC, "easy", SubmitFirst, ("easy", 0), 14_271.527);
    check(CTC, "easy", FinishFirst, ("easy", 98), 14_271.256);
}

#[test]
fn conservative_backfilling_on_kth_and_nasa() {
    check(KTH, "cbf", SubmitFirst, ("cbf.submit-first", 0), 7_343.789);
    check(KTH, "cbf", FinishFirst, ("cbf.finish-first", 0), 7_343.788);
    for ties in [SubmitFirst, FinishFirst] {
        check(NASA, "cbf", ties, ("cbf.submit-first", 0), 4.067);
    }
}

/// No schedule has terminations first; the reference implementation supports both orders.
#[test]
fn conservative_backfilling_on_ctc() {
    check(CTC, "cbf", SubmitFirst, ("cbf.submit-first", 0), 16_751.820);
    check(CTC, "cbf", FinishFirst, ("cbf.submit-first", 5_064), 16_804.507);
}
