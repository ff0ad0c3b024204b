//! The folder of a sweep: see [`crate::work_folder`].
//!
//! In addition to the files of every work folder there are `results.csv` and `results.parquet`: an instance in each row, with
//! arguments and outcome, written in the end. The journal has a line for each batch that was submitted, accepted or ended, for
//! each instance that ended or that no server takes, and for each fixed allocation. A batch is journaled and synced before it is
//! sent.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pliant_control::multi_job::{Command, Plan};
use pliant_control::names::{Handle, Key, Name};
use pliant_control::reason::Cause;
use pliant_staging::FileSpec;
use pliant_wire::{Executable, InstanceEnd};
use serde::{Deserialize, Serialize};

use super::SweepSpec;
use super::state::SweepState;
use crate::ParameterSpace;
use crate::work_folder::{Durability, FolderError, Work, WorkFolder, named};

/// The folder of a sweep, for one client at a time.
pub type SweepFolder = WorkFolder<Header>;

/// The header of a sweep's folder.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// The base of the keys of its batches.
    pub(super) key: Key,
    /// The owner of its jobs.
    pub(super) user: String,
    /// What its instances run: with the text of a script, which may change elsewhere.
    #[serde(flatten)]
    pub(super) executable: Executable,
    pub(super) parameters: ParameterSpace,
    /// Files that every instance finds in its folder.
    pub(super) inputs: Vec<InputFile>,
    pub(super) plan: Plan,
    /// The only server that gets instances; any if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) only: Option<Name>,
    /// The seed of its random numbers.
    pub(super) seed: u64,
}

/// An input file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct InputFile {
    /// As it was when the sweep began.
    pub(super) file: FileSpec,
    /// The local path.
    pub(super) path: PathBuf,
}

impl Header {
    pub(super) fn new(user: &str, spec: &SweepSpec, plan: Plan) -> Header {
        let input = |(file, path): &(FileSpec, PathBuf)| InputFile {
            file: file.clone(),
            // The sweep may be resumed from another working directory.
            path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
        };
        Header {
            key: Key(rand::random()),
            user: user.to_owned(),
            executable: spec.executable.clone(),
            parameters: spec.parameters.clone(),
            inputs: spec.inputs.iter().map(input).collect(),
            plan,
            only: spec.only.clone(),
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
        let is_of_plan = self.parameters.combinations() == Some(self.plan.instances);
        (!is_of_plan).then(|| format!("{} instances for {}", self.plan.instances, self.parameters))
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

    /// A batch is journaled before it is sent. The output of a batch that is over is not read again.
    fn durability(entry: &Entry) -> Durability {
        match entry {
            Entry::Submitted { .. } => Durability::SyncAfter,
            Entry::Over { .. } => Durability::SyncBefore,
            _ => Durability::Buffered,
        }
    }
}

/// An entry of a sweep's journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// A batch is about to be submitted.
    Submitted {
        /// Its number.
        batch: u32,
        /// The server.
        server: Name,
        /// Its instances: the first and the last of each run of numbers.
        instances: Vec<(u32, u32)>,
    },
    /// The other instances were allocated for good.
    Kept {
        /// How many further instances each server gets.
        shares: BTreeMap<Name, u64>,
    },
    /// A batch was accepted as a job.
    Accepted {
        /// The batch.
        batch: u32,
        /// The job.
        job: Handle,
    },
    /// The server refused a batch.
    Refused {
        /// The batch.
        batch: u32,
        /// Why, for programs.
        cause: Cause,
        /// Why, for people.
        why: String,
    },
    /// An instance has ended.
    Ended {
        /// The batch.
        batch: u32,
        /// How.
        end: InstanceEnd,
    },
    /// A batch has ended.
    Over {
        /// The batch.
        batch: u32,
        /// How, for people.
        how: String,
        /// Instances without an end were not started.
        unbegun: bool,
        /// Its server went down, or nothing is known of it any more.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lost: bool,
        /// It was given up before its start, because its deadline could not be kept any more.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        too_late: bool,
    },
    /// No server takes an instance: it failed for good.
    Unplaced {
        /// The instance.
        instance: u32,
        /// The last server that refused it.
        server: Name,
        /// Why.
        why: String,
    },
    /// No server completes a waiting instance by the deadline: none of them runs.
    TooLate {
        /// A server that would be too late.
        server: Name,
        /// Why.
        why: String,
    },
    /// The user cancelled the sweep.
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
            | Entry::TooLate { .. }
            | Entry::Cancelled {} => None,
        }
    }
}

/// The ranges of increasing numbers, as first and last.
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

/// The numbers of ranges.
pub(super) fn numbers(runs: &[(u32, u32)]) -> Vec<u32> {
    runs.iter().flat_map(|(first, last)| *first..=*last).collect()
}

impl SweepFolder {
    /// An error unless it is the sweep that was asked for.
    pub(super) fn expect_sweep(&self, found: &Header, spec: &SweepSpec) -> Result<(), FolderError> {
        let SweepSpec { executable, parameters, inputs, strategy, once, retries, at_once, only, .. } = spec;
        let Header { plan, .. } = found;
        self.expect_executable(executable, &found.executable)?;
        self.expect("arguments", parameters, &found.parameters)?;
        let files = named(inputs.iter().map(|(file, _)| file));
        self.expect("input files", &files, &named(found.inputs.iter().map(|input| &input.file)))?;
        self.expect("--allocate", strategy, &plan.strategy)?;
        self.expect("--allocate-once", once, &plan.once)?;
        self.expect("--retries", retries, &plan.retries)?;
        let limit = |most: Option<u32>| most.map_or("any number".to_owned(), |most| most.to_string());
        self.expect("instances at a time", &limit(*at_once), &limit(plan.at_once))?;
        let server = |only: &Option<Name>| only.as_ref().map_or("any".to_owned(), Name::to_string);
        self.expect("--server", &server(only), &server(&found.only))
    }

    /// An error unless the sweep is that user's, who alone can see its jobs.
    pub(super) fn expect_user(&self, found: &Header, user: &str) -> Result<(), FolderError> {
        self.expect("user", user, found.user.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_journaled_as_ranges() {
        for (instances, expected) in
            [(&[][..], &[][..]), (&[4], &[(4, 4)]), (&[1, 2, 3, 7, 9, 10], &[(1, 3), (7, 7), (9, 10)])]
        {
            assert_eq!(runs(instances), expected);
            assert_eq!(numbers(expected), instances);
        }
    }

    #[test]
    fn a_folder_without_an_entry_and_without_other_files_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("fit-array-1");
        let begun = || {
            let folder = SweepFolder::open(&dir).unwrap();
            folder.begin(&super::super::scale_tests::header(20)).unwrap();
            folder
        };
        let folder = begun();
        assert!(SweepFolder::remove_if_unbegun(&dir).is_err(), "a client works on it");
        drop(folder);
        assert!(SweepFolder::remove_if_unbegun(&dir).unwrap() && !dir.exists());
        std::fs::create_dir(&dir).unwrap();
        assert!(SweepFolder::remove_if_unbegun(&dir).unwrap() && !dir.exists());
        // It has results, or an entry.
        drop(begun());
        std::fs::write(dir.join("results.csv"), "").unwrap();
        assert!(!SweepFolder::remove_if_unbegun(&dir).unwrap());
        std::fs::remove_file(dir.join("results.csv")).unwrap();
        let mut folder = SweepFolder::open(&dir).unwrap();
        folder.append(&Entry::Cancelled {});
        folder.flush(false).unwrap();
        drop(folder);
        assert!(!SweepFolder::remove_if_unbegun(&dir).unwrap());
        assert!(dir.join("sweep.json").exists());
    }

    #[test]
    fn a_sweep_and_its_journal_are_of_its_instances() {
        let spec = SweepSpec {
            executable: "nap".into(),
            parameters: ParameterSpace {
                varied: vec!["x=1..4".parse().unwrap()],
                ..ParameterSpace::default()
            },
            inputs: Vec::new(),
            strategy: pliant_policy::allocation::Strategy::Statistics,
            once: false,
            retries: 0,
            at_once: None,
            only: None,
            timeout: std::time::Duration::ZERO,
        };
        let header = Header::new("alice", &spec, super::super::spec::plan(&spec));
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
