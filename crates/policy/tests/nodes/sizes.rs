//! Sizes of moldable requests under conservative backfilling on nodes, against a reference that looks at every size and every second.

use pliant_model::{Estimate, GpuPoint, JobId, Procs, Resources, Span, Speed, Speedup, Time, Walltimes};
use pliant_policy::tuning::Tuner;
use proptest::prelude::*;

use super::reservations::{Checked, Event, Table, event, new, plain};
use super::resources::{Asked, clusters, moldable, request};

impl Checked {
    /// The completion, the processors and the GPUs of a table of the size that completes first, by looking at every size.
    fn best(&self, one: &Asked, walltimes: &Walltimes<'_>) -> Option<(i64, u32, u32)> {
        let table = Table::of(&self.cluster, self.now, &self.scheduler.dump(), None);
        let completion = |procs: Procs, walltime: Span, resources: Option<Resources>| {
            let asked = Asked { procs: procs.0, walltime: walltime.0, resources };
            Some(table.earliest(&self.cluster, &asked)? + walltime.0)
        };
        let sizes: Vec<_> = match walltimes.gpu_sizes() {
            Some(sizes) => sizes
                .filter_map(|(procs, _, walltime)| {
                    // A smaller size with fewer GPUs may take no longer.
                    let gpus = walltimes.gpus_at(procs, walltime);
                    let resources = Some(walltimes.resources_with(gpus));
                    Some((completion(procs, walltime, resources)?, procs.0, gpus))
                })
                .collect(),
            None => (walltimes.least().0..=walltimes.most().0)
                .filter_map(|procs| {
                    let walltime = walltimes.at(Procs(procs));
                    Some((completion(Procs(procs), walltime, one.resources.clone())?, procs, 0))
                })
                .collect(),
        };
        sizes.into_iter().min()
    }
}

/// Amdahl's law, or a table of processors and GPUs.
fn speedups() -> impl Strategy<Value = Speedup> {
    let points = prop::collection::btree_map((1..9_u32, 0..4_u32), 1..100_u32, 1..8);
    let table = points.prop_filter_map("one has GPUs", |points| {
        let point = |((procs, gpus), time): ((u32, u32), u32)| GpuPoint {
            procs: Procs(procs),
            gpus,
            time: f64::from(time),
        };
        let table = Speedup::GpuTable(points.into_iter().map(point).collect());
        table.validate().is_ok().then_some(table)
    });
    let amdahl = (0.0..1.0_f64).prop_map(|parallel| Speedup::Amdahl { parallel, limit: Procs(12) });
    prop_oneof![amdahl, table]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_submission_gets_its_estimate_and_the_exact_tuner_misses_no_size(
        cluster in clusters(),
        events in prop::collection::vec(event(), 1..20),
        one in moldable(),
        speedup in speedups(),
        tuner in prop::sample::select(Tuner::ALL),
    ) {
        let cluster = plain(cluster);
        let scheduler = new("cbf", &cluster, Time::ZERO);
        let mut checked = Checked { cluster, scheduler, now: 0, jobs: Vec::new() };
        for event in events {
            match event {
                Event::Submit(asked) => checked.submit(asked),
                Event::Wait(seconds) => checked.wait(checked.now + seconds),
                Event::Finish(_) | Event::Cancel(_) | Event::Extend(..) | Event::Restore => {}
            }
        }
        let one = Asked { walltime: one.walltime % 20 + 1, ..one };
        let request = request(checked.at(), &one, speedup);
        let Some(walltimes) = request.on(checked.cluster.cores(), Speed::REFERENCE) else { return Ok(()) };
        let now = checked.at();
        let exhaustive = checked.scheduler.estimate(now, &walltimes, Tuner::Exhaustive);
        prop_assert_eq!(checked.scheduler.estimate(now, &walltimes, Tuner::Exact), exhaustive);
        let gpus = |found: &Estimate| walltimes.gpus_at(found.procs, found.walltime);
        let found = exhaustive.map(|found| (found.completion().0, found.procs.0, gpus(&found)));
        prop_assert_eq!(found, checked.best(&one, &walltimes), "{:?} of {:?}", one, request.speedup);
        let other = checked.scheduler.estimate(now, &walltimes, tuner);
        prop_assert_eq!(other.is_some(), exhaustive.is_some(), "{}", tuner);
        if let Some(estimate) = other {
            let Estimate { procs, walltime, .. } = estimate;
            let resources = request.resources_at(Speed::REFERENCE, procs, walltime);
            let resources = resources.map(|resources| (*resources).clone());
            checked.submit(Asked { procs: procs.0, walltime: walltime.0, resources });
            let job = JobId(checked.jobs.len() as u32 - 1);
            prop_assert_eq!(checked.scheduler.plan(now, job), Some(estimate), "{}", tuner);
        }
    }
}
