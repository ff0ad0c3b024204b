//! The jobs that are known, in the order of submission, and how they are filtered, sorted and grouped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name};
use pliant_wire::JobCursor;
use serde::Deserialize;
use utoipa::ToSchema;

use super::job_columns::{JobColumns, Matches};
use crate::types::{GroupView, JobGroupView, JobView, StateView, SweepId, SweepJobsView};

/// The most jobs that are kept; of more, the oldest that have ended are forgotten.
const KEPT_MAX: usize = 100_000;
/// The most distinct texts of jobs that are kept: four for each job.
const TEXTS_MAX: usize = 4 * KEPT_MAX;
/// The most jobs that wait or run that are followed.
pub(super) const OPEN_MAX: usize = 50_000;

/// Jobs, the newest first.
#[derive(Default)]
pub(crate) struct JobTable {
    rows: BTreeMap<RowKey, Row>,
    /// What these are filtered and sorted by.
    columns: JobColumns,
    /// Which jobs wait or run.
    open: BTreeMap<Handle, RowKey>,
    reading: Reading,
    /// True if jobs were forgotten.
    cut: bool,
}

/// How far jobs were read.
#[derive(Default)]
enum Reading {
    /// Nothing was read.
    #[default]
    Beginning,
    /// Everything newer than that was read.
    Until(JobCursor),
    /// Everything was read, or as much as is kept.
    Complete,
}

/// The position of a job: the order of lists of agents.
pub(super) type RowKey = (Reverse<i64>, Reverse<Name>, Reverse<u32>);

struct Row {
    job: JobView,
    /// [`JobRecord::progress`] of the record.
    progress: (usize, u32),
    /// True once the agent has listed it: before, only its server has said that it exists.
    listed: bool,
}

fn key(record: &JobRecord) -> RowKey {
    let Handle { server, number } = record.handle.clone();
    (Reverse(record.submitted.0), Reverse(server), Reverse(number))
}

/// What a list of jobs is sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SortKey {
    /// The time of submission.
    #[default]
    Submitted,
    /// The job ID.
    Id,
    /// The name.
    Name,
    /// The owner.
    Owner,
    /// The server.
    Server,
    /// The state, in the order in which a job goes through them.
    State,
    /// The start, or the promised one.
    Start,
    /// The end, or the latest one.
    End,
    /// The number of processors.
    Procs,
    /// The walltime.
    Walltime,
    /// How often it was moved.
    Moves,
}

/// What jobs are grouped by.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GroupKey {
    /// The name.
    Name,
    /// The owner.
    Owner,
    /// The server.
    Server,
    /// The state.
    State,
}

/// The order of a list of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct JobOrder {
    /// What it is sorted by; equal jobs are in the order of submission, the newest first.
    pub(crate) by: SortKey,
    /// True for the smallest or the oldest first.
    pub(crate) ascending: bool,
}

/// Which jobs are listed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct JobFilter {
    /// Only those in one of these states; none means every state.
    pub(crate) states: Vec<StateView>,
    /// Only those of that server.
    pub(crate) server: Option<String>,
    /// Only those of that user.
    pub(crate) owner: Option<String>,
    /// Only those of that name.
    pub(crate) name: Option<String>,
    /// Only those of that sweep.
    pub(crate) sweep: Option<SweepId>,
    /// Only those with that text in their ID, name, owner or server, in whatever case.
    pub(crate) text: Option<String>,
}

impl JobFilter {
    pub(super) fn matches_state(&self, state: StateView) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

/// True if a text has another one in it, in whatever case. Nothing is allocated for texts in ASCII, which nearly all are.
pub(super) fn contains(text: &str, wanted: &str) -> bool {
    if text.is_ascii() && wanted.is_ascii() {
        let mut parts = text.as_bytes().windows(wanted.len().max(1));
        return wanted.is_empty() || parts.any(|part| part.eq_ignore_ascii_case(wanted.as_bytes()));
    }
    text.to_lowercase().contains(&wanted.to_lowercase())
}

/// A page of a list.
pub(crate) struct Selection {
    /// The jobs of the page.
    pub(crate) jobs: Vec<JobView>,
    /// How many jobs match.
    pub(crate) matching: usize,
    /// How many jobs that match in all but their state are in each state.
    pub(crate) states: Vec<GroupView>,
}

impl JobTable {
    /// Takes over a record that the agent listed; the job if something of it is new.
    pub(super) fn list(&mut self, record: &JobRecord) -> Option<JobView> {
        self.put(record, true)
    }

    /// Takes over a record that a server answered: the agent may not know the job yet.
    pub(super) fn learn(&mut self, record: &JobRecord) -> Option<JobView> {
        self.put(record, false)
    }

    fn put(&mut self, record: &JobRecord, listed: bool) -> Option<JobView> {
        let (key, progress) = (key(record), record.progress());
        let job = JobView::from(record);
        match self.rows.get_mut(&key) {
            Some(row) => {
                row.listed |= listed;
                // What the agent lists may be older than what a server answered.
                if progress < row.progress || row.job == job {
                    return None;
                }
                (row.job, row.progress) = (job.clone(), progress);
            }
            None => {
                self.rows.insert(key.clone(), Row { job: job.clone(), progress, listed });
            }
        }
        self.columns.put(&key, &job);
        match job.state.is_final() {
            true => drop(self.open.remove(&record.handle)),
            false => drop(self.open.insert(record.handle.clone(), key)),
        }
        self.shorten();
        Some(job)
    }

    /// Forgets the oldest jobs that have ended while there are too many.
    fn shorten(&mut self) {
        while self.rows.len() > KEPT_MAX {
            self.reading = Reading::Complete;
            self.cut = true;
            let oldest = self.rows.iter().rev().find(|(_, row)| row.job.state.is_final());
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            self.rows.remove(&key);
            self.columns.remove(&key);
        }
        if self.columns.texts() > TEXTS_MAX {
            self.columns = JobColumns::default();
            self.rows.iter().for_each(|(key, row)| self.columns.put(key, &row.job));
        }
    }

    /// Removes a job; true if it was there.
    pub(super) fn remove(&mut self, handle: &Handle) -> bool {
        let Some(key) = self.open.remove(handle) else { return false };
        self.columns.remove(&key);
        self.rows.remove(&key).is_some()
    }

    /// True if the job is known.
    pub(super) fn has(&self, record: &JobRecord) -> bool {
        self.rows.contains_key(&key(record))
    }

    /// Jobs that waited or ran at the last poll and are not among these any more.
    pub(super) fn lost_sight(&self, open: &[JobRecord], most: usize) -> Vec<Handle> {
        let open: HashSet<&Handle> = open.iter().map(|job| &job.handle).collect();
        let lost = self.open.iter().filter(|(handle, key)| {
            !open.contains(handle) && self.rows.get(*key).is_some_and(|row| row.listed)
        });
        lost.map(|(handle, _)| handle.clone()).take(most).collect()
    }

    /// From where older jobs are to be read; none if there are no more.
    pub(super) fn older(&self) -> Option<Option<JobCursor>> {
        match &self.reading {
            Reading::Beginning => Some(None),
            Reading::Until(cursor) => Some(Some(cursor.clone())),
            Reading::Complete => None,
        }
    }

    /// Notes how far jobs were read; true if that was all.
    pub(super) fn read_until(&mut self, next: Option<JobCursor>) -> bool {
        self.reading = match (next, &self.reading) {
            (None, _) | (_, Reading::Complete) => Reading::Complete,
            (Some(next), _) => Reading::Until(next),
        };
        matches!(self.reading, Reading::Complete)
    }

    /// True if everything was read, or as much as is kept.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.reading, Reading::Complete)
    }

    /// True if jobs were forgotten.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Every job, the newest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &JobView> {
        self.rows.values().map(|row| &row.job)
    }

    /// The jobs that wait or run.
    pub(crate) fn open(&self) -> impl Iterator<Item = &JobView> {
        self.open.values().filter_map(|key| self.rows.get(key)).map(|row| &row.job)
    }

    /// A page of the jobs that match.
    pub(crate) fn select(
        &self,
        filter: &JobFilter,
        order: JobOrder,
        skipped: usize,
        most: usize,
    ) -> Selection {
        let Matches { places, matching, states } = self.columns.select(filter, order, skipped, most);
        let rows = places.into_iter().filter_map(|place| self.rows.get(self.columns.key(place)));
        let counted = StateView::ALL.into_iter().zip(states).filter(|(_, jobs)| *jobs > 0);
        Selection {
            matching,
            jobs: rows.map(|row| row.job.clone()).collect(),
            states: counted.map(|(state, jobs)| GroupView { value: state.word().to_owned(), jobs }).collect(),
        }
    }

    /// The jobs that match in groups, the largest group first.
    pub(crate) fn groups(&self, filter: &JobFilter, by: GroupKey) -> Vec<JobGroupView> {
        let group = |(value, states): (&str, [usize; StateView::ALL.len()])| {
            let mut group = JobGroupView { value: value.to_owned(), ..JobGroupView::default() };
            StateView::ALL.into_iter().zip(states).for_each(|(state, jobs)| group.add(state, jobs));
            group
        };
        let mut groups: Vec<JobGroupView> = self.columns.groups(filter, by).map(group).collect();
        groups
            .sort_by(|one, other| (Reverse(one.jobs), &one.value).cmp(&(Reverse(other.jobs), &other.value)));
        groups
    }

    /// The newest sweeps that have at least two jobs, and how many older ones there are.
    pub(crate) fn sweeps(&self, most: usize) -> (Vec<SweepJobsView>, usize) {
        let mut jobs: HashMap<SweepId, usize> = HashMap::new();
        self.all().for_each(|job| *jobs.entry(job.sweep).or_default() += 1);
        jobs.retain(|_, count| *count >= 2);
        // In the order of their newest jobs.
        let (mut places, mut sweeps) = (HashMap::new(), Vec::new());
        for job in self.all().filter(|job| jobs.contains_key(&job.sweep)) {
            let place = *places.entry(job.sweep).or_insert_with(|| {
                sweeps.push(SweepJobsView::of(job));
                sweeps.len() - 1
            });
            sweeps[place].count(job);
        }
        let left_out = sweeps.len().saturating_sub(most);
        sweeps.truncate(most);
        (sweeps, left_out)
    }
}

#[cfg(test)]
mod tests;
