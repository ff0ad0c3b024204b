//! Shapes of work, and estimates of it.

use std::sync::Arc;

use pliant_control::estimation_vector::EstimationVector;
use pliant_control::job::{ComparedEstimate, Work};
use pliant_model::{Estimate, GpuPoint, Procs, Speedup, SpeedupError};

use super::field::*;
use super::resources::needed;
use super::table::{message, one_of};
use super::{Malformed, bounds, proto};

/// What an estimate is, where one is missing.
pub(super) const AN_ESTIMATE: &str = "an estimate";

const A_SPEEDUP: &str = "rigid, amdahl, folding, downey, table or gpu_table";

one_of! {
    proto::Speedup { model: proto::speedup::Model } <=> Speedup {
        Rigid(empty()) <=> Rigid,
        Amdahl(proto::speedup::Amdahl) <=> Amdahl { parallel, limit: ANY_PROCS },
        Folding(empty()) <=> Folding,
        Downey(proto::speedup::Downey) <=> Downey { average_parallelism, sigma },
        Table(proto::speedup::Table) <=> Table(
            points: converted(list(nested(), bounds::POINTS_MAX), Arc::from, |points: &Arc<[_]>| points.to_vec())
        ),
        GpuTable(proto::speedup::GpuTable) <=> GpuTable(
            points: converted(list(nested(), bounds::POINTS_MAX), Arc::from, |points: &Arc<[_]>| points.to_vec())
        ),
    } => (check: in_domain, fit: crate::tests::fit::speedup)
}

message! {
    proto::speedup::Point <=> (Procs, f64) (procs: ANY_PROCS, time)

    proto::speedup::GpuPoint <=> GpuPoint {
        procs: ANY_PROCS,
        gpus,
        time,
    }

    proto::Work <=> Work {
        procs: PROCS,
        walltime_s <=> walltime: WALLTIME,
        fixed_time,
        speedup: required(A_SPEEDUP),
        resources: needed(),
        begin: optional(TIME),
        deadline: optional(TIME),
        nice: NICE,
        requeue: REQUEUE,
    } => (check: in_whole_tasks, fit: crate::tests::fit::work)

    proto::Estimate <=> Estimate {
        procs: PROCS,
        walltime_s <=> walltime: SCALED_WALLTIME,
        start: TIME,
    }

    proto::EstimationVector <=> EstimationVector {
        server: NAME,
        address: ADDRESS,
        rank,
        estimate: required(AN_ESTIMATE),
        speed: SPEED,
        procs: PROCS,
        free: PROCS_OR_NONE,
        queue_length,
        partition: unless_empty(text(bounds::NAME_BYTES_MAX)),
    }

    proto::ComparedEstimate <=> ComparedEstimate {
        server: NAME,
        estimate: required(AN_ESTIMATE),
    }
}

/// Work, if its processors are those of whole tasks.
fn in_whole_tasks(work: Work) -> Result<Work, Malformed> {
    let undivided = work.resources.as_ref().and_then(|needed| needed.undivided(&work.speedup, work.procs));
    match undivided {
        None => Ok(work),
        Some(task) => {
            let expected = format!("a fixed number that is a multiple of {task}, the processors of a task");
            Err(Malformed::new("procs", expected, work.procs))
        }
    }
}

/// A speedup, if it is one that can be.
fn in_domain(speedup: Speedup) -> Result<Speedup, Malformed> {
    speedup.validate().map_err(|error| out_of_domain(&speedup, &error)).map(|()| speedup)
}

/// Which field makes a speedup one that cannot be.
fn out_of_domain(speedup: &Speedup, error: &SpeedupError) -> Malformed {
    match error {
        SpeedupError::ParallelFraction(found) => {
            Malformed::new("amdahl.parallel", "a fraction from 0 to 1", found)
        }
        SpeedupError::Limit => Malformed::new("amdahl.limit", "at least 1 processor", 0),
        SpeedupError::Downey { average_parallelism, sigma } => {
            let expected = "an average parallelism of at least 1 and a sigma of at least 0";
            Malformed::new("downey", expected, format!("{average_parallelism} and {sigma}"))
        }
        SpeedupError::GpuTable => Malformed::new(
            "gpu_table.points",
            "points by increasing numbers of processors and then of GPUs, one at least with GPUs, with positive times",
            "others",
        ),
        SpeedupError::Table => {
            let Speedup::Table(points) = speedup else { return Malformed::new("", A_SPEEDUP, error) };
            let fits = |index: usize| {
                let (procs, time) = points[index];
                let grows = index == 0 || points[index - 1].0 < procs;
                procs.0 > 0 && grows && time > 0.0 && time.is_finite()
            };
            let expected = "increasing numbers of processors and positive times";
            match (0..points.len()).find(|index| !fits(*index)) {
                Some(index) => {
                    let (procs, time) = points[index];
                    Malformed::new("", expected, format!("{} with {time}", procs.0)).at("table.points", index)
                }
                None => Malformed::new("table.points", expected, "no points"),
            }
        }
    }
}
