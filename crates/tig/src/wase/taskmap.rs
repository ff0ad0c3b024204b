//! SIMPLE-TASKMAP and PROXY-TASKMAP (paper 003, Algorithms 2 and 3), the second corrected: it returns what is
//! left instead of losing it in a copy, ends at the root and does not end the algorithm before the next
//! cluster.

use super::Mapper;
use crate::best_fit::sort_by_demand;
use crate::{LinkId, MachineId, MappingError, NodeId, Placement, Stage, TaskId};

impl Mapper<'_> {
    /// Algorithm 2: tasks by decreasing demand onto the machines below a node, one pool. Returns those
    /// that did not fit, in that order.
    pub(super) fn simple_taskmap(&mut self, node: NodeId, tasks: Vec<TaskId>, stage: Stage) -> Vec<TaskId> {
        let machines: Vec<MachineId> = self.grid.machines_below(node).collect();
        let mut left = tasks;
        sort_by_demand(self.graph, &mut left);
        left.retain(|task| match self.choose(*task, &machines) {
            Some(machine) => {
                self.place(*task, machine, stage);
                false
            }
            None => true,
        });
        left
    }

    /// Algorithm 3: tasks that do not fit on the LAN of a cluster go to the siblings of the LAN, the best connected
    /// first, then to those of its MAN, then to those of its WAN.
    pub(super) fn proxy_taskmap(&mut self, lan: NodeId, tasks: Vec<TaskId>) -> Result<(), MappingError> {
        let (mut at, mut left) = (lan, tasks);
        while !left.is_empty() {
            let Some(parent) = self.grid.node(at).parent else { return Err(self.unplaced(left[0])) };
            let stage = Stage::Proxy(self.grid.node(parent).level);
            for sibling in self.grid.siblings(at) {
                left = self.simple_taskmap(sibling, left, stage);
                if left.is_empty() {
                    break;
                }
            }
            at = parent;
        }
        Ok(())
    }

    /// Places tasks on their machines; returns those whose links lack bandwidth.
    pub(super) fn place_packed(&mut self, packed: Vec<(TaskId, MachineId)>) -> Vec<TaskId> {
        let mut left = Vec::new();
        for (task, machine) in packed {
            if self.has_links(task, machine) {
                self.place(task, machine, Stage::Selected);
            } else {
                left.push(task);
            }
        }
        left
    }

    fn unplaced(&self, task: TaskId) -> MappingError {
        let machines = self.grid.machines_below(crate::Grid::ROOT);
        let best = machines.map(|machine| self.free.power(machine)).fold(0.0, f64::max);
        MappingError::Task { task, mcr_mflops: self.graph.mcr(task), best }
    }

    /// The machine for a task: of affinity 1 and above (eq. 10) and with bandwidth on the links, the one that the fit
    /// prefers.
    fn choose(&mut self, task: TaskId, machines: &[MachineId]) -> Option<MachineId> {
        let demand = self.graph.mcr(task);
        let power = |mapper: &Self, machine: &MachineId| mapper.free.power(*machine);
        let fit = self.options.fit;
        let at = fit.choose(demand, machines.iter().map(|machine| power(self, machine)))?;
        if self.has_links(task, machines[at]) {
            return Some(machines[at]);
        }
        // The free bandwidth of the links does not change while one task is mapped.
        let mut refused: Vec<NodeId> = vec![self.grid.lan_of(machines[at])];
        let mut there: Vec<MachineId> = machines.to_vec();
        loop {
            there.retain(|machine| !refused.contains(&self.grid.lan_of(*machine)));
            let at = fit.choose(demand, there.iter().map(|machine| power(self, machine)))?;
            if self.has_links(task, there[at]) {
                return Some(there[at]);
            }
            refused = vec![self.grid.lan_of(there[at])];
        }
    }

    /// The traffic of a task on a machine with placed tasks, by link. Stored in `links`.
    fn traffic(&mut self, task: TaskId, machine: MachineId) {
        self.links.clear();
        let Some(bandwidth) = self.graph.bandwidth_mbps().filter(|_| self.options.bandwidth) else { return };
        let lan = self.grid.lan_of(machine);
        for (other, rqoc) in self.graph.neighbours(task) {
            let Some(placed) = self.placements[other.index()].filter(|placed| placed.machine != machine)
            else {
                continue;
            };
            let link: LinkId = self.grid.link(lan, self.grid.lan_of(placed.machine));
            match self.links.iter_mut().find(|(there, _)| *there == link) {
                Some((_, mbps)) => *mbps += rqoc * bandwidth,
                None => self.links.push((link, rqoc * bandwidth)),
            }
        }
    }

    fn has_links(&mut self, task: TaskId, machine: MachineId) -> bool {
        self.traffic(task, machine);
        self.links.iter().all(|(link, mbps)| self.free.has_bandwidth(self.grid, *link, *mbps))
    }

    fn place(&mut self, task: TaskId, machine: MachineId, stage: Stage) {
        let demand = self.graph.mcr(task);
        let affinity = self.free.power(machine) / demand;
        self.traffic(task, machine);
        for (link, mbps) in &self.links {
            self.free.take_link(*link, *mbps);
        }
        self.free.take_power(machine, demand);
        self.placements[task.index()] = Some(Placement { machine, affinity, stage });
    }
}
