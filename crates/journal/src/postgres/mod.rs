//! The journal in PostgreSQL, for an agent that another one stands by.
//!
//! **Who leads.** The leader's connection, the one that commits, holds a lock of its session (an advisory
//! lock). The database gives it back when that connection ends, however the leader died, and then a daemon
//! that stands by takes it. Whoever takes it counts up the *term* in the table `about`. Every transaction of
//! a leader begins by changing that row where the term is still its own, so that one whose lock was lost
//! without its knowing (a failover of the database, a pooler between) cannot commit.
//!
//! **A commit whose outcome is not known.** If the connection breaks, the next call makes a new one and takes
//! the lock again. The database gives the lock back only when the old transaction is over, so the end of the
//! journal, read then, tells whether the batch is there; and an unchanged term tells that nobody else wrote.

mod archive;
mod link;
mod rows;
mod schema;

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::types::ToSql;

use self::archive::PostgresArchive;
use self::link::{Link, Loop, lasting};
use self::rows::entry;
use self::schema::About;
use super::sequence::{Fresh, Tail, same};
use super::{Archive, Batch, DROPPED_AT_ONCE, Entry, Journal, JournalError, Loaded, Snapshot, of_owner};

/// How often a daemon that stands by tries to take the lead. It does not wait in the database: a statement
/// that runs for weeks keeps the database from clearing up what was deleted meanwhile.
const TURN: Duration = Duration::from_millis(500);
/// The first pause: most often the daemon that had the lead has just ended, and the database is about to
/// notice.
const FIRST_TURN: Duration = Duration::from_millis(10);
/// The database in messages; where exactly it is, the configuration says.
const PLACE: &str = "the PostgreSQL database";

/// The leader's journal.
pub(super) struct Postgres {
    runtime: Loop,
    config: Config,
    id: u64,
    /// Which leader this is, counted from 1.
    term: i64,
    tail: Tail,
    /// None once it was lost.
    link: Option<Link>,
}

impl Postgres {
    pub(super) fn open(connection: &str) -> Result<Postgres, JournalError> {
        let config = lasting(connection)?;
        let runtime = Loop::new()?;
        let (link, about) = runtime.wait(async {
            let mut link = schema::prepare(Link::open(&config).await?).await?;
            let (mut told, mut pause) = (false, FIRST_TURN);
            loop {
                match lead(&mut link).await {
                    Ok(Some(about)) => break Ok((link, about)),
                    Ok(None) if !told && pause == TURN => {
                        tracing::info!("standing by: another daemon has the journal");
                        told = true;
                    }
                    Ok(None) => {}
                    Err(JournalError::Unreachable { why }) => {
                        tracing::warn!(%why, "standing by: cannot reach the journal's database");
                        if let Ok(again) = Link::open(&config).await {
                            link = again;
                        }
                    }
                    Err(error) => break Err(error),
                }
                tokio::time::sleep(pause).await;
                pause = TURN.min(pause * 2);
            }
        })?;
        Ok(Postgres { runtime, config, id: about.id, term: about.term, tail: about.tail, link: Some(link) })
    }
}

/// Takes the lead if nobody has it.
async fn lead(link: &mut Link) -> Result<Option<About>, JournalError> {
    if !schema::try_lock(link).await? {
        return Ok(None);
    }
    // The leader before may have been of another version.
    schema::check(link).await?;
    schema::next_term(link).await.map(Some)
}

/// The leader, apart from the loop that drives it.
struct Leader<'j> {
    config: &'j Config,
    term: i64,
    tail: &'j mut Tail,
    link: &'j mut Option<Link>,
}

impl Postgres {
    fn leader(&mut self) -> (&Loop, Leader<'_>) {
        let Postgres { runtime, config, term, tail, link, .. } = self;
        (runtime, Leader { config, term: *term, tail, link })
    }
}

impl Leader<'_> {
    /// The connection, made anew if it was lost.
    async fn reach(&mut self) -> Result<(), JournalError> {
        if self.link.as_ref().is_some_and(Link::is_open) {
            return Ok(());
        }
        *self.link = None;
        let mut link = Link::open(self.config).await?;
        self.check(&schema::about(&mut link).await?)?;
        if !schema::try_lock(&mut link).await? {
            // The database has not noticed yet that the old connection is gone, or somebody is just taking
            // the lead: the next attempt shows.
            return Err(JournalError::Unreachable {
                why: "it still holds the lock of a lost connection".to_owned(),
            });
        }
        let about = schema::about(&mut link).await?;
        self.check(&about)?;
        *self.tail = about.tail;
        *self.link = Some(link);
        Ok(())
    }

    fn check(&self, about: &About) -> Result<(), JournalError> {
        if about.term == self.term { Ok(()) } else { Err(deposed(self.term, Some(about.term))) }
    }

    /// Runs `work` in a transaction of the leader, which ends at `tail`.
    async fn transact<A>(
        &mut self,
        tail: Tail,
        work: impl AsyncFnOnce(&mut Link) -> Result<A, JournalError>,
    ) -> Result<A, JournalError> {
        let term = self.term;
        let Some(link) = self.link.as_mut() else { return Err(lost()) };
        let done = async {
            link.run("BEGIN").await?;
            let fence = "UPDATE about SET last_entry = $2, next_notice = $3 WHERE term = $1";
            let values: [&(dyn ToSql + Sync); 3] =
                [&term, &(tail.last_entry as i64), &(tail.next_notice as i64)];
            if link.execute(fence, &values).await? == 0 {
                return Err(deposed(term, None));
            }
            let done = work(link).await?;
            link.run("COMMIT").await?;
            Ok(done)
        };
        let done = done.await;
        match &done {
            Ok(_) => *self.tail = tail,
            // A connection that cannot roll back is of no use; the next call finds out what became of the
            // commit.
            Err(_) => {
                if link.run("ROLLBACK").await.is_err() {
                    *self.link = None;
                }
            }
        }
        done
    }

    async fn claim(&mut self, owner: &str) -> Result<(), JournalError> {
        self.reach().await?;
        let tail = *self.tail;
        let found: String = self
            .transact(tail, async |link| {
                link.execute("UPDATE about SET owner = $1 WHERE owner IS NULL", &[&owner]).await?;
                Ok(link.one("SELECT owner FROM about", &[]).await?.try_get(0)?)
            })
            .await?;
        of_owner(PLACE, owner, found)
    }

    async fn load(&mut self) -> Result<Loaded, JournalError> {
        self.reach().await?;
        let Some(link) = self.link.as_mut() else { return Err(lost()) };
        let tail = schema::about(link).await?.tail;
        let snapshot =
            link.rows("SELECT seq, at, state FROM snapshots ORDER BY seq DESC LIMIT 1", &[]).await?;
        let snapshot = snapshot.first().map(rows::snapshot).transpose()?;
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq) as i64;
        let text = "SELECT seq, at, event, commands FROM entries WHERE seq > $1 ORDER BY seq";
        let entries = link.rows(text, &[&after]).await?.iter().map(entry).collect::<Result<_, _>>()?;
        let notices = link.rows("SELECT seq FROM notices ORDER BY seq", &[]).await?;
        let notices = notices.iter().map(rows::number).collect::<Result<_, _>>()?;
        let loaded = Loaded { snapshot, entries, notices, next_notice: tail.next_notice };
        tail.check(PLACE, &loaded)?;
        *self.tail = tail;
        Ok(loaded)
    }

    async fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.reach().await?;
        let Some(fresh) = self.tail.fresh(batch)? else { return self.check_same(batch).await };
        let tail = fresh.tail;
        self.transact(tail, async |link| write(link, batch, &fresh).await).await
    }

    /// An error if a batch that is there already is another one.
    async fn check_same(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let Some(link) = self.link.as_mut() else { return Err(lost()) };
        let seq = batch.entries.last().map_or(0, |entry| entry.seq) as i64;
        let kept = link.rows("SELECT seq, at, event, commands FROM entries WHERE seq = $1", &[&seq]).await?;
        let kept = kept.first().map(entry).transpose()?;
        same(batch, kept.as_ref())
    }

    async fn compact(&mut self, snapshot: Option<&Snapshot>, keep_after: i64) -> Result<bool, JournalError> {
        self.reach().await?;
        let tail = *self.tail;
        tail.covers(snapshot.map_or(0, |snapshot| snapshot.seq))?;
        let work = async |link: &mut Link| {
            if let Some(Snapshot { seq, at, state }) = snapshot {
                let text = "INSERT INTO snapshots (seq, at, state) VALUES ($1, $2, $3) \
                            ON CONFLICT (seq) DO UPDATE SET at = excluded.at, state = excluded.state";
                link.execute(text, &[&(*seq as i64), at, state]).await?;
                link.execute("DELETE FROM snapshots WHERE seq < (SELECT max(seq) FROM snapshots)", &[])
                    .await?;
            }
            trim(link, keep_after).await
        };
        self.transact(tail, work).await
    }
}

impl Journal for Postgres {
    fn id(&self) -> u64 {
        self.id
    }

    fn claim(&mut self, owner: &str) -> Result<(), JournalError> {
        let (runtime, mut leader) = self.leader();
        runtime.wait(leader.claim(owner))
    }

    fn load(&mut self) -> Result<Loaded, JournalError> {
        let (runtime, mut leader) = self.leader();
        runtime.wait(leader.load())
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let (runtime, mut leader) = self.leader();
        runtime.wait(leader.commit(batch))
    }

    fn compact(&mut self, snapshot: &Snapshot, keep_after: i64) -> Result<bool, JournalError> {
        let (runtime, mut leader) = self.leader();
        runtime.wait(leader.compact(Some(snapshot), keep_after))
    }

    fn trim(&mut self, keep_after: i64) -> Result<bool, JournalError> {
        let (runtime, mut leader) = self.leader();
        runtime.wait(leader.compact(None, keep_after))
    }

    fn archive(&self) -> Result<Box<dyn Archive>, JournalError> {
        Ok(Box::new(PostgresArchive::new(self.config.clone())?))
    }
}

fn deposed(term: i64, found: Option<i64>) -> JournalError {
    let found = found.map_or("a later one".to_owned(), |found| format!("term {found}"));
    JournalError::Deposed { why: format!("expected term {term} of the journal, found {found}") }
}

fn lost() -> JournalError {
    JournalError::Unreachable { why: "the connection was lost".to_owned() }
}

async fn write(link: &mut Link, batch: &Batch, fresh: &Fresh<'_>) -> Result<(), JournalError> {
    if !fresh.entries.is_empty() {
        let column = |of: fn(&Entry) -> i64| fresh.entries.iter().map(of).collect::<Vec<i64>>();
        let (seqs, ats) = (column(|entry| entry.seq as i64), column(|entry| entry.at));
        let commands = column(|entry| entry.commands as i64);
        let events: Vec<&str> = fresh.entries.iter().map(|entry| entry.event.as_str()).collect();
        let text = "INSERT INTO entries (seq, at, event, commands) \
                    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[])";
        link.execute(text, &[&seqs, &ats, &events, &commands]).await?;
    }
    if !fresh.notices.is_empty() {
        let seqs: Vec<i64> = fresh.notices.iter().map(|notice| notice.seq as i64).collect();
        let bodies: Vec<&str> = fresh.notices.iter().map(|notice| notice.body.as_str()).collect();
        let text = "INSERT INTO notices (seq, body) SELECT * FROM unnest($1::bigint[], $2::text[])";
        link.execute(text, &[&seqs, &bodies]).await?;
    }
    if let Some(acknowledged) = batch.notices_acknowledged {
        link.execute("DELETE FROM notices WHERE seq <= $1", &[&(acknowledged as i64)]).await?;
    }
    rows::write_jobs(link, &batch.ended).await?;
    rows::write_locals(link, &batch.locals).await
}

/// Drops the oldest entries, those before the first one, among the next few, that is to be kept; and runs of local users'
/// jobs.
async fn trim(link: &mut Link, keep_after: i64) -> Result<bool, JournalError> {
    let locals = "DELETE FROM local_jobs WHERE seq IN \
                  (SELECT seq FROM local_jobs WHERE ended < $1 ORDER BY ended, seq LIMIT $2)";
    link.execute(locals, &[&keep_after, &(DROPPED_AT_ONCE as i64)]).await?;
    let bounds = "SELECT (SELECT min(seq) FROM entries), (SELECT max(seq) FROM snapshots)";
    let bounds = link.one(bounds, &[]).await?;
    let (first, snapshot): (Option<i64>, Option<i64>) = (bounds.try_get(0)?, bounds.try_get(1)?);
    let (Some(first), Some(snapshot)) = (first, snapshot) else { return Ok(false) };
    let end = (first + DROPPED_AT_ONCE as i64).min(snapshot + 1);
    let text = "SELECT seq FROM entries WHERE seq >= $1 AND seq < $2 AND at >= $3 ORDER BY seq LIMIT 1";
    let kept = link.rows(text, &[&first, &end, &keep_after]).await?;
    let end = kept.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(end);
    link.execute("DELETE FROM entries WHERE seq < $1", &[&end]).await?;
    let text = "SELECT EXISTS (SELECT FROM entries WHERE seq = $1 AND seq <= $2 AND at < $3)";
    Ok(link.one(text, &[&end, &snapshot, &keep_after]).await?.try_get(0)?)
}
