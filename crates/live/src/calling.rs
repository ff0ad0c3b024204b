//! What calls of daemons have in common: connections stay open until a call fails, no call is made twice at the same time, and
//! each ends.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pliant_control::names::Name;
use tonic::Request;
use tonic::transport::Channel;

use crate::agent::driver::locked;
use crate::daemon::crash_points::{self, Place};
use crate::identity::{ClientTls, Identity, NameError, Role, Timeouts, channel};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(30);

/// Connections to daemons of one role, each opened when it is first wanted.
#[derive(Clone)]
pub(crate) struct Connections {
    role: Role,
    tls: Arc<ClientTls>,
    /// By name and address.
    open: Arc<Mutex<HashMap<(Name, String), Channel>>>,
}

impl Connections {
    /// None yet, to daemons of this role.
    pub(crate) fn new(role: Role, tls: Arc<ClientTls>) -> Connections {
        Connections { role, tls, open: Arc::default() }
    }

    /// The way to a daemon.
    ///
    /// # Errors
    /// A certificate has no such name.
    pub(crate) fn to(&self, name: &Name, address: &str) -> Result<Channel, NameError> {
        let key = (name.clone(), address.to_owned());
        let mut open = locked(&self.open);
        if let Some(known) = open.get(&key) {
            return Ok(known.clone());
        }
        let identity = Identity::new(self.role, name.as_str())?;
        let channel = channel(address, &identity, self.tls.clone(), &Timeouts::default());
        open.insert(key, channel.clone());
        Ok(channel)
    }

    /// The way to a daemon that was talked to, wherever that was.
    pub(crate) fn known(&self, name: &Name) -> Option<Channel> {
        let open = locked(&self.open);
        open.iter().find(|((known, _), _)| known == name).map(|(_, channel)| channel.clone())
    }

    /// The next call of a daemon opens a new connection.
    pub(crate) fn forget(&self, name: &Name) {
        locked(&self.open).retain(|(known, _), _| known != name);
    }
}

/// The calls that are under way, by what they are about and which step of it.
pub(crate) struct UnderWay<Id>(Arc<Mutex<BTreeSet<(Id, &'static str)>>>);

impl<Id> Clone for UnderWay<Id> {
    fn clone(&self) -> UnderWay<Id> {
        UnderWay(self.0.clone())
    }
}

impl<Id> Default for UnderWay<Id> {
    fn default() -> UnderWay<Id> {
        UnderWay(Arc::default())
    }
}

impl<Id: Ord + Clone> UnderWay<Id> {
    /// Makes a call; none if the same one is under way.
    pub(crate) async fn once<T, E>(
        &self,
        id: &Id,
        step: &'static str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Option<Result<T, E>> {
        let key = (id.clone(), step);
        if !locked(&self.0).insert(key.clone()) {
            return None;
        }
        crash_points::reached(Place::BeforeCall, [step].iter());
        let made = call.await;
        crash_points::reached(Place::AfterCall, made.is_ok().then_some(step).iter());
        locked(&self.0).remove(&key);
        Some(made)
    }
}

/// A question that is answered in time or not at all.
pub(crate) fn timed<Q>(question: Q) -> Request<Q> {
    let mut request = Request::new(question);
    request.set_timeout(CALL);
    request
}
