//! What a job left, on its way to its owner.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use pliant_staging::{
    Checksum, Download, FileName, FileSpec, LeftOutReason, ResultLimits, ResultName, Results, SealedResults,
    StagingError, open_result, results, seal, sealed,
};
use tempfile::TempDir;

use crate::files::*;

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
    let (store, alice) = (store(&root), own("alice"));
    let files = ["kept", "changed", "grown"].map(|name| upload(&store, &own("alice"), name, b"input"));
    store.adopt(&alice, &files, &root.path().join("job")).unwrap();
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
    fs::write(work.join("\u{1b}[2J"), "").unwrap();
    fs::write(work.join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    let plain = ["$(id)", "(1).csv", "a b.txt", "it's.png", "résumé.pdf"];
    plain.iter().for_each(|name| fs::write(work.join(name), "").unwrap());
    let (files, left_out) = listed(&job, WIDE);
    let plain = plain.map(|name| format!("work/{name}"));
    let [a, b, c, d, e] = plain.each_ref().map(String::as_str);
    assert_eq!(files, ["stdout", "stderr", a, b, c, d, "work/out/result.csv", e]);
    let expected = ["\\u{1b}[2J", "bad\\nname", "\u{fffd}"].map(|name| (name, LeftOutReason::Name));
    let others =
        ["folder", "pipe", "result", "socket", "to-a-link"].map(|name| (name, LeftOutReason::NotAFile));
    let mut expected: Vec<_> =
        expected.into_iter().chain(others).map(|(name, why)| (name.to_owned(), why)).collect();
    let mut left_out = left_out;
    expected.sort_by(|(one, _), (other, _)| one.cmp(other));
    left_out.sort_by(|(one, _), (other, _)| one.cmp(other));
    assert_eq!(left_out, expected);
    // Not listed, and not given to who asks for it all the same; nor does a pipe without a writer hang.
    for name in ["work/result", "work/folder/secret", "work/to-a-link", "work/pipe", "work/socket"] {
        let error = open_result(&job, &name.parse().unwrap(), 0).unwrap_err();
        assert!(matches!(error, StagingError::NotAFile { .. }), "{name}: {error}");
    }
}

#[test]
fn a_job_may_not_replace_its_folder_by_links_or_pipes() {
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
    let (files, count, reasons) = names(ResultLimits { files: 1000, bytes: 29 });
    assert_eq!(files, ["work/f000", "work/f001", "work/out/result.csv"]);
    assert_eq!((count, reasons[0]), (298, LeftOutReason::Size));
    let deep = job.join("work").join(["d"; 20].join("/"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("x"), "").unwrap();
    let found = results(&job, WIDE).unwrap();
    assert_eq!((found.left_out_count, found.left_out[0].reason), (1, LeftOutReason::Depth));
}

#[test]
fn holes_count_in_every_file_before_it_is_read() {
    let root = tempfile::tempdir().unwrap();
    let job = job(&root);
    // It would take days to read one of them.
    for name in ["stdout", "work/hole", "work/out/hole"] {
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(job.join(name))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
    }
    let left = |name: &str| (name.to_owned(), LeftOutReason::Size);
    let files = ["stderr", "work/out/result.csv"].map(str::to_owned).to_vec();
    let expected = (files, vec![left("stdout"), left("hole"), left("out/hole")]);
    assert_eq!(listed(&job, WIDE), expected);
    assert_eq!(seal(&job, WIDE).unwrap().left_out_count, 3);
}

#[test]
fn names_of_results_are_bounded() {
    let root = tempfile::tempdir().unwrap();
    let job = job(&root);
    let folder = ["d".repeat(250), "d".repeat(250), "d".repeat(250)].join("/");
    fs::create_dir_all(job.join("work").join(&folder)).unwrap();
    let long = folder.len() + 1 + 200;
    for index in 0..1200 {
        fs::write(job.join(format!("work/{folder}/{index:0200}")), "").unwrap();
    }
    let limits = ResultLimits { files: 10_000, bytes: 1 << 30 };
    let found = seal(&job, limits).unwrap();
    let named = Results::NAME_BYTES_MAX / long;
    // The short name that comes behind them fits, and both outputs.
    assert_eq!((found.files.len(), found.left_out_count), (named + 3, 1200 - named));
    assert_eq!(found.left_out[0].reason, LeftOutReason::Names);
    assert!(found.is_within(limits) && sealed(&job).unwrap().as_ref() == Some(&found));
    assert!(fs::metadata(job.join("results.json")).unwrap().len() < 4 << 20);
    // What an account answers may have more.
    let mut more = found.clone();
    more.files.push(found.files[2].clone());
    assert!(!more.is_within(limits));
    let shown = found.left_out[0].clone();
    let more = SealedResults { left_out: vec![shown; 101], left_out_count: 101, ..SealedResults::default() };
    assert!(!more.is_within(limits));
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
