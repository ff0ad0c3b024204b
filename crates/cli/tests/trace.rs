//! `pliant trace`: every generator and every format once, and what is refused.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;
use std::path::Path;

use support::{call, folder, go, run};

/// A call that fails: its exit code, what it says, and which file it must not leave.
fn refused(dir: &Path, arguments: &str, code: i32, error: &str, hint: &str) {
    let before = fs::read_dir(dir).unwrap().count();
    support::refused(&call(dir, arguments), arguments, code, error, hint);
    assert_eq!(fs::read_dir(dir).unwrap().count(), before, "{arguments}: no file is left behind");
}

#[test]
fn every_generator() {
    let dir = folder();
    let check = |kind: &str, jobs: u64, procs: u64| {
        let said =
            go(dir.path(), &format!("trace generate {kind} --seed 2 --out a.swf --format json")).json();
        assert_eq!(said["schema"], "pliant.trace-generate/1");
        assert_eq!((&said["jobs"], &said["procs"], &said["seed"]), (&jobs.into(), &procs.into(), &2.into()));
        let info = go(dir.path(), "trace info a.swf --format json").json();
        assert_eq!(info["schema"], "pliant.trace-info/1");
        assert_eq!(
            (&info["files"][0]["jobs"], &info["files"][0]["repairs"]),
            (&jobs.into(), &serde_json::json!({}))
        );
        let first = fs::read(dir.path().join("a.swf")).unwrap();
        go(dir.path(), &format!("trace generate {kind} --seed 2 --out a.swf"));
        assert_eq!(
            first,
            fs::read(dir.path().join("a.swf")).unwrap(),
            "{kind}: the same seed, the same bytes"
        );
    };
    check("grid5000 --month june", 9_182, 1_344);
    check("pwa-g5k", 133_135, 1_198);
    check("lublin --jobs 50 --procs 64", 50, 64);
    check("uniform --jobs 50 --walltime-max 20000s", 50, 128);
    check("gaussian --jobs 50 --load 0.5", 50, 128);
    check("federation --jobs 60 --days 2 --load 0.8 --platform three.toml", 60, 72);
}

/// One meaning of load on platforms of several speeds, in options, in what is printed and in the jobs.
#[test]
fn the_load_printed_is_the_one_asked_for() {
    let dir = folder();
    let check = |arguments: &str, wanted: f64| {
        let said = go(dir.path(), &format!("trace generate {arguments} --out a.swf --format json"));
        let load = said.json()["load"].as_f64().unwrap();
        assert!((load / wanted - 1.0).abs() < 0.03 && said.stderr.is_empty(), "{arguments}: {load}");
    };
    check("federation --jobs 5000 --days 10 --load 1.3", 1.3);
    check("federation --jobs 5000 --load 0.4 --platform three.toml", 0.4);
    check("grid5000 --month june --load 1.3", 1.3);
    check("lublin --jobs 500 --load 0.9 --platform three.toml", 0.9);
    let text = go(dir.path(), "trace generate federation --jobs 5000 --load 1.3 --out a.swf").stdout;
    assert!(text.contains(" of 1,344 processors at their speeds, to a.swf"), "{text}");
    // One job of at most five days cannot keep 1,344 processors busy for a month.
    let said = go(dir.path(), "trace generate federation --jobs 1 --load 1 --out a.swf");
    assert!(
        said.stderr.starts_with("warning: the load is ") && said.stderr.contains("100.0 % asked for"),
        "{}",
        said.stderr
    );
}

#[test]
fn generators_refuse_what_they_cannot_make() {
    let dir = folder();
    let refused = |arguments: &str, error: &str, hint: &str| {
        refused(dir.path(), &format!("trace generate {arguments}"), 2, error, hint);
    };
    let unknown = "expected a name that ends in .swf, .swf.gz, .gwf or .gwf.gz";
    for name in ["a.txt", "a.json", "a", "swf", "a.gz"] {
        refused(&format!("uniform --out {name}"), unknown, "the ending decides");
    }
    refused("nothing --out a.swf", "nothing", "grid5000");
    refused("uniform", "--out", "--help");
    refused("grid5000 --out a.swf", "KIND: expected a month (january, ", "--help");
    refused(
        "uniform --days 3 --out a.swf",
        "--days: expected parameters of `uniform` (jobs, load, walltime-max)",
        "--help",
    );
    refused("uniform --jobs 0 --out a.swf", "expected a whole number from 1 to 20000000, found `0`", "");
    refused("uniform --jobs ten --out a.swf", "expected a whole number from 1 to 20000000, found `ten`", "");
    refused(
        "uniform --load 1001 --out a.swf",
        "expected a number above 0 and at most 1000, found `1001`",
        "",
    );
    refused("uniform --load -1 --out a.swf", "expected a number above 0 and at most 1000, found `-1`", "");
    refused("uniform --load NaN --out a.swf", "expected a number above 0 and at most 1000, found `NaN`", "");
    refused(
        "federation --days 1e9 --out a.swf",
        "expected a number above 0 and at most 36500, found `1e9`",
        "",
    );
    refused("uniform --walltime-max 5s --out a.swf", "expected 3m20s to ", "");
    refused("uniform --procs 4 --platform three.toml --out a.swf", "--platform", "cannot be used");
    refused("uniform --platform nowhere --out a.swf", "nowhere", "docs/reference/files/platform.md");
    fs::write(dir.path().join("fast.toml"), support::PLATFORM.replace("1.2", "1e6")).unwrap();
    refused(
        "federation --platform fast.toml --out a.swf",
        "fast.toml:10:9: `speed`: expected a speed of 0.001 to 1000, found 1000000",
        "1.0 is the reference",
    );
    let said = run(&["trace", "generate", "uniform", "--out", "none/a.swf"], dir.path());
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("none/a.swf: cannot write this file"), "{}", said.stderr);
}

const BATSIM: &str = r#"{"nb_res": 4, "jobs": [{"id": 1, "profile": "a", "res": 2, "subtime": 0, "walltime": 20}],
 "profiles": {"a": {"type": "delay", "delay": 10}}}"#;
const JOINED: &str = "[[log]]\nfile = \"log.swf\"\ncluster = \"a\"\n";

#[test]
fn every_format_is_converted_and_read_back() {
    let dir = folder();
    fs::write(dir.path().join("b.json"), BATSIM).unwrap();
    fs::write(dir.path().join("joined.toml"), JOINED).unwrap();
    for (from, jobs) in [("log.swf", 200_u64), ("b.json", 1), ("joined.toml", 200)] {
        for to in ["c.swf", "c.swf.gz", "c.gwf", "c.gwf.gz"] {
            let said = go(dir.path(), &format!("trace convert {from} {to} --format json")).json();
            assert_eq!((&said["schema"], &said["jobs"]), (&"pliant.trace-convert/1".into(), &jobs.into()));
            assert_eq!(
                fs::read(dir.path().join(to)).unwrap().starts_with(&[0x1f, 0x8b]),
                to.ends_with(".gz")
            );
            let info = go(dir.path(), &format!("trace info {from} {to} --format json")).json();
            for fact in ["jobs", "span_s", "procs", "runtime_s", "walltime_s", "max_procs"] {
                assert_eq!(info["files"][0][fact], info["files"][1][fact], "{from} to {to}: {fact}");
            }
        }
    }
    let names: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 8, "nothing but the files asked for: {names:?}");
}

#[test]
fn what_a_conversion_leaves_out_is_said() {
    let dir = folder();
    let log = "1 0 7 10 4 8 9 5 20 -1 0 3 4 5 1 2 -1 -1\n2 0 -1 0 4 -1 -1 4 20 -1 1 3 4 5 -1 2 -1 -1\n";
    fs::write(dir.path().join("full.swf"), log).unwrap();
    let said = go(dir.path(), "trace convert full.swf c.gwf").stdout;
    assert!(
        said.starts_with("wrote 1 of 2 jobs\n  1 (dropped: did not run)\nto c.gwf\nleft out: wait, "),
        "{said}"
    );
    for column in ["CPU time", "status", "queue"] {
        assert!(said.contains(&format!("left out: {column}")), "{column}: {said}");
    }
    for column in ["think time", "preceding", "memory"] {
        assert!(!said.contains(column), "{column}: {said}");
    }
    let document = go(dir.path(), "trace convert full.swf c.gwf --format json").json();
    assert_eq!(document["left_out"]["wait"], 1);
    assert_eq!(
        go(dir.path(), "trace convert c.gwf c.swf --format json").json()["left_out"]["wait"],
        serde_json::Value::Null
    );
}

#[test]
fn conversions_that_would_lose_the_original_are_refused() {
    let dir = folder();
    fs::create_dir(dir.path().join("sub")).unwrap();
    std::os::unix::fs::symlink("log.swf", dir.path().join("link.swf")).unwrap();
    let original = fs::read(dir.path().join("log.swf")).unwrap();
    for to in ["log.swf", "./log.swf", "sub/../log.swf", "link.swf"] {
        refused(
            dir.path(),
            &format!("trace convert log.swf {to}"),
            2,
            "found the same",
            "give OUT another name",
        );
    }
    refused(
        dir.path(),
        "trace convert log.swf log.txt",
        2,
        "ends in .swf, .swf.gz, .gwf or .gwf.gz",
        "hint: ",
    );
    fs::write(dir.path().join("broken.swf"), "1 0 -1 10 4 -1 -1 4 20 -1 1 1 1 1 1 1 -1 -1\n2 5 -1 ten 4\n")
        .unwrap();
    fs::write(dir.path().join("old.swf"), "old").unwrap();
    refused(dir.path(), "trace convert broken.swf old.swf", 2, "broken.swf:2:8: expected a number", "hint: ");
    refused(dir.path(), "trace convert absent.swf old.swf", 1, "absent.swf: cannot read", "hint: ");
    refused(dir.path(), "trace convert log.swf none/a.swf", 1, "none/a.swf: cannot write", "hint: ");
    assert_eq!(fs::read(dir.path().join("old.swf")).unwrap(), b"old");
    assert_eq!(fs::read(dir.path().join("log.swf")).unwrap(), original);
}

#[test]
fn info_lists_repairs() {
    let dir = folder();
    let text = go(dir.path(), "trace info log.swf").stdout;
    for part in ["jobs          200 of 200 read", "processors    32", "offered load", "walltime / runtime"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    fs::write(dir.path().join("odd.swf"), "1 0 -1 0 4 -1 -1 4 20 -1 1 1 1 1 1 1 -1 -1\n").unwrap();
    let text = go(dir.path(), "trace info odd.swf").stdout;
    assert!(
        text.contains("jobs          0 of 1 read") && text.contains("dropped       1 (did not run)"),
        "{text}"
    );
    let kept = go(dir.path(), "trace info odd.swf --repair keep-bad --format json").json();
    assert_eq!(kept["files"][0]["jobs"], 1);
    refused(
        dir.path(),
        "trace info odd.swf --strict",
        2,
        "odd.swf:1: job 1: dropped: did not run",
        "hint: leave --strict out",
    );
    refused(dir.path(), "trace info absent.swf", 1, "absent.swf: cannot read", "hint: ");
    refused(dir.path(), "trace info", 2, "FILE", "--help");
    fs::write(dir.path().join("key.toml"), JOINED.replace("cluster", "clustre")).unwrap();
    refused(
        dir.path(),
        "trace info key.toml",
        2,
        "key.toml:3:1: unknown key `clustre`, expected one of `file`",
        "hint: ",
    );
    fs::create_dir(dir.path().join("logs")).unwrap();
    fs::rename(dir.path().join("log.swf"), dir.path().join("logs/log.swf")).unwrap();
    fs::write(dir.path().join("joined.toml"), JOINED).unwrap();
    refused(dir.path(), "trace info joined.toml", 2, "joined.toml:2:8: `file`: expected a log", "--traces");
    go(dir.path(), "trace info joined.toml --traces logs");
}
