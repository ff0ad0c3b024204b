//! Speedup models: a job's time as a function of its number of processors.

use std::sync::Arc;

use crate::{GpuPoint, Procs, gpu_table};

/// A speedup model. Every model gives a *relative time* that never grows with the number of processors,
/// which is what the tuners rely on (paper 000, section 3.2.1: "strictly increasing until a known number").
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Speedup {
    /// Runs on the requested number of processors only.
    Rigid,
    /// Amdahl's law, `S(n) = 1 / ((1 - parallel) + parallel / n)`, up to `limit` processors
    /// (paper 000, section 4.2.1).
    Amdahl {
        /// The fraction of the work that runs in parallel, in 0..=1.
        parallel: f64,
        /// More processors than this do not help and are never used.
        limit: Procs,
    },
    /// Task folding: `ceil(requested / n)` rounds of the requested shape (paper 001, "Definitions").
    Folding,
    /// Downey's model (Downey 1997, "A model for speedup of parallel programs").
    Downey {
        /// Average parallelism, at least 1.
        average_parallelism: f64,
        /// Coefficient of variation of parallelism, at least 0 (0 is ideal up to the average).
        sigma: f64,
    },
    /// Measured times: (processors, time relative to any unit), sorted by processors. Between two entries the
    /// time of the smaller one holds; a larger size that is slower is never used.
    Table(Arc<[(Procs, f64)]>),
    /// Measured times of pairs of processors and GPUs, sorted by both: these sizes are possible and no others. On a cluster that counts
    /// no GPUs only those without GPUs are.
    GpuTable(Arc<[GpuPoint]>),
}

/// Invalid parameters of a speedup model.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SpeedupError {
    /// The parallel fraction is not in 0..=1.
    #[error("expected a parallel fraction between 0 and 1, found {0}")]
    ParallelFraction(f64),
    /// The processor limit is 0.
    #[error("expected a limit of at least 1 processor, found 0")]
    Limit,
    /// Downey's parameters are outside their domain.
    #[error(
        "expected an average parallelism of at least 1 and a sigma of at least 0, found {average_parallelism} \
         and {sigma}"
    )]
    Downey {
        /// The average parallelism given.
        average_parallelism: f64,
        /// The variation given.
        sigma: f64,
    },
    /// A table is empty, has a zero count or a non-positive time, or is not sorted by processors.
    #[error("expected a table of positive times sorted by increasing processor counts")]
    Table,
    /// A table with GPUs is empty or has none, has a zero count of processors or a non-positive time, or is not sorted.
    #[error(
        "expected a table of positive times sorted by increasing processor counts, then by GPUs, with GPUs in one entry at least"
    )]
    GpuTable,
}

impl Speedup {
    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), SpeedupError> {
        match self {
            Self::Rigid | Self::Folding => Ok(()),
            Self::Amdahl { parallel, .. } if !(0.0..=1.0).contains(parallel) => {
                Err(SpeedupError::ParallelFraction(*parallel))
            }
            Self::Amdahl { limit: Procs(0), .. } => Err(SpeedupError::Limit),
            Self::Amdahl { .. } => Ok(()),
            Self::Downey { average_parallelism, sigma } => {
                if *average_parallelism >= 1.0
                    && average_parallelism.is_finite()
                    && (0.0..1e9).contains(sigma)
                {
                    Ok(())
                } else {
                    Err(SpeedupError::Downey { average_parallelism: *average_parallelism, sigma: *sigma })
                }
            }
            Self::Table(entries) => {
                let sorted = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
                let positive = entries.iter().all(|(n, t)| n.0 > 0 && *t > 0.0 && t.is_finite());
                if !entries.is_empty() && sorted && positive { Ok(()) } else { Err(SpeedupError::Table) }
            }
            Self::GpuTable(points) if gpu_table::is_valid(points) => Ok(()),
            Self::GpuTable(_) => Err(SpeedupError::GpuTable),
        }
    }

    /// The time on `n` processors relative to the model's own unit: `1 / S(n)`. Only folding and rigid jobs use
    /// `requested`. Not capped at the model's limit: a log may have used more processors
    /// than the limit of the job's type (paper 000, section 4.2.2). With as many GPUs as help.
    pub fn relative_time(&self, n: Procs, requested: Procs) -> f64 {
        self.relative_time_with(n, u32::MAX, requested)
    }

    /// The relative time of the shape to which a walltime on the requested processors refers. Of a table with GPUs it is the entry with
    /// as many processors that has the fewest GPUs.
    pub fn reference_time(&self, requested: Procs) -> f64 {
        match self {
            Self::GpuTable(points) => gpu_table::reference(points, requested),
            _ => self.relative_time(requested, requested),
        }
    }

    /// The time on `n` processors with at most so many GPUs in all.
    #[inline]
    pub fn relative_time_with(&self, n: Procs, gpus: u32, requested: Procs) -> f64 {
        let count = f64::from(n.0.max(1));
        match self {
            Self::Rigid => 1.0,
            Self::Amdahl { parallel, .. } => (1.0 - parallel) + parallel / count,
            Self::Folding => f64::from(requested.0.div_ceil(n.0.max(1))),
            Self::Downey { average_parallelism, sigma } => 1.0 / downey(count, *average_parallelism, *sigma),
            Self::Table(entries) => {
                let known = entries.partition_point(|(size, _)| *size <= n).max(1);
                entries[..known].iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min)
            }
            Self::GpuTable(points) => gpu_table::time(points, n, gpus),
        }
    }

    /// `S(n)`, relative to the model's own unit.
    pub fn speedup(&self, n: Procs, requested: Procs) -> f64 {
        1.0 / self.relative_time(n, requested)
    }

    /// The smallest and the largest useful size on a cluster of `cluster` processors; none if the job cannot run there.
    pub fn sizes(&self, requested: Procs, cluster: Procs) -> Option<(Procs, Procs)> {
        let (least, most) = match self {
            Self::Rigid => (requested, requested),
            Self::Amdahl { limit, .. } => (Procs::ONE, (*limit).min(cluster)),
            Self::Folding => (Procs::ONE, requested.min(cluster)),
            Self::Downey { average_parallelism, sigma } => {
                (Procs::ONE, downey_limit(*average_parallelism, *sigma).min(cluster))
            }
            Self::Table(entries) => (entries[0].0, entries[entries.len() - 1].0.min(cluster)),
            Self::GpuTable(points) => (points[0].procs, points[points.len() - 1].procs.min(cluster)),
        };
        (least.0 >= 1 && least <= most && most <= cluster).then_some((least, most))
    }
}

/// Downey's speedup on `n` processors (low variance for sigma <= 1, high variance above).
fn downey(n: f64, a: f64, sigma: f64) -> f64 {
    if sigma <= 1.0 {
        if n <= a {
            a * n / (a + sigma / 2.0 * (n - 1.0))
        } else if n <= 2.0 * a - 1.0 {
            a * n / (sigma * (a - 0.5) + n * (1.0 - sigma / 2.0))
        } else {
            a
        }
    } else if n <= a + a * sigma - sigma {
        n * a * (sigma + 1.0) / (a + a * sigma - sigma + n * sigma)
    } else {
        a
    }
}

/// The number of processors at which Downey's speedup reaches its maximum.
fn downey_limit(a: f64, sigma: f64) -> Procs {
    let limit = if sigma == 0.0 {
        a
    } else if sigma <= 1.0 {
        2.0 * a - 1.0
    } else {
        a + a * sigma - sigma
    };
    Procs(limit.ceil().clamp(1.0, f64::from(u32::MAX)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(model: &Speedup, n: u32) -> f64 {
        model.relative_time(Procs(n), Procs(12))
    }

    #[test]
    fn amdahls_law() {
        let model = Speedup::Amdahl { parallel: 0.75, limit: Procs(8) };
        assert_eq!([1, 3, 4].map(|n| model.speedup(Procs(n), Procs(1))), [1.0, 2.0, 1.0 / 0.4375]);
        assert_eq!(time(&model, 75), 0.26, "not capped at the limit");
        assert_eq!(model.sizes(Procs(20), Procs(6)), Some((Procs(1), Procs(6))));
        assert_eq!(model.sizes(Procs(20), Procs(60)), Some((Procs(1), Procs(8))));
    }

    /// Values of Downey 1997's two regimes at their corners.
    #[test]
    fn downeys_model() {
        let speedup = |average_parallelism, sigma, n| {
            Speedup::Downey { average_parallelism, sigma }.speedup(Procs(n), Procs(1))
        };
        for sigma in [0.0, 0.5, 1.0, 2.0] {
            assert!((speedup(10.0, sigma, 1) - 1.0).abs() < 1e-12, "one processor is the unit");
        }
        assert_eq!([5, 10, 11, 40].map(|n| speedup(10.0, 0.0, n)), [5.0, 10.0, 10.0, 10.0]);
        // Low variance: A n / (A + sigma (n - 1) / 2), then up to A at 2 A - 1.
        assert!((speedup(10.0, 1.0, 10) - 100.0 / 14.5).abs() < 1e-12);
        assert!((speedup(10.0, 1.0, 15) - 150.0 / 17.0).abs() < 1e-12);
        assert!((speedup(10.0, 1.0, 19) - 10.0).abs() < 1e-12);
        assert_eq!(speedup(10.0, 1.0, 20), 10.0, "never more than A");
        assert!((speedup(10.0, 0.4, 25) - 10.0).abs() < 1e-12);
        // High variance: n A (sigma + 1) / (sigma (n + A - 1) + A), up to A at A + A sigma - sigma.
        assert!((speedup(10.0, 2.0, 10) - 300.0 / 48.0).abs() < 1e-12);
        assert!((speedup(10.0, 2.0, 20) - 600.0 / 68.0).abs() < 1e-12);
        assert!((speedup(10.0, 2.0, 28) - 10.0).abs() < 1e-12);
        assert_eq!(speedup(10.0, 2.0, 30), 10.0, "never more than A");
        let most = |average_parallelism, sigma| {
            Speedup::Downey { average_parallelism, sigma }.sizes(Procs(1), Procs(1000)).unwrap().1.0
        };
        assert_eq!([most(10.0, 0.0), most(10.0, 0.4), most(10.0, 1.0), most(10.0, 2.0)], [10, 19, 19, 28]);
    }

    #[test]
    fn a_slower_entry_of_a_table_is_never_used() {
        let model = Speedup::Table([(Procs(2), 8.0), (Procs(4), 9.0), (Procs(8), 3.0)].into());
        assert_eq!([1, 2, 3, 4, 7, 8, 50].map(|n| time(&model, n)), [8.0, 8.0, 8.0, 8.0, 8.0, 3.0, 3.0]);
        assert_eq!(model.sizes(Procs(1), Procs(5)), Some((Procs(2), Procs(5))));
        assert_eq!(model.sizes(Procs(1), Procs(1)), None, "smaller than its smallest entry");
    }

    #[test]
    fn rounds_of_a_folded_job() {
        assert_eq!(
            [1, 5, 6, 7, 11, 12, 13].map(|n| time(&Speedup::Folding, n)),
            [12.0, 3.0, 2.0, 2.0, 2.0, 1.0, 1.0]
        );
        assert_eq!(Speedup::Folding.sizes(Procs(12), Procs(20)), Some((Procs(1), Procs(12))));
    }

    #[test]
    fn parameters_outside_their_domain_are_refused() {
        let downey = |average_parallelism, sigma| Speedup::Downey { average_parallelism, sigma };
        let amdahl = |parallel, limit| Speedup::Amdahl { parallel, limit: Procs(limit) };
        let table = |entries: &[(u32, f64)]| {
            Speedup::Table(entries.iter().map(|(n, time)| (Procs(*n), *time)).collect())
        };
        for good in [amdahl(0.0, 1), amdahl(1.0, 650), downey(1.0, 0.0), table(&[(1, 2.0), (2, 3.0)])] {
            assert_eq!(good.validate(), Ok(()), "{good:?}");
        }
        assert_eq!(amdahl(1.5, 4).validate(), Err(SpeedupError::ParallelFraction(1.5)));
        assert!(amdahl(f64::NAN, 4).validate().is_err());
        assert_eq!(amdahl(0.5, 0).validate(), Err(SpeedupError::Limit));
        for bad in [downey(0.9, 1.0), downey(f64::INFINITY, 1.0), downey(2.0, -0.1), downey(2.0, f64::NAN)] {
            assert!(matches!(bad.validate(), Err(SpeedupError::Downey { .. })), "{bad:?}");
        }
        for bad in [&[][..], &[(0, 1.0)], &[(2, 1.0), (2, 0.5)], &[(1, 0.0)], &[(1, f64::NAN)]] {
            assert_eq!(table(bad).validate(), Err(SpeedupError::Table), "{bad:?}");
        }
    }
}
