//! The results of instances, in the order of their numbers. In memory are the offsets of their journal lines only.

use std::collections::BTreeMap;

use pliant_control::exact_text::ExactText;
use pliant_control::names::{Handle, Name};
use pliant_wire::{InstanceEnd, Outcome};

use super::folder::{Header, numbers};
use super::{Entry, SweepFolder};
use crate::FolderError;

/// The offset of an instance without a journal line.
const NOWHERE: u64 = u64::MAX;

/// The state of an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstanceState {
    /// It ended well.
    Completed,
    /// It failed in its last run, was lost with its job, or no server takes it.
    Failed,
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
    folder: SweepFolder,
    header: Header,
    /// By instance: the offset of its last line, and how often it ended.
    ends: Vec<(u64, u8)>,
    /// By batch: the index of its server, and the number of its job.
    batches: Vec<(u16, u32)>,
    servers: Vec<Name>,
    /// The sweep is cancelled.
    cancelled: bool,
}

impl SweepResults {
    /// The results of a folder.
    ///
    /// # Errors
    ///
    /// If there is no sweep in it, or it cannot be read.
    pub fn of(mut folder: SweepFolder) -> Result<SweepResults, FolderError> {
        let nothing = || FolderError::Empty { dir: folder.dir().to_owned() };
        let header = folder.header()?.ok_or_else(nothing)?;
        let mut ends = vec![(NOWHERE, 0_u8); header.plan.instances as usize];
        let (mut batches, mut servers) = (Vec::new(), Vec::<Name>::new());
        // The open batches: the offset of the submission, and the instances.
        let mut open: BTreeMap<u32, (u64, Vec<(u32, u32)>)> = BTreeMap::new();
        let mut cancelled = false;
        folder.replay(&header, |offset, entry| match entry {
            Entry::Submitted { batch, instances, .. } => _ = open.insert(batch, (offset, instances)),
            Entry::Accepted { batch, job } => {
                let known = servers.iter().position(|server| *server == job.server);
                let server = known.unwrap_or_else(|| {
                    servers.push(job.server);
                    servers.len() - 1
                });
                let at = batch as usize;
                if batches.len() <= at {
                    batches.resize(at + 1, (u16::MAX, 0));
                }
                batches[at] = (u16::try_from(server).unwrap_or(u16::MAX), job.number);
            }
            Entry::Ended { end, .. } => {
                if let Some(known) = ends.get_mut(end.instance as usize) {
                    *known = (offset, known.1.saturating_add(1));
                }
            }
            Entry::Refused { batch, .. } => _ = open.remove(&batch),
            Entry::Over { batch, unbegun, .. } => {
                let has_begun = !unbegun && !cancelled;
                let Some((since, instances)) = open.remove(&batch).filter(|_| has_begun) else { return };
                // The first instance without an end since then ended with the batch; those behind it had not begun.
                let no_end = |known: &(u64, u8)| known.0 == NOWHERE || known.0 < since;
                let first = numbers(&instances)
                    .into_iter()
                    .find(|instance| ends.get(*instance as usize).is_some_and(no_end));
                if let Some(known) = first.and_then(|instance| ends.get_mut(instance as usize)) {
                    *known = (offset, known.1.saturating_add(1));
                }
            }
            Entry::Unplaced { instance, .. } => {
                if let Some(known) = ends.get_mut(instance as usize) {
                    known.0 = offset;
                }
            }
            Entry::Cancelled {} => cancelled = true,
            Entry::Kept { .. } => {}
        })?;
        // Instances of open batches are submitted.
        for (since, instances) in open.into_values() {
            for instance in numbers(&instances) {
                if let Some(known) = ends.get_mut(instance as usize)
                    && (known.0 == NOWHERE || known.0 < since)
                {
                    known.0 = since;
                }
            }
        }
        Ok(SweepResults { folder, header, ends, batches, servers, cancelled })
    }

    /// The folder.
    pub fn dir(&self) -> &std::path::Path {
        self.folder.dir()
    }

    /// The arguments that vary.
    pub fn names(&self) -> Vec<String> {
        self.header.parameters.names().map(str::to_owned).collect()
    }

    /// How many instances there are.
    pub fn len(&self) -> u32 {
        self.header.plan.instances
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
    pub fn row(&mut self, instance: u32) -> Result<InstanceRecord, FolderError> {
        let values = self.header.parameters.values(instance);
        let (offset, tries) = self.ends.get(instance as usize).copied().unwrap_or((NOWHERE, 0));
        let nothing = InstanceRecord {
            instance,
            values,
            state: if self.cancelled { InstanceState::Cancelled } else { InstanceState::Waiting },
            code: None,
            how: String::new(),
            tries,
            server: None,
            job: None,
            elapsed_ms: None,
            output: ExactText::default(),
            error: ExactText::default(),
        };
        if offset == NOWHERE {
            return Ok(nothing);
        }
        let (batch, end) = match self.folder.line(offset)? {
            Entry::Ended { batch, end } => (batch, end),
            Entry::Over { batch, how, .. } => {
                let job = self.job(batch);
                let server = job.as_ref().map(|job| job.server.clone());
                let how = format!("its job ended before it: {how}");
                return Ok(InstanceRecord { state: InstanceState::Failed, how, server, job, ..nothing });
            }
            Entry::Submitted { batch, server, .. } => {
                return Ok(InstanceRecord {
                    state: InstanceState::Submitted,
                    server: Some(server),
                    job: self.job(batch),
                    ..nothing
                });
            }
            Entry::Unplaced { server, why, .. } => {
                let how = format!("no server accepts it; {server}: {why}");
                return Ok(InstanceRecord { state: InstanceState::Failed, how, ..nothing });
            }
            Entry::Accepted { .. } | Entry::Kept { .. } | Entry::Refused { .. } | Entry::Cancelled {} => {
                return Ok(nothing);
            }
        };
        let job = self.job(batch);
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

    /// The job of a batch, if it was accepted.
    fn job(&self, batch: u32) -> Option<Handle> {
        let (server, number) = self.batches.get(batch as usize)?;
        let server = self.servers.get(usize::from(*server))?.clone();
        Some(Handle { server, number: *number })
    }
}

#[cfg(test)]
mod tests {
    use pliant_control::reason::Cause;

    use super::super::scale_tests::header;
    use super::*;

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
            Entry::Over { batch: 0, how: "signal 9".to_owned(), unbegun: false, lost: false },
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
            Entry::Over { batch: 5, how: "withdrawn".to_owned(), unbegun: true, lost: false },
        ];
        lines.iter().for_each(|line| folder.append(line));
        folder.flush(false).unwrap();
        let mut rows = SweepResults::of(folder).unwrap();
        let mut end_of = |instance| {
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
    }
}
