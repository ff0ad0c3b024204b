//! The bound of the relaxation against another program and another solver: the program as it is printed (Demaine and
//! Immorlica, paper 003's [12]), a distance for every pair of tasks and three triangle inequalities for every three, whole
//! and at once, by a dense simplex method with Bland's rule. Nothing of it is shared with the library.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use pliant_tig::clustering::{Weight, Weights, relax};
use proptest::prelude::*;

const SMALL: f64 = 1e-9;

/// The largest `costs * x` of `rows * x <= limits`, `x >= 0`, where no limit is negative: a table that is pivoted until no
/// cost is positive, always on the first column and row that will do, which never goes round in circles.
fn simplex(costs: &[f64], rows: &[(Vec<f64>, f64)]) -> f64 {
    let (variables, slacks) = (costs.len(), rows.len());
    let width = variables + slacks + 1;
    let mut table: Vec<Vec<f64>> = rows
        .iter()
        .enumerate()
        .map(|(at, (row, limit))| {
            let mut line = row.clone();
            line.resize(width, 0.0);
            (line[variables + at], line[width - 1]) = (1.0, *limit);
            line
        })
        .collect();
    let mut gains = costs.to_vec();
    gains.resize(width, 0.0);
    let mut basis: Vec<usize> = (variables..variables + slacks).collect();
    while let Some(enters) = gains[..width - 1].iter().position(|gain| *gain > SMALL) {
        let ratio = |line: &Vec<f64>| line[width - 1] / line[enters];
        let bounding = (0..slacks).filter(|at| table[*at][enters] > SMALL);
        let key = |at: &usize| (ratio(&table[*at]), basis[*at]);
        let leaves = bounding
            .min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap())
            .expect("distances are at most 1: the program is bounded");
        let pivot = table[leaves][enters];
        table[leaves].iter_mut().for_each(|value| *value /= pivot);
        let line = table[leaves].clone();
        let others = table.iter_mut().enumerate().filter(|(at, _)| *at != leaves).map(|(_, other)| other);
        for other in others.chain([&mut gains]) {
            let times = other[enters];
            other.iter_mut().zip(&line).for_each(|(value, one)| *value -= times * one);
        }
        basis[leaves] = enters;
    }
    -gains[width - 1]
}

/// The optimum of the program as it is printed.
fn whole(weights: &Weights) -> f64 {
    let tasks = weights.tasks();
    let pairs: Vec<[usize; 2]> =
        (0..tasks).flat_map(|one| (one + 1..tasks).map(move |other| [one, other])).collect();
    let pair = |one: usize, other: usize| {
        pairs.iter().position(|pair| *pair == [one.min(other), one.max(other)]).unwrap()
    };
    // A positive edge costs its distance, a negative one what is missing to 1.
    let (mut costs, mut fixed) = (vec![0.0; pairs.len()], 0.0);
    for Weight { ends: [one, other], value } in weights.edges() {
        costs[pair(*one, *other)] -= value;
        fixed += value.min(0.0).abs();
    }
    let row = |terms: &[(usize, f64)], limit: f64| {
        let mut row = vec![0.0; pairs.len()];
        terms.iter().for_each(|(at, times)| row[*at] += times);
        (row, limit)
    };
    let mut rows: Vec<(Vec<f64>, f64)> = (0..pairs.len()).map(|at| row(&[(at, 1.0)], 1.0)).collect();
    for &[one, other] in &pairs {
        for third in (0..tasks).filter(|third| *third != one && *third != other) {
            rows.push(row(
                &[(pair(one, other), 1.0), (pair(one, third), -1.0), (pair(third, other), -1.0)],
                0.0,
            ));
        }
    }
    fixed - simplex(&costs, &rows)
}

fn weights() -> impl Strategy<Value = Weights> {
    (3_usize..=8).prop_flat_map(|tasks| {
        let pairs: Vec<[usize; 2]> =
            (0..tasks).flat_map(|one| (one + 1..tasks).map(move |other| [one, other])).collect();
        let value = prop_oneof![1 => Just(None), 3 => (-40_i32..40).prop_map(Some)];
        prop::collection::vec(value, pairs.len()).prop_map(move |values| {
            let edges = pairs.iter().zip(values).filter_map(|(ends, value)| {
                let value = f64::from(value?) / 8.0;
                Some(Weight { ends: *ends, value })
            });
            Weights::given(tasks, edges.collect())
        })
    })
}

#[test]
fn the_other_solver_solves_what_can_be_seen() {
    // x + y at most 4, x at most 3, 3 x + y at most 10: 3 for x, 1 for y.
    let rows = [(vec![1.0, 1.0], 4.0), (vec![1.0, 0.0], 3.0), (vec![3.0, 1.0], 10.0)];
    assert!((simplex(&[2.0, 1.0], &rows) - 7.0).abs() < SMALL);
    // A triangle of two likes and a dislike: one of the three is missed, in halves or not.
    let edge = |one, other, value| Weight { ends: [one, other], value };
    let triangle = Weights::given(3, vec![edge(0, 1, 2.0), edge(1, 2, 3.0), edge(0, 2, -5.0)]);
    assert!((whole(&triangle) - 2.0).abs() < SMALL);
}

proptest! {
    #[test]
    fn the_bound_is_that_of_the_whole_program_by_another_solver(weights in weights()) {
        let (bound, expected) = (relax(&weights).unwrap().bound, whole(&weights));
        prop_assert!((bound - expected).abs() < 1e-5, "{bound}, {expected}");
    }
}
