//! Golden counts on ten real logs: what is read agrees with the archive, what is kept with other simulators.

mod support;

use pliant_testing::log;
use pliant_trace::{LoadOptions, Repair, RepairOptions, load};
use support::{CLEAN, KEEP_BAD};

/// A log with how many jobs are read and kept, the machine's size, and the span of submissions in whole days.
fn check(file: &str, repair: RepairOptions, read: u64, kept: u64, procs: i64, days: i64) {
    let Some(path) = log(&format!("{file}.swf.gz")) else { return };
    let workload = load(&path, &LoadOptions { repair, log_dirs: Vec::new() }).expect("a readable log");
    support::invariants::schedulable(&workload);
    let report = &workload.report;
    assert_eq!((report.read, report.kept, report.extra_columns), (read, kept, 0), "{file}: {report}");
    assert_eq!(workload.max_procs, Some(procs), "{file}");
    assert!((workload.last_submit().0 / 86_400).abs_diff(days) <= 1, "{file}: {} s", workload.last_submit());
    assert_eq!(report.count(Repair::DroppedNoSubmission), 0, "{file}");
    assert!(workload.unix_start.is_some(), "{file}");
}

#[test]
fn jobs_kept_are_those_that_other_simulators_keep() {
    check("KTH-SP2-1996-2.1-cln", CLEAN, 28_476, 28_467, 100, 333);
    check("NASA-iPSC-1993-3.1-cln", CLEAN, 18_239, 18_066, 128, 92);
    check("CTC-SP2-1996-3.1-cln", CLEAN, 77_222, 77_205, 338, 339);
}

#[test]
fn the_other_logs() {
    check("SDSC-Par-1996-3.1-cln", CLEAN, 32_135, 32_128, 400, 370);
    check("SDSC-SP2-1998-4.2-cln", CLEAN, 59_715, 54_034, 128, 729);
    check("SDSC-BLUE-2000-4.2-cln", CLEAN, 243_306, 232_536, 1_152, 974);
    check("LANL-CM5-1994-4.1-cln", CLEAN, 122_060, 122_055, 1_024, 721);
    check("HPC2N-2002-2.2-cln", CLEAN, 202_871, 202_871, 240, 1_264);
    check("CEA-Curie-2011-2.1-cln", CLEAN, 312_826, 295_540, 93_312, 254);
    check("LCG", CLEAN, 188_041, 187_520, 24_515, 11);
    check("KTH-SP2-1996-2.1-cln", KEEP_BAD, 28_476, 28_475, 100, 333);
}

#[test]
fn repairs_are_counted_by_reason() {
    let check = |file: &str, expected: &[(Repair, u64)]| {
        let Some(path) = log(&format!("{file}.swf.gz")) else { return };
        let report = load(&path, &LoadOptions::default()).unwrap().report;
        let found: Vec<(Repair, u64)> = report.counts.into_iter().collect();
        assert_eq!(found, expected, "{file}");
    };
    check(
        "CEA-Curie-2011-2.1-cln",
        &[
            (Repair::DroppedNoRuntime, 17_267),
            (Repair::DroppedNoProcessors, 19),
            (Repair::ProcsFromRequest, 10_893),
            (Repair::RuntimeCut, 5_416),
        ],
    );
    check(
        "SDSC-SP2-1998-4.2-cln",
        &[
            (Repair::DroppedNoRuntime, 5_681),
            (Repair::ProcsFromRequest, 5_669),
            (Repair::WalltimeFromRuntime, 35),
            (Repair::RuntimeCut, 4_134),
        ],
    );
    check("LCG", &[(Repair::DroppedNoRuntime, 521)]);
    check("HPC2N-2002-2.2-cln", &[(Repair::RuntimeCut, 14_817)]);
}

#[test]
fn sites_of_the_grid_have_their_names() {
    let Some(path) = log("LCG.swf.gz") else { return };
    let workload = load(&path, &LoadOptions::default()).unwrap();
    assert_eq!((workload.partition_names.len(), workload.partition_names[&1].as_str()), (170, "grid.ici.ro"));
    assert!(workload.jobs.iter().all(|job| job.procs.0 == 1), "all jobs are serial");
}
