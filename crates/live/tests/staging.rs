//! Files go up, are checked, and reach their job; results come back; nothing leads out of its folder.

#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;

use pliant_control::names::{Key, User};
use pliant_live::staging::{
    Checksum, Download, FileName, FileSpec, LeftOutReason, Limits, QuotaKind, ResultLimits, ResultName,
    StagingError, Store, open_result, put_script, results, seal, sealed,
};
use pliant_model::{Span, Time};
use tempfile::TempDir;

const KEY: Key = Key([7; 16]);
const WIDE: ResultLimits = ResultLimits { files: 1000, bytes: 1 << 30 };

fn user(name: &str) -> User {
    name.parse().unwrap()
}

fn spec(name: &str, content: &[u8]) -> FileSpec {
    FileSpec { name: name.parse().unwrap(), size: content.len() as u64, sha256: Checksum::of(content) }
}

fn store(root: &TempDir) -> Store {
    Store::open(&root.path().join("store"), Limits::default()).unwrap()
}

fn upload(store: &Store, of: &str, key: Key, name: &str, content: &[u8]) -> FileSpec {
    let spec = spec(name, content);
    let upload = store.begin(&user(of), key, spec.clone()).unwrap();
    upload.append(0, content).unwrap();
    upload.finish().unwrap();
    spec
}

/// How many files lie under a folder.
fn files_under(folder: &Path) -> usize {
    fs::read_dir(folder).into_iter().flatten().flatten().fold(0, |sum, entry| {
        sum + if entry.file_type().unwrap().is_dir() { files_under(&entry.path()) } else { 1 }
    })
}

#[test]
fn an_upload_cut_in_the_middle_goes_on_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let alice = user("alice");
    let (content, spec) = (b"0123456789", spec("in/a.dat", b"0123456789"));
    let first = store(&root).begin(&alice, KEY, spec.clone()).unwrap();
    assert_eq!((first.offset(), first.append(0, &content[..4]).unwrap()), (0, 4));
    drop(first);
    // Another process: the file alone tells how far it came.
    let again = store(&root);
    let upload = again.begin(&alice, KEY, spec.clone()).unwrap();
    assert_eq!(upload.offset(), 4);
    assert!(matches!(upload.finish(), Err(StagingError::TooLittle { announced: 10, found: 4, .. })));
    assert!(matches!(upload.append(0, content), Err(StagingError::Offset { expected: 4, found: 0, .. })));
    // A second connection of the same client continues the same file.
    let beside = again.begin(&alice, KEY, spec.clone()).unwrap();
    assert_eq!((beside.offset(), beside.append(4, &content[4..6]).unwrap()), (4, 6));
    assert!(matches!(upload.append(4, &content[4..]), Err(StagingError::Offset { expected: 6, .. })));
    assert_eq!(upload.append(6, &content[6..]).unwrap(), 10);
    assert!(matches!(
        again.complete(&alice, KEY, std::slice::from_ref(&spec)),
        Err(StagingError::Missing { .. })
    ));
    upload.finish().unwrap();
    beside.finish().unwrap();
    let done = store(&root).begin(&alice, KEY, spec.clone()).unwrap();
    assert!(done.is_done() && done.offset() == 10);
    again.complete(&alice, KEY, &[spec]).unwrap();
}

#[test]
fn bytes_that_are_not_those_announced_are_thrown_away() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), user("alice"));
    let announced = spec("a", b"right");
    let upload = store.begin(&alice, KEY, announced.clone()).unwrap();
    upload.append(0, b"wrong").unwrap();
    let error = upload.finish().unwrap_err();
    assert!(
        matches!(&error, StagingError::Checksum { found, .. } if *found == Checksum::of(b"wrong")),
        "{error}"
    );
    assert_eq!(store.begin(&alice, KEY, announced.clone()).unwrap().offset(), 0);
    upload.append(0, b"right").unwrap();
    upload.finish().unwrap();
    store.complete(&alice, KEY, &[announced]).unwrap();
}

#[test]
fn more_than_was_announced_is_not_kept() {
    let root = tempfile::tempdir().unwrap();
    let store = store(&root);
    let upload = store.begin(&user("alice"), KEY, spec("a", b"1234")).unwrap();
    upload.append(0, b"12").unwrap();
    assert!(matches!(upload.append(2, b"345"), Err(StagingError::TooMuch { announced: 4, found: 5, .. })));
    assert_eq!(upload.append(2, b"34").unwrap(), 4);
    upload.finish().unwrap();
}

#[test]
fn another_announcement_begins_anew() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), user("alice"));
    let old = upload(&store, "alice", KEY, "a", b"old");
    let stale = store.begin(&alice, KEY, spec("b", b"stale")).unwrap();
    stale.append(0, b"st").unwrap();
    assert_eq!(store.begin(&alice, KEY, spec("b", b"newer!")).unwrap().offset(), 0);
    assert!(matches!(stale.append(2, b"ale"), Err(StagingError::Gone { .. })));
    assert!(matches!(stale.finish(), Err(StagingError::Gone { .. })));
    let new = upload(&store, "alice", KEY, "a", b"new");
    assert!(matches!(store.complete(&alice, KEY, &[old]), Err(StagingError::Missing { .. })));
    store.complete(&alice, KEY, &[new]).unwrap();
}

#[test]
fn a_submission_names_what_is_missing_and_what_clashes() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), user("alice"));
    let a = upload(&store, "alice", KEY, "a", b"a");
    let missing = |files: &[FileSpec]| match store.complete(&alice, KEY, files) {
        Err(StagingError::Missing { name }) => name.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(&[a.clone(), spec("b", b"b")]), "b");
    assert_eq!(missing(&[spec("a", b"else")]), "a");
    assert_eq!(missing(&[FileSpec { size: 2, ..a.clone() }]), "a", "another size");
    let bob = store.complete(&user("bob"), KEY, std::slice::from_ref(&a));
    assert!(matches!(bob, Err(StagingError::Missing { .. })), "another user's files, by the same key");
    for other in ["a", "a/b", "a/b/c"] {
        let clash = store.complete(&alice, KEY, &[a.clone(), spec(other, b"")]);
        assert!(matches!(clash, Err(StagingError::Clash { .. })), "{other}");
    }
    store.complete(&user("carol"), KEY, &[]).unwrap();
}

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
        store.begin(&user(of), Key([key; 16]), spec).map(drop).map_err(|error| match error {
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
    assert_eq!(store.used_by(&user("alice")), 95_000);
    assert_eq!(announce(&store, "alice", 3, "a", 10_000), Err((QuotaKind::PerUser, 100_000, 105_000)));
    assert_eq!(announce(&store, "bob", 1, "a", 50_000), Ok(()));
    assert_eq!(announce(&store, "carol", 1, "a", 50_000), Err((QuotaKind::Total, 150_000, 195_000)));
    store.abandon(&user("bob"), Key([1; 16])).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(announce(&store, "carol", 1, name, 0), Ok(()));
    }
    assert_eq!(announce(&store, "carol", 1, "d", 0), Err((QuotaKind::FilesPerJob, 3, 4)));
}

#[test]
fn a_job_gets_its_files_once_and_the_store_forgets_them() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice, job) = (store(&root), user("alice"), root.path().join("job"));
    let files = [upload(&store, "alice", KEY, "a", b"a"), upload(&store, "alice", KEY, "in/b", b"b")];
    upload(&store, "alice", KEY, "not-submitted", b"x");
    let late = store.begin(&alice, KEY, spec("late", b"late")).unwrap();
    store.adopt(&alice, KEY, &files, &job).unwrap();
    let read = |name: &str| fs::read_to_string(job.join("work").join(name)).ok();
    assert_eq!((read("a"), read("in/b"), read("not-submitted")), (Some("a".into()), Some("b".into()), None));
    assert!(matches!(late.append(0, b"late"), Err(StagingError::Gone { .. })));
    assert_eq!((store.used_by(&alice), files_under(&root.path().join("store"))), (0, 0));
    store.adopt(&alice, KEY, &files, &job).unwrap();
    // A crash may bring the uploads back, after the job has begun to change its inputs.
    upload(&store, "alice", KEY, "a", b"a");
    fs::write(job.join("work/a"), "changed").unwrap();
    drop(store);
    let store = Store::open(&root.path().join("store"), Limits::default()).unwrap();
    store.adopt(&alice, KEY, &files, &job).unwrap();
    assert_eq!((read("a"), files_under(&root.path().join("store"))), (Some("changed".into()), 0));
}

#[test]
fn a_job_without_inputs_gets_an_empty_folder() {
    let root = tempfile::tempdir().unwrap();
    store(&root).adopt(&user("alice"), KEY, &[], &root.path().join("job")).unwrap();
    assert!(root.path().join("job/work").is_dir());
}

#[test]
fn uploads_that_rest_too_long_are_collected() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), user("alice"));
    upload(&store, "alice", KEY, "a", b"a");
    let cut = store.begin(&user("bob"), KEY, spec("b", b"bbbb")).unwrap();
    cut.append(0, b"bb").unwrap();
    let written = fs::metadata(root.path().join("store")).unwrap().modified().unwrap();
    let now = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let later = |hours: i64| Time(now) + Span(hours * 3600);
    assert_eq!(store.submissions(), [(alice.clone(), KEY), (user("bob"), KEY)]);
    for (hours, expected) in [(-500, false), (23, false), (25, true)] {
        assert_eq!(store.rests(&user("bob"), KEY, later(hours)).unwrap(), expected, "{hours}");
        assert_eq!(store.collect(&user("bob"), KEY, later(hours)).unwrap(), expected, "{hours}");
    }
    assert!(!store.rests(&user("bob"), KEY, later(25)).unwrap(), "it is gone");
    assert!(matches!(cut.append(2, b"bb"), Err(StagingError::Gone { .. })));
    assert_eq!((store.used_by(&user("bob")), store.used_by(&alice)), (0, 4096));
    assert_eq!(store.begin(&user("bob"), KEY, spec("b", b"bbbb")).unwrap().offset(), 0);
}

#[test]
fn a_link_in_the_place_of_an_upload_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let store = store(&root);
    let secret = root.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let spec = spec("a", b"public");
    drop(store.begin(&user("alice"), KEY, spec.clone()).unwrap());
    let folder = root.path().join(format!("store/incoming/alice/{KEY}"));
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let part = entries.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "part")).unwrap();
    fs::remove_file(&part).unwrap();
    symlink(&secret, &part).unwrap();
    assert!(store.begin(&user("alice"), KEY, spec).is_err());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
}

#[test]
fn a_file_that_was_whole_but_not_yet_called_so_is_finished_without_sending_it_again() {
    let root = tempfile::tempdir().unwrap();
    let (alice, spec) = (user("alice"), spec("a", b"whole"));
    store(&root).begin(&alice, KEY, spec.clone()).unwrap().append(0, b"whole").unwrap();
    let again = store(&root);
    let upload = again.begin(&alice, KEY, spec.clone()).unwrap();
    assert_eq!((upload.offset(), upload.is_done()), (5, false));
    upload.finish().unwrap();
    again.complete(&alice, KEY, &[spec]).unwrap();
}

#[test]
fn what_was_being_thrown_away_is_thrown_away_at_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    upload(&store(&root), "alice", KEY, "a", b"a");
    fs::rename(path.join(format!("incoming/alice/{KEY}")), path.join(format!("trash/alice.{KEY}"))).unwrap();
    assert_eq!((store(&root).used_by(&user("alice")), files_under(&path)), (0, 0));
}

#[test]
fn a_script_lies_beside_the_working_folder_and_can_be_run() {
    let root = tempfile::tempdir().unwrap();
    let job = root.path().join("job");
    for text in ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho \"$1\"\n"] {
        put_script(&job, text.as_bytes()).unwrap();
    }
    store(&root).adopt(&user("alice"), KEY, &[], &job).unwrap();
    let output =
        std::process::Command::new("../script").arg("$(id); a").current_dir(job.join("work")).output();
    assert_eq!(String::from_utf8_lossy(&output.unwrap().stdout), "$(id); a\n");
    assert_eq!(
        fs::read_dir(&job).unwrap().count(),
        3,
        "the script, the working folder and the list of inputs"
    );
}

/// A folder of a job with a file of its own.
fn job(root: &TempDir) -> std::path::PathBuf {
    let job = root.path().join("job");
    fs::create_dir_all(job.join("work/out")).unwrap();
    fs::write(job.join("stdout"), "said").unwrap();
    fs::write(job.join("stderr"), "").unwrap();
    fs::write(job.join("work/out/result.csv"), "1,2\n").unwrap();
    job
}

fn listed(job: &Path, limits: ResultLimits) -> (Vec<String>, Vec<(String, LeftOutReason)>) {
    let found = results(job, limits).unwrap();
    assert_eq!(found.left_out.len(), found.left_out_count);
    let files = found.files.iter().map(|file| file.name.to_string()).collect();
    (files, found.left_out.into_iter().map(|left| (left.name, left.reason)).collect())
}

#[test]
fn results_are_what_is_new_or_changed() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), user("alice"));
    let files = ["kept", "changed", "grown"].map(|name| upload(&store, "alice", KEY, name, b"input"));
    store.adopt(&alice, KEY, &files, &root.path().join("job")).unwrap();
    let job = job(&root);
    fs::write(job.join("work/new"), "input").unwrap();
    fs::rename(job.join("work/new"), job.join("work/changed")).unwrap();
    fs::write(job.join("work/grown"), "input and more").unwrap();
    let expected = ["stdout", "stderr", "work/changed", "work/grown", "work/out/result.csv"];
    assert_eq!(listed(&job, WIDE), (expected.map(str::to_owned).to_vec(), vec![]));
    let read = |name: &str, offset| {
        let mut text = String::new();
        let mut reader = open_result(&job, &name.parse().unwrap(), offset)?;
        reader.read_to_string(&mut text).unwrap();
        Ok::<_, StagingError>((text, reader.size()))
    };
    assert_eq!(read("work/out/result.csv", 2).unwrap(), ("2\n".to_owned(), 4));
    assert_eq!(read("stdout", 4).unwrap(), (String::new(), 4));
    assert!(matches!(read("stdout", 5), Err(StagingError::BehindEnd { size: 4, offset: 5, .. })));
    for absent in ["work/none", "work/none/at/all"] {
        assert!(matches!(read(absent, 0), Err(StagingError::NoResult { .. })), "{absent}");
    }
    for folder in ["work/out", "work/changed/x"] {
        assert!(matches!(read(folder, 0), Err(StagingError::NotAFile { .. })), "{folder}");
    }
    for bad in ["inputs.json", "work", "work/", "work/../inputs.json", "/etc/passwd", "work//etc/passwd", ""]
    {
        assert!(bad.parse::<ResultName>().is_err(), "{bad}");
    }
}

#[test]
fn links_and_pipes_of_a_job_are_never_opened() {
    let root = tempfile::tempdir().unwrap();
    let job = job(&root);
    let work = job.join("work");
    fs::write(root.path().join("secret"), "secret").unwrap();
    symlink(root.path().join("secret"), work.join("result")).unwrap();
    symlink(root.path(), work.join("folder")).unwrap();
    symlink("result", work.join("to-a-link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, work.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(work.join("socket")).unwrap();
    fs::write(work.join("bad\nname"), "").unwrap();
    fs::write(work.join("$(id)"), "").unwrap();
    let (files, left_out) = listed(&job, WIDE);
    assert_eq!(files, ["stdout", "stderr", "work/out/result.csv"]);
    let expected = [("$(id)", LeftOutReason::Name), ("bad\\nname", LeftOutReason::Name)];
    let others =
        ["folder", "pipe", "result", "socket", "to-a-link"].map(|name| (name, LeftOutReason::NotAFile));
    let expected: Vec<_> =
        expected.into_iter().chain(others).map(|(name, why)| (name.to_owned(), why)).collect();
    assert_eq!(left_out, expected);
    // Not listed, and not given to who asks for it all the same; nor does a pipe without a writer hang.
    for name in ["work/result", "work/folder/secret", "work/to-a-link", "work/pipe", "work/socket"] {
        let error = open_result(&job, &name.parse().unwrap(), 0).unwrap_err();
        assert!(matches!(error, StagingError::NotAFile { .. }), "{name}: {error}");
    }
}

#[test]
fn a_job_may_not_put_links_or_pipes_in_the_place_of_its_folder_either() {
    let root = tempfile::tempdir().unwrap();
    let job = job(&root);
    fs::rename(job.join("work"), root.path().join("elsewhere")).unwrap();
    symlink(root.path().join("elsewhere"), job.join("work")).unwrap();
    fs::remove_file(job.join("stdout")).unwrap();
    symlink("/etc/passwd", job.join("stdout")).unwrap();
    for name in ["inputs.json", "results.json"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, job.join(name), rustix::fs::Mode::RWXU).unwrap();
    }
    assert_eq!(
        listed(&job, WIDE),
        (vec!["stderr".to_owned()], vec![("work".to_owned(), LeftOutReason::NotAFile)])
    );
    for name in [ResultName::Stdout, ResultName::File("out/result.csv".parse().unwrap())] {
        assert!(matches!(open_result(&job, &name, 0), Err(StagingError::NotAFile { .. })), "{name}");
    }
    assert!(sealed(&job).is_err());
    assert_eq!(seal(&job, WIDE).unwrap(), sealed(&job).unwrap().unwrap());
}

#[test]
fn results_are_bounded() {
    let root = tempfile::tempdir().unwrap();
    let job = job(&root);
    for index in 0..300 {
        fs::write(job.join(format!("work/f{index:03}")), "0123456789").unwrap();
    }
    let names = |limits| {
        let found = results(&job, limits).unwrap();
        let files: Vec<String> = found.files[2..].iter().map(|file| file.name.to_string()).collect();
        let reasons: Vec<_> = found.left_out.iter().map(|left| left.reason).collect();
        (files, found.left_out_count, reasons)
    };
    let (files, count, reasons) = names(ResultLimits { files: 2, bytes: 1 << 20 });
    assert_eq!((files, count), (vec!["work/f000".to_owned(), "work/f001".to_owned()], 299));
    assert_eq!(reasons, [LeftOutReason::Count; 100], "named up to a bound, counted beyond it");
    let (files, count, reasons) = names(ResultLimits { files: 1000, bytes: 25 });
    assert_eq!(files, ["work/f000", "work/f001", "work/out/result.csv"]);
    assert_eq!((count, reasons[0]), (298, LeftOutReason::Size));
    let deep = job.join("work").join(["d"; 20].join("/"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("x"), "").unwrap();
    let found = results(&job, WIDE).unwrap();
    assert_eq!((found.left_out_count, found.left_out[0].reason), (1, LeftOutReason::Depth));
}

#[test]
fn an_ended_jobs_results_keep_their_checksums() {
    let root = tempfile::tempdir().unwrap();
    let job = job(&root);
    assert_eq!(sealed(&job).unwrap(), None);
    let now = seal(&job, WIDE).unwrap();
    assert_eq!(sealed(&job).unwrap().as_ref(), Some(&now));
    let sums: Vec<_> = now.files.iter().map(|file| (file.name.to_string(), file.size, file.sha256)).collect();
    let expected = [("stdout", "said"), ("stderr", ""), ("work/out/result.csv", "1,2\n")];
    let sum =
        |(name, text): (&str, &str)| (name.to_owned(), text.len() as u64, Checksum::of(text.as_bytes()));
    assert_eq!(sums, expected.map(sum));
    fs::write(job.join("results.json"), "{").unwrap();
    assert!(matches!(sealed(&job), Err(StagingError::Damaged { .. })));
}

#[test]
fn a_download_goes_on_where_it_was_and_is_seen_when_it_is_whole() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("out");
    let spec = spec("sub/r.dat", b"0123456789");
    let begin = || Download::begin(&folder, spec.clone()).unwrap();
    begin().append(0, b"0123").unwrap();
    let mut download = begin();
    assert_eq!(download.offset(), 4);
    assert!(!folder.join("sub/r.dat").exists());
    download.append(4, b"456789").unwrap();
    download.finish().unwrap();
    assert_eq!(fs::read(folder.join("sub/r.dat")).unwrap(), b"0123456789");
    assert_eq!(files_under(&folder), 1, "nothing else is left");
    let mut wrong = begin();
    wrong.append(0, b"0123456780").unwrap();
    assert!(matches!(wrong.finish(), Err(StagingError::Checksum { .. })));
    assert_eq!(fs::read(folder.join("sub/r.dat")).unwrap(), b"0123456789", "the good one stays");
    symlink("/tmp", folder.join("link")).unwrap();
    assert!(Download::begin(&folder, FileSpec { name: "link/x".parse().unwrap(), ..spec.clone() }).is_err());
}

#[test]
fn names_are_checked_wherever_they_come_from() {
    for json in ["\"../x\"", "\"/x\"", "\"a\\nb\"", "\"\""] {
        assert!(serde_json::from_str::<FileName>(json).is_err(), "{json}");
    }
}

const SMALL_DISK: &str = "PLIANT_TEST_SMALL_DISK";

/// A real full disk: a small one in memory, seen by this test's own child process alone.
#[test]
fn a_full_disk_is_told_and_the_store_goes_on_when_there_is_space() {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        return fill(Path::new(&disk));
    }
    let root = tempfile::tempdir().unwrap();
    let this = "a_full_disk_is_told_and_the_store_goes_on_when_there_is_space";
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
    let alice = user("alice");
    let small = upload(&store, "alice", KEY, "small", b"small");
    let content = vec![1u8; 1 << 20];
    let large = spec("large", &content);
    let going = store.begin(&alice, KEY, large).unwrap();
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
    let refused = store.adopt(&alice, KEY, std::slice::from_ref(&small), &disk.join("job")).unwrap_err();
    assert!(matches!(refused, StagingError::DiskFull { .. }), "{refused}");
    let refused = store.begin(&alice, KEY, spec("other", b"other")).map(drop).unwrap_err();
    assert!(matches!(refused, StagingError::DiskFull { .. }), "{refused}");
    fs::remove_file(disk.join("filler")).unwrap();
    assert_eq!(going.append(offset, &content[offset as usize..][..10]).unwrap(), offset + 10);
    drop(going);
    store.adopt(&alice, KEY, &[small], &disk.join("job")).unwrap();
    assert_eq!(fs::read(disk.join("job/work/small")).unwrap(), b"small");
}
