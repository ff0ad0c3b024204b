//! A question that is asked again and again, one call at a time.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

/// How often the question is asked.
const EVERY: Duration = Duration::from_secs(10);
/// How soon it may be asked again.
const SOON: Duration = Duration::from_secs(1);

/// When a question is asked, and its answers.
pub(crate) struct Poll<T> {
    sender: Sender<T>,
    answers: Receiver<T>,
    is_open: bool,
    at: Instant,
}

impl<T: Send + 'static> Poll<T> {
    /// A question that is to be asked at that time.
    pub(crate) fn new(at: Instant) -> Poll<T> {
        let (sender, answers) = channel(1);
        Poll { sender, answers, is_open: false, at }
    }

    /// A question that is asked for the first time by a call of [`Poll::ask`].
    pub(crate) fn later() -> Poll<T> {
        Poll::new(Instant::now() + EVERY)
    }

    /// When the question is to be asked.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// Schedules the question, unless it is due earlier.
    pub(crate) fn at_latest(&mut self, at: Instant) {
        self.at = self.at.min(at);
    }

    /// Schedules the question soon, unless it is due earlier.
    pub(crate) fn soon(&mut self) {
        self.at_latest(Instant::now() + SOON);
    }

    /// Schedules the question soon, not earlier.
    pub(crate) fn soon_again(&mut self) {
        self.at = Instant::now() + SOON;
    }

    /// Asks, unless an answer is still awaited, and schedules the question again.
    pub(crate) fn ask(&mut self, answer: impl Future<Output = T> + Send + 'static) {
        self.at = Instant::now() + EVERY;
        if std::mem::replace(&mut self.is_open, true) {
            return;
        }
        let sender = self.sender.clone();
        tokio::spawn(async move {
            // The receiver may be gone.
            let _ = sender.send(answer.await).await;
        });
    }

    /// Waits for an answer. The future may be dropped while it waits.
    pub(crate) async fn answer(&mut self) -> T {
        let answer = self.answers.recv().await.expect("the sender is kept with its receiver");
        self.is_open = false;
        answer
    }
}
