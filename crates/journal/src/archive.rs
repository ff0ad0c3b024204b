//! Reads a journal while its daemon, or another one, writes it.

use crate::database::Statements;
use crate::sequence::whole;
use crate::{
    Archive, AuditRow, Entry, Filter, JobCursor, JobRow, JournalError, LocalJobCursor, LocalJobRow,
    StatusUpdate, queries,
};

/// A connection to a journal's database for reading.
pub(crate) trait ReadConnection: Send {
    /// Runs `read` in a read-only transaction, so that all its queries see one state. A broken connection is opened again and
    /// `read` runs again.
    fn read<A>(
        &mut self,
        read: impl FnMut(&mut dyn Statements) -> Result<A, JournalError>,
    ) -> Result<A, JournalError>;
}

/// The archive behind a connection.
pub(crate) struct Reader<C>(pub C);

impl<C: ReadConnection> Archive for Reader<C> {
    fn job(&mut self, server: &str, number: u32) -> Result<Option<JobRow>, JournalError> {
        self.0.read(|db| queries::job(db, server, number))
    }

    fn job_by_key(&mut self, key: &[u8; 16]) -> Result<Option<JobRow>, JournalError> {
        self.0.read(|db| queries::job_by_key(db, key))
    }

    fn jobs(&mut self, filter: &Filter) -> Result<Vec<JobRow>, JournalError> {
        self.0.read(|db| queries::jobs(db, filter))
    }

    fn ended_since(
        &mut self,
        since: i64,
        before: Option<JobCursor>,
        limit: u32,
    ) -> Result<Vec<JobRow>, JournalError> {
        self.0.read(|db| queries::ended_since(db, since, before.as_ref(), limit))
    }

    fn servers(&mut self) -> Result<Vec<String>, JournalError> {
        self.0.read(queries::servers)
    }

    fn accuracy(&mut self, server: &str, last: u32) -> Result<Vec<(i64, i64)>, JournalError> {
        self.0.read(|db| queries::accuracy(db, server, last))
    }

    fn local_jobs(
        &mut self,
        since: i64,
        after: Option<LocalJobCursor>,
        limit: u32,
    ) -> Result<Vec<(LocalJobCursor, LocalJobRow)>, JournalError> {
        self.0.read(|db| queries::local_jobs(db, since, after, limit))
    }

    fn audit(&mut self, after: u64, limit: u32) -> Result<Vec<(u64, AuditRow)>, JournalError> {
        self.0.read(|db| queries::audit(db, after, limit))
    }

    fn entries(&mut self, from: u64, limit: u32) -> Result<Vec<Entry>, JournalError> {
        self.0.read(|db| whole(&db.location(), queries::entries(db, from, limit)?))
    }

    fn status_updates(&mut self, after: u64, limit: u32) -> Result<Vec<StatusUpdate>, JournalError> {
        self.0.read(|db| queries::status_updates(db, after, limit))
    }

    fn jobs_later_than(
        &mut self,
        server: &str,
        number: u32,
        limit: u32,
    ) -> Result<Vec<JobRow>, JournalError> {
        self.0.read(|db| queries::jobs_later_than(db, server, number, limit))
    }

    fn last_number(&mut self, server: &str) -> Result<Option<u32>, JournalError> {
        self.0.read(|db| queries::last_number(db, server))
    }

    fn ended(&mut self) -> Result<u64, JournalError> {
        self.0.read(queries::ended)
    }
}
