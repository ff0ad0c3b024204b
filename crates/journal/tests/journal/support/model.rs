//! Any sequence of calls, on a journal and on a simple picture of one.

use std::collections::BTreeMap;

use pliant_journal::{Batch, DROPPED_AT_ONCE, Entry, JobRow, Journal, Loaded, Notice, Snapshot};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Place, entry, job, notices};

/// One call.
#[derive(Clone, Debug)]
enum Call {
    /// So many entries and news, jobs with these numbers, and the part of the news that is acknowledged.
    Commit {
        entries: u64,
        notices: u64,
        jobs: Vec<(bool, u32, i64)>,
        acknowledged: Option<f64>,
    },
    /// The last batch once more.
    Repeat,
    /// A snapshot of that part of the entries; those older than another part go.
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
        |(entries, notices, jobs, acknowledged)| {
            // News follow from entries.
            let notices = if entries == 0 { 0 } else { notices };
            Call::Commit { entries, notices, jobs, acknowledged }
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

/// What a journal should hold.
#[derive(Default)]
struct Model {
    /// All that were ever told.
    entries: Vec<Entry>,
    /// How many of them were dropped.
    dropped: usize,
    snapshot: Option<Snapshot>,
    /// All that there ever were.
    notices: Vec<Notice>,
    acknowledged: u64,
    jobs: BTreeMap<(String, u32), JobRow>,
    last: Batch,
}

impl Model {
    fn part(&self, part: f64) -> u64 {
        (self.entries.len() as f64 * part) as u64
    }

    fn loaded(&self) -> Loaded {
        let after = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq as usize);
        Loaded {
            snapshot: self.snapshot.clone(),
            entries: self.entries[after..].to_vec(),
            notices: self.waiting().iter().map(|notice| notice.seq).collect(),
            next_notice: self.notices.len() as u64 + 1,
        }
    }

    /// News that are not acknowledged.
    fn waiting(&self) -> &[Notice] {
        let first = self.notices.partition_point(|notice| notice.seq <= self.acknowledged);
        &self.notices[first..]
    }

    /// The highest number of a server's jobs.
    fn last_number(&self, server: &str) -> Option<u32> {
        self.jobs.keys().filter(|(name, _)| name == server).map(|(_, number)| *number).max()
    }

    fn commit(&mut self, batch: &Batch) {
        self.entries.extend_from_slice(&batch.entries);
        self.notices.extend_from_slice(&batch.notices);
        self.acknowledged = self.acknowledged.max(batch.notices_acknowledged.unwrap_or(0));
        for row in &batch.ended {
            self.jobs.insert((row.server.clone(), row.number), row.clone());
        }
        self.last = batch.clone();
    }

    /// Whether there is more to drop.
    fn trim(&mut self, kept: i64) -> bool {
        let covered = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq as usize);
        let end = covered.min((kept - 1).max(0) as usize);
        let dropped = (end.saturating_sub(self.dropped)).min(DROPPED_AT_ONCE as usize);
        self.dropped += dropped;
        end > self.dropped
    }
}

/// Whatever is done to a journal, it holds what it should.
pub(crate) fn check(cases: u32, place: impl Fn() -> Box<dyn Place>) {
    let config = Config { cases, ..Config::with_source_file("tests/journal/support/model.rs") };
    let outcome = TestRunner::new(config).run(&calls(), |calls| {
        let place = place();
        let mut journal = place.open().unwrap();
        let mut model = Model::default();
        for call in calls {
            journal = step(&*place, journal, &mut model, call);
            assert_eq!(journal.load().unwrap(), model.loaded());
            let mut archive = journal.archive().unwrap();
            assert_eq!(archive.entries(0, u32::MAX).unwrap(), model.entries[model.dropped..]);
            assert_eq!(archive.ended().unwrap(), model.jobs.len() as u64);
            assert_eq!(archive.notices(0, u32::MAX).unwrap(), model.waiting());
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

fn step(place: &dyn Place, mut journal: Box<dyn Journal>, model: &mut Model, call: Call) -> Box<dyn Journal> {
    match call {
        Call::Commit { entries, notices: news, jobs, acknowledged } => {
            let (told, before) = (model.entries.len() as u64, model.notices.len() as u64);
            let job = |(north, number, ended): &(bool, u32, i64)| {
                job(if *north { "north" } else { "south" }, *number, *ended)
            };
            let batch = Batch {
                entries: (told + 1..=told + entries).map(entry).collect(),
                notices: notices(before + 1, before + news),
                ended: jobs.iter().map(job).collect(),
                locals: Vec::new(),
                notices_acknowledged: acknowledged.map(|part| ((before + news) as f64 * part) as u64),
            };
            journal.commit(&batch).unwrap();
            model.commit(&batch);
        }
        Call::Repeat => journal.commit(&model.last).unwrap(),
        Call::Compact { covered, kept } => {
            let seq = model.part(covered);
            let snapshot = Snapshot { seq, at: 1, state: format!("{seq}") };
            let kept = model.part(kept) as i64;
            let more = journal.compact(&snapshot, kept).unwrap();
            if model.snapshot.as_ref().is_none_or(|last| last.seq <= seq) {
                model.snapshot = Some(snapshot);
            }
            assert_eq!(more, model.trim(kept));
        }
        Call::Trim { kept } => {
            let kept = model.part(kept) as i64;
            assert_eq!(journal.trim(kept).unwrap(), model.trim(kept));
        }
        Call::Reopen => {
            drop(journal);
            journal = place.open().unwrap();
        }
    }
    journal
}
