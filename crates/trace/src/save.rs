//! Workloads as files.

use std::path::Path;

use crate::error::{Problem, TraceError};
use crate::output::written_format;
use crate::record::Record;
use crate::workload::{Format, Workload};
use crate::{gwf, swf};

impl Workload {
    /// Writes it as SWF (plain or `.gz`) or GWF, by the name of the file.
    pub fn write(&self, path: &Path) -> Result<(), TraceError> {
        let io = |error| TraceError::new(path, Problem::Write(error));
        match written_format(path)? {
            Format::Gwf => gwf::write(self, path).map_err(io),
            _ => self.write_swf(path).map_err(io),
        }
    }

    fn write_swf(&self, path: &Path) -> std::io::Result<()> {
        let mut header = vec![("MaxJobs".to_owned(), self.jobs.len().to_string())];
        header.push(("MaxRecords".to_owned(), self.jobs.len().to_string()));
        if let Some(start) = self.unix_start {
            header.push(("UnixStartTime".to_owned(), start.to_string()));
        }
        if let Some(procs) = self.max_procs {
            header.push(("MaxProcs".to_owned(), procs.to_string()));
        }
        for (partition, name) in &self.partition_names {
            header.push(("Partition".to_owned(), format!("{partition} {name}")));
        }
        header.push(("Note".to_owned(), format!("written by pliant from {}", self.name)));
        let mut writer = swf::Writer::create(path, &header)?;
        for (job, partition) in self.jobs.iter().zip(&self.partitions) {
            writer.write(&Record::of(job, *partition))?;
        }
        writer.finish()
    }
}
