//! A weak baseline: each task on a random machine with enough power, without regard to traffic or fit.

use pliant_model::rng::Draws;

use crate::best_fit::by_demand;
use crate::{Availability, Grid, MachineId, Mapping, MappingError, Placement, Stage, TaskGraph};

/// Maps an application; a failure changes nothing. Tasks are placed by decreasing RCR, so that large ones come first.
pub fn map(
    graph: &TaskGraph,
    grid: &Grid,
    free: &mut Availability,
    draws: &mut Draws,
) -> Result<Mapping, MappingError> {
    let mark = free.mark();
    let mut placements: Vec<Option<Placement>> = vec![None; graph.tasks().len()];
    for task in by_demand(graph) {
        let mcr = graph.mcr(task);
        let power = |machine: &MachineId| free.power(*machine);
        let enough: Vec<MachineId> =
            grid.machines_below(Grid::ROOT).filter(|machine| power(machine) >= mcr).collect();
        let Some(&machine) = enough.get(draws.below(enough.len() as u32) as usize) else {
            let best = grid.machines_below(Grid::ROOT).map(|machine| free.power(machine)).fold(0.0, f64::max);
            free.roll_back(mark);
            return Err(MappingError::Task { task, mcr_mflops: mcr, best });
        };
        let affinity = free.power(machine) / mcr;
        free.take_power(machine, mcr);
        placements[task.index()] = Some(Placement { machine, affinity, stage: Stage::Drawn });
    }
    Ok(Mapping { placements: placements.into_iter().flatten().collect(), clusters: Vec::new() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Edge, GridBuilder, Machine, Task, TaskId};

    fn row(rcrs: &[f64]) -> TaskGraph {
        let task = |(at, rcr): (usize, &f64)| Task { name: format!("t{at}"), rcr: *rcr };
        let edge = |at: u32| Edge { ends: [TaskId(at - 1), TaskId(at)], rqoc: 1.0 };
        let edges = (1..rcrs.len() as u32).map(edge).collect();
        TaskGraph::new(100.0, None, rcrs.iter().enumerate().map(task).collect(), edges).unwrap()
    }

    fn grid(powers: &[f64]) -> Grid {
        let mut builder = GridBuilder::new("root");
        let wan = builder.node(Grid::ROOT, "wan").unwrap();
        let man = builder.node(wan, "man").unwrap();
        let lan = builder.node(man, "lan").unwrap();
        for (at, power_mflops) in powers.iter().enumerate() {
            builder.machine(lan, Machine { name: format!("m{at}"), power_mflops: *power_mflops, load: 0.0 });
        }
        builder.build("lan").unwrap()
    }

    #[test]
    fn any_machine_with_enough_power_may_be_drawn_and_no_other() {
        let (graph, grid) = (row(&[1.0]), grid(&[100.0, 99.0, 300.0, 150.0]));
        let drawn = |seed| {
            let mut free = Availability::of(&grid);
            map(&graph, &grid, &mut free, &mut Draws::new(seed, "test")).unwrap().placements[0].machine
        };
        let machines: BTreeSet<usize> = (0..100).map(|seed| drawn(seed).index()).collect();
        assert_eq!(machines, BTreeSet::from([0, 2, 3]));
    }

    #[test]
    fn what_fits_nowhere_takes_nothing() {
        let (graph, grid) = (row(&[2.0, 2.0]), grid(&[250.0, 150.0]));
        let mut free = Availability::of(&grid);
        let failed = map(&graph, &grid, &mut free, &mut Draws::new(1, "test"));
        assert!(matches!(failed, Err(MappingError::Task { best, .. }) if best == 150.0), "{failed:?}");
        assert_eq!(free, Availability::of(&grid));
    }
}
