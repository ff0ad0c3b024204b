//! The Standard Workload Format 2.2 of the Parallel Workloads Archive: `;` comments that hold the header,
//! then one job a line in 18 fields, -1 where unknown.
//!
//! Reading is streaming: one line at a time, in memory that grows neither with the header nor with the file.
//! Accepted beyond the letter of the format, because real logs have it: every spelling of the header, comments
//! between jobs, blank lines, CRLF, decimals (rounded to the nearest integer), more than 18 columns (counted).

mod header;
mod writer;

use std::io::BufRead;
use std::path::{Path, PathBuf};

pub use header::Header;
pub use writer::Writer;

use crate::error::{Problem, TraceError};
use crate::lines::{Fields, Lines, open, shown};
use crate::record::Record;

/// Names of the fields, for errors.
const FIELDS: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];

/// Reads an SWF log.
pub struct Reader<R> {
    path: PathBuf,
    lines: Lines<R>,
    header: Header,
    /// The first job line is waiting in `lines`.
    pending: bool,
    extra_columns: u64,
}

impl Reader<Box<dyn BufRead + Send>> {
    /// Opens a plain or gzipped file and reads its header.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let input = open(path).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
        Reader::new(path, input)
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the header of `input`; `path` is for error messages.
    pub fn new(path: &Path, input: R) -> Result<Self, TraceError> {
        let lines = Lines::new(input);
        let mut reader = Reader {
            path: path.to_owned(),
            lines,
            header: Header::default(),
            pending: false,
            extra_columns: 0,
        };
        reader.pending = reader.next_job_line()?;
        Ok(reader)
    }

    /// The header, as far as comments were read.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Lines so far with more than 18 columns.
    pub fn extra_columns(&self) -> u64 {
        self.extra_columns
    }

    /// Advances to the next line that holds a job.
    fn next_job_line(&mut self) -> Result<bool, TraceError> {
        while self.lines.advance().map_err(|error| TraceError::new(&self.path, Problem::Io(error)))? {
            let line = self.lines.line().trim_ascii_start();
            match line.first() {
                None => {}
                Some(b';') => self.header.note(&line[1..]),
                Some(_) => return Ok(true),
            }
        }
        Ok(false)
    }

    fn parse(&mut self) -> Result<Record, Problem> {
        if let Some(problem) = self.lines.too_long() {
            return Err(problem);
        }
        let line = self.lines.number();
        let mut values = [-1_i64; 18];
        let mut fields = Fields::of(self.lines.line());
        for (value, name) in values.iter_mut().zip(FIELDS) {
            let Some((column, field, read)) = fields.next_number() else {
                let expected = format!("18 fields, the next one the {name}");
                return Err(Problem::Line {
                    line,
                    column: fields.column(),
                    expected,
                    found: "the end of the line".into(),
                });
            };
            let malformed = || Problem::Line {
                line,
                column,
                expected: format!("a number ({name})"),
                found: shown(field),
            };
            *value = read.ok_or_else(malformed)?;
        }
        self.extra_columns += u64::from(fields.next().is_some());
        let [
            id,
            submit,
            wait,
            run,
            procs,
            cpu,
            memory,
            req_procs,
            req_time,
            req_memory,
            status,
            user,
            group,
            executable,
            queue,
            partition,
            preceding,
            think,
        ] = values;
        Ok(Record {
            line,
            id,
            submit,
            wait,
            run,
            procs,
            cpu,
            memory,
            req_procs,
            req_time,
            req_memory,
            status,
            user,
            group,
            executable,
            queue,
            partition,
            preceding,
            think,
        })
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !std::mem::take(&mut self.pending) {
            match self.next_job_line() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(self.parse().map_err(|problem| TraceError::new(&self.path, problem)))
    }
}
