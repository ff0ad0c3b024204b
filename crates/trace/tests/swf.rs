//! SWF as it is found: every oddity of real logs, errors to the column, and memory that does not grow.

mod support;

use std::io::{self, BufRead, Read};
use std::path::Path;

use pliant_trace::{RepairOptions, swf};
use support::{CLEAN, KEEP_BAD, STRICT, gzip, read, shown};

/// Reads a log and compares the jobs and the report, or the error.
fn check(repair: RepairOptions, text: &str, expected: &str) {
    assert_eq!(shown(&read("log.swf", text.as_bytes(), repair)), expected, "for {text:?}");
}

/// A job line: number, submission, runtime, allocated and requested processors, requested time.
fn line(id: i64, submit: i64, run: i64, procs: i64, req_procs: i64, req_time: i64) -> String {
    format!("{id} {submit} -1 {run} {procs} -1 -1 {req_procs} {req_time} -1 1 3 4 5 -1 -1 -1 -1\n")
}

#[test]
fn logs_without_a_header_and_with_unix_times() {
    check(
        CLEAN,
        &(line(7, 1_200_000_000, 10, 2, -1, 20) + &line(9, 1_200_000_060, 5, 1, 1, 5)),
        "7@0 2 20/10\n9@60 1 5/5\n2 jobs read, 2 kept",
    );
    let workload = read("log.swf", line(7, 1_200_000_000, 10, 2, -1, 20).as_bytes(), CLEAN).unwrap();
    assert_eq!((workload.unix_start, workload.max_procs), (None, None));
}

#[test]
fn headers_in_their_spellings() {
    for header in [
        "; Version: 2.2\n; UnixStartTime: 1000\n; MaxProcs: 1664 (72, 1368, 224)\n",
        ";Version: SWF v2\n;UnixStartTime:1000\n;MaxNodes:1664 (batch partition; 512 total)\n",
        "\u{feff};\tversion : 2\n ; unixstarttime : 1000\n;MAXPROCS: 1664\n;\n; no key here\n;:\n",
        "; MaxProcs: 1664\r\n; UnixStartTime: 1000 (Thu Jan  1 00:16:40 1970)\r\n\r\n",
        "; MaxProcs: unknown\n; MaxProcs: 1664\n; UnixStartTime: 1000\n; MaxProcs: 2\n",
    ] {
        let text = header.to_owned() + &line(1, 50, 10, 2, -1, 20);
        let workload = read("log.swf", text.as_bytes(), STRICT).unwrap();
        assert_eq!((workload.unix_start, workload.max_procs), (Some(1_050), Some(1_664)), "for {header:?}");
    }
}

#[test]
fn partitions_have_names() {
    let header =
        ";MaxPartitions: 3\n; Partition:  1  grid.ici.ro   \n; Partition: 2=\"b\", big\n; Partition: three\n";
    let workload = read("log.swf", header.as_bytes(), CLEAN).unwrap();
    let names: Vec<_> = workload.partition_names.iter().map(|(id, name)| (*id, name.as_str())).collect();
    assert_eq!(names, [(1, "grid.ici.ro"), (2, "b")]);
}

#[test]
fn missing_fields_are_made_up_for() {
    check(
        CLEAN,
        &line(1, 0, 10, -1, 4, 20),
        "1@0 4 20/10\n1 job read, 1 kept; 1 processors taken from the request",
    );
    check(
        CLEAN,
        &line(1, 0, 10, 4, -1, -1),
        "1@0 4 10/10\n1 job read, 1 kept; 1 walltime missing, runtime taken",
    );
    check(
        CLEAN,
        &line(1, 0, 30, 4, -1, 20),
        "1@0 4 20/20\n1 job read, 1 kept; 1 ran over its walltime, cut there",
    );
    check(CLEAN, &line(1, 0, 10, -1, -1, 20), "1 job read, 0 kept; 1 dropped: processors unknown");
    check(CLEAN, &line(1, 0, 10, 0, 0, 20), "1 job read, 0 kept; 1 dropped: processors unknown");
    check(CLEAN, &line(1, 0, 0, 4, 4, 20), "1 job read, 0 kept; 1 dropped: did not run");
    check(CLEAN, &line(1, 0, -1, 4, 4, 20), "1 job read, 0 kept; 1 dropped: did not run");
    check(CLEAN, &line(1, -1, 10, 4, 4, 20), "1 job read, 0 kept; 1 dropped: submission unknown");
    // A missing submission does not move the others.
    let text = line(1, -1, 10, 1, 1, 20) + &line(2, 1_000, 10, 1, 1, 20) + &line(3, 1_005, 10, 1, 1, 20);
    check(CLEAN, &text, "2@0 1 20/10\n3@5 1 20/10\n3 jobs read, 2 kept; 1 dropped: submission unknown");
}

#[test]
fn keep_bad_keeps_what_can_be_kept() {
    check(KEEP_BAD, &line(1, 0, 0, 4, 4, 20), "1@0 4 20/1\n1 job read, 1 kept; 1 runtime 0 raised to 1 s");
    check(
        KEEP_BAD,
        &line(1, 0, 30, 4, 4, 20),
        "1@0 4 30/30\n1 job read, 1 kept; 1 walltime raised to the runtime",
    );
    check(
        KEEP_BAD,
        &line(1, 0, 0, 4, 4, -1),
        "1@0 4 1/1\n1 job read, 1 kept; 1 walltime missing, runtime taken; 1 runtime 0 raised to 1 s",
    );
    check(KEEP_BAD, &line(1, 0, -1, 4, 4, 20), "1 job read, 0 kept; 1 dropped: did not run");
    check(KEEP_BAD, &line(1, 0, 10, -1, -1, 20), "1 job read, 0 kept; 1 dropped: processors unknown");
}

#[test]
fn unsorted_submissions_are_sorted_and_ties_keep_their_order() {
    let text =
        [(1, 50), (2, 20), (3, 50), (4, 20), (5, 60)].map(|(id, at)| line(id, at, 1, 1, 1, 1)).concat();
    check(
        CLEAN,
        &text,
        "2@0 1 1/1\n4@0 1 1/1\n1@30 1 1/1\n3@30 1 1/1\n5@40 1 1/1\n\
         5 jobs read, 5 kept; 2 submitted before an earlier line",
    );
    let partitioned =
        "1 9 -1 1 1 -1 -1 1 1 -1 1 -1 -1 -1 -1 7 -1 -1\n2 3 -1 1 1 -1 -1 1 1 -1 1 -1 -1 -1 -1 8 -1 -1\n";
    let workload = read("log.swf", partitioned.as_bytes(), CLEAN).unwrap();
    assert_eq!(workload.partitions, [8, 7], "partitions stay with their jobs");
}

#[test]
fn every_job_gets_a_number_of_its_own() {
    let text = [-1, 7, 7, -1, 1_000_000_000_000_005, 8].map(|id| line(id, 0, 1, 1, 1, 1)).concat();
    check(
        CLEAN,
        &text,
        "1000000000000001@0 1 1/1\n7@0 1 1/1\n1000000000000003@0 1 1/1\n1000000000000004@0 1 1/1\n\
         1000000000000005@0 1 1/1\n8@0 1 1/1\n6 jobs read, 6 kept; 2 job number unknown, one given; \
         1 job number of an earlier job, another given",
    );
    // A dropped job leaves its number to others.
    let text = line(7, 0, -1, 1, 1, 1) + &line(7, 0, 1, 1, 1, 1);
    check(CLEAN, &text, "7@0 1 1/1\n2 jobs read, 1 kept; 1 dropped: did not run");
}

#[test]
fn layouts_that_mean_the_same() {
    let plain =
        "1 0 -1 10 2 -1 -1 2 20 -1 1 3 4 5 -1 -1 -1 -1\n2 5 -1 10 2 -1 -1 2 20 -1 1 3 4 5 -1 -1 -1 -1\n";
    let expected = shown(&read("log.swf", plain.as_bytes(), STRICT));
    check(STRICT, &plain.replace('\n', "\r\n"), &expected);
    check(STRICT, &plain.replace('\n', "\n\n \t\n"), &expected);
    check(STRICT, &plain.replace(' ', " \t  "), &expected);
    check(STRICT, &format!("   {}", plain.replace('\n', "   \n  ")), &expected);
    check(STRICT, plain.trim_end(), &expected);
    check(STRICT, &plain.replace('\n', "\n; a comment: in the middle\n"), &expected);
    check(
        STRICT,
        &plain.replace(" 10 ", " 9.6 ").replace(" 20 ", " 2e1 ").replace("2 5", "2 +5.2"),
        &expected,
    );
    assert_eq!(shown(&read("log.swf", &gzip(plain.as_bytes()), STRICT)), expected);
    assert_eq!(shown(&read("log.swf.gz", plain.as_bytes(), STRICT)), expected, "the name does not decide");
    let (first, second) = plain.split_at(plain.len() / 3);
    let members = [gzip(first.as_bytes()), gzip(second.as_bytes())].concat();
    assert_eq!(shown(&read("log.swf.gz", &members, STRICT)), expected, "gzip files may be joined");
}

#[test]
fn more_columns_and_unknown_states_are_accepted() {
    let wide = line(1, 0, 10, 2, -1, 20).replace('\n', " 17 x 3.5\n");
    check(CLEAN, &wide, "1@0 2 20/10\n1 job read, 1 kept; 1 line with extra columns");
    let odd = line(1, 0, 10, 2, -1, 20).replace(" -1 1 3 4 5", " -1 77 3 4 5");
    check(STRICT, &odd, "1@0 2 20/10\n1 job read, 1 kept");
}

#[test]
fn values_out_of_all_proportion_are_cut() {
    check(
        CLEAN,
        &(line(1, 0, 10, 5_000_000_000, -1, 20) + &line(2, 2_000_000_000_000, 10, 1, -1, 3_000_000_000_000)),
        "1@0 4294967295 20/10\n2@1000000000000 1 1000000000000/10\n2 jobs read, 2 kept; 2 value too large, cut",
    );
    let start = format!("; UnixStartTime: 9000000000000000000\n{}", line(1, 999, 10, 1, 1, 20));
    assert_eq!(read("log.swf", start.as_bytes(), CLEAN).unwrap().unix_start, None);
    let users = "1 0 -1 1 1 -1 -1 1 1 -1 1 9999999999 -7 5 -1 99999999999 -1 -1\n";
    let workload = read("log.swf", users.as_bytes(), CLEAN).unwrap();
    let job = &workload.jobs[0];
    assert_eq!((job.user, job.group, job.executable, workload.partitions[0]), (-1, -1, 5, -1));
}

#[test]
fn nothing_is_a_log_without_jobs() {
    for text in ["", "\n\n", "; MaxProcs: 4\n", "; no line end"] {
        check(STRICT, text, "0 jobs read, 0 kept");
    }
}

#[test]
fn errors_say_file_line_and_column() {
    let hint = "see docs/reference/files/formats.md for the fields of each format";
    let bad = |text: &str, expected: &str| check(CLEAN, text, &format!("{expected}\n{hint}"));
    let good = line(1, 0, 10, 2, -1, 20);
    bad(
        &format!("; MaxProcs: 4\n{good}\n2 5 -1 ten 2 -1 -1 2 20 -1 1 3 4 5 -1 -1 -1 -1\n"),
        "log.swf:4:8: expected a number (run time), found `ten`",
    );
    bad("1 0 -1\n", "log.swf:1:7: expected 18 fields, the next one the run time, found the end of the line");
    bad(
        "1 0 -1  \r\n",
        "log.swf:1:9: expected 18 fields, the next one the run time, found the end of the line",
    );
    bad("#1\n", "log.swf:1:1: expected a number (job number), found `#1`");
    bad(
        &format!("{}x", "9".repeat(100)),
        "log.swf:1:1: expected a number (job number), found `9999999999999999999999999999999999999999...`",
    );
    bad("\u{1b}[1m \u{e9}", "log.swf:1:1: expected a number (job number), found `\\u{1b}[1m`");
    bad(
        "99999999999999999999 0",
        "log.swf:1:1: expected a number (job number), found `99999999999999999999`",
    );
    bad("1 nan", "log.swf:1:3: expected a number (submit time), found `nan`");
    bad(
        &good.replace('\n', &" 1".repeat(40_000)),
        "log.swf:1:65537: expected at most 65536 bytes in a line, found a longer one",
    );
    let garbage: Vec<u8> = (0..200_u32).map(|index| (index * 37 % 251) as u8 | 0x80).collect();
    let found = shown(&read("log.swf", &garbage, CLEAN));
    assert!(found.starts_with("log.swf:1:1: expected a number (job number), found `"), "{found}");
}

#[test]
fn strictness_turns_repairs_into_errors() {
    let hint = "leave --strict out to repair or drop such jobs and count them";
    let good = line(1, 5, 10, 2, -1, 20);
    for (bad, reason) in [
        (line(8, 9, 10, -1, 4, 20), "processors taken from the request"),
        (line(8, 9, 10, 4, 4, -1), "walltime missing, runtime taken"),
        (line(8, 9, 30, 4, 4, 20), "ran over its walltime, cut there"),
        (line(8, 9, 0, 4, 4, 20), "dropped: did not run"),
        (line(8, 9, 10, 0, -1, 20), "dropped: processors unknown"),
        (line(8, -1, 10, 4, 4, 20), "dropped: submission unknown"),
        (line(8, 4, 10, 4, 4, 20), "submitted before an earlier line"),
        (line(-1, 9, 10, 4, 4, 20), "job number unknown, one given"),
        (line(1, 9, 10, 4, 4, 20), "job number of an earlier job, another given"),
        (line(8, 9, 10, 4, 4, 9_999_999_999_999), "value too large, cut"),
    ] {
        let job = bad.split(' ').next().unwrap();
        check(STRICT, &format!("; a: b\n{good}{bad}"), &format!("log.swf:3: job {job}: {reason}\n{hint}"));
    }
}

#[test]
fn broken_files_are_not_mistaken_for_short_ones() {
    let text =
        (0..2_000).map(|id| line(id, id * 7, 10 + id % 13, 1 + id % 5, -1, 20 + id % 11)).collect::<String>();
    let whole = gzip(text.as_bytes());
    let error = read("log.swf.gz", &whole[..whole.len() / 2], CLEAN).unwrap_err();
    assert!(!error.is_io(), "{error}");
    assert_eq!(
        shown(&Err(error)),
        "log.swf.gz: expected whole gzip data, found it cut off or damaged (incomplete deflate stream)\n\
         fetch the file again; `gzip -t FILE` checks it"
    );
    let mut damaged = whole;
    let middle = damaged.len() / 2;
    damaged[middle..middle + 40].fill(0xff);
    let error = read("log.swf.gz", &damaged, CLEAN).unwrap_err();
    assert!(error.to_string().starts_with("log.swf.gz:"), "{error}");
    let missing = pliant_trace::load(Path::new("/no/such/log.swf"), &Default::default()).unwrap_err();
    assert!(missing.is_io() && missing.hint().unwrap().starts_with("check the path"), "{missing}");
    assert!(missing.to_string().starts_with("/no/such/log.swf: cannot read this file"), "{missing}");
}

/// Input that is made while it is read: `block` over and over, then `tail`.
struct Endless<'a> {
    block: &'a [u8],
    left: usize,
    tail: &'a [u8],
    at: usize,
}

impl Read for Endless<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(into.len());
        into[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Endless<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(if self.left > 0 { &self.block[self.at..] } else { &self.tail[self.at..] })
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
        if self.left > 0 && self.at == self.block.len() {
            self.at = 0;
            self.left = self.left.saturating_sub(self.block.len());
        }
    }
}

const LONG: usize = 200 << 20;

#[test]
fn memory_grows_neither_with_the_header_nor_with_a_line() {
    let tail = format!("\n{}", line(1, 0, 10, 2, -1, 20));
    let many_lines = ";Note: this goes on\n; Partition: 1 a\n".repeat(3_000);
    let one_line = "; Note: x".repeat(10_000);
    for (block, what) in [(many_lines, "many lines"), (one_line, "one line")] {
        let input = Endless { block: block.as_bytes(), left: LONG, tail: tail.as_bytes(), at: 0 };
        let mut reader = swf::Reader::new(Path::new("log.swf"), input).unwrap();
        let header = reader.header();
        let kept: usize = header.entries.iter().map(|(key, value)| key.capacity() + value.capacity()).sum();
        assert!(kept < 1 << 20 && header.entries.len() <= 512, "{what}: {kept} bytes kept");
        assert_eq!(reader.next().unwrap().unwrap().run, 10);
        assert!(reader.next().is_none());
    }
    let input = Endless { block: &[b'7'; 100_000], left: LONG, tail: tail.as_bytes(), at: 0 };
    let error = swf::Reader::new(Path::new("log.swf"), input).unwrap().next().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "log.swf:1:65537: expected at most 65536 bytes in a line, found a longer one"
    );
}
