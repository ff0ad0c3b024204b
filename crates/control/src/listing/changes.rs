//! The difference between two listings, which is journaled.

use std::cmp::Ordering;
use std::mem;

use pliant_model::Time;
use serde::{Deserialize, Serialize};

use super::{CountedResources, ListedJob, Listing, Node, Partition, PlannedStart, Reservation};

/// The difference of a listing to the one before.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Changes {
    /// Time of the newer listing.
    pub at: Time,
    /// Time of the older listing; long ago if unknown.
    pub since: Time,
    /// New or changed nodes, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
    /// Nodes that are no longer listed, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes_gone: Vec<String>,
    /// New or changed jobs, by ID.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<ListedJob>,
    /// Jobs of which only priority or planned start changed, by ID. These are most: each planning pass shifts later plans, and
    /// priorities grow with age.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replanned: Vec<ChangedStart>,
    /// Jobs that are no longer listed, by ID.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// All partitions, if any changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<Partition>>,
    /// What is counted besides cores, if that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CountedResources>,
    /// All reservations, if any changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservations: Option<Vec<Reservation>>,
    /// The names of all own reservations that are not there, if any changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_reservations: Option<Vec<String>>,
}

/// The new priority and planned start of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangedStart {
    /// The job's ID.
    pub id: String,
    /// Its priority.
    pub priority: u64,
    /// Its planned start, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<PlannedStart>,
}

impl Changes {
    /// True if the listings are equal but for their times.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
            && self.nodes_gone.is_empty()
            && self.jobs.is_empty()
            && self.replanned.is_empty()
            && self.gone.is_empty()
            && self.partitions.is_none()
            && self.counted.is_none()
            && self.reservations.is_none()
            && self.missing_reservations.is_none()
    }
}

impl Listing {
    /// The difference of this listing to `before`. Linear in both.
    pub fn changes(&self, before: &Listing) -> Changes {
        let mut changes = Changes { at: self.at, since: before.at, ..Changes::default() };
        let by_name = |a: &Node, b: &Node| a.name.cmp(&b.name);
        differences(&before.nodes, &self.nodes, by_name, |old, new| match (old, new) {
            (Some(old), None) => changes.nodes_gone.push(old.name.clone()),
            (_, Some(new)) => changes.nodes.push(new.clone()),
            (None, None) => {}
        });
        let by_id = |a: &ListedJob, b: &ListedJob| a.id.cmp(&b.id);
        differences(&before.jobs, &self.jobs, by_id, |old, new| match (old, new) {
            (Some(old), None) => changes.gone.push(old.id.clone()),
            (Some(old), Some(new)) if differ_in_plan_only(old, new) => changes.replanned.push(ChangedStart {
                id: new.id.clone(),
                priority: new.priority,
                planned: new.planned.clone(),
            }),
            (_, Some(new)) => changes.jobs.push(new.clone()),
            (None, None) => {}
        });
        changes.partitions = (self.partitions != before.partitions).then(|| self.partitions.clone());
        changes.counted = (self.counted != before.counted).then(|| self.counted.clone());
        changes.reservations = (self.reservations != before.reservations).then(|| self.reservations.clone());
        let missing = &self.missing_reservations;
        changes.missing_reservations = (*missing != before.missing_reservations).then(|| missing.clone());
        changes
    }

    /// Applies changes that were taken against this listing. The result is sorted whatever the changes are. Linear in all.
    pub fn apply(&mut self, changes: &Changes) {
        self.at = changes.at;
        self.nodes =
            merged(mem::take(&mut self.nodes), &changes.nodes, &changes.nodes_gone, |node| &node.name);
        for job in &mut self.jobs {
            let found = changes.replanned.binary_search_by(|replanned| replanned.id.cmp(&job.id));
            if let Ok(index) = found {
                job.priority = changes.replanned[index].priority;
                job.planned.clone_from(&changes.replanned[index].planned);
            }
        }
        self.jobs = merged(mem::take(&mut self.jobs), &changes.jobs, &changes.gone, |job| &job.id);
        if let Some(partitions) = &changes.partitions {
            self.partitions.clone_from(partitions);
        }
        if let Some(counted) = &changes.counted {
            self.counted.clone_from(counted);
        }
        if let Some(reservations) = &changes.reservations {
            self.reservations.clone_from(reservations);
        }
        if let Some(missing) = &changes.missing_reservations {
            self.missing_reservations.clone_from(missing);
        }
    }
}

/// Whether only priority and planned start of a job differ.
fn differ_in_plan_only(old: &ListedJob, new: &ListedJob) -> bool {
    // Compares all but two fields, without cloning the job.
    let ListedJob {
        id,
        job_number,
        owner,
        state,
        partition,
        shape,
        more_tasks,
        max_running_tasks,
        allocations,
        walltime,
        submitted,
        started,
        planned: _,
        ended,
        status,
        priority: _,
        wait_reason,
        requested,
        reservation,
        requirements,
    } = new;
    old.id == *id
        && old.job_number == *job_number
        && old.owner == *owner
        && old.state == *state
        && old.partition == *partition
        && old.shape == *shape
        && old.more_tasks == *more_tasks
        && old.max_running_tasks == *max_running_tasks
        && old.allocations == *allocations
        && old.walltime == *walltime
        && old.submitted == *submitted
        && old.started == *started
        && old.ended == *ended
        && old.status == *status
        && old.wait_reason == *wait_reason
        && old.requested == *requested
        && old.reservation == *reservation
        && old.requirements == *requirements
}

/// Calls `visit` with each pair of entries of two sorted lists that differ.
fn differences<'a, T: PartialEq>(
    before: &'a [T],
    after: &'a [T],
    order: impl Fn(&T, &T) -> Ordering,
    mut visit: impl FnMut(Option<&'a T>, Option<&'a T>),
) {
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let side = match (before.peek(), after.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => order(old, new),
        };
        let old = if side.is_le() { before.next() } else { None };
        let new = if side.is_ge() { after.next() } else { None };
        if old != new {
            visit(old, new);
        }
    }
}

/// A sorted list with entries replaced or added, and others removed.
fn merged<T: Clone>(old: Vec<T>, new: &[T], gone: &[String], key: impl Fn(&T) -> &String) -> Vec<T> {
    let mut kept = old;
    let in_new = |item: &T| new.binary_search_by(|other| key(other).cmp(key(item))).is_ok();
    kept.retain(|item| !in_new(item) && gone.binary_search(key(item)).is_err());
    kept.extend(new.iter().cloned());
    // The stable sort merges two sorted runs.
    kept.sort_by(|a, b| key(a).cmp(key(b)));
    kept
}
