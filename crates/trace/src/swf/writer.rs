//! Writing SWF 2.2.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::record::Record;

/// Writes an SWF log, gzipped if its name ends in `.gz`.
pub struct Writer {
    output: Output,
}

enum Output {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
}

impl Output {
    fn as_write(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(file) => file,
            Self::Gzip(file) => file,
        }
    }
}

impl Writer {
    /// Makes the file and writes the header: `Version: 2.2` and then the entries given.
    pub fn create(path: &Path, header: &[(String, String)]) -> io::Result<Writer> {
        let file = BufWriter::with_capacity(256 * 1024, File::create(path)?);
        let gzip = path.extension().is_some_and(|extension| extension == "gz");
        let output = if gzip {
            Output::Gzip(GzEncoder::new(file, Compression::default()))
        } else {
            Output::Plain(file)
        };
        let mut writer = Writer { output };
        let output = writer.output.as_write();
        writeln!(output, "; Version: 2.2")?;
        for (key, value) in header.iter().filter(|(key, _)| !key.eq_ignore_ascii_case("version")) {
            writeln!(output, "; {key}: {}", value.replace(['\n', '\r'], " "))?;
        }
        Ok(writer)
    }

    /// Writes one job.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let Record { id, submit, wait, run, procs, cpu, memory, req_procs, req_time, req_memory, .. } =
            record;
        let Record { status, user, group, executable, queue, partition, preceding, think, .. } = record;
        writeln!(
            self.output.as_write(),
            "{id} {submit} {wait} {run} {procs} {cpu} {memory} {req_procs} {req_time} {req_memory} \
             {status} {user} {group} {executable} {queue} {partition} {preceding} {think}"
        )
    }

    /// Completes the file.
    pub fn finish(self) -> io::Result<()> {
        match self.output {
            Output::Plain(mut file) => file.flush(),
            Output::Gzip(file) => file.finish()?.flush(),
        }
    }
}
