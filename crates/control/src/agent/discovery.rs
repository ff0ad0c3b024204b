//! Discovery: a query goes down the hierarchy, the best answers come up.
//!
//! A child that does not answer in time is left out and named, because partial answers are better than none. Each level
//! waits a second less than the one above it, so that partial answers arrive.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{Span, Time};

use super::{Agent, Child, ChildKind, Command, DiscoveryQuery, DiscoveryResult, DiscoverySubject, Requester};
use crate::estimation_vector::keep_best;
use crate::names::Name;
use crate::server_info::ServerInfo;

/// The most refusals and silent children in a result, which so stays short in a large federation.
const LISTED_MAX: usize = 8;

/// A discovery that waits for answers.
pub(super) struct OpenDiscovery {
    requester: Requester,
    best: u32,
    /// The query asks for one server only.
    only: bool,
    /// Children that have not answered.
    missing: BTreeSet<Name>,
    /// When the discovery goes on without them.
    pub(super) until: Time,
    found: DiscoveryResult,
}

impl OpenDiscovery {
    /// Counts a child that does not answer, with the servers below it.
    fn record_silent(&mut self, child: Name, children: &BTreeMap<Name, Child>) {
        let below = children.get(&child).map_or(0, |known| count(known.servers.len()));
        let servers = if self.only { below.min(1) } else { below };
        self.found.servers = self.found.servers.saturating_add(servers);
        self.found.silent.push(child);
    }
}

impl Agent {
    pub(super) fn start_discovery(
        &mut self,
        now: Time,
        requester: Requester,
        query: DiscoveryQuery,
        commands: &mut Vec<Command>,
    ) {
        let discovery = self.next_discovery;
        self.next_discovery += 1;
        let timeout = match (&query.subject, query.timeout) {
            // A handoff transfers the job's files, which takes longer than any estimate.
            (DiscoverySubject::Move(_), Some(given)) => given,
            (_, given) => given.map_or(self.config.timeout, |given| given.min(self.config.timeout)),
        };
        let below = Span((timeout.0 - 1).max(1));
        let mut missing = BTreeSet::new();
        let mut found = DiscoveryResult::default();
        for (name, child) in &self.children {
            let has = |chosen: &Name| child.servers.iter().any(|server| server.name == *chosen);
            let is_chosen = query.only.as_ref().is_none_or(has);
            if is_chosen && !child.attached {
                let asked =
                    |server: &&ServerInfo| query.only.as_ref().is_none_or(|only| server.name == *only);
                let down = child.servers.iter().filter(asked).map(|server| server.name.clone());
                found.down.extend(down);
            }
            // An agent without servers has no server to query.
            let has_servers = child.kind == ChildKind::Server || !child.servers.is_empty();
            if child.attached && is_chosen && has_servers {
                missing.insert(name.clone());
                let query = Box::new(DiscoveryQuery { timeout: Some(below), ..query.clone() });
                commands.push(Command::Query { child: name.clone(), discovery, query });
            }
        }
        found.servers = count(found.down.len());
        let open = OpenDiscovery {
            requester,
            best: query.best,
            only: query.only.is_some(),
            missing,
            until: now + timeout,
            found,
        };
        self.discoveries.insert(discovery, open);
        self.conclude(now, discovery, commands);
    }

    pub(super) fn answered(
        &mut self,
        now: Time,
        child: &Name,
        discovery: u64,
        mut found: DiscoveryResult,
        commands: &mut Vec<Command>,
    ) {
        let Some(open) = self.discoveries.get_mut(&discovery) else { return };
        // The answer is late or a duplicate.
        if !open.missing.remove(child) {
            return;
        }
        if let Some(known) = self.children.get(child) {
            keep_own(&mut found, child, known);
        }
        // A server that has answered counts as one; an agent reports how many it has below it.
        let server = self.children.get(child).is_some_and(|known| known.kind == ChildKind::Server);
        let (servers, answered) = if server { (1, 1) } else { (found.servers, found.answered) };
        open.found.servers = open.found.servers.saturating_add(servers);
        open.found.answered = open.found.answered.saturating_add(answered);
        open.found.down.extend(found.down);
        open.found.vectors.extend(found.vectors);
        open.found.refusals.extend(found.refusals);
        open.found.silent.extend(found.silent);
        open.found.more = open.found.more.saturating_add(found.more);
        open.found.snapshots.extend(found.snapshots);
        open.found.outcome = open.found.outcome.take().or(found.outcome);
        self.conclude(now, discovery, commands);
    }

    /// Goes on without the answers of a child that has disconnected.
    pub(super) fn stop_waiting_for(&mut self, now: Time, child: &Name, commands: &mut Vec<Command>) {
        let waiting: Vec<u64> = self
            .discoveries
            .iter()
            .filter(|(_, open)| open.missing.contains(child))
            .map(|(id, _)| *id)
            .collect();
        for discovery in waiting {
            if let Some(open) = self.discoveries.get_mut(&discovery) {
                open.missing.remove(child);
                open.record_silent(child.clone(), &self.children);
            }
            self.conclude(now, discovery, commands);
        }
    }

    /// Concludes the discoveries whose timeout has passed.
    pub(super) fn conclude_overdue(&mut self, now: Time, commands: &mut Vec<Command>) {
        let over: Vec<u64> =
            self.discoveries.iter().filter(|(_, open)| open.until <= now).map(|(id, _)| *id).collect();
        for discovery in over {
            if let Some(open) = self.discoveries.get_mut(&discovery) {
                for child in std::mem::take(&mut open.missing) {
                    open.record_silent(child, &self.children);
                }
            }
            self.conclude(now, discovery, commands);
        }
    }

    /// Answers a discovery once no child is missing.
    fn conclude(&mut self, now: Time, discovery: u64, commands: &mut Vec<Command>) {
        if self.discoveries.get(&discovery).is_none_or(|open| !open.missing.is_empty()) {
            return;
        }
        let Some(OpenDiscovery { requester, best, mut found, .. }) = self.discoveries.remove(&discovery)
        else {
            return;
        };
        keep_best(&mut found.vectors, best as usize);
        found.refusals.sort();
        found.silent.sort();
        for left in [shorten(&mut found.refusals), shorten(&mut found.silent)] {
            found.more = found.more.saturating_add(left);
        }
        found.down.sort();
        found.down.truncate(LISTED_MAX);
        match requester {
            Requester::ReallocationCycle => self.handle_cycle_answer(now, found, commands),
            Requester::Client(_) | Requester::Parent(_) => {
                commands.push(Command::Answer { to: requester, found })
            }
        }
    }
}

/// Keeps what a child may say: of itself if it is a server, and of the servers below it if it is an agent.
fn keep_own(found: &mut DiscoveryResult, child: &Name, known: &Child) {
    let is_own = |server: &Name| match known.kind {
        ChildKind::Server => server == child,
        ChildKind::Agent => known.servers.iter().any(|below| below.name == *server),
    };
    found.vectors.retain(|vector| is_own(&vector.server));
    found.refusals.retain(|(server, _)| is_own(server));
    found.snapshots.retain(|snapshot| is_own(&snapshot.info.name));
    found.down.retain(is_own);
    if known.kind == ChildKind::Server {
        (found.silent, found.down, found.more) = (Vec::new(), Vec::new(), 0);
    }
}

/// Keeps the first few entries; returns how many it drops.
fn shorten<A>(list: &mut Vec<A>) -> u32 {
    let left = list.len().saturating_sub(LISTED_MAX);
    list.truncate(LISTED_MAX);
    count(left)
}

fn count(found: usize) -> u32 {
    u32::try_from(found).unwrap_or(u32::MAX)
}
