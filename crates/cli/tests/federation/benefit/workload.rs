//! Days of work for clusters, drawn and compressed: what local users submit to each, and what comes through Pliant.

use pliant_control::job::Work;
use pliant_model::{Procs, Span, Speedup};
use pliant_trace::moldable::TYPES;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A job that its user submits to one cluster directly.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Local {
    /// When, in seconds from the beginning.
    pub(crate) at: u64,
    /// To which cluster.
    pub(crate) cluster: usize,
    pub(crate) cores: u32,
    pub(crate) limit_min: u32,
    pub(crate) runtime_s: u32,
}

/// A moldable job that is submitted to the federation.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Moldable {
    /// When, in seconds from the beginning.
    pub(crate) at: u64,
    pub(crate) work: Work,
    /// How much of its walltime it takes, in thousandths, wherever it runs.
    pub(crate) share: u32,
}

/// Work for some clusters.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Workload {
    pub(crate) locals: Vec<Local>,
    pub(crate) moldable: Vec<Moldable>,
}

/// How much work, and over how long it comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) clusters: usize,
    /// Of each cluster.
    pub(crate) locals: usize,
    pub(crate) moldable: usize,
    pub(crate) seconds: u64,
    pub(crate) scaling: Scaling,
}

/// How moldable jobs scale, and how much of their walltimes they take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scaling {
    /// On up to eight processors, of which most are of use; users ask for a multiple of what their jobs need.
    Narrow,
    /// By paper 000's four types (section 4.2.1) on as many processors as a cluster has; they take a third of their
    /// walltimes to all of it.
    Types,
}

/// A type of paper 000, by a number of ten-thousandths.
fn assign_type(mut drawn: u32) -> Speedup {
    for (parallel, limit, share) in TYPES {
        let share = (share * 10_000.0) as u32;
        if drawn < share {
            return Speedup::Amdahl { parallel, limit: Procs(limit) };
        }
        drawn -= share;
    }
    unreachable!("the shares add up to one")
}

impl Workload {
    /// Draws one. Users ask for a multiple of what their jobs need, as in real logs, so that clusters become free earlier
    /// than anybody expects; one cluster is more in demand than the others, and that changes half-way.
    pub(crate) fn draw(seed: u64, amount: Amount) -> Workload {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |from: u32, to: u32| from + random.next_u32() % (to - from + 1);
        let mut locals = Vec::new();
        for cluster in 0..amount.clusters {
            for number in 0..amount.locals {
                // Two clusters get half of their jobs at once, at the beginning or half-way.
                let at = match (cluster, number % 2) {
                    (0, 0) => 0,
                    (1, 0) => amount.seconds as u32 / 2,
                    _ => draw(0, amount.seconds as u32),
                };
                let (cores, limit_min) = (draw(1, 8), draw(1, 5));
                let runtime_s = limit_min * 60 * draw(50, 150) / 1000;
                locals.push(Local { at: at.into(), cluster, cores, limit_min, runtime_s });
            }
        }
        let mut moldable = Vec::new();
        for _ in 0..amount.moldable {
            let at = draw(0, amount.seconds as u32).into();
            moldable.push(match amount.scaling {
                Scaling::Narrow => {
                    let parallel = f64::from(draw(80, 99)) / 100.0;
                    let speedup = Speedup::Amdahl { parallel, limit: Procs(draw(2, 8)) };
                    let work = Work::new(Procs(1), Span(draw(90, 600).into()), speedup);
                    Moldable { at, work, share: draw(30, 150) }
                }
                Scaling::Types => {
                    let speedup = assign_type(draw(0, 9_999));
                    let work = Work::new(Procs(1), Span(draw(20, 200).into()), speedup);
                    Moldable { at, work, share: draw(330, 1_000) }
                }
            });
        }
        locals.sort_by_key(|local| local.at);
        moldable.sort_by_key(|job| job.at);
        Workload { locals, moldable }
    }
}
