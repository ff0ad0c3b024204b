//! `pliant simulate` from the log to the result files: what is written, what is refused and what is said of it.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;
use std::path::Path;

use support::{Said, folder, run, swf};

/// Runs `pliant simulate` with these arguments.
fn simulate(arguments: &str, dir: &Path) -> Said {
    let mut words = vec!["simulate"];
    words.extend(arguments.split_whitespace());
    run(&words, dir)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A job line: number, submission, runtime, processors.
fn line(id: i64, submit: i64, run: i64, procs: i64) -> String {
    format!("{id} {submit} -1 {run} {procs} -1 -1 {procs} 90 -1 1 1 1 1 1 1 -1 -1\n")
}

#[test]
fn only_the_wanted_formats_are_written() {
    let dir = folder();
    let check = |formats: &str, expected: &[&str]| {
        let said = simulate(&format!("--workload log.swf --procs 32 --out out {formats}"), dir.path());
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{formats}");
        assert_eq!(names(&dir.path().join("out")), expected, "{formats}");
    };
    let all = ["jobs.csv", "jobs.parquet", "moves.csv", "refused.csv", "schedule.swf", "summary.json"];
    check("", &all);
    check("--files json", &["summary.json"]);
    check("--files csv,json", &["jobs.csv", "moves.csv", "refused.csv", "summary.json"]);
    check("--files swf --files parquet", &["jobs.parquet", "schedule.swf"]);
}

#[test]
fn nothing_of_an_earlier_run_survives() {
    let dir = folder();
    let report = "--workload log.swf --procs 32 --out out --report";
    assert_eq!(simulate(report, dir.path()).code, 0);
    fs::write(dir.path().join("out/notes.txt"), "mine").unwrap();
    assert!(dir.path().join("out/report.html").is_file());
    assert_eq!(simulate("--workload log.swf --procs 16 --out out --files json", dir.path()).code, 0);
    assert_eq!(names(&dir.path().join("out")), ["notes.txt", "summary.json"]);
    // Nor when the run fails, so that old results are not mistaken for new ones.
    fs::write(dir.path().join("bad.swf"), line(1, 0, 9, 1) + "2 x").unwrap();
    assert_eq!(simulate("--workload bad.swf --procs 16 --out out", dir.path()).code, 2);
    assert_eq!(names(&dir.path().join("out")), ["notes.txt"]);
}

#[test]
fn the_workload_is_never_removed() {
    let dir = folder();
    fs::create_dir(dir.path().join("out")).unwrap();
    fs::rename(dir.path().join("log.swf"), dir.path().join("out/schedule.swf")).unwrap();
    let said = simulate("--workload out/schedule.swf --procs 32 --out ./out", dir.path());
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("results would replace") && said.stderr.contains("--out"),
        "{}",
        said.stderr
    );
    assert_eq!(names(&dir.path().join("out")), ["schedule.swf"]);
}

/// The jobs of a run, without the names of its files.
fn jobs_of(workload: &str, dir: &Path) -> (String, serde_json::Value) {
    let arguments = format!(
        "--workload {workload} --platform three.toml --moldable paper --dedicated-share 0.5 --realloc regular \
         --period 10m --seed 4 --out out"
    );
    let said = simulate(&arguments, dir);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let summary = fs::read(dir.join("out/summary.json")).unwrap();
    let mut summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    summary["run"].as_object_mut().unwrap().retain(|key, _| key == "repairs");
    (fs::read_to_string(dir.join("out/jobs.csv")).unwrap(), summary)
}

/// A log in order is simulated while it is read, one out of order is sorted first: the results are the same.
#[test]
fn the_order_of_the_lines_changes_nothing_but_the_count() {
    let dir = folder();
    let log = swf(200).replace(" 1 1 1 1 1 1 -1 -1\n", " 1 1 1 1 1 2 -1 -1\n");
    let header = log.lines().take(2).map(|line| format!("{line}\n")).collect::<String>();
    let mut lines: Vec<&str> = log.lines().skip(2).collect();
    fs::write(dir.path().join("sorted.swf"), &log).unwrap();
    lines.swap(120, 150);
    fs::write(dir.path().join("mixed.swf"), header + &lines.join("\n")).unwrap();
    let (sorted, mut summary) = jobs_of("sorted.swf", dir.path());
    let (mixed, mixed_summary) = jobs_of("mixed.swf", dir.path());
    assert_eq!(sorted, mixed);
    assert!(summary["jobs_moved"].as_u64().unwrap() > 0, "the run is worth comparing");
    assert_eq!(mixed_summary["run"]["repairs"]["submitted-out-of-order"], 30);
    summary["run"] = mixed_summary["run"].clone();
    assert_eq!(summary, mixed_summary);
}

#[test]
fn a_log_from_a_pipe_is_read_once() {
    let dir = folder();
    let mut child = support::pliant(&["simulate", "--workload", "/dev/stdin", "--procs", "32"], dir.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let text = line(1, 50, 9, 1) + &line(2, 20, 9, 1);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("submitted before an earlier line"), "{said}");
}

/// The whole process, from the log to all result files, in 7 MB and 100 bytes per job.
#[cfg(target_os = "linux")]
#[test]
fn memory_stays_below_100_bytes_per_finished_job() {
    const JOBS: i64 = 250_000;
    let dir = folder();
    let log: String = (0..JOBS).map(|id| line(id, id * 7, 5 + id % 9, 1)).collect();
    fs::write(dir.path().join("long.swf"), log).unwrap();
    let limit_kb = 7_000 + JOBS * 100 / 1_000;
    let command = format!(
        "ulimit -d {limit_kb}; exec {} simulate --workload long.swf --procs 4 --batch fcfs --out out",
        env!("CARGO_BIN_EXE_pliant")
    );
    let output =
        std::process::Command::new("sh").args(["-c", &command]).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("jobs            250,000\n"), "{said}");
}

#[test]
fn jobs_without_a_number_of_their_own_are_counted() {
    let dir = folder();
    fs::write(dir.path().join("odd.swf"), [-1, 7, 7, -1].map(|id| line(id, 5, 9, 1)).concat()).unwrap();
    let said = simulate("--workload odd.swf --procs 4 --out out", dir.path());
    assert!(said.stdout.contains("2 (job number unknown, one given)"), "{}", said.stdout);
    assert!(said.stdout.contains("1 (job number of an earlier job, another given)"), "{}", said.stdout);
    let jobs = fs::read_to_string(dir.path().join("out/jobs.csv")).unwrap();
    let ids: Vec<&str> = jobs.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
    assert_eq!(ids, ["1000000000000001", "7", "1000000000000003", "1000000000000004"]);
}

#[test]
fn logs_without_jobs_are_refused() {
    let dir = folder();
    let check = |name: &str, text: &str, arguments: &str, error: &str, hint: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        let said = simulate(&format!("--workload {name} --procs 4 --out out {arguments}"), dir.path());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{name}: {}", said.stderr);
        assert!(said.stderr.contains(error) && said.stderr.contains(hint), "{name}: {}", said.stderr);
        assert!(!dir.path().join("out").exists(), "nothing is written");
    };
    let none = "expected a workload with jobs, found none in it";
    check("empty.swf", "", "", &format!("empty.swf: {none}"), "hint: is it the right file?");
    check("empty.gwf", "# nothing\n", "", none, "hint: ");
    check("header.swf", "; MaxJobs: 3\n", "", none, "hint: ");
    check("empty.json", r#"{"nb_res": 4, "jobs": [], "profiles": {}}"#, "", none, "hint: ");
    check(
        "one.swf",
        &line(1, 0, 0, 1),
        "",
        "found its only job dropped: 1 (did not run)",
        "--repair keep-bad",
    );
    let dropped = [line(1, 0, 0, 1), line(2, 0, -1, 1), line(3, 0, 9, 0)].concat();
    let error = "found all 3 jobs dropped: 2 (did not run), 1 (processors unknown)";
    check("dropped.swf", &dropped, "", error, "hint: --repair keep-bad");
    check("lost.swf", &line(3, 0, 9, -1), "--repair keep-bad", "1 (processors unknown)", "hint: docs/");
}

#[test]
fn a_platform_that_no_job_fits_is_impossible() {
    let dir = folder();
    fs::write(dir.path().join("wide.swf"), line(1, 0, 9, 40) + &line(2, 3, 9, 2_000)).unwrap();
    fs::write(dir.path().join("named.swf"), format!("; Partition: 1 elsewhere\n{}", line(1, 0, 9, 1)))
        .unwrap();
    let check = |arguments: &str, error: &str, hint: &str| {
        let said = simulate(arguments, dir.path());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{arguments}: {}", said.stderr);
        assert!(said.stderr.contains(error), "{arguments}: {}", said.stderr);
        assert!(said.stderr.contains(hint), "{arguments}: {}", said.stderr);
    };
    check(
        "--workload wide.swf --platform three.toml",
        "three.toml: `procs`: expected a platform that some job fits, found all 2 jobs refused: \
         larger than every cluster (asked for: 40 to 2,000 processors); the clusters have 16 (a), 24 (b), 32 (c)",
        "--moldable paper",
    );
    check(
        "--workload wide.swf --procs 4",
        "--procs 4: expected a platform that some job fits, found all 2 jobs refused: \
         larger than the cluster (asked for: 40 to 2,000 processors); the cluster has 4",
        "give larger clusters",
    );
    check(
        "--workload named.swf --platform three.toml --mapping given",
        "found the only job refused: bound to no cluster of the platform; the clusters have 16 (a)",
        "--mapping mct",
    );
}

#[test]
fn many_refusals_are_a_warning_with_their_reasons() {
    let dir = folder();
    let log =
        |wide: i64| -> String { (0..20).map(|id| line(id, id, 9, if id < wide { 64 } else { 1 })).collect() };
    fs::write(dir.path().join("few.swf"), log(2)).unwrap();
    let few = simulate("--workload few.swf --procs 32 --out out", dir.path());
    assert_eq!((few.code, few.stderr.as_str()), (0, ""));
    assert!(few.stdout.contains("2 (larger than the cluster; see refused.csv)"), "{}", few.stdout);
    let said = simulate("--workload few.swf --procs 32 --out out --files json", dir.path());
    assert!(
        said.stdout.contains("2 (larger than the cluster)"),
        "no file is named that is not there: {}",
        said.stdout
    );

    fs::write(dir.path().join("many.swf"), format!("; Partition: 2 a\n{}", log(3))).unwrap();
    let many = simulate("--workload many.swf --platform three.toml", dir.path());
    assert_eq!(many.code, 0);
    assert!(
        many.stderr.starts_with("warning: 3 of 20 jobs are refused (15 %): larger than every cluster"),
        "{}",
        many.stderr
    );
    assert!(!many.stdout.contains("refused.csv"), "nothing is written: {}", many.stdout);
    // Local jobs go to the cluster that the log names, and this log names none that is there.
    fs::write(dir.path().join("both.swf"), format!("; Partition: 2 a\n{}", log(12))).unwrap();
    let both = simulate("--workload both.swf --platform three.toml --dedicated-share 0.5", dir.path()).stdout;
    assert!(both.contains(" larger than every cluster, "), "each reason with its number: {both}");
    assert!(both.contains(" bound to no cluster of the platform)"), "{both}");
}

#[test]
fn parameters_of_no_reallocation_are_an_error() {
    let dir = folder();
    for option in ["--heuristic minmin", "--period 1m", "--threshold 5s", "--window 3"] {
        for realloc in ["", "--realloc none"] {
            let said = simulate(&format!("--workload log.swf --procs 32 {realloc} {option}"), dir.path());
            assert_eq!(said.code, 2, "{option}");
            let name = option.split(' ').next().unwrap();
            assert!(said.stderr.contains(&format!("with {name}, found none")), "{}", said.stderr);
            assert!(said.stderr.contains("hint: leave"), "{}", said.stderr);
        }
        let said = simulate(&format!("--workload log.swf --procs 32 --realloc regular {option}"), dir.path());
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{option}");
    }
}
