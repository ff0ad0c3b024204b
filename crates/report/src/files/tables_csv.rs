//! `moves.csv` (every move of a waiting job) and `refused.csv` (every job that no cluster could take).

use std::io::{self, Write};
use std::path::Path;

use pliant_model::{MoveRecord, Platform, Procs, RefusalCause, Run};

use super::FileError;
use super::record::{Row, for_each_row};

const MOVES: &[&str] = &["time", "job", "from", "to", "ect_before", "ect_after", "procs"];
const REFUSED: &[&str] = &["job", "cause", "cluster", "requested", "available"];

const LARGER_THAN_CLUSTER: &str = "larger-than-cluster";
const LARGER_THAN_ALL: &str = "larger-than-all";
const INSUFFICIENT_RESOURCES: &str = "insufficient-resources";
const NO_ORIGIN: &str = "no-origin";

/// Writes `moves.csv`.
pub(super) fn write_moves(out: &mut impl Write, run: &Run) -> io::Result<()> {
    writeln!(out, "{}", MOVES.join(","))?;
    let clusters = run.platform.clusters();
    for MoveRecord { at, log_id, from, to, before, after, procs } in &run.moves {
        let (from, to) = (&clusters[from.index()].name, &clusters[to.index()].name);
        writeln!(out, "{at},{log_id},{from},{to},{before},{after},{procs}")?;
    }
    Ok(())
}

/// Reads `moves.csv`.
pub(super) fn read_moves(path: &Path, platform: &Platform) -> Result<Vec<MoveRecord>, FileError> {
    let mut moves = Vec::new();
    for_each_row(path, MOVES, |row| {
        moves.push(MoveRecord {
            at: row.time(0)?,
            log_id: row.number(1)?,
            from: row.cluster(2, platform)?,
            to: row.cluster(3, platform)?,
            before: row.time(4)?,
            after: row.time(5)?,
            procs: Procs(row.number(6)?),
        });
        Ok(())
    })?;
    Ok(moves)
}

/// Writes `refused.csv`.
pub(super) fn write_refused(out: &mut impl Write, run: &Run) -> io::Result<()> {
    writeln!(out, "{}", REFUSED.join(","))?;
    for RefusedRow { job, cause, cluster, sizes } in refused_rows(run) {
        write!(out, "{job},{cause},{},", cluster.unwrap_or_default())?;
        match sizes {
            Some((requested, available)) => writeln!(out, "{requested},{available}")?,
            None => writeln!(out, ",")?,
        }
    }
    Ok(())
}

/// A row of `refused.csv`: a job that no cluster could take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedRow<'a> {
    /// The job's number in its log.
    pub job: u64,
    /// The cause, as a word.
    pub cause: &'static str,
    /// The cluster that was asked, if it was one.
    pub cluster: Option<&'a str>,
    /// The processors that were requested, and those that there are, if these are the cause.
    pub sizes: Option<(Procs, Procs)>,
}

/// The rows of `refused.csv`.
pub fn refused_rows(run: &Run) -> impl Iterator<Item = RefusedRow<'_>> {
    run.refused.iter().map(|(job, cause)| {
        let (cause, cluster, sizes) = match *cause {
            RefusalCause::LargerThanCluster { cluster, requested, available } => {
                let name = run.platform.cluster(cluster).name.as_str();
                (LARGER_THAN_CLUSTER, Some(name), Some((requested, available)))
            }
            RefusalCause::LargerThanAll { requested, available } => {
                (LARGER_THAN_ALL, None, Some((requested, available)))
            }
            RefusalCause::InsufficientResources => (INSUFFICIENT_RESOURCES, None, None),
            RefusalCause::NoOrigin => (NO_ORIGIN, None, None),
        };
        RefusedRow { job: *job, cause, cluster, sizes }
    })
}

/// Reads `refused.csv`.
pub(super) fn read_refused(path: &Path, platform: &Platform) -> Result<Vec<(u64, RefusalCause)>, FileError> {
    let mut refused = Vec::new();
    for_each_row(path, REFUSED, |row| {
        refused.push((row.number(0)?, cause(&row, platform)?));
        Ok(())
    })?;
    Ok(refused)
}

fn cause(row: &Row<'_>, platform: &Platform) -> Result<RefusalCause, FileError> {
    let sizes = || Ok::<_, FileError>((Procs(row.number(3)?), Procs(row.number(4)?)));
    match row.text(1) {
        LARGER_THAN_CLUSTER => {
            let (cluster, (requested, available)) = (row.cluster(2, platform)?, sizes()?);
            Ok(RefusalCause::LargerThanCluster { cluster, requested, available })
        }
        LARGER_THAN_ALL => {
            let (requested, available) = sizes()?;
            Ok(RefusalCause::LargerThanAll { requested, available })
        }
        INSUFFICIENT_RESOURCES => Ok(RefusalCause::InsufficientResources),
        NO_ORIGIN => Ok(RefusalCause::NoOrigin),
        _ => Err(row.wrong(1, "larger-than-cluster, larger-than-all, insufficient-resources or no-origin")),
    }
}
