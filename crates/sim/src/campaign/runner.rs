//! The runner of campaigns of every kind: groups of cells in parallel, records kept, results made of what is there.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rayon::prelude::*;

use super::CampaignError;
use super::experiment::Experiment;
use super::store::{Contents, Damage, Manifest, Store, changed, identity};

/// The most threads that a campaign is run on: more than any machine has cores. Each costs memory even if
/// there is nothing for it to do.
pub const THREADS_MAX: usize = 1_024;

/// How a campaign is run; nothing here changes its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Threads, at most [`THREADS_MAX`]; 0 for as many as the thread pool has by default. There are
    /// never more than groups of cells.
    pub threads: usize,
    /// Which part of the campaign.
    pub shard: Shard,
}

/// Follows a campaign, from any thread.
pub trait Progress: Sync {
    /// `total` cells belong to this shard; `kept` of them are there already.
    fn planned(&self, total: usize, kept: usize);
    /// One more cell is there.
    fn finished(&self, key: &str);
}

/// For callers that show no progress.
impl Progress for () {
    fn planned(&self, _total: usize, _kept: usize) {}
    fn finished(&self, _key: &str) {}
}

/// A campaign that was run, or a shard of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Finished {
    /// What the folder holds.
    pub contents: Contents,
    /// Cells that were run now.
    pub ran: usize,
    /// Cells of the shard that were there already.
    pub kept: usize,
    /// Lines of records that were there and could not be used; their cells were run again.
    pub damaged: Vec<Damage>,
}

/// Runs a campaign, or what is left of it, into `dir`.
pub(super) fn run<E: Experiment>(
    experiment: &E,
    dir: &Path,
    options: Options,
    progress: &dyn Progress,
) -> Result<Finished, CampaignError> {
    let threads = checked(options.threads)?;
    experiment.check()?;
    let (store, mut journal) = Store::<E>::create(dir, Manifest::of(experiment)?)?;
    let records = store.records()?;
    store.repair(&mut journal, &records)?;
    let groups = experiment.groups();
    let shard = groups.iter().enumerate().filter(|(at, _)| options.shard.holds(*at));
    let total: usize = shard.clone().map(|(_, keys)| keys.len()).sum();
    let missing =
        |keys: &[String]| (0..keys.len()).filter(|cell| !records.has(&keys[*cell])).collect::<Vec<usize>>();
    let pending: Vec<(usize, Vec<usize>)> =
        shard.map(|(at, keys)| (at, missing(keys))).filter(|(_, cells)| !cells.is_empty()).collect();
    let ran: usize = pending.iter().map(|(_, cells)| cells.len()).sum();
    progress.planned(total, total - ran);
    let damaged = records.into_damaged();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.min(pending.len()))
        .build()
        .map_err(|error| CampaignError::Threads(error.to_string()))?;
    pool.install(|| {
        pending.par_iter().with_max_len(1).try_for_each(|(group, cells)| {
            experiment.run(*group, cells, &|cell, record, seconds| {
                let key = &groups[*group][cell];
                store.keep(&journal, key, &record, seconds)?;
                progress.finished(key);
                Ok(())
            })
        })
    })?;
    let records = store.records()?;
    let (contents, files) = store.collect(records);
    contents.write(dir, files)?;
    Ok(Finished { contents, ran, kept: total - ran, damaged })
}

/// What a folder holds, also while the campaign still runs.
pub(super) fn read<E: Experiment>(dir: &Path) -> Result<Contents, CampaignError> {
    let store = Store::<E>::open(dir)?;
    let records = store.records()?;
    Ok(store.collect(records).0)
}

/// Joins the folders of shards into `out`, which may hold some of the cells already: the results are what one machine would have
/// written, byte for byte.
pub(super) fn merge<E: Experiment>(
    out: &Path,
    first: &Path,
    dirs: &[&Path],
) -> Result<Contents, CampaignError> {
    let manifest = Store::<E>::open(first)?.manifest;
    // All are looked at before anything is written.
    for dir in dirs {
        let found = identity(dir)?;
        if found != manifest.identity {
            return Err(changed(dir, &manifest.identity, found));
        }
    }
    let (whole, mut journal) = Store::<E>::create(out, manifest)?;
    let mut records = whole.records()?;
    whole.repair(&mut journal, &records)?;
    for dir in dirs {
        whole.add(&journal, &mut records, Store::<E>::open(dir)?.records()?)?;
    }
    let (contents, files) = whole.collect(records);
    contents.write(out, files)?;
    Ok(contents)
}

/// A number of threads that is not too high.
fn checked(threads: usize) -> Result<usize, CampaignError> {
    if threads > THREADS_MAX { Err(CampaignError::TooManyThreads(threads)) } else { Ok(threads) }
}

/// One of `count` equal parts of a campaign: every `count`-th group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// The whole campaign.
    pub const WHOLE: Shard = Shard { index: 1, count: 1 };

    /// True if the group at this position belongs to the shard.
    pub fn holds(self, position: usize) -> bool {
        position % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = CampaignError;

    fn from_str(text: &str) -> Result<Shard, CampaignError> {
        let wrong = || CampaignError::Shard(text.to_owned());
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let index = index.parse().map_err(|_| wrong())?;
        let count = count.parse().map_err(|_| wrong())?;
        if (1..=count).contains(&index) { Ok(Shard { index, count }) } else { Err(wrong()) }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}
