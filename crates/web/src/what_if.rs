//! Replays of the recorded history, one at a time: each is a process of its own, so that its memory and its time are bounded and it can
//! be ended at any moment. What it prints for programs is what the page shows.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use pliant_client::ClientFile;
use pliant_model::Time;
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::sleep;

use crate::problem::Problem;
use crate::types::{ReplayDocument, WhatIfBody, now};

/// How long a replay may take.
const TIME_MAX: Duration = Duration::from_secs(600);
/// How many replays of all users of a portal run at a time.
pub(crate) const AT_PORTAL_MAX: usize = 2;
/// The most bytes of a replay's document.
const DOCUMENT_BYTES_MAX: u64 = 128 << 20;
/// The most bytes of what a replay says of an error.
const ERROR_BYTES_MAX: u64 = 4096;

/// What a replay is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayRequest {
    /// Compares jobs that were submitted in so many hours.
    pub hours: u32,
    /// The policies, as on the command line.
    pub policies: Vec<String>,
    /// The client's file of the user of a portal; none for the user who started the pages.
    pub client_file: Option<PathBuf>,
}

/// Makes the command of a replay, `pliant what-if`, which prints its document on standard output. The command line knows how, so it
/// hands this to the pages.
pub type ReplayCommand = Arc<dyn Fn(&ReplayRequest) -> Command + Send + Sync>;

/// How far a replay is.
#[derive(Clone)]
pub(crate) enum ReplayState {
    /// It runs.
    Running,
    /// It has ended.
    Done(Arc<ReplayDocument>),
    /// It failed.
    Failed(String),
    /// It was cancelled.
    Cancelled,
}

/// A replay that was asked for.
pub(crate) struct Replay {
    /// What was asked for.
    pub(crate) body: WhatIfBody,
    /// When.
    pub(crate) began: Time,
    /// How far it is.
    pub(crate) state: ReplayState,
    stop: Option<oneshot::Sender<()>>,
}

/// What replays of a user of a portal need in addition.
struct OfPortal {
    /// Written for each replay: paths and addresses, no secrets.
    client_file: ClientFile,
    /// Permits of the replays of all users.
    permits: Arc<Semaphore>,
}

/// What a replay keeps while it runs.
type Held = Option<(NamedTempFile, OwnedSemaphorePermit)>;

impl OfPortal {
    fn hold(&self) -> Result<(NamedTempFile, OwnedSemaphorePermit), Problem> {
        let permit = self.permits.clone().try_acquire_owned().map_err(|_| {
            let problem =
                format!("expected at most {AT_PORTAL_MAX} replays of all users at a time, found one more");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem).hint("try again in some minutes")
        })?;
        let failed = |why: String| {
            tracing::warn!(why, "the file of a replay cannot be written");
            let problem = "the portal cannot start the replay";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
                .hint("operators find the reason in the portal's log")
        };
        let text = self.client_file.to_toml().map_err(failed)?;
        let mut file =
            tempfile::Builder::new().suffix(".toml").tempfile().map_err(|error| failed(error.to_string()))?;
        file.write_all(text.as_bytes()).map_err(|error| failed(error.to_string()))?;
        Ok((file, permit))
    }
}

/// The replays of the pages of a user.
pub(crate) struct WhatIf {
    command: ReplayCommand,
    portal: Option<OfPortal>,
    last: Mutex<Option<Replay>>,
}

impl WhatIf {
    pub(crate) fn new(command: ReplayCommand) -> WhatIf {
        WhatIf { command, portal: None, last: Mutex::default() }
    }

    /// Those of a user of a portal, with that client's file, bounded by permits of all users.
    pub(crate) fn at_portal(
        command: ReplayCommand,
        client_file: ClientFile,
        permits: Arc<Semaphore>,
    ) -> WhatIf {
        WhatIf { portal: Some(OfPortal { client_file, permits }), ..WhatIf::new(command) }
    }

    /// True while a replay runs.
    pub(crate) fn is_running(&self) -> bool {
        self.with_last(|last| last.is_some_and(|replay| matches!(replay.state, ReplayState::Running)))
    }

    /// Starts a replay.
    pub(crate) fn start(self: &Arc<Self>, body: WhatIfBody) -> Result<(), Problem> {
        let mut last = self.last.lock();
        if last.as_ref().is_some_and(|replay| matches!(replay.state, ReplayState::Running)) {
            let problem =
                Problem::new(StatusCode::CONFLICT, "expected one replay at a time, found one that runs");
            return Err(problem.hint("wait for its end, or cancel it"));
        }
        let held: Held = self.portal.as_ref().map(OfPortal::hold).transpose()?;
        let client_file = held.as_ref().map(|(file, _)| file.path().to_owned());
        let request = ReplayRequest { hours: body.hours, policies: body.policies.clone(), client_file };
        let mut command = (self.command)(&request);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().map_err(|error| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot start the replay: {error}"))
        })?;
        let (stop, stopped) = oneshot::channel();
        *last = Some(Replay { body, began: now(), state: ReplayState::Running, stop: Some(stop) });
        drop(last);
        let own = self.clone();
        tokio::spawn(async move {
            let _held = held;
            // The process ends with the future that waits for it.
            let state = tokio::select! {
                state = ended(child) => state,
                _ = stopped => ReplayState::Cancelled,
                () = sleep(TIME_MAX) => {
                    ReplayState::Failed(format!("it was ended after {} minutes: choose a shorter period", TIME_MAX.as_secs() / 60))
                }
            };
            if let Some(replay) = own.last.lock().as_mut() {
                replay.state = state;
            }
        });
        Ok(())
    }

    /// Ends the replay that runs, if one does.
    pub(crate) fn cancel(&self) {
        if let Some(stop) = self.last.lock().as_mut().and_then(|replay| replay.stop.take()) {
            // It may have ended just now.
            let _ = stop.send(());
        }
    }

    /// Looks at the last replay.
    pub(crate) fn with_last<A>(&self, look: impl FnOnce(Option<&Replay>) -> A) -> A {
        look(self.last.lock().as_ref())
    }
}

/// Waits for the end of a replay.
async fn ended(mut child: Child) -> ReplayState {
    let (output, error) = (child.stdout.take(), child.stderr.take());
    let (document, said) = tokio::join!(taken(output, DOCUMENT_BYTES_MAX), taken(error, ERROR_BYTES_MAX));
    let status = match child.wait().await {
        Ok(status) => status,
        Err(error) => return ReplayState::Failed(error.to_string()),
    };
    if !status.success() {
        let said = String::from_utf8_lossy(&said).trim().trim_start_matches("error: ").to_owned();
        return ReplayState::Failed(match status.code() {
            Some(_) if !said.is_empty() => said,
            _ => format!("it ended with {status}; if it needs too much memory, choose a shorter period"),
        });
    }
    let read = tokio::task::spawn_blocking(move || serde_json::from_slice::<ReplayDocument>(&document)).await;
    match read {
        Ok(Ok(document)) => ReplayState::Done(Arc::new(document)),
        Ok(Err(error)) => ReplayState::Failed(format!("its document cannot be read: {error}")),
        Err(error) => ReplayState::Failed(error.to_string()),
    }
}

/// What comes, up to so many bytes; the rest is dropped.
async fn taken(from: Option<impl AsyncRead + Unpin>, most: u64) -> Vec<u8> {
    let mut found = Vec::new();
    if let Some(mut from) = from {
        let _ = (&mut from).take(most).read_to_end(&mut found).await;
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what_if(script: &'static str) -> Arc<WhatIf> {
        Arc::new(WhatIf::new(Arc::new(move |request| {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).args(&request.policies);
            command
        })))
    }

    fn body() -> WhatIfBody {
        WhatIfBody { hours: 1, policies: vec!["none".to_owned()] }
    }

    async fn end_of(what_if: &WhatIf) -> ReplayState {
        loop {
            let state = what_if.with_last(|last| last.unwrap().state.clone());
            if !matches!(state, ReplayState::Running) {
                return state;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn one_replay_runs_at_a_time_and_can_be_cancelled() {
        let what_if = what_if("exec sleep 1000");
        what_if.start(body()).unwrap();
        assert_eq!(what_if.start(body()).unwrap_err().status(), StatusCode::CONFLICT);
        what_if.cancel();
        assert!(matches!(end_of(&what_if).await, ReplayState::Cancelled));
        what_if.start(body()).unwrap();
        what_if.cancel();
        assert!(matches!(end_of(&what_if).await, ReplayState::Cancelled));
    }

    #[tokio::test]
    async fn a_replay_that_fails_says_why() {
        for (script, expected) in [
            ("echo \"error: $1: no such policy\" >&2; exit 2", "none: no such policy"),
            ("kill -ABRT $$", "choose a shorter period"),
            ("echo '{}'", "missing field"),
            ("exit 1", "exit status: 1"),
        ] {
            let what_if = what_if(script);
            what_if.start(body()).unwrap();
            match end_of(&what_if).await {
                ReplayState::Failed(why) => assert!(why.contains(expected), "{script}: {why}"),
                _ => panic!("{script}"),
            }
        }
    }
}
