//! What coordinators are told of parts: how they stand. What they answer is what is to become of them.
//!
//! The machine repeats what is not answered, so a call that fails is only told in the log. One call about a part is under way
//! at a time; what is to be said meanwhile is said next.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pliant_control::coallocation::{PartId, Standing, Verdict};
use pliant_control::handoff::Peer;
use pliant_control::names::Name;
use pliant_control::server::{Event, PartEvent, Server};
use tokio::runtime::Handle;
use tonic::Request;
use tonic::transport::Channel;

use crate::agent::driver::locked;
use crate::daemon::Mailbox;
use crate::daemon::crash_points::{self, Place};
use crate::identity::{ClientTls, Identity, Role, Timeouts, channel};
use crate::wire::proto::launches_client::LaunchesClient;
use crate::wire::{Decided, Stands, proto};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(30);
/// What a call is called where a daemon ends itself for tests.
const STEP: &str = "stands";

/// The way to the agents that coordinate launches.
#[derive(Clone)]
pub(in crate::server) struct Coordinators {
    pub(in crate::server) tls: Arc<ClientTls>,
    pub(in crate::server) mailbox: Mailbox<Server>,
    pub(in crate::server) runtime: Handle,
    pub(in crate::server) state: Arc<Mutex<State>>,
}

/// What is under way, and the connections that are open.
#[derive(Default)]
pub(in crate::server) struct State {
    /// With what is to be said next.
    calls: BTreeMap<PartId, Option<(Peer, Standing)>>,
    agents: HashMap<(Name, String), LaunchesClient<Channel>>,
}

impl Coordinators {
    /// Tells a coordinator how a part stands.
    pub(super) fn tell(&self, to: Peer, id: PartId, standing: Standing) {
        let mut state = locked(&self.state);
        if let Some(next) = state.calls.get_mut(&id) {
            *next = Some((to, standing));
            return;
        }
        state.calls.insert(id.clone(), None);
        drop(state);
        let own = self.clone();
        self.runtime.spawn(async move {
            let mut next = Some((to, standing));
            while let Some((to, standing)) = next {
                own.told(&to, &id, standing).await;
                next = own.next(&id);
            }
        });
    }

    fn next(&self, id: &PartId) -> Option<(Peer, Standing)> {
        let mut state = locked(&self.state);
        let next = state.calls.get_mut(id).and_then(Option::take);
        if next.is_none() {
            state.calls.remove(id);
        }
        next
    }

    async fn told(&self, to: &Peer, id: &PartId, standing: Standing) {
        let word = standing.word();
        crash_points::reached(Place::BeforeCall, [STEP].iter());
        match self.call(to, Stands { id: id.clone(), standing }).await {
            Ok(Decided { verdict, heard }) => {
                tracing::info!(part = %id, agent = %to.name, standing = word, verdict = verdict_word(&verdict), "told how a part stands");
                crash_points::reached(Place::AfterCall, [STEP].iter());
                let decided = PartEvent::Decided { reply: None, id: id.clone(), verdict, heard };
                // A server that has stopped asks again when it starts.
                let _ = self.mailbox.tell(Event::Part(decided));
            }
            Err(why) => {
                tracing::warn!(part = %id, agent = %to.name, standing = word, why, "told how a part stands: no answer");
                locked(&self.state).agents.remove(&(to.name.clone(), to.address.clone()));
            }
        }
    }

    async fn call(&self, to: &Peer, stands: Stands) -> Result<Decided, String> {
        let mut request = Request::new(proto::PartStands::from(&stands));
        request.set_timeout(CALL);
        let answer = self.agent(to)?.stands(request).await.map_err(|status| status.message().to_owned())?;
        Decided::try_from(answer.into_inner()).map_err(|malformed| malformed.to_string())
    }

    fn agent(&self, to: &Peer) -> Result<LaunchesClient<Channel>, String> {
        let key = (to.name.clone(), to.address.clone());
        let mut state = locked(&self.state);
        if let Some(agent) = state.agents.get(&key) {
            return Ok(agent.clone());
        }
        let identity = Identity::new(Role::Agent, to.name.as_str()).map_err(|error| error.to_string())?;
        let agent =
            LaunchesClient::new(channel(&to.address, &identity, self.tls.clone(), &Timeouts::default()));
        state.agents.insert(key, agent.clone());
        Ok(agent)
    }
}

/// A verdict in a word.
pub(super) fn verdict_word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Undecided => "undecided",
        Verdict::Commit { .. } => "commit",
        Verdict::End => "end",
    }
}
