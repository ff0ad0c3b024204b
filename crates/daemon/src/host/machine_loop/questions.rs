//! Questions of readers, answered between events.
//!
//! Once questions have taken [`ANSWERING`], further ones are answered with the next inputs, and events pass them. Without
//! that a steady stream of questions, each asked as soon as one is answered, would hold up the commit for as long as it flows.

use std::time::{Duration, Instant};

use pliant_control::replay::Machine;

use super::{Driver, Runner};
use crate::host::mailbox::Question;

/// How long questions may take before a commit. The last of them may take longer.
pub(super) const ANSWERING: Duration = Duration::from_millis(10);

impl<M: Machine, D: Driver<M>> Runner<M, D> {
    /// Answers a question. Returns how long that took.
    pub(super) fn answer(&self, question: Question<M>) -> Duration {
        let begun = Instant::now();
        let (mut machine, now) = self.shared.at_present();
        question(&mut machine, now);
        begun.elapsed()
    }

    /// Answers questions that had to wait, until none is left or that has taken so long. Returns how long it took.
    pub(super) fn answer_postponed(&mut self, within: Duration) -> Duration {
        let mut took = Duration::ZERO;
        while took < within
            && let Some(question) = self.postponed.pop_front()
        {
            took += self.answer(question);
        }
        took
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::sync::Arc;

    use super::super::tests::{Echo, Word, runner};
    use super::*;
    use crate::host::mailbox;

    #[tokio::test]
    async fn events_pass_questions_that_take_long() {
        let (mailbox, inbox) = mailbox::<Echo>();
        let mut runner = Runner { inbox, ..runner() };
        let answered = Arc::<Mutex<Vec<u32>>>::default();
        let ask = |number| {
            let (mailbox, answered) = (mailbox.clone(), answered.clone());
            tokio::spawn(async move {
                let question = move |_: &mut Echo, _| {
                    std::thread::sleep(ANSWERING);
                    answered.lock().push(number);
                };
                mailbox.ask(question).await
            })
        };
        let asked: Vec<_> = (0..3).map(ask).collect();
        tokio::task::yield_now().await;
        mailbox.send(Word::Durable).unwrap();
        assert!(runner.gather());
        assert_eq!(*answered.lock(), [0]);
        assert!(
            runner.is_pressing(),
            "the event behind three questions is committed after the first of them"
        );
        runner.commit().unwrap();
        assert_eq!(runner.driver.0, [Word::Durable]);
        let later = ask(3);
        tokio::task::yield_now().await;
        mailbox.send(Word::Durable).unwrap();
        assert!(runner.gather());
        assert_eq!(*answered.lock(), [0, 1], "questions are not put off by events");
        assert_eq!(runner.batch.entries.len(), 1);
        mailbox.stop();
        assert!(!runner.gather());
        runner.answer_postponed(Duration::MAX);
        assert_eq!(*answered.lock(), [0, 1, 2, 3], "in the order in which they came");
        for asked in asked.into_iter().chain([later]) {
            assert_eq!(asked.await.unwrap(), Ok(()));
        }
    }
}
