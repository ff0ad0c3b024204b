//! Files on their way to a job.

use std::fs;
use std::os::unix::fs::symlink;

use pliant_staging::{Checksum, FileSpec, Limits, QuotaKind, StagingError, Store, put_script};

use crate::files::*;

#[test]
fn an_upload_cut_in_the_middle_goes_on_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let alice = user("alice");
    let (content, spec) = (b"0123456789", spec("in/a.dat", b"0123456789"));
    let first = store(&root).begin(&alice, KEY, spec.clone()).unwrap();
    assert_eq!((first.offset(), first.append(0, &content[..4]).unwrap()), (0, 4));
    drop(first);
    // Another process: only the file shows how much was written.
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
fn bytes_other_than_announced_are_deleted() {
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
fn a_link_that_replaces_an_upload_is_not_followed() {
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
fn a_complete_file_that_was_not_renamed_is_finished_without_another_upload() {
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

#[test]
fn users_who_send_nothing_take_no_space_from_others() {
    const KIB: u64 = 1 << 10;
    let root = tempfile::tempdir().unwrap();
    let limits = Limits { per_user: 64 * KIB, total: 256 * KIB, ..Limits::default() };
    let open = || Store::open(&root.path().join("store"), limits).unwrap();
    let mut store = open();
    let whole = vec![1; 64 * KIB as usize];
    for restarted in [false, true] {
        if restarted {
            store = open();
        } else {
            for number in 0..10 {
                let idle = user(&format!("idle-{number}"));
                assert_eq!(store.begin(&idle, KEY, spec("a", &whole)).unwrap().offset(), 0);
                let more = store.begin(&idle, KEY, spec("b", b"b")).unwrap_err();
                assert!(matches!(more, StagingError::Quota { kind: QuotaKind::PerUser, .. }), "{more}");
            }
        }
        let sender = user(if restarted { "later" } else { "sender" });
        upload(&store, sender.as_str(), KEY, "a", &whole);
    }
    // Of the last 88 KiB: one whole file, and the first half of another.
    upload(&store, "one", KEY, "a", &whole);
    let last = store.begin(&user("two"), KEY, spec("a", &whole)).unwrap();
    let half = whole.len() / 4;
    assert_eq!(last.append(0, &whole[..half]).unwrap(), half as u64);
    let full = last.append(half as u64, &whole[half..]).unwrap_err();
    assert!(matches!(full, StagingError::Quota { kind: QuotaKind::Total, .. }), "{full}");
    // It goes on from where it was, when there is space.
    store.abandon(&user("one"), KEY).unwrap();
    assert_eq!(last.append(half as u64, &whole[half..]).unwrap(), whole.len() as u64);
    last.finish().unwrap();
}

#[test]
fn what_a_user_announced_is_not_replaced_by_others() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), user("alice"));
    let own = store.begin(&alice, KEY, spec("a", b"hers")).unwrap();
    assert_eq!(own.append(0, b"he").unwrap(), 2);
    let other = store.begin_new(&alice, KEY, spec("a", b"another's")).unwrap_err();
    assert!(matches!(other, StagingError::Announced { .. }), "{other}");
    assert_eq!(store.begin_new(&alice, KEY, spec("a", b"hers")).unwrap().offset(), 2, "the same goes on");
    assert!(store.begin_new(&alice, KEY, spec("b", b"more")).is_ok());
    assert_eq!(own.append(2, b"rs").unwrap(), 4);
    own.finish().unwrap();
    // The user's own announcement replaces that of a server.
    assert_eq!(store.begin(&alice, KEY, spec("b", b"hers, too")).unwrap().offset(), 0);
}
