//! `pliant campaign`: what is refused, what is warned of, and how wide tables are.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;
use std::path::Path;

use support::{call, folder, pliant};

const CAMPAIGN: &str = r#"name = "tiny"
seeds = [1, 2]
platforms = ["three.toml"]

[[workload]]
name = "log"
file = "log.swf"

[[policy]]
name = "reference"

[[policy]]
name = "MCT-reg"
realloc = "regular"
period_s = 600
"#;

/// A folder with that campaign in it.
fn campaign(text: &str) -> tempfile::TempDir {
    let dir = folder();
    fs::write(dir.path().join("tiny.toml"), text).unwrap();
    dir
}

fn refused(dir: &Path, arguments: &str, error: &str, hint: &str) {
    // Warnings may come first.
    let said = call(dir, arguments);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{arguments}: {}", said.stderr);
    assert!(said.stderr.contains(error) && said.stderr.contains(hint), "{arguments}: {}", said.stderr);
}

#[test]
fn threads_are_bounded() {
    let dir = campaign(CAMPAIGN);
    let expected = "expected a whole number from 0 to 1024, found `100000`";
    refused(dir.path(), "campaign run tiny.toml --out out --threads 100000", expected, "--threads");
    refused(dir.path(), "campaign run tiny.toml --out out --threads -1", "found `-1`", "--threads");
    let arguments = ["campaign", "run", "tiny.toml", "--out", "out"];
    let output = pliant(&arguments, dir.path()).env("RAYON_NUM_THREADS", "100000").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("expected at most 1024 threads, found 100000"), "{stderr}");
    assert!(!dir.path().join("out").exists());
    assert_eq!(call(dir.path(), "campaign run tiny.toml --out out --threads 1024").code, 0);
}

#[test]
fn keys_out_of_range_give_their_position() {
    let check = |from: &str, to: &str, error: &str| {
        assert!(CAMPAIGN.contains(from), "{from}");
        let dir = campaign(&CAMPAIGN.replacen(from, to, 1));
        refused(dir.path(), "campaign run tiny.toml --out out", error, "hint: ");
        assert!(!dir.path().join("out").exists());
    };
    check(
        "period_s = 600",
        "period_s = 1000000001",
        "tiny.toml:15:12: `period_s`: expected a whole number from 1 to",
    );
    check("period_s", "peroid_s", "tiny.toml:15:1: unknown key `peroid_s`, expected one of `name`");
    check(
        "file = \"log.swf\"",
        "generate = \"federation\"\nload = 5000",
        "tiny.toml:8:8: `load`: expected a load above 0 and at most 1000, found 5000",
    );
    check("seeds = [1, 2]", "seeds = \"all\"", "tiny.toml:2:9: `seeds`: expected a list of seeds");
}

#[test]
fn clusters_have_bounded_speeds_and_names_that_can_be_printed() {
    let dir = campaign(CAMPAIGN);
    let check = |from: &str, to: &str, error: &str| {
        fs::write(dir.path().join("three.toml"), support::PLATFORM.replacen(from, to, 1)).unwrap();
        refused(dir.path(), "campaign run tiny.toml --out out", error, "hint: ");
        assert!(!dir.path().join("out").exists());
    };
    check("1.2", "1e300", "three.toml:10:9: `speed`: expected a speed of 0.001 to 1000, found 1000");
    check("1.2", "0.0001", "three.toml:10:9: `speed`: expected a speed of 0.001 to 1000, found 0.0001");
    check("\"b\"", "\"b\\nc\"", "three.toml:8:8: `name`: expected a name of 1 to 64 printable characters");
    check("\"b\"", "\"b,c\"", "three.toml:8:8: `name`: expected a name of 1 to 64 printable characters");
    check(
        "speed",
        "sped",
        "three.toml:4:1: unknown key `sped`, expected one of `name`, `procs`, `speed`, `batch`",
    );
}

#[test]
fn platforms_that_no_job_fits_are_refused_and_partly_fitting_ones_warned_of() {
    // The log's jobs ask for 1 to 16 processors.
    let dir = campaign(&CAMPAIGN.replace("platforms = [\"three.toml\"]", "platforms = [\"one.toml\"]"));
    let one = |procs: u32| format!("[[cluster]]\nname = \"one\"\nprocs = {procs}\n");
    let large =
        support::swf(200).lines().filter(|line| !line.contains(" 1 -1 -1 1 ")).collect::<Vec<_>>().join("\n");
    fs::write(dir.path().join("log.swf"), large + "\n").unwrap();
    fs::write(dir.path().join("one.toml"), one(1)).unwrap();
    refused(
        dir.path(),
        "campaign run tiny.toml --out all",
        "campaign tiny: expected a platform that some job fits, found every job of every run refused",
        "hint: give larger clusters",
    );
    fs::write(dir.path().join("one.toml"), one(8)).unwrap();
    let said = call(dir.path(), "--format json campaign run tiny.toml --out part --quiet");
    assert!(said.stderr.starts_with("warning: workload `log` on platform `one`: up to "), "{}", said.stderr);
    assert_eq!(said.json()["warnings"].as_array().unwrap().len(), 1);
    let both = "platforms = [\"one.toml\", \"three.toml\"]";
    fs::write(dir.path().join("tiny.toml"), CAMPAIGN.replace("platforms = [\"three.toml\"]", both)).unwrap();
    fs::write(dir.path().join("one.toml"), one(1)).unwrap();
    let expected = "warning: workload `log` on platform `one`: no job ran in 4 of 4 runs, all were refused\n";
    assert_eq!(call(dir.path(), "campaign run tiny.toml --out both --quiet").stderr, expected);
    assert_eq!(call(dir.path(), "campaign show both").stderr, expected);
    assert_eq!(call(dir.path(), "campaign merge --out merged both").stderr, expected);
}

#[test]
fn damaged_runs_are_never_ignored_silently() {
    let dir = campaign(CAMPAIGN);
    assert_eq!(call(dir.path(), "campaign run tiny.toml --out out --quiet --threads 1").stderr, "");
    let file = dir.path().join("out/records.jsonl");
    let good = fs::read_to_string(&file).unwrap();
    let first = good.lines().next().unwrap();
    fs::write(&file, good.replace(first, &first[..first.len() / 2])).unwrap();
    let warning = "warning: out/records.jsonl:1: cut off at line 1, column ";
    for (arguments, consequence) in [
        ("campaign show out", "`pliant campaign run` simulates the run again"),
        ("campaign merge --out merged out", "the run is missing unless another folder has it"),
        ("report out", "the page leaves the run out"),
        ("campaign run tiny.toml --out out --quiet", "the run was simulated again"),
    ] {
        let said = call(dir.path(), arguments);
        assert_eq!(said.code, 0, "{arguments}: {}", said.stderr);
        assert!(said.stderr.starts_with(warning) && said.stderr.contains(consequence), "{}", said.stderr);
    }
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 4);
    assert_eq!(call(dir.path(), "campaign show out").stderr, "");
}

#[test]
fn a_folder_of_a_later_version_is_refused_and_left_alone() {
    let dir = campaign(CAMPAIGN);
    assert_eq!(call(dir.path(), "campaign run tiny.toml --out out --quiet").code, 0);
    let file = dir.path().join("out/campaign.json");
    let later = fs::read_to_string(&file).unwrap().replace("campaign-folder/1", "campaign-folder/2");
    fs::write(&file, &later).unwrap();
    let expected =
        "out/campaign.json: expected version `pliant.campaign-folder/1`, found `pliant.campaign-folder/2`";
    for arguments in ["campaign run tiny.toml --out out", "campaign show out", "report out"] {
        refused(dir.path(), arguments, expected, "hint: use the version of Pliant that wrote this folder");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), later);
    assert!(!dir.path().join("out/report.html").exists());
}

#[test]
fn optional_workloads_are_skipped_visibly() {
    let more = "\n[[workload]]\nname = \"more\"\nfile = \"more.swf\"\n";
    let dir = campaign(&format!("{CAMPAIGN}{more}"));
    let said = call(dir.path(), "campaign run tiny.toml --out out");
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(
        said.stderr.contains("more.swf: cannot read this file") && said.stderr.contains("optional = true"),
        "{}",
        said.stderr
    );
    fs::write(dir.path().join("tiny.toml"), format!("{CAMPAIGN}{more}optional = true\n")).unwrap();
    let said = call(dir.path(), "--format json campaign run tiny.toml --out out --quiet");
    let expected = "warning: workload `more` is skipped: no file more.swf in the folder of the campaign file or in PLIANT_TRACES\n";
    assert_eq!((said.stderr.as_str(), &said.json()["planned"]), (expected, &4.into()));
    let traces = dir.path().join("logs");
    fs::create_dir(&traces).unwrap();
    fs::copy(dir.path().join("log.swf"), traces.join("more.swf")).unwrap();
    let arguments = ["--format", "json", "campaign", "run", "tiny.toml", "--out", "whole", "--quiet"];
    let output = pliant(&arguments, dir.path()).env("PLIANT_TRACES", &traces).output().unwrap();
    let document = support::schemas::document(&output.stdout);
    assert_eq!((&document["planned"], output.stderr.len()), (&8.into(), 0));
    fs::remove_file(dir.path().join("log.swf")).unwrap();
    fs::write(dir.path().join("tiny.toml"), CAMPAIGN.replace("file =", "optional = true\nfile =")).unwrap();
    refused(
        dir.path(),
        "campaign run tiny.toml --out none",
        "expected a workload whose file exists",
        "PLIANT_TRACES",
    );
}

#[test]
fn tables_are_at_most_120_columns_wide() {
    let long = CAMPAIGN.replace(
        "seeds = [1, 2]",
        "seeds = [1, 2]\ndedicated_shares = [1.0, 0.3333]\nmoldable = [\"none\", \"paper\"]",
    );
    let dir = campaign(&long.replace("\"log\"", "\"a-workload-of-a-rather-long-name\""));
    assert_eq!(call(dir.path(), "campaign run tiny.toml --out out --quiet").code, 0);
    let shown = call(dir.path(), "campaign show out").stdout;
    let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 120, "{widest}: {shown}");
    assert!(
        shown.contains("not shown, as the table is too wide: ") && shown.contains("--format json"),
        "{shown}"
    );
}
