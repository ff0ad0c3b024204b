//! The connections to the children that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use pliant_control::names::Name;
use pliant_model::{Procs, Span, Time};
use pliant_telemetry::names;
use pliant_transport::Peer;
use pliant_wire::{FromParent, proto};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::Status;

use super::skew::{Change, Skew};
use crate::host::Stopped;

/// The way down to a child.
pub(super) type DownSender = mpsc::Sender<Result<proto::Down, Status>>;

/// The connections to the children that are there, one of each child. The machine is notified of each connection's beginning,
/// events and end while the table is locked: it learns of them in the order in which they are in the table, and of no event of
/// a connection after the beginning of the child's next one.
#[derive(Clone, Default, Debug)]
pub(super) struct ChildConnections(Arc<Mutex<Table>>);

#[derive(Default, Debug)]
struct Table {
    /// The number of the last connection: unique over all children.
    last: u64,
    open: BTreeMap<Name, OpenConnection>,
    /// The last contact with each child, also with children that have gone; by role and name.
    last_contact: BTreeMap<String, Instant>,
    /// The clocks of children that have said what time it is.
    skews: BTreeMap<Name, Skew>,
    /// What each connected child last reported of servers.
    servers: BTreeMap<Name, ReportedServers>,
    /// What each connected child last reported of certificates.
    certificates: BTreeMap<Name, ReportedCertificates>,
    /// Children that report again what this agent has lost with its journal, also those that have gone before they were done.
    reporting_again: BTreeSet<Name>,
}

/// The connection of a child.
#[derive(Debug)]
struct OpenConnection {
    number: u64,
    remote: SocketAddr,
    sender: DownSender,
    /// Ends the connection, with the address of the one that takes its place.
    displace: oneshot::Sender<SocketAddr>,
}

/// A connection that was taken in.
#[derive(Debug)]
pub(super) struct TakenIn {
    /// Its number: unique over all children.
    pub(super) number: u64,
    /// Where the connection came from whose place it took.
    pub(super) earlier: Option<SocketAddr>,
    /// Receives the address of the connection that takes its place.
    pub(super) displaced: oneshot::Receiver<SocketAddr>,
}

/// What is reported of servers: their free processors, and those that operators have drained.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct ReportedServers {
    pub(super) free: BTreeMap<Name, Procs>,
    pub(super) drained: BTreeSet<Name>,
}

/// The last second of the certificates of agents and of servers.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct ReportedCertificates {
    pub(super) agents: BTreeMap<Name, Time>,
    pub(super) servers: BTreeMap<Name, Time>,
}

impl Table {
    fn is_open(&self, child: &Name, number: u64) -> bool {
        self.open.get(child).is_some_and(|open| open.number == number)
    }
}

impl ChildConnections {
    /// Takes a connection in, and ends an earlier one of the same child. The earlier one may be dead without notice, as after
    /// a power cut, so the later one counts.
    pub(super) fn open(
        &self,
        child: Name,
        remote: SocketAddr,
        sender: DownSender,
        notify: impl FnOnce() -> Result<(), Stopped>,
    ) -> Result<TakenIn, Stopped> {
        let mut table = self.0.lock();
        notify()?;
        table.last += 1;
        let number = table.last;
        table.servers.remove(&child);
        table.certificates.remove(&child);
        // If it has not reported everything, it begins anew.
        table.reporting_again.remove(&child);
        let (displace, displaced) = oneshot::channel();
        let earlier = table.open.insert(child, OpenConnection { number, remote, sender, displace });
        let earlier = earlier.map(|earlier| {
            // The send fails if the earlier connection has just ended.
            let _ = earlier.displace.send(remote);
            earlier.remote
        });
        Ok(TakenIn { number, earlier, displaced })
    }

    /// Notifies the machine of what came over a connection, unless another one has taken its place.
    pub(super) fn deliver(
        &self,
        child: &Name,
        number: u64,
        notify: impl FnOnce() -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let table = self.0.lock();
        if table.is_open(child, number) { notify() } else { Ok(()) }
    }

    /// Forgets a connection and reports it, if it is still the child's.
    pub(super) fn close(&self, child: &Name, number: u64, notify: impl FnOnce() -> Result<(), Stopped>) {
        let mut table = self.0.lock();
        if table.is_open(child, number) {
            table.open.remove(child);
            table.servers.remove(child);
            table.certificates.remove(child);
            // A daemon that has stopped knows no children anyway.
            let _ = notify();
        }
    }

    /// A child reports again over a connection what this agent has lost, or has reported all of it.
    pub(super) fn report_again(&self, child: &Name, number: u64, is_all: bool) {
        let mut table = self.0.lock();
        if !table.is_open(child, number) {
            return;
        }
        if is_all {
            table.reporting_again.remove(child);
        } else if !table.reporting_again.contains(child) {
            table.reporting_again.insert(child.clone());
        }
    }

    /// The children that have not reported again yet all that this agent has lost.
    pub(super) fn reporting_again(&self) -> Vec<Name> {
        self.0.lock().reporting_again.iter().cloned().collect()
    }

    /// Sends to a child, if it is there.
    pub(super) fn send(&self, child: &Name, message: &FromParent) {
        let sender = self.0.lock().open.get(child).map(|open| open.sender.clone());
        let Some(sender) = sender else { return };
        // A child that takes nothing in is as good as silent; questions to it time out, and what it
        // is not acknowledged it sends again.
        if sender.try_send(Ok(message.into())).is_err() {
            tracing::debug!(%child, "a child takes no more messages");
        }
    }

    /// Records a contact with a child.
    pub(super) fn record_contact(&self, child: &Peer, at: Instant) {
        self.0.lock().last_contact.insert(child.to_string(), at);
    }

    /// Records by how much the clock of a child is ahead of this agent's.
    pub(super) fn clock(&self, child: &Name, ahead: Span) {
        self.0.lock().skews.entry(child.clone()).or_default().add(ahead);
    }

    /// Looks at what a child has said of its clock since the last time.
    pub(super) fn update_skew(&self, child: &Name, peer: &Peer) {
        let looked = self.0.lock().skews.get_mut(child).and_then(Skew::update);
        let Some((ahead, change)) = looked else { return };
        metrics::gauge!(names::CLOCK_AHEAD_SECONDS, "peer" => peer.to_string()).set(ahead.0 as f64);
        match change {
            Some(Change::Apart(ahead)) => tracing::warn!(
                %child, ahead_s = ahead.0, "the clock of a child differs from this agent's: its estimates are compared wrongly"
            ),
            Some(Change::Together) => {
                tracing::info!(%child, "the clock of a child agrees with this agent's again")
            }
            None => {}
        }
    }

    /// The children whose clocks differ from ours by more than they should, and how far they are ahead.
    pub(super) fn clocks_apart(&self) -> BTreeMap<Name, Span> {
        let table = self.0.lock();
        table.skews.iter().filter_map(|(child, skew)| Some((child.clone(), skew.apart()?))).collect()
    }

    /// A connected child reports on servers.
    pub(super) fn report_servers(&self, child: &Name, reported: ReportedServers) {
        let mut table = self.0.lock();
        if table.open.contains_key(child) {
            table.servers.insert(child.clone(), reported);
        }
    }

    /// What connected children last reported of servers.
    pub(super) fn servers(&self) -> ReportedServers {
        let mut all = ReportedServers::default();
        for reported in self.0.lock().servers.values().cloned() {
            all.free.extend(reported.free);
            all.drained.extend(reported.drained);
        }
        all
    }

    /// A connected child reports until when certificates are valid.
    pub(super) fn report_certificates(&self, child: &Name, reported: ReportedCertificates) {
        let mut table = self.0.lock();
        if table.open.contains_key(child) {
            table.certificates.insert(child.clone(), reported);
        }
    }

    /// Until when certificates of children and of the servers below them are valid, as they last reported.
    pub(super) fn certificates(&self) -> ReportedCertificates {
        let mut all = ReportedCertificates::default();
        for reported in self.0.lock().certificates.values().cloned() {
            all.agents.extend(reported.agents);
            all.servers.extend(reported.servers);
        }
        all
    }

    /// Updates the metric of the time since the last contact with each child.
    pub(super) fn observe(&self) {
        for (child, at) in &self.0.lock().last_contact {
            let age = at.elapsed().as_secs_f64();
            metrics::gauge!(names::HEARTBEAT_AGE_SECONDS, "peer" => child.clone()).set(age);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a connection in that ends nowhere.
    fn open(
        connections: &ChildConnections,
        child: &Name,
        port: u16,
        notify: impl FnOnce() -> Result<(), Stopped>,
    ) -> TakenIn {
        let remote = SocketAddr::from(([127, 0, 0, 1], port));
        connections.open(child.clone(), remote, mpsc::channel(1).0, notify).unwrap()
    }

    #[test]
    fn a_later_connection_ends_the_earlier_one_which_delivers_nothing_more() {
        let connections = ChildConnections::default();
        let child: Name = "lyon".parse().unwrap();
        let delivered = Mutex::new(Vec::new());
        let deliver = |number| {
            let notify = || {
                delivered.lock().push(number);
                Ok(())
            };
            connections.deliver(&child, number, notify).unwrap();
        };
        let mut first = open(&connections, &child, 1, || Ok(()));
        deliver(first.number);
        assert_eq!((first.earlier, first.displaced.try_recv().ok()), (None, None));
        let second = open(&connections, &child, 2, || Ok(()));
        let port = |address: SocketAddr| address.port();
        assert_eq!((second.earlier.map(port), first.displaced.try_recv().map(port)), (Some(1), Ok(2)));
        deliver(first.number);
        deliver(second.number);
        connections.close(&child, second.number, || Ok(()));
        deliver(second.number);
        assert_eq!(*delivered.lock(), [first.number, second.number]);
    }

    #[test]
    fn the_end_of_an_earlier_connection_ends_no_later_one() {
        let connections = ChildConnections::default();
        let child: Name = "lyon".parse().unwrap();
        let notices = Mutex::new(Vec::new());
        let notify = |what| {
            notices.lock().push(what);
            Ok(())
        };
        let open = || open(&connections, &child, 1, || notify("attached")).number;
        let close = |number| connections.close(&child, number, || notify("detached"));
        let first = open();
        close(first);
        let second = open();
        // The first one's end, seen late.
        close(first);
        assert_eq!(*notices.lock(), ["attached", "detached", "attached"]);
        close(second);
        close(second);
        assert_eq!(notices.lock().len(), 4);
    }

    #[test]
    fn a_child_that_goes_before_it_has_reported_everything_again_is_incomplete() {
        let connections = ChildConnections::default();
        let child: Name = "lyon".parse().unwrap();
        let open = || open(&connections, &child, 1, || Ok(())).number;
        let first = open();
        connections.report_again(&child, first, false);
        connections.close(&child, first, || Ok(()));
        assert_eq!(connections.reporting_again(), std::slice::from_ref(&child));
        let second = open();
        connections.report_again(&child, second, false);
        // What is left of the earlier connection.
        connections.report_again(&child, first, true);
        assert_eq!(connections.reporting_again(), std::slice::from_ref(&child));
        connections.report_again(&child, second, true);
        assert_eq!(connections.reporting_again(), []);
    }

    #[test]
    fn servers_are_known_of_connected_children() {
        let connections = ChildConnections::default();
        let child: Name = "lyon".parse().unwrap();
        let report = || ReportedServers {
            free: BTreeMap::from([(child.clone(), Procs(3))]),
            drained: BTreeSet::from([child.clone()]),
        };
        connections.report_servers(&child, report());
        assert_eq!(connections.servers(), ReportedServers::default(), "it is not connected");
        let open = || open(&connections, &child, 1, || Ok(())).number;
        let first = open();
        connections.report_servers(&child, report());
        assert_eq!(connections.servers(), report());
        let second = open();
        assert_eq!(connections.servers(), ReportedServers::default(), "a new connection has not reported");
        connections.report_servers(&child, report());
        connections.close(&child, first, || Ok(()));
        assert_eq!(connections.servers(), report(), "an earlier connection has ended");
        connections.close(&child, second, || Ok(()));
        assert_eq!(connections.servers(), ReportedServers::default());
    }

    #[test]
    fn certificates_are_known_of_connected_children_and_servers_below_them() {
        let connections = ChildConnections::default();
        let [paris, lyon, nice]: [Name; 3] = ["paris", "lyon", "nice"].map(|name| name.parse().unwrap());
        let report = |agents: &[(&Name, i64)], servers: &[(&Name, i64)]| {
            let map =
                |all: &[(&Name, i64)]| all.iter().map(|(name, at)| ((*name).clone(), Time(*at))).collect();
            ReportedCertificates { agents: map(agents), servers: map(servers) }
        };
        let of_paris = report(&[(&paris, 1)], &[(&lyon, 2)]);
        connections.report_certificates(&paris, of_paris.clone());
        assert_eq!(connections.certificates(), ReportedCertificates::default(), "it is not connected");
        let open = |child: &Name| open(&connections, child, 1, || Ok(())).number;
        let (number, _) = (open(&paris), open(&nice));
        connections.report_certificates(&paris, of_paris);
        connections.report_certificates(&nice, report(&[], &[(&nice, 3)]));
        assert_eq!(connections.certificates(), report(&[(&paris, 1)], &[(&lyon, 2), (&nice, 3)]));
        connections.close(&paris, number, || Ok(()));
        assert_eq!(connections.certificates(), report(&[], &[(&nice, 3)]));
    }

    #[test]
    fn the_machine_is_notified_of_connections_in_the_order_of_the_table() {
        let connections = ChildConnections::default();
        let child: Name = "lyon".parse().unwrap();
        // What the machine would think: the sender that it can reach, if any.
        let notices = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let attached = || {
                            notices.lock().push(true);
                            Ok(())
                        };
                        let number = open(&connections, &child, 1, attached).number;
                        std::thread::yield_now();
                        let detached = || {
                            notices.lock().push(false);
                            Ok(())
                        };
                        connections.close(&child, number, detached);
                    }
                });
            }
        });
        assert!(connections.0.lock().open.is_empty());
        let notices = notices.lock();
        assert_eq!(notices.last(), Some(&false), "a child that is gone is not taken to be there");
        assert!(notices.windows(2).all(|two| two[0] || two[1]), "a child that is gone does not go again");
    }
}
