//! Batsim's JSON workloads.

mod support;

use pliant_trace::{LoadOptions, Repair, RepairOptions, load};
use support::{CLEAN, KEEP_BAD, STRICT, read, shown};

fn check(repair: RepairOptions, text: &str, expected: &str) {
    assert_eq!(shown(&read("w.json", text.as_bytes(), repair)), expected, "for {text}");
}

/// A workload of the jobs given, with a profile of each kind.
fn workload(jobs: &str) -> String {
    format!(
        r#"{{"nb_res": 8, "jobs": [{jobs}], "profiles": {{
            "ten": {{"type": "delay", "delay": 10.2}},
            "nothing": {{"type": "delay", "delay": 0}},
            "work": {{"type": "parallel_homogeneous", "cpu": 1e9, "com": 5e6}},
            "computes": {{"type": "parallel_homogeneous", "cpu": 12.5e9, "com": 0}},
            "shared": {{"type": "parallel_homogeneous_total", "cpu": 40e9}},
            "uneven": {{"type": "parallel", "cpu": [1e9, 8e9, 2e9], "com": [0, 0, 0, 0, 0, 0, 0, 0, 0]}},
            "twice": {{"type": "composed", "repeat": 2, "seq": ["ten", "shared"]}},
            "nested": {{"type": "composed", "seq": ["twice", "twice", "ten"]}},
            "partly": {{"type": "composed", "seq": ["ten", "work"]}},
            "itself": {{"type": "composed", "seq": ["ten", "itself"]}},
            "measured": {{"type": "smpi", "trace": "t", "runtime": 7}}}}}}"#
    )
}

#[test]
fn delays_are_runtimes_and_other_profiles_are_counted() {
    let jobs = r#"
        {"id": "w0!12", "profile": "ten", "res": 2, "subtime": 3.7, "walltime": 30},
        {"id": 4, "profile": "work", "res": 1, "subtime": 1, "walltime": 20.5},
        {"id": "x", "profile": "measured", "res": 3, "subtime": 5}"#;
    check(
        CLEAN,
        &workload(jobs),
        "4@0 1 21/21\n12@2 2 30/11\n2@4 3 7/7\n3 jobs read, 3 kept; 1 walltime missing, runtime taken; \
         1 submitted before an earlier line; 1 runtime derived from its profile",
    );
    assert_eq!(read("w.json", workload(jobs).as_bytes(), CLEAN).unwrap().max_procs, Some(8));
}

#[test]
fn profiles_that_only_compute_take_as_long_as_a_processor_of_speed_1_needs() {
    let runtime = |profile: &str, res: u32| {
        let job =
            format!(r#"{{"id": 1, "profile": "{profile}", "res": {res}, "subtime": 0, "walltime": 999}}"#);
        let found = read("w.json", workload(&job).as_bytes(), CLEAN).unwrap();
        let derived = found.report.count(Repair::FromProfile) > 0;
        (found.jobs[0].runtime.0, derived)
    };
    assert_eq!(runtime("computes", 3), (13, false), "rounded up, on each processor");
    assert_eq!((runtime("shared", 4), runtime("shared", 1)), ((10, false), (40, false)));
    assert_eq!(runtime("uneven", 3), (8, false), "as long as the slowest");
    // Twice 10.2 s and 40 / 8 s; that twice again, and 10.2 s.
    assert_eq!((runtime("twice", 8), runtime("nested", 8)), ((31, false), (71, false)));
    // What communicates, and what contains itself, runs for its walltime.
    for profile in ["work", "partly", "itself"] {
        assert_eq!(runtime(profile, 2), (999, true), "{profile}");
    }
}

#[test]
fn jobs_that_cannot_run_are_dropped() {
    let job =
        |profile: &str, rest: &str| workload(&format!(r#"{{"id": 1, "profile": "{profile}", {rest}}}"#));
    check(CLEAN, &job("nothing", r#""res": 1, "subtime": 0"#), "1 job read, 0 kept; 1 dropped: did not run");
    check(
        KEEP_BAD,
        &job("nothing", r#""res": 1, "subtime": 0, "walltime": 5"#),
        "1@0 1 5/1\n1 job read, 1 kept; 1 runtime 0 raised to 1 s",
    );
    check(
        CLEAN,
        &job("ten", r#""res": 0, "subtime": 0"#),
        "1 job read, 0 kept; 1 dropped: processors unknown",
    );
    check(
        CLEAN,
        &job("ten", r#""res": 1, "subtime": -1e300"#),
        "1 job read, 0 kept; 1 dropped: submission unknown",
    );
    check(
        CLEAN,
        &job("ten", r#""res": 1, "subtime": 1e300, "walltime": 1e300"#),
        "1@0 1 1000000000000/11\n1 job read, 1 kept; 1 value too large, cut",
    );
    let error = "w.json:1: job 1: runtime derived from its profile\nleave --strict out to repair or drop such jobs and count them";
    check(STRICT, &job("work", r#""res": 1, "subtime": 0, "walltime": 5"#), error);
}

#[test]
fn errors_say_where() {
    let hint = "expected a Batsim workload: `nb_res`, `jobs` and `profiles`";
    let bad = |text: &str, expected: &str| check(CLEAN, text, &format!("{expected}\n{hint}"));
    bad("", "w.json:1:1: expected more, found the end of the file");
    bad("{\"jobs\": [,]}", "w.json:1:11: expected a value");
    bad("{\n\"jobs\": [],\n\"profile\": {}}", "w.json:3:14: missing key `profiles`");
    bad(
        r#"{"jobs": [{"id": 1, "profile": "a", "res": 1.5, "subtime": 0}], "profiles": {}}"#,
        "w.json:1:46: expected a whole number, found `1.5`",
    );
    check(
        CLEAN,
        r#"{"jobs": [{"id": 1, "profile": "a", "res": 1, "subtime": 0}], "profiles": {}}"#,
        "w.json: job 1 names the profile `a`, which is not there\nevery job's `profile` must be a key of `profiles`",
    );
}

#[test]
fn the_sample_of_the_batsim_project() {
    let Some(path) = pliant_testing::log("batsim/batsim-example_workload_hpc_seed1_jobs250.json") else {
        return;
    };
    let workload = load(&path, &LoadOptions::default()).unwrap();
    support::invariants::schedulable(&workload);
    assert_eq!((workload.report.read, workload.max_procs), (250, Some(128)));
    assert_eq!(workload.report.kept, 250, "{}", workload.report);
    assert_eq!(workload.report.count(Repair::FromProfile), 0, "{}", workload.report);
}
