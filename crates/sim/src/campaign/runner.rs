//! The runner of campaigns of every kind: it runs groups of cells in parallel, keeps records, and builds results from them.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rayon::prelude::*;

use super::CampaignError;
use super::experiment::Experiment;
use super::store::{DamagedLine, FolderContents, Manifest, Store, changed, identity};

/// The maximal number of threads of a campaign, above the cores of any machine. Each thread costs memory even when idle.
pub const THREADS_MAX: usize = 1_024;

/// How a campaign is run. No option changes its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The number of threads, at most [`THREADS_MAX`]; 0: the default of the thread pool. Never more than groups of cells.
    pub threads: usize,
    /// The shard to run.
    pub shard: Shard,
}

/// Receives the progress of a campaign, from any thread.
pub trait Progress: Sync {
    /// The shard has `total` cells; `kept` of them have records already.
    fn planned(&self, total: usize, kept: usize);
    /// One more cell has a record.
    fn finished(&self, key: &str);
    /// True if the campaign is to end without the cells that have no record yet. Simulations end at once, other cells are run to
    /// their end.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Ignores progress.
impl Progress for () {
    fn planned(&self, _total: usize, _kept: usize) {}
    fn finished(&self, _key: &str) {}
}

/// The outcome of running a campaign or a shard.
#[derive(Clone, PartialEq, Debug)]
pub struct FinishedCampaign {
    /// The contents of the folder.
    pub contents: FolderContents,
    /// The number of cells that were run now.
    pub ran: usize,
    /// The number of cells of the shard that had records already.
    pub kept: usize,
    /// Damaged lines of records; their cells were run again.
    pub damaged: Vec<DamagedLine>,
}

/// Runs the cells of a campaign that have no record in `dir` yet.
pub(super) fn run<E: Experiment>(
    experiment: &E,
    dir: &Path,
    options: Options,
    progress: &dyn Progress,
) -> Result<FinishedCampaign, CampaignError> {
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
            unless_cancelled(progress)?;
            experiment.run(*group, cells, &|cell, record, seconds| {
                let key = &groups[*group][cell];
                store.keep(&journal, key, &record, seconds)?;
                progress.finished(key);
                unless_cancelled(progress)
            })
        })
    })?;
    let records = store.records()?;
    let (contents, files) = store.collect(records);
    contents.write(dir, files)?;
    Ok(FinishedCampaign { contents, ran, kept: total - ran, damaged })
}

fn unless_cancelled(progress: &dyn Progress) -> Result<(), CampaignError> {
    if progress.is_cancelled() { Err(CampaignError::Cancelled) } else { Ok(()) }
}

/// Reads a folder, also while the campaign still runs.
pub(super) fn read<E: Experiment>(dir: &Path) -> Result<FolderContents, CampaignError> {
    let store = Store::<E>::open(dir)?;
    let records = store.records()?;
    Ok(store.collect(records).0)
}

/// Merges the folders of shards into `out`, which may hold some of the records already. The results equal those of a run on
/// one machine, byte for byte.
pub(super) fn merge<E: Experiment>(
    out: &Path,
    first: &Path,
    dirs: &[&Path],
) -> Result<FolderContents, CampaignError> {
    let manifest = Store::<E>::open(first)?.manifest;
    // All folders are checked before anything is written.
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

/// Checks a number of threads.
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
