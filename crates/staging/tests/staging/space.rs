//! Space on the disk: the quota of a user, what is deleted, and a full disk.

use std::fs;
use std::path::Path;

use pliant_control::names::Key;
use pliant_model::{Span, Time};
use pliant_staging::{FileSpec, Limits, QuotaKind, StagingError, Store};

use crate::files::*;

const SMALL_DISK: &str = "PLIANT_TEST_SMALL_DISK";

#[test]
fn announcements_beyond_a_limit_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let limits = Limits {
        per_file: 50_000,
        per_job: 60_000,
        files_per_job: 3,
        per_user: 100_000,
        total: 150_000,
        ..Limits::default()
    };
    let open = || Store::open(&root.path().join("store"), limits).unwrap();
    let announce = |store: &Store, of: &str, key: u8, name: &str, size: u64| {
        let spec = FileSpec { size, ..spec(name, b"") };
        store.begin(&own_of(of, Key([key; 16])), spec).map(drop).map_err(|error| match error {
            StagingError::Quota { kind, allowed, found } => (kind, allowed, found),
            other => panic!("{other}"),
        })
    };
    let first = open();
    assert_eq!(announce(&first, "alice", 1, "a", 50_001), Err((QuotaKind::PerFile, 50_000, 50_001)));
    assert_eq!(announce(&first, "alice", 1, "a", 50_000), Ok(()));
    assert_eq!(announce(&first, "alice", 1, "a", 50_000), Ok(()), "the same once more counts once");
    assert_eq!(announce(&first, "alice", 1, "b", 20_000), Err((QuotaKind::PerJob, 60_000, 70_000)));
    assert_eq!(announce(&first, "alice", 2, "a", 45_000), Ok(()));
    drop(first);
    // What was announced before a restart still counts.
    let store = open();
    assert_eq!(store.used_by(&own("alice")), 95_000);
    assert_eq!(announce(&store, "alice", 3, "a", 20_000), Err((QuotaKind::PerUser, 100_000, 115_000)));
    assert_eq!(announce(&store, "bob", 1, "a", 50_000), Ok(()));
    // Of all uploads, what has come counts.
    assert_eq!(announce(&store, "carol", 1, "a", 50_000), Ok(()));
    store.abandon(&own_of("carol", Key([1; 16]))).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(announce(&store, "carol", 1, name, 0), Ok(()));
    }
    assert_eq!(announce(&store, "carol", 1, "d", 0), Err((QuotaKind::FilesPerJob, 3, 4)));
}

#[test]
fn files_that_are_announced_and_never_sent_are_bounded() {
    let root = tempfile::tempdir().unwrap();
    let limits = Limits { files_per_job: 2, files_per_user: 3, files: 8, ..Limits::default() };
    let path = root.path().join("store");
    let open = || Store::open(&path, limits).unwrap();
    let announce = |store: &Store, of: &str, key: u8| {
        let begun = store.begin(&own_of(of, Key([key; 16])), spec("a", b"a"));
        begun.map(drop).map_err(|error| (error.to_string(), error.hint()))
    };
    let refused = |kind: &str, allowed: u64, found: u64| -> Result<(), _> {
        let hint = match kind {
            "files in one user's uploads" => {
                "submit or abandon other uploads first, and put many inputs into one archive"
            }
            _ => "submit or abandon other uploads first, or try again later",
        };
        Err((format!("expected at most {allowed} {kind}, found {found}"), hint.to_owned()))
    };
    let beyond_user = || refused("files in one user's uploads", 3, 4);
    let store = open();
    for key in 1..=3 {
        assert_eq!(announce(&store, "alice", key), Ok(()));
    }
    for key in 4..20 {
        assert_eq!(announce(&store, "alice", key), beyond_user());
    }
    assert_eq!(files_under(&path), 2 * 3, "what is refused leaves nothing on the disk");
    assert_eq!(announce(&store, "alice", 1), Ok(()), "the same once more counts once");
    drop(store);

    // What was announced before a restart still counts, until it is used, thrown away or has expired.
    let store = open();
    assert_eq!(announce(&store, "alice", 4), beyond_user());
    store.abandon(&own_of("alice", Key([1; 16]))).unwrap();
    assert_eq!(announce(&store, "alice", 4), Ok(()));
    assert_eq!(announce(&store, "alice", 5), beyond_user());
    let used = own_of("alice", Key([2; 16]));
    let input = upload(&store, &used, "a", b"a");
    assert_eq!(announce(&store, "alice", 5), beyond_user(), "it counts until its job has it");
    store.adopt(&used, &[input], &root.path().join("job")).unwrap();
    assert_eq!(announce(&store, "alice", 5), Ok(()));
    assert_eq!(announce(&store, "alice", 6), beyond_user());
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let now = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    assert!(store.collect(&own_of("alice", Key([3; 16])), Time(now) + Span(25 * 3600)).unwrap());
    assert_eq!(announce(&store, "alice", 6), Ok(()));
    assert_eq!(announce(&store, "alice", 7), beyond_user());

    // With more files than one submission may have, a user gets none of the last half.
    for key in [1, 2] {
        assert_eq!(announce(&store, "bob", key), Ok(()));
    }
    assert_eq!(announce(&store, "bob", 3), refused("files in all uploads", 4, 6));
    for (user, key) in [("carol", 1), ("carol", 2), ("dave", 1)] {
        assert_eq!(announce(&store, user, key), Ok(()));
    }
    drop(store);
    let store = open();
    assert_eq!(announce(&store, "dave", 2), refused("files in all uploads", 8, 9));
    store.abandon(&own_of("alice", Key([4; 16]))).unwrap();
    assert_eq!(announce(&store, "dave", 2), Ok(()));
}

#[test]
fn uploads_that_rest_too_long_are_collected() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), own("alice"));
    upload(&store, &own("alice"), "a", b"a");
    let cut = store.begin(&own("bob"), spec("b", b"bbbb")).unwrap();
    cut.append(0, b"bb").unwrap();
    let written = fs::metadata(root.path().join("store")).unwrap().modified().unwrap();
    let now = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let later = |hours: i64| Time(now) + Span(hours * 3600);
    assert_eq!(store.upload_sets(), [alice.clone(), own("bob")]);
    for (hours, expected) in [(-500, false), (23, false), (25, true)] {
        assert_eq!(store.rests(&own("bob"), later(hours)).unwrap(), expected, "{hours}");
        assert_eq!(store.collect(&own("bob"), later(hours)).unwrap(), expected, "{hours}");
    }
    assert!(!store.rests(&own("bob"), later(25)).unwrap(), "it is gone");
    assert!(matches!(cut.append(2, b"bb"), Err(StagingError::Gone { .. })));
    assert_eq!((store.used_by(&own("bob")), store.used_by(&alice)), (0, 16_384));
    assert_eq!(store.begin(&own("bob"), spec("b", b"bbbb")).unwrap().offset(), 0);
}

#[test]
fn an_interrupted_deletion_is_completed_at_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    upload(&store(&root), &own("alice"), "a", b"a");
    fs::rename(path.join(format!("incoming/alice/{KEY}")), path.join(format!("trash/alice.{KEY}"))).unwrap();
    assert_eq!((store(&root).used_by(&own("alice")), files_under(&path)), (0, 0));
}

/// A real full disk: a small one in memory, seen by this test's own child process alone.
#[test]
fn a_full_disk_is_reported_and_the_store_goes_on_when_there_is_space() {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        return fill(Path::new(&disk));
    }
    let root = tempfile::tempdir().unwrap();
    let this = "space::a_full_disk_is_reported_and_the_store_goes_on_when_there_is_space";
    let script = "mount -t tmpfs -o size=512k tmpfs \"$1\" || exit 77; shift; exec \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(root.path());
    command.arg(std::env::current_exe().unwrap()).args(["--exact", this]).env(SMALL_DISK, root.path());
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&output.stdout))
        }
        _ => pliant_testing::skip(pliant_testing::Needed::Program, "a full disk: no private mounts here"),
    }
}

fn fill(disk: &Path) {
    let limits = Limits::default();
    let store = Store::open(&disk.join("store"), limits).unwrap();
    let alice = own("alice");
    let small = upload(&store, &own("alice"), "small", b"small");
    let content = vec![1u8; 1 << 20];
    let large = spec("large", &content);
    let going = store.begin(&alice, large).unwrap();
    let mut offset = 0;
    let error = loop {
        match going.append(offset, &content[offset as usize..][..50_000]) {
            Ok(next) => offset = next,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StagingError::DiskFull { .. }) && offset > 100_000, "{error}");
    // With nothing left at all, what needs space says so, and what is there stays.
    fs::write(disk.join("filler"), vec![1; 100_000]).unwrap_err();
    let refused = store.adopt(&alice, std::slice::from_ref(&small), &disk.join("job")).unwrap_err();
    assert!(matches!(refused, StagingError::DiskFull { .. }), "{refused}");
    let refused = store.begin(&alice, spec("other", b"other")).map(drop).unwrap_err();
    assert!(matches!(refused, StagingError::DiskFull { .. }), "{refused}");
    fs::remove_file(disk.join("filler")).unwrap();
    assert_eq!(going.append(offset, &content[offset as usize..][..10]).unwrap(), offset + 10);
    drop(going);
    store.adopt(&alice, &[small], &disk.join("job")).unwrap();
    assert_eq!(fs::read(disk.join("job/work/small")).unwrap(), b"small");
}
