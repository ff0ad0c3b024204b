//! What a daemon has for its parent, on its way to the line.
//!
//! However long the parent is away or takes nothing in, nothing gathers here: news wait in the journal, and only the
//! number of the last one is kept; that the servers have changed, or that one is free early, is a mark. What else there is to say is of use
//! at once or not at all, so that what does not fit is dropped.

use std::sync::Arc;

use pliant_control::agent::DiscoveryResult;
use pliant_control::names::Name;
use tokio::sync::{Notify, mpsc, watch};

/// How many answers and questions may wait for the line.
const SAID_MAX: usize = 1024;

/// The way up, for whoever has something to tell.
#[derive(Clone, Debug)]
pub(crate) struct Upward {
    last_news: Arc<watch::Sender<u64>>,
    announce: Arc<Notify>,
    freed: Arc<Notify>,
    said: mpsc::Sender<TransientMessage>,
}

/// What is of use at once or not at all.
#[derive(Debug)]
pub(super) enum TransientMessage {
    /// The answer to a question.
    Answer {
        /// The number that [`Child::asked`](super::Child::asked) was told.
        discovery: u64,
        /// What was found.
        found: DiscoveryResult,
    },
    /// Which numbers have the jobs of that server had?
    Unnumbered(Name),
}

/// The end of the way that the line has.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(super) last_news: watch::Receiver<u64>,
    pub(super) announce: Arc<Notify>,
    pub(super) freed: Arc<Notify>,
    pub(super) said: mpsc::Receiver<TransientMessage>,
}

/// A way up and its end. `next_notice` is the number of the next news.
pub(crate) fn upward(next_notice: u64) -> (Upward, Outbound) {
    let (last_news, news) = watch::channel(next_notice - 1);
    let (said, receiver) = mpsc::channel(SAID_MAX);
    let (announce, freed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let outbound =
        Outbound { last_news: news, announce: announce.clone(), freed: freed.clone(), said: receiver };
    (Upward { last_news: Arc::new(last_news), announce, freed, said }, outbound)
}

impl Upward {
    /// News up to that number are in the journal.
    pub(crate) fn news(&self, sequence: u64) {
        self.last_news.send_if_modified(|last| {
            let is_later = sequence > *last;
            *last = sequence.max(*last);
            is_later
        });
    }

    /// The servers below have changed.
    pub(crate) fn announce(&self) {
        self.announce.notify_one();
    }

    /// Processors are free earlier than planned, of somebody else's job.
    pub(crate) fn freed(&self) {
        self.freed.notify_one();
    }

    /// The answer to a question. If it does not fit, the parent's patience runs out.
    pub(crate) fn answer(&self, discovery: u64, found: DiscoveryResult) {
        self.say(TransientMessage::Answer { discovery, found });
    }

    /// A server asks which numbers its jobs have had. If that does not fit, the server asks again.
    pub(crate) fn unnumbered(&self, server: Name) {
        self.say(TransientMessage::Unnumbered(server));
    }

    fn say(&self, said: TransientMessage) {
        // The line ends only with the daemon.
        if let Err(mpsc::error::TrySendError::Full(said)) = self.said.try_send(said) {
            tracing::debug!(?said, "the parent takes nothing in: dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gathers_while_nobody_takes_it() {
        let (upward, mut outbound) = upward(1);
        for number in 1..=100_000 {
            upward.news(number);
            upward.announce();
            upward.answer(number, DiscoveryResult::default());
        }
        upward.news(3);
        assert_eq!(*outbound.last_news.borrow(), 100_000, "the number of the last news, and no news");
        let mut answers = 0;
        while let Ok(TransientMessage::Answer { discovery, .. }) = outbound.said.try_recv() {
            answers += 1;
            assert_eq!(discovery, answers, "the first ones: those after them have found the place taken");
        }
        assert_eq!(answers, SAID_MAX as u64);
    }
}
