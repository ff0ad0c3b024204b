//! Tests of internals: a full disk without one, and the index that each listing reads.

use tempfile::TempDir;

use super::*;
use crate::database::Value;
use crate::listing::queries;
use crate::{Filter, KeepFrom, SnapshotPart};

fn entries(from: u64, to: u64, length: usize) -> Batch {
    let entry = |seq| Entry { seq, at: seq as i64, event: "x".repeat(length), commands: seq };
    Batch { entries: (from..=to).map(entry).collect(), ..Batch::default() }
}

#[test]
fn a_full_disk_is_rolled_back_and_the_journal_goes_on() {
    let folder = TempDir::new().unwrap();
    let mut journal = Sqlite::open(folder.path(), Durability::Power).unwrap();
    journal.commit(&entries(1, 3, 10)).unwrap();
    let pages: i64 = journal.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    let limit = |journal: &Sqlite, pages: i64| {
        journal.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    };
    limit(&journal, pages + 4);
    let large = entries(4, 1003, 1000);
    for _ in 0..3 {
        let error = journal.commit(&large).unwrap_err();
        assert!(matches!(error, JournalError::Full { .. }), "{error:?}");
        assert!(error.is_transient());
    }
    let part = SnapshotPart { seq: 3, at: 3, part: 0, bytes: vec![b'y'; 1_000_000], is_last: true };
    let error = journal.commit(&Batch { snapshot_part: Some(part), ..Batch::default() }).unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error:?}");
    assert_eq!(journal.load().unwrap().snapshot, None);
    assert_eq!(journal.entries(0, 9).unwrap(), entries(1, 3, 10).entries);
    // A smaller one fits.
    limit(&journal, pages + 1_000_000);
    journal.commit(&large).unwrap();
    drop(journal);
    let mut journal = Sqlite::open(folder.path(), Durability::Power).unwrap();
    assert_eq!(journal.load().unwrap().last_entry, 1003);
}

#[test]
fn a_commit_is_synced() {
    let folder = TempDir::new().unwrap();
    let journal = Sqlite::open(folder.path(), Durability::Power).unwrap();
    let setting = |name| journal.connection.pragma_query_value(None, name, |row| row.get::<_, String>(0));
    assert_eq!(setting("journal_mode").unwrap(), "wal");
    let synchronous: i64 =
        journal.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!(synchronous, 2, "FULL");
}

#[test]
fn a_batch_that_only_a_process_end_must_survive_is_synced_later() {
    let folder = TempDir::new().unwrap();
    let mut journal = Sqlite::open(folder.path(), Durability::Power).unwrap();
    let synchronous = |journal: &Sqlite| {
        journal.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0)).unwrap()
    };
    journal.commit(&Batch { durability: Durability::Process, ..entries(1, 1, 1) }).unwrap();
    assert_eq!(synchronous(&journal), 1, "NORMAL");
    journal.sync().unwrap();
    assert_eq!(synchronous(&journal), 2, "FULL");
    journal.commit(&Batch { durability: Durability::Process, ..entries(2, 2, 1) }).unwrap();
    journal.commit(&entries(3, 3, 1)).unwrap();
    assert_eq!(synchronous(&journal), 2, "FULL");
    drop(journal);
    let mut journal = Sqlite::open(folder.path(), Durability::Process).unwrap();
    journal.commit(&entries(4, 4, 1)).unwrap();
    assert_eq!(synchronous(&journal), 1, "the journal as a whole asks for no more");
    assert_eq!(journal.entries(0, 9).unwrap(), entries(1, 4, 1).entries);
}

/// The query plan: which index is read how.
fn plan(connection: &Connection, text: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
    let values = vec![Value::Number(1); statement.parameter_count()];
    let steps =
        statement.query_map(rusqlite::params_from_iter(&values), |row| row.get::<_, String>(3)).unwrap();
    steps.collect::<rusqlite::Result<Vec<_>>>().unwrap().join("; ")
}

#[test]
fn every_listing_is_read_from_an_index_in_its_order() {
    let folder = TempDir::new().unwrap();
    let journal = Sqlite::open(folder.path(), Durability::Power).unwrap();
    let plan = |text: &str| plan(&journal.connection, text);
    for chosen in 0..16_u32 {
        let has = |bit: u32| chosen & (1 << bit) != 0;
        let filter = Filter {
            owner: has(0).then(|| "o".to_owned()),
            server: has(1).then(|| "s".to_owned()),
            states: if has(2) { vec!["a".to_owned(), "b".to_owned()] } else { Vec::new() },
            limit: 10,
            before: has(3).then(|| (1, "s".to_owned(), 1)),
        };
        for query in queries(&filter) {
            let plan = plan(&query.text);
            assert!(plan.contains("USING INDEX jobs_"), "{filter:?}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "sorts: {filter:?}: {plan}");
            // Reading all of an index in its order is right only if nothing narrows the search.
            assert_eq!(plan.contains("SCAN"), chosen == 0, "{filter:?}: {plan}");
        }
    }
    assert!(
        plan("SELECT * FROM jobs WHERE key = ? ORDER BY ended DESC LIMIT 1").contains("jobs_by_key (key=?)")
    );
}

#[test]
fn what_is_committed_is_there_again_however_durable() {
    for (durability, synchronous) in [(Durability::Power, 2), (Durability::Process, 1)] {
        let folder = TempDir::new().unwrap();
        let mut journal = Sqlite::open(folder.path(), durability).unwrap();
        let found = journal.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
        assert_eq!(found.unwrap(), synchronous, "{durability:?}");
        journal.commit(&entries(1, 5, 10)).unwrap();
        drop(journal);
        let loaded = Sqlite::open(folder.path(), durability).unwrap().load().unwrap();
        assert_eq!(loaded.last_entry, 5, "{durability:?}");
    }
}

/// Everything but what a snapshot does not hold.
const NOTHING: KeepFrom = KeepFrom { entries: i64::MAX, first_entry: 0, jobs: i64::MAX, audit: i64::MAX };

/// Fills a journal with entries of some MB, and deletes them. Returns the bytes of its file when it was full.
fn fill_and_empty(folder: &Path, journal: &mut Sqlite) -> u64 {
    let before = journal.load().unwrap().last_entry;
    let last = before + 5_000;
    journal.commit(&entries(before + 1, last, 5_000)).unwrap();
    let part = SnapshotPart { seq: last, at: 0, part: 0, bytes: b"{}".to_vec(), is_last: true };
    journal.commit(&Batch { snapshot_part: Some(part), ..Batch::default() }).unwrap();
    journal.connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    let full = fs::metadata(folder.join("journal.db")).unwrap().len();
    for pass in 0.. {
        assert!(pass < 50, "there is always more");
        if !journal.trim(&NOTHING, None).unwrap() {
            return full;
        }
    }
    full
}

#[test]
fn the_file_of_a_journal_shrinks_step_by_step() {
    let folder = TempDir::new().unwrap();
    let mut journal = Sqlite::open(folder.path(), Durability::Power).unwrap();
    let full = fill_and_empty(folder.path(), &mut journal);
    let free: i64 = journal.connection.pragma_query_value(None, "freelist_count", |row| row.get(0)).unwrap();
    assert!((1..=1024).contains(&free), "some stay for what comes next: {free}");
    drop(journal);
    let left = fs::metadata(folder.path().join("journal.db")).unwrap().len();
    assert!(full > 25_000_000 && left < 5_000_000, "{full} bytes, then {left}");
    let mut journal = Sqlite::open(folder.path(), Durability::Power).unwrap();
    assert_eq!(journal.load().unwrap().last_entry, 5_000);
}

#[test]
fn a_small_file_of_an_earlier_build_can_shrink_once_it_was_opened() {
    let folder = TempDir::new().unwrap();
    drop(Sqlite::open(folder.path(), Durability::Power).unwrap());
    let file = folder.path().join("journal.db");
    let old = Connection::open(&file).unwrap();
    old.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
    let kind = |connection: &Connection| -> i64 {
        connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).unwrap()
    };
    assert_eq!(kind(&old), 0);
    drop(old);
    let mut journal = Sqlite::open(folder.path(), Durability::Power).unwrap();
    assert_eq!(kind(&journal.connection), 2);
    let full = fill_and_empty(folder.path(), &mut journal);
    drop(journal);
    assert!(fs::metadata(&file).unwrap().len() < full / 4);
}

#[test]
fn what_is_deleted_is_found_by_an_index() {
    let folder = TempDir::new().unwrap();
    let journal = Sqlite::open(folder.path(), Durability::Power).unwrap();
    let plan = plan(&journal.connection, &trim::delete_jobs());
    for step in ["jobs_by_end (ended<?)", "(server=? AND number=?)", "(server=? AND number>?)"] {
        assert!(plan.contains(step), "{step}: {plan}");
    }
    assert!(!plan.contains("SCAN"), "{plan}");
}
