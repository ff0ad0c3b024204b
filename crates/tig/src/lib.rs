//! Task interaction graphs on wide-area grids (paper 003, WASE): applications of communicating tasks are cut
//! into clusters of tasks by their traffic, and the clusters are mapped onto LANs, closest to the user first.
//!
//! [`TaskGraph`] and [`Grid`] are the two inputs (section 3), [`clustering`] the first step (section 4),
//! [`wase`] the second, [`best_fit`] and [`random`] the baselines, [`refine`] a search beyond the paper, [`Metrics`] the
//! measures of a mapping (section 5.2), and [`generate`] graphs and grids like those of section 5.1.
//!
//! Nothing here reads a clock, a file or the environment: the random generator is an argument
//! (ARCHITECTURE.md, invariant 2).

mod availability;
pub mod best_fit;
pub mod clustering;
pub mod generate;
mod graph;
mod grid;
mod mapping;
mod metrics;
pub mod random;
pub mod refine;
pub mod wase;

pub use availability::{Availability, Savepoint};
pub use graph::{Edge, GraphError, GraphItem, Task, TaskGraph, TaskId};
pub use grid::{Grid, GridBuilder, GridError, GridItem, Level, LinkId, Machine, MachineId, Node, NodeId};
pub use mapping::{ClusterPlacement, Mapping, MappingError, Placement, Stage};
pub use metrics::{Metrics, overload_percent};
