//! What holds for any bytes that are read as a workload: nothing panics, errors say where, and jobs can be
//! scheduled. Shared with the fuzz targets.

use std::collections::BTreeSet;
use std::path::Path;

use pliant_trace::{
    LoadOptions, LogStreamError, Repair, RepairOptions, RepairPolicy, Workload, info, load_from, platform,
    stream_from,
};

/// Reads `bytes` under every repair policy, strictly and not; `name` decides the format.
pub(crate) fn hold(name: &str, bytes: &[u8]) {
    for policy in [RepairPolicy::Clean, RepairPolicy::KeepBad] {
        let lenient = read(name, bytes, RepairOptions { policy, strict: false });
        let strict = read(name, bytes, RepairOptions { policy, strict: true });
        if let Some(strict) = strict {
            assert!(strict.report.counts.is_empty(), "strict, yet repaired: {}", strict.report);
            assert_eq!(Some(strict), lenient);
        }
        streamed(name, bytes, RepairOptions { policy, strict: false });
    }
}

/// A stream gives what loading gives, or says that it cannot.
fn streamed(name: &str, bytes: &[u8], repair: RepairOptions) {
    let path = Path::new(name);
    let loaded = load_from(path, bytes, &LoadOptions { repair, log_dirs: Vec::new() });
    for platform in platform::BUILT_IN.iter().filter_map(|name| platform::built_in(name)) {
        let mut stream = match stream_from(path, bytes, repair, &platform) {
            Ok(stream) => stream,
            Err(error) => {
                assert_eq!(error.to_string(), loaded.as_ref().expect_err("the same file").to_string());
                continue;
            }
        };
        let empty = stream.is_empty();
        match stream.by_ref().collect::<Result<Vec<_>, LogStreamError>>() {
            Ok(jobs) => {
                let mut loaded = loaded.as_ref().expect("the same file").clone();
                loaded.resolve_origins(&platform);
                assert_eq!(jobs, loaded.jobs);
                assert_eq!((stream.report(), empty), (loaded.report, jobs.is_empty()));
            }
            Err(LogStreamError::Failed(error)) => {
                assert_eq!(error.to_string(), loaded.as_ref().expect_err("the same file").to_string());
            }
            Err(LogStreamError::OutOfOrder) => {
                let ordered = |loaded: &Workload| {
                    loaded.report.count(Repair::OutOfOrder) == 0 && loaded.partition_names.is_empty()
                };
                assert!(!loaded.as_ref().is_ok_and(ordered), "interrupted for nothing");
            }
        }
    }
}

fn read(name: &str, bytes: &[u8], repair: RepairOptions) -> Option<Workload> {
    let options = LoadOptions { repair, log_dirs: Vec::new() };
    match load_from(Path::new(name), bytes, &options) {
        Ok(workload) => {
            schedulable(&workload);
            Some(workload)
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with(&format!("{name}:")), "expected the file first: {text}");
            assert!(text.len() < 1_000 && !text.contains('\n'), "expected one short line: {text}");
            None
        }
    }
}

/// What simulators rely on.
pub(crate) fn schedulable(workload: &Workload) {
    let Workload { jobs, partitions, report, .. } = workload;
    assert_eq!((jobs.len() as u64, jobs.len()), (report.kept, partitions.len()));
    assert!(report.read >= report.kept);
    assert!(jobs.first().is_none_or(|job| job.submit.0 == 0), "the first job is at 0");
    assert!(jobs.windows(2).all(|pair| pair[0].submit <= pair[1].submit), "sorted by submission");
    let numbers: BTreeSet<u64> = jobs.iter().map(|job| job.log_id).collect();
    assert_eq!(numbers.len(), jobs.len(), "every job has a number of its own");
    for job in jobs {
        assert!(job.procs.0 >= 1, "{job:?}");
        assert!(1 <= job.runtime.0 && job.runtime <= job.walltime, "{job:?}");
        assert!(job.walltime.0 <= 1_000_000_000_000 && job.submit.0 <= 1_000_000_000_000, "{job:?}");
        assert!(job.user >= -1 && job.group >= -1 && job.executable >= -1, "{job:?}");
    }
    let facts = info(workload);
    assert_eq!(facts.jobs, report.kept);
    let grid = platform::built_in("grid5000").expect("a built-in platform");
    let missing = workload.clone().resolve_origins(&grid);
    assert!(missing <= jobs.len());
}
