//! Calls that wait for what the machine answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tonic::Status;

use super::line::stopped;

/// Who waits, by token.
#[derive(Debug)]
pub(super) struct Waiting<A>(Arc<Mutex<HashMap<u64, oneshot::Sender<A>>>>);

impl<A> Clone for Waiting<A> {
    fn clone(&self) -> Waiting<A> {
        Waiting(self.0.clone())
    }
}

impl<A> Default for Waiting<A> {
    fn default() -> Waiting<A> {
        Waiting(Arc::default())
    }
}

/// A call's place among those who wait, given up when dropped.
pub(super) struct Place<A> {
    waiting: Waiting<A>,
    token: u64,
    receiver: oneshot::Receiver<A>,
}

impl<A> Waiting<A> {
    /// A call begins to wait.
    pub(super) fn wait(&self, token: u64) -> Place<A> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().insert(token, sender);
        Place { waiting: self.clone(), token, receiver }
    }

    /// The machine answers.
    pub(super) fn answer(&self, token: u64, answer: A) {
        if let Some(sender) = self.0.lock().remove(&token) {
            // Whoever asked may have gone.
            let _ = sender.send(answer);
        }
    }
}

impl<A> Place<A> {
    /// The answer, if it comes in time.
    pub(super) async fn answer(mut self, patience: Duration) -> Result<A, Status> {
        let answer = tokio::time::timeout(patience, &mut self.receiver).await;
        answer.map_err(|_| Status::deadline_exceeded("no answer in time"))?.map_err(|_| stopped())
    }
}

impl<A> Drop for Place<A> {
    fn drop(&mut self) {
        self.waiting.0.lock().remove(&self.token);
    }
}
