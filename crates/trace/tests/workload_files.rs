//! Workload files: logs placed by the calendar or at the start, windows, generated parts, and what can be wrong.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use pliant_model::{ClusterId, Platform};
use pliant_trace::{LoadOptions, RepairOptions, TraceError, Workload, load, platform};
use support::{CLEAN, STRICT, gzip};

const DAY: i64 = 86_400;
/// 1996-09-30, 00:00 UTC.
const MONDAY: i64 = 844_041_600;

/// A log with one job of 10 s at each time, and perhaps a start.
fn log(start: Option<i64>, at: &[i64]) -> String {
    let mut text = start.map_or(String::new(), |start| format!("; UnixStartTime: {start}\n; MaxProcs: 4\n"));
    for (index, at) in at.iter().enumerate() {
        text.push_str(&format!(
            "{} {at} -1 10 1 -1 -1 1 10 -1 1 {} 1 -1 -1 -1 -1 -1\n",
            index + 1,
            index + 1
        ));
    }
    text
}

/// Loads the workload file `text` in a folder with the logs `a`, `b` (a day later) and `bare` (no start);
/// `elsewhere.swf.gz` is in a folder for logs.
fn read(text: &str, repair: RepairOptions) -> Result<Workload, TraceError> {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let logs = folder.path().join("logs");
    std::fs::create_dir(&logs).expect("writable");
    let write = |path: std::path::PathBuf, content: &[u8]| std::fs::write(path, content).expect("writable");
    write(folder.path().join("a.swf"), log(Some(MONDAY), &[100, DAY - 1, DAY, 2 * DAY]).as_bytes());
    write(folder.path().join("b.swf"), log(Some(MONDAY + DAY), &[50, 60]).as_bytes());
    write(folder.path().join("bare.swf"), log(None, &[7, 9]).as_bytes());
    write(folder.path().join("odd.swf"), (log(None, &[7, 9]) + "x\n").as_bytes());
    write(logs.join("elsewhere.swf.gz"), &gzip(log(None, &[7, 9]).as_bytes()));
    let path = folder.path().join("workload.toml");
    write(path.clone(), text.as_bytes());
    load(&path, &LoadOptions { repair, log_dirs: vec![logs] })
}

/// Jobs as number@submission:partition, or the error and its hint without the folder.
fn check(text: &str, expected: &str) {
    let shown = match read(text, CLEAN) {
        Ok(workload) => {
            support::invariants::schedulable(&workload);
            let jobs = workload.jobs.iter().zip(&workload.partitions);
            let jobs: Vec<String> =
                jobs.map(|(job, partition)| format!("{}@{}:{partition}", job.log_id, job.submit)).collect();
            jobs.join(" ")
        }
        Err(error) => {
            let text = error.to_string();
            let name = error.path.file_name().expect("a file").to_string_lossy().into_owned();
            let rest = text.strip_prefix(&error.path.display().to_string()).expect("the file comes first");
            format!("{name}{rest}\n{}", error.hint().unwrap_or_default())
        }
    };
    assert_eq!(shown, expected, "for {text}");
}

const A: &str = "[[log]]\nfile = \"a.swf\"\ncluster = \"x\"\n";
const B: &str = "[[log]]\nfile = \"b.swf\"\ncluster = \"y\"\n";
const GENERATED: &str = "[[generate]]\ncluster = \"g\"\nprocs = 16\njobs = 50\ndays = 2.0\nload = 0.5\n";
const BARE: &str = "[[log]]\nfile = \"bare.swf\"\ncluster = \"z\"\n";

#[test]
fn logs_meet_on_the_calendar() {
    check(&[A, B].concat(), "1@0:1 2@86299:1 3@86300:1 4@86350:2 5@86360:2 6@172700:1");
    let workload = read(&["name = \"both\"\n", B, A].concat(), CLEAN).unwrap();
    assert_eq!((workload.name.as_str(), workload.unix_start), ("both", Some(MONDAY + 100)));
    assert_eq!((workload.max_procs, workload.report.read, workload.report.kept), (Some(8), 6, 6));
    assert_eq!(read(A, CLEAN).unwrap().name, "workload");
}

#[test]
fn windows_hold_whole_days_both_ends_included() {
    let window = |from: &str, to: &str| format!("{A}from = {from}\nto = {to}\n");
    check(&window("1996-09-30", "1996-09-30"), "1@0:1 2@86299:1");
    check(&window("1996-10-01", "1996-10-02"), "1@0:1 2@86400:1");
    check(&format!("{A}from = 1996-10-02\n"), "1@0:1");
    check(&format!("{A}to = 1996-09-30\n"), "1@0:1 2@86299:1");
    let workload = read(&window("1996-10-01", "1996-10-01"), CLEAN).unwrap();
    assert_eq!((workload.report.read, workload.report.kept, workload.unix_start), (1, 1, Some(MONDAY + DAY)));
}

#[test]
fn logs_may_begin_together() {
    check(
        &format!("{A}align = \"start\"\n{B}align = \"start\"\n"),
        "1@0:1 2@0:2 3@10:2 4@86299:1 5@86300:1 6@172700:1",
    );
    check(&format!("{A}from = 1996-10-01\nalign = \"start\"\n{B}"), "1@0:1 2@0:2 3@10:2 4@86400:1");
    check(&[BARE, B].concat(), "1@0:1 2@0:2 3@2:1 4@10:2");
    assert_eq!(read(BARE, CLEAN).unwrap().max_procs, None, "an unknown size is not a size");
}

#[test]
fn two_logs_of_one_cluster_share_its_partition() {
    let text = format!("{A}{}", B.replace('y', "x"));
    let workload = read(&text, CLEAN).unwrap();
    assert_eq!(workload.partition_names.into_iter().collect::<Vec<_>>(), [(1, "x".to_owned())]);
    assert_eq!(workload.max_procs, Some(4));
}

#[test]
fn users_of_different_clusters_are_different() {
    let workload = read(&[A, B].concat(), CLEAN).unwrap();
    let users: BTreeSet<i32> = workload.jobs.iter().map(|job| job.user).collect();
    assert_eq!(users.len(), 6, "both logs number theirs from 1");
    let same = read(&[A, &B.replace('y', "x")].concat(), CLEAN).unwrap();
    let users: BTreeSet<i32> = same.jobs.iter().map(|job| job.user).collect();
    assert_eq!(users.len(), 4, "users of one cluster are the same in all its logs");
}

#[test]
fn logs_are_looked_for_in_the_folders_given_too() {
    check("[[log]]\nfile = \"elsewhere.swf.gz\"\ncluster = \"z\"\n", "1@0:1 2@2:1");
}

#[test]
fn jobs_belong_to_the_clusters_named() {
    let mut workload = read(&[A, B].concat(), CLEAN).unwrap();
    let grid = platform::built_in("grid5000").unwrap();
    let cluster = |index: usize, name: &str| {
        let mut cluster = grid.clusters()[index].clone();
        cluster.name = name.to_owned();
        cluster
    };
    let platform = Platform::new(vec![cluster(0, "Y"), cluster(1, "w")]).unwrap();
    assert_eq!(workload.resolve_origins(&platform), 4, "no cluster is called x");
    let found: Vec<_> = workload.jobs.iter().filter_map(|job| job.origin).collect();
    assert_eq!(found, [ClusterId(0); 2]);
}

#[test]
fn generated_parts_join_logs() {
    let part = GENERATED;
    let workload = read(&[part, A].concat(), CLEAN).unwrap();
    assert_eq!((workload.jobs.len(), workload.max_procs), (54, Some(20)));
    assert_eq!(workload.partitions.iter().filter(|partition| **partition == 2).count(), 50);
    assert_eq!(workload.partition_names[&2], "g");
    assert_eq!(read(part, CLEAN).unwrap(), read(&format!("{part}seed = 1\n"), CLEAN).unwrap());
    assert_ne!(read(part, CLEAN).unwrap(), read(&format!("{part}seed = 2\n"), CLEAN).unwrap());
    assert_eq!(read(part, CLEAN).unwrap().jobs[0].submit.0, 0);
}

#[test]
fn faults_of_the_logs_and_faults_that_strictness_finds_name_the_log() {
    check(
        "[[log]]\nfile = \"odd.swf\"\ncluster = \"x\"\n",
        "odd.swf:3:1: expected a number (job number), found `x`\nsee docs/reference/files/formats.md for the fields of each format",
    );
    let error = read(A, STRICT).map(|workload| workload.report.kept);
    assert_eq!(error.unwrap(), 4, "nothing to repair");
}

#[test]
fn errors_say_line_column_and_key() {
    let list = "a workload file is a list of [[log]] with file and cluster, and of [[generate]]";
    let bad = |text: &str, expected: &str| check(text, &format!("workload.toml:{expected}"));
    bad("", &format!("1:1: expected at least one [[log]] or [[generate]], found none\n{list}"));
    bad("[[log]\n", &format!("1:7: unclosed array table, expected `]`\n{list}"));
    bad(
        &format!("{A}until = 1996-09-30\n"),
        &format!(
            "4:1: unknown key `until`, expected one of `file`, `cluster`, `from`, `to`, `align`\n{list}"
        ),
    );
    bad("[[log]]\nfile = \"a.swf\"\n", &format!("1:1: missing key `cluster`\n{list}"));
    bad(
        "[[log]]\nfile = \"c.swf\"\ncluster = \"x\"\n",
        "2:8: `file`: expected a log, found no file `c.swf`\nlogs are searched in the folder of this file, in --traces and in PLIANT_TRACES",
    );
    bad(
        "[[log]]\nfile = \"b.toml\"\ncluster = \"x\"\n",
        "2:8: `file`: expected a log, found the workload file `b.toml`\nworkload files do not nest",
    );
    bad(
        &format!("{A}align = \"left\"\n"),
        "4:9: `align`: expected an alignment (calendar, start), found `left`\n`start` puts the first job at 0",
    );
}

#[test]
fn bad_windows_say_what_is_there() {
    let bad = |text: &str, expected: &str| check(text, &format!("workload.toml:{expected}"));
    let plain = "write it without quotes and without a time";
    bad(
        &format!("{A}from = 1996-09-30T10:00:00\n"),
        &format!("4:8: `from`: expected a day such as 1996-09-30, found 1996-09-30T10:00:00\n{plain}"),
    );
    bad(
        &format!("{A}to = 10:00:00\n"),
        &format!("4:6: `to`: expected a day such as 1996-09-30, found 10:00:00\n{plain}"),
    );
    bad(
        &format!("{A}from = 1996-10-02\nto = 1996-10-01\n"),
        "5:6: `to`: expected 1996-10-02 or a later day, found 1996-10-01\n`from` is the first day, `to` the last one",
    );
    bad(
        &format!("{A}from = 2008-01-01\n"),
        "2:8: `file`: expected jobs between `from` and `to`, found them from 1996-09-30 to 1996-10-02 only\n\
         days are those of UTC, by the log's UnixStartTime",
    );
    for rest in ["from = 1996-09-30", "to = 1996-09-30", "align = \"calendar\""] {
        bad(
            &format!("{BARE}{rest}\n"),
            "2:8: `file`: `from`, `to` and align = \"calendar\" need a log with UnixStartTime, `bare.swf` has none\n\
             leave the window out and use align = \"start\"",
        );
    }
    for date in ["1996-13-01", "\"1996-09-30\"", "1996-02-30"] {
        let error = read(&format!("{A}from = {date}\n"), CLEAN).unwrap_err().to_string();
        assert!(error.contains("workload.toml:4:"), "{error}");
    }
}

#[test]
fn generated_parts_are_bounded() {
    let part = |key: &str, value: &str| {
        let mut text = "[[generate]]\ncluster = \"g\"\n".to_owned();
        for (name, usual) in [("procs", "16"), ("jobs", "50"), ("days", "2.0"), ("load", "0.5")] {
            text.push_str(&format!("{name} = {}\n", if name == key { value } else { usual }));
        }
        text
    };
    let bad = |key: &str, value: &str, expected: &str| {
        check(&part(key, value), &format!("workload.toml:{expected}"))
    };
    bad(
        "procs",
        "0",
        "3:9: `procs`: expected at least 1, found 0\nthe size of the cluster that the jobs are made for",
    );
    for jobs in ["0", "4294967295"] {
        bad(
            "jobs",
            jobs,
            &format!(
                "4:8: `jobs`: expected 1 to 20000000, found {jobs}\nsplit the workload over several files"
            ),
        );
    }
    let section = "see docs/reference/files/workload.md";
    for days in ["0.0", "-1.0", "inf", "nan", "1e9"] {
        let found = if days == "nan" { "NaN".to_owned() } else { days.parse::<f64>().unwrap().to_string() };
        bad(
            "days",
            days,
            &format!("5:8: `days`: expected a number above 0 and at most 36500, found {found}\n{section}"),
        );
    }
    bad(
        "load",
        "-0.5",
        &format!("6:8: `load`: expected a number above 0 and at most 1000, found -0.5\n{section}"),
    );
    let list = "a workload file is a list of [[log]] with file and cluster, and of [[generate]]";
    let whole = "expected a whole number of 0 to 4294967295";
    bad("jobs", "-1", &format!("4:8: `jobs`: {whole}, found `-1`\n{list}"));
    bad("procs", "4.5", &format!("3:9: `procs`: {whole}, found `4.5`\n{list}"));
    bad("load", "\"high\"", &format!("6:8: `load`: expected a number, found \"high\"\n{list}"));
}

#[test]
fn clusters_have_names_that_results_can_hold() {
    for text in [A.replace("\"x\"", "\"x,y\""), GENERATED.replace("\"g\"", "\"x,y\"")] {
        let column = 11;
        let line = if text.starts_with("[[log]]") { 3 } else { 2 };
        check(
            &text,
            &format!(
                "workload.toml:{line}:{column}: `cluster`: expected a name of 1 to 64 printable characters, none of \
                 them a comma, semicolon or double quote, found `x,y`\ngive the name of a cluster of the platform"
            ),
        );
    }
}

#[test]
fn missing_files_say_so() {
    let error = load(Path::new("/no/such/workload.toml"), &LoadOptions::default()).unwrap_err();
    assert!(error.is_io() && error.to_string().starts_with("/no/such/workload.toml: "), "{error}");
}
