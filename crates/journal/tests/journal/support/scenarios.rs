//! Scenarios that both journals must pass.

use std::cmp::Reverse;

use pliant_journal::{Batch, Filter, JobRow, Journal, JournalError, PARTS_LIMIT, TRIM_LIMIT};

use super::{
    Storage, Taken, Whole, compact, entries, entries_from, entry, entry_batch, job, status_updates, whole,
};

mod lifetimes;

use lifetimes::{audit, history, local_jobs, retention};

/// A scenario on a new journal.
pub(crate) type Scenario = fn(&dyn Storage);

/// All scenarios with their descriptions.
pub(crate) const ALL: &[(&str, Scenario)] = &[
    ("committed records survive reopening", round_trip),
    ("the first claim is permanent", owner),
    ("a batch out of sequence is refused without effect", order),
    ("a batch counts once", once),
    ("the last row of a job counts", upsert),
    ("status updates stay until they are acknowledged", outbox),
    ("old entries are deleted in bounded steps", compaction),
    ("only old entries in a snapshot are deleted", compaction_keeps),
    ("missing records are detected", gaps),
    ("a snapshot counts once all of its parts are there", parts),
    ("jobs are listed by every filter, the last to end first", listing),
    ("estimates are compared with actual times", accuracy),
    ("runs of local users' jobs are listed by end until they are trimmed", local_jobs),
    ("the audit trail is listed in order, and counts a repetition once", audit),
    ("ended jobs and the audit trail are deleted when they are old, but for their last numbers", retention),
    ("the oldest entries go when there are many", history),
    ("a reader sees the last commit", concurrent_reader),
];

fn round_trip(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    let id = journal.id();
    assert_eq!(whole(&mut *journal).unwrap(), Whole { next_update: 1, ..Whole::default() });
    let first = Batch {
        entries: entries(1, 3),
        status_updates: status_updates(1, 2),
        ended: vec![job("north", 7, 1000), JobRow { key: None, ..job("south", 7, 1001) }],
        ..Batch::default()
    };
    journal.commit(&first).unwrap();
    journal.commit(&entry_batch(4, 5)).unwrap();
    let expected =
        Whole { snapshot: None, entries: entries(1, 5), status_updates: vec![1, 2], next_update: 3 };
    assert_eq!(whole(&mut *journal).unwrap(), expected);
    drop(journal);
    let mut journal = storage.open().unwrap();
    assert_eq!(journal.id(), id);
    assert_eq!(whole(&mut *journal).unwrap(), expected);
    journal.commit(&entry_batch(6, 6)).unwrap();
    assert_eq!(whole(&mut *journal).unwrap().entries, entries(1, 6));
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.job("north", 7).unwrap(), Some(first.ended[0].clone()));
    assert_eq!(archive.job("south", 7).unwrap(), Some(first.ended[1].clone()));
    assert_eq!(archive.job("north", 8).unwrap(), None);
    assert_eq!(archive.job_by_key(&first.ended[0].key.unwrap()).unwrap(), Some(first.ended[0].clone()));
    assert_eq!(archive.job_by_key(&[9; 16]).unwrap(), None);
    assert_eq!(archive.ended().unwrap(), 2);
    assert_eq!(archive.entries(2, 3).unwrap(), entries(2, 4));
}

fn owner(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    journal.claim("server lyon").unwrap();
    drop(journal);
    let mut journal = storage.open().unwrap();
    journal.claim("server lyon").unwrap();
    let error = journal.claim("agent lyon").unwrap_err();
    assert!(
        error.to_string().ends_with("expected the journal of agent lyon, found that of server lyon"),
        "{error}"
    );
    assert!(!error.is_transient() && error.hint().is_some());
    journal.commit(&entry_batch(1, 1)).unwrap();
    journal.claim("server lyon").unwrap();
}

fn order(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    journal.commit(&Batch { status_updates: status_updates(1, 1), ..entry_batch(1, 3) }).unwrap();
    let late = vec![entry(4), entry(6)];
    let refused = [
        (entry_batch(5, 6), "expected entry 4 next, found 5"),
        (entry_batch(3, 4), "expected entry 4 next, found 3"),
        (Batch { entries: late, ..Batch::default() }, "expected entry 5 next, found 6"),
        (
            Batch { status_updates: status_updates(3, 3), ..entry_batch(4, 4) },
            "expected status update 2 next, found 3",
        ),
    ];
    for (batch, why) in refused {
        let error = journal.commit(&batch).unwrap_err();
        assert!(matches!(error, JournalError::Order { .. }), "{error:?}");
        assert!(!error.is_transient());
        assert_eq!(error.to_string(), format!("cannot be journaled: {why}"));
    }
    let ahead = Taken { seq: 4, at: 4, state: "{}".to_owned() };
    assert!(matches!(compact(&mut *journal, &ahead, 0), Err(JournalError::Order { .. })));
    journal.commit(&entry_batch(4, 4)).unwrap();
    let loaded = whole(&mut *journal).unwrap();
    assert_eq!((loaded.entries, loaded.status_updates, loaded.snapshot), (entries(1, 4), vec![1], None));
}

fn once(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    let batch =
        Batch { status_updates: status_updates(1, 2), ended: vec![job("north", 1, 10)], ..entry_batch(1, 3) };
    journal.commit(&batch).unwrap();
    journal.commit(&Batch { updates_acknowledged: Some(2), ..Batch::default() }).unwrap();
    journal.commit(&batch).unwrap();
    let loaded = whole(&mut *journal).unwrap();
    assert_eq!((loaded.entries, loaded.status_updates, loaded.next_update), (entries(1, 3), vec![], 3));
    let mut other = batch.clone();
    other.entries[2].event = "another".to_owned();
    assert!(matches!(journal.commit(&other), Err(JournalError::Order { .. })));
    assert_eq!(whole(&mut *journal).unwrap().entries, entries(1, 3));
    assert_eq!(journal.archive().unwrap().ended().unwrap(), 1);
}

fn upsert(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    let failed = JobRow { state: "failed".to_owned(), key: Some([5; 16]), ..job("north", 1, 20) };
    journal
        .commit(&Batch { ended: vec![job("north", 1, 10), job("north", 2, 10)], ..Batch::default() })
        .unwrap();
    let again = vec![job("north", 1, 15), failed.clone(), job("north", 2, 10)];
    journal.commit(&Batch { ended: again, ..Batch::default() }).unwrap();
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.ended().unwrap(), 2);
    assert_eq!(archive.job("north", 1).unwrap(), Some(failed.clone()));
    assert_eq!(archive.job_by_key(&[5; 16]).unwrap(), Some(failed));
    assert_eq!(archive.job_by_key(&job("north", 1, 10).key.unwrap()).unwrap(), None);
    // A job that was moved has a row at each server.
    let moved = JobRow { key: Some([5; 16]), ..job("south", 4, 30) };
    journal.commit(&Batch { ended: vec![moved.clone()], ..Batch::default() }).unwrap();
    assert_eq!(archive.job_by_key(&[5; 16]).unwrap(), Some(moved));
}

fn outbox(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    journal.commit(&Batch { status_updates: status_updates(1, 4), ..entry_batch(1, 1) }).unwrap();
    journal.commit(&Batch { updates_acknowledged: Some(2), ..Batch::default() }).unwrap();
    assert_eq!(whole(&mut *journal).unwrap().status_updates, [3, 4]);
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.status_updates(0, 9).unwrap(), status_updates(3, 4));
    assert_eq!(archive.status_updates(3, 9).unwrap(), status_updates(4, 4));
    assert_eq!(archive.status_updates(0, 1).unwrap(), status_updates(3, 3));
    // A late acknowledgement, and one together with new updates.
    journal.commit(&Batch { updates_acknowledged: Some(1), ..Batch::default() }).unwrap();
    let both =
        Batch { status_updates: status_updates(5, 6), updates_acknowledged: Some(5), ..entry_batch(2, 2) };
    journal.commit(&both).unwrap();
    assert_eq!(whole(&mut *journal).unwrap().status_updates, [6]);
    journal.commit(&Batch { updates_acknowledged: Some(6), ..Batch::default() }).unwrap();
    drop(journal);
    let loaded = whole(&mut *storage.open().unwrap()).unwrap();
    assert_eq!((loaded.status_updates, loaded.next_update), (vec![], 7));
}

fn compaction(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    let last = 2 * TRIM_LIMIT + 5000;
    for from in (1..=last).step_by(1000) {
        journal.commit(&entry_batch(from, from + 999)).unwrap();
    }
    let mut archive = journal.archive().unwrap();
    let mut first = || archive.entries(0, 1).unwrap()[0].seq;
    let snapshot = Taken { seq: last - 1000, at: 0, state: "{}".to_owned() };
    let kept = last - 3000;
    assert!(compact(&mut *journal, &snapshot, kept as i64).unwrap(), "there is more");
    assert_eq!(first(), TRIM_LIMIT + 1);
    assert!(journal.trim(&entries_from(kept as i64), None).unwrap(), "there is more");
    assert_eq!(first(), 2 * TRIM_LIMIT + 1);
    assert!(!journal.trim(&entries_from(kept as i64), None).unwrap());
    assert_eq!(first(), kept);
    assert!(!journal.trim(&entries_from(kept as i64), None).unwrap());
    assert_eq!(first(), kept);
    let expected = Whole {
        snapshot: Some(snapshot),
        entries: entries(last - 999, last),
        status_updates: Vec::new(),
        next_update: 1,
    };
    assert_eq!(whole(&mut *journal).unwrap(), expected);
    assert_eq!(archive.entries(0, u32::MAX).unwrap(), entries(kept, last));
}

fn compaction_keeps(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    assert!(!journal.trim(&entries_from(i64::MAX), None).unwrap());
    journal.commit(&entry_batch(1, 10)).unwrap();
    assert!(!journal.trim(&entries_from(i64::MAX), None).unwrap());
    let snapshot = |seq, state: &str| Taken { seq, at: seq as i64, state: state.to_owned() };
    assert!(!compact(&mut *journal, &snapshot(6, "six"), 4).unwrap());
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.entries(0, 100).unwrap(), entries(4, 10));
    assert!(!compact(&mut *journal, &snapshot(8, "eight"), i64::MAX).unwrap());
    assert_eq!(archive.entries(0, 100).unwrap(), entries(9, 10));
    // An older snapshot changes nothing; a snapshot of the same entry replaces.
    assert!(!compact(&mut *journal, &snapshot(7, "seven"), i64::MAX).unwrap());
    assert!(!compact(&mut *journal, &snapshot(8, "again"), i64::MAX).unwrap());
    let loaded = whole(&mut *journal).unwrap();
    assert_eq!((loaded.snapshot, loaded.entries), (Some(snapshot(8, "again")), entries(9, 10)));
    // A snapshot of all entries; numbering continues.
    assert!(!compact(&mut *journal, &snapshot(10, "ten"), i64::MAX).unwrap());
    drop(journal);
    let mut journal = storage.open().unwrap();
    assert_eq!(whole(&mut *journal).unwrap().entries, []);
    assert!(matches!(journal.commit(&entry_batch(1, 1)), Ok(())), "recognised although deleted");
    journal.commit(&entry_batch(11, 12)).unwrap();
    let loaded = whole(&mut *journal).unwrap();
    assert_eq!((loaded.snapshot, loaded.entries), (Some(snapshot(10, "ten")), entries(11, 12)));
}

fn gaps(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    journal
        .commit(&Batch {
            status_updates: status_updates(1, 4),
            updates_acknowledged: Some(1),
            ..entry_batch(1, 9)
        })
        .unwrap();
    compact(&mut *journal, &Taken { seq: 3, at: 3, state: "{}".to_owned() }, i64::MAX).unwrap();
    let before = whole(&mut *journal).unwrap();
    drop(journal);
    // Damages the tables and checks the error.
    let check = |text: &str, why: &str| {
        storage.tamper(text);
        let error = storage.open().unwrap().load().unwrap_err();
        assert!(!error.is_transient() && error.hint().is_some(), "{error:?}");
        assert!(error.to_string().ends_with(why), "{text}: {error}");
    };
    let put =
        |seq: u64| format!("INSERT INTO entries (seq, at, event, commands) VALUES ({seq}, {seq}, 'x', 0)");
    check("DELETE FROM entries WHERE seq = 6", "damaged: expected entry 6, found 7");
    let mut archive = storage.open().unwrap().archive().unwrap();
    assert!(matches!(archive.entries(0, 100), Err(JournalError::Gap { expected: 6, found: Some(7), .. })));
    drop(archive);
    storage.tamper(&put(6));
    check("DELETE FROM entries WHERE seq = 9", "damaged: expected entry 9, found no more");
    storage.tamper(&put(9));
    check("DELETE FROM entries WHERE seq = 4", "damaged: expected entry 4, found 5");
    storage.tamper(&put(4));
    check(&put(10), "expected entry 9 to be the last, found 10");
    storage.tamper("DELETE FROM entries WHERE seq = 10");
    check("DELETE FROM status_updates WHERE seq = 3", "damaged: expected status update 3, found 4");
    let other = "INSERT INTO status_updates (seq, body) VALUES (3, 'update 3'); DELETE FROM status_updates WHERE seq = 4";
    check(other, "damaged: expected status update 4, found no more");
    storage.tamper("INSERT INTO status_updates (seq, body) VALUES (4, 'update 4')");
    let mended = whole(&mut *storage.open().unwrap()).unwrap();
    assert_eq!((mended.status_updates, mended.entries.len()), (before.status_updates, before.entries.len()));
    let mut journal = storage.open().unwrap();
    storage.tamper("DELETE FROM snapshot_parts WHERE part = 1");
    assert!(matches!(whole(&mut *journal), Err(JournalError::Damaged { .. })));
    drop(journal);
    check("DELETE FROM snapshots", "damaged: expected entry 1, found 4");
}

fn parts(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    journal.commit(&entry_batch(1, 10)).unwrap();
    let taken = |seq: u64| Taken { seq, at: seq as i64, state: format!("\"{}\"", "st\u{e4}te".repeat(9)) };
    let commit = |journal: &mut dyn Journal, part| {
        journal.commit(&Batch { snapshot_part: Some(part), ..Batch::default() }).unwrap();
    };
    let complete = |journal: &mut dyn Journal, taken: &Taken| {
        taken.parts(7).into_iter().for_each(|part| commit(journal, part));
    };
    complete(&mut *journal, &taken(2));
    let unfinished_parts = |taken: &Taken| {
        let mut parts = taken.parts(7);
        parts.pop();
        parts
    };
    let unfinished = unfinished_parts(&taken(5));
    let last = taken(5).parts(7).remove(unfinished.len());
    for (at, part) in unfinished.iter().enumerate() {
        let entries = entry_batch(11 + at as u64, 11 + at as u64).entries;
        // Along with other changes, and once more after a commit of unknown outcome.
        let batch = Batch { snapshot_part: Some(part.clone()), entries, ..Batch::default() };
        journal.commit(&batch).unwrap();
        journal.commit(&batch).unwrap();
        assert_eq!(whole(&mut *journal).unwrap().snapshot, Some(taken(2)), "it counts when it is complete");
    }
    assert!(
        !journal.trim(&entries_from(0), Some(5)).unwrap(),
        "parts of the snapshot that is being written are kept"
    );
    commit(&mut *journal, last);
    assert_eq!(whole(&mut *journal).unwrap().snapshot, Some(taken(5)));
    // One that was given up, and one before the last.
    unfinished_parts(&taken(7)).into_iter().for_each(|part| commit(&mut *journal, part));
    drop(journal);
    let mut journal = storage.open().unwrap();
    assert_eq!(whole(&mut *journal).unwrap().snapshot, Some(taken(5)));
    let superfluous = 2 * taken(7).parts(7).len() - 1;
    for _ in 0..(superfluous - 1) / PARTS_LIMIT as usize {
        assert!(journal.trim(&entries_from(0), None).unwrap(), "few at once");
    }
    assert!(!journal.trim(&entries_from(0), None).unwrap());
    assert_eq!(whole(&mut *journal).unwrap().snapshot, Some(taken(5)));
}

fn listing(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    let server = |number: u32| ["north", "South", "Éast"][number as usize / 7 % 3];
    let rows: Vec<JobRow> = (0..240_u32)
        .map(|number| JobRow {
            owner: ["ada", "bob", "eve"][number as usize % 3].to_owned(),
            state: ["completed", "failed", "canceled", "completed"][number as usize / 3 % 4].to_owned(),
            // Some were moved.
            last_server: if number % 5 == 0 { "south-west" } else { server(number) }.to_owned(),
            // Many are submitted, and many end, in the same second, in other orders.
            submitted: i64::from(number * 7 % 240 / 13),
            ..job(server(number), number, i64::from(number / 11))
        })
        .collect();
    journal.commit(&Batch { ended: rows.clone(), ..Batch::default() }).unwrap();
    let mut archive = journal.archive().unwrap();
    let name = |name: &str| Some(name.to_owned());
    let state = |states: &[&str]| states.iter().map(|state| (*state).to_owned()).collect::<Vec<_>>();
    let states = [state(&[]), state(&["failed"]), state(&["failed", "canceled", "failed"]), state(&["lost"])];
    for owner in [None, name("ada"), name("nobody")] {
        for server in [None, name("South"), name("Éast"), name("south-west"), name("west")] {
            for states in &states {
                let filter = Filter {
                    owner: owner.clone(),
                    server: server.clone(),
                    states: states.clone(),
                    limit: 13,
                    before: None,
                };
                let mut expected: Vec<JobRow> =
                    rows.iter().filter(|row| matches(&filter, row)).cloned().collect();
                expected.sort_by_key(|row| Reverse((row.submitted, row.server.clone(), row.number)));
                assert_eq!(pages(&mut *archive, &filter), expected, "{filter:?}");
            }
        }
    }
    assert_eq!(archive.jobs(&Filter::default()).unwrap(), [], "none at most");
    let mut expected: Vec<JobRow> = rows.into_iter().filter(|row| row.ended >= 9).collect();
    expected.sort_by_key(|row| Reverse((row.ended, row.server.clone(), row.number)));
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = archive.ended_since(9, before, 13).unwrap();
        assert!(page.len() <= 13);
        let Some(last) = page.last() else { break };
        before = Some((last.ended, last.server.clone(), last.number));
        found.extend(page);
    }
    assert_eq!(found, expected);
}

fn matches(filter: &Filter, row: &JobRow) -> bool {
    filter.owner.as_ref().is_none_or(|owner| *owner == row.owner)
        && filter.server.as_ref().is_none_or(|server| *server == row.last_server)
        && (filter.states.is_empty() || filter.states.contains(&row.state))
}

/// All jobs that match a filter, read in pages.
fn pages(archive: &mut dyn pliant_journal::Archive, filter: &Filter) -> Vec<JobRow> {
    let mut filter = filter.clone();
    let mut all: Vec<JobRow> = Vec::new();
    loop {
        let page = archive.jobs(&filter).unwrap();
        assert!(page.len() <= filter.limit as usize);
        let Some(last) = page.last() else { return all };
        filter.before = Some((last.submitted, last.server.clone(), last.number));
        all.extend(page);
    }
}

fn accuracy(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    let late = |server: &str, number: u32, start: i64, completion: i64| {
        let row = job(server, number, i64::from(number) * 10);
        JobRow {
            expected_start: row.started.map(|started| started - start),
            expected_completion: Some(row.ended - completion),
            ..row
        }
    };
    let canceled =
        JobRow { started: None, expected_start: None, expected_completion: None, ..job("north", 9, 999) };
    let unpromised = JobRow { expected_completion: None, ..job("south", 8, 998) };
    let ended = vec![
        late("north", 1, 5, 6),
        late("north", 2, -3, 0),
        late("north", 3, 0, -7),
        // Accepted in the north, run in the south.
        JobRow { last_server: "south".to_owned(), ..late("north", 4, 1, 2) },
    ];
    journal.commit(&Batch { ended, ..Batch::default() }).unwrap();
    journal.commit(&Batch { ended: vec![canceled, unpromised], ..Batch::default() }).unwrap();
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.servers().unwrap(), ["north", "south"]);
    assert_eq!(archive.accuracy("north", 2).unwrap(), [(0, -7), (-3, 0)]);
    assert_eq!(archive.accuracy("south", 2).unwrap(), [(1, 2)]);
    assert_eq!(archive.accuracy("west", 2).unwrap(), []);
}

fn concurrent_reader(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    let mut archive = journal.archive().unwrap();
    let (ask, asked) = std::sync::mpsc::channel::<u32>();
    let (report, reported) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for number in asked {
            report.send((archive.job("north", number).unwrap(), archive.ended().unwrap())).unwrap();
        }
    });
    for number in 1..=50 {
        let row = job("north", number, i64::from(number));
        journal
            .commit(&Batch { ended: vec![row.clone()], ..entry_batch(u64::from(number), u64::from(number)) })
            .unwrap();
        ask.send(number).unwrap();
        assert_eq!(reported.recv().unwrap(), (Some(row), u64::from(number)));
    }
    drop(ask);
    reader.join().unwrap();
}
