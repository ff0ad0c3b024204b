//! Logs as streams: the same jobs as loading, in memory that does not grow, or a clear interruption.

mod support;

use std::path::Path;

use pliant_model::{ClusterId, Job, Platform};
use pliant_testing::log;
use pliant_trace::{LogStreamError, RepairReport, load, platform, stream, stream_from};
use support::{CLEAN, STRICT};

fn grid() -> Platform {
    platform::built_in("grid5000").expect("a built-in platform")
}

/// A job of that number, submission and partition.
fn line(id: i64, submit: i64, partition: i64) -> String {
    format!("{id} {submit} -1 10 2 -1 -1 -1 20 -1 1 3 4 5 -1 {partition} -1 -1\n")
}

/// The jobs of a stream and its report, or how it ended.
fn streamed(name: &str, text: &str) -> Result<(Vec<Job>, RepairReport), String> {
    let mut stream =
        stream_from(Path::new(name), text.as_bytes(), CLEAN, &grid()).map_err(|e| e.to_string())?;
    let jobs = stream.by_ref().collect::<Result<Vec<_>, _>>().map_err(|end| match end {
        LogStreamError::OutOfOrder => "needs the whole".to_owned(),
        LogStreamError::Failed(error) => error.to_string(),
    })?;
    Ok((jobs, stream.report()))
}

#[test]
fn jobs_come_with_origins_from_the_first_submission() {
    let header = "; MaxJobs: 9\n; Partition: 1 Lyon\n; Partition: 2 bordeaux\n";
    let dropped = line(1, 3, 1).replace(" 10 ", " 0 ");
    let text = format!("{header}{dropped}; Partition: 3 toulouse\n{}{}", line(2, 5, 1), line(3, 9, 3));
    let (jobs, report) = streamed("log.swf", &text).unwrap();
    let seen: Vec<_> = jobs.iter().map(|job| (job.log_id, job.submit.0, job.origin)).collect();
    assert_eq!(seen, [(2, 0, Some(ClusterId(1))), (3, 4, Some(ClusterId(2)))]);
    assert_eq!((report.read, report.kept), (3, 2));
    let stream = stream_from(Path::new("log.swf"), text.as_bytes(), CLEAN, &grid()).unwrap();
    assert_eq!((stream.expected_jobs(), stream.is_empty()), (Some(9), false));
}

#[test]
fn what_is_not_in_order_interrupts() {
    let interrupted = |text: String| assert_eq!(streamed("log.swf", &text).unwrap_err(), "needs the whole");
    interrupted(line(1, 5, 1) + &line(2, 9, 1) + &line(3, 8, 1));
    interrupted(line(1, 5, 1) + "; Partition: 1 lyon\n" + &line(2, 9, 1));
    interrupted(line(1, 5, 1) + "; Partition: 1 lyon\n");
    assert_eq!(
        streamed("log.swf", &(line(1, 5, 1) + "2 five")).unwrap_err(),
        "log.swf:2:3: expected a number (submit time), found `five`"
    );
    assert!(stream_from(Path::new("log.swf"), &b"x"[..], CLEAN, &grid()).is_err());
    let mut strict = stream_from(
        Path::new("log.swf"),
        &b"1 0 -1 1 1 -1 -1 1 1 -1 1 1 1 1 1 1 1 1\n7"[..],
        STRICT,
        &grid(),
    )
    .unwrap();
    assert!(strict.next().unwrap().is_ok());
    assert!(strict.next().unwrap().is_err() && strict.next().is_none(), "nothing after an error");
}

#[test]
fn logs_without_jobs_are_empty() {
    let dropped = line(1, 3, 1).replace(" 10 ", " -1 ");
    for (text, read) in [("", 0), ("; MaxJobs: 4\n", 0), (&dropped, 1)] {
        let mut stream = stream_from(Path::new("log.swf"), text.as_bytes(), CLEAN, &grid()).unwrap();
        assert!(stream.is_empty(), "{text}");
        assert!(stream.next().is_none());
        assert_eq!((stream.report().read, stream.report().kept), (read, 0));
    }
}

#[test]
fn only_files_of_lines_are_streamed() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["w.json", "w.toml"] {
        let path = folder.path().join(name);
        std::fs::write(&path, "{}").unwrap();
        assert!(stream(&path, CLEAN, &grid()).unwrap().is_none(), "{name}");
    }
    assert!(stream(folder.path(), CLEAN, &grid()).unwrap().is_none(), "no file at all");
    assert!(stream(&folder.path().join("absent.swf"), CLEAN, &grid()).is_err_and(|error| error.is_io()));
}

#[test]
fn a_real_log_streams_as_it_loads() {
    for file in ["KTH-SP2-1996-2.1-cln.swf.gz", "LCG.swf.gz"] {
        let Some(path) = log(file) else { return };
        let mut stream = stream(&path, CLEAN, &grid()).unwrap().unwrap();
        let jobs: Vec<Job> = stream.by_ref().map(|job| job.unwrap()).collect();
        let mut loaded = load(&path, &Default::default()).unwrap();
        loaded.resolve_origins(&grid());
        assert_eq!(stream.report(), loaded.report, "{file}");
        assert!(jobs == loaded.jobs, "{file}");
    }
}
