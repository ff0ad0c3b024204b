//! What holds of every mapping, on random graphs and grids.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::collections::BTreeMap;

use pliant_tig::clustering::{Clustering, Weights, cluster, greedy, improve, relax, round, threshold};
use pliant_tig::refine::refine;
use pliant_tig::wase::{self, Fit, Options, Search, Suitability, closest_first, pack, suitability};
use pliant_tig::{
    Availability, Grid, LinkId, MachineId, Mapping, Metrics, TaskGraph, best_fit, overload_percent,
};
use proptest::prelude::*;
use rand::Rng;
use support::{random_graph, random_grid, rng};

fn options() -> impl Strategy<Value = Options> {
    let search =
        prop_oneof![Just(Search::Closest), (0.0..1.0).prop_map(|per_hop| Search::Weighed { per_hop })];
    let suitability = prop_oneof![Just(Suitability::Mean), Just(Suitability::Packing)];
    let fit = prop_oneof![Just(Fit::Worst), Just(Fit::Best)];
    (suitability, search, fit, any::<bool>()).prop_map(|(suitability, search, fit, bandwidth)| Options {
        suitability,
        search,
        fit,
        bandwidth,
    })
}

/// An application with its clusters, and a grid of which others have taken something.
#[derive(Debug)]
struct Trial {
    graph: TaskGraph,
    clustering: Clustering,
    grid: Grid,
    free: Availability,
}

fn trial() -> impl Strategy<Value = Trial> {
    (2_usize..40, 8_usize..64, 2_usize..9, 20.0..120.0, 0.2..0.9, any::<u64>()).prop_map(
        |(tasks, machines, lan, mcr, delta, seed)| {
            let graph = random_graph(tasks, mcr, seed);
            let grid = random_grid(machines, lan, seed);
            let clustering = cluster(&Weights::of(&graph, delta), usize::MAX);
            let mut free = Availability::of(&grid);
            let mut rng = rng(seed);
            for machine in grid.machines_below(Grid::ROOT) {
                free.take_power(machine, rng.random_range(0.0..0.5) * free.power(machine));
            }
            Trial { graph, clustering, grid, free }
        },
    )
}

/// Each task is mapped once, no machine gives more than its free power, and no affinity is below 1 (C003-10).
fn check_mapping(
    graph: &TaskGraph,
    grid: &Grid,
    before: &Availability,
    after: &Availability,
    mapping: &Mapping,
) {
    assert_eq!(mapping.placements.len(), graph.tasks().len());
    let mut taken: BTreeMap<MachineId, f64> = BTreeMap::new();
    for (task, placed) in graph.task_ids().zip(&mapping.placements) {
        assert!(placed.affinity >= 1.0, "task {task:?}: {placed:?}");
        *taken.entry(placed.machine).or_default() += graph.mcr(task);
    }
    for machine in grid.machines_below(Grid::ROOT) {
        let taken = taken.get(&machine).copied().unwrap_or(0.0);
        assert!(taken <= before.power(machine) + 1e-6, "{machine:?}");
        assert!((before.power(machine) - taken - after.power(machine)).abs() < 1e-5, "{machine:?}");
    }
}

/// What the links carry, by a way of its own.
fn traffic(graph: &TaskGraph, grid: &Grid, mapping: &Mapping) -> BTreeMap<LinkId, f64> {
    let mut carried = BTreeMap::new();
    for edge in graph.edges() {
        let [one, other] = edge.ends.map(|task| mapping.placements[task.index()].machine);
        if one != other {
            let link = grid.link(grid.lan_of(one), grid.lan_of(other));
            *carried.entry(link).or_default() += edge.rqoc * graph.bandwidth_mbps().unwrap();
        }
    }
    carried
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn c003_10_13_mappings_are_sound_and_failures_leave_nothing(trial in trial(), options in options()) {
        let Trial { graph, clustering, grid, free: before } = trial;
        let mut free = before.clone();
        match wase::map(&graph, &grid, &clustering, &options, &mut free) {
            Ok(mut mapping) => {
                check_mapping(&graph, &grid, &before, &free, &mapping);
                let check_links = |mapping: &Mapping| for (link, mbps) in traffic(&graph, &grid, mapping) {
                    assert!(mbps <= grid.capacity(link) * (1.0 + 1e-6), "{link:?} {mbps}");
                };
                if options.bandwidth {
                    check_links(&mapping);
                }
                let metrics = Metrics::of(&graph, &grid, &clustering, &mapping);
                // C003-13.
                let whole = metrics.lan_hit_ratio > 1.0 - 1e-9;
                prop_assert!(!whole || metrics.inter_lan_percent <= metrics.cut_percent + 1e-9);
                let unrefined = hops(&graph, &grid, &mapping);
                refine(&graph, &grid, &mut mapping, &mut free, options.bandwidth);
                check_mapping(&graph, &grid, &before, &free, &mapping);
                if options.bandwidth {
                    check_links(&mapping);
                }
                prop_assert!(hops(&graph, &grid, &mapping) <= unrefined + 1e-9);
            }
            Err(_) => prop_assert_eq!(free, before),
        }
    }

    #[test]
    fn the_baseline_is_sound_and_its_failures_leave_nothing(trial in trial()) {
        let Trial { graph, grid, free: before, .. } = trial;
        let mut free = before.clone();
        // The slow way: every machine is looked at for every task.
        let mut power: Vec<f64> = grid.machines_below(Grid::ROOT).map(|machine| before.power(machine)).collect();
        let mut tasks: Vec<_> = graph.task_ids().collect();
        tasks.sort_by(|one, other| graph.mcr(*other).total_cmp(&graph.mcr(*one)));
        let slow: Option<Vec<usize>> = tasks.iter().map(|task| {
            let fits = (0..power.len()).filter(|at| power[*at] >= graph.mcr(*task));
            let at = fits.min_by(|one, other| power[*one].total_cmp(&power[*other]))?;
            power[at] -= graph.mcr(*task);
            Some(at)
        }).collect();
        match best_fit::map(&graph, &grid, &mut free) {
            Ok(mapping) => {
                check_mapping(&graph, &grid, &before, &free, &mapping);
                let found: Vec<usize> =
                    tasks.iter().map(|task| mapping.placements[task.index()].machine.index()).collect();
                prop_assert_eq!(Some(found), slow);
            }
            Err(_) => {
                prop_assert_eq!(free, before);
                prop_assert_eq!(slow, None);
            }
        }
    }

    #[test]
    fn no_clustering_beats_the_bound(tasks in 2_usize..40, delta in 0.1..0.9, seed in any::<u64>(), cap in 1_usize..12) {
        let weights = Weights::of(&random_graph(tasks, 1.0, seed), delta);
        let relaxation = relax(&weights).unwrap();
        let rounded = round(&weights, &relaxation);
        let searched = improve(&weights, rounded.clone(), usize::MAX);
        prop_assert!(searched.cost(&weights) <= rounded.cost(&weights) + 1e-9);
        let capped = greedy(&weights, cap);
        prop_assert!(capped.max_size() <= cap);
        for clustering in [rounded, searched, capped, greedy(&weights, usize::MAX), cluster(&weights, usize::MAX)] {
            prop_assert!(clustering.cost(&weights) >= relaxation.bound - 1e-6);
            prop_assert_eq!(clustering.tasks_count(), tasks);
        }
    }

    #[test]
    fn packing_is_necessary_and_sufficient(
        demands in prop::collection::vec(1.0..10.0_f64, 1..7),
        powers in prop::collection::vec(1.0..15.0_f64, 1..5),
        best in any::<bool>(),
    ) {
        let mut demands = demands;
        demands.sort_by(|one, other| other.total_cmp(one));
        let fits = |code: usize| {
            let mut left = powers.clone();
            demands.iter().enumerate().all(|(task, demand)| {
                let at = code / powers.len().pow(task as u32) % powers.len();
                left[at] -= demand;
                left[at] >= 0.0
            })
        };
        let exists = (0..powers.len().pow(demands.len() as u32)).any(fits);
        let packed = pack(&demands, &powers, if best { Fit::Best } else { Fit::Worst });
        prop_assert_eq!(packed.is_some(), exists);
        if let Some(packed) = packed {
            let code: usize = packed.iter().enumerate().map(|(task, at)| at * powers.len().pow(task as u32)).sum();
            prop_assert!(fits(code));
        }
    }

    #[test]
    fn the_search_sees_every_lan_once_and_the_user_first(machines in 1_usize..200, lan in 1_usize..9, seed in any::<u64>()) {
        let grid = random_grid(machines, lan, seed);
        let mut order = closest_first(&grid);
        prop_assert_eq!(order[0], grid.user_lan());
        let hops: Vec<usize> = order.iter().map(|lan| grid.hops(grid.user_lan(), *lan)).collect();
        prop_assert!(hops.is_sorted());
        order.sort_unstable();
        let mut lans: Vec<_> = grid.lans().collect();
        lans.sort_unstable();
        prop_assert_eq!(order, lans);
        prop_assert_eq!(grid.machines().len(), machines);
    }

    #[test]
    fn suitability_scales(demands in prop::collection::vec(1.0..10.0_f64, 1..9), powers in prop::collection::vec(0.0..15.0_f64, 1..9)) {
        let doubled: Vec<f64> = powers.iter().map(|power| power * 2.0).collect();
        let (once, twice) = (suitability(&demands, &powers), suitability(&demands, &doubled));
        prop_assert!((twice - 2.0 * once).abs() < 1e-9);
    }
}

/// RQoC times hops over all edges: what [`refine`] lowers.
fn hops(graph: &TaskGraph, grid: &Grid, mapping: &Mapping) -> f64 {
    let lan = |task: pliant_tig::TaskId| grid.lan_of(mapping.placements[task.index()].machine);
    graph.edges().iter().map(|edge| edge.rqoc * grid.hops(lan(edge.ends[0]), lan(edge.ends[1])) as f64).sum()
}

#[test]
fn refinement_brings_talkers_together() {
    let (mut tried, mut better) = (0, 0);
    for seed in 0..30 {
        let (graph, grid) = (random_graph(24, 60.0, seed), random_grid(64, 4, seed));
        let clustering = cluster(&Weights::of(&graph, 0.5), usize::MAX);
        let mut free = Availability::of(&grid);
        let Ok(mut mapping) = best_fit::map(&graph, &grid, &mut free) else { continue };
        let before = hops(&graph, &grid, &mapping);
        refine(&graph, &grid, &mut mapping, &mut free, false);
        let after = hops(&graph, &grid, &mapping);
        assert!(after <= before);
        tried += 1;
        better += usize::from(after < before);
        assert!(Metrics::of(&graph, &grid, &clustering, &mapping).affinity_min >= 1.0);
    }
    assert!(tried >= 10 && better == tried, "{better} of {tried}");
}

#[test]
fn thresholds_give_the_sizes_of_the_paper() {
    let (mut found, mut within) = (0, 0);
    for seed in 0..20 {
        let graph = random_graph(64, 50.0, seed);
        for sizes in [[1.0, 3.0], [4.0, 6.0], [7.0, 9.0]] {
            let (_, clustering) = threshold::of_mean_size(&graph, sizes, usize::MAX);
            found += 1;
            within += usize::from((sizes[0]..=sizes[1]).contains(&clustering.mean_size()));
        }
        let (_, clustering) = threshold::of_count(&graph, 10, usize::MAX);
        assert!((8..=12).contains(&clustering.count()), "seed {seed}: {}", clustering.count());
    }
    assert!(within * 10 >= found * 8, "{within} of {found}");
}

/// What is printed of an empty sum would have a sign.
#[test]
fn nothing_is_beyond_links_that_carry_all() {
    let (graph, grid) = (random_graph(4, 20.0, 7), random_grid(8, 8, 7));
    let mapping = best_fit::map(&graph, &grid, &mut Availability::of(&grid)).unwrap();
    let overload = overload_percent(&graph, &grid, &mapping).unwrap();
    assert_eq!(format!("{overload:?}"), "0.0");
}
