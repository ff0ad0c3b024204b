//! Whether the parent is there, for monitoring.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::masters::MasterShare;
use pliant_control::names::Name;
use pliant_telemetry::names;
use pliant_transport::AgentAddress;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{HEARTBEAT, SILENCE};
use crate::config::Parents;
use crate::host::JournalHealth;
use crate::monitoring::Readiness;

/// For how long a daemon reports that another process has its certificate.
const CONFLICT: Duration = Duration::from_secs(60);

/// The last contact with the parent, over a connection on which the parent has answered the greeting.
#[derive(Clone, Debug)]
pub(crate) struct ParentContact {
    /// The parent in metrics.
    peer: Arc<str>,
    last: Arc<Mutex<Last>>,
}

#[derive(Debug)]
struct Last {
    /// Before the first time: when the daemon was started.
    at: Instant,
    /// Where it was last looked for, and why it was not found.
    lost: Option<(String, String)>,
    /// When another process last took over the connection, and what the parent said.
    displaced: Option<(Instant, String)>,
}

impl ParentContact {
    /// Nothing yet: it has a moment to be found.
    pub(crate) fn start() -> ParentContact {
        ParentContact::with("parent")
    }

    /// With each of the parents.
    pub(crate) fn start_with(parents: &Parents) -> Vec<ParentContact> {
        let one = |(name, share, _): (Name, MasterShare, Vec<AgentAddress>)| match share.is_part() {
            true => ParentContact::with(&format!("parent {name}")),
            false => ParentContact::start(),
        };
        parents.clone().into_each().map(one).collect()
    }

    fn with(peer: &str) -> ParentContact {
        let last = Last { at: Instant::now(), lost: None, displaced: None };
        ParentContact { peer: peer.into(), last: Arc::new(Mutex::new(last)) }
    }

    /// Records a contact.
    pub(super) fn now(&self) {
        let mut last = self.last.lock();
        (last.at, last.lost) = (Instant::now(), None);
    }

    /// There is no connection to it, at that address.
    pub(super) fn lost(&self, address: &str, why: &str) {
        self.last.lock().lost = Some((address.to_owned(), why.to_owned()));
    }

    /// Another process with the same certificate has taken over the connection.
    pub(super) fn displaced(&self, why: &str) {
        self.last.lock().displaced = Some((Instant::now(), why.to_owned()));
    }

    /// What the parent said of another process with the same certificate, for a while.
    fn conflict(&self) -> Option<String> {
        let last = self.last.lock();
        let (at, why) = last.displaced.as_ref().filter(|(at, _)| at.elapsed() <= CONFLICT)?;
        Some(format!("{why} {} s ago", at.elapsed().as_secs()))
    }

    /// Updates the metric of the time since the last contact, with or without a connection.
    pub(super) async fn observe(self) {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            let age = self.last.lock().at.elapsed().as_secs_f64();
            metrics::gauge!(names::HEARTBEAT_AGE_SECONDS, "peer" => self.peer.to_string()).set(age);
        }
    }

    /// Why it counts as gone after so much silence.
    fn missing(&self, silence: Duration) -> Option<String> {
        let last = self.last.lock();
        let age = last.at.elapsed();
        let gone = age > silence;
        gone.then(|| match &last.lost {
            Some((address, why)) => format!("no answer from {address} for {} s: {why}", age.as_secs()),
            None => format!("no answer for {} s", age.as_secs()),
        })
    }
}

/// Whether a daemon can do its work: its journal can be written, snapshots included, its disk has room, one of its parents is there
/// if it has any, and no other process takes its place there.
pub(crate) fn readiness(journal: &JournalHealth, parents: &[ParentContact]) -> Readiness {
    let mut readiness = Readiness::ready();
    if let Some(why) = journal.failure() {
        readiness = readiness.but("journal", why);
    }
    if let Some(why) = journal.shortage() {
        readiness = readiness.but("disk", why);
    }
    if let Some(why) = journal.snapshot_failure() {
        readiness = readiness.but("snapshot", why);
    }
    let mut missing: Vec<String> = parents.iter().filter_map(|contact| contact.missing(SILENCE)).collect();
    if missing.len() < parents.len() {
        for why in missing {
            readiness = readiness
                .noting(format!("a master does not know of its users' jobs what has changed: {why}"));
        }
    } else if !missing.is_empty() {
        readiness = readiness.but("parent", missing.swap_remove(0));
    }
    if let Some(why) = parents.iter().find_map(ParentContact::conflict) {
        readiness = readiness.but("certificate", why);
    }
    readiness
}

#[cfg(test)]
mod tests {
    use pliant_journal::JournalError;

    use super::*;

    #[tokio::test]
    async fn a_parent_is_down_after_silence_and_up_after_a_contact() {
        let contact = ParentContact::start();
        let earlier = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        assert_eq!(contact.missing(SILENCE), None);
        contact.lost("agent.example.org:7700", "connection refused");
        assert_eq!(contact.missing(SILENCE), None, "it has a moment to come back");
        contact.last.lock().at = earlier(35);
        let (journal, full) = (JournalHealth::default(), JournalError::Full { why: "no room".to_owned() });
        journal.committed(Err(&full));
        let unwritten = || Readiness::ready().but("journal", full.to_string());
        let readiness_of = |contact: &ParentContact| readiness(&journal, std::slice::from_ref(contact));
        let why = "no answer from agent.example.org:7700 for 35 s: connection refused";
        let expected = unwritten().but("parent", why.to_owned());
        assert_eq!(readiness_of(&contact), expected);
        contact.now();
        assert_eq!(readiness_of(&contact), unwritten());
        journal.committed(Ok(()));
        contact.last.lock().at = earlier(9);
        assert_eq!(readiness_of(&contact), Readiness::ready().but("parent", "no answer for 9 s".to_owned()));
        assert!(readiness(&journal, &[]).is_ready());
        let other = ParentContact::start();
        let both = readiness(&journal, &[contact.clone(), other.clone()]);
        assert!(both.is_ready(), "one of two masters is enough");
        assert_ne!(both, Readiness::ready(), "and the other one is mentioned");
        other.last.lock().at = earlier(9);
        assert!(!readiness(&journal, &[contact.clone(), other]).is_ready());
        journal.snapshot(Some(full.to_string()));
        assert_eq!(readiness(&journal, &[]), Readiness::ready().but("snapshot", full.to_string()));
        journal.snapshot(None);
        journal.disk(Some("7 bytes left".to_owned()));
        assert_eq!(readiness(&journal, &[]), Readiness::ready().but("disk", "7 bytes left".to_owned()));
    }

    #[tokio::test]
    async fn a_daemon_whose_place_was_taken_is_not_ready_for_a_while() {
        let (contact, journal) = (ParentContact::start(), JournalHealth::default());
        contact.displaced("another connection came from 10.0.0.7:4242");
        contact.now();
        let why = "another connection came from 10.0.0.7:4242 0 s ago";
        assert_eq!(
            readiness(&journal, std::slice::from_ref(&contact)),
            Readiness::ready().but("certificate", why)
        );
        let before = Instant::now().checked_sub(CONFLICT + Duration::from_secs(1)).unwrap();
        if let Some((at, _)) = &mut contact.last.lock().displaced {
            *at = before;
        }
        assert!(readiness(&journal, std::slice::from_ref(&contact)).is_ready());
    }
}
