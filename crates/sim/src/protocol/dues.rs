//! Who wants to be told that time has passed, and when.

use std::collections::BTreeSet;

use pliant_model::Time;
use rustc_hash::FxHashMap;

/// A machine of the simulation. At equal times servers come first, so that jobs start before anything else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Peer {
    /// The server of the cluster of that number.
    Server(usize),
    /// The agent of that number.
    Agent(usize),
    /// The client of the job of that number.
    Client(u32),
}

/// When each machine wants to be told.
#[derive(Default)]
pub(super) struct Dues {
    order: BTreeSet<(Time, Peer)>,
    of: FxHashMap<Peer, Time>,
}

impl Dues {
    /// The machine wants to be told then, and not at any other time.
    pub(super) fn set(&mut self, peer: Peer, at: Option<Time>) {
        let before = match at {
            Some(at) => self.of.insert(peer, at),
            None => self.of.remove(&peer),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, peer));
        }
        if let Some(at) = at {
            self.order.insert((at, peer));
        }
    }

    /// The earliest time.
    pub(super) fn first(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out a machine that wants to be told at `now` or before.
    pub(super) fn pop(&mut self, now: Time) -> Option<Peer> {
        let (_, peer) = self.order.first().copied().filter(|(at, _)| *at <= now)?;
        self.set(peer, None);
        Some(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_wish_counts() {
        let mut dues = Dues::default();
        dues.set(Peer::Agent(0), Some(Time(5)));
        dues.set(Peer::Server(1), Some(Time(9)));
        dues.set(Peer::Server(1), Some(Time(5)));
        dues.set(Peer::Client(3), Some(Time(1)));
        dues.set(Peer::Client(3), None);
        assert_eq!((dues.first(), dues.pop(Time(4))), (Some(Time(5)), None));
        assert_eq!([dues.pop(Time(5)), dues.pop(Time(5))], [Some(Peer::Server(1)), Some(Peer::Agent(0))]);
        assert_eq!((dues.first(), dues.pop(Time::MAX)), (None, None));
    }
}
