//! Random sequences of calls, on a journal and on a model in memory.

use std::collections::BTreeMap;

use pliant_journal::{Batch, Entry, JobRow, Journal, StatusUpdate, TRIM_LIMIT};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Storage, Taken, Whole, compact, entries_from, entry, job, status_updates, whole};

/// One call.
#[derive(Clone, Debug)]
enum Call {
    /// Numbers of entries and status updates, jobs with these numbers, and the acknowledged share of the updates.
    Commit {
        entries: u64,
        status_updates: u64,
        jobs: Vec<(bool, u32, i64)>,
        acknowledged: Option<f64>,
    },
    /// The last batch again.
    Repeat,
    /// A snapshot of a share of the entries; entries older than another share are deleted.
    Compact {
        covered: f64,
        kept: f64,
    },
    Trim {
        kept: f64,
    },
    Reopen,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let jobs = proptest::collection::vec((any::<bool>(), 0..20_u32, 0..50_i64), 0..5);
    let commit = (0..30_u64, 0..5_u64, jobs, proptest::option::of(0.0..1.0)).prop_map(
        |(entries, status_updates, jobs, acknowledged)| {
            // Status updates need entries.
            let status_updates = if entries == 0 { 0 } else { status_updates };
            Call::Commit { entries, status_updates, jobs, acknowledged }
        },
    );
    let call = prop_oneof![
        6 => commit,
        1 => Just(Call::Repeat),
        2 => (0.0..1.0, 0.0..1.2).prop_map(|(covered, kept)| Call::Compact { covered, kept }),
        1 => (0.0..1.2).prop_map(|kept| Call::Trim { kept }),
        1 => Just(Call::Reopen),
    ];
    proptest::collection::vec(call, 1..25)
}

/// The expected content of a journal.
#[derive(Default)]
struct Model {
    /// All entries ever committed.
    entries: Vec<Entry>,
    /// The number of deleted entries.
    dropped: usize,
    snapshot: Option<Taken>,
    /// All status updates ever committed.
    status_updates: Vec<StatusUpdate>,
    acknowledged: u64,
    jobs: BTreeMap<(String, u32), JobRow>,
    last: Batch,
}

impl Model {
    fn part(&self, part: f64) -> u64 {
        (self.entries.len() as f64 * part) as u64
    }

    fn loaded(&self) -> Whole {
        let after = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq as usize);
        Whole {
            snapshot: self.snapshot.clone(),
            entries: self.entries[after..].to_vec(),
            status_updates: self.waiting().iter().map(|notice| notice.seq).collect(),
            next_update: self.status_updates.len() as u64 + 1,
        }
    }

    /// Unacknowledged status updates.
    fn waiting(&self) -> &[StatusUpdate] {
        let first = self.status_updates.partition_point(|notice| notice.seq <= self.acknowledged);
        &self.status_updates[first..]
    }

    /// The highest number of a server's jobs.
    fn last_number(&self, server: &str) -> Option<u32> {
        self.jobs.keys().filter(|(name, _)| name == server).map(|(_, number)| *number).max()
    }

    fn commit(&mut self, batch: &Batch) {
        self.entries.extend_from_slice(&batch.entries);
        self.status_updates.extend_from_slice(&batch.status_updates);
        self.acknowledged = self.acknowledged.max(batch.updates_acknowledged.unwrap_or(0));
        for row in &batch.ended {
            self.jobs.insert((row.server.clone(), row.number), row.clone());
        }
        self.last = batch.clone();
    }

    /// True if there is more to delete.
    fn trim(&mut self, kept: i64) -> bool {
        let covered = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq as usize);
        let end = covered.min((kept - 1).max(0) as usize);
        let dropped = (end.saturating_sub(self.dropped)).min(TRIM_LIMIT as usize);
        self.dropped += dropped;
        end > self.dropped
    }
}

/// Checks that the journal equals the model after every call.
pub(crate) fn check(cases: u32, storage: impl Fn() -> Box<dyn Storage>) {
    let config = Config { cases, ..Config::with_source_file("tests/journal/support/model.rs") };
    let outcome = TestRunner::new(config).run(&calls(), |calls| {
        let storage = storage();
        let mut journal = storage.open().unwrap();
        let mut model = Model::default();
        for call in calls {
            journal = step(&*storage, journal, &mut model, call);
            assert_eq!(whole(&mut *journal).unwrap(), model.loaded());
            let mut archive = journal.archive().unwrap();
            assert_eq!(archive.entries(0, u32::MAX).unwrap(), model.entries[model.dropped..]);
            assert_eq!(archive.ended().unwrap(), model.jobs.len() as u64);
            assert_eq!(archive.status_updates(0, u32::MAX).unwrap(), model.waiting());
            for server in ["north", "south"] {
                assert_eq!(archive.last_number(server).unwrap(), model.last_number(server));
            }
            for row in model.jobs.values() {
                assert_eq!(archive.job(&row.server, row.number).unwrap().as_ref(), Some(row));
            }
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn step(
    storage: &dyn Storage,
    mut journal: Box<dyn Journal>,
    model: &mut Model,
    call: Call,
) -> Box<dyn Journal> {
    match call {
        Call::Commit { entries, status_updates: updates, jobs, acknowledged } => {
            let (last, before) = (model.entries.len() as u64, model.status_updates.len() as u64);
            let job = |(north, number, ended): &(bool, u32, i64)| {
                job(if *north { "north" } else { "south" }, *number, *ended)
            };
            let batch = Batch {
                entries: (last + 1..=last + entries).map(entry).collect(),
                status_updates: status_updates(before + 1, before + updates),
                ended: jobs.iter().map(job).collect(),
                local_jobs: Vec::new(),
                audit: Vec::new(),
                updates_acknowledged: acknowledged.map(|part| ((before + updates) as f64 * part) as u64),
                ..Batch::default()
            };
            journal.commit(&batch).unwrap();
            model.commit(&batch);
        }
        Call::Repeat => journal.commit(&model.last).unwrap(),
        Call::Compact { covered, kept } => {
            let seq = model.part(covered);
            let snapshot = Taken { seq, at: 1, state: format!("{seq}") };
            let kept = model.part(kept) as i64;
            let more = compact(&mut *journal, &snapshot, kept).unwrap();
            if model.snapshot.as_ref().is_none_or(|last| last.seq <= seq) {
                model.snapshot = Some(snapshot);
            }
            assert_eq!(more, model.trim(kept));
        }
        Call::Trim { kept } => {
            let kept = model.part(kept) as i64;
            assert_eq!(journal.trim(&entries_from(kept), None).unwrap(), model.trim(kept));
        }
        Call::Reopen => {
            drop(journal);
            journal = storage.open().unwrap();
        }
    }
    journal
}
