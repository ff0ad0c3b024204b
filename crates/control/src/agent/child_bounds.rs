//! The summaries of children, from which an agent bounds when work could complete below each of them.
//!
//! They are no part of the agent's persistent state: a child reports its summary again over each new connection, and a child without one
//! is asked in any case.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{JobId, Time};
use pliant_policy::discovery::{BoundedRequest, Candidates, ClusterBounds, Summary};

use super::{Agent, Child, ChildKind, Command, DiscoveryQuery, DiscoverySubject};
use crate::names::Name;

/// The summaries of children.
#[derive(Default)]
pub(super) struct ChildBounds {
    by_child: BTreeMap<Name, KnownChild>,
    /// Children that did not answer their last question in time.
    late: BTreeSet<Name>,
}

/// What is known of a child for discoveries.
#[derive(Default)]
struct KnownChild {
    summary: Option<Summary>,
    below: Option<ServersBelow>,
}

/// What the descriptions of the servers below a child have in common.
#[derive(Clone)]
struct ServersBelow {
    /// The least rank and name, which break ties of completion.
    first: (u32, Name),
    /// Some of them run scripts.
    scripts: bool,
}

impl ServersBelow {
    /// Of a child with servers.
    fn of(child: &Child) -> Option<ServersBelow> {
        let first = child.servers.iter().map(|server| (server.rank, &server.name)).min()?;
        let scripts = child.servers.iter().any(|server| server.scripts);
        Some(ServersBelow { first: (first.0, first.1.clone()), scripts })
    }
}

impl ChildBounds {
    /// The connection of a child is a new one, or is closed.
    pub(super) fn forget(&mut self, child: &Name) {
        self.by_child.remove(child);
        self.late.remove(child);
    }

    /// The servers below a child have changed.
    pub(super) fn servers_changed(&mut self, child: &Name) {
        if let Some(known) = self.by_child.get_mut(child) {
            known.below = None;
        }
    }

    /// A child has answered a question, or has not in time.
    pub(super) fn answers(&mut self, child: &Name, in_time: bool) {
        if in_time {
            self.late.remove(child);
        } else {
            self.late.insert(child.clone());
        }
    }
}

impl Agent {
    /// Keeps the summary of a child that is up.
    pub(super) fn summarised(&mut self, child: Name, summary: Summary, commands: &mut Vec<Command>) {
        if self.children.get(&child).is_some_and(|known| known.attached) {
            self.bounds.by_child.entry(child).or_default().summary = Some(summary);
            if !self.config.root {
                commands.push(Command::Summarise);
            }
        }
    }

    /// The summary of all servers below this agent that are up. Of a server below a child without a summary only the speed is known.
    pub fn summary(&self) -> Summary {
        let children = self.children.iter().filter(|(_, child)| child.attached);
        let of_child = |(name, child): (&Name, &Child)| {
            let known = self.bounds.by_child.get(name).and_then(|known| known.summary.as_ref());
            known.map_or_else(|| Cow::Owned(unknown(child)), Cow::Borrowed)
        };
        let summaries: Vec<Cow<'_, Summary>> = children.map(of_child).collect();
        Summary::joined(summaries.iter().map(Cow::as_ref))
    }

    /// The children to ask about a query, with their bounds.
    pub(super) fn candidates(
        &mut self,
        now: Time,
        query: &DiscoveryQuery,
        children: &[Name],
    ) -> Candidates<Name, Name> {
        let best = usize::try_from(query.best).unwrap_or(usize::MAX);
        let mut candidates = Candidates::new(best, query.latest.unwrap_or(Time::MAX));
        let work = match &query.subject {
            DiscoverySubject::Work(work) | DiscoverySubject::InPlace { work, .. } => Some(work),
            // Each server knows the shape of its services.
            DiscoverySubject::Service { .. } | DiscoverySubject::Snapshots | DiscoverySubject::Move(_) => {
                None
            }
        };
        let service = match &query.subject {
            DiscoverySubject::Service { name, .. } if query.only.is_none() => Some(name),
            _ => None,
        };
        let request = work.filter(|_| query.only.is_none()).map(|work| work.request(JobId(0), now));
        let Self { bounds: ChildBounds { by_child, late }, children: known_children, .. } = self;
        let from = work.map_or(now, |work| work.eligible(now));
        let bounded = request.as_ref().map(|request| BoundedRequest::new(request, now, from));
        // A server takes any size that meets the deadline.
        let has_deadline = work.is_some_and(|work| work.deadline.is_some());
        let bounded = bounded.map(|bounded| if has_deadline { bounded.in_any_size() } else { bounded });
        for name in children {
            let known = by_child.get_mut(name).filter(|known| known.summary.is_some());
            if let (Some(service), Some(known), Some(child)) = (service, &known, known_children.get(name))
                && known.summary.as_ref().is_some_and(|summary| !summary.may_have_service(service))
                && let Some(below) = ServersBelow::of(child)
            {
                candidates.push(Time::MAX, below.first, name.clone(), child.servers.len());
                continue;
            }
            let (Some(bounded), Some(known), Some(child)) = (&bounded, known, known_children.get(name))
            else {
                candidates.push_unbounded(name.clone());
                continue;
            };
            if known.below.is_none() {
                known.below = ServersBelow::of(child);
            }
            let (Some(summary), Some(below)) = (&known.summary, &known.below) else {
                candidates.push_unbounded(name.clone());
                continue;
            };
            let bound = if below.scripts { summary.completion_bound(bounded) } else { Time::MAX };
            let servers = match child.kind {
                _ if late.contains(name) => 0,
                ChildKind::Server => 1,
                ChildKind::Agent => child.servers.len(),
            };
            candidates.push(bound, below.first.clone(), name.clone(), servers);
        }
        candidates.sort();
        candidates
    }
}

/// The summary of a child that has reported none.
fn unknown(child: &Child) -> Summary {
    let unknown = child.servers.iter().map(|server| ClusterBounds::unknown(server.speed));
    Summary { groups: unknown.collect(), services: None }
}
