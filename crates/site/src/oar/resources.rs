//! What oarnodes says of all resources: of each node, how many cores it has, which they are, and what else it has by the properties that
//! the operator names.

use std::collections::{BTreeMap, BTreeSet};

use pliant_control::listing::Node;
use pliant_model::{Mebibytes, Time};
use serde::Deserialize;
use serde_json::Value;

use super::EXPECTED;
use super::hierarchy::NODE;
use super::number::Number;
use super::requested::Size;
use super::settings::{NodeProperties, Settings};
use crate::batch_system::error::Unreadable;

/// The type of resources that are cores.
pub(super) const CORES: &str = "default";

/// At most so many properties that are not understood are reported.
const UNREAD_MAX: usize = 20;

/// The resources of a cluster.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Resources {
    pub(super) nodes: Vec<Node>,
    /// The node of each resource.
    pub(super) node_names: BTreeMap<u64, String>,
    /// The types of the resources that are no cores: licences, disks.
    pub(super) other_types: BTreeMap<u64, String>,
    /// The units of each licence, without broken ones.
    pub(super) licences: BTreeMap<String, u32>,
    /// What was not understood of their properties: nothing that jobs could ask for.
    pub(super) unread: Vec<String>,
}

#[derive(Deserialize)]
struct Resource {
    resource_id: Number,
    network_address: Option<String>,
    state: String,
    #[serde(default)]
    drain: Option<String>,
    #[serde(default)]
    available_upto: Option<Number>,
    #[serde(rename = "type", default)]
    kind: Option<String>,
    /// Properties, by their names.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// What is known of a node from its resources so far.
#[derive(Default)]
struct OfNode {
    usable: u32,
    all: u32,
    unusable: Option<String>,
    node: Node,
}

impl Resource {
    /// Why no job is started on it; none if jobs are. One that sleeps is woken up for a job.
    fn unusable(&self, now: Time) -> Option<String> {
        let sleeps =
            self.state == "Absent" && self.available_upto.as_ref().is_some_and(|until| until.0 > now.0);
        match self.state.as_str() {
            _ if self.drain.as_deref() == Some("YES") => Some("drained".to_owned()),
            "Alive" => None,
            _ if sleeps => None,
            state => Some(state.to_lowercase()),
        }
    }
}

impl Resources {
    /// Reads what `oarnodes --json` printed. Licences are counted, and what else computes nothing (disks) is left out.
    pub(super) fn read(printed: &str, now: Time, settings: &Settings) -> Result<Resources, Unreadable> {
        let unreadable = |error: serde_json::Error| {
            Unreadable::new("oarnodes", "a resource", EXPECTED, &error.to_string())
        };
        let read: BTreeMap<String, Resource> = match printed.trim() {
            "" | "null" => BTreeMap::new(),
            printed => serde_json::from_str(printed).map_err(unreadable)?,
        };
        let properties = &settings.node;
        let none = settings.licences.iter().map(|name| (name.clone(), 0));
        let mut resources = Resources { licences: none.collect(), ..Resources::default() };
        let mut nodes: BTreeMap<String, OfNode> = BTreeMap::new();
        let mut unread = BTreeSet::new();
        let mut missing: BTreeSet<&String> = properties.names().collect();
        for mut one in read.into_values() {
            let unusable = one.unusable(now);
            let id = u64::try_from(one.resource_id.0).ok();
            if let Some(kind) = one.kind.filter(|kind| kind != CORES) {
                if let Some(units) = resources.licences.get_mut(&kind).filter(|_| unusable.is_none()) {
                    *units = units.saturating_add(1);
                }
                resources.other_types.extend(id.map(|id| (id, kind)));
                continue;
            }
            let Some(name) = one.network_address.filter(|name| !name.is_empty()) else { continue };
            resources.node_names.extend(id.map(|id| (id, name.clone())));
            one.others.insert(NODE.to_owned(), Value::String(name.clone()));
            let of = nodes.entry(name).or_default();
            of.all += 1;
            match unusable {
                None => of.usable += 1,
                unusable => of.unusable = unusable,
            }
            missing.retain(|name| !one.others.contains_key(*name));
            unread.extend(has(&mut of.node, &one.others, properties).map(|error| error.to_string()));
        }
        if !nodes.is_empty() {
            let never = |name: &String| {
                let location = format!("property {name} of [cluster.oar.node]");
                Unreadable::new("oarnodes", &location, "one that a resource has", "no resource that has it")
            };
            unread.extend(missing.into_iter().map(|name| never(name).to_string()));
            let none = |kind: &&String| resources.units(kind) == 0;
            let never = |kind: &String| {
                let location = format!("type {kind} of `licences`");
                Unreadable::new("oarnodes", &location, "one that a resource has", "no resource that has it")
            };
            unread.extend(settings.licences.iter().filter(none).map(|kind| never(kind).to_string()));
        }
        resources.unread = unread.into_iter().take(UNREAD_MAX).collect();
        let node = |(name, OfNode { usable, all, unusable, node }): (String, OfNode)| Node {
            name,
            // Of a node with broken cores the others are used.
            cores: if usable == 0 { all } else { usable },
            unusable: unusable.filter(|_| usable == 0),
            ..node
        };
        resources.nodes = nodes.into_iter().map(node).collect();
        Ok(resources)
    }

    /// The resources of another type than cores, broken ones included.
    pub(super) fn units(&self, kind: &str) -> u32 {
        self.other_types.values().filter(|one| *one == kind).count() as u32
    }

    pub(super) fn size(&self) -> Size {
        Size {
            nodes: self.nodes.len() as u32,
            node_cores: self.nodes.iter().map(|node| node.cores).max().unwrap_or(1),
            cores: self.nodes.iter().map(|node| node.cores).sum(),
        }
    }
}

/// Notes what a node has by the properties of one of its resources, and gives what is no number: of that it has none.
fn has<'a>(
    node: &mut Node,
    found: &'a BTreeMap<String, Value>,
    properties: &'a NodeProperties,
) -> impl Iterator<Item = Unreadable> {
    let text = |name: &str| match found.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
        Some(other) => Some(other.to_string()),
    };
    let number = |name: &Option<String>| match name.as_ref().and_then(|name| Some((name, text(name)?))) {
        None => Ok(0),
        Some((name, text)) => text
            .parse::<u32>()
            .map_err(|_| Unreadable::new("oarnodes", &format!("property {name}"), "a number", &text)),
    };
    let numbers = [&properties.memory, &properties.gpus, &properties.scratch].map(number);
    let [memory, gpus, scratch] = numbers.each_ref().map(|read| *read.as_ref().unwrap_or(&0));
    node.memory = node.memory.max(Mebibytes(memory));
    node.gpus = node.gpus.max(gpus);
    node.scratch = node.scratch.max(Mebibytes(scratch));
    node.gpu_kind = node.gpu_kind.take().or(properties.gpu_kind.as_ref().and_then(|name| text(name)));
    let feature = |name: &String| match text(name)?.as_str() {
        "NO" => None,
        "YES" => Some(name.clone()),
        value => Some(value.to_owned()),
    };
    node.features.extend(properties.features.iter().filter_map(feature));
    node.features.sort();
    node.features.dedup();
    numbers.into_iter().filter_map(Result::err)
}
