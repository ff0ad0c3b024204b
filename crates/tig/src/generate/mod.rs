//! Graphs and grids like those of paper 003, section 5.1, which used Cabri-graphs, Tiers and traces of the Network Weather
//! Service. Parameters not given there are drawn as their fields describe.

mod graph;
mod tiers;

pub use graph::{Connected, connected};
pub use tiers::{BandwidthRanges, Machines, ParameterError, Tiers, tiers};
