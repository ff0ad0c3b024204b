//! The results of instances, in the order of their numbers. In memory are the offsets of their journal lines only.

use std::path::Path;

use pliant_control::exact_text::ExactText;
use pliant_control::names::{Handle, Name};
use pliant_wire::{InstanceEnd, Outcome};

use super::folder::Header;
use super::instance_index::InstanceIndex;
use super::{Entry, SweepFolder};
use crate::FolderError;
use crate::work_reader::WorkReader;

/// The state of an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstanceState {
    /// It ended well.
    Completed,
    /// It failed in its last run, was lost with its job, or no server takes it.
    Failed,
    /// It never runs: no server completes it by its deadline.
    NotStarted,
    /// It was cancelled before its end.
    Cancelled,
    /// It is in a job that has not ended.
    Submitted,
    /// It is to be submitted.
    Waiting,
}

impl InstanceState {
    /// The word for scripts.
    pub fn word(self) -> &'static str {
        match self {
            InstanceState::Completed => "completed",
            InstanceState::Failed => "failed",
            InstanceState::NotStarted => "not-started",
            InstanceState::Cancelled => "cancelled",
            InstanceState::Submitted => "submitted",
            InstanceState::Waiting => "waiting",
        }
    }
}

/// An instance with its result.
#[derive(Clone, PartialEq, Debug)]
pub struct InstanceRecord {
    /// Its number.
    pub instance: u32,
    /// Its values of the arguments that vary, in the order of [`SweepResults::names`].
    pub values: Vec<String>,
    /// Its state.
    pub state: InstanceState,
    /// Its exit code, if it has one.
    pub code: Option<i32>,
    /// How it ended, for people.
    pub how: String,
    /// How often it ended or was lost.
    pub tries: u8,
    /// The server of its last run.
    pub server: Option<Name>,
    /// The job of its last run, where a folder of its number has its files.
    pub job: Option<Handle>,
    /// How long it took.
    pub elapsed_ms: Option<u64>,
    /// What it wrote on standard output.
    pub output: ExactText,
    /// The end of what it wrote on standard error, if it failed.
    pub error: ExactText,
}

/// The results of a sweep.
#[derive(Debug)]
pub struct SweepResults {
    reader: WorkReader<Header>,
    index: InstanceIndex,
    /// Keeps other clients off while the results are used.
    _folder: Option<SweepFolder>,
}

impl SweepResults {
    /// The results of a folder, which no other client works on meanwhile.
    ///
    /// # Errors
    ///
    /// If there is no sweep in it, or it cannot be read.
    pub fn of(folder: SweepFolder) -> Result<SweepResults, FolderError> {
        let results = SweepResults::read_only(folder.dir())?;
        Ok(SweepResults { _folder: Some(folder), ..results })
    }

    /// The results of a folder as they are now, also while a client works on it.
    ///
    /// # Errors
    ///
    /// As for [`SweepResults::of`].
    pub fn read_only(dir: &Path) -> Result<SweepResults, FolderError> {
        let mut results = SweepResults::reading(dir)?;
        results.read(|_, _| {})?;
        Ok(results)
    }

    /// The same results, with the folder free for other clients. What they add is not among them.
    #[must_use]
    pub fn released(self) -> SweepResults {
        SweepResults { _folder: None, ..self }
    }

    /// The results of a folder that a client may work on: none before they are read.
    pub(super) fn reading(dir: &Path) -> Result<SweepResults, FolderError> {
        let reader = WorkReader::<Header>::open(dir)?;
        let index = InstanceIndex::new(reader.header().plan.instances);
        Ok(SweepResults { reader, index, _folder: None })
    }

    /// Reads what was written since the last call; `visit` gets each entry, and where the results were before it.
    pub(super) fn read(&mut self, mut visit: impl FnMut(&InstanceIndex, &Entry)) -> Result<(), FolderError> {
        let SweepResults { reader, index, .. } = self;
        reader.read(|offset, entry| {
            visit(index, &entry);
            index.apply(offset, entry);
        })?;
        index.close();
        Ok(())
    }

    pub(super) fn reader(&self) -> &WorkReader<Header> {
        &self.reader
    }

    pub(super) fn index(&self) -> &InstanceIndex {
        &self.index
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.reader.dir()
    }

    /// The arguments that vary.
    pub fn names(&self) -> Vec<String> {
        self.header().parameters.names().map(str::to_owned).collect()
    }

    /// How many instances there are.
    pub fn len(&self) -> u32 {
        self.header().plan.instances
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The result of an instance.
    ///
    /// # Errors
    ///
    /// If its line cannot be read.
    pub fn row(&self, instance: u32) -> Result<InstanceRecord, FolderError> {
        let values = self.header().parameters.values(instance);
        let (offset, tries) = self.index.last_line(instance);
        let nothing = InstanceRecord {
            instance,
            values,
            state: if self.index.is_cancelled() { InstanceState::Cancelled } else { InstanceState::Waiting },
            code: None,
            how: String::new(),
            tries,
            server: None,
            job: None,
            elapsed_ms: None,
            output: ExactText::default(),
            error: ExactText::default(),
        };
        let is_late = |_: &u64| !self.index.is_cancelled();
        let Some(offset) = offset.or(self.index.too_late().filter(is_late)) else { return Ok(nothing) };
        let (batch, end) = match self.reader.line(offset)? {
            Entry::Ended { batch, end } => (batch, end),
            Entry::Over { batch, how, .. } => {
                let job = self.index.job(batch);
                let server = job.as_ref().map(|job| job.server.clone());
                let how = format!("its job ended before it: {how}");
                return Ok(InstanceRecord { state: InstanceState::Failed, how, server, job, ..nothing });
            }
            Entry::Submitted { batch, server, .. } => {
                return Ok(InstanceRecord {
                    state: InstanceState::Submitted,
                    server: Some(server),
                    job: self.index.job(batch),
                    ..nothing
                });
            }
            Entry::Unplaced { server, why, .. } => {
                let how = format!("no server accepts it; {server}: {why}");
                return Ok(InstanceRecord { state: InstanceState::Failed, how, ..nothing });
            }
            Entry::TooLate { server, why } => {
                let how = format!("no server completes it by its deadline; {server}: {why}");
                return Ok(InstanceRecord { state: InstanceState::NotStarted, how, ..nothing });
            }
            Entry::Accepted { .. } | Entry::Kept { .. } | Entry::Refused { .. } | Entry::Cancelled {} => {
                return Ok(nothing);
            }
        };
        let job = self.index.job(batch);
        let InstanceEnd { outcome, over_walltime, elapsed_ms, .. } = &end;
        Ok(InstanceRecord {
            state: if end.is_success() { InstanceState::Completed } else { InstanceState::Failed },
            code: match outcome {
                Outcome::ExitCode(code) => Some(*code),
                Outcome::Signal(_) | Outcome::NotStarted(_) => None,
            },
            how: if *over_walltime { "over its walltime".to_owned() } else { outcome.to_string() },
            server: job.as_ref().map(|job| job.server.clone()),
            job,
            elapsed_ms: Some(*elapsed_ms),
            output: end.output,
            error: end.error,
            ..nothing
        })
    }

    fn header(&self) -> &Header {
        self.reader.header()
    }
}

#[cfg(test)]
mod tests {
    use pliant_control::reason::Cause;

    use super::super::scale_tests::header;
    use super::*;

    #[test]
    fn instances_that_are_too_late_are_not_started() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = SweepFolder::open(dir.path()).unwrap();
        folder.begin(&header(20)).unwrap();
        let lyon: Name = "lyon".parse().unwrap();
        let end = InstanceEnd {
            instance: 0,
            outcome: Outcome::ExitCode(0),
            over_walltime: false,
            elapsed_ms: 2,
            scale: 1.0,
            output: ExactText::default(),
            output_cut: false,
            error: ExactText::default(),
        };
        let how = "its deadline could not be kept: 2026-12-01 08:00:00Z".to_owned();
        let submitted = |batch, instances| Entry::Submitted { batch, server: lyon.clone(), instances };
        let over = |batch, unbegun, too_late| Entry::Over {
            batch,
            how: how.clone(),
            unbegun,
            lost: false,
            too_late,
        };
        let lines = [
            submitted(0, vec![(0, 1)]),
            submitted(1, vec![(2, 2)]),
            Entry::Accepted { batch: 0, job: Handle { server: lyon.clone(), number: 4 } },
            Entry::Accepted { batch: 1, job: Handle { server: lyon.clone(), number: 5 } },
            Entry::Ended { batch: 0, end },
            Entry::Over {
                batch: 0,
                how: "exit code 0".to_owned(),
                unbegun: true,
                lost: false,
                too_late: false,
            },
            // It waited until it was too late.
            over(1, true, true),
            Entry::TooLate { server: lyon.clone(), why: how.clone() },
        ];
        lines.iter().for_each(|line| folder.append(line));
        folder.flush(false).unwrap();
        let (_, mut state) = folder.resume().unwrap().unwrap();
        let progress = state.machine.progress();
        assert_eq!((progress.done, progress.failed, progress.not_started, progress.retried), (1, 0, 19, 0));
        let mut commands = Vec::new();
        state.on(pliant_control::multi_job::Event::Begin, &mut commands);
        assert_eq!(commands, [pliant_control::multi_job::Command::Done]);
        let view = super::super::SweepView::open(dir.path()).unwrap();
        let rows = SweepResults::of(folder).unwrap();
        for (instance, state, how) in [
            (0, "completed", "exit code 0"),
            (1, "not-started", "no server completes it by its deadline; lyon: its deadline could not"),
            (2, "not-started", "no server completes it by its deadline; lyon: its deadline could not"),
            (3, "not-started", "no server completes it by its deadline; lyon: its deadline could not"),
        ] {
            let row = rows.row(instance).unwrap();
            assert!((row.state.word(), row.tries) == (state, u8::from(instance == 0)), "{row:?}");
            assert!(row.how.starts_with(how), "{row:?}");
            assert_eq!(view.state(instance), row.state);
        }
    }

    #[test]
    fn each_instance_has_the_state_that_its_last_line_says() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = SweepFolder::open(dir.path()).unwrap();
        folder.begin(&header(20)).unwrap();
        let lyon: Name = "lyon".parse().unwrap();
        let submitted = |batch, first, last| Entry::Submitted {
            batch,
            server: lyon.clone(),
            instances: vec![(first, last)],
        };
        let ended = |batch, instance, code| {
            let end = InstanceEnd {
                instance,
                outcome: Outcome::ExitCode(code),
                over_walltime: false,
                elapsed_ms: 2,
                scale: 1.0,
                output: ExactText::default(),
                output_cut: false,
                error: ExactText::default(),
            };
            Entry::Ended { batch, end }
        };
        let why = || "too large".to_owned();
        let lines = [
            submitted(0, 0, 3),
            Entry::Accepted { batch: 0, job: Handle { server: lyon.clone(), number: 4 } },
            ended(0, 0, 0),
            ended(0, 1, 1),
            // 2 ended with it, 3 had not begun.
            Entry::Over {
                batch: 0,
                how: "signal 9".to_owned(),
                unbegun: false,
                lost: false,
                too_late: false,
            },
            // 1 is in a job again. The batch of 4 is not accepted yet.
            submitted(1, 1, 1),
            Entry::Accepted { batch: 1, job: Handle { server: lyon.clone(), number: 5 } },
            submitted(2, 4, 4),
            // 5 is refused for good, 6 for now, 7 is withdrawn.
            submitted(3, 5, 5),
            Entry::Refused { batch: 3, cause: Cause::Invalid, why: why() },
            Entry::Unplaced { instance: 5, server: lyon.clone(), why: why() },
            submitted(4, 6, 6),
            Entry::Refused { batch: 4, cause: Cause::TooMany, why: why() },
            submitted(5, 7, 7),
            Entry::Over {
                batch: 5,
                how: "withdrawn".to_owned(),
                unbegun: true,
                lost: false,
                too_late: false,
            },
        ];
        lines.iter().for_each(|line| folder.append(line));
        folder.flush(false).unwrap();
        // The folder is locked, as it is while a client works.
        let view = super::super::SweepView::open(dir.path()).unwrap();
        let rows = SweepResults::of(folder).unwrap();
        let end_of = |instance| {
            let InstanceRecord { state, tries, how, job, .. } = rows.row(instance).unwrap();
            (state.word(), tries, how, job.map(|job| job.number))
        };
        for (instance, state, tries, how, job) in [
            (0, "completed", 1, "exit code 0", Some(4)),
            (1, "submitted", 1, "", Some(5)),
            (2, "failed", 1, "its job ended before it: signal 9", Some(4)),
            (3, "waiting", 0, "", None),
            (4, "submitted", 0, "", None),
            (5, "failed", 0, "no server accepts it; lyon: too large", None),
            (6, "waiting", 0, "", None),
            (7, "waiting", 0, "", None),
            (8, "waiting", 0, "", None),
        ] {
            assert_eq!(end_of(instance), (state, tries, how.to_owned(), job), "{instance}");
        }
        let states: Vec<&str> = (0..9).map(|instance| view.state(instance).word()).collect();
        // 2 failed and is run again.
        let expected = [
            "completed",
            "submitted",
            "waiting",
            "waiting",
            "submitted",
            "failed",
            "waiting",
            "waiting",
            "waiting",
        ];
        assert_eq!(states, expected);
        assert_eq!((view.progress().done, view.progress().open), (1, 2));
        let of_lyon = view.servers().get(&lyon).unwrap();
        assert_eq!((of_lyon.done, of_lyon.failed, of_lyon.open, of_lyon.elapsed_ms), (1, 1, 2, 4));
        assert_eq!((view.facts(0).elapsed_ms, view.facts(4).elapsed_ms), (Some(2), None));
    }
}
