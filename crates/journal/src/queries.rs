//! The queries of journals and archives, the same for both databases.

use pliant_model::Fnv;

use crate::database::{Row, Statements, Value, read_all, read_first, read_one};
use crate::listing;
use crate::listing::JOB_COLUMNS;
use crate::sequence::{Tail, same};
use crate::{
    AuditRow, Batch, Entry, EntryBytes, JobCursor, JobRow, JournalError, Loaded, LocalJobCursor, LocalJobRow,
    Snapshot, SnapshotPart, StatusUpdate,
};

/// In how many parts the bytes of all entries are counted, and by how many entries each.
const HISTORY_PARTS: u64 = 64;
const HISTORY_SAMPLES: u64 = 16;

/// Replaces an older row of the same job; the end of an `INSERT` into `jobs`.
pub(crate) const REPLACE_JOB: &str = "ON CONFLICT (server, number) DO UPDATE SET \
    key = excluded.key, owner = excluded.owner, name = excluded.name, state = excluded.state, \
    submitted = excluded.submitted, started = excluded.started, ended = excluded.ended, \
    expected_start = excluded.expected_start, expected_completion = excluded.expected_completion, \
    record = excluded.record, last_server = excluded.last_server";

fn entry(row: &mut Row) -> Result<Entry, String> {
    Ok(Entry { seq: row.take(0)?, at: row.take(1)?, event: row.take(2)?, commands: row.take(3)? })
}

pub(crate) fn job_row(row: &mut Row) -> Result<JobRow, String> {
    Ok(JobRow {
        server: row.take(0)?,
        number: row.take(1)?,
        key: row.take(2)?,
        owner: row.take(3)?,
        name: row.take(4)?,
        state: row.take(5)?,
        submitted: row.take(6)?,
        started: row.take(7)?,
        ended: row.take(8)?,
        expected_start: row.take(9)?,
        expected_completion: row.take(10)?,
        record: row.take(11)?,
        last_server: row.take(12)?,
    })
}

pub(crate) fn job(
    db: &mut dyn Statements,
    server: &str,
    number: u32,
) -> Result<Option<JobRow>, JournalError> {
    let text = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE server = $1 AND number = $2");
    read_first(db, &text, &[server.into(), number.into()], job_row)
}

pub(crate) fn jobs_later_than(
    db: &mut dyn Statements,
    server: &str,
    number: u32,
    limit: u32,
) -> Result<Vec<JobRow>, JournalError> {
    let text =
        format!("SELECT {JOB_COLUMNS} FROM jobs WHERE server = $1 AND number > $2 ORDER BY number LIMIT $3");
    read_all(db, &text, &[server.into(), number.into(), limit.into()], job_row)
}

pub(crate) fn job_by_key(db: &mut dyn Statements, key: &[u8; 16]) -> Result<Option<JobRow>, JournalError> {
    let text = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE key = $1 ORDER BY ended DESC LIMIT 1");
    read_first(db, &text, &[Value::Bytes(key.to_vec())], job_row)
}

pub(crate) fn jobs(db: &mut dyn Statements, filter: &crate::Filter) -> Result<Vec<JobRow>, JournalError> {
    let mut rows = Vec::new();
    for query in listing::queries(filter) {
        rows.extend(read_all(db, &query.text, &query.values, job_row)?);
    }
    Ok(listing::merged(filter, rows))
}

pub(crate) fn ended_since(
    db: &mut dyn Statements,
    since: i64,
    before: Option<&JobCursor>,
    limit: u32,
) -> Result<Vec<JobRow>, JournalError> {
    let mut values = vec![since.into()];
    let mut conditions = "ended >= $1".to_owned();
    if let Some((ended, server, number)) = before {
        values.extend([(*ended).into(), server.as_str().into(), (*number).into()]);
        conditions += " AND (ended, server, number) < ($2, $3, $4)";
    }
    values.push(limit.into());
    let text = format!(
        "SELECT {JOB_COLUMNS} FROM jobs WHERE {conditions} ORDER BY ended DESC, server DESC, number DESC LIMIT ${}",
        values.len()
    );
    read_all(db, &text, &values, job_row)
}

pub(crate) fn accuracy(
    db: &mut dyn Statements,
    server: &str,
    last: u32,
) -> Result<Vec<(i64, i64)>, JournalError> {
    let text = "SELECT started - expected_start, ended - expected_completion FROM jobs \
                WHERE last_server = $1 AND started IS NOT NULL AND expected_start IS NOT NULL \
                AND expected_completion IS NOT NULL ORDER BY ended DESC, number DESC LIMIT $2";
    read_all(db, text, &[server.into(), last.into()], |row| Ok((row.take(0)?, row.take(1)?)))
}

/// The servers with ended jobs, one search of the index per server.
pub(crate) fn servers(db: &mut dyn Statements) -> Result<Vec<String>, JournalError> {
    let mut found: Vec<String> = Vec::new();
    let text = "SELECT min(last_server) FROM jobs WHERE last_server > $1";
    loop {
        let last = found.last().map_or("", String::as_str);
        match read_one(db, text, &[last.into()], |row| row.take::<Option<String>>(0))? {
            Some(server) => found.push(server),
            None => return Ok(found),
        }
    }
}

pub(crate) fn local_jobs(
    db: &mut dyn Statements,
    since: i64,
    after: Option<LocalJobCursor>,
    limit: u32,
) -> Result<Vec<(LocalJobCursor, LocalJobRow)>, JournalError> {
    let (ended, number) = after.map_or((since, 0), |after| after.max((since, 0)));
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    let text = "SELECT ended, seq, record FROM local_jobs WHERE (ended, seq) > ($1, $2) \
                ORDER BY ended, seq LIMIT $3";
    read_all(db, text, &[ended.into(), number.into(), limit.into()], |row| {
        let ended = row.take(0)?;
        Ok(((ended, row.take(1)?), LocalJobRow { ended, record: row.take(2)? }))
    })
}

pub(crate) fn audit(
    db: &mut dyn Statements,
    after: u64,
    limit: u32,
) -> Result<Vec<(u64, AuditRow)>, JournalError> {
    let text = "SELECT seq, at, record FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2";
    let read = |row: &mut Row| Ok((row.take(0)?, AuditRow { at: row.take(1)?, record: row.take(2)? }));
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    read_all(db, text, &[after.into(), limit.into()], read)
}

pub(crate) fn entries(db: &mut dyn Statements, from: u64, limit: u32) -> Result<Vec<Entry>, JournalError> {
    let text = "SELECT seq, at, event, commands FROM entries WHERE seq >= $1 ORDER BY seq LIMIT $2";
    read_all(db, text, &[from.into(), limit.into()], entry)
}

pub(crate) fn status_updates(
    db: &mut dyn Statements,
    after: u64,
    limit: u32,
) -> Result<Vec<StatusUpdate>, JournalError> {
    let text = "SELECT seq, body FROM status_updates WHERE seq > $1 ORDER BY seq LIMIT $2";
    let read = |row: &mut Row| Ok(StatusUpdate { seq: row.take(0)?, body: row.take(1)? });
    read_all(db, text, &[after.into(), limit.into()], read)
}

pub(crate) fn last_number(db: &mut dyn Statements, server: &str) -> Result<Option<u32>, JournalError> {
    let text = "SELECT max(number) FROM jobs WHERE server = $1";
    read_one(db, text, &[server.into()], |row| row.take(0))
}

pub(crate) fn ended(db: &mut dyn Statements) -> Result<u64, JournalError> {
    read_one(db, "SELECT count(*) FROM jobs", &[], |row| row.take(0))
}

/// Sets the owner if the journal has none; returns the owner.
pub(crate) fn claim(db: &mut dyn Statements, owner: &str) -> Result<String, JournalError> {
    match read_one(db, "SELECT owner FROM metadata", &[], |row| row.take::<Option<String>>(0))? {
        Some(owner) => Ok(owner),
        None => {
            db.execute("UPDATE metadata SET owner = $1", &[owner.into()])?;
            Ok(owner.to_owned())
        }
    }
}

/// Reads what a restart begins with and checks that nothing is missing.
pub(crate) fn load(db: &mut dyn Statements, tail: Tail) -> Result<Loaded, JournalError> {
    let text = "SELECT seq, at, parts FROM snapshots ORDER BY seq DESC LIMIT 1";
    let read = |row: &mut Row| Ok(Snapshot { seq: row.take(0)?, at: row.take(1)?, parts: row.take(2)? });
    let snapshot = read_first(db, text, &[], read)?;
    let after = snapshot.map_or(0, |snapshot| snapshot.seq);
    let entries =
        read_all(db, "SELECT seq FROM entries WHERE seq > $1 ORDER BY seq", &[after.into()], first)?;
    let status_updates = read_all(db, "SELECT seq FROM status_updates ORDER BY seq", &[], first)?;
    tail.check(&db.location(), after, &entries, &status_updates)?;
    let (last_entry, next_update) = (tail.last_entry, tail.next_update);
    Ok(Loaded { snapshot, last_entry, status_updates, next_update, history: history(db)? })
}

/// About how many bytes the entries have, from samples: to read them all takes too long.
fn history(db: &mut dyn Statements) -> Result<Vec<EntryBytes>, JournalError> {
    let bounds =
        read_one(db, "SELECT min(seq), max(seq) FROM entries", &[], |row| Ok((row.take(0)?, row.take(1)?)))?;
    let (Some(first), Some(last)): (Option<u64>, Option<u64>) = bounds else { return Ok(Vec::new()) };
    let count = (last - first + 1).div_ceil(HISTORY_PARTS);
    (first..=last)
        .step_by(count as usize)
        .map(|first| sampled(db, first, count.min(last + 1 - first)))
        .collect()
}

/// About how many bytes so many entries have from this one on.
fn sampled(db: &mut dyn Statements, first: u64, count: u64) -> Result<EntryBytes, JournalError> {
    let (step, mut sum, mut samples) = (count.div_ceil(HISTORY_SAMPLES), 0_u128, 0_u128);
    for seq in (first..first + count).step_by(step as usize) {
        let text = "SELECT CAST(octet_length(event) AS BIGINT) FROM entries WHERE seq = $1";
        let bytes: Option<u64> = read_first(db, text, &[seq.into()], |row| row.take(0))?;
        sum += u128::from(bytes.unwrap_or(0));
        samples += 1;
    }
    let bytes = (sum * u128::from(count) / samples.max(1)) as u64;
    Ok(EntryBytes { first, bytes })
}

fn first(row: &mut Row) -> Result<u64, String> {
    row.take(0)
}

pub(crate) fn snapshot_part(db: &mut dyn Statements, seq: u64, part: u32) -> Result<Vec<u8>, JournalError> {
    let text = "SELECT bytes, hash FROM snapshot_parts WHERE seq = $1 AND part = $2";
    let read = |row: &mut Row| Ok((row.take(0)?, row.take(1)?));
    let (bytes, hash): (Vec<u8>, u64) = read_one(db, text, &[seq.into(), part.into()], read)?;
    if Fnv::of(&bytes) == hash {
        return Ok(bytes);
    }
    let why = format!("part {part} of the snapshot of entry {seq} is not what was written");
    Err(JournalError::Damaged { location: db.location(), why })
}

/// Checks that a repeated batch is the one that the journal holds.
pub(crate) fn check_repeated(db: &mut dyn Statements, batch: &Batch) -> Result<(), JournalError> {
    let seq = batch.entries.last().map_or(0, |entry| entry.seq);
    let text = "SELECT seq, at, event, commands FROM entries WHERE seq = $1";
    same(batch, read_first(db, text, &[seq.into()], entry)?.as_ref())
}

/// Stores a part of a snapshot, which counts from its last part on.
pub(crate) fn store_part(db: &mut dyn Statements, part: &SnapshotPart) -> Result<(), JournalError> {
    let SnapshotPart { seq, at, part, bytes, is_last } = part;
    let text = "INSERT INTO snapshot_parts (seq, part, bytes, hash) VALUES ($1, $2, $3, $4) \
                ON CONFLICT (seq, part) DO UPDATE SET bytes = excluded.bytes, hash = excluded.hash";
    let hash = Fnv::of(bytes);
    db.execute(text, &[(*seq).into(), (*part).into(), Value::Bytes(bytes.clone()), hash.into()])?;
    if !*is_last {
        return Ok(());
    }
    let text = "INSERT INTO snapshots (seq, at, parts) VALUES ($1, $2, $3) \
                ON CONFLICT (seq) DO UPDATE SET at = excluded.at, parts = excluded.parts";
    db.execute(text, &[(*seq).into(), (*at).into(), (part + 1).into()])?;
    db.execute("DELETE FROM snapshots WHERE seq < (SELECT max(seq) FROM snapshots)", &[])
}
