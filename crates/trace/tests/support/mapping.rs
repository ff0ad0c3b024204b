//! What holds for any text that is read as an application or a grid: nothing panics, errors say where, and what was
//! understood is written so that it is understood the same and written the same again. Shared with the fuzz targets.

use std::path::Path;

use pliant_trace::TraceError;
use pliant_trace::tig::{
    TigFormat, graph_to_dot, graph_to_toml, grid_to_dot, grid_to_toml, parse_graph, parse_grid,
};

/// Reads a text as an application and as a grid.
pub(crate) fn hold(text: &str, form: TigFormat) {
    comes_back(text, form, parse_graph, [graph_to_toml, graph_to_dot]);
    comes_back(text, form, parse_grid, [grid_to_toml, grid_to_dot]);
}

fn comes_back<T>(
    text: &str,
    form: TigFormat,
    parse: fn(&str, TigFormat, &Path) -> Result<T, TraceError>,
    [to_toml, to_dot]: [fn(&T) -> String; 2],
) {
    let path = Path::new("fuzz");
    match parse(text, form, path) {
        Ok(understood) => {
            for (form, write) in [(TigFormat::Toml, to_toml), (TigFormat::Dot, to_dot)] {
                let written = write(&understood);
                let again = parse(&written, form, path);
                let again = again.unwrap_or_else(|error| panic!("{error}\n{written}"));
                assert_eq!(write(&again), written);
            }
        }
        Err(error) => assert!(error.to_string().contains("fuzz"), "{error}"),
    }
}
