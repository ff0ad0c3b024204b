//! The golden tests of paper 003 that need no campaign: G003-1 to G003-7 (`docs/research/paper-003.md`).
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use pliant_tig::clustering::{Clustering, Weight, Weights, cluster, greedy, relax, round};
use pliant_tig::wase::{self, Options, closest_first, pack, suitability};
use pliant_tig::{Availability, Grid, Machine, MappingError, Stage, TaskId};
use support::{builder, graph, grid, machine_name, names, path, random_graph};

/// Eqs. 7 to 9 are neither necessary nor sufficient; packing is both.
#[test]
fn g003_1_suitability_is_neither_necessary_nor_sufficient() {
    let check = |demands: &[f64], powers: &[f64], expected: f64, holds: bool| {
        let found = suitability(demands, powers);
        assert!((found - expected).abs() < 5e-5, "{found}");
        let mut falling = demands.to_vec();
        falling.sort_by(|one, other| other.total_cmp(one));
        assert_eq!(pack(&falling, powers, wase::Fit::Worst).is_some(), holds);
    };
    check(&[100.0, 200.0, 300.0], &[300.0, 290.0, 250.0], 0.9941, true);
    let small_and_large: Vec<f64> = (0..10).map(|at| if at == 0 { 1000.0 } else { 10.0 }).collect();
    check(&small_and_large, &[500.0; 10], 1.2315, false);
}

#[test]
fn suitability_looks_at_the_most_powerful_machines_that_are_left() {
    let check = |demands: &[f64], powers: &[f64], expected: f64| {
        assert_eq!(suitability(demands, powers), expected);
    };
    check(&[100.0], &[50.0, 300.0, 200.0], 3.0);
    check(&[100.0, 100.0], &[50.0, 300.0, 200.0], 2.5);
    // Footnote 1: more tasks than machines are held against the mean of the LAN.
    check(&[100.0; 4], &[300.0, 200.0], 2.5);
    // Full machines have left the grid.
    check(&[100.0; 4], &[300.0, 0.0], 3.0);
    check(&[100.0], &[0.0, 0.0], 0.0);
}

#[test]
fn g003_2_power_that_is_left() {
    let machine = Machine { name: "n01".to_owned(), power_mflops: 1350.0, load: 0.3 };
    assert!((machine.power_left() - 945.0).abs() < 1e-9);
}

#[test]
fn g003_3_weights() {
    let graph = graph(&[1.0; 4], &[(0, 1, 10.0), (1, 2, 5.0), (2, 3, 9.0), (3, 0, 1.0)]);
    let values =
        |delta| -> Vec<f64> { Weights::of(&graph, delta).edges().iter().map(|edge| edge.value).collect() };
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    let paper = values(0.5);
    // The largest edge has a finite weight.
    close(paper[0], (0.999_f64 / 0.001).ln());
    close(paper[1], 0.0);
    close(paper[2], 9.0_f64.ln());
    close(paper[3], -(9.0_f64.ln()));
    for (biased, paper) in values(0.8).into_iter().zip(paper) {
        close(biased, paper + 4.0_f64.ln());
    }
}

#[test]
fn g003_4_closest_first() {
    let one: &[f64] = &[1.0];
    let mut builder = builder(&[&[one, one], &[one, one]]);
    let order = |builder: &pliant_tig::GridBuilder, user: &str| {
        let grid = builder.build(user).unwrap();
        names(&grid, &closest_first(&grid))
    };
    assert_eq!(order(&builder, "l0"), ["l0", "l1", "l2", "l3"]);
    assert_eq!(order(&builder, "l1"), ["l1", "l0", "l2", "l3"]);
    // The other MAN's LANs come by position, wherever the user is.
    assert_eq!(order(&builder, "l3"), ["l3", "l2", "l0", "l1"]);
    // A second and a third WAN, the third one better connected; and a MAN of three LANs.
    let mut far = Vec::new();
    for wan in ["w1", "w2"] {
        let wan_id = builder.node(Grid::ROOT, wan).unwrap();
        let man = builder.node(wan_id, &format!("{wan}n")).unwrap();
        builder.bandwidth(man, 100.0);
        let lans: Vec<_> = (0..3).map(|at| builder.node(man, &format!("{wan}l{at}")).unwrap()).collect();
        for (at, lan) in lans.iter().enumerate() {
            builder.machine(*lan, Machine { name: format!("{wan}m{at}"), power_mflops: 1.0, load: 0.0 });
        }
        builder.link(lans[0], lans[2], 900.0);
        far.push(wan_id);
    }
    builder.bandwidth(Grid::ROOT, 1.0);
    builder.link(pliant_tig::NodeId(1), far[1], 2.0);
    let beyond = ["w2l0", "w2l1", "w2l2", "w1l0", "w1l1", "w1l2"];
    assert_eq!(order(&builder, "l0")[4..], beyond);
    assert_eq!(order(&builder, "w1l0")[..3], ["w1l0", "w1l2", "w1l1"]);
}

/// The cluster's LAN is full, then its sibling, then the sibling MAN; at the root nothing is left.
#[test]
fn g003_5_proxy() {
    let lan: &[f64] = &[10.0, 10.0];
    let grid = grid(&[&[lan, lan], &[lan]]);
    let check = |rcr: &[f64], expected: &[(&str, Stage)]| {
        let graph = path(rcr);
        let together = Clustering::of_labels(&vec![0; rcr.len()]);
        let mut free = Availability::of(&grid);
        let mapping = wase::map(&graph, &grid, &together, &Options::default(), &mut free).unwrap();
        let found: Vec<(&str, Stage)> = mapping
            .placements
            .iter()
            .map(|placed| (machine_name(&grid, placed.machine), placed.stage))
            .collect();
        assert_eq!(found, expected);
    };
    use pliant_tig::Level::{Man, Wan};
    let selected = Stage::Selected;
    check(&[6.0, 6.0], &[("m0", selected), ("m1", selected)]);
    // Worst fit spreads; the third does not fit with any of the two.
    check(&[6.0, 6.0, 6.0], &[("m0", selected), ("m1", selected), ("m2", Stage::Proxy(Man))]);
    let five = [("m0", selected), ("m1", selected), ("m2", Stage::Proxy(Man)), ("m3", Stage::Proxy(Man))];
    check(&[6.0; 5], &[&five[..], &[("m4", Stage::Proxy(Wan))]].concat());
    let spilled = Stage::Proxy(Man);
    check(
        &[7.0, 3.0, 8.0, 4.0, 9.0],
        &[("m2", spilled), ("m3", spilled), ("m1", selected), ("m3", spilled), ("m0", selected)],
    );
    // Seven tasks of more than half a machine need seven machines; there are six.
    let mut free = Availability::of(&grid);
    let untouched = free.clone();
    let graph = path(&[6.0; 7]);
    let failed = wase::map(&graph, &grid, &Clustering::of_labels(&[0; 7]), &Options::default(), &mut free)
        .unwrap_err();
    assert_eq!(failed, MappingError::Task { task: TaskId(6), mcr_mflops: 6.0, best: 4.0 });
    assert_eq!(free, untouched);
}

/// Every clustering of that many tasks, by restricted growth strings.
fn partitions(tasks: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..tasks {
        let longer = all.iter().flat_map(|labels| {
            let new = labels.iter().max().map_or(0, |max| max + 1);
            (0..=new).map(|label| [&labels[..], &[label]].concat())
        });
        all = longer.collect();
    }
    all
}

/// The default equals brute force up to eight tasks, and nothing beats the bound of the linear program.
#[test]
fn g003_6_clustering_equals_brute_force() {
    assert_eq!(partitions(8).len(), 4_140, "the Bell number");
    let (mut graphs, mut contracted_best, mut rounded_best) = (0, 0, 0);
    for tasks in 2..=8 {
        let partitions = partitions(tasks);
        for seed in 0..12 {
            let graph = random_graph(tasks, 1.0, seed);
            for delta in [0.2, 0.5, 0.8] {
                let weights = Weights::of(&graph, delta);
                let cost = |labels: &Vec<usize>| Clustering::of_labels(labels).cost(&weights);
                let least = partitions.iter().map(cost).fold(f64::INFINITY, f64::min);
                let found = cluster(&weights, usize::MAX).cost(&weights);
                assert!((found - least).abs() < 1e-9, "{tasks} tasks, seed {seed}: {found} {least}");
                let capped = partitions.iter().filter(|labels| Clustering::of_labels(labels).max_size() <= 3);
                let least_capped = capped.map(cost).fold(f64::INFINITY, f64::min);
                let found = cluster(&weights, 3);
                assert!(found.max_size() <= 3 && (found.cost(&weights) - least_capped).abs() < 1e-9);
                let relaxation = relax(&weights).unwrap();
                assert!(relaxation.bound <= least + 1e-6, "{} {least}", relaxation.bound);
                let contracted = greedy(&weights, usize::MAX).cost(&weights);
                let rounded = round(&weights, &relaxation).cost(&weights);
                assert!(contracted >= least - 1e-9 && rounded >= least - 1e-9);
                graphs += 1;
                contracted_best += usize::from(contracted < least + 1e-9);
                rounded_best += usize::from(rounded < least + 1e-9);
            }
        }
    }
    // Contraction and rounding need not find it, but do for graphs this small.
    assert!(contracted_best * 100 >= graphs * 95, "{contracted_best} of {graphs}");
    assert!(rounded_best * 100 >= graphs * 95, "{rounded_best} of {graphs}");
}

/// The program of Demaine and Immorlica: a distance for every pair, a triangle inequality for every three.
fn full_program(weights: &Weights) -> f64 {
    let tasks = weights.tasks();
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let mut coefficients = vec![vec![0.0; tasks]; tasks];
    let mut constant = 0.0;
    for Weight { ends: [one, other], value } in weights.edges() {
        // A negative edge costs |w| (1 - x) = |w| + w x.
        coefficients[(*one).min(*other)][(*one).max(*other)] += value;
        constant += (-value).max(0.0);
    }
    let mut variables: Vec<Vec<Option<Variable>>> = vec![vec![None; tasks]; tasks];
    for one in 0..tasks {
        for other in one + 1..tasks {
            let variable = problem.add_var(coefficients[one][other], (0.0, 1.0));
            variables[one][other] = Some(variable);
            variables[other][one] = Some(variable);
        }
    }
    for one in 0..tasks {
        for other in one + 1..tasks {
            for third in (0..tasks).filter(|third| *third != one && *third != other) {
                let [far, near, beyond] =
                    [(one, other), (one, third), (third, other)].map(|(a, b)| variables[a][b].unwrap());
                problem.add_constraint([(far, 1.0), (near, -1.0), (beyond, -1.0)], ComparisonOp::Le, 0.0);
            }
        }
    }
    problem.solve().unwrap().objective() + constant
}

#[test]
fn g003_7_the_cycle_program_equals_the_full_one() {
    for tasks in [3, 5, 8, 11] {
        for seed in 0..8 {
            for delta in [0.3, 0.5, 0.75] {
                let weights = Weights::of(&random_graph(tasks, 1.0, 100 + seed), delta);
                let (cycles, full) = (relax(&weights).unwrap().bound, full_program(&weights));
                assert!(
                    (cycles - full).abs() < 1e-6 * (1.0 + full),
                    "{tasks} tasks, seed {seed}: {cycles} {full}"
                );
            }
        }
    }
}
