//! Generators: reproducible, exact in their counts, close to their targets.

mod support;

use std::collections::BTreeMap;

use pliant_model::{ClusterId, Job, Procs, Span, Speedup, Time};
use pliant_trace::generate::{
    MONTHS, Month, PWA_G5K_JOBS, Site, UNIFORM_LONGEST_S, federation, gaussian, grid5000, lublin, month,
    pwa_g5k, rescale, site, uniform,
};
use pliant_trace::moldable::{TYPES, assign_managed, assign_types};
use pliant_trace::{Workload, info, offered_load, platform};
use support::invariants::schedulable;

fn share(jobs: &[Job], test: impl Fn(&Job) -> bool) -> f64 {
    jobs.iter().filter(|job| test(job)).count() as f64 / jobs.len().max(1) as f64
}

/// The jobs of one cluster.
fn of(workload: &Workload, cluster: u32) -> Vec<Job> {
    workload.jobs.iter().filter(|job| job.origin == Some(ClusterId(cluster))).cloned().collect()
}

/// Processor seconds over those of a cluster in `days`.
fn load_of(jobs: &[Job], procs: u32, days: f64) -> f64 {
    let work: f64 = jobs.iter().map(|job| f64::from(job.procs.0) * job.runtime.0 as f64).sum();
    work / (f64::from(procs) * days * 86_400.0)
}

fn close(found: f64, wanted: f64, relative: f64) -> bool {
    (found / wanted - 1.0).abs() <= relative
}

#[test]
fn g000_3_table_1() {
    let sums: Vec<u32> = MONTHS.iter().map(|month| month.jobs.iter().sum()).collect();
    assert_eq!(sums, [14_155, 9_640, 20_937, 36_041, 10_517, 9_182]);
    assert_eq!(PWA_G5K_JOBS, [74_647, 42_873, 15_615]);
    assert_eq!(PWA_G5K_JOBS.iter().sum::<u32>(), 133_135);
    // Experiments: the reference runs, and workloads x heuristics x platforms x algorithms x seeds.
    let workloads = MONTHS.len() + 1;
    assert_eq!(2 * workloads + 2 * 2 * workloads * 2 * 10, 574);
    let days: Vec<u32> = MONTHS.iter().map(|month| month.days).collect();
    assert_eq!(days, [31, 29, 31, 30, 31, 30], "2008 was a leap year");
    assert_eq!((month("april"), month("July")), (Some(&MONTHS[3]), None));
}

#[test]
fn the_same_seed_gives_the_same_jobs_and_another_gives_others() {
    let april: &Month = &MONTHS[3];
    let grid = platform::built_in("grid5000").unwrap();
    let generators: [(&str, &dyn Fn(u64) -> Workload); 6] = [
        ("lublin", &|seed| lublin(500, Procs(128), seed)),
        ("uniform", &|seed| uniform(500, UNIFORM_LONGEST_S, seed)),
        ("gaussian", &|seed| gaussian(500, UNIFORM_LONGEST_S, seed)),
        ("grid5000", &|seed| grid5000(april, seed)),
        ("federation", &|seed| federation(&grid, 500, 3.0, 0.7, seed)),
        ("pwa-g5k", &|seed| pwa_g5k(seed)),
    ];
    for (name, generate) in generators {
        let first = generate(1);
        schedulable(&first);
        assert_eq!(first, generate(1), "{name}");
        let other = generate(2);
        assert_eq!(first.jobs.len(), other.jobs.len(), "{name}");
        let same = first.jobs.iter().zip(&other.jobs).filter(|(one, two)| one == two).count();
        assert!(same * 20 < first.jobs.len(), "{name}: {same} jobs are equal under both seeds");
    }
}

#[test]
fn months_and_sites_draw_their_own_numbers() {
    let sizes = |workload: &Workload, cluster| -> Vec<u32> {
        of(workload, cluster).iter().take(400).map(|job| job.procs.0).collect()
    };
    let (march, may) = (grid5000(&MONTHS[2], 1), grid5000(&MONTHS[4], 1));
    assert_ne!(sizes(&march, 0), sizes(&may, 0));
    assert_ne!(sizes(&march, 0), sizes(&march, 1));
}

/// Counts, load, sizes and cycle of every cluster of a workload.
fn check_sites(workload: &Workload, platform: &str, jobs: [u32; 3], loads: [f64; 3], days: f64) {
    let platform = platform::built_in(platform).expect("a built-in platform");
    let name = &workload.name;
    assert_eq!(workload.max_procs, Some(platform.total_procs() as i64));
    assert_eq!(workload.clone().resolve_origins(&platform), 0, "{name}: every job has a home");
    for (index, cluster) in platform.clusters().iter().enumerate() {
        let own = of(workload, index as u32);
        assert_eq!(own.len() as u32, jobs[index], "{name}: {}", cluster.name);
        let load = load_of(&own, cluster.procs.0, days);
        assert!(
            close(load, loads[index], 0.05),
            "{name}: {} has load {load}, not {}",
            cluster.name,
            loads[index]
        );
        assert!(own.iter().all(|job| job.procs.0 <= cluster.procs.0 / 2), "{name}: sizes fit the home");
        assert!(own.iter().all(|job| job.submit.0 as f64 <= days * 86_400.0), "{name}: within the days");
        if own.len() >= 5_000 {
            let sequential = share(&own, |job| job.procs.0 == 1);
            assert!(
                (0.2..0.55).contains(&sequential),
                "{name}: {} has {sequential} sequential",
                cluster.name
            );
            let small = share(&own, |job| job.procs.0 <= 16);
            assert!(small > 0.6, "{name}: {} has {small} small", cluster.name);
            let over = share(&own, |job| job.walltime.0 > 2 * job.runtime.0);
            assert!(over > 0.4, "{name}: {} has {over} over-estimated twice", cluster.name);
        }
    }
}

#[test]
fn months_have_the_jobs_of_table_1_and_the_load_that_the_docs_state() {
    for month in &MONTHS {
        for seed in [1, 2] {
            check_sites(&grid5000(month, seed), "grid5000", month.jobs, month.load, f64::from(month.days));
        }
    }
    check_sites(&pwa_g5k(1), "pwa-g5k", PWA_G5K_JOBS, [0.60, 0.65, 0.75], 182.0);
}

#[test]
fn arrivals_are_bursty_and_follow_the_day() {
    let workload = grid5000(&MONTHS[3], 1);
    let hours = |from, to| share(&workload.jobs, |job| (from..to).contains(&(job.submit.0 / 3_600 % 24)));
    assert!(hours(12, 18) > 1.5 * hours(0, 6), "{} by day, {} by night", hours(12, 18), hours(0, 6));
    let mut gaps: Vec<f64> =
        workload.jobs.windows(2).map(|pair| (pair[1].submit.0 - pair[0].submit.0) as f64).collect();
    gaps.sort_by(f64::total_cmp);
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!(variance.sqrt() / mean > 1.5, "a Poisson stream has 1: {}", variance.sqrt() / mean);
}

#[test]
fn sites_of_any_size_are_possible() {
    for (procs, jobs, days, load) in [
        (1, 1, 0.01, 5.0),
        (1, 100, 1e-7, 0.5),
        (3, 7, 36_500.0, 1e-6),
        (100_000, 50, 1.0, 100.0),
        (8, 0, 1.0, 1.0),
    ] {
        let wanted = Site { name: "any".to_owned(), procs: Procs(procs), jobs, days, load };
        let made = site(&wanted, 3);
        assert_eq!(made.len() as u32, jobs);
        for job in &made {
            assert!(job.submit.0 >= 0 && job.procs.0 >= 1 && job.procs.0 <= procs, "{job:?}");
            assert!(1 <= job.runtime.0 && job.runtime <= job.walltime, "{job:?}");
        }
    }
}

#[test]
fn a_federation_shares_jobs_by_processors() {
    let grid = platform::built_in("grid5000").unwrap();
    let workload = federation(&grid, 13_440, 30.0, 1.3, 1);
    let counts: Vec<usize> = (0..3).map(|cluster| of(&workload, cluster).len()).collect();
    assert_eq!(counts, [6_400, 2_700, 4_340]);
    for (index, cluster) in grid.clusters().iter().enumerate() {
        // Runtimes are those of speed 1.0: what a cluster is offered, it works off that much faster.
        let load = load_of(&of(&workload, index as u32), cluster.procs.0, 30.0) / cluster.speed.get();
        assert!(close(load, 1.3, 0.05), "{} has load {load}", cluster.name);
    }
    let load = offered_load(&workload.jobs, grid.capacity(), Span(30 * 86_400));
    assert!(close(load, 1.3, 0.02), "the whole has load {load}");
    let large = federation(&platform::generated(300, 240_000, 1), 10_000, 2.0, 0.8, 1);
    assert_eq!((large.jobs.len(), large.partition_names.len()), (10_000, 300));
}

#[test]
fn paper_001_uniform_ranges() {
    for (name, workload) in
        [("uniform", uniform(10_000, 20_000, 7)), ("gaussian", gaussian(10_000, 20_000, 7))]
    {
        schedulable(&workload);
        let jobs = &workload.jobs;
        assert_eq!(jobs.len(), 10_000);
        assert!(jobs.iter().all(|job| (30..=90).contains(&job.procs.0)), "{name}: sizes");
        assert!(jobs.iter().all(|job| (200..=20_000).contains(&job.walltime.0)), "{name}: requests");
        assert!(
            jobs.windows(2).all(|pair| (1..=100).contains(&(pair[1].submit.0 - pair[0].submit.0))),
            "{name}: gaps"
        );
        let ratio = |job: &Job| job.runtime.0 as f64 / job.walltime.0 as f64;
        // A second of rounding is 0.5 % of the shortest request.
        assert!(jobs.iter().all(|job| (0.695..=1.0).contains(&ratio(job))), "{name}: runtimes");
        let facts = info(&workload);
        assert!(close(facts.procs.mean, 60.0, 0.02), "{name}: {:?}", facts.procs);
        assert!(close(facts.walltime_s.mean, 10_100.0, 0.03), "{name}: {:?}", facts.walltime_s);
        let mean_ratio = jobs.iter().map(ratio).sum::<f64>() / 10_000.0;
        assert!(close(mean_ratio, 0.85, 0.01), "{name}: {mean_ratio}");
    }
    // The difference between the two: half of a uniform law lies in its middle half, 62 % of the Gaussian one.
    let middle = |workload: Workload| share(&workload.jobs, |job| (45..=75).contains(&job.procs.0));
    assert!(close(middle(uniform(10_000, 20_000, 7)), 31.0 / 61.0, 0.05));
    assert!(close(middle(gaussian(10_000, 20_000, 7)), 0.63, 0.05));
    assert_eq!(uniform(10, 0, 1).jobs.len(), 10, "a limit below the least request");
}

#[test]
fn lublin_is_within_its_laws() {
    for procs in [1, 2, 64, 1_000] {
        let workload = lublin(3_000, Procs(procs), 11);
        schedulable(&workload);
        assert!(workload.jobs.iter().all(|job| job.procs.0 <= procs), "{procs} processors");
        // Rejected above e^12.
        assert!(workload.jobs.iter().all(|job| job.runtime.0 <= 162_755), "{procs} processors");
        assert_eq!(workload.max_procs, Some(i64::from(procs)));
    }
    // Larger jobs run longer: the weight of the long law grows with the size.
    let jobs = lublin(20_000, Procs(256), 3).jobs;
    let mean_log = |large: bool| {
        let logs: Vec<f64> = jobs
            .iter()
            .filter(|job| (job.procs.0 > 64) == large)
            .map(|job| (job.runtime.0 as f64).ln())
            .collect();
        logs.iter().sum::<f64>() / logs.len() as f64
    };
    assert!(mean_log(true) > mean_log(false) + 0.5, "{} and {}", mean_log(true), mean_log(false));
}

#[test]
fn rescaling_gives_the_load_asked_for() {
    let mut workload = uniform(2_000, 20_000, 1);
    rescale(&mut workload, 128.0, 0.7);
    let load = offered_load(&workload.jobs, 128.0, workload.last_submit() - Time::ZERO);
    assert!(close(load, 0.7, 0.001), "{load}");
    schedulable(&workload);
    let mut nothing = uniform(0, 20_000, 1);
    rescale(&mut nothing, 128.0, 0.7);
    assert!(nothing.jobs.is_empty());
}

#[test]
fn types_are_drawn_with_the_papers_shares() {
    let jobs = grid5000(&MONTHS[3], 1).jobs;
    let types = assign_types(&jobs, 5);
    assert_eq!(types, assign_types(&jobs, 5));
    assert_ne!(types, assign_types(&jobs, 6));
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for (job, speedup) in jobs.iter().zip(&types) {
        speedup.validate().unwrap();
        match speedup {
            Speedup::Rigid => assert_eq!(job.procs, Procs::ONE, "only sequential jobs are rigid"),
            Speedup::Amdahl { parallel, limit } => {
                assert!(job.procs > Procs::ONE, "sequential jobs stay sequential");
                assert!(TYPES.iter().any(|one| one.0 == *parallel && one.1 == limit.0));
                *counts.entry(limit.0).or_default() += 1;
            }
            other => panic!("expected a type of the paper, found {other:?}"),
        }
    }
    let parallel = f64::from(counts.values().sum::<u32>());
    for (_, limit, share) in TYPES {
        let found = f64::from(counts[&limit]) / parallel;
        // Five standard errors.
        let error = 5.0 * (share * (1.0 - share) / parallel).sqrt();
        assert!((found - share).abs() < error, "limit {limit}: {found}, expected {share}");
    }
    assert_eq!(TYPES.iter().map(|one| one.2).sum::<f64>(), 1.0);
    // A job's type depends on its position, not on the other jobs.
    assert_eq!(assign_types(&jobs[..1_000], 5), types[..1_000]);
}

#[test]
fn a_third_of_the_jobs_is_managed_on_a_shared_platform() {
    let jobs = grid5000(&MONTHS[3], 1).jobs;
    let managed = |share| assign_managed(&jobs, share, 5).iter().filter(|managed| **managed).count();
    assert_eq!((managed(1.0), managed(0.0)), (jobs.len(), 0));
    let count = jobs.len() as f64;
    let error = 5.0 * (count * (1.0 / 3.0) * (2.0 / 3.0)).sqrt();
    assert!((managed(1.0 / 3.0) as f64 - count / 3.0).abs() < error);
    assert_ne!(assign_managed(&jobs, 0.5, 5), assign_managed(&jobs, 0.5, 6));
}
