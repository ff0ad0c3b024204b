//! What the tests of this crate share.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod invariants;

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use pliant_trace::{LoadOptions, RepairOptions, RepairPolicy, TraceError, Workload, load_from};

/// Repairs as they are by default.
pub(crate) const CLEAN: RepairOptions = RepairOptions { policy: RepairPolicy::Clean, strict: false };
/// Keeps what can be kept.
pub(crate) const KEEP_BAD: RepairOptions = RepairOptions { policy: RepairPolicy::KeepBad, strict: false };
/// Repairs nothing.
pub(crate) const STRICT: RepairOptions = RepairOptions { policy: RepairPolicy::Clean, strict: true };

/// Reads bytes as the file `name`.
pub(crate) fn read(name: &str, bytes: &[u8], repair: RepairOptions) -> Result<Workload, TraceError> {
    load_from(Path::new(name), bytes, &LoadOptions { repair, log_dirs: Vec::new() })
}

/// Jobs as `id@submit procs walltime/runtime`, then the report; or the error and its hint.
pub(crate) fn shown(read: &Result<Workload, TraceError>) -> String {
    match read {
        Ok(workload) => {
            invariants::schedulable(workload);
            let mut text = String::new();
            for job in &workload.jobs {
                let (id, submit, procs) = (job.log_id, job.submit, job.procs);
                text.push_str(&format!("{id}@{submit} {procs} {}/{}\n", job.walltime.0, job.runtime.0));
            }
            text + &workload.report.to_string()
        }
        Err(error) => format!("{error}\n{}", error.hint().unwrap_or_default()),
    }
}

/// Compressed bytes.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}
