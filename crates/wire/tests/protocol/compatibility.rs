//! What makes a protocol incompatible with an earlier one.
//!
//! Fields, values and methods may be added. A number keeps its name and its type. What is removed leaves its number
//! `reserved`, for ever. A message that no field and no method names any more may go.

use std::collections::{BTreeMap, BTreeSet};

/// A protocol read from its lines.
#[derive(Default)]
struct Protocol<'t> {
    /// Fields and values: by message or enum and number, the name and the type.
    members: BTreeMap<(&'t str, i64), &'t str>,
    reserved: BTreeSet<(&'t str, i64)>,
    /// By method, its messages.
    methods: BTreeMap<&'t str, &'t str>,
    /// The messages and enums that have a line.
    types: BTreeSet<&'t str>,
}

/// What of the recorded protocol the current one breaks: a line for each, in the order of their names.
pub(crate) fn incompatible(recorded: &str, current: &str) -> Vec<String> {
    let (recorded, current) = (Protocol::read(recorded), Protocol::read(current));
    let mut found = Vec::new();
    for ((owner, number), was) in &recorded.members {
        let place = (*owner, *number);
        match current.members.get(&place) {
            Some(is) if is == was => {}
            Some(is) => found.push(format!("{owner}, number {number}: expected `{was}`, found `{is}`")),
            None if current.reserved.contains(&place) || !current.types.contains(owner) => {}
            None => {
                found.push(format!(
                    "{owner}, number {number}: `{was}` is removed; expected `reserved {number}`"
                ));
            }
        }
    }
    for (owner, number) in recorded.reserved.difference(&current.reserved) {
        if current.types.contains(owner) {
            found.push(format!("{owner}, number {number}: expected it to stay reserved"));
        }
    }
    for (method, was) in &recorded.methods {
        match current.methods.get(method) {
            Some(is) if is == was => {}
            Some(is) => found.push(format!("rpc {method}: expected `{was}`, found `{is}`")),
            None => found.push(format!("rpc {method}: is removed")),
        }
    }
    found
}

impl<'t> Protocol<'t> {
    fn read(text: &'t str) -> Protocol<'t> {
        let mut protocol = Protocol::default();
        text.lines()
            .for_each(|line| protocol.read_line(line).unwrap_or_else(|| panic!("not a line: {line}")));
        protocol
    }

    fn read_line(&mut self, line: &'t str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        let (owner, rest) = rest.split_once(' ')?;
        if kind == "rpc" {
            self.methods.insert(owner, rest);
            return Some(());
        }
        self.types.insert(owner);
        let (number, member) = rest.split_once(' ').unwrap_or((rest, ""));
        let place = (owner, number.parse().ok()?);
        match kind {
            "field" | "value" => self.members.insert(place, member).is_none().then_some(()),
            "reserved" => self.reserved.insert(place).then_some(()),
            _ => None,
        }
    }
}
