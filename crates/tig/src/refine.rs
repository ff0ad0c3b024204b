//! Local search on a finished mapping, beyond the paper: tasks move or swap while that brings communicating tasks closer
//! together, and no affinity falls below 1.
//!
//! The objective is the sum over the edges of RQoC times hops (0 on one LAN, 3 beyond the WAN). A sweep tries for each task the
//! machine with the most remaining power of every LAN with one of its neighbours, and a swap with every task on these LANs:
//! O(t (d l + t d)) for t tasks with d neighbours on l LANs.

use crate::metrics::loads;
use crate::{Availability, Grid, LinkId, MachineId, Mapping, NodeId, Placement, Stage, TaskGraph, TaskId};

/// A gain below this is rounding.
const LEAST_GAIN: f64 = 1e-9;

/// Sweeps after which the search ends even if it still gains. A few are enough in practice.
const SWEEPS_MAX: usize = 50;

/// Improves a mapping made on `free`, which is updated. With `bandwidth`, no link may exceed its capacity or its former load.
pub fn refine(
    graph: &TaskGraph,
    grid: &Grid,
    mapping: &mut Mapping,
    free: &mut Availability,
    bandwidth: bool,
) {
    let mut search =
        Refiner { graph, grid, mapping, free, mbps: graph.bandwidth_mbps().filter(|_| bandwidth) };
    for _ in 0..SWEEPS_MAX {
        let moved = graph.task_ids().filter(|task| search.improve(*task)).count();
        if moved == 0 {
            break;
        }
    }
}

struct Refiner<'a> {
    graph: &'a TaskGraph,
    grid: &'a Grid,
    mapping: &'a mut Mapping,
    free: &'a mut Availability,
    mbps: Option<f64>,
}

impl Refiner<'_> {
    /// Applies the best improvement for a task, if there is one.
    fn improve(&mut self, task: TaskId) -> bool {
        let own = self.lan(task);
        let mut lans: Vec<NodeId> =
            self.graph.neighbours(task).iter().map(|(other, _)| self.lan(*other)).collect();
        lans.sort_unstable();
        lans.dedup();
        lans.retain(|lan| *lan != own);
        let mut best: Option<(f64, Change)> = None;
        for change in self.changes(task, &lans) {
            let gain = self.gain(task, change);
            if gain > best.map_or(LEAST_GAIN, |(most, _)| most) && self.is_allowed(task, change) {
                best = Some((gain, change));
            }
        }
        let Some((_, change)) = best else { return false };
        self.apply(task, change);
        true
    }

    /// The possible changes for a task: a move to the machine with the most remaining power of a LAN, or a swap with a task there.
    fn changes(&self, task: TaskId, lans: &[NodeId]) -> Vec<Change> {
        let demand = self.graph.mcr(task);
        let mut changes: Vec<Change> = Vec::new();
        for lan in lans {
            let machines = self.grid.machines_below(*lan);
            let mut most_free: Option<(f64, MachineId)> = None;
            for machine in machines {
                let power = self.free.power(machine);
                if power >= demand && most_free.is_none_or(|(most, _)| power > most) {
                    most_free = Some((power, machine));
                }
            }
            changes.extend(most_free.map(|(_, machine)| Change::Move(machine)));
        }
        for other in self.graph.task_ids().filter(|other| lans.contains(&self.lan(*other))) {
            changes.push(Change::Trade(other));
        }
        changes
    }

    fn lan(&self, task: TaskId) -> NodeId {
        self.grid.lan_of(self.machine(task))
    }

    fn machine(&self, task: TaskId) -> MachineId {
        self.mapping.placements[task.index()].machine
    }

    /// By how much the objective falls.
    fn gain(&self, task: TaskId, change: Change) -> f64 {
        let (to, other) = match change {
            Change::Move(machine) => (self.grid.lan_of(machine), None),
            Change::Trade(other) => (self.lan(other), Some(other)),
        };
        let here = self.lan(task);
        let mine = self.distance(task, here, other) - self.distance(task, to, other);
        // What the two say to each other is as far as before.
        mine + other.map_or(0.0, |other| {
            self.distance(other, to, Some(task)) - self.distance(other, here, Some(task))
        })
    }

    /// RQoC times hops of a task if it were on that LAN, but for one neighbour.
    fn distance(&self, task: TaskId, lan: NodeId, but: Option<TaskId>) -> f64 {
        let others = self.graph.neighbours(task).iter().filter(|(other, _)| Some(*other) != but);
        others.map(|(other, rqoc)| rqoc * self.grid.hops(lan, self.lan(*other)) as f64).sum()
    }

    /// True if the machines have the power and the links the bandwidth.
    fn is_allowed(&mut self, task: TaskId, change: Change) -> bool {
        if let Change::Trade(other) = change {
            let (mine, others) = (self.graph.mcr(task), self.graph.mcr(other));
            let fits = |machine: MachineId, out: f64, comes: f64| self.free.power(machine) + out >= comes;
            if !fits(self.machine(task), mine, others) || !fits(self.machine(other), others, mine) {
                return false;
            }
        }
        self.mbps.is_none_or(|mbps| self.links_allow(task, change, mbps))
    }

    fn links_allow(&mut self, task: TaskId, change: Change, mbps: f64) -> bool {
        let before = loads(self.graph, self.grid, self.mapping);
        let undo = self.exchange(task, change);
        let after = loads(self.graph, self.grid, self.mapping);
        self.exchange(task, undo);
        let worse = |(link, rqoc): (&LinkId, &f64)| {
            rqoc * mbps > self.grid.capacity(*link) && *rqoc > before.get(link).copied().unwrap_or(0.0)
        };
        !after.iter().any(worse)
    }

    /// Applies a change to the mapping; returns its inverse.
    fn exchange(&mut self, task: TaskId, change: Change) -> Change {
        let here = self.machine(task);
        match change {
            Change::Move(machine) => {
                self.mapping.placements[task.index()].machine = machine;
                Change::Move(here)
            }
            Change::Trade(other) => {
                self.mapping.placements[task.index()].machine = self.machine(other);
                self.mapping.placements[other.index()].machine = here;
                change
            }
        }
    }

    fn apply(&mut self, task: TaskId, change: Change) {
        let movers: Vec<TaskId> = match change {
            Change::Move(_) => vec![task],
            Change::Trade(other) => vec![task, other],
        };
        for mover in &movers {
            self.free.take_power(self.machine(*mover), -self.graph.mcr(*mover));
        }
        self.exchange(task, change);
        for mover in &movers {
            let (machine, mcr) = (self.machine(*mover), self.graph.mcr(*mover));
            let affinity = self.free.power(machine) / mcr;
            self.mapping.placements[mover.index()] = Placement { machine, affinity, stage: Stage::Refined };
            self.free.take_power(machine, mcr);
        }
    }
}

/// What a task could do.
#[derive(Clone, Copy)]
enum Change {
    Move(MachineId),
    Trade(TaskId),
}
