//! Multi-jobs: very many calls of a service that differ in their arguments, spread over the federation's servers (paper
//! 002).
//!
//! [`Sweeper`] drives the machine of `pliant_control::multi_job`: it asks servers what instances may expect of them,
//! submits packs of instances as jobs, follows what each pack says of its instances, and notes all of it in a folder
//! ([`SweepFolder`]), from which another client goes on.
//!
//! A pack's key follows from that of the multi-job and its number, and it is noted before it is sent: after a crash the same
//! pack goes to the same server under the same key, where it is accepted once. So no instance is lost or counted twice,
//! whoever dies; and none is *run* twice unless its job was lost with it, by a supervisor or a host that died.

mod executor;
mod folder;
mod lookout;
mod looks;
#[cfg(test)]
mod million;
mod packs;
mod rows;
mod state;
mod sweeper;
mod wanted;

use folder::Entry;

pub use folder::SweepFolder;
pub use rows::{Fate, Row, Rows};
pub use sweeper::Sweeper;
pub use wanted::{MultiJobWanted, Preview, SweepStatus};
