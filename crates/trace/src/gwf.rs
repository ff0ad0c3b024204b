//! The Grid Workload Format: `#` comments, then one job a line in 29 fields (some files have 30), -1 where
//! unknown. Ids of users, groups, applications and sites are strings; they are numbered in order of
//! appearance, from 1. Waits may be slightly negative. Comments of the form `# Key: value` are a header like that
//! of SWF. Reading is streaming; what grows with the file is one number per different name.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use crate::error::{Problem, TraceError};
use crate::lines::{Fields, Lines, number, open, shown};
use crate::output::{Output, one_line};
use crate::record::{Record, kilobytes};
use crate::swf::Header;
use crate::workload::Workload;

/// Required fields; later ones are not used.
const FIELDS: [&str; 18] = [
    "JobID",
    "SubmitTime",
    "WaitTime",
    "RunTime",
    "NProcs",
    "AverageCPUTimeUsed",
    "UsedMemory",
    "ReqNProcs",
    "ReqTime",
    "ReqMemory",
    "Status",
    "UserID",
    "GroupID",
    "ExecutableID",
    "QueueID",
    "PartitionID",
    "OrigSiteID",
    "LastRunSiteID",
];

/// Fields of the format.
const COLUMNS: usize = 29;
/// Names are distinguished by this many bytes.
const LONGEST_NAME: usize = 256;

/// JobNumbers for names, in order of appearance.
#[derive(Default)]
struct Names {
    numbers: BTreeMap<Vec<u8>, i32>,
}

impl Names {
    /// The number of a name, from 1; -1 if it is unknown.
    fn number(&mut self, name: &[u8]) -> i64 {
        if name == b"-1" {
            return -1;
        }
        let name = &name[..name.len().min(LONGEST_NAME)];
        if let Some(known) = self.numbers.get(name) {
            return i64::from(*known);
        }
        let next = i32::try_from(self.numbers.len() + 1).unwrap_or(i32::MAX);
        self.numbers.insert(name.to_vec(), next);
        i64::from(next)
    }
}

/// Reads a GWF log.
pub struct Reader<R> {
    path: PathBuf,
    lines: Lines<R>,
    users: Names,
    groups: Names,
    executables: Names,
    queues: Names,
    sites: Names,
    jobs: i64,
    header: Header,
    extra_columns: u64,
}

impl Reader<Box<dyn BufRead + Send>> {
    /// Opens a plain or gzipped file.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let input = open(path).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
        Ok(Reader::new(path, input))
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`; `path` is for error messages.
    pub fn new(path: &Path, input: R) -> Self {
        Reader {
            path: path.to_owned(),
            lines: Lines::new(input),
            users: Names::default(),
            groups: Names::default(),
            executables: Names::default(),
            queues: Names::default(),
            sites: Names::default(),
            jobs: 0,
            header: Header::default(),
            extra_columns: 0,
        }
    }

    /// Lines so far with more than 30 columns.
    pub fn extra_columns(&self) -> u64 {
        self.extra_columns
    }

    /// The header, as far as comments were read.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Unix time of second 0, if the comments say (`# UnixStartTime: ...`).
    pub fn unix_start_time(&self) -> Option<i64> {
        self.header.unix_start_time
    }

    /// Names of the sites met so far, by number.
    pub fn site_names(&self) -> BTreeMap<i32, String> {
        let names = self.sites.numbers.iter();
        names.map(|(name, number)| (*number, String::from_utf8_lossy(name).into_owned())).collect()
    }

    /// The name of one site met so far.
    pub(crate) fn site_name(&self, number: i32) -> Option<String> {
        let (name, _) = self.sites.numbers.iter().find(|(_, known)| **known == number)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    fn parse(&mut self) -> Result<Record, Problem> {
        if let Some(problem) = self.lines.too_long() {
            return Err(problem);
        }
        let line = self.lines.number();
        let mut raw: [&[u8]; 18] = [b""; 18];
        let mut columns = [0_u64; 18];
        let mut fields = Fields::of(self.lines.line());
        for (index, name) in FIELDS.iter().enumerate() {
            let Some((column, field)) = fields.next() else {
                let expected = format!("{COLUMNS} fields, the next one {name}");
                let found = "the end of the line".to_owned();
                return Err(Problem::Line { line, column: fields.column(), expected, found });
            };
            (columns[index], raw[index]) = (column, field);
        }
        let rest = fields.count();
        let value = |index: usize| {
            number(raw[index]).ok_or_else(|| Problem::Line {
                line,
                column: columns[index],
                expected: format!("a number ({})", FIELDS[index]),
                found: shown(raw[index]),
            })
        };
        self.jobs += 1;
        let (users, groups, executables) = (&mut self.users, &mut self.groups, &mut self.executables);
        // A site where the job ran is where it belongs; else where it was submitted, else its partition.
        let site =
            [17, 16, 15].into_iter().map(|index| raw[index]).find(|name| *name != b"-1").unwrap_or(b"-1");
        let record = Record {
            line,
            id: number(raw[0]).unwrap_or(self.jobs),
            submit: value(1)?,
            wait: value(2)?.max(0),
            run: value(3)?,
            procs: value(4)?,
            cpu: value(5)?,
            memory: value(6)?,
            req_procs: value(7)?,
            req_time: value(8)?,
            req_memory: value(9)?,
            status: value(10)?,
            user: users.number(raw[11]),
            group: groups.number(raw[12]),
            executable: executables.number(raw[13]),
            queue: self.queues.number(raw[14]),
            partition: self.sites.number(site),
            preceding: -1,
            think: -1,
        };
        self.extra_columns += u64::from(18 + rest > COLUMNS + 1);
        Ok(record)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.lines.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(TraceError::new(&self.path, Problem::Io(error)))),
            }
            match self.lines.line().trim_ascii_start() {
                [] => {}
                [b'#', comment @ ..] => self.header.note(comment),
                _ => break,
            }
        }
        Some(self.parse().map_err(|problem| TraceError::new(&self.path, problem)))
    }
}

/// Writes a workload as GWF, gzipped if its name ends in `.gz`.
pub(crate) fn write(workload: &Workload, path: &Path) -> io::Result<()> {
    let mut file = Output::create(path)?;
    writeln!(file, "# Grid Workload Format, written by pliant from {}", one_line(&workload.name))?;
    if let Some(start) = workload.unix_start {
        writeln!(file, "# UnixStartTime: {start}")?;
    }
    if let Some(procs) = workload.max_procs {
        writeln!(file, "# MaxProcs: {procs}")?;
    }
    let name = |prefix: char, id: i32| if id < 0 { "-1".to_owned() } else { format!("{prefix}{id}") };
    for (job, partition) in workload.jobs.iter().zip(&workload.partitions) {
        let named = workload.partition_names.get(partition);
        let site = named.map(|name| name.split_whitespace().collect::<Vec<_>>().join("-"));
        let site = site.filter(|name| !name.is_empty()).unwrap_or_else(|| name('S', *partition));
        let (user, group, executable) =
            (name('U', job.user), name('G', job.group), name('X', job.executable));
        let (id, submit, run, procs, walltime) =
            (job.log_id, job.submit.0, job.runtime.0, job.procs.0, job.walltime.0);
        let (used, requested) = (kilobytes(job.memory.used), kilobytes(job.memory.requested));
        write!(file, "{id} {submit} -1 {run} {procs} -1 {used} {procs} {walltime} {requested} 1 ")?;
        write!(file, "{user} {group} {executable} -1 -1 ")?;
        writeln!(file, "{site} {site} UNITARY -1 -1 -1 -1 -1 -1 -1 -1 -1 -1")?;
    }
    file.finish()
}
