//! Tests of both journals, and of SQLite alone.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod postgres;
mod recorded;
mod support;
mod tls;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pliant_journal::{Batch, Inodes, Journal, JournalError, open_sqlite};
use pliant_testing::postgres::Server;
use pliant_testing::{Needed, skip};
use support::{
    Folder, Storage, Taken, Whole, compact, entries, entry_batch, job, model, open_address, scenarios,
    status_updates, whole,
};

/// The longest wait of a test, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The environment variable with the address of the journal that [`run_writer`] writes.
const WRITER_ADDRESS: &str = "PLIANT_TEST_JOURNAL";
/// The environment variable with the folder that [`fill_small_disk`] fills.
const SMALL_DISK: &str = "PLIANT_TEST_SMALL_DISK";
/// Entries in each batch of [`run_writer`].
const BATCH_ENTRIES: u64 = 7;

fn check_all(new: impl Fn() -> Box<dyn Storage>) {
    for (name, scenario) in scenarios::ALL {
        println!("{name}");
        scenario(&*new());
    }
}

#[test]
fn sqlite_passes_all_scenarios() {
    check_all(|| Box::new(Folder::new()));
}

#[test]
fn postgres_passes_all_scenarios() {
    let Some(server) = Server::start() else { return };
    check_all(|| Box::new(server.database()));
}

#[test]
fn sqlite_equals_the_model() {
    model::check(200, || Box::new(Folder::new()));
}

#[test]
fn postgres_equals_the_model() {
    let Some(server) = Server::start() else { return };
    model::check(24, || Box::new(server.database()));
}

#[test]
fn sqlite_survives_kill() {
    check_kill(&Folder::new());
}

#[test]
fn postgres_survives_kill() {
    let Some(server) = Server::start() else { return };
    check_kill(&server.database());
}

/// Kills a writer and checks that every acknowledged batch is complete and no batch is partial.
fn check_kill(storage: &dyn Storage) {
    let mut before = 0;
    for lines in [1, 40, 97] {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", "run_writer"])
            .env(WRITER_ADDRESS, storage.address())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(writer.stdout.take().unwrap()).lines().map(Result::unwrap);
        let committed = said.filter_map(|line| line.strip_prefix("committed ")?.parse::<u64>().ok());
        let acknowledged: Vec<u64> = committed.take(lines).collect();
        writer.kill().unwrap();
        writer.wait().unwrap();
        let acknowledged = *acknowledged.last().unwrap();
        assert!(acknowledged > before, "the writer continued after the previous one");

        let mut journal = storage.open().unwrap();
        let loaded = whole(&mut *journal).unwrap();
        let last = last_entry(&loaded);
        assert!(last >= acknowledged, "{acknowledged} was acknowledged, {last} is there");
        assert_eq!(last % BATCH_ENTRIES, 0, "a partial batch");
        let after = loaded.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        assert_eq!(loaded.entries, entries(after + 1, last));
        assert_eq!(loaded.next_update - 1, last / BATCH_ENTRIES);
        assert_eq!(journal.archive().unwrap().ended().unwrap(), last / BATCH_ENTRIES);
        before = last;
    }
}

fn last_entry(loaded: &Whole) -> u64 {
    let covered = loaded.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
    loaded.entries.last().map_or(covered, |entry| entry.seq)
}

/// Not a test: a writer that commits and prints what it has committed, until it is killed.
#[test]
#[ignore = "a writer, started by the other tests"]
fn run_writer() {
    let Ok(address) = std::env::var(WRITER_ADDRESS) else { return };
    let mut journal = open_address(&address).unwrap();
    let mut last = last_entry(&whole(&mut *journal).unwrap());
    loop {
        let number = last / BATCH_ENTRIES + 1;
        let batch = Batch {
            status_updates: status_updates(number, number),
            ended: vec![job("north", number as u32, number as i64)],
            ..entry_batch(last + 1, last + BATCH_ENTRIES)
        };
        journal.commit(&batch).unwrap();
        last += BATCH_ENTRIES;
        println!("committed {last}");
        if number.is_multiple_of(16) {
            compact(&mut *journal, &Taken { seq: last, at: 0, state: "{}".to_owned() }, last as i64 / 2)
                .unwrap();
        }
    }
}

#[test]
fn sqlite_refuses_a_second_daemon() {
    let folder = Folder::new();
    let first = folder.open().unwrap();
    let error = folder.open().err().unwrap();
    let expected = format!(
        "{}: another daemon has this journal open: process {}",
        folder.path().display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), expected);
    assert!(matches!(error, JournalError::Taken { .. }) && error.hint().is_some());
    drop(first);
    folder.open().unwrap();
}

#[test]
fn sqlite_refuses_files_that_are_not_journals() {
    let refused = |name: &str, prepare: &dyn Fn(&Path), why: &str| {
        let folder = Folder::new();
        prepare(&folder.file());
        let before = fs::read(folder.file()).ok();
        let error = folder.open().err().unwrap_or_else(|| panic!("{name} was opened"));
        let storage = folder.file().display().to_string();
        assert!(error.to_string().starts_with(&storage), "{name}: {error}");
        assert!(error.to_string().contains(why), "{name}: {error}");
        assert!(!error.is_transient() && error.hint().is_some(), "{name}: {error:?}");
        assert_eq!(fs::read(folder.file()).ok(), before, "{name} was changed");
    };
    let database = |path: &Path, text: &str| {
        rusqlite::Connection::open(path).unwrap().execute_batch(text).unwrap();
    };
    let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes).unwrap();
    refused("an empty file", &|path| write(path, b""), "an empty file");
    refused("text", &|path| write(path, &b"not a journal\n".repeat(1000)), "not a database");
    refused("a short file", &|path| write(path, b"SQLite format 3\0"), "not a");
    let other = |path: &Path| database(path, "CREATE TABLE jobs (x); PRAGMA user_version = 1");
    refused("another database", &other, "a database of another application");
    let later = |path: &Path| {
        drop(open_sqlite(path.parent().unwrap()).unwrap());
        database(path, "PRAGMA user_version = 5");
    };
    refused("a later version", &later, "expected a journal of version 4, found 5");
    let log_alone = |path: &Path| {
        drop(open_sqlite(path.parent().unwrap()).unwrap());
        fs::rename(path, path.with_file_name("journal.db-wal")).unwrap();
    };
    refused("a log without its journal", &log_alone, "journal.db-wal");
}

/// A journal of some pages.
fn large(folder: &Folder) -> Whole {
    let mut journal = folder.open().unwrap();
    let ended = (1..=50).map(|number| job("north", number, i64::from(number))).collect();
    journal.commit(&Batch { status_updates: status_updates(1, 200), ended, ..entry_batch(1, 1000) }).unwrap();
    compact(&mut *journal, &Taken { seq: 100, at: 100, state: "s".repeat(10_000) }, 50).unwrap();
    whole(&mut *journal).unwrap()
}

#[test]
fn sqlite_refuses_a_cut_file() {
    let folder = Folder::new();
    large(&folder);
    let intact = fs::read(folder.file()).unwrap();
    assert!(intact.len() > 20 * 4096);
    for length in [50, 100, 4096, 5000, 8 * 4096, intact.len() / 2, intact.len() - 1] {
        fs::write(folder.file(), &intact[..length]).unwrap();
        let error = folder.open().and_then(|mut journal| whole(&mut *journal)).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { .. }), "{length} bytes: {error:?}");
    }
}

#[test]
fn sqlite_detects_damaged_pages() {
    let folder = Folder::new();
    let expected = large(&folder);
    let intact = fs::read(folder.file()).unwrap();
    let mut refused = 0;
    for page in 0..intact.len() / 4096 {
        let mut damaged = intact.clone();
        damaged[page * 4096..][..4096].fill(0xa5);
        fs::write(folder.file(), &damaged).unwrap();
        match folder.open().and_then(|mut journal| whole(&mut *journal)) {
            // A page of the table jobs, which a restart does not read, or a free page.
            Ok(loaded) => assert_eq!(loaded, expected, "page {page}"),
            Err(JournalError::Damaged { .. } | JournalError::Gap { .. }) => refused += 1,
            Err(error) => panic!("page {page}: {error:?}"),
        }
    }
    assert!(refused > 10, "{refused} of the entries' pages");
}

#[test]
fn sqlite_removes_an_unfinished_journal() {
    let folder = Folder::new();
    // The state after a daemon was killed while it created its journal.
    fs::write(folder.path().join("journal.db.new"), "half").unwrap();
    assert_eq!(whole(&mut *folder.open().unwrap()).unwrap(), Whole { next_update: 1, ..Whole::default() });
    let error = open_sqlite(Path::new("/proc/none")).err().unwrap();
    assert!(matches!(error, JournalError::Folder { .. }), "{error:?}");
}

#[test]
fn sqlite_continues_after_a_full_disk() {
    on_small_disk("2m", "fill_small_disk", "full after");
}

#[test]
fn sqlite_commits_on_a_full_disk_what_its_reserve_has_room_for() {
    on_small_disk("32m", "use_reserve", "committed on a full disk");
}

/// Runs a test of this program that is ignored on a private file system of that size.
fn on_small_disk(size: &str, test: &str, expected: &str) {
    let folder = Folder::new();
    let script = format!(r#"mount -t tmpfs -o size={size} none "$1" || exit 77; shift; exec "$@""#);
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let outcome = command
        .args(["--mount", "sh", "-c", &script, "sh"])
        .args([folder.path().as_os_str(), std::env::current_exe().unwrap().as_os_str()])
        .args(["--exact", "--ignored", "--nocapture", test])
        .env(SMALL_DISK, folder.path())
        .output();
    let said = |outcome: &std::process::Output| {
        let text = [&outcome.stdout[..], &outcome.stderr[..]].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    match outcome {
        Ok(outcome) if outcome.status.success() => {
            assert!(said(&outcome).contains(expected), "{outcome:?}")
        }
        Ok(outcome) if said(&outcome).contains("running 1 test") => panic!("{}", said(&outcome)),
        // Not permitted, or the program is missing.
        _ => skip(Needed::Program, "a file system of its own for a full disk (unshare, mount)"),
    }
}

/// Not a test: fills a journal on a private file system of 2 MB.
#[test]
#[ignore = "on a file system of its own, made by another test"]
fn fill_small_disk() {
    let Some(disk) = std::env::var_os(SMALL_DISK).map(std::path::PathBuf::from) else { return };
    let filler = disk.join("filler");
    fs::write(&filler, vec![1; 1_200_000]).unwrap();
    let mut journal = open_sqlite(&disk.join("state")).unwrap();
    let mut last = 0;
    let full = loop {
        let mut batch = entry_batch(last + 1, last + 20);
        batch.entries[0].event = "x".repeat(20_000);
        match journal.commit(&batch) {
            Ok(()) => last += 20,
            Err(JournalError::Full { .. }) => break batch,
            Err(error) => panic!("{error:?}"),
        }
        assert!(last < 10_000, "the disk is never full");
    };
    // No free space remains.
    let mut rest = fs::File::create(disk.join("rest")).unwrap();
    while rest.write_all(&[0; 512]).is_ok() {}
    for _ in 0..3 {
        let error = journal.commit(&full).unwrap_err();
        assert!(matches!(error, JournalError::Full { .. }) && error.is_transient(), "{error:?}");
    }
    assert_eq!(whole(&mut *journal).unwrap().entries.len() as u64, last, "the failed batch left nothing");
    // A restart loses nothing; it succeeds or reports a full disk.
    drop(journal);
    let opened = open_sqlite(&disk.join("state"));
    assert!(matches!(opened, Ok(_) | Err(JournalError::Full { .. })), "{:?}", opened.err());
    let again = opened.ok();
    fs::remove_file(&filler).unwrap();
    let mut journal = again.unwrap_or_else(|| open_sqlite(&disk.join("state")).unwrap());
    journal.commit(&full).unwrap();
    journal.commit(&full).unwrap();
    let loaded = whole(&mut *journal).unwrap();
    assert_eq!(loaded.entries.len() as u64, last + 20);
    assert_eq!(loaded.entries[last as usize..], full.entries);
    println!("full after {last} entries");
}

/// Not a test: uses all of the reserve of a journal on a private file system of 32 MB.
#[test]
#[ignore = "on a file system of its own, made by another test"]
fn use_reserve() {
    const RESERVE_BYTES: u64 = 4 << 20;
    let Some(disk) = std::env::var_os(SMALL_DISK).map(std::path::PathBuf::from) else { return };
    let mut journal = open_sqlite(&disk.join("state")).unwrap();
    let inodes = journal.inodes().unwrap().unwrap();
    fs::write(disk.join("file"), "").unwrap();
    let after = Inodes { free: inodes.free - 1, ..inodes };
    assert_eq!(journal.inodes().unwrap(), Some(after));
    let before = journal.free_bytes().unwrap().unwrap();
    let error = journal.reserve(before).unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error:?}");
    journal.reserve(RESERVE_BYTES).unwrap();
    let after = journal.free_bytes().unwrap().unwrap();
    assert!(before - after >= RESERVE_BYTES, "{before} bytes were free, {after} are");
    journal.reserve(RESERVE_BYTES).unwrap();
    assert_eq!(journal.free_bytes().unwrap(), Some(after), "it is kept once");
    let stored = journal.stored_bytes().unwrap().unwrap();
    assert!((RESERVE_BYTES..before).contains(&stored), "{stored} of {before} bytes");
    // Some of the log is in use when no free space remains.
    let mut last = 0;
    let mut next = || {
        let mut batch = entry_batch(last + 1, last + 1);
        batch.entries[0].event = "x".repeat(10_000);
        last += 1;
        batch
    };
    (0..100).for_each(|_| journal.commit(&next()).unwrap());
    let mut rest = fs::File::create(disk.join("rest")).unwrap();
    while rest.write_all(&[0; 512]).is_ok() {}
    let mut committed = 0;
    let full = loop {
        let batch = next();
        match journal.commit(&batch) {
            Ok(()) => committed += 10_000,
            Err(JournalError::Full { .. }) => break batch,
            Err(error) => panic!("{error:?}"),
        }
    };
    // Each commit writes whole pages, and some twice.
    assert!(committed >= RESERVE_BYTES / 4, "{committed} bytes of events");
    drop(rest);
    fs::remove_file(disk.join("rest")).unwrap();
    journal.commit(&full).unwrap();
    drop(journal);
    let mut journal = open_sqlite(&disk.join("state")).unwrap();
    assert_eq!(whole(&mut *journal).unwrap().entries.len() as u64, full.entries[0].seq);
    println!("{committed} bytes committed on a full disk");
}

/// Commits until it succeeds or fails permanently.
fn commit_with_retries(journal: &mut dyn Journal, batch: &Batch) -> Result<(), JournalError> {
    let begun = Instant::now();
    loop {
        match journal.commit(batch) {
            Err(error) if error.is_transient() && begun.elapsed() < TIMEOUT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            outcome => return outcome,
        }
    }
}
