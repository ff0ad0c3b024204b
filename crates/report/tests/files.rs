//! Result folders: what is written is what is read, in every format.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::fs;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use pliant_model::{ClusterId, Procs, RefusalCause, Run};
use pliant_report::{FileFormat, prepare_folder, read_folder, summarize, write_folder, write_formats};
use support::{drawn_run, grid5000, job, platform, run_of};

fn drawn() -> Run {
    let mut run = drawn_run(grid5000(), 500, 1, 2);
    let (requested, available) = (Procs(900), Procs(640));
    run.refused.push((7001, RefusalCause::LargerThanAll { requested, available }));
    let cluster = ClusterId(1);
    run.refused.push((7002, RefusalCause::LargerThanCluster { cluster, requested, available }));
    run.refused.push((7003, RefusalCause::NoOrigin));
    run
}

fn written(run: &Run) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_folder(folder.path(), run, &summarize(run)).unwrap();
    folder
}

#[test]
fn a_folder_read_back_is_the_run() {
    let run = drawn();
    let mut summary = summarize(&run);
    summary.run.insert("seed".into(), 42.into());
    summary.run.insert("policies".into(), serde_json::json!({"mapping": "mct"}));
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("deep/er");
    write_folder(&dir, &run, &summary).unwrap();
    let found = read_folder(&dir).unwrap();
    assert_eq!(found.run, run);
    assert_eq!(found.summary, summary);
}

#[test]
fn empty_and_refused_runs_are_read_back() {
    let mut run = run_of(grid5000(), Vec::new());
    assert_eq!(read_folder(written(&run).path()).unwrap().run, run);
    run.refused = drawn().refused;
    assert_eq!(read_folder(written(&run).path()).unwrap().run, run);
}

#[test]
fn odd_cluster_names_are_read_back() {
    let odd = platform(&[("a b's: #1", 4, 1.0), ("</script>\u{e9}", 4, 0.5)]);
    let mut run = run_of(odd, vec![job(1, 0, 1, 2, 3), job(2, 0, 1, 2, 3)]);
    run.jobs[1].cluster = ClusterId(1);
    let folder = written(&run);
    assert_eq!(read_folder(folder.path()).unwrap().run, run);
    let swf = fs::read_to_string(folder.path().join("schedule.swf")).unwrap();
    assert_eq!(swf.lines().filter(|line| !line.starts_with(';')).count(), 2, "{swf}");
}

#[test]
fn jobs_csv_has_the_promised_columns() {
    let run = run_of(platform(&[("a", 4, 1.0)]), vec![job(9, 0, 5, 17, 3)]);
    let text = fs::read_to_string(written(&run).path().join("jobs.csv")).unwrap();
    assert_eq!(
        text,
        "job,cluster,submit,start,end,procs,walltime,moves,managed,reason\n9,a,0,5,17,3,12,0,true,mct\n"
    );
}

#[test]
fn the_schedule_is_swf() {
    let run = run_of(platform(&[("a", 4, 1.0)]), vec![job(9, 2, 5, 17, 3)]);
    let text = fs::read_to_string(written(&run).path().join("schedule.swf")).unwrap();
    assert!(text.contains("; Version: 2.2\n"), "{text}");
    assert!(text.contains("; Partition: 1 a, 4 processors"), "{text}");
    assert_eq!(text.lines().last(), Some("9 2 3 12 3 -1 -1 3 12 -1 1 -1 -1 -1 -1 1 -1 -1"));
}

#[test]
fn parquet_holds_the_same_rows() {
    let run = drawn();
    let folder = written(&run);
    let file = fs::File::open(folder.path().join("jobs.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), run.jobs.len());
    for (row, job) in rows.iter().zip(&run.jobs) {
        assert_eq!(row.get_ulong(0).unwrap(), job.log_id);
        assert_eq!(row.get_string(1).unwrap(), &run.platform.cluster(job.cluster).name);
        let times = [2, 3, 4, 6].map(|column| row.get_long(column).unwrap());
        assert_eq!(times, [job.submit.0, job.start.0, job.end.0, job.walltime.0]);
        assert_eq!((row.get_uint(5).unwrap(), row.get_uint(7).unwrap()), (job.procs.0, job.moves));
        assert_eq!(row.get_bool(8).unwrap(), job.managed);
        assert_eq!(row.get_string(9).unwrap(), job.reason.word());
    }
}

#[test]
fn no_temporary_file_is_left() {
    let folder = written(&drawn());
    let expected = ["jobs.csv", "jobs.parquet", "moves.csv", "refused.csv", "schedule.swf", "summary.json"];
    assert_eq!(names(folder.path()), expected);
}

/// Replaces `from` by `to` in a file of a good folder and returns the error of reading it.
fn error_after(file: &str, from: &str, to: &str) -> String {
    let folder = written(&run_of(platform(&[("a", 4, 1.0)]), vec![job(9, 0, 5, 17, 3)]));
    let path = folder.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replacen(from, to, 1)).unwrap();
    let message = read_folder(folder.path()).unwrap_err().to_string();
    message.replace(&folder.path().display().to_string(), "DIR")
}

#[test]
fn errors_say_where() {
    let check = |file, from, to, expected: &str| {
        let found = error_after(file, from, to);
        assert!(found.starts_with(expected), "expected {expected}\nfound    {found}");
    };
    check(
        "jobs.csv",
        ",5,17",
        ",x,17",
        "DIR/jobs.csv:2: column `start`: expected a whole number in range, found `x`",
    );
    check("jobs.csv", "9,a,", "9,b,", "DIR/jobs.csv:2: column `cluster`: expected the name of a cluster");
    check(
        "jobs.csv",
        ",5,17",
        ",18,17",
        "DIR/jobs.csv:2: expected submit <= start <= end, found 0 <= 18 <= 17",
    );
    check("jobs.csv", "true", "yes", "DIR/jobs.csv:2: column `managed`: expected true or false, found `yes`");
    check("jobs.csv", ",mct", "", "DIR/jobs.csv:2: expected 10 columns, found 9");
    check("jobs.csv", "job,", "id,", "DIR/jobs.csv:1: expected the columns `job,cluster");
    check("jobs.csv", ",17,", ",9223372036854775807,", "DIR/jobs.csv:2: column `end`: expected seconds");
    check("summary.json", "pliant.summary/1", "pliant.summary/9", "DIR/summary.json: key `schema`: expected");
    check(
        "summary.json",
        "\"procs\": 4",
        "\"procs\": 0",
        "DIR/summary.json: key `clusters`: expected cluster `a`",
    );
    check(
        "summary.json",
        "\"speed\": 1.0",
        "\"speed\": -1.0",
        "DIR/summary.json: key `clusters`: cluster `a`: expected a speed",
    );
    check("summary.json", "\"a\"", "\"a,b\"", "DIR/summary.json: key `clusters`: expected a name");
    check("summary.json", "\"jobs\"", "\"yobs\"", "DIR/summary.json:");
    check("summary.json", "\"run\": {}", "", "DIR/summary.json:");
    check(
        "summary.json",
        "\"refused\": 0",
        "\"refused\": \"x\"",
        "DIR/summary.json:4:16: expected the summary of a run, found string \"x\"",
    );
}

/// Readers meet the words of the files only, and what to do.
#[test]
fn errors_have_hints_and_no_jargon() {
    let run = run_of(platform(&[("a", 4, 1.0)]), vec![job(9, 0, 5, 17, 3)]);
    for (file, bytes) in [
        ("jobs.csv", &b"job\n"[..]),
        ("jobs.csv", b"job,cluster,submit,start,end,procs,walltime,moves,managed,reason\n9,\xff,0,5,17,3,12,0,true,mct\n"),
        ("jobs.csv", b"job,cluster,submit,start,end,procs,walltime,moves,managed,reason\n9\n"),
        ("summary.json", b""),
        ("summary.json", b"{\"schema\": \"pliant.summary/1\", \"jobs\": -1}"),
        ("summary.json", b"{\"schema\": \"pliant.summary/1\"}"),
        ("summary.json", b"[1, 2"),
        ("summary.json", b"job,cluster\n"),
    ] {
        let folder = written(&run);
        fs::write(folder.path().join(file), bytes).unwrap();
        let error = read_folder(folder.path()).unwrap_err();
        // The folder's name is drawn, and may have anything in it.
        let text = error.to_string().replace(&folder.path().display().to_string(), "");
        assert!(error.hint().is_some() && text.contains(&format!("{file}:")), "{text}");
        for jargon in ["CSV error", "record", "field", "invalid type", "EOF", "u64"] {
            assert!(!text.contains(jargon), "{text}");
        }
    }
    let folder = written(&run);
    fs::remove_file(folder.path().join("jobs.csv")).unwrap();
    let error = read_folder(folder.path()).unwrap_err();
    assert!(error.to_string().contains("jobs.csv: cannot read this file"), "{error}");
    assert!(error.hint().unwrap().contains("--files"), "{error}");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn only_the_wanted_formats_are_written() {
    let run = drawn();
    let folder = tempfile::tempdir().unwrap();
    for (formats, expected) in [
        (&[FileFormat::Json][..], &["summary.json"][..]),
        (&[FileFormat::Csv, FileFormat::Json], &["jobs.csv", "moves.csv", "refused.csv", "summary.json"]),
        (&[FileFormat::Swf, FileFormat::Parquet], &["jobs.parquet", "schedule.swf"]),
    ] {
        write_formats(folder.path(), &run, &summarize(&run), formats).unwrap();
        assert_eq!(names(folder.path()), expected);
        let complete = formats.contains(&FileFormat::Csv) && formats.contains(&FileFormat::Json);
        assert_eq!(read_folder(folder.path()).is_ok_and(|read| read.run == run), complete);
    }
    for format in FileFormat::ALL {
        assert_eq!(FileFormat::from_name(format.name()), Some(*format));
    }
    assert_eq!(FileFormat::from_name("xml"), None);
}

#[test]
fn files_of_an_earlier_run_are_removed() {
    let folder = written(&drawn());
    for (name, is_removed) in
        [("report.html", true), ("jobs.parquet.partial", true), ("notes.txt", false), ("my-jobs.csv", false)]
    {
        fs::write(folder.path().join(name), "old").unwrap();
        prepare_folder(folder.path()).unwrap();
        assert_eq!(folder.path().join(name).exists(), !is_removed, "{name}");
    }
    assert_eq!(names(folder.path()), ["my-jobs.csv", "notes.txt"]);
}

#[test]
fn an_unwritable_path_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let check = |dir: &str, expected: &str| {
        let error = prepare_folder(&folder.path().join(dir)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.hint().is_some(), "{error}");
    };
    check("file", "file: cannot create this folder");
    check("file/under", "file/under: cannot create this folder");
    fs::create_dir_all(folder.path().join("dir/jobs.csv")).unwrap();
    check("dir", "dir/jobs.csv: cannot replace this file");
}

#[test]
fn a_missing_folder_is_reported() {
    let found = read_folder(Path::new("no/such/folder")).unwrap_err().to_string();
    assert!(found.starts_with("no/such/folder/summary.json: cannot read this file"), "{found}");
    let hint = read_folder(Path::new("no/such/folder")).unwrap_err().hint().unwrap();
    assert!(hint.contains("result folder"), "{hint}");
}
