//! Writing SWF 2.2.

use std::io::{self, Write};
use std::path::Path;

use crate::output::{Output, one_line};
use crate::record::Record;

/// Writes an SWF log, gzipped if its name ends in `.gz`.
pub struct Writer {
    output: Output,
}

impl Writer {
    /// Makes the file and writes the header: `Version: 2.2` and then the entries given.
    pub fn create(path: &Path, header: &[(String, String)]) -> io::Result<Writer> {
        let mut output = Output::create(path)?;
        writeln!(output, "; Version: 2.2")?;
        for (key, value) in header.iter().filter(|(key, _)| !key.eq_ignore_ascii_case("version")) {
            writeln!(output, "; {}: {}", one_line(key), one_line(value))?;
        }
        Ok(Writer { output })
    }

    /// Writes one job.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let Record { id, submit, wait, run, procs, cpu, memory, req_procs, req_time, req_memory, .. } =
            record;
        let Record { status, user, group, executable, queue, partition, preceding, think, .. } = record;
        writeln!(
            self.output,
            "{id} {submit} {wait} {run} {procs} {cpu} {memory} {req_procs} {req_time} {req_memory} \
             {status} {user} {group} {executable} {queue} {partition} {preceding} {think}"
        )
    }

    /// Completes the file.
    pub fn finish(self) -> io::Result<()> {
        self.output.finish()
    }
}
