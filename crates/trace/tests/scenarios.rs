//! The federations shipped under `scenarios/`: their files are valid, and on the real logs they hold the jobs that
//! `scenarios/README.md` promises.

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;

use pliant_model::{ClusterId, Platform};
use pliant_testing::{log, logs};
use pliant_trace::{LoadOptions, Workload, load, platform};
use support::CLEAN;

fn scenario(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios")).join(name)
}

fn read_platform(name: &str) -> Platform {
    platform::load(&scenario(name).join("platform.toml"), |batch, _, _| Ok(batch.to_owned()))
        .expect("a valid platform")
}

/// Loads a scenario if its logs are there and checks the jobs of each cluster of its platform.
fn check(name: &str, files: &[&str], jobs: [usize; 3]) -> Option<Workload> {
    let platform = read_platform(name);
    if !files.iter().all(|file| log(&format!("{file}.swf.gz")).is_some()) {
        return None;
    }
    let options = LoadOptions { repair: CLEAN, log_dirs: vec![logs()] };
    let mut workload = load(&scenario(name).join("workload.toml"), &options).expect("a valid workload");
    support::invariants::schedulable(&workload);
    assert_eq!(
        workload.resolve_origins(&platform),
        0,
        "{name}: every job belongs to a cluster of the platform"
    );
    let of = |cluster| workload.jobs.iter().filter(|job| job.origin == Some(ClusterId(cluster))).count();
    assert_eq!([of(0), of(1), of(2)], jobs, "{name}");
    for job in &workload.jobs {
        let cluster = platform.cluster(job.origin.expect("resolved above"));
        assert!(job.procs <= cluster.procs, "{name}: job {} is too large for {}", job.log_id, cluster.name);
    }
    Some(workload)
}

#[test]
fn platforms_of_the_papers_are_the_built_in_ones() {
    for name in ["grid5000", "pwa-g5k"] {
        assert_eq!(Some(read_platform(name)), platform::built_in(name));
    }
}

#[test]
fn three_machines_in_autumn_1996() {
    let files = ["CTC-SP2-1996-3.1-cln", "KTH-SP2-1996-2.1-cln", "SDSC-Par-1996-3.1-cln"];
    let Some(workload) = check("ctc-kth-par-1996", &files, [23_351, 6_787, 6_614]) else { return };
    // The first submission is CTC's, at 00:25:56 UTC of the first day.
    assert_eq!(workload.unix_start, Some(844_041_600 + 1_556));
    assert_eq!(workload.last_submit().0, 852_076_800 - 125 - 844_041_600 - 1_556);
    assert_eq!(workload.max_procs, Some(838));
    let ids: BTreeSet<u64> = workload.jobs.iter().map(|job| job.log_id).collect();
    assert_eq!(ids.len(), workload.jobs.len(), "numbers are unique");
    // No user, group or application number is shared by two clusters.
    let users = |cluster| -> BTreeSet<i32> {
        let jobs = workload.jobs.iter().filter(|job| job.origin == Some(ClusterId(cluster)));
        jobs.map(|job| job.user).filter(|user| *user >= 0).collect()
    };
    let (ctc, kth, paragon) = (users(0), users(1), users(2));
    assert!(ctc.is_disjoint(&kth) && ctc.is_disjoint(&paragon) && kth.is_disjoint(&paragon));
}

#[test]
fn six_months_of_two_machines_and_a_generated_one() {
    let files = ["CTC-SP2-1996-3.1-cln", "SDSC-SP2-1998-4.2-cln"];
    let Some(workload) = check("pwa-g5k", &files, [74_647, 42_872, 16_223]) else { return };
    assert_eq!(workload.unix_start, None, "logs of different years share no calendar");
    assert!(workload.last_submit().0 < 184 * 86_400);
}
