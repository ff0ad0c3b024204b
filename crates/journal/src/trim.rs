//! Deletes what has been kept long enough, a bounded number of rows at once, in both databases.

use crate::database::{Row, Statements, read_all, read_first, read_one};
use crate::{JOBS_LIMIT, JournalError, KeepFrom, PARTS_LIMIT, TRIM_LIMIT};

/// True of a row of `jobs` (named `old`) that may be deleted: not that of the last job of its server, whose number shows which ones
/// were given. The rows of launches have no numbers.
const IS_NOT_LAST: &str = "(old.number = 0 OR EXISTS \
    (SELECT 1 FROM jobs AS later WHERE later.server = old.server AND later.number > old.number))";

/// Deletes some rows of each kind that are older than they are kept, and parts of snapshots. True if there are more.
pub(crate) fn trim(
    db: &mut dyn Statements,
    keep_from: &KeepFrom,
    writing: Option<u64>,
) -> Result<bool, JournalError> {
    let more = [
        trim_parts(db, writing)?,
        trim_local_jobs(db, keep_from.entries)?,
        trim_jobs(db, keep_from.jobs)?,
        // Readers go on after a number, and SQLite numbers a row after the last one.
        trim_oldest(db, "audit", "SELECT max(seq) - 1 FROM audit", keep_from.audit, 0)?,
        trim_oldest(
            db,
            "entries",
            "SELECT max(seq) FROM snapshots",
            keep_from.entries,
            keep_from.first_entry,
        )?,
    ];
    Ok(more.contains(&true))
}

/// Deletes parts of snapshots that are neither the last one nor being written, at most [`PARTS_LIMIT`]. True if there are more.
fn trim_parts(db: &mut dyn Statements, writing: Option<u64>) -> Result<bool, JournalError> {
    let text = "SELECT seq, part FROM snapshot_parts WHERE seq NOT IN (SELECT seq FROM snapshots) AND seq <> $1 \
                ORDER BY seq, part LIMIT $2";
    let read = |row: &mut Row| Ok((row.take(0)?, row.take(1)?));
    // No entry has the number 0. A snapshot of none has nothing that could be lost.
    let writing = writing.unwrap_or(0);
    let parts: Vec<(u64, u32)> = read_all(db, text, &[writing.into(), (PARTS_LIMIT + 1).into()], read)?;
    for (seq, part) in parts.iter().take(PARTS_LIMIT as usize) {
        let text = "DELETE FROM snapshot_parts WHERE seq = $1 AND part = $2";
        db.execute(text, &[(*seq).into(), (*part).into()])?;
    }
    Ok(parts.len() > PARTS_LIMIT as usize)
}

/// Deletes runs of local users' jobs, at most [`TRIM_LIMIT`], the first to end first. True if there are more.
fn trim_local_jobs(db: &mut dyn Statements, keep_from: i64) -> Result<bool, JournalError> {
    let text = "DELETE FROM local_jobs WHERE seq IN \
                (SELECT seq FROM local_jobs WHERE ended < $1 ORDER BY ended, seq LIMIT $2)";
    db.execute(text, &[keep_from.into(), TRIM_LIMIT.into()])?;
    let text = "SELECT EXISTS (SELECT 1 FROM local_jobs WHERE ended < $1)";
    read_one(db, text, &[keep_from.into()], |row| row.take(0))
}

/// Deletes ended jobs, at most [`JOBS_LIMIT`], the first to end first. True if there are more.
fn trim_jobs(db: &mut dyn Statements, keep_from: i64) -> Result<bool, JournalError> {
    db.execute(&delete_jobs(), &[keep_from.into(), JOBS_LIMIT.into()])?;
    let text = format!("SELECT EXISTS (SELECT 1 FROM jobs AS old WHERE old.ended < $1 AND {IS_NOT_LAST})");
    read_one(db, &text, &[keep_from.into()], |row| row.take(0))
}

/// The statement that deletes the first jobs to end.
pub(crate) fn delete_jobs() -> String {
    format!(
        "DELETE FROM jobs WHERE (server, number) IN (SELECT old.server, old.number FROM jobs AS old \
         WHERE old.ended < $1 AND {IS_NOT_LAST} ORDER BY old.ended, old.server, old.number LIMIT $2)"
    )
}

/// Deletes the rows with the lowest numbers up to the first one to keep, at most [`TRIM_LIMIT`] and none after the number that `last`
/// selects. One is kept that is young enough and has no lower number than `first_kept`. True if there are more.
fn trim_oldest(
    db: &mut dyn Statements,
    table: &str,
    last: &str,
    keep_from: i64,
    first_kept: u64,
) -> Result<bool, JournalError> {
    let text = format!("SELECT (SELECT min(seq) FROM {table}), ({last})");
    let bounds = read_one(db, &text, &[], |row| Ok((row.take(0)?, row.take(1)?)))?;
    let (Some(first), Some(last)): (Option<u64>, Option<u64>) = bounds else { return Ok(false) };
    let end = (first + TRIM_LIMIT).min(last + 1);
    let text =
        format!("SELECT seq FROM {table} WHERE seq >= $1 AND seq < $2 AND at >= $3 ORDER BY seq LIMIT 1");
    let from = first.max(first_kept);
    let kept = read_first(db, &text, &[from.into(), end.into(), keep_from.into()], |row| row.take(0))?;
    let end: u64 = kept.unwrap_or(end);
    db.execute(&format!("DELETE FROM {table} WHERE seq < $1"), &[end.into()])?;
    let text = format!("SELECT at FROM {table} WHERE seq >= $1 AND seq <= $2 ORDER BY seq LIMIT 1");
    let next: Option<i64> = read_first(db, &text, &[end.into(), last.into()], |row| row.take(0))?;
    Ok(next.is_some_and(|at| at < keep_from || end < first_kept))
}
