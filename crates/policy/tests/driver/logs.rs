//! Real logs and other simulators' schedules of them, found outside the repository; tests that need them say
//! that they are skipped when they are absent.
#![allow(clippy::disallowed_methods, reason = "the crate reads no files, its tests on real logs do")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;

use super::TestJob;

/// The jobs of a log with their numbers, repaired in the default way: without a runtime or processors a job
/// is dropped, the walltime is the runtime if none was asked for, and no job runs past its walltime.
pub(crate) fn log(name: &str) -> Option<Vec<(u64, TestJob)>> {
    let text = read("PLIANT_TRACES", "traces", name)?;
    let mut jobs: Vec<(u64, TestJob)> = text.lines().filter_map(job).collect();
    jobs.sort_by_key(|(_, job)| job.submit);
    let first = jobs[0].1.submit;
    for (_, job) in &mut jobs {
        job.submit -= first;
    }
    Some(jobs)
}

fn job(line: &str) -> Option<(u64, TestJob)> {
    let fields: Vec<i64> = line
        .split_whitespace()
        .map_while(|field| field.parse::<f64>().ok().map(|value| value as i64))
        .collect();
    let [id, submit, _, runtime, allocated, _, _, requested, limit, ..] = fields[..] else { return None };
    let procs = if allocated > 0 { allocated } else { requested };
    if runtime <= 0 || procs <= 0 {
        return None;
    }
    let walltime = if limit > 0 { limit } else { runtime };
    let runtime = runtime.min(walltime);
    Some((id as u64, TestJob { submit, procs: procs as u32, walltime, runtime, cancel: None }))
}

/// The start of each job by its number, as other simulators have it.
pub(crate) fn oracle(name: &str) -> Option<BTreeMap<u64, i64>> {
    let text = read("PLIANT_ORACLE", "oracle", name)?;
    let rows = text.lines().skip(1).map(|line| {
        let (id, start) = line.split_once(',').unwrap();
        (id.parse().unwrap(), start.parse().unwrap())
    });
    Some(rows.collect())
}

fn read(variable: &str, folder: &str, name: &str) -> Option<String> {
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
