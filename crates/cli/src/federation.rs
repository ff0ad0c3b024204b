//! The connection of client verbs to a federation: the client file, calls, and their errors.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use pliant_client::{Client, ClientError};
use pliant_control::names::Handle;
use pliant_control::shared_folder::SharedFileSystems;
use pliant_request::client_file;
pub(crate) use pliant_request::numbers::timeout;
use pliant_wire::bounds;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::failure::Failure;

/// How many calls of a command are open at a time.
const AT_A_TIME: usize = 64;
/// The exit code of a command that was ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// The options of every verb that connects to a federation.
#[derive(Args)]
pub(crate) struct Access {
    /// The client file, with agents and certificate [default: $PLIANT_CONFIG, then
    /// ~/.config/pliant/client.toml, then that of a running `pliant up`].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// A client with its runtime.
pub(crate) struct Session {
    runtime: Runtime,
    pub(crate) client: Client,
    /// The file systems that this machine shares with clusters.
    pub(crate) shared: SharedFileSystems,
}

impl Access {
    /// The same options for a command that this one starts.
    pub(crate) fn words(&self) -> Vec<OsString> {
        self.config.iter().flat_map(|path| [OsString::from("--config"), path.into()]).collect()
    }

    /// Reads the client's file; connects with the first call.
    pub(crate) fn open(&self) -> Result<Session, Failure> {
        let file = client_file::open(self.config.as_deref())?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::system(format!("cannot start: {error}")))?;
        let client = {
            // Connections are tasks of the runtime.
            let _entered = runtime.enter();
            Client::new(&file)?
        };
        Ok(Session { runtime, client, shared: file.shared })
    }
}

impl Session {
    /// Runs calls to their end.
    pub(crate) fn run<F: Future>(&self, calls: F) -> F::Output {
        self.runtime.block_on(calls)
    }

    /// Runs calls to their end; none after Ctrl-C.
    pub(crate) fn run_until_interrupted<F: Future>(&self, calls: F) -> Option<F::Output> {
        self.runtime.block_on(async {
            tokio::select! {
                done = calls => Some(done),
                () = ctrl_c() => None,
            }
        })
    }

    /// Asks about several things, some at a time; `answered` gets each answer with the index of its thing.
    pub(crate) async fn each<I, A, F>(
        &self,
        things: impl IntoIterator<Item = I>,
        ask: impl Fn(Client, I) -> F,
        answered: impl FnMut(usize, A),
    ) where
        F: Future<Output = A> + Send + 'static,
        A: Send + 'static,
    {
        each_by(&self.client, AT_A_TIME, things, ask, answered).await;
    }

    /// Submits several things, as many at a time as go in one message.
    pub(crate) async fn submit_each<I, A, F>(
        &self,
        things: impl IntoIterator<Item = I>,
        submit: impl Fn(Client, I) -> F,
        answered: impl FnMut(usize, A),
    ) where
        F: Future<Output = A> + Send + 'static,
        A: Send + 'static,
    {
        each_by(&self.client.gathering(), bounds::MANY_MAX, things, submit, answered).await;
    }

    /// Asks about each of several jobs: the answers in the order of the handles, and what failed.
    pub(crate) fn each_job<A, F>(
        &self,
        handles: &[Handle],
        ask: impl Fn(Client, Handle) -> F,
    ) -> (Vec<A>, Vec<ClientError>)
    where
        F: Future<Output = Result<A, ClientError>> + Send + 'static,
        A: Send + 'static,
    {
        let mut found: Vec<(usize, Result<A, ClientError>)> = Vec::with_capacity(handles.len());
        self.run(self.each(handles.iter().cloned(), ask, |index, answer| found.push((index, answer))));
        found.sort_by_key(|(index, _)| *index);
        let (mut answers, mut errors) = (Vec::new(), Vec::new());
        for (_, answer) in found {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => errors.push(error),
            }
        }
        (answers, errors)
    }
}

/// Asks about several things, at most so many at a time.
async fn each_by<I, A, F>(
    client: &Client,
    at_a_time: usize,
    things: impl IntoIterator<Item = I>,
    ask: impl Fn(Client, I) -> F,
    mut answered: impl FnMut(usize, A),
) where
    F: Future<Output = A> + Send + 'static,
    A: Send + 'static,
{
    let mut waiting = things.into_iter().enumerate();
    let mut open = JoinSet::new();
    loop {
        while open.len() < at_a_time
            && let Some((index, thing)) = waiting.next()
        {
            let asked = ask(client.clone(), thing);
            open.spawn(async move { (index, asked.await) });
        }
        match open.join_next().await {
            Some(Ok((index, answer))) => answered(index, answer),
            // The call was not cancelled, so it panicked.
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => return,
        }
    }
}

/// Prints a line on standard error if that is a terminal.
pub(crate) fn inform(line: impl FnOnce() -> String) {
    if std::io::stderr().is_terminal() {
        stderr_line!("{}", line());
    }
}

/// Waits for Ctrl-C. If signals cannot be caught, Ctrl-C ends the process at once as usual.
pub(crate) async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The failure of a command that was ended by Ctrl-C.
pub(crate) fn interrupted(message: impl std::fmt::Display, hint: impl std::fmt::Display) -> Failure {
    let mut failure = Failure::system(message).hint(hint);
    failure.code = INTERRUPTED;
    failure
}

/// The failure of a call.
pub(crate) fn failed(error: ClientError) -> Failure {
    let failure = if error.is_input() { Failure::input(&error) } else { Failure::system(&error) };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None if error.is_missing() => failure.hint("`pliant queue --ended` lists your jobs"),
        None if error.may_pass() => failure.hint("try again in a moment"),
        None => failure,
    }
}

/// The failure of several calls, if some failed.
pub(crate) fn none_failed(mut errors: Vec<ClientError>) -> Result<(), Failure> {
    errors.dedup();
    if errors.len() < 2 {
        return errors.pop().map_or(Ok(()), |error| Err(error.into()));
    }
    let messages: Vec<String> = errors.iter().map(ClientError::to_string).collect();
    let message = messages.join("\n  ");
    let input = errors.iter().all(ClientError::is_input);
    Err(if input { Failure::input(message) } else { Failure::system(message) })
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        failed(error)
    }
}
