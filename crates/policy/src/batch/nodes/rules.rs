//! The rules by which batch systems plan.

use pliant_model::Span;

#[cfg(feature = "serde")]
use super::snapshot::is_default;

crate::named_enum! {
    /// What a planned start reserves against jobs planned after it.
    Reserve, "kind of reservation", {
        /// Whole nodes: the source of Slurm's announced starts.
        Nodes = "nodes",
        /// Whole nodes at the start, and only its cores from then on: the effect of Slurm's successive passes if walltimes are
        /// true.
        Start = "start",
        /// Its cores.
        Cores = "cores",
    }
}

/// The rules by which a batch system plans.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rules {
    /// Times reserved by [`Reserve::Nodes`] are rounded down to multiples of this (Slurm's `bf_resolution`).
    pub resolution: Span,
    /// Later starts are not announced (Slurm's `bf_window`).
    pub window: Span,
    /// True if a job that could start now, or at the end of a planned one, must end *before* the next reservation.
    pub strict_holes: bool,
    /// What a planned start reserves.
    pub reserve: Reserve,
    /// True if every job has exclusive nodes.
    pub whole_nodes: bool,
    /// Walltimes are rounded up to multiples of this.
    pub walltime_unit: Span,
    /// How long after its walltime a job is stopped.
    pub grace: Span,
    /// Pause after each job on its cores (OAR's SCHEDULER_JOB_SECURITY_TIME).
    #[cfg_attr(feature = "serde", serde(default))]
    pub pause: Span,
    /// Time from one backfill pass to the next (Slurm's `bf_interval`).
    pub interval: Span,
    /// Under [`Reserve::Start`]: the number of simulated passes before the rest is planned in one go.
    pub passes: u32,
    /// True if announced starts are used.
    pub published: bool,
    /// True if memory is requested for each core: that of a job in all is divided into equal parts, rounded up. A job with exclusive
    /// nodes requests it for each node ([`memory_of_whole_node`](pliant_model::Resources::memory_of_whole_node)).
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub memory_in_parts: bool,
    /// True if a job that needs memory, GPUs or local disk space has exclusive nodes, since the batch system hands out processors alone.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub resources_by_node: bool,
    /// True if jobs ask for nodes with so much local disk space and take none of it (Slurm's `--tmp`).
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub scratch_by_size: bool,
}

impl Default for Rules {
    /// A plain reservation table: every core and second counts.
    fn default() -> Rules {
        Rules {
            resolution: Span(1),
            window: Span::MAX,
            strict_holes: false,
            reserve: Reserve::Cores,
            whole_nodes: false,
            walltime_unit: Span(1),
            grace: Span::ZERO,
            pause: Span::ZERO,
            interval: Span::ZERO,
            passes: 0,
            published: true,
            memory_in_parts: false,
            resources_by_node: false,
            scratch_by_size: false,
        }
    }
}

impl Rules {
    /// Slurm's actual starts if its backfill makes a pass every `interval` (`bf_interval`, 30 s by default): for estimates.
    ///
    /// Announced starts are not used, since these rules are closer to actual starts (docs/research/validation.md): an announced start
    /// keeps whole nodes and counts ends in groups. A hole exactly as long as a job is missed by a late pass; with a pass every
    /// few seconds it is used, since jobs end a little early.
    pub fn slurm(interval: Span) -> Rules {
        Rules {
            strict_holes: interval >= Span(10),
            reserve: Reserve::Start,
            interval,
            passes: 200,
            walltime_unit: Span(60),
            grace: Span(30),
            published: false,
            memory_in_parts: true,
            scratch_by_size: true,
            ..Rules::default()
        }
    }

    /// OAR's conservative backfilling on cores: every job at the earliest time left by earlier ones, with `pause` between two
    /// jobs on a core, all published (`scheduledStart`). Published starts are used: they respect limits that no snapshot shows.
    pub fn oar(pause: Span) -> Rules {
        Rules { grace: Span(30), pause, resources_by_node: true, ..Rules::default() }
    }

    /// Slurm's announced starts, with its `bf_resolution` and `bf_window`: for comparison, and where the announced start itself
    /// is wanted.
    pub fn slurm_announced(resolution: Span, window: Span) -> Rules {
        Rules {
            resolution,
            window,
            strict_holes: true,
            reserve: Reserve::Nodes,
            walltime_unit: Span(60),
            grace: Span(30),
            ..Rules::default()
        }
    }
}
