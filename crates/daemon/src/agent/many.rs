//! Several questions of a client in one message, each with an answer of its own.

use pliant_control::access::Caller;
use pliant_telemetry::RequestId;
use pliant_wire::{self as wire, CallFailure, DiscoverOutcome, proto};
use prost::Message;
use tonic::Status;

use super::service::{Asked, Service};
use crate::gate::Pass;

impl Service {
    /// The answers to questions, in their order. All are asked before the first answer is awaited. Each counts as a request of the
    /// caller, and waits if the caller has sent more than it may.
    pub(super) async fn find_many(
        &self,
        (caller, pass): (Caller, Pass),
        id: RequestId,
        questions: Vec<proto::DiscoverRequest>,
    ) -> Vec<DiscoverOutcome> {
        let mut asked = Vec::with_capacity(questions.len());
        for (index, question) in questions.into_iter().enumerate() {
            if index > 0 {
                // The call itself was counted.
                pass.message().await;
            }
            asked.push(self.ask_one(caller.clone(), id, question));
        }
        let mut outcomes = Vec::with_capacity(asked.len());
        for one in asked {
            let found = match one {
                Ok(asked) => self.found(asked, &caller.user).await,
                Err(status) => Err(status),
            };
            outcomes.push(match found {
                Ok(found) => DiscoverOutcome::Found(found),
                Err(status) => DiscoverOutcome::Failed(CallFailure::from(&status)),
            });
        }
        outcomes
    }

    fn ask_one(
        &self,
        caller: Caller,
        id: RequestId,
        question: proto::DiscoverRequest,
    ) -> Result<Asked, Status> {
        let bytes = question.encoded_len();
        self.ask(wire::asked(question, caller, None)?, bytes, id)
    }
}
