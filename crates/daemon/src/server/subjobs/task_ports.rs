//! Where the tasks of a subjob are to listen, found out when it has its processors and their input files, and kept free for them.
//!
//! Where the server runs jobs itself, on its own host: ports are kept here until the tasks start. Where a batch system does,
//! on a node: the supervisor that waits at the subjob's start gate keeps them, and says so there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::coallocation::{Addresses, Subjob, SubjobId, SubjobState};
use pliant_control::server::{Event, Server, SubjobEvent};
use pliant_site::processes::Ports;
use pliant_wire::bounds::ADDRESS_BYTES_MAX;

use super::inputs::Inputs;
use crate::host::Mailbox;
use crate::server::execution::{Host, bounded};

/// The polling interval for a start gate.
const POLL_PERIOD: Duration = Duration::from_millis(250);
/// How often is looked before the machine asks again.
const POLLS_MAX: u32 = 240;

/// The machines of tasks.
#[derive(Clone)]
pub(in crate::server) struct TaskPorts {
    host: Arc<Host>,
    /// How others reach this host; none if subjobs run on other hosts.
    own: Option<String>,
    mailbox: Mailbox<Server>,
    kept: Arc<Mutex<BTreeMap<SubjobId, Ports>>>,
    /// The subjobs that are being looked for.
    looking: Arc<Mutex<BTreeSet<SubjobId>>>,
}

impl TaskPorts {
    /// Those of a server that others reach under that address.
    pub(in crate::server) fn new(host: Arc<Host>, mailbox: Mailbox<Server>, address: &str) -> TaskPorts {
        let name = || address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned();
        let own = host.cluster.external().is_none().then(name);
        TaskPorts { host, own, mailbox, kept: Arc::default(), looking: Arc::default() }
    }

    /// Keeps the ports of the subjobs that were held when the server went down.
    pub(in crate::server) fn resume(&self, machine: &Server) {
        if self.own.is_none() {
            return;
        }
        for (subjob, _, state) in machine.subjobs() {
            if let SubjobState::Prepared { addresses } = state {
                self.kept.lock().insert(subjob.id.clone(), Ports::keep_again(addresses));
            }
        }
    }

    /// Lets go of the ports of a subjob: its tasks take them.
    pub(in crate::server) fn free(&self, id: &SubjobId) {
        self.kept.lock().remove(id);
    }

    /// Notifies the machine of where the tasks of a subjob will listen once it has their input files, unless that is being found out.
    pub(super) fn locate(&self, number: u32, subjob: &Subjob) {
        if !self.looking.lock().insert(subjob.id.clone()) {
            return;
        }
        let (own, id) = (self.clone(), subjob.id.clone());
        let tasks: Vec<String> = subjob.tasks.iter().map(|task| task.name.clone()).collect();
        let names: BTreeSet<String> = tasks.iter().cloned().collect();
        let inputs = Inputs::of(&self.host, subjob);
        self.host.runtime.spawn(async move {
            let gathered = match inputs {
                Ok(inputs) => inputs.gathered(&own.host.store).await,
                Err(why) => Err(why),
            };
            let found = match (gathered, own.own.clone()) {
                (Ok(true), Some(host)) => Some(own.keep(id.clone(), host, tasks).await),
                (Ok(true), None) => own.addresses_at_gate(number, &names).await,
                (Ok(false), _) => None,
                (Err(why), _) => Some(Err(why)),
            };
            own.looking.lock().remove(&id);
            if let Some(addresses) = found {
                if let Err(why) = &addresses {
                    tracing::warn!(subjob = %id, why, "its tasks cannot be run");
                }
                // A server that has stopped asks again when it starts.
                let _ = own.mailbox.send(Event::Subjob(SubjobEvent::Located { id, addresses }));
            }
        });
    }

    /// Keeps ports of this host.
    async fn keep(&self, id: SubjobId, host: String, tasks: Vec<String>) -> Result<Addresses, String> {
        if let Some(ports) = self.kept.lock().get(&id) {
            return Ok(ports.addresses().clone());
        }
        // A name may have to be looked up.
        let found = move || Ports::find(&host, tasks.iter().map(String::as_str));
        let found =
            tokio::task::spawn_blocking(found).await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let ports = found.map_err(|error| format!("no ports can be kept for its tasks: {error}"))?;
        let addresses = ports.addresses().clone();
        self.kept.lock().insert(id, ports);
        Ok(addresses)
    }

    /// What the supervisor of a subjob says at its start gate; none if it says nothing for long.
    async fn addresses_at_gate(
        &self,
        number: u32,
        tasks: &BTreeSet<String>,
    ) -> Option<Result<Addresses, String>> {
        for _ in 0..POLLS_MAX {
            let host = self.host.clone();
            match tokio::task::spawn_blocking(move || host.gate(number, None)?.addresses()).await {
                Ok(Ok(Some(addresses))) => return Some(checked(addresses, tasks)),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, number, "cannot see where the tasks of a subjob listen")
                }
                Err(error) => tracing::warn!(%error, number, "looking at the start gate of a subjob failed"),
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
        None
    }
}

/// What a supervisor says at its start gate, which the user of its account can have written in its place: not more than it could say.
fn checked(addresses: Result<Addresses, String>, tasks: &BTreeSet<String>) -> Result<Addresses, String> {
    let addresses = addresses.map_err(bounded)?;
    let is_short = addresses.values().all(|address| address.len() <= ADDRESS_BYTES_MAX);
    match is_short && addresses.keys().eq(tasks) {
        true => Ok(addresses),
        false => Err("its supervisor has not said where each of its tasks listens".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_start_gate_says_is_no_more_than_the_addresses_of_the_tasks() {
        let tasks = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let said = |names: &[&str], address: &str| {
            let addresses = names.iter().map(|name| ((*name).to_owned(), address.to_owned())).collect();
            checked(Ok(addresses), &tasks)
        };
        assert!(said(&["a", "b"], "node-1:4000").is_ok());
        assert!(said(&["a"], "node-1:4000").is_err());
        assert!(said(&["a", "b", "c"], "node-1:4000").is_err());
        assert!(said(&["a", "b"], &"x".repeat(ADDRESS_BYTES_MAX + 1)).is_err());
        let long = checked(Err("x".repeat(1 << 20)), &tasks).unwrap_err();
        assert!(long.len() <= pliant_wire::bounds::TEXT_BYTES_MAX);
    }
}
