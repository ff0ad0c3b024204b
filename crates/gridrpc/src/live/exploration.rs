//! Explorations (paper 004): a service is called with many sets of arguments, some of which must be completed.

use std::path::Path;

use pliant_client::{ExplorationFolder, Explorer, WorkError};
use pliant_request::explore::ExploreOptions;
use pliant_request::{RequestError, words};

use super::{Shared, with_hint};
use crate::code::{Code, Failure, Outcome, not_initialized};
use crate::federation::Explored;

impl Shared {
    /// Runs the exploration of these options in a folder, or resumes the one in it, on this thread.
    pub(super) fn explore(&self, options: Vec<String>, folder: &Path) -> Outcome<Explored> {
        let of_request = |error: RequestError| with_hint(Code::OtherErrorCode, &error, error.hint_text());
        let options: ExploreOptions = words::parsed("pliant_grpc_explore", options).map_err(of_request)?;
        let spec = options.spec(&mut |_| {}).map_err(of_request)?;
        let folder = ExplorationFolder::open(folder).map_err(|error| of_work(&error.into()))?;
        let status = self.runtime.block_on(async {
            let explorer = Explorer::new(&self.client, &spec, Some(folder))?;
            explorer.run(self.closing(), |_| {}).await
        });
        let status = status.map_err(|error| of_work(&error))?;
        let progress = status.progress;
        if status.interrupted {
            return Err(not_initialized());
        }
        Ok(Explored {
            mandatory: progress.mandatory,
            optional: progress.optional,
            failed: progress.failed,
            late_s: status.late.map_or(0.0, |late| late.0 as f64 / 1e3),
        })
    }
}

fn of_work(error: &WorkError) -> Failure {
    match error {
        WorkError::Client(client) if client.may_pass() => {
            with_hint(Code::CommunicationFailed, error, client.hint())
        }
        WorkError::Client(client) => with_hint(Code::OtherErrorCode, error, client.hint()),
        WorkError::NoServer(servers) if servers.is_empty() => Failure::new(Code::CommunicationFailed, error),
        WorkError::NoServer(_) | WorkError::Refused { .. } => Failure::new(Code::RpcRefused, error),
        WorkError::Folder(_) | WorkError::NotOurs { .. } => Failure::new(Code::OtherErrorCode, error),
    }
}
