//! What became of each instance, in the order of their numbers. In memory are the places of the lines that say so, and no
//! more.

use std::collections::BTreeMap;

use pliant_control::names::{Handle, Name};
use pliant_wire::{Outcome, PackedEnd};

use super::folder::{Header, numbers};
use super::{Entry, SweepFolder};
use crate::FolderError;

/// No line says what became of an instance.
const NOWHERE: u64 = u64::MAX;

/// What became of an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It ended well.
    Completed,
    /// It failed, the last time it was run, was lost with its job, or nobody takes it.
    Failed,
    /// It was not run to an end, and will not be.
    Cancelled,
    /// It is in a job that has not ended, as far as is known.
    Submitted,
    /// It is not handed out, or is to be again.
    Waiting,
}

impl Fate {
    /// The word for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Completed => "completed",
            Fate::Failed => "failed",
            Fate::Cancelled => "cancelled",
            Fate::Submitted => "submitted",
            Fate::Waiting => "waiting",
        }
    }
}

/// An instance with what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its number.
    pub instance: u32,
    /// Its values of the arguments that vary, in the order of [`Rows::names`].
    pub values: Vec<String>,
    /// What became of it.
    pub fate: Fate,
    /// Its exit code, if it had one.
    pub code: Option<i32>,
    /// How it ended, for people.
    pub how: String,
    /// How often it was run to an end, or lost.
    pub tries: u8,
    /// Where.
    pub server: Option<Name>,
    /// In which job; what it left is in a folder of its number there.
    pub job: Option<Handle>,
    /// How long it took.
    pub elapsed_ms: Option<u64>,
    /// What it wrote on standard output.
    pub output: String,
    /// The end of what it wrote on standard error, if it failed.
    pub error: String,
}

/// The instances of a multi-job.
#[derive(Debug)]
pub struct Rows {
    folder: SweepFolder,
    header: Header,
    /// By instance: the line that says what became of it last, and how often one did.
    ends: Vec<(u64, u8)>,
    /// By pack: its server's position, and its job's number.
    packs: Vec<(u16, u32)>,
    servers: Vec<Name>,
    /// What has no end is not to have one.
    cancelled: bool,
}

impl Rows {
    /// The rows of a folder.
    ///
    /// # Errors
    ///
    /// If there is no multi-job in it, or it cannot be read.
    pub fn of(mut folder: SweepFolder) -> Result<Rows, FolderError> {
        let nothing = || FolderError::Nothing { dir: folder.dir().to_owned() };
        let header = folder.header()?.ok_or_else(nothing)?;
        let mut ends = vec![(NOWHERE, 0_u8); header.plan.instances as usize];
        let (mut packs, mut servers) = (Vec::new(), Vec::<Name>::new());
        // Where a pack that has not ended was handed out, and with which instances.
        let mut open: BTreeMap<u32, (u64, Vec<(u32, u32)>)> = BTreeMap::new();
        let mut cancelled = false;
        folder.replay(&header, |place, entry| match entry {
            Entry::Submitted { pack, instances, .. } => _ = open.insert(pack, (place, instances)),
            Entry::Accepted { pack, job } => {
                let known = servers.iter().position(|server| *server == job.server);
                let server = known.unwrap_or_else(|| {
                    servers.push(job.server);
                    servers.len() - 1
                });
                let at = pack as usize;
                if packs.len() <= at {
                    packs.resize(at + 1, (u16::MAX, 0));
                }
                packs[at] = (u16::try_from(server).unwrap_or(u16::MAX), job.number);
            }
            Entry::Ended { end, .. } => {
                if let Some(known) = ends.get_mut(end.instance as usize) {
                    *known = (place, known.1.saturating_add(1));
                }
            }
            Entry::Refused { pack, .. } => _ = open.remove(&pack),
            Entry::Over { pack, unbegun, .. } => {
                let is_lost = !unbegun && !cancelled;
                let Some((since, instances)) = open.remove(&pack).filter(|_| is_lost) else { return };
                // Whatever was not told of since then was lost with it.
                for instance in numbers(&instances) {
                    if let Some(known) = ends.get_mut(instance as usize)
                        && (known.0 == NOWHERE || known.0 < since)
                    {
                        *known = (place, known.1.saturating_add(1));
                    }
                }
            }
            Entry::Unplaced { instance, .. } => {
                if let Some(known) = ends.get_mut(instance as usize) {
                    known.0 = place;
                }
            }
            Entry::Cancelled {} => cancelled = true,
            Entry::Kept { .. } => {}
        })?;
        // Of what is in jobs that go on, the line that says so.
        for (since, instances) in open.into_values() {
            for instance in numbers(&instances) {
                if let Some(known) = ends.get_mut(instance as usize)
                    && (known.0 == NOWHERE || known.0 < since)
                {
                    known.0 = since;
                }
            }
        }
        Ok(Rows { folder, header, ends, packs, servers, cancelled })
    }

    /// The folder.
    pub fn dir(&self) -> &std::path::Path {
        self.folder.dir()
    }

    /// The arguments that vary.
    pub fn names(&self) -> Vec<String> {
        self.header.sweep.names().map(str::to_owned).collect()
    }

    /// How many instances there are.
    pub fn len(&self) -> u32 {
        self.header.plan.instances
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
    ///
    /// # Errors
    ///
    /// If its line cannot be read.
    pub fn row(&mut self, instance: u32) -> Result<Row, FolderError> {
        let values = self.header.sweep.values(instance);
        let (place, tries) = self.ends.get(instance as usize).copied().unwrap_or((NOWHERE, 0));
        let nothing = Row {
            instance,
            values,
            fate: if self.cancelled { Fate::Cancelled } else { Fate::Waiting },
            code: None,
            how: String::new(),
            tries,
            server: None,
            job: None,
            elapsed_ms: None,
            output: String::new(),
            error: String::new(),
        };
        if place == NOWHERE {
            return Ok(nothing);
        }
        let (pack, end) = match self.folder.line(place)? {
            Entry::Ended { pack, end } => (pack, end),
            Entry::Over { pack, how, .. } => {
                let job = self.job(pack);
                let server = job.as_ref().map(|job| job.server.clone());
                let how = format!("its job ended before it: {how}");
                return Ok(Row { fate: Fate::Failed, how, server, job, ..nothing });
            }
            Entry::Submitted { pack, server, .. } => {
                return Ok(Row {
                    fate: Fate::Submitted,
                    server: Some(server),
                    job: self.job(pack),
                    ..nothing
                });
            }
            Entry::Unplaced { server, why, .. } => {
                let how = format!("no server takes it; {server} says: {why}");
                return Ok(Row { fate: Fate::Failed, how, ..nothing });
            }
            Entry::Accepted { .. } | Entry::Kept { .. } | Entry::Refused { .. } | Entry::Cancelled {} => {
                return Ok(nothing);
            }
        };
        let job = self.job(pack);
        let PackedEnd { outcome, over_walltime, elapsed_ms, .. } = &end;
        Ok(Row {
            fate: if end.is_success() { Fate::Completed } else { Fate::Failed },
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

    /// The job that a pack was, if it was one.
    fn job(&self, pack: u32) -> Option<Handle> {
        let (server, number) = self.packs.get(pack as usize)?;
        let server = self.servers.get(usize::from(*server))?.clone();
        Some(Handle { server, number: *number })
    }
}

#[cfg(test)]
mod tests {
    use pliant_control::reason::Cause;

    use super::super::million::header;
    use super::*;

    #[test]
    fn each_instance_has_the_state_that_its_last_line_says() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = SweepFolder::open(dir.path()).unwrap();
        folder.begin(&header(20)).unwrap();
        let lyon: Name = "lyon".parse().unwrap();
        let submitted = |pack, first, last| Entry::Submitted {
            pack,
            server: lyon.clone(),
            instances: vec![(first, last)],
        };
        let ended = |pack, instance, code| {
            let end = PackedEnd {
                instance,
                outcome: Outcome::ExitCode(code),
                over_walltime: false,
                elapsed_ms: 2,
                scale: 1.0,
                output: String::new(),
                output_cut: false,
                error: String::new(),
            };
            Entry::Ended { pack, end }
        };
        let why = || "too large".to_owned();
        let lines = [
            submitted(0, 0, 3),
            Entry::Accepted { pack: 0, job: Handle { server: lyon.clone(), number: 4 } },
            ended(0, 0, 0),
            ended(0, 1, 1),
            // 2 and 3 were lost with it.
            Entry::Over { pack: 0, how: "signal 9".to_owned(), unbegun: false },
            // 1 goes on as a job, and so does 4, of which it is not known yet whether it is one.
            submitted(1, 1, 1),
            Entry::Accepted { pack: 1, job: Handle { server: lyon.clone(), number: 5 } },
            submitted(2, 4, 4),
            // 5 is refused for good, 6 for now, 7 is given back.
            submitted(3, 5, 5),
            Entry::Refused { pack: 3, cause: Cause::Invalid, why: why() },
            Entry::Unplaced { instance: 5, server: lyon.clone(), why: why() },
            submitted(4, 6, 6),
            Entry::Refused { pack: 4, cause: Cause::TooMany, why: why() },
            submitted(5, 7, 7),
            Entry::Over { pack: 5, how: "withdrawn".to_owned(), unbegun: true },
        ];
        lines.iter().for_each(|line| folder.note(line));
        folder.flush(false).unwrap();
        let mut rows = Rows::of(folder).unwrap();
        let mut told = |instance| {
            let Row { fate, tries, how, job, .. } = rows.row(instance).unwrap();
            (fate.word(), tries, how, job.map(|job| job.number))
        };
        for (instance, state, tries, how, job) in [
            (0, "completed", 1, "exit code 0", Some(4)),
            (1, "submitted", 1, "", Some(5)),
            (2, "failed", 1, "its job ended before it: signal 9", Some(4)),
            (4, "submitted", 0, "", None),
            (5, "failed", 0, "no server takes it; lyon says: too large", None),
            (6, "waiting", 0, "", None),
            (7, "waiting", 0, "", None),
            (8, "waiting", 0, "", None),
        ] {
            assert_eq!(told(instance), (state, tries, how.to_owned(), job), "{instance}");
        }
    }
}
