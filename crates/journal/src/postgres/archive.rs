//! Reading a journal while its daemon, or another one, writes it.

use tokio_postgres::Config;
use tokio_postgres::types::ToSql;

use super::PLACE;
use super::link::{Link, Loop};
use super::rows::{entry, job, notice};
use crate::listing::{COLUMNS, Value, from, merged, questions};
use crate::sequence::whole;
use crate::{Archive, Entry, Filter, JobRow, JournalError, LocalPlace, LocalRow, Notice};

/// A reader of a journal. Connects with the first question, and anew when the connection was lost.
pub(super) struct PostgresArchive {
    runtime: Loop,
    config: Config,
    link: Option<Link>,
}

impl PostgresArchive {
    pub(super) fn new(config: Config) -> Result<PostgresArchive, JournalError> {
        Ok(PostgresArchive { runtime: Loop::new()?, config, link: None })
    }

    fn ask<A>(
        &mut self,
        question: impl AsyncFn(&mut Link) -> Result<A, JournalError>,
    ) -> Result<A, JournalError> {
        let PostgresArchive { runtime, config, link } = self;
        runtime.wait(async {
            // A connection that was lost while nothing was asked is noticed now: then once more, on a new
            // one.
            if let Some(old) = link.as_mut() {
                match within(old, &question).await {
                    Err(JournalError::Unreachable { .. }) => *link = None,
                    other => return other,
                }
            }
            let mut new = Link::open(config).await?;
            let answer = within(&mut new, &question).await;
            *link = Some(new);
            answer
        })
    }
}

/// Asks in a transaction, so that all answers are of one state of the journal.
async fn within<A>(
    link: &mut Link,
    question: &impl AsyncFn(&mut Link) -> Result<A, JournalError>,
) -> Result<A, JournalError> {
    link.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let answer = question(link).await;
    let ended = link.run("ROLLBACK").await;
    let answer = answer?;
    ended.map(|()| answer)
}

impl Value {
    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number,
        }
    }
}

impl Archive for PostgresArchive {
    fn job(&mut self, server: &str, number: u32) -> Result<Option<JobRow>, JournalError> {
        self.ask(async |link| {
            let text = format!("SELECT {COLUMNS} FROM jobs WHERE server = $1 AND number = $2");
            let rows = link.rows(&text, &[&server, &i64::from(number)]).await?;
            rows.first().map(job).transpose()
        })
    }

    fn job_by_key(&mut self, key: &[u8; 16]) -> Result<Option<JobRow>, JournalError> {
        self.ask(async |link| {
            let text = format!("SELECT {COLUMNS} FROM jobs WHERE key = $1 ORDER BY ended DESC LIMIT 1");
            let rows = link.rows(&text, &[&key.as_slice()]).await?;
            rows.first().map(job).transpose()
        })
    }

    fn jobs(&mut self, filter: &Filter) -> Result<Vec<JobRow>, JournalError> {
        let questions = questions(filter, '$');
        let found = self.ask(async |link| {
            let mut found = Vec::new();
            for question in &questions {
                let values: Vec<_> = question.values.iter().map(Value::as_sql).collect();
                for row in link.rows(&question.text, &values).await? {
                    found.push(job(&row)?);
                }
            }
            Ok(found)
        });
        Ok(merged(filter, found?))
    }

    fn accuracy(&mut self, server: Option<&str>, last: u32) -> Result<Vec<(String, i64, i64)>, JournalError> {
        self.ask(async |link| {
            let servers = match server {
                Some(server) => vec![server.to_owned()],
                None => servers(link).await?,
            };
            let text = "SELECT last_server, started - expected_start, ended - expected_completion FROM jobs \
                        WHERE last_server = $1 AND started IS NOT NULL AND expected_start IS NOT NULL \
                        AND expected_completion IS NOT NULL ORDER BY ended DESC, number DESC LIMIT $2";
            let mut errors = Vec::new();
            for server in servers {
                for row in link.rows(text, &[&server, &i64::from(last)]).await? {
                    errors.push((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
                }
            }
            Ok(errors)
        })
    }

    fn locals(
        &mut self,
        since: i64,
        after: Option<LocalPlace>,
        limit: u32,
    ) -> Result<Vec<(LocalPlace, LocalRow)>, JournalError> {
        let (ended, number) = from(since, after);
        self.ask(async |link| {
            let text = "SELECT ended, seq, record FROM local_jobs WHERE (ended, seq) > ($1, $2) \
                        ORDER BY ended, seq LIMIT $3";
            let rows = link.rows(text, &[&ended, &number, &i64::from(limit)]).await?;
            let row = |row: &tokio_postgres::Row| {
                let (ended, number): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                Ok(((ended, number as u64), LocalRow { ended, record: row.try_get(2)? }))
            };
            rows.iter().map(row).collect()
        })
    }

    fn entries(&mut self, from: u64, limit: u32) -> Result<Vec<Entry>, JournalError> {
        let entries = self.ask(async |link| {
            let text = "SELECT seq, at, event, commands FROM entries WHERE seq >= $1 ORDER BY seq LIMIT $2";
            let rows = link.rows(text, &[&(from as i64), &i64::from(limit)]).await?;
            rows.iter().map(entry).collect()
        });
        whole(PLACE, entries?)
    }

    fn notices(&mut self, after: u64, limit: u32) -> Result<Vec<Notice>, JournalError> {
        self.ask(async |link| {
            let text = "SELECT seq, body FROM notices WHERE seq > $1 ORDER BY seq LIMIT $2";
            let rows = link.rows(text, &[&(after as i64), &i64::from(limit)]).await?;
            rows.iter().map(notice).collect()
        })
    }

    fn last_number(&mut self, server: &str) -> Result<Option<u32>, JournalError> {
        self.ask(async |link| {
            let text = "SELECT max(number) FROM jobs WHERE server = $1";
            let last: Option<i64> = link.one(text, &[&server]).await?.try_get(0)?;
            Ok(last.map(|last| u32::try_from(last).unwrap_or(u32::MAX)))
        })
    }

    fn ended(&mut self) -> Result<u64, JournalError> {
        self.ask(async |link| {
            let count: i64 = link.one("SELECT count(*) FROM jobs", &[]).await?.try_get(0)?;
            Ok(count as u64)
        })
    }
}

/// The servers that have had jobs to their end, hopping from one to the next in the index.
async fn servers(link: &mut Link) -> Result<Vec<String>, JournalError> {
    let mut found: Vec<String> = Vec::new();
    loop {
        let last = found.last().map_or("", String::as_str);
        let next = link.one("SELECT min(last_server) FROM jobs WHERE last_server > $1", &[&last]).await?;
        match next.try_get::<_, Option<String>>(0)? {
            Some(server) => found.push(server),
            None => return Ok(found),
        }
    }
}
