//! The greedy baseline of paper 003 (section 5.3): best fit over the whole grid, blind to traffic.
//!
//! Tasks by decreasing RCR, each to the machine with the least power that is enough for it. A sorted list of
//! the machines makes it O(m log m + t (log m + m)) for t tasks on m machines; the last term moves one entry.

use crate::{Availability, Grid, MachineId, Mapping, MappingError, Placement, Stage, TaskGraph};

/// Maps an application; a failure changes nothing.
pub fn map(graph: &TaskGraph, grid: &Grid, free: &mut Availability) -> Result<Mapping, MappingError> {
    let mark = free.mark();
    let mut queue: Vec<(f64, MachineId)> =
        grid.machines_below(Grid::ROOT).map(|machine| (free.power(machine), machine)).collect();
    let order = |one: &(f64, MachineId), other: &(f64, MachineId)| {
        one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
    };
    queue.sort_by(order);
    let mut placements: Vec<Option<Placement>> = vec![None; graph.tasks().len()];
    for task in by_demand(graph) {
        let mcr = graph.mcr(task);
        let fits = queue.partition_point(|(power, _)| *power < mcr);
        let Some(&(power, machine)) = queue.get(fits) else {
            let best = queue.last().map_or(0.0, |(power, _)| *power);
            free.roll_back(mark);
            return Err(MappingError::Task { task, mcr_mflops: mcr, best });
        };
        free.take_power(machine, mcr);
        placements[task.index()] = Some(Placement { machine, affinity: power / mcr, stage: Stage::BestFit });
        queue.remove(fits);
        let left = (free.power(machine), machine);
        let index = queue.partition_point(|entry| order(entry, &left).is_lt());
        queue.insert(index, left);
    }
    Ok(Mapping { placements: placements.into_iter().flatten().collect(), clusters: Vec::new() })
}

/// Tasks by decreasing demand, ties by id.
pub(crate) fn by_demand(graph: &TaskGraph) -> Vec<crate::TaskId> {
    let mut tasks: Vec<crate::TaskId> = graph.task_ids().collect();
    sort_by_demand(graph, &mut tasks);
    tasks
}

/// Sorts tasks by decreasing demand, ties by id.
pub(crate) fn sort_by_demand(graph: &TaskGraph, tasks: &mut [crate::TaskId]) {
    tasks.sort_unstable_by(|one, other| {
        graph.mcr(*other).total_cmp(&graph.mcr(*one)).then_with(|| one.cmp(other))
    });
}
