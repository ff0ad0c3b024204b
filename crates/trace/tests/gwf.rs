//! GWF: names instead of numbers, slightly negative waits, 29 or 30 fields.

mod support;

use std::path::Path;

use pliant_trace::{RepairOptions, gwf};
use support::{CLEAN, KEEP_BAD, STRICT, gzip, read, shown};

const REST: &str = "UNITARY -1 -1 -1 -1 -1 -1 -1 -1 -1 -1";

/// A job line of 29 fields.
fn line(id: &str, submit: i64, wait: &str, run: &str, user: &str, sites: &str) -> String {
    format!("{id} {submit} {wait} {run} 2 -1 -1 2 20 -1 1 {user} G1 X1 Q1 P1 {sites} {REST}\n")
}

fn check(repair: RepairOptions, text: &str, expected: &str) {
    assert_eq!(shown(&read("log.gwf", text.as_bytes(), repair)), expected, "for {text:?}");
}

#[test]
fn names_are_numbered_in_order_of_appearance() {
    let text = [
        line("j7", 100, "0", "10", "zoe", "lyon lyon"),
        line("8", 105, "0", "10.4", "adam", "lyon nancy"),
        line("9", 107, "0", "10", "zoe", "lyon -1"),
        line("10", 108, "0", "10", "-1", "-1 -1"),
    ]
    .concat();
    check(STRICT, &text, "1@0 2 20/10\n8@5 2 20/10\n9@7 2 20/10\n10@8 2 20/10\n4 jobs read, 4 kept");
    let workload = read("log.gwf", text.as_bytes(), CLEAN).unwrap();
    assert_eq!(workload.jobs.iter().map(|job| job.user).collect::<Vec<_>>(), [1, 2, 1, -1]);
    assert_eq!(
        workload.partitions,
        [1, 2, 1, 3],
        "where it ran, else where it came from, else its partition"
    );
    let names: Vec<_> = workload.partition_names.iter().map(|(id, name)| (*id, name.as_str())).collect();
    assert_eq!(names, [(1, "lyon"), (2, "nancy"), (3, "P1")]);
}

#[test]
fn waits_may_be_negative_and_fields_may_be_29_or_30() {
    let plain = line("1", 0, "5", "10", "U1", "S1 S1");
    let wide = plain.replace('\n', " -1\n");
    let wider = plain.replace('\n', " -1 -1\n");
    let expected = "1@0 2 20/10\n1 job read, 1 kept";
    check(STRICT, &plain, expected);
    check(STRICT, &wide, expected);
    check(STRICT, &wider, &format!("{expected}; 1 line with extra columns"));
    let text = line("1", 0, "-3.5", "10", "U1", "S1 S1");
    let wait =
        |text: &str| gwf::Reader::new(Path::new("log.gwf"), text.as_bytes()).next().unwrap().unwrap().wait;
    assert_eq!((wait(&plain), wait(&text)), (5, 0));
}

#[test]
fn comments_are_a_header() {
    let job = line("1", 50, "0", "10", "U1", "S1 S1");
    for header in [
        "# Version: 1.0\n# UnixStartTime: 1000\n# MaxProcs: 64 (in 4 sites)\n",
        "#unixstarttime:1000 (1970)\r\n\r\n  ## no key\n #MAXPROCS: 64\n",
    ] {
        let workload = read("log.gwf", (header.to_owned() + &job).as_bytes(), STRICT);
        let workload = workload.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((workload.unix_start, workload.max_procs), (Some(1_050), Some(64)), "for {header:?}");
    }
}

#[test]
fn repairs_are_those_of_swf() {
    check(CLEAN, &line("1", 0, "0", "0", "U1", "S1 S1"), "1 job read, 0 kept; 1 dropped: did not run");
    check(
        KEEP_BAD,
        &line("1", 0, "0", "0", "U1", "S1 S1"),
        "1@0 2 20/1\n1 job read, 1 kept; 1 runtime 0 raised to 1 s",
    );
    let text = line("1", 0, "0", "10", "U1", "S1 S1");
    assert_eq!(shown(&read("a.gwf.gz", &gzip(text.as_bytes()), STRICT)), "1@0 2 20/10\n1 job read, 1 kept");
}

#[test]
fn errors_say_file_line_and_column() {
    let hint = "see docs/reference/files/formats.md for the fields of each format";
    let bad = |text: &str, expected: &str| check(CLEAN, text, &format!("{expected}\n{hint}"));
    bad(
        "# a\n1 0 0 ten 2 -1 -1 2 20 -1 1 U G X Q P S S\n",
        "log.gwf:2:7: expected a number (RunTime), found `ten`",
    );
    bad(
        "1 0 0 10 2\n",
        "log.gwf:1:11: expected 29 fields, the next one AverageCPUTimeUsed, found the end of the line",
    );
    bad(
        "; MaxProcs: 4\n",
        "log.gwf:1:14: expected 29 fields, the next one RunTime, found the end of the line",
    );
    let long = line("1", 0, "0", "10", &"u".repeat(70_000), "S1 S1");
    bad(&long, "log.gwf:1:65537: expected at most 65536 bytes in a line, found a longer one");
}

#[test]
fn names_are_kept_up_to_a_bound() {
    let text: String = (0..40)
        .map(|id| line(&id.to_string(), id, "0", "1", "U", &format!("{} -1", "s".repeat(60_000))))
        .collect();
    let workload = read("log.gwf", text.as_bytes(), CLEAN).unwrap();
    assert_eq!(workload.partition_names[&1].len(), 256);
    assert_eq!(workload.partition_names.len(), 1);
}
