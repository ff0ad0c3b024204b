//! Grids as DOT: the dendrogram as a tree, the links as edges between siblings.
//!
//! ```dot
//! graph grid {
//!   user_lan = isti;
//!   root [kind = root, bandwidth_mbps = 5];
//!   garr [kind = wan]; pisa [kind = man, bandwidth_mbps = 1000]; isti [kind = lan];
//!   n01 [power_mflops = 1350, load = 0.3];
//!   root -- garr -- pisa -- isti -- n01;
//!   isti -- cnit [bandwidth_mbps = 1000];
//! }
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use pliant_tig::{Grid, GridBuilder, GridError, GridItem, Level, Machine, NodeId};

use super::dot::{self, Dot, EdgeStatement, NodeStatement, quoted};
use super::grid_toml::{depth_first, sibling_pairs};
use super::unknown;
use crate::error::TraceError;
use crate::toml_file::Source;

const HINT: &str = "docs/reference/files/mapping.md shows such a file";

pub(super) fn parse(source: &Source) -> Result<Grid, TraceError> {
    let dot = dot::parse(source)?;
    let user_lan = dot::find(&dot.attributes, "user_lan")
        .ok_or_else(|| source.error(0..0, "missing attribute `user_lan`".to_owned(), HINT.to_owned()))?;
    let mut reader = Reader::new(source, &dot)?;
    reader.read_nodes(&dot)?;
    let grid = reader.builder.build(&user_lan.value);
    grid.map_err(|error| {
        let span = match error.item() {
            GridItem::UserLan => user_lan.span.clone(),
            GridItem::Node(at) => reader.nodes[at].clone(),
            GridItem::Machine(at) => reader.machines[at].clone(),
            GridItem::Link(at) => reader.links[at].clone(),
            GridItem::Whole => 0..0,
        };
        source.error(span, error.to_string(), error.hint().to_owned())
    })
}

/// A grid in the making, and where its parts were written.
struct Reader<'a> {
    source: &'a Source,
    statements: BTreeMap<&'a str, &'a NodeStatement>,
    /// Networks that are in the tree.
    ids: BTreeMap<&'a str, NodeId>,
    builder: GridBuilder,
    nodes: Vec<Range<usize>>,
    machines: Vec<Range<usize>>,
    links: Vec<Range<usize>>,
}

/// `kind` of a statement; a machine has none.
fn kind(statement: &NodeStatement) -> Option<&str> {
    dot::find(&statement.attributes, "kind").map(|kind| kind.value.as_str())
}

impl<'a> Reader<'a> {
    /// Finds the root.
    fn new(source: &'a Source, dot: &'a Dot) -> Result<Reader<'a>, TraceError> {
        let mut statements: BTreeMap<&str, &NodeStatement> = BTreeMap::new();
        for node in &dot.nodes {
            if statements.insert(&node.name, node).is_some() {
                let message = format!("expected unique names, found `{}` twice", node.name);
                return Err(source.error(node.span.clone(), message, "rename one of them".to_owned()));
            }
        }
        let is_root = |node: &&NodeStatement| kind(node) == Some(Level::Root.name());
        let root = dot.nodes.iter().find(is_root).ok_or_else(|| {
            let message = "expected a node of `kind = root`, found none".to_owned();
            source.error(0..0, message, HINT.to_owned())
        })?;
        let mut reader = Reader {
            source,
            statements,
            ids: BTreeMap::from([(root.name.as_str(), Grid::ROOT)]),
            builder: GridBuilder::new(&root.name),
            nodes: vec![root.span.clone()],
            machines: Vec::new(),
            links: Vec::new(),
        };
        reader.bandwidth(Grid::ROOT, root)?;
        Ok(reader)
    }

    /// Takes the edges of the tree from the root down, level by level in the order in which they are written;
    /// then the links, which are the edges that say a bandwidth.
    fn read_nodes(&mut self, dot: &'a Dot) -> Result<(), TraceError> {
        let is_link = |edge: &&EdgeStatement| dot::find(&edge.attributes, "bandwidth_mbps").is_some();
        let (links, mut tree): (Vec<&EdgeStatement>, Vec<&EdgeStatement>) =
            dot.edges.iter().partition(is_link);
        loop {
            let before = tree.len();
            let mut left = Vec::new();
            // A whole level at a time: what is attached to a network of this round waits for the next.
            let there: BTreeMap<&str, NodeId> = self.ids.clone();
            for edge in tree {
                let [one, other] = &edge.ends;
                match (there.get(one.as_str()), there.get(other.as_str())) {
                    (Some(parent), None) => self.hang(*parent, other, edge)?,
                    (None, Some(parent)) => self.hang(*parent, one, edge)?,
                    (Some(_), Some(_)) => return Err(self.no_tree(edge)),
                    (None, None) => left.push(edge),
                }
            }
            if left.is_empty() || left.len() == before {
                tree = left;
                break;
            }
            tree = left;
        }
        if let Some(edge) = tree.first() {
            let message = format!("expected a path from the root to `{}`, found none", edge.ends[0]);
            return Err(self.source.error(edge.span.clone(), message, HINT.to_owned()));
        }
        for link in links {
            let mut ends = [Grid::ROOT; 2];
            for (end, name) in ends.iter_mut().zip(&link.ends) {
                *end = *self.ids.get(name.as_str()).ok_or_else(|| {
                    let message = unknown(name, "WAN, MAN or LAN in the tree");
                    self.source.error(link.span.clone(), message, HINT.to_owned())
                })?;
            }
            let mbps = dot::needed(self.source, &link.attributes, "bandwidth_mbps", &link.span)?;
            self.builder.link(ends[0], ends[1], mbps);
            self.links.push(link.span.clone());
        }
        Ok(())
    }

    fn no_tree(&self, edge: &EdgeStatement) -> TraceError {
        let [one, other] = &edge.ends;
        let message = format!("expected a tree, found a second way between `{one}` and `{other}`");
        let hint = "a link between siblings has bandwidth_mbps".to_owned();
        self.source.error(edge.span.clone(), message, hint)
    }

    /// Hangs a network or a machine below a network.
    fn hang(&mut self, parent: NodeId, name: &'a str, edge: &EdgeStatement) -> Result<(), TraceError> {
        let Some(statement) = self.statements.get(name).copied() else {
            let hint = "every network and machine has a statement of its own".to_owned();
            return Err(self.source.error(edge.span.clone(), unknown(name, "node"), hint));
        };
        let Some(kind) = kind(statement) else { return self.machine(parent, statement) };
        if self.ids.contains_key(name) {
            return Err(self.no_tree(edge));
        }
        let explain = |error: GridError| {
            self.source.error(statement.span.clone(), error.to_string(), error.hint().to_owned())
        };
        let node = self.builder.node(parent, name).map_err(explain)?;
        self.nodes.push(statement.span.clone());
        self.ids.insert(name, node);
        self.check_kind(node, kind, statement)?;
        self.bandwidth(node, statement)
    }

    /// A network is of the kind that its depth says.
    fn check_kind(&self, node: NodeId, kind: &str, statement: &NodeStatement) -> Result<(), TraceError> {
        let level = self.builder.level(node).name();
        if kind == level {
            return Ok(());
        }
        let message = format!("`kind`: expected {level} at this depth, found `{kind}`");
        Err(self.source.error(statement.span.clone(), message, HINT.to_owned()))
    }

    fn machine(&mut self, lan: NodeId, statement: &NodeStatement) -> Result<(), TraceError> {
        let power_mflops = dot::needed(self.source, &statement.attributes, "power_mflops", &statement.span)?;
        let load = dot::number(self.source, &statement.attributes, "load")?.unwrap_or(0.0);
        self.builder.machine(lan, Machine { name: statement.name.clone(), power_mflops, load });
        self.machines.push(statement.span.clone());
        Ok(())
    }

    fn bandwidth(&mut self, node: NodeId, statement: &NodeStatement) -> Result<(), TraceError> {
        if let Some(mbps) = dot::number(self.source, &statement.attributes, "bandwidth_mbps")? {
            self.builder.bandwidth(node, mbps);
        }
        Ok(())
    }
}

/// A grid as DOT: a tree, and dashed links that do not pull it out of shape.
pub fn grid_to_dot(grid: &Grid) -> String {
    let user_lan = quoted(&grid.node(grid.user_lan()).name);
    let mut text = format!("graph grid {{\n  user_lan = {user_lan};\n");
    for id in depth_first(grid) {
        let node = grid.node(id);
        let (name, kind) = (quoted(&node.name), node.level.name());
        let inside = if node.level == Level::Lan { grid.capacity(grid.link(id, id)) } else { f64::INFINITY };
        let bandwidth =
            if inside.is_finite() { format!(", bandwidth_mbps = {inside:?}") } else { String::new() };
        text.push_str(&format!("  {name} [kind = {kind}{bandwidth}];\n"));
        if let Some(parent) = node.parent {
            text.push_str(&format!("  {} -- {name};\n", quoted(&grid.node(parent).name)));
        }
        if node.level != Level::Lan {
            continue;
        }
        for machine in grid.machines_below(id).map(|machine| grid.machine(machine)) {
            let Machine { name: machine, power_mflops, load } = machine;
            let machine = quoted(machine);
            text.push_str(&format!(
                "  {machine} [shape = box, power_mflops = {power_mflops:?}, load = {load:?}];\n  {name} -- {machine};\n"
            ));
        }
    }
    for [one, other] in sibling_pairs(grid) {
        let [one_name, other_name] = [one, other].map(|end| quoted(&grid.node(end).name));
        let mbps = grid.bandwidth(one, other);
        text.push_str(&format!(
            "  {one_name} -- {other_name} [bandwidth_mbps = {mbps:?}, style = dashed, constraint = false];\n"
        ));
    }
    text.push_str("}\n");
    text
}
