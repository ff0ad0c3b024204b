//! A log as a stream of jobs, for simulations that take jobs one by one: memory does not grow with the log.
//!
//! Only what is in order can be streamed. A job that was submitted before an earlier line's, or a partition
//! that is named after the first job, interrupts the stream ([`LogStreamError::OutOfOrder`]); [`crate::load`]
//! then gives the same jobs, sorted. Without interruption both give the same jobs and the same report.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use pliant_model::{ClusterId, Job, Platform, Time};

use crate::error::{Problem, TraceError};
use crate::lines::{open, plain};
use crate::origins::Origins;
use crate::record::Record;
use crate::repair::{RepairOptions, RepairReport, Repairer};
use crate::workload::Format;
use crate::{gwf, swf};

/// The end of a stream before the end of its log.
#[derive(Debug, thiserror::Error)]
pub enum LogStreamError {
    /// The log cannot be read or understood.
    #[error(transparent)]
    Failed(TraceError),
    /// The log is not in order and must be loaded as a whole.
    #[error("expected a log in order of submission, found one that is not")]
    OutOfOrder,
}

enum Reader<'a> {
    Swf(Box<swf::Reader<Box<dyn BufRead + Send + 'a>>>),
    Gwf(Box<gwf::Reader<Box<dyn BufRead + Send + 'a>>>),
}

/// Repaired jobs of a log, in order of submission, the first at 0, each with its origin on a platform.
pub struct JobStream<'a> {
    reader: Reader<'a>,
    repairer: Repairer,
    origins: Origins,
    /// By partition, as far as they were met.
    by_partition: BTreeMap<i32, Option<ClusterId>>,
    /// True if partitions are clusters by their names, not by their numbers.
    named: bool,
    /// Header lines about partitions when the first job was read.
    partition_lines: u64,
    /// When the first job was submitted, on the log's clock.
    first: Time,
    pending: Option<Job>,
    ended: bool,
}

/// Opens a log as a stream; none if it is no log of lines (SWF or GWF), or can be read only once (a pipe).
pub fn stream(
    path: &Path,
    repair: RepairOptions,
    platform: &Platform,
) -> Result<Option<JobStream<'static>>, TraceError> {
    let io = |error| TraceError::new(path, Problem::Io(error));
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Ok(None);
    }
    match Format::of(path) {
        Format::Swf | Format::Gwf => {
            JobStream::new(path, open(path).map_err(io)?, repair, platform).map(Some)
        }
        Format::Batsim | Format::Scenario => Ok(None),
    }
}

/// Streams an open log, compressed or not. The name decides between GWF and SWF and appears in errors.
pub fn stream_from<'a>(
    path: &Path,
    input: impl BufRead + Send + 'a,
    repair: RepairOptions,
    platform: &Platform,
) -> Result<JobStream<'a>, TraceError> {
    let input = plain(input).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
    JobStream::new(path, input, repair, platform)
}

impl<'a> JobStream<'a> {
    fn new(
        path: &Path,
        input: Box<dyn BufRead + Send + 'a>,
        repair: RepairOptions,
        platform: &Platform,
    ) -> Result<JobStream<'a>, TraceError> {
        let reader = match Format::of(path) {
            Format::Gwf => Reader::Gwf(Box::new(gwf::Reader::new(path, input))),
            _ => Reader::Swf(Box::new(swf::Reader::new(path, input)?)),
        };
        let mut stream = JobStream {
            reader,
            repairer: Repairer::new(path, repair),
            origins: Origins::new(platform),
            by_partition: BTreeMap::new(),
            named: true,
            partition_lines: 0,
            first: Time::ZERO,
            pending: None,
            ended: false,
        };
        let first = stream.read()?;
        if let Reader::Swf(reader) = &stream.reader {
            let names = reader.header().partition_names();
            stream.named = !names.is_empty();
            stream.partition_lines = reader.header().partition_lines();
            let clusters = names.iter().map(|(number, name)| (*number, stream.origins.named(name)));
            stream.by_partition = clusters.collect();
        }
        if let Some((job, partition)) = first {
            stream.first = job.submit;
            stream.pending = Some(stream.placed(job, partition));
        }
        Ok(stream)
    }

    /// True if no job of the log can be simulated.
    pub fn is_empty(&self) -> bool {
        self.pending.is_none() && self.repairer.report().kept == 0
    }

    /// The number of jobs stated in the log's header; cleaned logs often have fewer.
    pub fn expected_jobs(&self) -> Option<u64> {
        let header = match &self.reader {
            Reader::Swf(reader) => reader.header(),
            Reader::Gwf(reader) => reader.header(),
        };
        header.max_jobs.and_then(|jobs| u64::try_from(jobs).ok()).filter(|jobs| *jobs > 0)
    }

    /// The repairs so far.
    pub fn report(&self) -> RepairReport {
        let extra_columns = match &self.reader {
            Reader::Swf(reader) => reader.extra_columns(),
            Reader::Gwf(reader) => reader.extra_columns(),
        };
        RepairReport { extra_columns, ..self.repairer.report().clone() }
    }

    /// The next job that is kept, on the log's clock, with its partition.
    fn read(&mut self) -> Result<Option<(Job, i32)>, TraceError> {
        loop {
            let record: Option<Result<Record, TraceError>> = match &mut self.reader {
                Reader::Swf(reader) => reader.next(),
                Reader::Gwf(reader) => reader.next(),
            };
            let Some(record) = record else { return Ok(None) };
            if let Some(kept) = self.repairer.repair(&record?)? {
                return Ok(Some(kept));
            }
        }
    }

    /// False if a job or a partition's name came late, so that jobs before it may be out of order.
    fn in_order(&self) -> bool {
        let names_came = match &self.reader {
            Reader::Swf(reader) => reader.header().partition_lines() != self.partition_lines,
            // Every site of this format has a name, and a name means the same wherever it comes.
            Reader::Gwf(_) => false,
        };
        self.repairer.is_sorted() && (!names_came || self.origins.only().is_some())
    }

    /// The job on the workload's clock, with its origin.
    fn placed(&mut self, job: Job, partition: i32) -> Job {
        let origin = self.origins.only().or_else(|| self.cluster_of(partition));
        Job { submit: Time(job.submit.0 - self.first.0), origin, ..job }
    }

    fn cluster_of(&mut self, partition: i32) -> Option<ClusterId> {
        if !self.named {
            return self.origins.numbered(partition);
        }
        if let Some(known) = self.by_partition.get(&partition) {
            return *known;
        }
        // The header's names are all known; sites appear with their jobs.
        let Reader::Gwf(reader) = &self.reader else { return None };
        let cluster = reader.site_name(partition).and_then(|name| self.origins.named(&name));
        self.by_partition.insert(partition, cluster);
        cluster
    }
}

impl Iterator for JobStream<'_> {
    type Item = Result<Job, LogStreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.pending.take() {
            return Some(Ok(first));
        }
        if self.ended {
            return None;
        }
        let item = match self.read() {
            Err(error) => Some(Err(LogStreamError::Failed(error))),
            Ok(_) if !self.in_order() => Some(Err(LogStreamError::OutOfOrder)),
            Ok(job) => job.map(|(job, partition)| Ok(self.placed(job, partition))),
        };
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}
