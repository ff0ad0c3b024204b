//! Several submissions in one message: each is handled as if it had come in a call of its own, and the machine's journal commits
//! together what has come in together.

use std::sync::Arc;

use pliant_control::access::Caller;
use pliant_control::names::Key;
use pliant_telemetry::RequestId;
use pliant_wire::{CallFailure, Submission, SubmitAnswer, SubmitOutcome, proto};
use prost::Message;
use tokio::task::JoinSet;
use tonic::Status;
use tracing::Instrument;

use super::service::Service;
use crate::gate::Pass;

impl Service {
    /// Accepts or refuses each submission: the outcomes in their order. Each counts as a request of the caller, and waits if the caller
    /// has sent more than it may.
    pub(super) async fn accept_many(
        &self,
        (caller, pass): (Caller, Pass),
        id: RequestId,
        submissions: Vec<proto::SubmitRequest>,
    ) -> Vec<SubmitOutcome> {
        let unanswered = || outcome(Err(Status::internal("the submission ended without an answer")));
        let mut outcomes: Vec<SubmitOutcome> = submissions.iter().map(|_| unanswered()).collect();
        let own = Arc::new(self.clone());
        // One look for all. Without it each looks for itself, and says what is wrong.
        let keys = submissions.iter().filter_map(|one| <[u8; 16]>::try_from(&*one.key).ok()).map(Key);
        let new = self.new_keys(keys.collect()).await.unwrap_or_default();
        // Tasks, so that other callers get their turn between them, and that the same key twice waits for itself. They end with the call.
        let mut under_way = JoinSet::new();
        for (index, submission) in submissions.into_iter().enumerate() {
            if index > 0 {
                // The call itself was counted.
                pass.message().await;
            }
            let (own, caller) = (own.clone(), caller.clone());
            let is_new = <[u8; 16]>::try_from(&*submission.key).is_ok_and(|key| new.contains(&Key(key)));
            let accept =
                async move { (index, outcome(own.accept_one(caller, id, submission, is_new).await)) };
            under_way.spawn(accept.in_current_span());
        }
        while let Some(ended) = under_way.join_next().await {
            // One that panicked has no answer.
            if let Ok((index, answered)) = ended {
                outcomes[index] = answered;
            }
        }
        outcomes
    }

    async fn accept_one(
        &self,
        caller: Caller,
        id: RequestId,
        submission: proto::SubmitRequest,
        is_new: bool,
    ) -> Result<SubmitAnswer, Status> {
        let bytes = submission.encoded_len();
        self.accept_looked_up(caller, id, Submission::try_from(submission)?, bytes, is_new).await
    }
}

fn outcome(answer: Result<SubmitAnswer, Status>) -> SubmitOutcome {
    match answer {
        Ok(answer) => SubmitOutcome::Answered(answer),
        Err(status) => SubmitOutcome::Failed(CallFailure::from(&status)),
    }
}
