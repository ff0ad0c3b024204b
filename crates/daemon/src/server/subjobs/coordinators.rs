//! Coordinators are notified of how subjobs stand. They answer what is to become of them.
//!
//! The machine repeats what is not answered, so a call that fails is only logged. One call about a subjob is under way
//! at a time; what is to be said meanwhile is said next.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pliant_control::coallocation::{SubjobDecision, SubjobId, SubjobState};
use pliant_control::handoff::Peer;
use pliant_control::server::{Event, Server, SubjobEvent};
use pliant_transport::{ClientTls, Connections, Role};
use pliant_wire::proto::launches_client::LaunchesClient;
use pliant_wire::{DecidedSubjob, SubjobReport, proto};

use crate::calling::timed;
use crate::host::Mailbox;
use crate::host::crash_points::{self, CrashPoint};
use crate::server::execution::Host;

/// What a call is called where a daemon ends itself for tests.
const STEP: &str = "report-subjob";

/// The way to the agents that coordinate launches.
#[derive(Clone)]
pub(in crate::server) struct Coordinators {
    host: Arc<Host>,
    agents: Connections,
    mailbox: Mailbox<Server>,
    calls: Arc<Mutex<UnderWay>>,
}

/// The subjobs that a call is under way about, with what is to be said next.
type UnderWay = BTreeMap<SubjobId, Option<(Peer, SubjobState)>>;

impl Coordinators {
    /// The coordinators of a server with that certificate.
    pub(in crate::server) fn new(
        host: Arc<Host>,
        mailbox: Mailbox<Server>,
        tls: &Arc<ClientTls>,
    ) -> Coordinators {
        Coordinators {
            host,
            agents: Connections::new(Role::Agent, tls.clone()),
            mailbox,
            calls: Arc::default(),
        }
    }

    /// Reports the state of a subjob to its coordinator.
    pub(super) fn notify(&self, to: Peer, id: SubjobId, state: SubjobState) {
        let mut calls = self.calls.lock();
        if let Some(next) = calls.get_mut(&id) {
            *next = Some((to, state));
            return;
        }
        calls.insert(id.clone(), None);
        drop(calls);
        let own = self.clone();
        self.host.runtime.spawn(async move {
            let mut next = Some((to, state));
            while let Some((to, state)) = next {
                own.report(&to, &id, state).await;
                next = own.next(&id);
            }
        });
    }

    fn next(&self, id: &SubjobId) -> Option<(Peer, SubjobState)> {
        let mut calls = self.calls.lock();
        let next = calls.get_mut(id).and_then(Option::take);
        if next.is_none() {
            calls.remove(id);
        }
        next
    }

    async fn report(&self, to: &Peer, id: &SubjobId, state: SubjobState) {
        let word = state.word();
        crash_points::reached(CrashPoint::BeforeCall, [STEP].iter());
        match self.call(to, SubjobReport { id: id.clone(), state }).await {
            Ok(DecidedSubjob { decision, end_acknowledged }) => {
                tracing::info!(subjob = %id, agent = %to.name, state = word, decision = verdict_word(&decision), "reported the state of a subjob");
                crash_points::reached(CrashPoint::AfterCall, [STEP].iter());
                let decided =
                    SubjobEvent::Decided { reply: None, id: id.clone(), decision, end_acknowledged };
                // A server that has stopped asks again when it starts.
                let _ = self.mailbox.send(Event::Subjob(decided));
            }
            Err(why) => {
                tracing::warn!(subjob = %id, agent = %to.name, state = word, why, "reported the state of a subjob: no answer");
                self.agents.forget(&to.name);
            }
        }
    }

    async fn call(&self, to: &Peer, report: SubjobReport) -> Result<DecidedSubjob, String> {
        let channel = self.agents.to(&to.name, &to.address).map_err(|error| error.to_string())?;
        let reported =
            LaunchesClient::new(channel).report_subjob(timed(proto::SubjobReport::from(&report))).await;
        let answer = reported.map_err(|status| status.message().to_owned())?;
        DecidedSubjob::try_from(answer.into_inner()).map_err(|malformed| malformed.to_string())
    }
}

/// A decision in a word.
pub(super) fn verdict_word(decision: &SubjobDecision) -> &'static str {
    match decision {
        SubjobDecision::Undecided => "undecided",
        SubjobDecision::Commit { .. } => "commit",
        SubjobDecision::End => "end",
    }
}
