//! Discovery: a query goes down the hierarchy, the best answers come up.
//!
//! The children with the best bounds are asked first, and those that cannot be among the best are not asked at all
//! ([`pliant_policy::discovery`]). A child that does not answer in time is left out and named, because partial answers are better than
//! none. Each level waits a second less than the one above it, so that partial answers arrive.

use std::collections::BTreeSet;

use pliant_model::{Span, Time};
use pliant_policy::completion::Offer;
use pliant_policy::discovery::Candidates;

use super::{Agent, Child, ChildKind, Command, DiscoveryQuery, DiscoveryResult, DiscoverySubject, Requester};
use crate::estimation_vector::{EstimationVector, keep_best};
use crate::names::Name;
use crate::server_info::ServerInfo;

/// The most refusals and silent children in a result, which so stays short in a large federation.
const LISTED_MAX: usize = 8;

/// After so long without some answers, all children that may be of use are asked.
const HURRIES_AFTER: Span = Span(2);

/// A discovery that waits for answers.
pub(super) struct OpenDiscovery {
    /// The first requester, and those that have asked the same since.
    requesters: Vec<Requester>,
    query: DiscoveryQuery,
    begun: Time,
    /// The children that were asked, and those that may be asked yet.
    candidates: Candidates<Name, Name>,
    /// When it goes on as if late children did not answer; none once it did.
    hurries: Option<Time>,
    /// When the discovery goes on without the children that have not answered.
    until: Time,
    found: DiscoveryResult,
}

impl OpenDiscovery {
    /// When something is due.
    pub(super) fn due(&self) -> Time {
        let hurries = self.hurries.filter(|_| self.candidates.rest().next().is_some());
        hurries.unwrap_or(self.until).min(self.until)
    }

    /// The servers below a child that the query asks for.
    fn servers_below(&self, known: Option<&Child>) -> u32 {
        let below = known.map_or(0, |known| count(known.servers.len()));
        if self.query.only.is_some() { below.min(1) } else { below }
    }

    /// Counts a child that does not answer, with the servers below it.
    fn record_silent(&mut self, child: Name, known: Option<&Child>) {
        self.found.servers = self.found.servers.saturating_add(self.servers_below(known));
        self.found.silent.push(child);
    }

    /// Counts a child that is down, with the servers below it.
    fn record_down(&mut self, known: Option<&Child>) {
        let is_asked =
            |server: &&ServerInfo| self.query.only.as_ref().is_none_or(|only| server.name == *only);
        let servers = known.map_or(&[][..], |known| &known.servers);
        let down: Vec<Name> = servers.iter().filter(is_asked).map(|server| server.name.clone()).collect();
        self.found.servers = self.found.servers.saturating_add(count(down.len()));
        self.found.down.extend(down);
    }

    /// A child has answered, or does not.
    fn close(&mut self, child: &Name) {
        let kept: Vec<Offer<&Name>> = self.found.vectors.iter().map(EstimationVector::offer).collect();
        self.candidates.answered(child, &kept);
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
        if self.join_discovery(now, requester, &query) {
            return;
        }
        let discovery = self.next_discovery;
        self.next_discovery += 1;
        let timeout = match (&query.subject, query.timeout) {
            // A handoff transfers the job's files, which takes longer than any estimate.
            (DiscoverySubject::Move(_), Some(given)) => given,
            (_, given) => given.map_or(self.config.timeout, |given| given.min(self.config.timeout)),
        };
        let mut asked = Vec::new();
        let mut down = Vec::new();
        let chosen: Option<BTreeSet<&Name>> = query.only.as_ref().map(|only| self.below.of(only).collect());
        for (name, child) in &self.children {
            let is_chosen = chosen.as_ref().is_none_or(|chosen| chosen.contains(name));
            // An agent without servers has no server to query.
            let has_servers = child.kind == ChildKind::Server || !child.servers.is_empty();
            match child.attached {
                true if is_chosen && has_servers => asked.push(name.clone()),
                false if is_chosen => down.push(name.clone()),
                _ => {}
            }
        }
        let mut open = OpenDiscovery {
            requesters: vec![requester],
            candidates: self.candidates(now, &query, &asked),
            query,
            begun: now,
            hurries: Some(now + Span((timeout.0 - 1).clamp(1, HURRIES_AFTER.0))),
            until: now + timeout,
            found: DiscoveryResult::default(),
        };
        for child in &down {
            open.record_down(self.children.get(child));
        }
        self.discoveries.insert(discovery, open);
        self.go_on(now, discovery, commands);
    }

    /// Has a requester wait for the answer to an equal question of this second that is under way; false if there is none. The answer may be a
    /// little older than the question, as one over a slow network is: servers check each submission.
    fn join_discovery(&mut self, now: Time, requester: Requester, query: &DiscoveryQuery) -> bool {
        let is_shared = match query.subject {
            DiscoverySubject::Work(_)
            | DiscoverySubject::InPlace { .. }
            | DiscoverySubject::Service { .. } => true,
            DiscoverySubject::Snapshots | DiscoverySubject::Move(_) => false,
        };
        let is_equal = |open: &&mut OpenDiscovery| open.begun == now && open.query == *query;
        let open = self.discoveries.values_mut().filter(|_| is_shared).find(is_equal);
        let is_joined = open.is_some();
        open.into_iter().for_each(|open| open.requesters.push(requester));
        is_joined
    }

    pub(super) fn answered(
        &mut self,
        now: Time,
        child: &Name,
        discovery: u64,
        mut found: DiscoveryResult,
        commands: &mut Vec<Command>,
    ) {
        self.bounds.answers(child, true);
        let Some(open) = self.discoveries.get_mut(&discovery) else { return };
        // The answer is late or a duplicate.
        if !open.candidates.is_asked(child) {
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
        open.found.not_asked = open.found.not_asked.saturating_add(found.not_asked);
        open.found.down.extend(found.down);
        open.found.vectors.extend(found.vectors);
        keep_best(&mut open.found.vectors, open.query.best as usize);
        open.found.refusals.extend(found.refusals);
        open.found.silent.extend(found.silent);
        open.found.more = open.found.more.saturating_add(found.more);
        open.found.snapshots.extend(found.snapshots);
        open.found.outcome = open.found.outcome.take().or(found.outcome);
        open.close(child);
        self.go_on(now, discovery, commands);
    }

    /// Goes on without the answers of a child that has disconnected.
    pub(super) fn stop_waiting_for(&mut self, now: Time, child: &Name, commands: &mut Vec<Command>) {
        let waiting: Vec<u64> = self
            .discoveries
            .iter()
            .filter(|(_, open)| open.candidates.is_asked(child))
            .map(|(id, _)| *id)
            .collect();
        for discovery in waiting {
            if let Some(open) = self.discoveries.get_mut(&discovery) {
                open.record_silent(child.clone(), self.children.get(child));
                open.close(child);
            }
            self.go_on(now, discovery, commands);
        }
    }

    /// Asks all other children of discoveries that have late children, and concludes those whose timeout has passed.
    pub(super) fn conclude_overdue(&mut self, now: Time, commands: &mut Vec<Command>) {
        let due = self.discoveries.iter().filter(|(_, open)| open.due() <= now);
        for discovery in due.map(|(id, _)| *id).collect::<Vec<u64>>() {
            let Some(open) = self.discoveries.get_mut(&discovery) else { continue };
            open.hurries = None;
            open.candidates.hurry();
            for child in open.candidates.open() {
                self.bounds.answers(child, false);
            }
            if open.until > now {
                self.go_on(now, discovery, commands);
                continue;
            }
            let late: Vec<Name> = open.candidates.open().cloned().collect();
            for child in late {
                open.record_silent(child.clone(), self.children.get(&child));
                open.close(&child);
            }
            self.conclude(discovery, now, commands);
        }
    }

    /// Asks the next children of a discovery, and answers it once no child is missing.
    fn go_on(&mut self, now: Time, discovery: u64, commands: &mut Vec<Command>) {
        let Some(open) = self.discoveries.get_mut(&discovery) else { return };
        loop {
            let kept: Vec<Offer<&Name>> = open.found.vectors.iter().map(EstimationVector::offer).collect();
            let asked = open.candidates.ask(&kept);
            let latest = Some(open.candidates.latest(&kept)).filter(|latest| *latest < Time::MAX);
            if asked.is_empty() {
                break;
            }
            let timeout = Some(Span(((open.until - now).0 - 1).max(1)));
            for child in asked {
                let known = self.children.get(&child);
                if known.is_some_and(|known| known.attached) {
                    let query = Box::new(DiscoveryQuery { timeout, latest, ..open.query.clone() });
                    commands.push(Command::Query { child, discovery, query });
                } else {
                    // It has disconnected meanwhile.
                    open.record_down(known);
                    open.close(&child);
                }
            }
        }
        if !open.candidates.is_open() {
            self.conclude(discovery, now, commands);
        }
    }

    /// Answers a discovery.
    fn conclude(&mut self, discovery: u64, now: Time, commands: &mut Vec<Command>) {
        let Some(mut open) = self.discoveries.remove(&discovery) else { return };
        let rest = open.candidates.rest().map(|child| open.servers_below(self.children.get(child)));
        let not_asked = rest.fold(0, u32::saturating_add);
        open.found.servers = open.found.servers.saturating_add(not_asked);
        open.found.not_asked = open.found.not_asked.saturating_add(not_asked);
        let OpenDiscovery { requesters, mut found, .. } = open;
        found.refusals.sort();
        found.silent.sort();
        for left in [shorten(&mut found.refusals), shorten(&mut found.silent)] {
            found.more = found.more.saturating_add(left);
        }
        found.down.sort();
        found.down.truncate(LISTED_MAX);
        for to in requesters {
            match to {
                Requester::ReallocationCycle => self.handle_cycle_answer(now, found.clone(), commands),
                Requester::Client(_) | Requester::Parent(_) => {
                    commands.push(Command::Answer { to, found: found.clone() })
                }
            }
        }
    }
}

/// Keeps what a child may say: of itself if it is a server, and of the servers below it if it is an agent. An agent whose estimates are all of
/// servers that are not known here counts as silent: it may not have asked those that are known, and its list of servers is on its way.
fn keep_own(found: &mut DiscoveryResult, child: &Name, known: &Child) {
    let is_own = |server: &Name| match known.kind {
        ChildKind::Server => server == child,
        ChildKind::Agent => known.servers.iter().any(|below| below.name == *server),
    };
    let has_estimates = !found.vectors.is_empty();
    found.vectors.retain(|vector| is_own(&vector.server));
    if has_estimates && found.vectors.is_empty() {
        found.silent.push(child.clone());
    }
    found.refusals.retain(|(server, _)| is_own(server));
    found.snapshots.retain(|snapshot| is_own(&snapshot.info.name));
    found.down.retain(is_own);
    if known.kind == ChildKind::Server {
        (found.silent, found.down) = (Vec::new(), Vec::new());
        (found.more, found.not_asked) = (0, 0);
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
