//! Shapes of work, and estimates of it.

use pliant_control::job::{Compared, Work};
use pliant_control::vector::Vector;
use pliant_model::{Estimate, Procs, Speedup, SpeedupError};

use super::proto::{self, speedup::Model};
use super::{Malformed, bounds, read, write};

/// What an estimate is, where one is missing.
pub(super) const AN_ESTIMATE: &str = "an estimate";

impl From<&Speedup> for proto::Speedup {
    fn from(speedup: &Speedup) -> proto::Speedup {
        let model = match speedup {
            Speedup::Rigid => Model::Rigid(proto::speedup::Rigid {}),
            Speedup::Amdahl { parallel, limit } => {
                Model::Amdahl(proto::speedup::Amdahl { parallel: *parallel, limit: limit.0 })
            }
            Speedup::Folding => Model::Folding(proto::speedup::Folding {}),
            Speedup::Downey { average_parallelism, sigma } => Model::Downey(proto::speedup::Downey {
                average_parallelism: *average_parallelism,
                sigma: *sigma,
            }),
            Speedup::Table(points) => {
                let point =
                    |(procs, time): &(Procs, f64)| proto::speedup::Point { procs: procs.0, time: *time };
                let points = points.iter().take(bounds::POINTS_MAX).map(point).collect();
                Model::Table(proto::speedup::Table { points })
            }
        };
        proto::Speedup { model: Some(model) }
    }
}

impl TryFrom<proto::Speedup> for Speedup {
    type Error = Malformed;
    fn try_from(message: proto::Speedup) -> Result<Speedup, Malformed> {
        let model = message.model.ok_or_else(|| Malformed::missing("", A_SPEEDUP))?;
        let speedup = match model {
            Model::Rigid(_) => Speedup::Rigid,
            Model::Amdahl(model) => Speedup::Amdahl { parallel: model.parallel, limit: Procs(model.limit) },
            Model::Folding(_) => Speedup::Folding,
            Model::Downey(model) => {
                Speedup::Downey { average_parallelism: model.average_parallelism, sigma: model.sigma }
            }
            Model::Table(table) => {
                read::count("table.points", table.points.len(), bounds::POINTS_MAX)?;
                Speedup::Table(table.points.iter().map(|point| (Procs(point.procs), point.time)).collect())
            }
        };
        speedup.validate().map_err(|error| out_of_domain(&speedup, &error))?;
        Ok(speedup)
    }
}

const A_SPEEDUP: &str = "rigid, amdahl, folding, downey or table";

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

impl From<&Work> for proto::Work {
    fn from(work: &Work) -> proto::Work {
        proto::Work {
            procs: write::procs(work.procs),
            walltime_s: write::walltime(work.walltime),
            speedup: Some((&work.speedup).into()),
        }
    }
}

impl TryFrom<proto::Work> for Work {
    type Error = Malformed;
    fn try_from(message: proto::Work) -> Result<Work, Malformed> {
        Ok(Work {
            procs: read::procs("procs", message.procs)?,
            walltime: read::walltime("walltime_s", message.walltime_s)?,
            speedup: read::required("speedup", A_SPEEDUP, message.speedup)?,
        })
    }
}

impl From<&Estimate> for proto::Estimate {
    fn from(estimate: &Estimate) -> proto::Estimate {
        proto::Estimate {
            procs: write::procs(estimate.procs),
            walltime_s: write::scaled_walltime(estimate.walltime),
            start: write::time(estimate.start),
        }
    }
}

impl TryFrom<proto::Estimate> for Estimate {
    type Error = Malformed;
    fn try_from(message: proto::Estimate) -> Result<Estimate, Malformed> {
        Ok(Estimate {
            procs: read::procs("procs", message.procs)?,
            walltime: read::scaled_walltime("walltime_s", message.walltime_s)?,
            start: read::time("start", message.start)?,
        })
    }
}

impl From<&Vector> for proto::Vector {
    fn from(vector: &Vector) -> proto::Vector {
        proto::Vector {
            server: vector.server.to_string(),
            address: vector.address.clone(),
            rank: vector.rank,
            estimate: Some((&vector.estimate).into()),
            speed: vector.speed.get(),
            procs: write::procs(vector.procs),
            free: write::free(vector.free),
            queue_length: vector.queue_length,
        }
    }
}

impl TryFrom<proto::Vector> for Vector {
    type Error = Malformed;
    fn try_from(message: proto::Vector) -> Result<Vector, Malformed> {
        Ok(Vector {
            server: read::name("server", &message.server)?,
            address: read::address("address", message.address)?,
            rank: message.rank,
            estimate: read::required("estimate", AN_ESTIMATE, message.estimate)?,
            speed: read::speed("speed", message.speed)?,
            procs: read::procs("procs", message.procs)?,
            free: read::free("free", message.free)?,
            queue_length: message.queue_length,
        })
    }
}

impl From<&Compared> for proto::Compared {
    fn from(compared: &Compared) -> proto::Compared {
        proto::Compared { server: compared.server.to_string(), estimate: Some((&compared.estimate).into()) }
    }
}

impl TryFrom<proto::Compared> for Compared {
    type Error = Malformed;
    fn try_from(message: proto::Compared) -> Result<Compared, Malformed> {
        Ok(Compared {
            server: read::name("server", &message.server)?,
            estimate: read::required("estimate", AN_ESTIMATE, message.estimate)?,
        })
    }
}
