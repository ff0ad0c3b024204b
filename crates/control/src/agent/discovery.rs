//! Discovery: a question goes down, the best answers come up.
//!
//! A child that does not answer in time is left out and named; the others' answers are worth more than
//! certainty. Each level waits a second less than the one above it, so that partial answers arrive.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{Span, Time};

use super::{Agent, Child, ChildKind, Command, DiscoveryQuery, DiscoveryResult, DiscoverySubject, Requester};
use crate::names::Name;
use crate::server_info::ServerInfo;
use crate::vector::cut;

/// How many refusals and how many silent children are told: however many servers there are, an answer stays short.
const TOLD: usize = 8;

/// A discovery that waits for answers.
pub(super) struct OpenDiscovery {
    by: Requester,
    best: u32,
    /// One server alone is asked.
    only: bool,
    /// Who has not answered.
    missing: BTreeSet<Name>,
    /// When to go on without them.
    pub(super) until: Time,
    found: DiscoveryResult,
}

impl OpenDiscovery {
    /// A child does not answer, and nor does any server below it.
    fn silent(&mut self, child: Name, children: &BTreeMap<Name, Child>) {
        let below = children.get(&child).map_or(0, |known| count(known.servers.len()));
        let servers = if self.only { below.min(1) } else { below };
        self.found.servers = self.found.servers.saturating_add(servers);
        self.found.silent.push(child);
    }
}

impl Agent {
    pub(super) fn ask(&mut self, now: Time, by: Requester, ask: DiscoveryQuery, commands: &mut Vec<Command>) {
        let discovery = self.next_discovery;
        self.next_discovery += 1;
        let timeout = match (&ask.what, ask.timeout) {
            // A job's files may be on their way for longer than any estimate takes.
            (DiscoverySubject::Order(_), Some(given)) => given,
            (_, given) => given.map_or(self.config.timeout, |given| given.min(self.config.timeout)),
        };
        let below = Span((timeout.0 - 1).max(1));
        let mut missing = BTreeSet::new();
        let mut found = DiscoveryResult::default();
        for (name, child) in &self.children {
            let has = |wanted: &Name| child.servers.iter().any(|server| server.name == *wanted);
            let wanted = ask.only.as_ref().is_none_or(has);
            if wanted && !child.attached {
                let asked = |server: &&ServerInfo| ask.only.as_ref().is_none_or(|only| server.name == *only);
                let absent = child.servers.iter().filter(asked).map(|server| server.name.clone());
                found.absent.extend(absent);
            }
            // An agent without servers has nobody to ask.
            let somebody = child.kind == ChildKind::Server || !child.servers.is_empty();
            if child.attached && wanted && somebody {
                missing.insert(name.clone());
                let ask = Box::new(DiscoveryQuery { timeout: Some(below), ..ask.clone() });
                commands.push(Command::Ask { child: name.clone(), discovery, ask });
            }
        }
        found.servers = count(found.absent.len());
        let open = OpenDiscovery {
            by,
            best: ask.best,
            only: ask.only.is_some(),
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
        found: DiscoveryResult,
        commands: &mut Vec<Command>,
    ) {
        let Some(open) = self.discoveries.get_mut(&discovery) else { return };
        // Late or twice: not waited for any more.
        if !open.missing.remove(child) {
            return;
        }
        // A server is one that has answered; an agent tells how many it has below it.
        let server = self.children.get(child).is_some_and(|known| known.kind == ChildKind::Server);
        let (servers, answered) = if server { (1, 1) } else { (found.servers, found.answered) };
        open.found.servers = open.found.servers.saturating_add(servers);
        open.found.answered = open.found.answered.saturating_add(answered);
        open.found.absent.extend(found.absent);
        open.found.vectors.extend(found.vectors);
        open.found.refusals.extend(found.refusals);
        open.found.silent.extend(found.silent);
        open.found.more = open.found.more.saturating_add(found.more);
        open.found.snapshots.extend(found.snapshots);
        open.found.outcome = open.found.outcome.take().or(found.outcome);
        self.conclude(now, discovery, commands);
    }

    /// A child that has gone will not answer.
    pub(super) fn no_answer_from(&mut self, now: Time, child: &Name, commands: &mut Vec<Command>) {
        let waiting: Vec<u64> = self
            .discoveries
            .iter()
            .filter(|(_, open)| open.missing.contains(child))
            .map(|(id, _)| *id)
            .collect();
        for discovery in waiting {
            if let Some(open) = self.discoveries.get_mut(&discovery) {
                open.missing.remove(child);
                open.silent(child.clone(), &self.children);
            }
            self.conclude(now, discovery, commands);
        }
    }

    /// Answers with what there is where timeout has run out.
    pub(super) fn give_up_waiting(&mut self, now: Time, commands: &mut Vec<Command>) {
        let over: Vec<u64> =
            self.discoveries.iter().filter(|(_, open)| open.until <= now).map(|(id, _)| *id).collect();
        for discovery in over {
            if let Some(open) = self.discoveries.get_mut(&discovery) {
                for child in std::mem::take(&mut open.missing) {
                    open.silent(child, &self.children);
                }
            }
            self.conclude(now, discovery, commands);
        }
    }

    /// Answers if nobody is missing.
    fn conclude(&mut self, now: Time, discovery: u64, commands: &mut Vec<Command>) {
        if self.discoveries.get(&discovery).is_none_or(|open| !open.missing.is_empty()) {
            return;
        }
        let Some(OpenDiscovery { by, best, mut found, .. }) = self.discoveries.remove(&discovery) else {
            return;
        };
        cut(&mut found.vectors, best as usize);
        found.refusals.sort();
        found.silent.sort();
        for left in [shorten(&mut found.refusals), shorten(&mut found.silent)] {
            found.more = found.more.saturating_add(left);
        }
        found.absent.sort();
        found.absent.truncate(TOLD);
        match by {
            Requester::Round => self.round_found(now, found, commands),
            Requester::Client(_) | Requester::Parent(_) => commands.push(Command::Answer { to: by, found }),
        }
    }
}

/// Keeps the first few; how many are left out.
fn shorten<A>(list: &mut Vec<A>) -> u32 {
    let left = list.len().saturating_sub(TOLD);
    list.truncate(TOLD);
    count(left)
}

fn count(found: usize) -> u32 {
    u32::try_from(found).unwrap_or(u32::MAX)
}
