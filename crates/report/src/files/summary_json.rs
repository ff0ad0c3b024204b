//! `summary.json`: the [`Summary`] of the run, with the platform in its `clusters`.

use std::io::{self, Write};
use std::path::Path;

use pliant_model::{Cluster, Platform, Procs, Speed};

use super::FileError;
use crate::metrics::{SUMMARY_SCHEMA, Summary};

/// Writes it.
pub(super) fn write(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, summary)?;
    out.write_all(b"\n")
}

/// Reads it.
pub(super) fn read(path: &Path) -> Result<Summary, FileError> {
    let text = std::fs::read(path).map_err(|source| FileError::io(path, "read this file", source))?;
    let failed = |source| FileError::json(path, &source);
    // The version is checked first, since other versions may have other keys.
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(failed)?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(schema) if schema != SUMMARY_SCHEMA => {
            Err(FileError::Schema { path: path.to_owned(), found: schema.to_owned() })
        }
        _ => serde_json::from_slice(&text).map_err(failed),
    }
}

/// The platform described by a summary.
pub(super) fn platform(path: &Path, summary: &Summary) -> Result<Platform, FileError> {
    let wrong = |problem| FileError::Platform { path: path.to_owned(), problem };
    let mut clusters = Vec::with_capacity(summary.clusters.len());
    for row in &summary.clusters {
        let speed =
            Speed::new(row.speed).map_err(|error| wrong(format!("cluster `{}`: {error}", row.name)))?;
        let (name, batch) = (row.name.clone(), row.batch.clone());
        clusters.push(Cluster { name, procs: Procs(row.procs), speed, batch, nodes: None });
    }
    Platform::new(clusters).map_err(|problem| wrong(problem.to_string()))
}
