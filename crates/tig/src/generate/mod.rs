//! Graphs and grids like those of paper 003, section 5.1: what Cabri-graphs, Tiers and the traces of the Network
//! Weather Service were used for. What is not given there is drawn as the fields of each say.

mod graph;
mod tiers;

pub use graph::{Connected, connected};
pub use tiers::{BandwidthRanges, Machines, ParameterError, Tiers, tiers};
