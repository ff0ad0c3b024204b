//! Builds a grid step by step; errors of the whole are reported at the end.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::check_name;

use super::{Grid, GridError, GridItem, Level, Machine, Node, NodeId};
use crate::graph::is_positive;

/// A grid in the making. It begins with the root.
#[derive(Clone, Debug)]
pub struct GridBuilder {
    nodes: Vec<Draft>,
    machines: Vec<(NodeId, Machine)>,
    links: Vec<([NodeId; 2], f64)>,
}

#[derive(Clone, Debug)]
struct Draft {
    name: String,
    level: Level,
    parent: Option<NodeId>,
    children: Vec<NodeId>,
    bandwidth_mbps: Option<f64>,
}

impl GridBuilder {
    /// A root of that name.
    pub fn new(name: &str) -> GridBuilder {
        let root = Draft {
            name: name.to_owned(),
            level: Level::Root,
            parent: None,
            children: Vec::new(),
            bandwidth_mbps: None,
        };
        GridBuilder { nodes: vec![root], machines: Vec::new(), links: Vec::new() }
    }

    /// Adds a node below `parent`, one level down.
    pub fn node(&mut self, parent: NodeId, name: &str) -> Result<NodeId, GridError> {
        let level = match self.nodes[parent.index()].level {
            Level::Root => Level::Wan,
            Level::Wan => Level::Man,
            Level::Man => Level::Lan,
            Level::Lan => {
                let lan = self.nodes[parent.index()].name.clone();
                return Err(GridError::BelowLan { lan, found: name.to_owned() });
            }
        };
        let node = NodeId(self.nodes.len() as u32);
        let (name, father_of) = (name.to_owned(), Some(parent));
        self.nodes.push(Draft { name, level, parent: father_of, children: Vec::new(), bandwidth_mbps: None });
        self.nodes[parent.index()].children.push(node);
        Ok(node)
    }

    /// What a node is.
    pub fn level(&self, node: NodeId) -> Level {
        self.nodes[node.index()].level
    }

    /// The bandwidth between any two children of a node that no link names; inside a LAN, of its machines.
    pub fn bandwidth(&mut self, node: NodeId, mbps: f64) {
        self.nodes[node.index()].bandwidth_mbps = Some(mbps);
    }

    /// Adds a machine to a LAN.
    pub fn machine(&mut self, lan: NodeId, machine: Machine) {
        self.machines.push((lan, machine));
    }

    /// The bandwidth between two siblings.
    pub fn link(&mut self, one: NodeId, other: NodeId, mbps: f64) {
        self.links.push(([one, other], mbps));
    }

    /// Checks everything. `user_lan` is the name of the LAN that searches begin from.
    pub fn build(&self, user_lan: &str) -> Result<Grid, GridError> {
        self.check_names()?;
        self.check_machines()?;
        let matrices = self.matrices()?;
        let mut grid = Grid {
            nodes: Vec::with_capacity(self.nodes.len()),
            machines: Vec::with_capacity(self.machines.len()),
            lan_of: Vec::with_capacity(self.machines.len()),
            user_lan: Grid::ROOT,
            others_mbps: BTreeMap::new(),
        };
        for (draft, links_mbps) in self.nodes.iter().zip(matrices) {
            let siblings = draft.parent.map_or(&[][..], |parent| &self.nodes[parent.index()].children);
            let own = grid.nodes.len();
            grid.nodes.push(Node {
                name: draft.name.clone(),
                level: draft.level,
                parent: draft.parent,
                children: draft.children.clone(),
                position: siblings.iter().position(|sibling| sibling.index() == own).unwrap_or(0),
                machines: 0..0,
                links_mbps,
            });
        }
        self.number_machines(&mut grid, Grid::ROOT);
        grid.with_user_lan(user_lan)
    }

    /// Numbers the machines so that those below one node follow each other.
    fn number_machines(&self, grid: &mut Grid, node: NodeId) {
        let first = grid.machines.len() as u32;
        for (_, machine) in self.machines.iter().filter(|(lan, _)| *lan == node) {
            grid.machines.push(machine.clone());
            grid.lan_of.push(node);
        }
        for child in &self.nodes[node.index()].children {
            self.number_machines(grid, *child);
        }
        grid.nodes[node.index()].machines = first..grid.machines.len() as u32;
    }

    fn check_names(&self) -> Result<(), GridError> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let nodes = self.nodes.iter().enumerate().map(|(at, node)| (GridItem::Node(at), &node.name));
        let machines =
            self.machines.iter().enumerate().map(|(at, (_, machine))| (GridItem::Machine(at), &machine.name));
        for (item, name) in nodes.chain(machines) {
            check_name(name).map_err(|source| GridError::Name { item, source })?;
            if !names.insert(name) {
                return Err(GridError::SameName { item, name: name.clone() });
            }
        }
        Ok(())
    }

    fn check_machines(&self) -> Result<(), GridError> {
        let mut filled = vec![false; self.nodes.len()];
        for (at, (lan, Machine { name, power_mflops, load })) in self.machines.iter().enumerate() {
            if self.nodes[lan.index()].level != Level::Lan {
                let node = self.nodes[lan.index()].name.clone();
                return Err(GridError::NotOnLan { at, machine: name.clone(), node });
            }
            filled[lan.index()] = true;
            if !is_positive(*power_mflops) {
                return Err(GridError::Power { at, machine: name.clone(), found: *power_mflops });
            }
            if !(0.0..=1.0).contains(load) {
                return Err(GridError::Load { at, machine: name.clone(), found: *load });
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let empty = if node.level == Level::Lan { !filled[at] } else { node.children.is_empty() };
            if empty {
                return Err(GridError::Empty { at, node: node.name.clone(), level: node.level });
            }
        }
        Ok(())
    }

    /// The bandwidths between the children of each node.
    fn matrices(&self) -> Result<Vec<Vec<f64>>, GridError> {
        let mut matrices: Vec<Vec<Option<f64>>> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            if let Some(found) = node.bandwidth_mbps.filter(|mbps| !is_positive(*mbps)) {
                return Err(GridError::Bandwidth { item: GridItem::Node(at), found });
            }
            let (children, lan) = (node.children.len(), node.level == Level::Lan);
            // A LAN without a stated bandwidth has no limit inside.
            let given = if lan { node.bandwidth_mbps.or(Some(f64::INFINITY)) } else { node.bandwidth_mbps };
            matrices.push(vec![given; if lan { 1 } else { children * children }]);
        }
        for (at, ([one, other], mbps)) in self.links.iter().enumerate() {
            self.apply_link(at, [*one, *other], *mbps, &mut matrices)?;
        }
        let complete = self.nodes.iter().zip(matrices).map(|(node, matrix)| self.complete(node, matrix));
        complete.collect()
    }

    fn apply_link(
        &self,
        at: usize,
        [one, other]: [NodeId; 2],
        mbps: f64,
        matrices: &mut [Vec<Option<f64>>],
    ) -> Result<(), GridError> {
        if !is_positive(mbps) {
            return Err(GridError::Bandwidth { item: GridItem::Link(at), found: mbps });
        }
        let name = |node: NodeId| self.nodes[node.index()].name.clone();
        let not_siblings = || GridError::NotSiblings { at, ends: [name(one), name(other)] };
        let parent = self.nodes[one.index()].parent.ok_or_else(not_siblings)?;
        let siblings = &self.nodes[parent.index()].children;
        let index = |node: NodeId| siblings.iter().position(|sibling| *sibling == node);
        let (Some(row), Some(column)) = (index(one), index(other).filter(|_| one != other)) else {
            return Err(not_siblings());
        };
        let matrix = &mut matrices[parent.index()];
        matrix[row * siblings.len() + column] = Some(mbps);
        matrix[column * siblings.len() + row] = Some(mbps);
        Ok(())
    }

    /// The complete matrix, or the first pair of siblings without a bandwidth.
    fn complete(&self, node: &Draft, matrix: Vec<Option<f64>>) -> Result<Vec<f64>, GridError> {
        let children = node.children.len();
        let fill = |(at, given): (usize, Option<f64>)| match given {
            Some(mbps) => Ok(mbps),
            // No task uses a link to itself.
            None if at / children == at % children => Ok(f64::INFINITY),
            None => {
                let name = |position: usize| self.nodes[node.children[position].index()].name.clone();
                let ends = [name(at / children), name(at % children)];
                Err(GridError::NoBandwidth { at: node.children[at / children].index(), ends })
            }
        };
        matrix.into_iter().enumerate().map(fill).collect()
    }
}
