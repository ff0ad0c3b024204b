//! The journal in PostgreSQL, for agents with a standby.
//!
//! **Leader.** The leader's connection holds an advisory lock of its session. The database releases the lock when this
//! connection ends, and the standby takes it. The new leader increments the *term* in the table `metadata`. Every
//! transaction of a leader starts with an update of this row that requires the leader's own term, so that a leader
//! whose lock was lost unnoticed (a failover of the database, a pooler in between) cannot commit.
//!
//! **Unknown outcome of a commit.** After the connection breaks, the next call connects again and takes the lock. The
//! database releases the lock only after the end of the old transaction, so the end of the journal then shows whether
//! the batch was committed; an unchanged term shows that no other daemon wrote. A journal that ends earlier than before is that of a
//! replica which had not got all commits when it took over: what is missing was promised, so the leader ends. So does a standby that
//! takes the lock of a journal with an earlier term or end than it has seen while it waited.

mod schema;
mod session;
mod statements;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::ToSql;

use self::schema::Metadata;
use self::session::{Executor, Session, Target};
use self::statements::PostgresReader;
use crate::archive::Reader;
use crate::sequence::{Fresh, Tail};
use crate::{
    Archive, Batch, Entry, Inodes, Journal, JournalError, KeepFrom, Loaded, check_owner, queries, trim,
};

/// The longest pause between attempts of a standby to take the lock. It does not wait inside the database, because a long
/// statement keeps the database from vacuuming.
const RETRY: Duration = Duration::from_millis(500);
/// The first pause: usually the previous leader has just ended and the database is about to notice.
const FIRST_RETRY: Duration = Duration::from_millis(10);
/// The database in messages.
const LOCATION: &str = "the PostgreSQL database";

/// The leader's journal.
pub(super) struct Postgres {
    executor: Arc<Executor>,
    target: Target,
    id: u64,
    /// The number of this leader, from 1.
    term: i64,
    tail: Tail,
    /// None after the connection was lost.
    session: Option<Session>,
}

impl Postgres {
    pub(super) fn open(connection: &str) -> Result<Postgres, JournalError> {
        let target = Target::read(connection)?;
        let executor = Executor::new()?;
        let mut session = Session::open(&executor, &target)?;
        session.without_limit(schema::prepare)?;
        let (mut logged, mut pause, mut seen) = (false, FIRST_RETRY, None);
        loop {
            match lead(&mut session, &mut seen) {
                Ok(Some(Metadata { id, term, tail })) => {
                    return Ok(Postgres { executor, target, id, term, tail, session: Some(session) });
                }
                Ok(None) if !logged && pause == RETRY => {
                    tracing::info!("standing by: another daemon has the journal");
                    logged = true;
                }
                Ok(None) => {}
                Err(JournalError::Unreachable { why }) => {
                    tracing::warn!(%why, "standing by: cannot reach the journal's database");
                    if let Ok(again) = Session::open(&executor, &target) {
                        session = again;
                    }
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(pause);
            pause = RETRY.min(pause * 2);
        }
    }

    /// Opens a session with the leader's lock again if it was lost.
    fn connect(&mut self) -> Result<(), JournalError> {
        if !self.session.as_ref().is_some_and(Session::is_open) {
            self.session = None;
            let mut session = Session::open(&self.executor, &self.target)?;
            self.check_term(&schema::metadata(&mut session)?)?;
            if !schema::try_lock(&mut session)? {
                // The database has not noticed yet that the old connection is lost, or a standby is taking the lock:
                // the next attempt shows which.
                let why = "it still holds the lock of a lost connection".to_owned();
                return Err(JournalError::Unreachable { why });
            }
            let metadata = schema::metadata(&mut session)?;
            self.check_term(&metadata)?;
            metadata.tail.check_follows(LOCATION, self.tail)?;
            self.tail = metadata.tail;
            self.session = Some(session);
        }
        Ok(())
    }

    fn session(&mut self) -> Result<&mut Session, JournalError> {
        let lost = || JournalError::Unreachable { why: "the connection was lost".to_owned() };
        self.session.as_mut().ok_or_else(lost)
    }

    fn check_term(&self, metadata: &Metadata) -> Result<(), JournalError> {
        check_later_term(self.term, metadata.term)?;
        if metadata.term == self.term { Ok(()) } else { Err(deposed(self.term, Some(metadata.term))) }
    }

    /// Runs `work` in a transaction of the leader; the journal ends at `tail` after it.
    fn transact<A>(
        &mut self,
        tail: Tail,
        work: impl FnOnce(&mut Session) -> Result<A, JournalError>,
    ) -> Result<A, JournalError> {
        let term = self.term;
        let session = self.session()?;
        let done = in_transaction(session, term, tail, work);
        // A session that cannot roll back is closed; the next call finds out whether the commit succeeded.
        let usable = done.is_ok() || session.run("ROLLBACK").is_ok();
        if !usable {
            self.session = None;
        }
        if done.is_ok() {
            self.tail = tail;
        }
        done
    }
}

/// Takes the lock if it is free, and the journal is not an earlier state of what was `seen` while another daemon led.
fn lead(session: &mut Session, seen: &mut Option<Metadata>) -> Result<Option<Metadata>, JournalError> {
    let is_free = schema::try_lock(session)?;
    // The daemon that leads or led may be of another version.
    schema::check_version(session)?;
    let present = schema::metadata(session)?;
    // Another journal in the place of the one that was there is what its administrator wanted.
    if let Some(seen) = seen.as_ref().filter(|seen| seen.id == present.id) {
        check_later_term(seen.term, present.term)?;
        present.tail.check_follows(LOCATION, seen.tail)?;
    }
    *seen = Some(present);
    if !is_free {
        return Ok(None);
    }
    schema::begin_term(session).map(Some)
}

fn in_transaction<A>(
    session: &mut Session,
    term: i64,
    tail: Tail,
    work: impl FnOnce(&mut Session) -> Result<A, JournalError>,
) -> Result<A, JournalError> {
    session.run("BEGIN")?;
    let fence = "UPDATE metadata SET last_entry = $2, next_update = $3 WHERE term = $1";
    let values: [&(dyn ToSql + Sync); 3] = [&term, &(tail.last_entry as i64), &(tail.next_update as i64)];
    if session.change(fence, &values)? == 0 {
        return Err(deposed(term, None));
    }
    let done = work(session)?;
    session.run("COMMIT")?;
    Ok(done)
}

impl Journal for Postgres {
    fn id(&self) -> u64 {
        self.id
    }

    fn claim(&mut self, owner: &str) -> Result<(), JournalError> {
        self.connect()?;
        let found = self.transact(self.tail, |session| queries::claim(session, owner))?;
        check_owner(LOCATION, owner, found)
    }

    fn load(&mut self) -> Result<Loaded, JournalError> {
        self.connect()?;
        let session = self.session()?;
        let tail = schema::metadata(session)?.tail;
        let loaded = queries::load(session, tail)?;
        self.tail = tail;
        Ok(loaded)
    }

    fn snapshot_part(&mut self, seq: u64, part: u32) -> Result<Vec<u8>, JournalError> {
        self.connect()?;
        queries::snapshot_part(self.session()?, seq, part)
    }

    fn entries(&mut self, after: u64, limit: u32) -> Result<Vec<Entry>, JournalError> {
        self.connect()?;
        queries::entries(self.session()?, after + 1, limit)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.connect()?;
        let Some(fresh) = self.tail.fresh(batch)? else {
            return queries::check_repeated(self.session()?, batch);
        };
        self.transact(fresh.tail, |session| {
            write(session, batch, &fresh)?;
            batch.snapshot_part.as_ref().map_or(Ok(()), |part| queries::store_part(session, part))
        })
    }

    /// Every commit is synced.
    fn sync(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn check_leader(&mut self) -> Result<(), JournalError> {
        self.connect()?;
        let metadata = schema::metadata(self.session()?)?;
        self.check_term(&metadata)
    }

    fn trim(&mut self, keep_from: &KeepFrom, writing: Option<u64>) -> Result<bool, JournalError> {
        self.connect()?;
        self.transact(self.tail, |session| trim::trim(session, keep_from, writing))
    }

    fn reserve(&mut self, _bytes: u64) -> Result<(), JournalError> {
        Ok(())
    }

    fn free_bytes(&self) -> Result<Option<u64>, JournalError> {
        Ok(None)
    }

    fn inodes(&self) -> Result<Option<Inodes>, JournalError> {
        Ok(None)
    }

    fn stored_bytes(&self) -> Result<Option<u64>, JournalError> {
        Ok(None)
    }

    fn archive(&self) -> Result<Box<dyn Archive>, JournalError> {
        Ok(Box::new(Reader(PostgresReader::new(self.target.clone())?)))
    }
}

/// Checks that a term is not earlier than one that was seen.
fn check_later_term(seen: i64, found: i64) -> Result<(), JournalError> {
    if found >= seen {
        return Ok(());
    }
    let (location, expected, found) = (LOCATION.to_owned(), seen as u64, found as u64);
    Err(JournalError::Lagging { location, what: "term", expected, found })
}

fn deposed(term: i64, found: Option<i64>) -> JournalError {
    let found = found.map_or("a later one".to_owned(), |found| format!("term {found}"));
    JournalError::Deposed { why: format!("expected term {term} of the journal, found {found}") }
}

fn write(session: &mut Session, batch: &Batch, fresh: &Fresh<'_>) -> Result<(), JournalError> {
    if !fresh.entries.is_empty() {
        let column = |of: fn(&Entry) -> i64| fresh.entries.iter().map(of).collect::<Vec<i64>>();
        let (seqs, ats) = (column(|entry| entry.seq as i64), column(|entry| entry.at));
        let commands = column(|entry| entry.commands as i64);
        let events: Vec<&str> = fresh.entries.iter().map(|entry| entry.event.as_str()).collect();
        let text = "INSERT INTO entries (seq, at, event, commands) \
                    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[])";
        session.change(text, &[&seqs, &ats, &events, &commands])?;
    }
    if !fresh.status_updates.is_empty() {
        let seqs: Vec<i64> = fresh.status_updates.iter().map(|update| update.seq as i64).collect();
        let bodies: Vec<&str> = fresh.status_updates.iter().map(|update| update.body.as_str()).collect();
        let text = "INSERT INTO status_updates (seq, body) SELECT * FROM unnest($1::bigint[], $2::text[])";
        session.change(text, &[&seqs, &bodies])?;
    }
    if let Some(acknowledged) = batch.updates_acknowledged {
        session.change("DELETE FROM status_updates WHERE seq <= $1", &[&(acknowledged as i64)])?;
    }
    statements::write_jobs(session, &batch.ended)?;
    statements::write_local_jobs(session, &batch.local_jobs)?;
    statements::write_audit(session, &batch.audit)
}
