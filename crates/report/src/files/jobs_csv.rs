//! `jobs.csv`: one row per job that ran, in the order of the workload.
//!
//! Rows are formatted by hand into one reused buffer: 200,000 of them take a few hundredths of a second.

use std::io::{self, Write};
use std::path::Path;

use pliant_model::{ClusterId, JobOutcome, Platform, Procs, Reason, Run, Span};

use super::FileError;
use super::record::{Row, for_each_row};

const COLUMNS: &[&str] =
    &["job", "cluster", "submit", "start", "end", "procs", "walltime", "moves", "managed", "reason"];

/// Writes the table.
pub(super) fn write(out: &mut impl Write, run: &Run) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    // Names need no quotes: a platform has none with commas, double quotes or line ends.
    let clusters = run.platform.clusters();
    let mut line = Vec::with_capacity(160);
    let mut digits = itoa::Buffer::new();
    for job in &run.jobs {
        line.clear();
        line.extend_from_slice(digits.format(job.log_id).as_bytes());
        line.push(b',');
        line.extend_from_slice(clusters[job.cluster.index()].name.as_bytes());
        for seconds in [job.submit.0, job.start.0, job.end.0] {
            line.push(b',');
            line.extend_from_slice(digits.format(seconds).as_bytes());
        }
        for number in [i64::from(job.procs.0), job.walltime.0, i64::from(job.moves)] {
            line.push(b',');
            line.extend_from_slice(digits.format(number).as_bytes());
        }
        line.extend_from_slice(if job.managed { b",true," } else { b",false," });
        line.extend_from_slice(job.reason.word().as_bytes());
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}

/// Reads the table.
pub(super) fn read(path: &Path, platform: &Platform) -> Result<Vec<JobOutcome>, FileError> {
    let mut jobs = Vec::new();
    // Neighbouring rows often name the same cluster.
    let mut last = ClusterId(0);
    for_each_row(path, COLUMNS, |row| {
        if platform.cluster(last).name != row.text(1) {
            last = row.cluster(1, platform)?;
        }
        jobs.push(outcome(&row, last)?);
        Ok(())
    })?;
    Ok(jobs)
}

fn outcome(row: &Row<'_>, cluster: ClusterId) -> Result<JobOutcome, FileError> {
    let job = JobOutcome {
        log_id: row.number(0)?,
        cluster,
        submit: row.time(2)?,
        start: row.time(3)?,
        end: row.time(4)?,
        procs: Procs(row.number(5)?),
        walltime: Span(row.time(6)?.0),
        moves: row.number(7)?,
        managed: match row.text(8) {
            "true" => true,
            "false" => false,
            _ => return Err(row.wrong(8, "true or false")),
        },
        reason: Reason::from_word(row.text(9))
            .ok_or_else(|| row.wrong(9, "a reason of docs/reference/results.md"))?,
    };
    if job.submit <= job.start && job.start <= job.end {
        return Ok(job);
    }
    let found = format!("{} <= {} <= {}", job.submit, job.start, job.end);
    Err(row.contradiction("submit <= start <= end", found))
}
