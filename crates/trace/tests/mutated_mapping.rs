//! Applications and grids with letters changed, lines cut and joined: what the fuzz targets check, for some thousand inputs.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

#[path = "support/mapping.rs"]
mod mapping;

use std::path::Path;

use mapping::hold;
use pliant_trace::tig::{TigFormat, graph_to_dot, grid_to_dot, parse_graph, parse_grid};
use proptest::prelude::*;

const GRAPH: &str = include_str!("../../../campaigns/paper-003/render.toml");
const GRID: &str = include_str!("../../../campaigns/paper-003/testbed.toml");
/// Pieces that parsers trip over.
const PIECES: [&str; 14] =
    ["-", "1e308", "nan", "inf", "-0.0", "\0", "\r\n", "\"", "\\", "[[", "{", " -- ", "\u{301}", "1e-320"];

/// One change at a position in thousandths of the text.
fn change(text: &mut String, (position, kind, value): (usize, u8, u8)) {
    let boundary = |at: usize| (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let at = boundary(position * text.len() / 1_000);
    let end = boundary((at + usize::from(value)).min(text.len()));
    match kind {
        0 => text.insert(at, char::from(value)),
        1 => text.truncate(end),
        2 => drop(text.drain(at..end)),
        _ => text.insert_str(at, PIECES[usize::from(value) % PIECES.len()]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn applications_and_grids_hold(changes in prop::collection::vec((0..=1_000_usize, 0..6_u8, any::<u8>()), 1..6)) {
        let path = Path::new("whole.toml");
        let graph = parse_graph(GRAPH, TigFormat::Toml, path).unwrap();
        let grid = parse_grid(GRID, TigFormat::Toml, path).unwrap();
        let texts = [
            (GRAPH.to_owned(), TigFormat::Toml),
            (GRID.to_owned(), TigFormat::Toml),
            (graph_to_dot(&graph), TigFormat::Dot),
            (grid_to_dot(&grid), TigFormat::Dot),
        ];
        for (mut text, form) in texts {
            hold(&text, form);
            changes.iter().for_each(|one| change(&mut text, *one));
            hold(&text, form);
        }
    }
}
