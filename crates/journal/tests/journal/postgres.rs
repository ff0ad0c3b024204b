//! Tests of PostgreSQL alone: standby, deposed leaders, broken connections.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use pliant_journal::{Batch, JournalError, open_postgres};
use pliant_testing::postgres::Server;

use super::support::proxy::{BreakAt, BreakingProxy};
use super::support::{
    Storage, Taken, compact, entries, entry_batch, job, open_address, status_updates, whole,
};
use super::{TIMEOUT, commit_with_retries};

#[test]
fn a_standby_takes_over_and_the_deposed_cannot_commit() {
    let Some(server) = Server::start() else { return };
    let storage = server.database();
    let mut first = storage.open().unwrap();
    first.commit(&entry_batch(1, 3)).unwrap();
    let address = storage.address();
    let (leads, led) = mpsc::channel();
    let standby = std::thread::spawn(move || leads.send(open_address(&address).unwrap()).unwrap());
    let begun = Instant::now();
    while storage.connections().len() < 2 {
        assert!(begun.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(5));
    }
    first.commit(&entry_batch(4, 4)).unwrap();
    assert!(led.recv_timeout(Duration::from_millis(300)).is_err(), "two lead");

    storage.end_leader();
    let mut second = led.recv_timeout(TIMEOUT).unwrap();
    standby.join().unwrap();
    second.check_leader().unwrap();
    // Its connection is gone: that alone does not say who leads.
    let lost = first.check_leader().unwrap_err();
    assert!(lost.is_transient(), "{lost:?}");
    assert!(matches!(first.check_leader(), Err(JournalError::Deposed { .. })));
    assert_eq!(whole(&mut *second).unwrap().entries, entries(1, 4));
    assert_eq!(second.id(), first.id());
    let mut other = entry_batch(5, 5);
    other.entries[0].event = "of the second".to_owned();
    second.commit(&other).unwrap();
    for _ in 0..2 {
        let error = commit_with_retries(&mut *first, &entry_batch(5, 5)).unwrap_err();
        assert!(matches!(error, JournalError::Deposed { .. }), "{error:?}");
    }
    let snapshot = Taken { seq: 4, at: 4, state: "{}".to_owned() };
    assert!(matches!(compact(&mut *first, &snapshot, i64::MAX), Err(JournalError::Deposed { .. })));
    assert!(matches!(first.load(), Err(JournalError::Deposed { .. })));
    let loaded = whole(&mut *second).unwrap();
    assert_eq!((&loaded.entries[..4], &loaded.entries[4]), (&entries(1, 4)[..], &other.entries[0]));
    assert_eq!(loaded.snapshot, None);
    second.commit(&entry_batch(6, 6)).unwrap();
}

#[test]
fn a_leader_whose_lock_was_lost_unnoticed_cannot_commit() {
    let Some(server) = Server::start() else { return };
    let storage = server.database();
    let mut journal = storage.open().unwrap();
    journal.commit(&entry_batch(1, 3)).unwrap();
    journal.check_leader().unwrap();
    // As a new leader does.
    storage.tamper("UPDATE metadata SET term = term + 1");
    for _ in 0..2 {
        assert!(matches!(journal.check_leader(), Err(JournalError::Deposed { .. })));
    }
    let batch = Batch { ended: vec![job("north", 1, 1)], ..entry_batch(4, 4) };
    assert!(matches!(journal.commit(&batch), Err(JournalError::Deposed { .. })));
    assert_eq!(storage.query("SELECT max(seq) FROM entries"), ["3"]);
    assert_eq!(storage.query("SELECT count(*) FROM jobs"), ["0"]);
}

#[test]
fn a_leader_goes_on_after_a_broken_connection() {
    let Some(server) = Server::start() else { return };
    let storage = server.database();
    let mut journal = storage.open().unwrap();
    let mut archive = journal.archive().unwrap();
    journal.commit(&Batch { ended: vec![job("north", 1, 1)], ..entry_batch(1, 3) }).unwrap();
    assert_eq!(archive.ended().unwrap(), 1);
    for round in 1..=3_u64 {
        storage.query(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'pliant'",
        );
        let batch = entry_batch(3 + round, 3 + round);
        let error = journal.commit(&batch).unwrap_err();
        assert!(matches!(error, JournalError::Unreachable { .. }) && error.is_transient(), "{error:?}");
        commit_with_retries(&mut *journal, &batch).unwrap();
        assert_eq!(archive.ended().unwrap(), 1);
        assert_eq!(whole(&mut *journal).unwrap().entries, entries(1, 3 + round));
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
        assert_eq!(storage.query(locks), ["1"], "it leads again");
    }
}

/// A database that fails over to a replica without the last commits.
#[test]
fn a_leader_ends_if_commits_are_missing_after_a_failover() {
    let Some(server) = Server::start() else { return };
    for lost in [
        "DELETE FROM entries WHERE seq = 3; UPDATE metadata SET last_entry = 2",
        "DELETE FROM status_updates WHERE seq = 2; UPDATE metadata SET next_update = 2",
    ] {
        let storage = server.database();
        let mut journal = storage.open().unwrap();
        journal.commit(&Batch { status_updates: status_updates(1, 2), ..entry_batch(1, 3) }).unwrap();
        storage.end_leader();
        storage.tamper(lost);
        let error = commit_with_retries(&mut *journal, &entry_batch(4, 4)).unwrap_err();
        assert!(matches!(error, JournalError::Lagging { .. }) && !error.is_transient(), "{error:?}");
    }
}

/// The replica was left behind before the term of the leader began.
#[test]
fn an_earlier_term_is_a_replica_and_no_other_leader() {
    let Some(server) = Server::start() else { return };
    let storage = server.database();
    drop(storage.open().unwrap());
    let mut journal = storage.open().unwrap();
    journal.commit(&entry_batch(1, 3)).unwrap();
    storage.end_leader();
    storage.tamper("UPDATE metadata SET term = 1");
    let error = commit_with_retries(&mut *journal, &entry_batch(4, 4)).unwrap_err();
    let found = error.to_string();
    assert!(found.ends_with("expected term 2, found 1") && !error.is_transient(), "{found}");
}

#[test]
fn a_standby_does_not_lead_a_replica_without_what_it_has_seen() {
    let Some(server) = Server::start() else { return };
    for (lost, expected) in [
        (
            "DELETE FROM entries WHERE seq = 3; UPDATE metadata SET last_entry = 2",
            "expected entry 3, found 2",
        ),
        ("UPDATE metadata SET term = 0", "expected term 1, found 0"),
    ] {
        let storage = server.database();
        let mut first = storage.open().unwrap();
        first.commit(&entry_batch(1, 3)).unwrap();
        let address = storage.address();
        let (opens, opened) = mpsc::channel();
        let standby = std::thread::spawn(move || opens.send(open_address(&address).map(drop)).unwrap());
        let begun = Instant::now();
        while storage.connections().len() < 2 {
            assert!(begun.elapsed() < TIMEOUT);
            std::thread::sleep(Duration::from_millis(5));
        }
        // It looks at the journal whenever it tries to take the lock.
        assert!(opened.recv_timeout(Duration::from_millis(1_500)).is_err(), "two lead");
        storage.tamper(lost);
        storage.end_leader();
        let error = opened.recv_timeout(TIMEOUT).unwrap().unwrap_err();
        assert!(error.to_string().ends_with(expected) && !error.is_transient(), "{error}");
        standby.join().unwrap();
    }
}

#[test]
fn a_commit_with_unknown_outcome_counts_once() {
    let Some(server) = Server::start() else { return };
    for (when, done) in [(BreakAt::Before, "3"), (BreakAt::After, "6")] {
        let storage = server.database();
        let proxy = BreakingProxy::open(server.socket());
        let mut journal =
            open_address(&format!("postgres:{}", storage.connection_by("127.0.0.1", proxy.port()))).unwrap();
        journal.commit(&Batch { status_updates: status_updates(1, 1), ..entry_batch(1, 3) }).unwrap();
        let batch = Batch {
            status_updates: status_updates(2, 3),
            ended: vec![job("north", 1, 1)],
            ..entry_batch(4, 6)
        };
        proxy.break_at_commit(when);
        let error = journal.commit(&batch).unwrap_err();
        assert!(matches!(error, JournalError::Unreachable { .. }), "{when:?}: {error:?}");
        assert!(!proxy.is_waiting(), "{when:?}: the commit was on its way");
        let begun = Instant::now();
        while !storage.connections().is_empty() {
            assert!(begun.elapsed() < TIMEOUT);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(storage.query("SELECT max(seq) FROM entries"), [done], "{when:?}");
        commit_with_retries(&mut *journal, &batch).unwrap();
        let loaded = whole(&mut *journal).unwrap();
        assert_eq!((loaded.entries, loaded.status_updates), (entries(1, 6), vec![1, 2, 3]), "{when:?}");
        assert_eq!(journal.archive().unwrap().ended().unwrap(), 1);
        journal.commit(&entry_batch(7, 7)).unwrap();
    }
}

#[test]
fn postgres_continues_after_a_full_disk() {
    let Some(server) = Server::start() else { return };
    let storage = server.database();
    let mut journal = storage.open().unwrap();
    journal.commit(&entry_batch(1, 3)).unwrap();
    // The error of the database on a full disk, at the end of a commit.
    storage.tamper(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$; \
         CREATE TRIGGER full_disk BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION full_disk()",
    );
    let batch =
        Batch { status_updates: status_updates(1, 1), ended: vec![job("north", 1, 1)], ..entry_batch(4, 6) };
    for _ in 0..3 {
        let error = journal.commit(&batch).unwrap_err();
        assert!(matches!(error, JournalError::Full { .. }) && error.is_transient(), "{error:?}");
        let loaded = whole(&mut *journal).unwrap();
        assert_eq!((loaded.entries, loaded.status_updates), (entries(1, 3), vec![]));
    }
    storage.tamper("DROP TRIGGER full_disk ON jobs");
    journal.commit(&batch).unwrap();
    let loaded = whole(&mut *journal).unwrap();
    assert_eq!((loaded.entries, loaded.status_updates), (entries(1, 6), vec![1]));
}

#[test]
fn postgres_refuses_schemas_that_are_not_journals() {
    let error = open_postgres("nonsense").err().unwrap();
    assert!(matches!(error, JournalError::Connection { .. }) && error.hint().is_some(), "{error:?}");
    let error = open_postgres("host=/nowhere user=pliant").err().unwrap();
    assert!(matches!(error, JournalError::Unreachable { .. }), "{error:?}");

    let Some(server) = Server::start() else { return };
    let other = server.database();
    other.query("CREATE SCHEMA pliant; CREATE TABLE pliant.jobs (x integer)");
    let error = other.open().err().unwrap();
    assert!(matches!(error, JournalError::Damaged { .. }), "{error:?}");

    let later = server.database();
    drop(later.open().unwrap());
    later.tamper("UPDATE metadata SET version = 5");
    let error = later.open().err().unwrap();
    assert!(error.to_string().ends_with("expected a journal of version 4, found 5"), "{error}");
}

#[test]
fn daemons_that_start_together_lead_one_after_the_other() {
    let Some(server) = Server::start() else { return };
    let storage = server.database();
    let address = storage.address();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut journal = open_address(&address).unwrap();
                let next = whole(&mut *journal).unwrap().entries.len() as u64 + 1;
                journal.commit(&entry_batch(next, next)).unwrap();
            });
        }
    });
    assert_eq!(whole(&mut *storage.open().unwrap()).unwrap().entries, entries(1, 4));
    assert_eq!(storage.query("SELECT term FROM metadata"), ["5"]);
}
