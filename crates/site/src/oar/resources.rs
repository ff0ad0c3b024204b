//! What oarnodes says of all resources: of each node, how many cores it has, and which they are.

use std::collections::BTreeMap;

use pliant_control::listing::Node;
use pliant_model::Time;
use serde::Deserialize;

use super::EXPECTED;
use super::number::Number;
use super::requested::Size;
use crate::batch_system::error::Unreadable;

/// The resources of a cluster.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Resources {
    pub(super) nodes: Vec<Node>,
    /// The node of each resource.
    pub(super) node_names: BTreeMap<u64, String>,
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
    /// Reads what `oarnodes --json` printed. What computes nothing (licences, disks) is left out.
    pub(super) fn read(printed: &str, now: Time) -> Result<Resources, Unreadable> {
        let unreadable = |error: serde_json::Error| {
            Unreadable::new("oarnodes", "a resource", EXPECTED, &error.to_string())
        };
        let read: BTreeMap<String, Resource> = match printed.trim() {
            "" | "null" => BTreeMap::new(),
            printed => serde_json::from_str(printed).map_err(unreadable)?,
        };
        let mut resources = Resources::default();
        let mut nodes: BTreeMap<String, (u32, u32, Option<String>)> = BTreeMap::new();
        for one in read.into_values().filter(|one| one.kind.as_deref().is_none_or(|kind| kind == "default")) {
            let unusable = one.unusable(now);
            let Some(name) = one.network_address.filter(|name| !name.is_empty()) else { continue };
            if let Ok(id) = u64::try_from(one.resource_id.0) {
                resources.node_names.insert(id, name.clone());
            }
            let (usable, all, why) = nodes.entry(name).or_default();
            *all += 1;
            match unusable {
                None => *usable += 1,
                unusable => *why = unusable,
            }
        }
        resources.nodes = nodes
            .into_iter()
            .map(|(name, (usable, all, why))| Node {
                name,
                // Of a node with broken cores the others are used.
                cores: if usable == 0 { all } else { usable },
                partitions: Vec::new(),
                unusable: why.filter(|_| usable == 0),
                ..Node::default()
            })
            .collect();
        Ok(resources)
    }

    pub(super) fn size(&self) -> Size {
        Size {
            nodes: self.nodes.len() as u32,
            node_cores: self.nodes.iter().map(|node| node.cores).max().unwrap_or(1),
            cores: self.nodes.iter().map(|node| node.cores).sum(),
        }
    }
}
