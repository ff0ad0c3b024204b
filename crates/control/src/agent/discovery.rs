//! Discovery: a question goes down, the best answers come up.
//!
//! A child that does not answer in time is left out and named; the others' answers are worth more than
//! certainty. Each level waits a second less than the one above it, so that partial answers arrive.

use std::collections::BTreeSet;

use pliant_model::{Span, Time};

use super::{Agent, Ask, Asker, ChildKind, Command, Found};
use crate::names::Name;
use crate::vector::cut;

/// How many refusals and how many silent children are told: however many servers there are, an answer stays short.
const TOLD: usize = 8;

/// A discovery that waits for answers.
pub(super) struct Open {
    by: Asker,
    best: u32,
    /// Who has not answered.
    missing: BTreeSet<Name>,
    /// When to go on without them.
    pub(super) until: Time,
    found: Found,
}

impl Agent {
    pub(super) fn ask(&mut self, now: Time, by: Asker, ask: Ask, commands: &mut Vec<Command>) {
        let discovery = self.next_discovery;
        self.next_discovery += 1;
        let patience = ask.patience.map_or(self.config.patience, |given| given.min(self.config.patience));
        let below = Span((patience.0 - 1).max(1));
        let mut missing = BTreeSet::new();
        for (name, child) in &self.children {
            let has = |wanted: &Name| child.servers.iter().any(|server| server.name == *wanted);
            let wanted = ask.only.as_ref().is_none_or(has);
            // An agent without servers has nobody to ask.
            let somebody = child.kind == ChildKind::Server || !child.servers.is_empty();
            if child.attached && wanted && somebody {
                missing.insert(name.clone());
                let ask = Box::new(Ask { patience: Some(below), ..ask.clone() });
                commands.push(Command::Ask { child: name.clone(), discovery, ask });
            }
        }
        let open = Open { by, best: ask.best, missing, until: now + patience, found: Found::default() };
        self.discoveries.insert(discovery, open);
        self.conclude(discovery, commands);
    }

    pub(super) fn answered(
        &mut self,
        child: &Name,
        discovery: u64,
        found: Found,
        commands: &mut Vec<Command>,
    ) {
        let Some(open) = self.discoveries.get_mut(&discovery) else { return };
        // Late or twice: not waited for any more.
        if !open.missing.remove(child) {
            return;
        }
        open.found.vectors.extend(found.vectors);
        open.found.refusals.extend(found.refusals);
        open.found.silent.extend(found.silent);
        open.found.more = open.found.more.saturating_add(found.more);
        self.conclude(discovery, commands);
    }

    /// A child that has gone will not answer.
    pub(super) fn no_answer_from(&mut self, child: &Name, commands: &mut Vec<Command>) {
        let waiting: Vec<u64> = self
            .discoveries
            .iter()
            .filter(|(_, open)| open.missing.contains(child))
            .map(|(id, _)| *id)
            .collect();
        for discovery in waiting {
            if let Some(open) = self.discoveries.get_mut(&discovery) {
                open.missing.remove(child);
                open.found.silent.push(child.clone());
            }
            self.conclude(discovery, commands);
        }
    }

    /// Answers with what there is where patience has run out.
    pub(super) fn give_up_waiting(&mut self, now: Time, commands: &mut Vec<Command>) {
        let over: Vec<u64> =
            self.discoveries.iter().filter(|(_, open)| open.until <= now).map(|(id, _)| *id).collect();
        for discovery in over {
            if let Some(open) = self.discoveries.get_mut(&discovery) {
                open.found.silent.extend(std::mem::take(&mut open.missing));
            }
            self.conclude(discovery, commands);
        }
    }

    /// Answers if nobody is missing.
    fn conclude(&mut self, discovery: u64, commands: &mut Vec<Command>) {
        if self.discoveries.get(&discovery).is_none_or(|open| !open.missing.is_empty()) {
            return;
        }
        let Some(Open { by, best, mut found, .. }) = self.discoveries.remove(&discovery) else { return };
        cut(&mut found.vectors, best as usize);
        found.refusals.sort();
        found.silent.sort();
        for left in [shorten(&mut found.refusals), shorten(&mut found.silent)] {
            found.more = found.more.saturating_add(left);
        }
        commands.push(Command::Answer { to: by, found });
    }
}

/// Keeps the first few; how many are left out.
fn shorten<A>(list: &mut Vec<A>) -> u32 {
    let left = list.len().saturating_sub(TOLD);
    list.truncate(TOLD);
    u32::try_from(left).unwrap_or(u32::MAX)
}
