//! The remaining capacity of a grid while tasks are placed: power of machines (eq. 2) and bandwidth of links.
//!
//! Every change is recorded with the previous value, so that a failed mapping restores the exact state without rounding.

use std::collections::BTreeMap;

use crate::{Grid, LinkId, MachineId};

/// Power below this share of a machine's nominal power is none.
const NOTHING: f64 = 1e-9;

/// How much more than its capacity a link may seem to carry because sums are rounded.
const ROUNDING: f64 = 1e-9;

/// What is left of a grid.
#[derive(Clone, PartialEq, Debug)]
pub struct Availability {
    power: Vec<f64>,
    /// Below this, a machine is full.
    nothing: Vec<f64>,
    /// Traffic on links, in Mb/s; those that carry none are absent.
    carried: BTreeMap<LinkId, f64>,
    taken: Vec<Taken>,
}

/// The value before a change.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Taken {
    Power(MachineId, f64),
    Link(LinkId, Option<f64>),
}

/// A moment to go back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(usize);

impl Availability {
    /// All that a grid has: eq. 2 for each machine, and empty links.
    pub fn of(grid: &Grid) -> Availability {
        let machines = grid.machines();
        Availability {
            power: machines.iter().map(|machine| machine.power_left()).collect(),
            nothing: machines.iter().map(|machine| machine.power_mflops * NOTHING).collect(),
            carried: BTreeMap::new(),
            taken: Vec::new(),
        }
    }

    /// The remaining power of a machine, in MFlop/s; 0 if it is negligible.
    pub fn power(&self, machine: MachineId) -> f64 {
        let power = self.power[machine.index()];
        if power <= self.nothing[machine.index()] { 0.0 } else { power }
    }

    /// Takes power of a machine.
    pub fn take_power(&mut self, machine: MachineId, mflops: f64) {
        let power = &mut self.power[machine.index()];
        self.taken.push(Taken::Power(machine, *power));
        *power -= mflops;
    }

    /// What a link carries, in Mb/s.
    pub fn carried(&self, link: LinkId) -> f64 {
        self.carried.get(&link).copied().unwrap_or(0.0)
    }

    /// True if a link has this much bandwidth left.
    pub fn has_bandwidth(&self, grid: &Grid, link: LinkId, mbps: f64) -> bool {
        self.carried(link) + mbps <= grid.capacity(link) * (1.0 + ROUNDING)
    }

    /// Takes bandwidth of a link.
    pub fn take_link(&mut self, link: LinkId, mbps: f64) {
        let before = self.carried.insert(link, self.carried(link) + mbps);
        self.taken.push(Taken::Link(link, before));
    }

    /// This moment.
    pub fn mark(&self) -> Savepoint {
        Savepoint(self.taken.len())
    }

    /// Gives back everything that was taken since that moment.
    pub fn roll_back(&mut self, mark: Savepoint) {
        for taken in self.taken.drain(mark.0.min(self.taken.len())..).rev() {
            match taken {
                Taken::Power(machine, before) => self.power[machine.index()] = before,
                Taken::Link(link, Some(before)) => {
                    self.carried.insert(link, before);
                }
                Taken::Link(link, None) => {
                    self.carried.remove(&link);
                }
            }
        }
    }
}
