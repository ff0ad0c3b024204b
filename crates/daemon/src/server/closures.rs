//! What operators have closed at a server, for the parts of it that are not its machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use pliant_control::names::User;
use pliant_control::reason::{Cause, Reason};
use pliant_control::server::{Ban, Drain, Server};

/// The acts of operators that refuse requests, as the journal has them.
#[derive(Clone)]
pub(super) struct Closures(Arc<RwLock<Acts>>);

#[derive(PartialEq)]
struct Acts {
    drained: Option<Drain>,
    banned: BTreeMap<User, Ban>,
}

impl Closures {
    pub(super) fn new(machine: &Server) -> Closures {
        Closures(Arc::new(RwLock::new(Acts::of(machine))))
    }

    /// Takes over what the machine has now.
    pub(super) fn update(&self, machine: &Server) {
        if !self.0.read().are_of(machine) {
            *self.0.write() = Acts::of(machine);
        }
    }

    /// Why a user is banned; none if the user is not.
    pub(super) fn bans(&self, user: &User) -> Option<String> {
        self.0.read().banned.get(user).map(Ban::to_string)
    }

    /// True if an operator has drained the server.
    pub(super) fn is_drained(&self) -> bool {
        self.0.read().drained.is_some()
    }

    /// Why nothing of a user is accepted at the moment; none if it is.
    pub(super) fn refuses(&self, user: &User) -> Option<Reason> {
        let acts = self.0.read();
        let banned = || acts.banned.get(user).map(|ban| Cause::Banned.because(ban.to_string()));
        let drained = || acts.drained.as_ref().map(|drain| Cause::Drained.because(drain.to_string()));
        banned().or_else(drained)
    }
}

impl Acts {
    fn of(machine: &Server) -> Acts {
        Acts { drained: machine.drained().cloned(), banned: machine.bans().clone() }
    }

    fn are_of(&self, machine: &Server) -> bool {
        self.drained.as_ref() == machine.drained() && self.banned == *machine.bans()
    }
}
