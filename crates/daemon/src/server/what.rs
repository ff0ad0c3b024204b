//! What a server runs: a job, or its part of a launch.

use pliant_control::payload::Payload;
use std::fmt;
use std::path::PathBuf;

use pliant_control::batch::Run;
use pliant_control::job::JobRecord;
use pliant_control::server::Server;
use pliant_model::{Procs, Span};
use pliant_staging::Store;

use super::launch::{Host, Launch, PrepareError};
use super::parts::PartRun;

/// What is run. Of a job there is the note of its acceptance, as it was kept or as it reads.
#[derive(Clone, Debug)]
pub(super) enum Execution<L = Payload> {
    Job(Box<JobRecord>, L),
    Part(Box<PartRun>),
}

impl Execution {
    /// What has that number; none if nobody knows it, or not any more.
    pub(super) fn of(machine: &Server, number: u32) -> Option<Execution> {
        if let Some(part) = PartRun::of(machine, number) {
            return Some(Execution::Part(Box::new(part)));
        }
        let (record, launch) = machine.job(number).zip(machine.payload(number))?;
        Some(Execution::Job(Box::new(record.clone()), launch.clone()))
    }

    /// The same with what its note says.
    pub(super) fn read(self) -> Result<Execution<Launch>, PrepareError> {
        Ok(match self {
            Execution::Job(record, launch) => {
                Execution::Job(record, launch.read().map_err(PrepareError::Note)?)
            }
            Execution::Part(part) => Execution::Part(part),
        })
    }
}

impl<L> Execution<L> {
    /// Its folder.
    pub(super) fn dir(&self, host: &Host) -> PathBuf {
        match self {
            Execution::Job(record, _) => host.dir(&record.handle),
            Execution::Part(part) => host.part_dir(&part.part.id),
        }
    }

    /// Its processors, and how long it may run.
    pub(super) fn size(&self) -> (Procs, Span) {
        match self {
            Execution::Job(record, _) => (record.procs, record.walltime),
            Execution::Part(part) => (part.part.procs, part.part.walltime),
        }
    }

    /// The part, if it is one.
    pub(super) fn part(&self) -> Option<&PartRun> {
        match self {
            Execution::Job(..) => None,
            Execution::Part(part) => Some(part),
        }
    }
}

impl Execution<Launch> {
    /// What ties its log lines together; nothing if that is not known.
    pub(super) fn request(&self) -> &str {
        match self {
            Execution::Job(_, launch) => &launch.request,
            Execution::Part(_) => "",
        }
    }

    /// True if it is a pack of a sweep.
    pub(super) fn is_pack(&self) -> bool {
        matches!(self, Execution::Job(_, launch) if launch.pack.is_some())
    }

    /// Makes its folder ready to be run, in any of several sizes if there are some. Doing it again does no harm.
    pub(super) fn prepare(
        &self,
        host: &Host,
        store: &Store,
        run: &Run,
        sizes: &[Run],
    ) -> Result<PathBuf, PrepareError> {
        match self {
            Execution::Job(record, launch) => {
                host.prepare_sizes(record, launch, sizes)?;
                host.prepare(store, record, launch, run)
            }
            Execution::Part(part) => part.prepare(host, run),
        }
    }
}

impl<L> fmt::Display for Execution<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Execution::Job(record, _) => record.handle.fmt(f),
            Execution::Part(part) => part.part.id.fmt(f),
        }
    }
}
