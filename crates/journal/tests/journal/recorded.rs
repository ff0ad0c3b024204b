//! A database that an earlier build has written is still read, with every record, and is written further:
//! `fixtures/sqlite-v4.sql`. `cargo run -q -p pliant-journal --example recorded` prints that of this build. Later versions of the tables
//! get a file of their own; the files of earlier versions that are still read stay.

mod records;

use pliant_journal::{Batch, Filter, Journal, KeepFrom, SnapshotPart, back_up_sqlite, open_sqlite_read_only};
use rusqlite::Connection;

use super::support::{Folder, Storage, Taken, Whole, entry, job, whole};

/// The tables of version 4, with a record of each kind.
const RECORDED: &str = include_str!("fixtures/sqlite-v4.sql");
/// So many records, or more than there are.
const ALL: u32 = 100;

/// A folder with the recorded database.
fn recorded() -> Folder {
    let folder = Folder::new();
    Connection::open(folder.file()).unwrap().execute_batch(RECORDED).unwrap();
    folder
}

/// What a restart reads of it.
fn expected() -> Whole {
    let (seq, at) = records::SNAPSHOT;
    Whole {
        snapshot: Some(Taken { seq, at, state: records::STATE.to_owned() }),
        entries: records::entries().split_off(2),
        status_updates: vec![2, 3],
        next_update: 4,
    }
}

/// Reads all of it as a daemon does.
fn check(journal: &mut dyn Journal) {
    assert_eq!(journal.id(), records::ID);
    assert_eq!(whole(journal).unwrap(), expected());
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.entries(1, ALL).unwrap(), records::entries());
    assert_eq!(archive.status_updates(0, ALL).unwrap(), records::status_updates().split_off(1));
    let jobs = records::jobs();
    let [completed, moved, bare] = &jobs[..] else { panic!("{jobs:?}") };
    for row in &jobs {
        assert_eq!(archive.job(&row.server, row.number).unwrap().as_ref(), Some(row));
    }
    assert_eq!(archive.job_by_key(&moved.key.unwrap()).unwrap().as_ref(), Some(moved));
    let mut listed = |filter: Filter| archive.jobs(&Filter { limit: ALL, ..filter }).unwrap();
    assert_eq!(listed(Filter::default()), [bare.clone(), moved.clone(), completed.clone()]);
    let of_alice = Filter { owner: Some("alice".to_owned()), ..Filter::default() };
    assert_eq!(listed(of_alice), [bare.clone(), completed.clone()]);
    let at_nancy = Filter { server: Some("nancy".to_owned()), ..Filter::default() };
    assert_eq!(listed(at_nancy), vec![moved.clone()]);
    let canceled = Filter { states: vec!["canceled".to_owned()], ..Filter::default() };
    assert_eq!(listed(canceled), vec![bare.clone()]);
    assert_eq!(archive.jobs_later_than("lyon", 1, ALL).unwrap(), [moved.clone(), bare.clone()]);
    assert_eq!(archive.ended_since(0, None, ALL).unwrap().len(), jobs.len());
    assert_eq!(archive.servers().unwrap(), ["lyon", "nancy"]);
    assert_eq!(archive.accuracy("lyon", ALL).unwrap(), [(2, -10)]);
    assert_eq!(archive.last_number("lyon").unwrap(), Some(3));
    assert_eq!(archive.ended().unwrap(), 3);
    let local = archive.local_jobs(0, None, ALL).unwrap();
    assert_eq!(local.into_iter().map(|(_, row)| row).collect::<Vec<_>>(), records::local_jobs());
    let audit = archive.audit(0, ALL).unwrap();
    assert_eq!(audit, (1..).zip(records::audit()).collect::<Vec<_>>());
}

#[test]
fn a_recorded_database_is_read() {
    let folder = recorded();
    let mut journal = open_sqlite_read_only(folder.path()).unwrap().unwrap();
    check(&mut *journal);
    drop(journal);
    let mut journal = folder.open().unwrap();
    assert!(journal.claim("server nancy").is_err());
    journal.claim(records::OWNER).unwrap();
    check(&mut *journal);
}

#[test]
fn a_recorded_database_is_backed_up() {
    let (folder, copy) = (recorded(), Folder::new());
    std::fs::write(copy.file(), "").unwrap();
    assert_eq!(back_up_sqlite(folder.path(), &copy.file()).unwrap().as_deref(), Some(records::OWNER));
    check(&mut *copy.open().unwrap());
}

/// A daemon goes on with each kind of record, the snapshot that was being written included, and deletes what is old.
#[test]
fn a_recorded_database_is_written_further() {
    let folder = recorded();
    let mut journal = folder.open().unwrap();
    whole(&mut *journal).unwrap();
    let batch = Batch {
        entries: vec![entry(4)],
        status_updates: vec![pliant_journal::StatusUpdate { seq: 4, body: "4".to_owned() }],
        ended: vec![job("lyon", 9, 1_700_000_200), records::jobs().swap_remove(0)],
        local_jobs: records::local_jobs(),
        audit: records::audit(),
        updates_acknowledged: Some(2),
        ..Batch::default()
    };
    journal.commit(&batch).unwrap();
    let unfinished = records::unfinished_part();
    let last = SnapshotPart { part: 1, bytes: b"\":1}".to_vec(), is_last: true, ..unfinished };
    journal.commit(&Batch { snapshot_part: Some(last), ..Batch::default() }).unwrap();
    let now = 1_700_000_150;
    while journal.trim(&KeepFrom { entries: now, first_entry: 0, jobs: now, audit: now }, None).unwrap() {}
    drop(journal);
    let mut journal = folder.open().unwrap();
    let taken = Taken { seq: 3, at: 1_700_000_030, state: "{\"n\":1}".to_owned() };
    let found = whole(&mut *journal).unwrap();
    let entries = vec![entry(4)];
    let expected = Whole { snapshot: Some(taken), entries, status_updates: vec![3, 4], next_update: 5 };
    assert_eq!(found, expected);
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.ended().unwrap(), 1);
    assert_eq!(archive.local_jobs(0, None, ALL).unwrap(), []);
    assert_eq!(archive.audit(0, ALL).unwrap().len(), 1, "the last record stays");
    assert_eq!(archive.entries(1, ALL).unwrap(), [entry(4)]);
}

/// Fails if tables or indexes are changed without a new version: files of this version would lack the change.
#[test]
fn a_new_database_has_the_recorded_tables() {
    let (old, new) = (recorded(), Folder::new());
    drop(new.open().unwrap());
    let schema = |folder: &Folder| -> Vec<String> {
        let connection = Connection::open(folder.file()).unwrap();
        let mut objects =
            connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
        let objects = objects.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let mut texts: Vec<String> = objects.map(Result::unwrap).collect();
        for pragma in ["application_id", "user_version", "auto_vacuum"] {
            let value: i64 = connection.pragma_query_value(None, pragma, |row| row.get(0)).unwrap();
            texts.push(format!("{pragma} = {value}"));
        }
        texts
    };
    assert_eq!(schema(&old), schema(&new));
}
