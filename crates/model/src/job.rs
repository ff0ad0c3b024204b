//! Jobs as read from logs, and requests as policies see them.

use std::sync::Arc;

use crate::{
    ClusterId, GpuCount, GpuPoint, Gpus, JobId, Mebibytes, Owner, Procs, Resources, Span, Speed, Speedup,
    Time,
};

/// One job of a workload after repairs: the user's request and the runtime in the log. Only drivers see
/// [`Job::runtime`]; policies get a [`Request`].
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Job {
    /// The number in the log or file.
    pub log_id: u64,
    /// Submission time, relative to the first submission of the workload.
    pub submit: Time,
    /// Processors requested (at least 1).
    pub procs: Procs,
    /// Requested limit on the run, on a cluster of speed 1 (at least 1 s).
    pub walltime: Span,
    /// The actual runtime on a cluster of speed 1 (1 s ..= walltime).
    pub runtime: Span,
    /// The user, numbered by the log; -1 if unknown.
    pub user: i32,
    /// The group, numbered by the log; -1 if unknown.
    pub group: i32,
    /// The application, numbered by the log; -1 if unknown.
    pub executable: i32,
    /// The cluster chosen by the log's user, as a position in the platform.
    pub origin: Option<ClusterId>,
    /// Memory for each processor, as far as the log says.
    pub memory: LoggedMemory,
    /// What it needs besides processors, if its source says more than a log does. The memory of the log counts if these name none.
    pub resources: Option<Arc<Resources>>,
}

/// The memory of a job for each of its processors, from a log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LoggedMemory {
    /// What the user requested.
    pub requested: Option<Mebibytes>,
    /// What the job used.
    pub used: Option<Mebibytes>,
}

/// A client's request as policies see it: a job without its runtime.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// The job ID given by the driver.
    pub id: JobId,
    /// When it was submitted to the federation; defines the "original submission order" of paper 000.
    pub submit: Time,
    /// Processors that the user requested; the walltime refers to this number.
    pub procs: Procs,
    /// Walltime on `procs` processors of speed 1.
    pub walltime: Span,
    /// True if it is the same on processors of every speed.
    pub fixed_time: bool,
    /// The speedup model.
    pub speedup: Speedup,
    /// The cluster that the user chose, if any.
    pub origin: Option<ClusterId>,
    /// The user.
    pub owner: Owner,
    /// What it needs besides processors.
    pub resources: Option<Arc<Resources>>,
}

impl Request {
    /// A request of an unknown user who chose no cluster.
    pub fn new(id: JobId, submit: Time, procs: Procs, walltime: Span, speedup: Speedup) -> Request {
        let (fixed_time, origin, owner, resources) = (false, None, Owner::UNKNOWN, None);
        Request { id, submit, procs, walltime, fixed_time, speedup, origin, owner, resources }
    }

    /// The same request with another owner.
    #[must_use]
    pub fn owned_by(self, owner: Owner) -> Request {
        Request { owner, ..self }
    }

    /// The same request with these needs.
    #[must_use]
    pub fn needing(self, resources: Resources) -> Request {
        Request { resources: Some(Arc::new(resources)), ..self }
    }

    /// Whether one node with as many processors as the cluster has what it needs, as far as only processors are counted.
    pub fn needs_one_node(&self, cluster: Procs) -> bool {
        let most = if matches!(self.speedup, Speedup::Rigid) { self.procs } else { cluster };
        self.resources.as_ref().is_none_or(|needed| needed.is_one_node_of(most))
    }

    /// The walltimes of this request on a cluster of `speed` and `cluster_procs`; none if it cannot run there.
    pub fn on(&self, cluster_procs: Procs, speed: Speed) -> Option<Walltimes<'_>> {
        let (least, most) = self.speedup.sizes(self.procs, cluster_procs)?;
        let reference = self.speedup.reference_time(self.procs);
        let is_fixed = self.fixed_time;
        let scale = if is_fixed { self.walltime.0 as f64 } else { self.walltime.0 as f64 / speed.get() };
        let (submit, owner, requested) = (self.submit, self.owner, self.procs);
        let (speedup, resources) = (&self.speedup, self.resources.as_deref());
        let walltimes = Walltimes {
            speedup,
            requested,
            scale,
            is_fixed,
            reference,
            least,
            most,
            submit,
            owner,
            resources,
            longest: Span::MAX,
            gpus: u32::MAX,
        };
        Some(walltimes)
    }

    /// The same on a cluster that may count no GPUs: there only sizes without GPUs are possible.
    pub fn where_counted(
        &self,
        cluster_procs: Procs,
        speed: Speed,
        counts_gpus: bool,
    ) -> Option<Walltimes<'_>> {
        let walltimes = self.on(cluster_procs, speed)?;
        if counts_gpus { Some(walltimes) } else { walltimes.without_gpus() }
    }

    /// The GPUs in all that a table gives the request in a shape that it gets on a cluster of `speed`; 0 if it has no such table.
    pub fn gpus_at(&self, speed: Speed, procs: Procs, walltime: Span) -> u32 {
        let walltimes = self.on(Procs(u32::MAX), speed);
        walltimes.map_or(0, |walltimes| walltimes.gpus_at(procs, walltime))
    }

    /// What the request needs besides processors in a shape that it gets on a cluster of `speed`.
    pub fn resources_at(&self, speed: Speed, procs: Procs, walltime: Span) -> Option<Arc<Resources>> {
        if !matches!(self.speedup, Speedup::GpuTable(_)) {
            return self.resources.clone();
        }
        let walltimes = self.on(Procs(u32::MAX), speed)?;
        let resources = walltimes.resources_with(walltimes.gpus_at(procs, walltime));
        (resources != Resources::default()).then(|| Arc::new(resources))
    }
}

/// The walltime of one request as a function of its size on one cluster. It never grows with the size.
#[derive(Clone, Copy, Debug)]
pub struct Walltimes<'a> {
    speedup: &'a Speedup,
    requested: Procs,
    /// Walltime of the requested shape on this cluster, in seconds.
    scale: f64,
    /// That is the same at every speed.
    is_fixed: bool,
    /// Relative time of the requested shape.
    reference: f64,
    least: Procs,
    most: Procs,
    submit: Time,
    owner: Owner,
    resources: Option<&'a Resources>,
    /// Longer sizes of a table with GPUs are excluded.
    longest: Span,
    /// The most GPUs of such a size.
    gpus: u32,
}

impl Walltimes<'_> {
    /// The sizes of a table with GPUs that are possible, with their walltimes, by processors and then by GPUs; none for another model,
    /// under which a size is a number of processors.
    pub fn gpu_sizes(&self) -> Option<impl Iterator<Item = (Procs, u32, Span)> + '_> {
        let Speedup::GpuTable(points) = self.speedup else { return None };
        let is_possible =
            |one: &&GpuPoint| (self.least..=self.most).contains(&one.procs) && one.gpus <= self.gpus;
        let sizes = points.iter().filter(is_possible);
        let sizes = sizes.map(|one| (one.procs, one.gpus, self.rounded(one.time / self.reference)));
        Some(sizes.filter(|(_, _, walltime)| *walltime <= self.longest))
    }

    /// The fewest GPUs with which so many processors suffice for a walltime; if none do, those of the fastest size.
    pub fn gpus_at(&self, procs: Procs, walltime: Span) -> u32 {
        let sizes = || self.gpu_sizes().into_iter().flatten().filter(|(size, ..)| *size <= procs);
        let enough = sizes().filter(|(.., time)| *time <= walltime).map(|(_, gpus, _)| gpus).min();
        let fastest = || sizes().min_by_key(|(_, gpus, time)| (*time, *gpus)).map_or(0, |(_, gpus, _)| gpus);
        enough.unwrap_or_else(fastest)
    }

    /// What the request needs with so many GPUs in all.
    pub fn resources_with(&self, gpus: u32) -> Resources {
        let resources = self.resources.cloned().unwrap_or_default();
        let kind = resources.gpus.as_ref().and_then(|gpus| gpus.kind.clone());
        let gpus = (gpus > 0).then_some(Gpus { count: GpuCount::Total(gpus), kind });
        Resources { gpus, ..resources }
    }

    /// The same request without GPUs, if it can do without. A request that has no table with GPUs stays as it is.
    #[must_use]
    fn without_gpus(self) -> Option<Self> {
        if !matches!(self.speedup, Speedup::GpuTable(_)) {
            return Some(self);
        }
        let without = Walltimes { gpus: 0, ..self };
        let mut sizes = without.gpu_sizes()?.map(|(procs, ..)| procs);
        let least = sizes.next()?;
        let most = sizes.last().unwrap_or(least);
        Some(Walltimes { least, most, ..without })
    }

    /// What the request needs besides processors.
    pub fn resources(&self) -> Option<&Resources> {
        self.resources
    }

    /// Whether they are the same on processors of every speed.
    pub fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// When the request was submitted to the federation.
    pub fn submit(&self) -> Time {
        self.submit
    }

    /// The user who submitted the request.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The same request limited to the sizes from `least` to `most`.
    #[must_use]
    pub fn between(mut self, least: Procs, most: Procs) -> Self {
        debug_assert!(self.least <= least && least <= most && most <= self.most);
        (self.least, self.most) = (least, most);
        self
    }

    /// The smallest allowed size.
    pub fn least(&self) -> Procs {
        self.least
    }

    /// The largest allowed size: that of the cluster or the speedup model's limit.
    pub fn most(&self) -> Procs {
        self.most
    }

    /// The same request limited to sizes with a walltime of at most `longest`; none if no size qualifies. O(log sizes).
    pub fn within(mut self, longest: Span) -> Option<Self> {
        self.longest = self.longest.min(longest);
        let (mut least, mut most) = (self.least.0, self.most.0);
        if self.at(self.most) > longest {
            return None;
        }
        while least < most {
            let middle = least + (most - least) / 2;
            match self.at(Procs(middle)) <= longest {
                true => most = middle,
                false => least = middle + 1,
            }
        }
        self.least = Procs(least);
        Some(self)
    }

    /// `w(n, c) = max(1, ceil(w_t * S(n_t) / S(n) / s_c))` (paper 000, section 4.2.2).
    ///
    /// One part in 10^12 is subtracted before rounding up, so that rounding errors add no second to an exact whole
    /// number; the requested size on speed 1 gives `w_t` itself.
    ///
    /// Of a table with GPUs it is the least one on so many processors, with as many GPUs as help.
    pub fn at(&self, n: Procs) -> Span {
        self.rounded(self.ratio(n))
    }

    /// The walltime on `n` processors with at most so many GPUs.
    pub fn at_with(&self, n: Procs, gpus: u32) -> Span {
        self.rounded(self.ratio_with(n, gpus))
    }

    fn rounded(&self, ratio: f64) -> Span {
        let seconds = self.scale * ratio * (1.0 - 1e-12);
        // Rounding up through the integer is several times cheaper than `f64::ceil` without SSE 4.1.
        let whole = seconds as i64;
        Span(whole.saturating_add(i64::from((whole as f64) < seconds)).clamp(1, Span::MAX.0))
    }

    /// The walltime on `n` processors relative to that of the requested shape, which is the same on every cluster.
    pub fn ratio(&self, n: Procs) -> f64 {
        self.ratio_with(n, u32::MAX)
    }

    /// The same with at most so many GPUs.
    pub fn ratio_with(&self, n: Procs, gpus: u32) -> f64 {
        self.speedup.relative_time_with(n, gpus.min(self.gpus), self.requested) / self.reference
    }

    /// The walltime of the requested shape on this cluster, in seconds, before rounding.
    pub fn scale_s(&self) -> f64 {
        self.scale
    }
}

/// The runtime under another `walltime`: the runtime/walltime ratio of the log is kept at any size (paper 000,
/// section 4.2.2), rounded up, at least 1 s and at most the walltime.
pub fn runtime_at(job: &Job, walltime: Span) -> Span {
    let scaled = (i128::from(walltime.0) * i128::from(job.runtime.0)).div_euclid(i128::from(job.walltime.0));
    let exact = scaled * i128::from(job.walltime.0) == i128::from(walltime.0) * i128::from(job.runtime.0);
    let seconds = if exact { scaled } else { scaled + 1 };
    Span((seconds as i64).clamp(1, walltime.0.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(procs: u32, walltime: i64, speedup: Speedup) -> Request {
        let (procs, walltime) = (Procs(procs), Span(walltime));
        Request::new(JobId(0), Time::ZERO, procs, walltime, speedup)
    }

    fn speed(factor: f64) -> Speed {
        Speed::new(factor).unwrap()
    }

    #[test]
    fn sizes_with_too_long_a_walltime_are_excluded() {
        let check = |speedup: Speedup, longest: i64, expected: Option<(u32, u32)>| {
            let request = request(8, 100, speedup);
            let walltimes = request.on(Procs(16), speed(1.0)).unwrap();
            let found = walltimes.within(Span(longest)).map(|within| (within.least().0, within.most().0));
            assert_eq!(found, expected, "{:?} within {longest} s", request.speedup);
        };
        check(Speedup::Rigid, 100, Some((8, 8)));
        check(Speedup::Rigid, 99, None);
        // 800 s on one processor, 100 s on eight, 50 s on sixteen.
        let linear = || Speedup::Amdahl { parallel: 1.0, limit: Procs(16) };
        check(linear(), 800, Some((1, 16)));
        check(linear(), 799, Some((2, 16)));
        check(linear(), 100, Some((8, 16)));
        check(linear(), 50, Some((16, 16)));
        check(linear(), 49, None);
    }

    #[test]
    fn the_requested_shape_keeps_its_walltime_at_reference_speed() {
        let models = [
            Speedup::Rigid,
            Speedup::Folding,
            Speedup::Amdahl { parallel: 0.9, limit: Procs(4000) },
            Speedup::Amdahl { parallel: 1.0, limit: Procs(4000) },
            Speedup::Downey { average_parallelism: 40.0, sigma: 0.7 },
            Speedup::Downey { average_parallelism: 40.0, sigma: 1.7 },
        ];
        for model in models {
            for procs in 1..=40 {
                for walltime in [1, 7, 59, 3600, 100_003, 31_536_000] {
                    let request = request(procs, walltime, model.clone());
                    let walltimes = request.on(Procs(4000), Speed::REFERENCE).unwrap();
                    assert_eq!(walltimes.at(Procs(procs)), Span(walltime), "{model:?} on {procs}");
                }
            }
        }
    }

    /// The exact tuner relies on this property.
    #[test]
    fn walltimes_never_grow_with_the_size_and_are_never_zero() {
        let table = [(Procs(2), 9.0), (Procs(3), 11.0), (Procs(7), 2.5), (Procs(60), 2.0)];
        for model in [
            Speedup::Folding,
            Speedup::Amdahl { parallel: 0.999, limit: Procs(650) },
            Speedup::Downey { average_parallelism: 33.3, sigma: 0.0 },
            Speedup::Downey { average_parallelism: 33.3, sigma: 0.9 },
            Speedup::Downey { average_parallelism: 33.3, sigma: 2.9 },
            Speedup::Table(table.into()),
        ] {
            let request = request(50, 100, model.clone());
            let walltimes = request.on(Procs(640), speed(1.7)).unwrap();
            let sizes = walltimes.least().0..=walltimes.most().0;
            let spans: Vec<Span> = sizes.map(|size| walltimes.at(Procs(size))).collect();
            assert!(spans.len() > 30 && spans.is_sorted_by(|a, b| a >= b), "{model:?}");
            assert!(spans.last().is_some_and(|span| *span >= Span(1)), "{model:?}");
        }
    }

    #[test]
    fn walltimes_are_divided_by_the_speed_and_rounded_up() {
        let at = |walltime, factor| {
            request(1, walltime, Speedup::Rigid).on(Procs(1), speed(factor)).unwrap().at(Procs::ONE)
        };
        assert_eq!(at(120, 1.2), Span(100));
        assert_eq!(at(21, 1.4), Span(15), "no second is gained by rounding noise");
        assert_eq!(at(121, 1.2), Span(101), "100.83 s");
        assert_eq!(at(10, 0.5), Span(20));
        assert_eq!(at(1, 1.4), Span(1), "never less than a second");
    }

    /// Walltimes that exceed the range of integers.
    #[test]
    fn walltimes_are_capped_at_the_longest() {
        let on_one = |walltime, speedup, factor| {
            request(1000, walltime, speedup).on(Procs(1000), speed(factor)).unwrap().at(Procs::ONE)
        };
        let perfect = Speedup::Amdahl { parallel: 1.0, limit: Procs(1000) };
        assert_eq!(on_one(Span::MAX.0, Speedup::Folding, 1.0), Span::MAX);
        assert_eq!(on_one(i64::MAX, perfect, 0.001), Span::MAX);
        // The last size within the limit: four rounds of a quarter, less the precision of a float.
        let quarter = request(4, Span::MAX.0 / 4, Speedup::Folding);
        let longest = quarter.on(Procs(4), Speed::REFERENCE).unwrap().at(Procs::ONE);
        assert!(longest < Span::MAX && Span::MAX.0 - longest.0 < Span::MAX.0 / 1_000_000_000, "{longest}");
    }

    #[test]
    fn folding_gives_whole_rounds() {
        let request = request(10, 60, Speedup::Folding);
        let walltimes = request.on(Procs(8), Speed::REFERENCE).unwrap();
        assert_eq!((walltimes.least(), walltimes.most()), (Procs(1), Procs(8)));
        let rounds = [(1, 10), (2, 5), (3, 4), (4, 3), (5, 2), (8, 2)];
        for (size, rounds) in rounds {
            assert_eq!(walltimes.at(Procs(size)), Span(60 * rounds), "on {size}");
        }
    }

    #[test]
    fn a_fixed_time_is_the_same_at_every_speed() {
        let scaled = request(4, 100, Speedup::Amdahl { parallel: 0.5, limit: Procs(8) });
        let fixed = Request { fixed_time: true, ..scaled.clone() };
        for factor in [0.5, 1.0, 1.7] {
            for procs in [1, 4, 8] {
                let at =
                    |request: &Request, factor| request.on(Procs(8), speed(factor)).unwrap().at(Procs(procs));
                assert_eq!(at(&fixed, factor), at(&scaled, 1.0), "on {procs} at {factor}");
            }
        }
    }

    #[test]
    fn walltimes_know_whose_request_they_are_of_and_when_it_came() {
        let request = Request::new(JobId(1), Time(7), Procs(2), Span(90), Speedup::Rigid).owned_by(Owner(3));
        assert_eq!((request.id, request.submit, request.owner), (JobId(1), Time(7), Owner(3)));
        let walltimes = request.on(Procs(4), speed(1.2)).unwrap();
        assert_eq!((walltimes.submit(), walltimes.owner(), walltimes.scale_s()), (Time(7), Owner(3), 75.0));
    }

    #[test]
    fn a_rigid_request_needs_its_processors() {
        let request = request(10, 60, Speedup::Rigid);
        assert!(request.on(Procs(9), Speed::REFERENCE).is_none());
        let walltimes = request.on(Procs(10), Speed::REFERENCE).unwrap();
        assert_eq!((walltimes.least(), walltimes.most()), (Procs(10), Procs(10)));
    }

    #[test]
    fn the_runtime_keeps_its_ratio_to_the_walltime() {
        let runtime = |walltime, runtime, at| {
            let job = Job {
                log_id: 1,
                submit: Time::ZERO,
                procs: Procs::ONE,
                walltime: Span(walltime),
                runtime: Span(runtime),
                user: -1,
                group: -1,
                executable: -1,
                origin: None,
                memory: LoggedMemory::default(),
                resources: None,
            };
            runtime_at(&job, Span(at)).0
        };
        assert_eq!(runtime(100, 50, 40), 20);
        assert_eq!(runtime(100, 50, 41), 21, "20.5 s rounded up");
        assert_eq!(runtime(100, 1, 10), 1, "at least a second");
        assert_eq!(runtime(100, 100, 7), 7, "a job that takes all of its walltime takes all of any");
        assert_eq!(runtime(3, 2, 3), 2);
        assert_eq!(runtime(7, 3, i64::MAX / 4), 988_218_432_520_154_551, "no overflow");
        for at in 1..500 {
            let scaled = runtime(97, 31, at);
            assert!((1..=at).contains(&scaled) && 97 * scaled >= 31 * at && 97 * (scaled - 1) < 31 * at);
        }
    }
}
