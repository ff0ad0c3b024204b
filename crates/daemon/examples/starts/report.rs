//! Plans every listing of recordings anew, and compares with when the jobs really started.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use pliant_control::batch::external::{Event, External};
use pliant_control::batch::{self, BatchSystem, Effects};
use pliant_control::listing::{CountedResources, Listing, Phase, RequestedResources};
use pliant_model::{Mebibytes, Span, Time};
use pliant_policy::runtimes::limit_usage::Expect;

use crate::Outcome;
use crate::recording::Line;

/// Starts that are farther away count in no row but the last.
const HORIZONS_S: [i64; 4] = [120, 300, 600, i64::MAX];
/// Beside the interval between two passes, predictions within so many seconds are counted.
const NEAR_S: i64 = 30;

/// How starts are predicted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    /// As Slurm announces them, where it does.
    Announced,
    /// As a server plans them.
    Planned(Expect),
    /// As a server would plan them that knew how long every job will run.
    Known,
    /// As a server would plan them by limits that knew nothing but cores.
    CoresAlone,
}

const WAYS: [Way; 5] = [
    Way::Announced,
    Way::Planned(Expect::Limits),
    Way::Planned(Expect::History),
    Way::Known,
    Way::CoresAlone,
];

/// One prediction: how far away the start was, and how far the prediction was from it.
struct Prediction {
    ahead_s: i64,
    error_s: i64,
}

/// Predictions of each way on each kind of load.
type Table = BTreeMap<(String, Way), Vec<Prediction>>;

pub(crate) fn report(files: &[PathBuf], after_s: i64) -> Outcome<()> {
    let mut table = Table::new();
    let mut interval = Span(0);
    for file in files {
        interval = judge(file, after_s, &mut table)?;
    }
    println!(
        "predictions after {after_s} s of each of {} recordings; a pass every {} s",
        files.len(),
        interval.0
    );
    println!("load      way       within   count  median   80 %  <={NEAR_S} s  <=interval");
    for ((load, way), predictions) in &table {
        for horizon in HORIZONS_S {
            let mut errors: Vec<i64> = predictions
                .iter()
                .filter(|one| one.ahead_s <= horizon)
                .map(|one| one.error_s.abs())
                .collect();
            errors.sort_unstable();
            print_row(load, *way, horizon, &errors, interval);
        }
    }
    Ok(())
}

fn print_row(load: &str, way: Way, horizon: i64, errors: &[i64], interval: Span) {
    if errors.is_empty() {
        return;
    }
    let way = match way {
        Way::Announced => "slurm's",
        Way::Planned(expect) => expect.name(),
        Way::Known => "known",
        Way::CoresAlone => "cores",
    };
    let horizon = if horizon == i64::MAX { "any".to_owned() } else { format!("{horizon} s") };
    let at = |part: usize| errors[(errors.len() * part / 100).min(errors.len() - 1)];
    let share = |most: i64| 100 * errors.iter().filter(|error| **error <= most).count() / errors.len();
    println!(
        "{load:<9} {way:<9} {horizon:<7} {:>6} {:>5} s {:>4} s  {:>4} %  {:>6} %",
        errors.len(),
        at(50),
        at(80),
        share(NEAR_S),
        share(interval.0)
    );
}

/// Judges one recording; the interval between two passes of its cluster.
fn judge(file: &Path, after_s: i64, table: &mut Table) -> Outcome<Span> {
    let lines: Vec<Line> = BufReader::new(File::open(file)?)
        .lines()
        .map(|line| Ok(serde_json::from_str(&line?)?))
        .collect::<Outcome<_>>()?;
    let Some(Line::ClusterConfiguration { interval, load }) = lines.first() else {
        return Err(format!("{}: expected what it is about", file.display()).into());
    };
    let Some(Line::Began(began)) = lines.last() else {
        return Err(format!("{}: expected when the jobs began", file.display()).into());
    };
    let listings: Vec<&Listing> = lines
        .iter()
        .filter_map(|line| if let Line::Listed(listing) = line { Some(listing) } else { None })
        .collect();
    let runtimes = runtimes(&listings);
    for way in WAYS {
        let predictions = table.entry((load.clone(), way)).or_default();
        let mut external = External::new();
        let expect = if let Way::Planned(expect) = way { expect } else { Expect::Limits };
        let first = listings.first().map_or(Time::ZERO, |listing| listing.at);
        deliver(&mut external, first, Event::configured(*interval, None, expect));
        let mut before = Listing::default();
        for listing in &listings {
            let seen = if way == Way::CoresAlone { &cores_alone(listing) } else { *listing };
            deliver(&mut external, listing.at, Event::Listed(seen.changes(&before)));
            before = seen.clone();
            if listing.at - first < Span(after_s) {
                continue;
            }
            for (id, start) in starts(&external, way, listing, &runtimes) {
                if let Some(began) = began.get(&id) {
                    let (ahead_s, error_s) = ((*began - listing.at).0, (start - *began).0);
                    predictions.push(Prediction { ahead_s, error_s });
                }
            }
        }
    }
    Ok(*interval)
}

/// A listing in which nodes have nothing but cores, and jobs request nothing else.
fn cores_alone(listing: &Listing) -> Listing {
    let mut listing = listing.clone();
    listing.counted = CountedResources::default();
    listing.partitions.iter_mut().for_each(|partition| partition.default_memory = None);
    listing.jobs.iter_mut().for_each(|job| job.requested = RequestedResources::default());
    for node in &mut listing.nodes {
        (node.memory, node.gpus, node.gpu_kind) = (Mebibytes::ZERO, 0, None);
        node.features.clear();
    }
    listing
}

/// How long each job ran: until it was listed as ended, or was no longer listed.
fn runtimes(listings: &[&Listing]) -> BTreeMap<String, Span> {
    let mut runtimes = BTreeMap::new();
    for pair in listings.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let between = Time(before.at.0 + (after.at - before.at).0 / 2);
        for job in before.jobs.iter().filter(|job| job.phase() == Phase::Running) {
            let ended = match after.job(&job.id) {
                Some(after) if after.phase() == Phase::Running => continue,
                after => after.and_then(|after| after.ended).unwrap_or(between),
            };
            if let Some(started) = job.started {
                runtimes.insert(job.id.clone(), ended - started);
            }
        }
        for job in after.jobs.iter().filter(|job| job.phase() == Phase::Ended) {
            if let (Some(started), Some(ended)) = (job.started, job.ended) {
                runtimes.insert(job.id.clone(), ended - started);
            }
        }
    }
    runtimes
}

fn starts(
    external: &External,
    way: Way,
    listing: &Listing,
    runtimes: &BTreeMap<String, Span>,
) -> Vec<(String, Time)> {
    match way {
        Way::Known => external.starts_if(listing.at, &|job, _| runtimes.get(&job.id).copied()),
        Way::Planned(_) | Way::CoresAlone => external.starts(listing.at),
        Way::Announced => {
            let planned = listing.jobs.iter().filter_map(|job| {
                let planned = job.planned.as_ref()?;
                // One that has passed is as good as now.
                Some((job.id.clone(), planned.start.max(listing.at)))
            });
            planned.collect()
        }
    }
}

fn deliver(external: &mut External, at: Time, event: Event) {
    external.on(at, batch::Event::External(event), &mut Effects::default());
}
