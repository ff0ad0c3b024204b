//! Grids as TOML.
//!
//! ```toml
//! user_lan = "isti"
//! bandwidth_mbps = 5            # between WANs; optional where there is one, or where links say it
//!
//! [[wan]]
//! name = "garr"
//! bandwidth_mbps = 100          # between its MANs
//! [[wan.man]]
//! name = "pisa"
//! bandwidth_mbps = 1000         # between its LANs
//! [[wan.man.lan]]
//! name = "isti"
//! bandwidth_mbps = 1000         # inside; optional, no limit if it is not given
//! machine = [{ name = "n01", power_mflops = 1350, load = 0.3 }]
//!
//! [[link]]                      # goes before the bandwidth of the network that both are in
//! between = ["isti", "cnit"]
//! bandwidth_mbps = 1000
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use pliant_tig::{Grid, GridBuilder, GridError, GridItem, Level, Machine, NodeId};
use serde::Deserialize;
use toml::Spanned;

use super::unknown;
use crate::error::TraceError;
use crate::toml_file::Source;

const SHAPE: &str =
    "a grid has user_lan, [[wan]], [[wan.man]], [[wan.man.lan]] with name and bandwidth_mbps, and [[link]]";

/// The name of the node above all: no file names it.
const ROOT: &str = "grid";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    user_lan: Spanned<String>,
    bandwidth_mbps: Option<Spanned<f64>>,
    wan: Vec<Spanned<Wan>>,
    #[serde(default)]
    link: Vec<Spanned<Link>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wan {
    name: Spanned<String>,
    bandwidth_mbps: Option<Spanned<f64>>,
    man: Vec<Spanned<Man>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Man {
    name: Spanned<String>,
    bandwidth_mbps: Option<Spanned<f64>>,
    lan: Vec<Spanned<Lan>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lan {
    name: Spanned<String>,
    bandwidth_mbps: Option<Spanned<f64>>,
    machine: Vec<Spanned<MachineTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineTable {
    name: Spanned<String>,
    power_mflops: Spanned<f64>,
    load: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    between: Spanned<[Spanned<String>; 2]>,
    bandwidth_mbps: Spanned<f64>,
}

/// A grid in the making, and where its parts were written.
struct Reader<'a> {
    source: &'a Source,
    builder: GridBuilder,
    /// By node: its name, and its bandwidth.
    nodes: Vec<[Range<usize>; 2]>,
    ids: BTreeMap<String, NodeId>,
    machines: Vec<[Range<usize>; 3]>,
}

pub(super) fn parse(source: &Source) -> Result<Grid, TraceError> {
    let file: File = source.parse(SHAPE)?;
    let mut reader = Reader {
        source,
        builder: GridBuilder::new(ROOT),
        nodes: vec![[0..0, span(&file.bandwidth_mbps)]],
        ids: BTreeMap::new(),
        machines: Vec::new(),
    };
    reader.set_bandwidth(Grid::ROOT, &file.bandwidth_mbps);
    for wan in file.wan.iter().map(Spanned::get_ref) {
        let wan_id = reader.node(Grid::ROOT, &wan.name, &wan.bandwidth_mbps)?;
        for man in wan.man.iter().map(Spanned::get_ref) {
            let man_id = reader.node(wan_id, &man.name, &man.bandwidth_mbps)?;
            for lan in man.lan.iter().map(Spanned::get_ref) {
                let lan_id = reader.node(man_id, &lan.name, &lan.bandwidth_mbps)?;
                lan.machine.iter().for_each(|machine| reader.machine(lan_id, machine.get_ref()));
            }
        }
    }
    for link in file.link.iter().map(Spanned::get_ref) {
        let mut ends = [Grid::ROOT; 2];
        for (end, name) in ends.iter_mut().zip(link.between.get_ref()) {
            *end = *reader.ids.get(name.get_ref()).ok_or_else(|| {
                let message = format!("`between`: {}", unknown(name.get_ref(), "WAN, MAN or LAN"));
                source.error(name.span(), message, "links join networks of this file".to_owned())
            })?;
        }
        reader.builder.link(ends[0], ends[1], *link.bandwidth_mbps.get_ref());
    }
    reader.builder.build(file.user_lan.get_ref()).map_err(|error| reader.explain(&file, &error))
}

fn span<T>(value: &Option<Spanned<T>>) -> Range<usize> {
    value.as_ref().map_or(0..0, Spanned::span)
}

impl Reader<'_> {
    fn node(
        &mut self,
        parent: NodeId,
        name: &Spanned<String>,
        bandwidth: &Option<Spanned<f64>>,
    ) -> Result<NodeId, TraceError> {
        let node = self
            .builder
            .node(parent, name.get_ref())
            .map_err(|error| self.source.error(name.span(), error.to_string(), error.hint().to_owned()))?;
        self.nodes.push([name.span(), span(bandwidth)]);
        self.ids.insert(name.get_ref().clone(), node);
        self.set_bandwidth(node, bandwidth);
        Ok(node)
    }

    fn set_bandwidth(&mut self, node: NodeId, bandwidth: &Option<Spanned<f64>>) {
        if let Some(mbps) = bandwidth {
            self.builder.bandwidth(node, *mbps.get_ref());
        }
    }

    fn machine(&mut self, lan: NodeId, machine: &MachineTable) {
        let MachineTable { name, power_mflops, load } = machine;
        self.machines.push([name.span(), power_mflops.span(), span(load)]);
        let load = load.as_ref().map_or(0.0, |load| *load.get_ref());
        let (name, power_mflops) = (name.get_ref().clone(), *power_mflops.get_ref());
        self.builder.machine(lan, Machine { name, power_mflops, load });
    }

    /// The error with its position.
    fn explain(&self, file: &File, error: &GridError) -> TraceError {
        let (key, span) = match (error, error.item()) {
            (_, GridItem::UserLan) => ("`user_lan`: ", file.user_lan.span()),
            (GridError::Power { at, .. }, _) => ("`power_mflops`: ", self.machines[*at][1].clone()),
            (GridError::Load { at, .. }, _) => ("`load`: ", self.machines[*at][2].clone()),
            (_, GridItem::Machine(at)) => ("`name`: ", self.machines[at][0].clone()),
            (GridError::Bandwidth { .. }, GridItem::Node(at)) => {
                ("`bandwidth_mbps`: ", self.nodes[at][1].clone())
            }
            (GridError::Bandwidth { .. }, GridItem::Link(at)) => {
                ("`bandwidth_mbps`: ", file.link[at].get_ref().bandwidth_mbps.span())
            }
            (_, GridItem::Link(at)) => ("`between`: ", file.link[at].get_ref().between.span()),
            (GridError::Empty { .. } | GridError::NoBandwidth { .. }, GridItem::Node(at)) => {
                ("", self.nodes[at][0].clone())
            }
            (_, GridItem::Node(at)) => ("`name`: ", self.nodes[at][0].clone()),
            (_, GridItem::Whole) => ("", 0..0),
        };
        self.source.error(span, format!("{key}{error}"), error.hint().to_owned())
    }
}

/// A grid as TOML, every link by itself.
pub fn grid_to_toml(grid: &Grid) -> String {
    let quoted = |name: &str| toml::Value::String(name.to_owned()).to_string();
    let mut text = format!("user_lan = {}\n", quoted(&grid.node(grid.user_lan()).name));
    for id in depth_first(grid) {
        let node = grid.node(id);
        let table = match node.level {
            Level::Root => continue,
            Level::Wan => "wan",
            Level::Man => "wan.man",
            Level::Lan => "wan.man.lan",
        };
        text.push_str(&format!("\n[[{table}]]\nname = {}\n", quoted(&node.name)));
        if node.level != Level::Lan {
            continue;
        }
        let inside = grid.capacity(grid.link(id, id));
        if inside.is_finite() {
            text.push_str(&format!("bandwidth_mbps = {inside:?}\n"));
        }
        text.push_str("machine = [\n");
        for machine in grid.machines_below(id).map(|machine| grid.machine(machine)) {
            let Machine { name, power_mflops, load } = machine;
            let name = quoted(name);
            text.push_str(&format!(
                "  {{ name = {name}, power_mflops = {power_mflops:?}, load = {load:?} }},\n"
            ));
        }
        text.push_str("]\n");
    }
    for [one, other] in sibling_pairs(grid) {
        let [one_name, other_name] = [one, other].map(|end| quoted(&grid.node(end).name));
        let mbps = grid.bandwidth(one, other);
        text.push_str(&format!(
            "\n[[link]]\nbetween = [{one_name}, {other_name}]\nbandwidth_mbps = {mbps:?}\n"
        ));
    }
    text
}

/// The nodes, each followed by what is below it.
pub(super) fn depth_first(grid: &Grid) -> Vec<NodeId> {
    let (mut order, mut stack) = (Vec::new(), vec![Grid::ROOT]);
    while let Some(node) = stack.pop() {
        order.push(node);
        stack.extend(grid.node(node).children.iter().rev());
    }
    order
}

/// Every two siblings.
pub(super) fn sibling_pairs(grid: &Grid) -> Vec<[NodeId; 2]> {
    let mut pairs = Vec::new();
    for node in depth_first(grid) {
        let children = &grid.node(node).children;
        for (at, one) in children.iter().enumerate() {
            pairs.extend(children[at + 1..].iter().map(|other| [*one, *other]));
        }
    }
    pairs
}
