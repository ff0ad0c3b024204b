//! FCFS, EASY and CBF, job for job, against schedules that independent simulators made of real logs.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod driver;

use driver::{TestJob, Ties, logs, replay};

const KTH: (&str, &str, u32) = ("kth", "KTH-SP2-1996-2.1-cln.swf.gz", 100);
const NASA: (&str, &str, u32) = ("nasa", "NASA-iPSC-1993-3.1-cln.swf.gz", 128);
const CTC: (&str, &str, u32) = ("ctc", "CTC-SP2-1996-3.1-cln.swf.gz", 338);

fn check(log: (&str, &str, u32), policy: &str, ties: Ties, expected: usize) {
    check_file(log, policy, policy, ties, expected);
}

fn check_file(
    (short, log, procs): (&str, &str, u32),
    policy: &str,
    schedule: &str,
    ties: Ties,
    expected: usize,
) {
    let (Some(log), Some(oracle)) = (logs::log(log), logs::oracle(&format!("{short}.{schedule}.csv.gz")))
    else {
        return;
    };
    let jobs: Vec<TestJob> = log.iter().map(|(_, job)| *job).collect();
    assert_eq!(jobs.len(), oracle.len(), "{short}: another number of jobs than the oracle has");
    let ran = replay(policy, procs, &jobs, ties);
    let other = log.iter().zip(ran).filter(|((id, _), ran)| Some(&ran.unwrap().start) != oracle.get(id));
    assert_eq!(
        other.count(),
        expected,
        "{short} {policy} {ties:?}: jobs with another start than the oracle has"
    );
}

#[test]
fn fcfs_equals_the_others() {
    for log in [KTH, NASA, CTC] {
        for ties in [Ties::FinishFirst, Ties::SubmitFirst] {
            check(log, "fcfs", ties, 0);
        }
    }
}

#[test]
fn easy_equals_the_others() {
    for log in [KTH, NASA, CTC] {
        check(log, "easy", Ties::SubmitFirst, 0);
    }
    // The oracle is made with submissions first. The order can matter only where a job is submitted at the
    // instant at which another ends early; it does on CTC.
    check(KTH, "easy", Ties::FinishFirst, 0);
    check(NASA, "easy", Ties::FinishFirst, 0);
    check(CTC, "easy", Ties::FinishFirst, 98);
}

#[test]
fn cbf_equals_the_others() {
    for log in [KTH, NASA, CTC] {
        check_file(log, "cbf", "cbf.submit-first", Ties::SubmitFirst, 0);
    }
    check_file(KTH, "cbf", "cbf.finish-first", Ties::FinishFirst, 0);
}
