//! The folder of a sweep: see [`crate::work_folder`].
//!
//! Besides the files of all such folders there are `results.csv` and `results.parquet`: arguments and outcomes, an instance in
//! each row, written in the end. The journal has a line for each pack that was handed out, accepted or ended, for each instance
//! that ended or that nobody takes, and for each time that instances were spread to stay. A pack is in the journal, and the
//! journal on the disk, before the pack is sent anywhere.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pliant_control::multi_job::{Command, Plan};
use pliant_control::names::{Handle, Key, Name};
use pliant_control::reason::Cause;
use pliant_staging::FileSpec;
use pliant_wire::PackedEnd;
use serde::{Deserialize, Serialize};

use super::MultiJobWanted;
use super::state::SweepState;
use crate::Sweep;
use crate::work_folder::{Durability, FolderError, Work, WorkFolder, named};

/// The folder of a sweep, for one client at a time.
pub type SweepFolder = WorkFolder<Header>;

/// What a sweep is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// The keys of its packs follow from it.
    pub(super) key: Key,
    /// Whose it is: its jobs are nobody else's.
    pub(super) user: String,
    pub(super) service: String,
    pub(super) sweep: Sweep,
    /// Files that every instance finds in its folder.
    pub(super) inputs: Vec<HeldInput>,
    pub(super) plan: Plan,
    /// What is drawn is drawn from this.
    pub(super) seed: u64,
}

/// An input file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct HeldInput {
    /// As it was when the sweep began.
    pub(super) file: FileSpec,
    /// Where it is here.
    pub(super) path: PathBuf,
}

impl Header {
    pub(super) fn new(user: &str, wanted: &MultiJobWanted, plan: Plan) -> Header {
        let input = |(file, path): &(FileSpec, PathBuf)| HeldInput {
            file: file.clone(),
            // Whoever goes on may do so from another folder.
            path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
        };
        Header {
            key: Key(rand::random()),
            user: user.to_owned(),
            service: wanted.service.clone(),
            sweep: wanted.sweep.clone(),
            inputs: wanted.inputs.iter().map(input).collect(),
            plan,
            seed: rand::random(),
        }
    }
}

impl Work for Header {
    type Entry = Entry;
    type State = SweepState;
    type Command = Command;
    const KIND: &'static str = "a sweep";
    const SCHEMA: &'static str = "pliant.sweep/1";
    const HEADER: &'static str = "sweep.json";
    const FOREIGN: &'static [&'static str] =
        &["results.csv", "results.parquet", "results.json", "exploration.json"];

    fn problem(&self) -> Option<String> {
        let is_of_plan = self.sweep.combinations() == Some(self.plan.instances);
        (!is_of_plan).then(|| format!("{} instances for {}", self.plan.instances, self.sweep))
    }

    fn problem_of(&self, entry: &Entry) -> Option<String> {
        let instances = self.plan.instances;
        let found = entry.highest().filter(|highest| *highest >= instances)?;
        Some(format!("expected instances below {instances}, found {found}"))
    }

    fn start(&self) -> SweepState {
        SweepState::new(self)
    }

    fn apply(state: &mut SweepState, entry: Entry, commands: &mut Vec<Command>) {
        state.apply(entry, commands);
    }

    /// A pack is known before it is sent. The output of one that is over is not read again.
    fn durability(entry: &Entry) -> Durability {
        match entry {
            Entry::Submitted { .. } => Durability::SyncAfter,
            Entry::Over { .. } => Durability::SyncBefore,
            _ => Durability::Buffered,
        }
    }
}

/// Something that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// A pack was handed out: it may have been accepted from then on.
    Submitted {
        /// Its number.
        pack: u32,
        /// To whom.
        server: Name,
        /// Its instances: the first and the last of each run of numbers.
        instances: Vec<(u32, u32)>,
    },
    /// The rest was spread, and is to stay so.
    Kept {
        /// How many instances each server is to get that were not handed out.
        shares: BTreeMap<Name, u64>,
    },
    /// It is a job now.
    Accepted {
        /// The pack.
        pack: u32,
        /// The job.
        job: Handle,
    },
    /// The server did not take it.
    Refused {
        /// The pack.
        pack: u32,
        /// What stands in the way.
        cause: Cause,
        /// The same for people.
        why: String,
    },
    /// An instance has ended.
    Ended {
        /// The pack.
        pack: u32,
        /// How.
        end: PackedEnd,
    },
    /// A pack has ended.
    Over {
        /// The pack.
        pack: u32,
        /// How, for people.
        how: String,
        /// What was not told of its instances was not begun.
        unbegun: bool,
    },
    /// Nobody takes an instance: it failed for good.
    Unplaced {
        /// The instance.
        instance: u32,
        /// The last server that refused it.
        server: Name,
        /// Why.
        why: String,
    },
    /// What is not done is not wanted any more.
    Cancelled {},
}

impl Entry {
    /// The highest number of an instance in it.
    fn highest(&self) -> Option<u32> {
        match self {
            Entry::Submitted { instances, .. } => {
                instances.iter().map(|(first, last)| *first.max(last)).max()
            }
            Entry::Ended { end, .. } => Some(end.instance),
            Entry::Unplaced { instance, .. } => Some(*instance),
            Entry::Kept { .. }
            | Entry::Accepted { .. }
            | Entry::Refused { .. }
            | Entry::Over { .. }
            | Entry::Cancelled {} => None,
        }
    }
}

/// Runs of numbers, of numbers in order.
pub(super) fn runs(instances: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for instance in instances {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *instance => *last = *instance,
            _ => runs.push((*instance, *instance)),
        }
    }
    runs
}

/// The numbers of runs.
pub(super) fn numbers(runs: &[(u32, u32)]) -> Vec<u32> {
    runs.iter().flat_map(|(first, last)| *first..=*last).collect()
}

impl SweepFolder {
    /// An error unless it is of that service with these arguments, spread and tried again in the same way.
    pub(super) fn expect_sweep(&self, found: &Header, wanted: &MultiJobWanted) -> Result<(), FolderError> {
        let MultiJobWanted { service, sweep, inputs, strategy, once, retries, .. } = wanted;
        let Header { plan, .. } = found;
        self.expect("service", service, &found.service)?;
        self.expect("arguments", sweep, &found.sweep)?;
        let files = named(inputs.iter().map(|(file, _)| file));
        self.expect("input files", &files, &named(found.inputs.iter().map(|input| &input.file)))?;
        self.expect("--allocate", strategy, &plan.strategy)?;
        self.expect("--allocate-once", once, &plan.once)?;
        self.expect("--retries", retries, &plan.retries)
    }

    /// An error unless it is that user's: nobody else is told what has become of its jobs.
    pub(super) fn expect_user(&self, found: &Header, user: &str) -> Result<(), FolderError> {
        self.expect("user", user, found.user.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_noted_as_runs() {
        for (instances, expected) in
            [(&[][..], &[][..]), (&[4], &[(4, 4)]), (&[1, 2, 3, 7, 9, 10], &[(1, 3), (7, 7), (9, 10)])]
        {
            assert_eq!(runs(instances), expected);
            assert_eq!(numbers(expected), instances);
        }
    }

    #[test]
    fn a_sweep_and_its_journal_are_of_its_instances() {
        let wanted = MultiJobWanted {
            service: "nap".to_owned(),
            sweep: Sweep { varied: vec!["x=1..4".parse().unwrap()], ..Sweep::default() },
            inputs: Vec::new(),
            strategy: pliant_policy::allocation::Strategy::Statistics,
            once: false,
            retries: 0,
            patience: std::time::Duration::ZERO,
        };
        let header = Header::new("alice", &wanted, super::super::wanted::plan(&wanted));
        assert_eq!(header.problem(), None);
        let fewer = Header { plan: Plan { instances: 3, ..header.plan.clone() }, ..header.clone() };
        assert!(fewer.problem().is_some_and(|problem| problem.contains("3 instances for")));
        let unplaced =
            |instance| Entry::Unplaced { instance, server: "lyon".parse().unwrap(), why: String::new() };
        assert_eq!(header.problem_of(&unplaced(3)), None);
        let problem = header.problem_of(&unplaced(4)).unwrap();
        assert_eq!(problem, "expected instances below 4, found 4");
    }
}
