//! `pliant campaign`: the same bytes on any number of threads, after a kill, and from shards.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use pliant_testing::slurm::{SlurmCluster, SlurmClusters, Wanted};
use rustix::process::{Pid, Signal, kill_process};
use support::{folder, go, pliant, run};

const CAMPAIGN: &str = r#"name = "tiny"
seeds = { from = 1, count = 4 }
moldable = ["paper"]
dedicated_shares = [1.0, 0.3333]
tuner = "binary"
platforms = ["three.toml"]

[[workload]]
name = "log"
file = "log.swf"

[[policy]]
name = "reference"
realloc = "none"

[[policy]]
name = "MCT-can"
realloc = "all-cancellation"
heuristic = "mct"
"#;

/// A folder with the campaign in it, its log of that many jobs.
fn campaign(jobs: i64) -> tempfile::TempDir {
    let dir = folder();
    fs::write(dir.path().join("log.swf"), support::swf(jobs)).unwrap();
    fs::write(dir.path().join("tiny.toml"), CAMPAIGN).unwrap();
    dir
}

/// Every file of a campaign folder but those with durations.
fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if !["records.jsonl", "timing.csv"].contains(&name.as_str()) && !name.contains(".partial-") {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    files
}

#[test]
fn threads_and_shards_give_the_same_bytes() {
    let dir = campaign(200);
    let at = |name: &str| dir.path().join(name);
    let said = go(dir.path(), "--format json campaign run tiny.toml --out one --threads 1 --quiet");
    assert_eq!(said.stderr, "");
    assert_eq!((&said.json()["simulated"], &said.json()["planned"]), (&16.into(), &16.into()));
    go(dir.path(), "campaign run tiny.toml --out two --threads 2");
    assert_eq!(bytes(&at("one")), bytes(&at("two")));
    go(dir.path(), "campaign run tiny.toml --out part-1 --shard 1/2");
    go(dir.path(), "campaign run tiny.toml --out part-2 --shard 2/2");
    let merged = go(dir.path(), "--format json campaign merge --out merged part-1");
    assert_eq!(merged.json()["missing"].as_array().unwrap().len(), 8);
    go(dir.path(), "campaign merge --out merged part-1 part-2");
    assert_eq!(bytes(&at("one")), bytes(&at("merged")));
}

#[test]
fn results_are_shown_and_reported() {
    let dir = campaign(200);
    go(dir.path(), "campaign run tiny.toml --out out");
    let table = fs::read_to_string(dir.path().join("out/results.csv")).unwrap();
    assert!(table.starts_with("key,workload,platform,moldable,dedicated_share,seed,policy,"), "{table}");
    assert_eq!(table.lines().count(), 17);
    let shown = go(dir.path(), "campaign show out").stdout;
    assert!(shown.contains("MCT-can") && shown.contains("rel. response"), "{shown}");
    let document = go(dir.path(), "campaign show out --format json").json();
    assert_eq!(document["schema"], "pliant.campaign-show/1");
    assert_eq!(document["cells"].as_array().unwrap().len(), 4);
    let cell = &document["cells"][1];
    assert_eq!((&cell["policy"], &cell["seeds"]), (&"MCT-can".into(), &4.into()));
    assert!(cell["metrics"]["relative_mean_response"]["mean"].as_f64().unwrap() > 0.0);
    go(dir.path(), "report out");
    assert!(dir.path().join("out/report.html").is_file());
}

/// Starts the campaign into `killed`, sends it a signal when a few runs are done, and has it go on.
fn ended_by(signal: Signal) -> (Output, support::Said) {
    let dir = campaign(1000);
    let records = dir.path().join("killed/records.jsonl");
    let arguments = ["campaign", "run", "tiny.toml", "--out", "killed", "--threads", "1", "--quiet"];
    let mut child =
        pliant(&arguments, dir.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let finished = || fs::read_to_string(&records).map_or(0, |text| text.lines().count());
    let begun = Instant::now();
    while finished() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no runs after a minute");
        assert_eq!(child.try_wait().unwrap(), None, "the campaign is too short to be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!dir.path().join("killed/results.csv").exists(), "the campaign is too short to be killed");
    let shown = go(dir.path(), "campaign show killed");
    assert!(
        shown.stderr.contains(" of 16 runs are missing: the results are of the others"),
        "{}",
        shown.stderr
    );
    let said = go(dir.path(), "--format json campaign run tiny.toml --out killed --quiet");
    go(dir.path(), "campaign run tiny.toml --out whole --quiet");
    assert_eq!(bytes(&dir.path().join("killed")), bytes(&dir.path().join("whole")));
    (output, said)
}

#[test]
fn a_killed_campaign_goes_on_where_it_stopped() {
    let (_, said) = ended_by(Signal::KILL);
    let kept = said.json()["kept"].as_u64().unwrap();
    assert!((2..16).contains(&kept), "{}", said.stdout);
}

#[test]
fn an_interrupted_campaign_says_that_the_same_command_goes_on() {
    let (output, said) = ended_by(Signal::INT);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert_eq!(
        stderr,
        "error: interrupted\n  hint: finished runs are kept in killed: the same command resumes\n"
    );
    assert!(said.json()["kept"].as_u64().unwrap() >= 2, "{}", said.stdout);
}

#[test]
fn a_changed_campaign_is_refused_with_a_hint() {
    let dir = campaign(50);
    go(dir.path(), "campaign run tiny.toml --out out");
    fs::write(dir.path().join("tiny.toml"), CAMPAIGN.replace("count = 4", "count = 5")).unwrap();
    let said = run(&["campaign", "run", "tiny.toml", "--out", "out"], dir.path());
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.contains("expected runs of campaign `tiny`"), "{}", said.stderr);
    assert!(said.stderr.contains("hint: choose another --out"), "{}", said.stderr);
}

#[test]
fn a_bad_campaign_file_gives_the_position() {
    let dir = campaign(50);
    fs::write(dir.path().join("tiny.toml"), CAMPAIGN.replace("tuner = \"binary\"", "tuner = \"best\""))
        .unwrap();
    let said = run(&["campaign", "run", "tiny.toml", "--out", "out"], dir.path());
    assert_eq!(said.code, 2);
    assert!(said.stderr.starts_with("error: tiny.toml:5:9: `tuner`: expected a tuner"), "{}", said.stderr);
    assert!(!dir.path().join("out").exists());
}

#[test]
fn the_campaigns_that_come_with_pliant_are_understood() {
    let campaigns = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns");
    let check = |name: &str, runs: usize| {
        let campaign = pliant_sim::campaign::SimulationCampaign::read(&campaigns.join(name)).unwrap();
        assert_eq!(campaign.keys().len(), runs, "{name}");
    };
    check("paper-000.toml", 700);
    check("paper-000-heuristics.toml", 1260);
    check("paper-000-beyond.toml", 1440);
    check("paper-001.toml", 360);
    check("paper-004.toml", 2040);
    check("paper-004-beyond.toml", 900);
    check("resources.toml", 1920);
}

/// The script that comes with Pliant, and options of `sbatch` that fit a small cluster.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slurm/campaign.sbatch");
const SMALL: [&str; 3] = ["--parsable", "--cpus-per-task=1", "--mem=0"];

/// Submits to a cluster from the folder of the campaign. Gives the job ID.
fn sbatch(slurm: &SlurmCluster, dir: &Path, environment: &[(&str, &str)], words: &[&str]) -> String {
    let command = Path::new(env!("CARGO_BIN_EXE_pliant")).parent().unwrap();
    let path = format!("{}:{}", command.display(), std::env::var("PATH").unwrap());
    let mut sbatch = slurm.command("sbatch");
    sbatch.args(SMALL).args(words).current_dir(dir).env("PATH", path).env("CAMPAIGN", "tiny.toml");
    let output = sbatch.env("OUT", dir.join("out")).envs(environment.iter().copied()).output().unwrap();
    let said = support::Said::of(output);
    assert_eq!(said.code, 0, "{words:?}: {}", said.stderr);
    said.stdout.trim().to_owned()
}

/// Waits for a file that a job writes at its end, and for the end of all jobs.
fn wait_for(slurm: &SlurmCluster, file: &Path, dir: &Path) {
    let begun = Instant::now();
    let is_idle = || slurm.run(&["squeue", "--noheader"]).is_empty();
    while !(file.exists() && is_idle()) {
        if begun.elapsed() > Duration::from_secs(180) {
            let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            let logs = files.filter(|path| path.extension().is_some_and(|one| one == "log" || one == "out"));
            let logs: Vec<String> = logs.filter_map(|path| fs::read_to_string(path).ok()).collect();
            panic!("no {} after three minutes: {}, {logs:?}", file.display(), slurm.run(&["squeue"]));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The script of the manual runs a campaign as a job array of a real Slurm, a job that depends on the array merges its shards, and a task
/// that is run again has the same shard as before.
#[test]
fn a_job_array_of_slurm_gives_the_bytes_of_one_machine() {
    let wanted = Wanted { clusters: 1, nodes: 2, cpus: 2, ..Wanted::default() };
    let Some(clusters) = SlurmClusters::start(wanted) else { return };
    let slurm = &clusters.clusters()[0];
    let dir = campaign(200);
    let at = |name: &str| dir.path().join(name);
    go(dir.path(), "campaign run tiny.toml --out one --quiet");
    let merge = "pliant campaign merge --out ../merged shard-1 shard-2 shard-3";
    let submit_merge = |array: &str| {
        let after = format!("--dependency=afterok:{array}");
        let folder = format!("--chdir={}", at("out").display());
        sbatch(slurm, dir.path(), &[], &[&after, &folder, "--ntasks=1", "--time=00:05:00", "--wrap", merge]);
    };
    fs::create_dir(at("out")).unwrap();
    submit_merge(&sbatch(slurm, dir.path(), &[], &["--array=1-3", SCRIPT]));
    wait_for(slurm, &at("merged/results.json"), dir.path());
    assert_eq!(bytes(&at("one")), bytes(&at("merged")));
    let shard = bytes(&at("out/shard-2"));
    assert!(shard.len() > 1, "a shard has results of its own: {:?}", shard.keys());
    assert_ne!(shard["results.json"], bytes(&at("one"))["results.json"], "a shard is not the whole campaign");
    // One task is lost and run again, with the number of all tasks.
    fs::remove_dir_all(at("out/shard-2")).unwrap();
    fs::remove_dir_all(at("merged")).unwrap();
    submit_merge(&sbatch(slurm, dir.path(), &[("SHARDS", "3")], &["--array=2", SCRIPT]));
    wait_for(slurm, &at("merged/results.json"), dir.path());
    assert_eq!(bytes(&at("one")), bytes(&at("merged")));
    assert_eq!(shard, bytes(&at("out/shard-2")));
}
