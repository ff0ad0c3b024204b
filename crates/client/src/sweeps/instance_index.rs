//! Where the journal of a sweep has the last line of each instance, and which job each batch is.

use std::collections::BTreeMap;

use pliant_control::names::{Handle, Name};

use super::Entry;
use super::folder::numbers;

/// The offset of an instance without a journal line.
const NOWHERE: u64 = u64::MAX;

/// The lines of instances, entry by entry.
#[derive(Debug)]
pub(super) struct InstanceIndex {
    /// By instance: the offset of the last line with its end, and how often it ended.
    ends: Vec<(u64, u8)>,
    /// By batch: the index of its server, and the number of its job.
    batches: Vec<(u16, u32)>,
    servers: Vec<Name>,
    /// The open batches: the offset of the submission, and the instances.
    open: BTreeMap<u32, (u64, Vec<(u32, u32)>)>,
    /// Instances of open batches that have not ended in them: the offset of the submission. As of [`close`](InstanceIndex::close).
    submitted: BTreeMap<u32, u64>,
    /// The sweep is cancelled.
    cancelled: bool,
    /// The offset of the line that says that no server completes the rest by the deadline.
    too_late: Option<u64>,
}

impl InstanceIndex {
    /// Instances without a line.
    pub(super) fn new(instances: u32) -> InstanceIndex {
        InstanceIndex {
            ends: vec![(NOWHERE, 0_u8); instances as usize],
            batches: Vec::new(),
            servers: Vec::new(),
            open: BTreeMap::new(),
            submitted: BTreeMap::new(),
            cancelled: false,
            too_late: None,
        }
    }

    /// Takes in the entry of the line at that offset.
    pub(super) fn apply(&mut self, offset: u64, entry: Entry) {
        match entry {
            Entry::Submitted { batch, instances, .. } => _ = self.open.insert(batch, (offset, instances)),
            Entry::Accepted { batch, job } => self.accepted(batch, job),
            Entry::Ended { end, .. } => {
                if let Some(known) = self.ends.get_mut(end.instance as usize) {
                    *known = (offset, known.1.saturating_add(1));
                }
            }
            Entry::Refused { batch, .. } => _ = self.open.remove(&batch),
            Entry::Over { batch, unbegun, .. } => {
                if let Some(instance) = self.over(batch, unbegun)
                    && let Some(known) = self.ends.get_mut(instance as usize)
                {
                    *known = (offset, known.1.saturating_add(1));
                }
            }
            Entry::Unplaced { instance, .. } => {
                if let Some(known) = self.ends.get_mut(instance as usize) {
                    known.0 = offset;
                }
            }
            Entry::Cancelled {} => self.cancelled = true,
            Entry::TooLate { .. } => self.too_late = Some(offset),
            Entry::Kept { .. } => {}
        }
    }

    fn accepted(&mut self, batch: u32, job: Handle) {
        let known = self.servers.iter().position(|server| *server == job.server);
        let server = known.unwrap_or_else(|| {
            self.servers.push(job.server);
            self.servers.len() - 1
        });
        let at = batch as usize;
        if self.batches.len() <= at {
            self.batches.resize(at + 1, (u16::MAX, 0));
        }
        self.batches[at] = (u16::try_from(server).unwrap_or(u16::MAX), job.number);
    }

    /// The instance that ended with its batch: the first one without an end since then. Those behind it had not begun.
    fn over(&mut self, batch: u32, unbegun: bool) -> Option<u32> {
        let (since, instances) = self.open.remove(&batch)?;
        if unbegun || self.cancelled {
            return None;
        }
        numbers(&instances).into_iter().find(|instance| self.is_without_end(*instance, since))
    }

    fn is_without_end(&self, instance: u32, since: u64) -> bool {
        self.ends.get(instance as usize).is_some_and(|known| known.0 == NOWHERE || known.0 < since)
    }

    /// Finds out which instances are in jobs that have not ended.
    pub(super) fn close(&mut self) {
        let submitted = self.open.values().flat_map(|(since, instances)| {
            let numbers = numbers(instances).into_iter();
            numbers
                .filter(|instance| self.is_without_end(*instance, *since))
                .map(|instance| (instance, *since))
        });
        self.submitted = submitted.collect();
    }

    /// The offset of the last line about an instance, and how often it ended.
    pub(super) fn last_line(&self, instance: u32) -> (Option<u64>, u8) {
        let (offset, tries) = self.ends.get(instance as usize).copied().unwrap_or((NOWHERE, 0));
        let offset = self.submitted.get(&instance).copied().unwrap_or(offset);
        (Some(offset).filter(|offset| *offset != NOWHERE), tries)
    }

    /// True if an instance is in a job that has not ended.
    pub(super) fn is_submitted(&self, instance: u32) -> bool {
        self.submitted.contains_key(&instance)
    }

    /// True if the sweep is cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// The offset of the line that says that no server completes the waiting instances by the deadline.
    pub(super) fn too_late(&self) -> Option<u64> {
        self.too_late
    }

    /// The job of a batch, if it was accepted.
    pub(super) fn job(&self, batch: u32) -> Option<Handle> {
        let (server, number) = self.batches.get(batch as usize)?;
        let server = self.servers.get(usize::from(*server))?.clone();
        Some(Handle { server, number: *number })
    }
}
