//! Pages of the file that deleted rows have left: most are given back to the disk.

use std::path::Path;

use rusqlite::Connection;

/// One of so many pages may be free, for the rows that come next. A snapshot alone takes and leaves as many pages as it has.
const FREE_SHARE: i64 = 4;
/// So many pages may be free in any case: 4 MiB.
const FREE_PAGES_MIN: i64 = 1024;
/// How many pages one call gives back, so that no commit waits long for it: 4 MiB.
const PAGES_LIMIT: i64 = 1024;
/// The number by which SQLite says that free pages can be given back some at a time.
const INCREMENTAL: i64 = 2;
/// The largest file that is written anew when it is opened: it takes a second or two.
const REWRITE_BYTES_MAX: u64 = 256 << 20;

/// Has a new file keep account of its pages, so that free ones can be given back. To be called before its first table is made.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "auto_vacuum", INCREMENTAL)
}

/// Gives back free pages, at most [`PAGES_LIMIT`]. True if there are more to give back. The file is shorter after the next checkpoint.
pub(super) fn give_back(connection: &Connection) -> rusqlite::Result<bool> {
    let free = number(connection, "freelist_count")?;
    let kept = (number(connection, "page_count")? / FREE_SHARE).max(FREE_PAGES_MIN);
    if free <= kept || !can_give_back(connection)? {
        return Ok(false);
    }
    let pages = (free - kept).min(PAGES_LIMIT);
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut steps = statement.query([])?;
    // A step gives one page back.
    while steps.next()?.is_some() {}
    Ok(free - kept > pages)
}

/// Writes a file of an earlier build anew if it is small, so that its free pages can be given back.
pub(super) fn convert(path: &Path, connection: &Connection, free_bytes: u64) {
    let location = path.display();
    match rewrite(connection, free_bytes) {
        Ok(Rewrite::Needless) => {}
        Ok(Rewrite::Done) => {
            tracing::info!(%location, "the journal was written anew: it gives space back from now on")
        }
        Ok(Rewrite::TooLarge) => tracing::info!(
            %location,
            "the journal is of an earlier build and gives no space back: docs/guides/retention.md says how to compact it"
        ),
        // The file is as it was, and serves as well as before.
        Err(error) => {
            tracing::warn!(%location, %error, "the journal cannot be written anew, and gives no space back")
        }
    }
}

/// Whether a file was written anew.
enum Rewrite {
    Needless,
    Done,
    /// It would take long, or more space than the disk should be asked for.
    TooLarge,
}

fn rewrite(connection: &Connection, free_bytes: u64) -> rusqlite::Result<Rewrite> {
    if can_give_back(connection)? {
        return Ok(Rewrite::Needless);
    }
    let bytes = number(connection, "page_count")? * number(connection, "page_size")?;
    let bytes = bytes.unsigned_abs();
    // A copy, and the same in the log.
    if bytes > REWRITE_BYTES_MAX || free_bytes / 4 < bytes {
        return Ok(Rewrite::TooLarge);
    }
    prepare(connection)?;
    connection.execute_batch("VACUUM")?;
    Ok(Rewrite::Done)
}

fn can_give_back(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(number(connection, "auto_vacuum")? == INCREMENTAL)
}

fn number(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
