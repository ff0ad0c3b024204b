//! What a policy is worth on real clusters: the same work, at the same time, for federations that differ in nothing but the
//! policy, compared with a simulation of the recorded work (`cargo xtask benefit`).

use std::path::Path;
use std::time::Duration;

use pliant_control::job::{Exit, JobRecord};
use pliant_model::Span;
use pliant_report::mean_difference;
use pliant_testing::slurm::{SlurmClusters, Wanted};
use pliant_transport::Role;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::site::{SERVERS, Site};
use super::workload::{Amount, Scaling, Workload};
use crate::harness::*;

/// How many times, with which seeds, and in how many seconds the work comes: `ROUNDS FIRST SECONDS`.
const ROUNDS: &str = "PLIANT_BENEFIT";
/// Moldable jobs of a round.
const MOLDABLE: usize = 60;
/// Moldable jobs of a round that compares sizes under Pliant's own batch system, where jobs start sooner.
const EMBEDDED: usize = 90;
/// The key of servers whose jobs take the size that completes first for themselves.
const GREEDY: &str = "tuner = \"exact\"\n";
/// Jobs of local users of each Slurm cluster.
const LOCALS: usize = 10;

/// What the federations differ in.
#[derive(Clone, Copy)]
struct Policy {
    name: &'static str,
    /// A table of the agent's file.
    table: &'static str,
    /// Keys of the table `[cluster]` of the servers' files.
    cluster_keys: &'static str,
    /// As `pliant what-if` names it.
    words: &'static str,
}

/// The reallocation of waiting jobs. The first is what the others are compared with. Sizes are greedy: with bounded slack few jobs
/// wait long enough to be moved.
const MOVES: &[Policy] = &[
    Policy { name: "no moves", table: "", cluster_keys: GREEDY, words: "none,tuner=exact" },
    Policy {
        name: "MCT, regular reallocation",
        table: "[reallocation]\nalgorithm = \"regular\"\nheuristic = \"mct\"\nperiod_s = 10\nthreshold_s = 5\nearly_s = 5\n",
        cluster_keys: GREEDY,
        words: "regular/mct,period=10s,threshold=5s,tuner=exact",
    },
    Policy {
        name: "siblings",
        table: "[reallocation]\nalgorithm = \"siblings\"\nperiod_s = 10\n",
        cluster_keys: GREEDY,
        words: "siblings,period=10s,tuner=exact",
    },
];

/// How moldable jobs are sized.
const SIZES: &[Policy] = &[
    Policy { name: "sizes that complete first", table: "", cluster_keys: GREEDY, words: "none,tuner=exact" },
    Policy {
        name: "sizes with bounded slack",
        table: "",
        cluster_keys: "tuner = \"slack\"\n",
        words: "none,tuner=slack",
    },
];

/// The results of all rounds under one policy.
#[derive(Default)]
struct Measured {
    /// The response of each job, in seconds, in the order of submission.
    responses: Vec<f64>,
    /// How many ran elsewhere than where they were submitted.
    elsewhere: usize,
    /// What the jobs held while they ran.
    processor_s: f64,
    /// What the simulator made of the mean response, round by round.
    predicted: Vec<f64>,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn response(job: &JobRecord) -> f64 {
    (job.ended.unwrap() - job.submitted).0 as f64
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes and nine clusters: `cargo xtask benefit`"]
async fn moves_and_siblings_against_neither() {
    let wanted =
        Wanted { clusters: (MOVES.len() * SERVERS.len()) as u32, nodes: 2, cpus: 8, ..Wanted::default() };
    let Some(slurm) = SlurmClusters::start(wanted) else { return };
    let sites = slurm_sites(&slurm, MOVES).await;
    compare("waiting jobs", MOVES, &sites, MOLDABLE, Scaling::Narrow).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes and six clusters: `cargo xtask benefit --sizes`"]
async fn bounded_slack_against_sizes_that_complete_first() {
    let mut embedded = Vec::new();
    for policy in SIZES {
        embedded.push(Site::embedded(16, policy.cluster_keys).await);
    }
    println!("Three servers with 16 processors each under Pliant's own batch system:");
    compare("sizes", SIZES, &embedded, EMBEDDED, Scaling::Types).await;
    drop(embedded);
    let wanted =
        Wanted { clusters: (SIZES.len() * SERVERS.len()) as u32, nodes: 2, cpus: 8, ..Wanted::default() };
    let Some(slurm) = SlurmClusters::start(wanted) else { return };
    println!("Three Slurm clusters of two nodes with 8 processors:");
    let sites = slurm_sites(&slurm, SIZES).await;
    compare("sizes", SIZES, &sites, MOLDABLE, Scaling::Types).await;
}

/// A federation for each policy, in front of three clusters.
async fn slurm_sites(slurm: &SlurmClusters, policies: &'static [Policy]) -> Vec<Site> {
    let mut sites = Vec::new();
    for (policy, clusters) in policies.iter().zip(slurm.clusters().chunks(SERVERS.len())) {
        sites.push(Site::with_keys(clusters, policy.table, policy.cluster_keys).await);
    }
    sites
}

/// Gives the same work to a site for each policy, and prints the results after each round.
async fn compare(title: &str, policies: &[Policy], sites: &[Site], moldable: usize, scaling: Scaling) {
    let (rounds, first, seconds) = rounds();
    let locals = if sites[0].has_slurm() { LOCALS } else { 0 };
    let amount = Amount { clusters: SERVERS.len(), locals, moldable, seconds, scaling };
    let mut all: Vec<Measured> = policies.iter().map(|_| Measured::default()).collect();
    println!("{}", machine("at the beginning"));
    for seed in first..first + rounds {
        let began = Instant::now();
        let work = Workload::draw(seed, amount);
        let playing: Vec<_> = sites.iter().map(|site| site.play(&work)).collect();
        for ((site, playing), measured) in sites.iter().zip(playing).zip(&mut all) {
            let ended = site.ended(&site.federation.client("alice"), &playing.await.unwrap()).await;
            assert!(ended.iter().all(|job| job.exit == Some(Exit::Code(0))), "{ended:?}");
            measured.responses.extend(ended.iter().map(response));
            measured.elsewhere += ended.iter().filter(|job| job.server() != &job.handle.server).count();
            let seconds = |job: &JobRecord| (job.ended.unwrap() - job.started.unwrap()).0 as f64;
            measured.processor_s +=
                ended.iter().map(|job| f64::from(job.procs.0) * seconds(job)).sum::<f64>();
        }
        for site in sites {
            while !site.left().is_empty() {
                sleep(Duration::from_secs(1)).await;
            }
        }
        recorded(&sites[0], began, work.locals.len()).await;
        let report = replayed(&sites[0], began, policies).await;
        for (measured, policy) in all.iter_mut().zip(policies) {
            measured.predicted.push(predicted(&report, policy.words));
        }
        println!("seed {seed}, after {} s:\n{}", began.elapsed().as_secs(), table(title, policies, &all));
    }
    println!("{}", machine("at the end"));
    for (site, policy) in sites.iter().zip(policies) {
        let runs = runs(&site.lines());
        let once = runs.values().all(|count| *count == 1);
        assert!(once && runs.len() == moldable * rounds as usize, "{}: {runs:?}", policy.name);
    }
}

fn rounds() -> (u64, u64, u64) {
    let words = std::env::var(ROUNDS).unwrap_or_default();
    let numbers: Vec<u64> = words.split_whitespace().map(|word| word.parse().unwrap()).collect();
    match numbers[..] {
        [] => (1, 60, 60),
        [rounds, first, seconds] => (rounds, first, seconds),
        _ => panic!("expected ROUNDS FIRST SECONDS in {ROUNDS}, found {words}"),
    }
}

/// Waits until the record of a round is whole.
async fn recorded(site: &Site, began: Instant, locals: usize) {
    let operator = site.federation.operator();
    until("all of it to be recorded", async || {
        let history = operator.history(since(began)).await.ok()?;
        let pages = history.servers.iter();
        let over = pages.flat_map(|(_, page)| &page.jobs).filter(|job| job.ended.is_some()).count();
        (over >= locals && history.jobs.iter().all(|job| job.state.is_final())).then_some(())
    })
    .await;
}

/// Since the beginning of a round, and nothing of the one before, which had ended by then.
fn since(began: Instant) -> Span {
    Span(began.elapsed().as_secs() as i64 + 1)
}

/// What `pliant what-if` makes of a round.
async fn replayed(site: &Site, began: Instant, policies: &[Policy]) -> Value {
    let config = site.federation.client_file(Role::Operator, "root");
    let since = format!("{}s", since(began).0);
    let words: Vec<&str> = policies.iter().flat_map(|policy| ["--policy", policy.words]).collect();
    let run = move || {
        let fixed = ["what-if", "--format", "json", "--since", &since];
        pliant(&config, &[&fixed, &words[..]].concat()).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    document(&output.stdout)
}

fn predicted(report: &Value, words: &str) -> f64 {
    let replayed = report["replayed"].as_array().unwrap();
    let found = replayed.iter().find(|one| one["policy"]["name"] == words);
    found.unwrap_or_else(|| panic!("no {words} in {report}"))["mean_response_s"].as_f64().unwrap()
}

/// All rounds so far, for docs/research/validation-live.md.
fn table(title: &str, policies: &[Policy], all: &[Measured]) -> String {
    let mut text = format!(
        "| {title} | mean response | difference, 95 % interval | ran elsewhere | processor-hours | simulated | difference |\n\
         |---|---|---|---|---|---|---|\n"
    );
    let (base, simulated) = (&all[0], mean(&all[0].predicted));
    for (measured, policy) in all.iter().zip(policies) {
        let pairs = measured.responses.iter().zip(&base.responses);
        let differences: Vec<f64> = pairs.map(|(own, other)| own - other).collect();
        let share = |difference: f64, of: f64| format!("{:+.1} %", 100.0 * difference / of);
        let (live, again) = (mean(&measured.responses), mean(&measured.predicted));
        let interval = mean_difference(&differences, 1).filter(|_| policy.words != policies[0].words);
        let difference = interval.map_or_else(String::new, |found| {
            let part = share(found.mean, mean(&base.responses));
            format!("{:+.1} s ({part}), {:+.1} to {:+.1} s", found.mean, found.low, found.high)
        });
        let simulated_difference = match difference.is_empty() {
            true => String::new(),
            false => format!("{:+.1} s ({})", again - simulated, share(again - simulated, simulated)),
        };
        text += &format!(
            "| {} | {live:.1} s | {difference} | {} of {} | {:.2} | {again:.1} s | {simulated_difference} |\n",
            policy.name,
            measured.elsewhere,
            measured.responses.len(),
            measured.processor_s / 3600.0
        );
    }
    text
}

fn machine(when: &str) -> String {
    let load = std::fs::read_to_string(Path::new("/proc/loadavg")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, load {when}: {}", load.trim())
}
