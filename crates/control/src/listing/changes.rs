//! The difference between two listings, as data: what is journaled of them.

use std::cmp::Ordering;
use std::mem;

use pliant_model::Time;
use serde::{Deserialize, Serialize};

use super::{ListedJob, Listing, Node, Partition, PlannedStart};

/// What a listing says that the one before it did not.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Changes {
    /// When the newer one was asked for.
    pub at: Time,
    /// When the older one was; long ago if that is not told.
    pub since: Time,
    /// Nodes that are new or changed, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
    /// Nodes that are listed no more, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes_gone: Vec<String>,
    /// Jobs that are new or changed, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<ListedJob>,
    /// Jobs of which nothing changed but their turn, by id. Most changes are of this kind: with every planning
    /// pass all later plans shift, and priorities grow with age.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replanned: Vec<ChangedStart>,
    /// Jobs that are listed no more, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// All partitions, if any of them changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<Partition>>,
}

/// The new turn of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangedStart {
    /// The job.
    pub id: String,
    /// Its priority.
    pub priority: u64,
    /// Its plan, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<PlannedStart>,
}

impl Changes {
    /// True if the newer listing says nothing new.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
            && self.nodes_gone.is_empty()
            && self.jobs.is_empty()
            && self.replanned.is_empty()
            && self.gone.is_empty()
            && self.partitions.is_none()
    }
}

impl Listing {
    /// What this listing says that `before` did not. Time: linear in both.
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
            (Some(old), Some(new)) if differ_in_turn_only(old, new) => changes.replanned.push(ChangedStart {
                id: new.id.clone(),
                priority: new.priority,
                planned: new.planned.clone(),
            }),
            (_, Some(new)) => changes.jobs.push(new.clone()),
            (None, None) => {}
        });
        changes.partitions = (self.partitions != before.partitions).then(|| self.partitions.clone());
        changes
    }

    /// Makes this listing the one that `changes` were taken from, if it is the one they were taken against. Whatever
    /// they are, what comes out is in order. Time: linear in all.
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
    }
}

/// Whether a job that changed has kept everything but its turn.
fn differ_in_turn_only(old: &ListedJob, new: &ListedJob) -> bool {
    // Without a copy of what may be long: all but two fields are compared.
    let ListedJob {
        id,
        ours,
        owner,
        state,
        partition,
        shape,
        further,
        at_once,
        places,
        walltime,
        submitted,
        started,
        planned: _,
        ended,
        status,
        priority: _,
        waits_for,
        needs,
    } = new;
    old.id == *id
        && old.ours == *ours
        && old.owner == *owner
        && old.state == *state
        && old.partition == *partition
        && old.shape == *shape
        && old.further == *further
        && old.at_once == *at_once
        && old.places == *places
        && old.walltime == *walltime
        && old.submitted == *submitted
        && old.started == *started
        && old.ended == *ended
        && old.status == *status
        && old.waits_for == *waits_for
        && old.needs == *needs
}

/// Walks two sorted lists side by side and tells every pair that is not the same.
fn differences<'a, T: PartialEq>(
    before: &'a [T],
    after: &'a [T],
    order: impl Fn(&T, &T) -> Ordering,
    mut tell: impl FnMut(Option<&'a T>, Option<&'a T>),
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
            tell(old, new);
        }
    }
}

/// A sorted list with some added or replaced and some taken out.
fn merged<T: Clone>(old: Vec<T>, new: &[T], gone: &[String], key: impl Fn(&T) -> &String) -> Vec<T> {
    let mut kept = old;
    let in_new = |item: &T| new.binary_search_by(|other| key(other).cmp(key(item))).is_ok();
    kept.retain(|item| !in_new(item) && gone.binary_search(key(item)).is_err());
    kept.extend(new.iter().cloned());
    // Two runs that are sorted: the stable sort merges them.
    kept.sort_by(|a, b| key(a).cmp(key(b)));
    kept
}
