//! A connection to the database, and the loop that drives it.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use crate::JournalError;

/// How long making a connection may take, if the connection string does not say.
const CONNECTING: Duration = Duration::from_secs(5);
/// When a silent peer is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(10);
/// How often it is asked again, and how many times.
const AGAIN: Duration = Duration::from_secs(5);
const TIMES: u32 = 3;
/// How long what was sent may stay unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(25);

/// How long a statement may take before the database counts as away. A server that hangs keeps its connections alive.
const ANSWER: Duration = Duration::from_secs(30);

/// What every session sets, where the server knows it. The time limits that an administrator may have set are
/// for people; a journal's connection is idle for long, and must not lose its lock for that. The server has
/// to notice as soon as we do that the other end is gone, as the lock is held until then.
const SESSION: &str = "
    SELECT set_config(wanted.name, wanted.value, false)
    FROM (VALUES ('search_path', 'pliant'), ('statement_timeout', '0'), ('lock_timeout', '0'),
        ('idle_session_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
        ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '25000')) AS wanted (name, value)
    JOIN pg_catalog.pg_settings USING (name);
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// The configuration in a connection string, with what it does not say about waiting.
pub(super) fn lasting(connection: &str) -> Result<Config, JournalError> {
    let said = |error: &tokio_postgres::Error| {
        let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
        format!("{error}{source}")
    };
    let mut config: Config =
        connection.parse().map_err(|error| JournalError::Connection { why: said(&error) })?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECTING);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED);
    }
    if config.get_keepalives_interval().is_none() && config.get_keepalives_retries().is_none() {
        config.keepalives_idle(SILENCE).keepalives_interval(AGAIN).keepalives_retries(TIMES);
    }
    if config.get_application_name().is_none() {
        config.application_name("pliant");
    }
    Ok(config)
}

/// Drives connections while somebody waits for them; nothing goes on in between.
pub(super) struct Loop(Option<Runtime>);

impl Loop {
    pub(super) fn new() -> Result<Loop, JournalError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| JournalError::Failed { why: error.to_string() })?;
        Ok(Loop(Some(runtime)))
    }

    /// Waits for what a connection does.
    pub(super) fn wait<F: Future>(&self, work: F) -> F::Output {
        self.0.as_ref().expect("it is there until it is dropped").block_on(work)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Ends the connections as well. Waits for nothing, so that a journal may be dropped anywhere.
            runtime.shutdown_background();
        }
    }
}

/// A connection with its prepared statements.
pub(super) struct Link {
    client: Client,
    statements: HashMap<String, Statement>,
    /// It did not answer in time; nobody knows what it is doing.
    hangs: bool,
}

impl Link {
    pub(super) async fn open(config: &Config) -> Result<Link, JournalError> {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(async move {
            // Whoever uses the connection is told as well.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the journal's database has ended");
            }
        });
        let mut link = Link { client, statements: HashMap::new(), hangs: false };
        link.run(SESSION).await?;
        Ok(link)
    }

    pub(super) fn is_open(&self) -> bool {
        !self.hangs && !self.client.is_closed()
    }

    /// Runs statements without values.
    pub(super) async fn run(&mut self, text: &str) -> Result<(), JournalError> {
        within(&mut self.hangs, self.client.batch_execute(text)).await
    }

    /// Runs a statement; how many rows it changed.
    pub(super) async fn execute(
        &mut self,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, JournalError> {
        let statement = self.prepared(text).await?;
        within(&mut self.hangs, self.client.execute(&statement, values)).await
    }

    /// The rows of an answer.
    pub(super) async fn rows(
        &mut self,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, JournalError> {
        let statement = self.prepared(text).await?;
        within(&mut self.hangs, self.client.query(&statement, values)).await
    }

    /// The only row of an answer.
    pub(super) async fn one(
        &mut self,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, JournalError> {
        let statement = self.prepared(text).await?;
        within(&mut self.hangs, self.client.query_one(&statement, values)).await
    }

    async fn prepared(&mut self, text: &str) -> Result<Statement, JournalError> {
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = within(&mut self.hangs, self.client.prepare(text)).await?;
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// An answer, if it comes in time; nothing is asked on a link that hangs.
async fn within<A>(
    hangs: &mut bool,
    answer: impl Future<Output = Result<A, tokio_postgres::Error>>,
) -> Result<A, JournalError> {
    let late = || JournalError::Unreachable { why: format!("no answer within {} s", ANSWER.as_secs()) };
    if *hangs {
        return Err(late());
    }
    match tokio::time::timeout(ANSWER, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => {
            *hangs = true;
            Err(late())
        }
    }
}
