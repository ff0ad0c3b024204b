//! Jobs as logs tell them, and requests as policies see them.

use crate::{ClusterId, JobId, Procs, Span, Speed, Speedup, Time};

/// One job of a workload, after repairs: what a user asked for and, because it comes from a log, how long
/// it really ran. Only drivers see [`Job::runtime`]; policies get a [`Request`].
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// The number in the log or file it came from.
    pub log_id: u64,
    /// When it was submitted, since the first submission of the workload.
    pub submit: Time,
    /// Processors requested (at least 1).
    pub procs: Procs,
    /// Requested limit on the run, on a cluster of speed 1 (at least 1 s).
    pub walltime: Span,
    /// The time it really ran, on a cluster of speed 1 (1 s ..= walltime).
    pub runtime: Span,
    /// The user, numbered by the log; -1 if unknown.
    pub user: i32,
    /// The group, numbered by the log; -1 if unknown.
    pub group: i32,
    /// The application, numbered by the log; -1 if unknown.
    pub executable: i32,
    /// The cluster that the log's user chose, as a position in the platform.
    pub origin: Option<ClusterId>,
}

/// What a client asks for, as the policies see it: everything about a job but its future.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// The driver's number for it.
    pub id: JobId,
    /// When it was submitted to the federation; decides the "original submission order" of paper 000.
    pub submit: Time,
    /// Processors that the user asked for; the walltime is given on this many.
    pub procs: Procs,
    /// Walltime on `procs` processors of speed 1.
    pub walltime: Span,
    /// How the time changes with the number of processors.
    pub speedup: Speedup,
    /// The cluster that the user chose, if any.
    pub origin: Option<ClusterId>,
}

impl Request {
    /// The walltimes of this request on a cluster of `speed` and `cluster_procs`; none if it cannot run there.
    pub fn on(&self, cluster_procs: Procs, speed: Speed) -> Option<Walltimes<'_>> {
        let (least, most) = self.speedup.sizes(self.procs, cluster_procs)?;
        let reference = self.speedup.relative_time(self.procs, self.procs);
        let scale = self.walltime.0 as f64 / speed.get();
        Some(Walltimes { speedup: &self.speedup, requested: self.procs, scale, reference, least, most })
    }
}

/// The walltime of one request as a function of its size on one cluster. Never grows with the size.
#[derive(Clone, Copy, Debug)]
pub struct Walltimes<'a> {
    speedup: &'a Speedup,
    requested: Procs,
    /// Walltime of the requested shape on this cluster, in seconds.
    scale: f64,
    /// Relative time of the requested shape.
    reference: f64,
    least: Procs,
    most: Procs,
}

impl Walltimes<'_> {
    /// The smallest size that may be tried.
    pub fn least(&self) -> Procs {
        self.least
    }

    /// The largest size that may be tried: the cluster or the speedup's limit.
    pub fn most(&self) -> Procs {
        self.most
    }

    /// `w(n, c) = max(1, ceil(w_t * S(n_t) / S(n) / s_c))` (paper 000, section 4.2.2; spec A.0.1).
    ///
    /// One part in 10^12 is shaved before rounding up, so that a size whose exact walltime is a whole
    /// number does not gain a second by rounding noise; the requested size on speed 1 gives `w_t` itself.
    pub fn at(&self, n: Procs) -> Span {
        let seconds = self.scale * self.ratio(n) * (1.0 - 1e-12);
        // Rounding up through the integer is several times cheaper than `f64::ceil` without SSE 4.1.
        let whole = seconds as i64;
        Span((whole + i64::from((whole as f64) < seconds)).clamp(1, Span::MAX.0))
    }

    /// The walltime on `n` processors relative to the requested shape's: the same on every cluster.
    pub fn ratio(&self, n: Procs) -> f64 {
        self.speedup.relative_time(n, self.requested) / self.reference
    }

    /// The walltime of the requested shape on this cluster, in seconds, before rounding.
    pub fn scale_s(&self) -> f64 {
        self.scale
    }
}

/// The actual runtime when the walltime becomes `walltime`: the log's runtime/walltime ratio is kept at any
/// size (paper 000, section 4.2.2), rounded up, at least 1 s and at most the walltime.
pub fn runtime_at(job: &Job, walltime: Span) -> Span {
    let scaled = (i128::from(walltime.0) * i128::from(job.runtime.0)).div_euclid(i128::from(job.walltime.0));
    let exact = scaled * i128::from(job.walltime.0) == i128::from(walltime.0) * i128::from(job.runtime.0);
    let seconds = if exact { scaled } else { scaled + 1 };
    Span((seconds as i64).clamp(1, walltime.0.max(1)))
}
