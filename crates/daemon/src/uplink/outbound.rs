//! What a daemon has for its parent, on its way to the connection.
//!
//! However long the parent is down or reads nothing, no messages gather here: status updates wait in the journal, and only the
//! number of the last one is kept; that the servers have changed, or that one is free early, is a mark. What else there is to say is of use
//! at once or not at all, so that what does not fit is dropped.

use std::sync::Arc;

use pliant_control::agent::DiscoveryResult;
use pliant_control::names::Name;
use tokio::sync::{Notify, mpsc, watch};

/// How many answers and questions may wait for the connection.
const SAID_MAX: usize = 1024;

/// The way up to the parents.
#[derive(Clone, Debug)]
pub(crate) struct Upward {
    last_update: Arc<watch::Sender<u64>>,
    /// To each parent.
    ways: Arc<[Way]>,
}

/// The way up to one parent.
#[derive(Debug)]
struct Way {
    announce: Arc<Notify>,
    freed: Arc<Notify>,
    summary: Arc<Notify>,
    said: mpsc::Sender<TransientMessage>,
}

/// What is of use at once or not at all.
#[derive(Debug)]
pub(super) enum TransientMessage {
    /// The answer to a question.
    Answer {
        /// The number that [`Child::asked`](super::Child::asked) got.
        discovery: u64,
        /// What was found.
        found: DiscoveryResult,
    },
    /// A query for the job numbers that this server has used.
    Unnumbered(Name),
}

/// The end of the way that the connection to one of them has.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(super) last_update: watch::Receiver<u64>,
    pub(super) announce: Arc<Notify>,
    pub(super) freed: Arc<Notify>,
    pub(super) summary: Arc<Notify>,
    pub(super) said: mpsc::Receiver<TransientMessage>,
}

/// A way up to so many parents and its ends. `next_update` is the number of the next status update.
pub(crate) fn upward(next_update: u64, parents: usize) -> (Upward, Vec<Outbound>) {
    let (last_update, updates) = watch::channel(next_update - 1);
    let way = |_| {
        let (said, receiver) = mpsc::channel(SAID_MAX);
        let [announce, freed, summary] = [(); 3].map(|()| Arc::new(Notify::new()));
        let outbound = Outbound {
            last_update: updates.clone(),
            announce: announce.clone(),
            freed: freed.clone(),
            summary: summary.clone(),
            said: receiver,
        };
        (Way { announce, freed, summary, said }, outbound)
    };
    let (ways, outbounds): (Vec<Way>, Vec<Outbound>) = (0..parents).map(way).unzip();
    (Upward { last_update: Arc::new(last_update), ways: ways.into() }, outbounds)
}

/// The first number of the questions of a parent, of which the next one is greater by the number of parents: from the number follows which
/// parent asks.
pub(super) fn question_of(first: u64, parents: usize, parent: usize) -> u64 {
    let parents = parents as u64;
    first / parents * parents + parent as u64
}

impl Upward {
    /// Status updates up to that number are in the journal.
    pub(crate) fn status_update(&self, sequence: u64) {
        self.last_update.send_if_modified(|last| {
            let is_later = sequence > *last;
            *last = sequence.max(*last);
            is_later
        });
    }

    /// The servers below have changed.
    pub(crate) fn announce(&self) {
        self.ways.iter().for_each(|way| way.announce.notify_one());
    }

    /// Processors of another user's job are free earlier than planned.
    pub(crate) fn freed(&self) {
        self.ways.iter().for_each(|way| way.freed.notify_one());
    }

    /// The summary may have changed.
    pub(crate) fn summary_changed(&self) {
        self.ways.iter().for_each(|way| way.summary.notify_one());
    }

    /// The answer to a question, for the parent that asked. If it does not fit, the parent's question times out.
    pub(crate) fn answer(&self, discovery: u64, found: DiscoveryResult) {
        let asked_by = discovery % self.ways.len() as u64;
        self.ways[asked_by as usize].queue(TransientMessage::Answer { discovery, found });
    }

    /// A server asks for the job numbers that it has used. If that does not fit, the server asks again.
    pub(crate) fn unnumbered(&self, server: Name) {
        self.ways.iter().for_each(|way| way.queue(TransientMessage::Unnumbered(server.clone())));
    }
}

impl Way {
    fn queue(&self, said: TransientMessage) {
        // The connection ends only with the daemon.
        if let Err(mpsc::error::TrySendError::Full(said)) = self.said.try_send(said) {
            tracing::debug!(?said, "the parent takes nothing in: dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gathers_while_the_parent_takes_nothing() {
        let (upward, mut outbounds) = upward(1, 1);
        let mut outbound = outbounds.remove(0);
        for number in 1..=100_000 {
            upward.status_update(number);
            upward.announce();
            upward.answer(number, DiscoveryResult::default());
        }
        upward.status_update(3);
        assert_eq!(
            *outbound.last_update.borrow(),
            100_000,
            "the number of the last status update, and no status updates"
        );
        let mut answers = 0;
        while let Ok(TransientMessage::Answer { discovery, .. }) = outbound.said.try_recv() {
            answers += 1;
            assert_eq!(discovery, answers, "the first ones: the later ones found no free slot");
        }
        assert_eq!(answers, SAID_MAX as u64);
    }

    #[test]
    fn answers_go_to_the_parent_that_asked_and_marks_to_all() {
        let (upward, mut outbounds) = upward(1, 3);
        assert_eq!([0, 1, 2].map(|parent| question_of(100, 3, parent)), [99, 100, 101]);
        for (parent, outbound) in outbounds.iter_mut().enumerate() {
            let question = question_of(100, 3, parent) + 3 * parent as u64;
            upward.answer(question, DiscoveryResult::default());
            let said = outbound.said.try_recv();
            assert!(matches!(said, Ok(TransientMessage::Answer { discovery, .. }) if discovery == question));
        }
        upward.unnumbered("lyon".parse().unwrap());
        upward.status_update(7);
        for outbound in &mut outbounds {
            assert!(matches!(outbound.said.try_recv(), Ok(TransientMessage::Unnumbered(_))));
            assert!(outbound.said.try_recv().is_err());
            assert_eq!(*outbound.last_update.borrow(), 7);
        }
    }
}
