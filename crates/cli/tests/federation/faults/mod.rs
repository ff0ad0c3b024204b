//! What else goes wrong around a federation: clocks that jump, disks that are full, agents in between that die, readers
//! who do not read.

mod agents;
mod clocks;
mod disks;
mod readers;
