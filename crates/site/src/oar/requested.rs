//! What a job asks for, as oarstat writes it: `-l "{type = 'default'}/network_address=2/resource_id=4,walltime=1:0:0" -l
//! ...`: its alternatives; of each the groups of resources, with `+` between; of each the levels of the hierarchy, the
//! number asked for at each. Conditions stand in braces, and may hold anything, braces in strings among it. Of a condition only the type of
//! resources matters: `{type = 'matlab'}/resource_id=2` are licences.

use std::collections::BTreeMap;

use pliant_model::{Span, is_word};

use super::resources::CORES;

/// One alternative.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    /// Cores.
    pub(super) cores: u32,
    /// Nodes, if it says how many.
    pub(super) nodes: Option<u32>,
    /// It shares its nodes with no other job.
    pub(super) exclusive: bool,
    /// Resources of other types than cores, by their types.
    pub(super) others: BTreeMap<String, u32>,
    pub(super) walltime: Span,
}

/// How large the cluster is, for what is asked for in nodes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Size {
    pub(super) nodes: u32,
    /// Of its largest node.
    pub(super) node_cores: u32,
    pub(super) cores: u32,
}

/// Names of the level that is a node.
const NODE: &[&str] = &["network_address", "host", "nodes", "node"];

/// The alternatives; none if the text is not understood.
pub(super) fn read(text: &str, size: Size) -> Option<Vec<Wanted>> {
    let plain = with_types_for_conditions(text);
    let alternatives = plain.split("-l \"").skip(1);
    alternatives.map(|one| alternative(one.trim_end().strip_suffix('"')?, size)).collect()
}

/// The text with `{TYPE}` in place of a condition that names a type of resources that are no cores, and nothing in place of others.
fn with_types_for_conditions(text: &str) -> String {
    let (mut depth, mut quote) = (0u32, None);
    let (mut plain, mut condition) = (String::new(), String::new());
    for letter in text.chars() {
        // Within a condition, SQL's strings and names: `'` and `"` begin and end them.
        match (quote, letter) {
            (Some(begun), letter) if begun == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') if depth > 0 => quote = Some(letter),
            (None, '{') => {
                depth += 1;
                continue;
            }
            (None, '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    // Of the first level of a group.
                    let is_first = plain.ends_with(['"', '+']);
                    let named = other_type(&condition).filter(|_| is_first);
                    plain.extend(named.map(|name| format!("{{{name}}}")));
                    condition.clear();
                }
                continue;
            }
            (None, _) => {}
        }
        if depth == 0 { plain.push(letter) } else { condition.push(letter) }
    }
    plain
}

/// The type of resources that a condition names, such as `(cluster = 'a') AND type = 'matlab'`; none if they are cores.
fn other_type(condition: &str) -> Option<&str> {
    let mut parts = condition.split("type");
    let mut before = parts.next()?;
    for rest in parts {
        let is_whole = !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let quoted =
            rest.trim_start().strip_prefix('=').and_then(|rest| rest.trim_start().strip_prefix('\''));
        let name = quoted.and_then(|rest| rest.split('\'').next());
        if let Some(name) = name.filter(|name| is_whole && is_word(name) && *name != CORES) {
            return Some(name);
        }
        before = rest;
    }
    None
}

fn alternative(text: &str, size: Size) -> Option<Wanted> {
    let (groups, walltime) = text.rsplit_once(",walltime=")?;
    let (walltime, others) = (clock(walltime)?, BTreeMap::new());
    let mut wanted = Wanted { cores: 0, nodes: None, exclusive: false, others, walltime };
    for group in groups.split('+') {
        if let Some((kind, levels)) = group.strip_prefix('{').and_then(|group| group.split_once('}')) {
            let (count, ..) = group_of(levels, size)?;
            let units = wanted.others.entry(kind.to_owned()).or_default();
            *units = units.saturating_add(count);
            continue;
        }
        let one = group_of(group, size)?;
        wanted.cores = wanted.cores.saturating_add(one.0);
        wanted.nodes = match (wanted.nodes, one.1) {
            (Some(some), Some(more)) => Some(some.saturating_add(more)),
            (some, more) => some.or(more),
        };
        wanted.exclusive |= one.2;
    }
    Some(wanted)
}

/// Cores, nodes, and whether the nodes are wholly its own.
fn group_of(group: &str, size: Size) -> Option<(u32, Option<u32>, bool)> {
    let (mut count, mut nodes, mut leaf) = (1u32, None, "");
    for level in group.split('/').filter(|level| !level.is_empty()) {
        let (name, number) = level.split_once('=')?;
        let is_node = NODE.contains(&name);
        let number = match number {
            // All there are, or as many as are free, or half of these: bounded by what there is.
            "ALL" | "BEST" | "BESTHALF" if is_node => size.nodes,
            "ALL" | "BEST" | "BESTHALF" if leaf.is_empty() => size.cores,
            "ALL" | "BEST" | "BESTHALF" => size.node_cores,
            number => number.parse().ok()?,
        };
        count = count.saturating_mul(number);
        if is_node {
            nodes = Some(count);
        }
        leaf = name;
    }
    // Of any other level than a node, one is at least a core.
    Some(match NODE.contains(&leaf) {
        true => (count.saturating_mul(size.node_cores), nodes, true),
        false => (count, nodes, false),
    })
}

fn clock(text: &str) -> Option<Span> {
    let parts: Vec<i64> =
        text.split(':').map(|part| part.parse::<u32>().ok().map(i64::from)).collect::<Option<_>>()?;
    match parts.as_slice() {
        &[hours, minutes, seconds] => Some(Span(hours * 3600 + minutes * 60 + seconds)),
        _ => None,
    }
}
