//! Calls that wait for the machine's answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::names::Token;
use pliant_transport::Clock;
use tokio::sync::oneshot;

/// The calls that wait, by the token that the machine answers to: each with what is known of it, and where its answer goes.
pub(crate) struct Replies<A, C = ()>(Arc<Calls<A, C>>);

struct Calls<A, C> {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, (C, oneshot::Sender<A>)>>,
}

/// A call that waits. Dropped, it waits no more.
pub(crate) struct Reply<A, C = ()> {
    replies: Replies<A, C>,
    token: Token,
    answer: oneshot::Receiver<A>,
}

/// No answer came in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoReply;

impl<A, C> Clone for Replies<A, C> {
    fn clone(&self) -> Replies<A, C> {
        Replies(self.0.clone())
    }
}

impl<A, C> Replies<A, C> {
    /// No calls yet. `clock` is the recovered machine's: an answer to a call of before a restart reaches no call of now,
    /// because every token of now is greater.
    pub(crate) fn new(clock: &Clock) -> Replies<A, C> {
        let next = AtomicU64::new(clock.exact().as_micros() as u64);
        Replies(Arc::new(Calls { next, waiting: Mutex::default() }))
    }

    /// How many calls wait.
    pub(crate) fn len(&self) -> usize {
        self.0.waiting.lock().len()
    }

    /// A call begins to wait; `context` is what is known of it.
    pub(crate) fn wait_with(&self, context: C) -> Reply<A, C> {
        let token = Token(self.0.next.fetch_add(1, Ordering::Relaxed));
        let (sender, answer) = oneshot::channel();
        self.0.waiting.lock().insert(token.0, (context, sender));
        Reply { replies: self.clone(), token, answer }
    }

    /// The machine answers a call.
    pub(crate) fn answer(&self, token: Token, answer: A) {
        self.answer_with(token, |_| answer);
    }

    /// The machine answers a call; the answer depends on what is known of the call.
    pub(crate) fn answer_with(&self, token: Token, answer: impl FnOnce(&C) -> A) {
        let call = self.0.waiting.lock().remove(&token.0);
        if let Some((context, sender)) = call {
            // The caller may have gone.
            let _ = sender.send(answer(&context));
        }
    }

    /// What is known of a call that still waits.
    pub(crate) fn context(&self, token: Token) -> Option<C>
    where
        C: Copy,
    {
        self.0.waiting.lock().get(&token.0).map(|(context, _)| *context)
    }
}

impl<A> Replies<A> {
    /// A call begins to wait.
    pub(crate) fn wait(&self) -> Reply<A> {
        self.wait_with(())
    }
}

impl<A, C> Reply<A, C> {
    /// What the machine answers to.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// The answer, if it comes within `limit`.
    pub(crate) async fn within(mut self, limit: Duration) -> Result<A, NoReply> {
        let answer = tokio::time::timeout(limit, &mut self.answer).await;
        answer.ok().and_then(Result::ok).ok_or(NoReply)
    }
}

impl<A, C> Drop for Reply<A, C> {
    fn drop(&mut self) {
        self.replies.0.waiting.lock().remove(&self.token.0);
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::Time;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn answers_reach_the_call_with_their_token() {
        let replies: Replies<String, u32> = Replies::new(&Clock::start(Time(0)));
        let (one, other) = (replies.wait_with(1), replies.wait_with(2));
        assert_ne!(one.token(), other.token());
        assert_eq!(replies.context(other.token()), Some(2));
        replies.answer_with(other.token(), |context| format!("to {context}"));
        replies.answer(one.token(), "first".to_owned());
        assert_eq!(other.within(SOON).await, Ok("to 2".to_owned()));
        assert_eq!(one.within(SOON).await, Ok("first".to_owned()));
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_or_late_waits_no_more() {
        let replies: Replies<u32> = Replies::new(&Clock::start(Time(0)));
        let (dropped, late) = (replies.wait().token(), replies.wait());
        let token = late.token();
        assert_eq!(late.within(Duration::ZERO).await, Err(NoReply));
        for token in [dropped, token] {
            assert_eq!(replies.context(token), None);
            // An answer without a call is dropped.
            replies.answer(token, 1);
        }
    }
}
