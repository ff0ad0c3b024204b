//! Files on their way to a job.

use std::fs;
use std::os::unix::fs::symlink;

use pliant_staging::{Checksum, FileSpec, Limits, QuotaKind, StagingError, Store, put_script};

use crate::files::*;

#[test]
fn an_upload_cut_in_the_middle_goes_on_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let alice = own("alice");
    let (content, spec) = (b"0123456789", spec("in/a.dat", b"0123456789"));
    let first = store(&root).begin(&alice, spec.clone()).unwrap();
    assert_eq!((first.offset(), first.append(0, &content[..4]).unwrap()), (0, 4));
    drop(first);
    // Another process: only the file shows how much was written.
    let again = store(&root);
    let upload = again.begin(&alice, spec.clone()).unwrap();
    assert_eq!(upload.offset(), 4);
    assert!(matches!(upload.finish(), Err(StagingError::TooLittle { announced: 10, found: 4, .. })));
    assert!(matches!(upload.append(0, content), Err(StagingError::Offset { expected: 4, found: 0, .. })));
    // A second connection of the same client continues the same file.
    let parallel = again.begin(&alice, spec.clone()).unwrap();
    assert_eq!((parallel.offset(), parallel.append(4, &content[4..6]).unwrap()), (4, 6));
    assert!(matches!(upload.append(4, &content[4..]), Err(StagingError::Offset { expected: 6, .. })));
    assert_eq!(upload.append(6, &content[6..]).unwrap(), 10);
    assert!(matches!(again.complete(&alice, std::slice::from_ref(&spec)), Err(StagingError::Missing { .. })));
    upload.finish().unwrap();
    parallel.finish().unwrap();
    let done = store(&root).begin(&alice, spec.clone()).unwrap();
    assert!(done.is_done() && done.offset() == 10);
    again.complete(&alice, &[spec]).unwrap();
}

#[test]
fn bytes_other_than_announced_are_deleted() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), own("alice"));
    let announced = spec("a", b"right");
    let upload = store.begin(&alice, announced.clone()).unwrap();
    upload.append(0, b"wrong").unwrap();
    let error = upload.finish().unwrap_err();
    assert!(
        matches!(&error, StagingError::Checksum { found, .. } if *found == Checksum::of(b"wrong")),
        "{error}"
    );
    assert_eq!(store.begin(&alice, announced.clone()).unwrap().offset(), 0);
    upload.append(0, b"right").unwrap();
    upload.finish().unwrap();
    store.complete(&alice, &[announced]).unwrap();
}

#[test]
fn more_than_was_announced_is_not_kept() {
    let root = tempfile::tempdir().unwrap();
    let store = store(&root);
    let upload = store.begin(&own("alice"), spec("a", b"1234")).unwrap();
    upload.append(0, b"12").unwrap();
    assert!(matches!(upload.append(2, b"345"), Err(StagingError::TooMuch { announced: 4, found: 5, .. })));
    assert_eq!(upload.append(2, b"34").unwrap(), 4);
    upload.finish().unwrap();
}

#[test]
fn another_announcement_begins_anew() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), own("alice"));
    let old = upload(&store, &own("alice"), "a", b"old");
    let stale = store.begin(&alice, spec("b", b"stale")).unwrap();
    stale.append(0, b"st").unwrap();
    assert_eq!(store.begin(&alice, spec("b", b"newer!")).unwrap().offset(), 0);
    assert!(matches!(stale.append(2, b"ale"), Err(StagingError::Gone { .. })));
    assert!(matches!(stale.finish(), Err(StagingError::Gone { .. })));
    let new = upload(&store, &own("alice"), "a", b"new");
    assert!(matches!(store.complete(&alice, &[old]), Err(StagingError::Missing { .. })));
    store.complete(&alice, &[new]).unwrap();
}

#[test]
fn a_submission_names_what_is_missing_and_what_clashes() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice) = (store(&root), own("alice"));
    let a = upload(&store, &own("alice"), "a", b"a");
    let missing = |files: &[FileSpec]| match store.complete(&alice, files) {
        Err(StagingError::Missing { name }) => name.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(&[a.clone(), spec("b", b"b")]), "b");
    assert_eq!(missing(&[spec("a", b"else")]), "a");
    assert_eq!(missing(&[FileSpec { size: 2, ..a.clone() }]), "a", "another size");
    let bob = store.complete(&own("bob"), std::slice::from_ref(&a));
    assert!(matches!(bob, Err(StagingError::Missing { .. })), "another user's files, by the same key");
    for other in ["a", "a/b", "a/b/c"] {
        let clash = store.complete(&alice, &[a.clone(), spec(other, b"")]);
        assert!(matches!(clash, Err(StagingError::Clash { .. })), "{other}");
    }
    store.complete(&own("carol"), &[]).unwrap();
}

#[test]
fn a_job_gets_its_files_once_and_the_store_forgets_them() {
    let root = tempfile::tempdir().unwrap();
    let (store, alice, job) = (store(&root), own("alice"), root.path().join("job"));
    let files = [upload(&store, &own("alice"), "a", b"a"), upload(&store, &own("alice"), "in/b", b"b")];
    upload(&store, &own("alice"), "not-submitted", b"x");
    let late = store.begin(&alice, spec("late", b"late")).unwrap();
    store.adopt(&alice, &files, &job).unwrap();
    let read = |name: &str| fs::read_to_string(job.join("work").join(name)).ok();
    assert_eq!((read("a"), read("in/b"), read("not-submitted")), (Some("a".into()), Some("b".into()), None));
    assert!(matches!(late.append(0, b"late"), Err(StagingError::Gone { .. })));
    assert_eq!((store.used_by(&alice), files_under(&root.path().join("store"))), (0, 0));
    store.adopt(&alice, &files, &job).unwrap();
    // A crash may bring the uploads back, after the job has begun to change its inputs.
    upload(&store, &own("alice"), "a", b"a");
    fs::write(job.join("work/a"), "changed").unwrap();
    drop(store);
    let store = Store::open(&root.path().join("store"), Limits::default()).unwrap();
    store.adopt(&alice, &files, &job).unwrap();
    assert_eq!((read("a"), files_under(&root.path().join("store"))), (Some("changed".into()), 0));
}

#[test]
fn a_job_without_inputs_gets_an_empty_folder() {
    let root = tempfile::tempdir().unwrap();
    store(&root).adopt(&own("alice"), &[], &root.path().join("job")).unwrap();
    assert!(root.path().join("job/work").is_dir());
}

#[test]
fn a_link_that_replaces_an_upload_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let store = store(&root);
    let secret = root.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let spec = spec("a", b"public");
    drop(store.begin(&own("alice"), spec.clone()).unwrap());
    let folder = root.path().join(format!("store/incoming/alice/{KEY}"));
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let part = entries.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "part")).unwrap();
    fs::remove_file(&part).unwrap();
    symlink(&secret, &part).unwrap();
    assert!(store.begin(&own("alice"), spec).is_err());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
}

#[test]
fn a_complete_file_that_was_not_renamed_is_finished_without_another_upload() {
    let root = tempfile::tempdir().unwrap();
    let (alice, spec) = (own("alice"), spec("a", b"whole"));
    store(&root).begin(&alice, spec.clone()).unwrap().append(0, b"whole").unwrap();
    let again = store(&root);
    let upload = again.begin(&alice, spec.clone()).unwrap();
    assert_eq!((upload.offset(), upload.is_done()), (5, false));
    upload.finish().unwrap();
    again.complete(&alice, &[spec]).unwrap();
}

#[test]
fn a_script_lies_beside_the_working_folder_and_can_be_run() {
    let root = tempfile::tempdir().unwrap();
    let job = root.path().join("job");
    for text in ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho \"$1\"\n"] {
        put_script(&job, text.as_bytes()).unwrap();
    }
    store(&root).adopt(&own("alice"), &[], &job).unwrap();
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
    let limits = Limits { per_user: 256 * KIB, total: 1024 * KIB, ..Limits::default() };
    let open = || Store::open(&root.path().join("store"), limits).unwrap();
    let mut store = open();
    let whole = vec![1; 256 * KIB as usize];
    for restarted in [false, true] {
        if restarted {
            store = open();
        } else {
            for number in 0..10 {
                let idle = own(&format!("idle-{number}"));
                assert_eq!(store.begin(&idle, spec("a", &whole)).unwrap().offset(), 0);
                let more = store.begin(&idle, spec("b", b"b")).unwrap_err();
                assert!(matches!(more, StagingError::Quota { kind: QuotaKind::PerUser, .. }), "{more}");
            }
        }
        let sender = if restarted { "later" } else { "sender" };
        upload(&store, &own(sender), "a", &whole);
    }
    // Of the last 352 KiB: one whole file, and the first half of another.
    upload(&store, &own("one"), "a", &whole);
    let last = store.begin(&own("two"), spec("a", &whole)).unwrap();
    let half = whole.len() / 4;
    assert_eq!(last.append(0, &whole[..half]).unwrap(), half as u64);
    let full = last.append(half as u64, &whole[half..]).unwrap_err();
    assert!(matches!(full, StagingError::Quota { kind: QuotaKind::Total, .. }), "{full}");
    // It goes on from where it was, when there is space.
    store.abandon(&own("one")).unwrap();
    assert_eq!(last.append(half as u64, &whole[half..]).unwrap(), whole.len() as u64);
    last.finish().unwrap();
}

/// All have the same key and the same announcement: what each of two users would have to know to take another's place.
#[test]
fn what_a_server_sends_spoils_no_upload_of_a_user_or_of_another_server() {
    let root = tempfile::tempdir().unwrap();
    let (alice, honest, hostile) = (own("alice"), by_server("alice", "lyon"), by_server("alice", "nancy"));
    let (wanted, job) = (spec("a", b"right"), root.path().join("job"));
    let mut store = store(&root);
    let [wrong, own, other] = [&hostile, &alice, &honest].map(|of| store.begin(of, wanted.clone()).unwrap());
    for (upload, piece) in [(&wrong, b"wro"), (&own, b"rig"), (&other, b"rig")] {
        assert_eq!((upload.offset(), upload.append(0, piece).unwrap()), (0, 3));
    }
    wrong.append(3, b"ng").unwrap();
    assert!(matches!(wrong.finish(), Err(StagingError::Checksum { .. })));
    wrong.append(0, b"wro").unwrap();
    let replaced = store.begin(&hostile, spec("a", b"of another size")).unwrap();
    assert!(matches!(wrong.append(3, b"ng"), Err(StagingError::Gone { .. })));
    drop((wrong, replaced, own, other));
    // What has come goes on after a restart.
    store = Store::open(&root.path().join("store"), Limits::default()).unwrap();
    assert_eq!(store.upload_sets(), [alice.clone(), honest.clone(), hostile.clone()]);
    for of in [&alice, &honest] {
        assert!(matches!(
            store.complete(of, std::slice::from_ref(&wanted)),
            Err(StagingError::Missing { .. })
        ));
        let upload = store.begin(of, wanted.clone()).unwrap();
        assert_eq!((upload.offset(), upload.append(3, b"ht").unwrap()), (3, 5));
        upload.finish().unwrap();
        store.complete(of, std::slice::from_ref(&wanted)).unwrap();
    }
    assert!(matches!(store.open_done(&hostile, &wanted), Err(StagingError::Missing { .. })));
    // The job came from the honest server. Nothing of it stays.
    store.adopt(&honest, &[wanted], &job).unwrap();
    assert_eq!(fs::read(job.join("work/a")).unwrap(), b"right");
    assert_eq!((store.upload_sets(), files_under(&root.path().join("store"))), (Vec::new(), 0));
    assert!([alice, honest, hostile].iter().all(|of| store.used_by(of) == 0));
}

#[test]
fn what_servers_send_takes_no_space_from_users() {
    const KIB: u64 = 1 << 10;
    let root = tempfile::tempdir().unwrap();
    let limits = Limits { per_job: 256 * KIB, per_user: 256 * KIB, total: 1024 * KIB, ..Limits::default() };
    let open = || Store::open(&root.path().join("store"), limits).unwrap();
    let (first, whole) = (open(), vec![1; 256 * KIB as usize]);
    for server in ["lyon", "nancy"] {
        upload(&first, &by_server("alice", server), "a", &whole);
        let more = first.begin(&by_server("alice", server), spec("b", b"b")).unwrap_err();
        assert!(matches!(more, StagingError::Quota { kind: QuotaKind::PerJob, .. }), "{more}");
    }
    drop(first);
    // Each restart counts the same.
    let store = open();
    let more = store.begin(&by_server("bob", "nice"), spec("b", b"b")).unwrap_err();
    assert!(matches!(more, StagingError::Quota { kind: QuotaKind::FromServers, .. }), "{more}");
    upload(&store, &own("alice"), "a", &whole);
    upload(&store, &own("bob"), "a", &whole);
    // What is given up counts no more.
    store.abandon(&by_server("alice", "nancy")).unwrap();
    store.abandon(&own("bob")).unwrap();
    upload(&store, &by_server("bob", "nice"), "b", b"b");
}

/// Of a server that is started over a folder of another version.
#[test]
fn folders_that_are_not_of_the_store_are_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let incoming = root.path().join("store/incoming");
    for name in [
        "alice/old/more",
        "-/x",
        &format!("alice/{KEY}_"),
        &format!("alice/{KEY}.lyon"),
        &format!("bob/{KEY}/x"),
    ] {
        fs::create_dir_all(incoming.join(name)).unwrap();
    }
    fs::write(incoming.join("alice/file"), "x").unwrap();
    fs::remove_dir(incoming.join(format!("bob/{KEY}/x"))).unwrap();
    let store = store(&root);
    assert_eq!(store.upload_sets(), [own("bob")]);
    upload(&store, &own("alice"), "a", b"a");
    assert!(incoming.join("alice/old/more").exists() && incoming.join("alice/file").exists());
}
