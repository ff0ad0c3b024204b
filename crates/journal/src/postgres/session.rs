//! A session with the database.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Socket, Statement};

use super::tls::{self, Connector};
use crate::JournalError;

/// The default of `connect_timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The defaults of `keepalives_idle`, `keepalives_interval` and `keepalives_count`.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;
/// The default of `tcp_user_timeout`.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(25);

/// The longest time of a statement before the database counts as down, unless it may take any time
/// ([`Session::without_limit`]). A server that hangs keeps its connections alive.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of every session that the server knows. Time limits of an administrator must not end the session of a
/// journal, which is idle for long and holds a lock. Keepalives let the server release the lock soon after the
/// connection is lost.
const SETTINGS: &str = "
    SELECT set_config(wanted.name, wanted.value, false)
    FROM (VALUES ('search_path', 'pliant'), ('statement_timeout', '0'), ('lock_timeout', '0'),
        ('idle_session_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
        ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '25000')) AS wanted (name, value)
    JOIN pg_catalog.pg_settings USING (name);
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Where the database is, and how it is connected to.
#[derive(Clone)]
pub(super) struct Target {
    config: Config,
    /// None for connections without TLS.
    tls: Option<Connector>,
}

impl Target {
    /// Parses a connection string and adds defaults for timeouts.
    pub(super) fn read(connection: &str) -> Result<Target, JournalError> {
        let (connection, tls) = tls::separated(connection)?;
        Ok(Target { config: configuration(&connection)?, tls })
    }
}

fn configuration(connection: &str) -> Result<Config, JournalError> {
    let message = |error: &tokio_postgres::Error| {
        let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
        format!("{error}{source}")
    };
    let mut config: Config =
        connection.parse().map_err(|error| JournalError::Connection { why: message(&error) })?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
    }
    if config.get_keepalives_interval().is_none() && config.get_keepalives_retries().is_none() {
        config
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_COUNT);
    }
    if config.get_application_name().is_none() {
        config.application_name("pliant");
    }
    Ok(config)
}

/// Runs the tasks of connections while a caller waits for a statement.
pub(super) struct Executor(Option<Runtime>);

impl Executor {
    pub(super) fn new() -> Result<Arc<Executor>, JournalError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| JournalError::Failed { why: error.to_string() })?;
        Ok(Arc::new(Executor(Some(runtime))))
    }

    fn wait<F: Future>(&self, work: F) -> F::Output {
        self.0.as_ref().expect("the runtime exists until it is dropped").block_on(work)
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Ends the connections without waiting, so that a journal may be dropped on any thread.
            runtime.shutdown_background();
        }
    }
}

/// A connection with its prepared statements.
pub(super) struct Session {
    executor: Arc<Executor>,
    client: Client,
    statements: HashMap<String, Statement>,
    /// The longest time of a statement; none if it may take any.
    limit: Option<Duration>,
    /// A statement exceeded its limit: its outcome is unknown.
    timed_out: bool,
}

impl Session {
    pub(super) fn open(executor: &Arc<Executor>, target: &Target) -> Result<Session, JournalError> {
        let Target { config, tls } = target;
        let client = executor.wait(async {
            match tls {
                Some(tls) => connected(config, tls.clone()).await,
                None => connected(config, NoTls).await,
            }
        })?;
        let executor = executor.clone();
        let limit = Some(STATEMENT_TIMEOUT);
        let mut session = Session { executor, client, statements: HashMap::new(), limit, timed_out: false };
        session.run(SETTINGS)?;
        Ok(session)
    }

    /// Does work whose statements may take any time: tables are created or changed, and other daemons may do so first.
    pub(super) fn without_limit<A>(&mut self, work: impl FnOnce(&mut Session) -> A) -> A {
        let limit = self.limit.take();
        let done = work(self);
        self.limit = limit;
        done
    }

    pub(super) fn is_open(&self) -> bool {
        !self.timed_out && !self.client.is_closed()
    }

    /// Runs statements without parameters.
    pub(super) fn run(&mut self, text: &str) -> Result<(), JournalError> {
        within(&self.executor, self.limit, &mut self.timed_out, self.client.batch_execute(text))
    }

    /// Runs a statement and returns the number of changed rows.
    pub(super) fn change(&mut self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, JournalError> {
        let statement = self.prepared(text)?;
        within(&self.executor, self.limit, &mut self.timed_out, self.client.execute(&statement, values))
    }

    /// Runs a statement and returns its rows.
    pub(super) fn query(
        &mut self,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, JournalError> {
        let statement = self.prepared(text)?;
        within(&self.executor, self.limit, &mut self.timed_out, self.client.query(&statement, values))
    }

    fn prepared(&mut self, text: &str) -> Result<Statement, JournalError> {
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = within(&self.executor, self.limit, &mut self.timed_out, self.client.prepare(text))?;
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// Connects, and runs the connection in the background.
async fn connected<T>(config: &Config, tls: T) -> Result<Client, tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(async move {
        // The caller of a statement gets the error as well.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the journal's database has ended");
        }
    });
    Ok(client)
}

/// Waits for an answer up to the limit; fails at once after an earlier timeout.
fn within<A>(
    executor: &Executor,
    limit: Option<Duration>,
    timed_out: &mut bool,
    answer: impl Future<Output = Result<A, tokio_postgres::Error>>,
) -> Result<A, JournalError> {
    let late =
        || JournalError::Unreachable { why: format!("no answer within {} s", STATEMENT_TIMEOUT.as_secs()) };
    if *timed_out {
        return Err(late());
    }
    let Some(limit) = limit else { return Ok(executor.wait(answer)?) };
    match executor.wait(async { tokio::time::timeout(limit, answer).await }) {
        Ok(answer) => Ok(answer?),
        Err(_) => {
            *timed_out = true;
            Err(late())
        }
    }
}

#[cfg(test)]
mod tests {
    use pliant_testing::postgres::Server;

    use super::*;

    #[test]
    fn the_tables_may_take_longer_to_prepare_than_a_statement_may_take() {
        let Some(server) = Server::start() else { return };
        let database = server.database();
        let target = Target::read(&database.connection()).unwrap();
        let mut session = Session::open(&Executor::new().unwrap(), &target).unwrap();
        session.limit = Some(Duration::from_millis(50));
        let slow = "SELECT pg_sleep(0.5)";
        session.without_limit(|session| session.run(slow)).unwrap();
        let late = session.run(slow).unwrap_err();
        assert!(matches!(late, JournalError::Unreachable { .. }), "{late}");
        assert!(!session.is_open());
    }
}
