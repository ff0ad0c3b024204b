use pliant_control::job::Work;
use pliant_control::names::Key;
use pliant_control::reason::DiscoverySummary;
use pliant_model::{Estimate, Procs, Speedup, Time};
use proptest::prelude::*;

use super::*;

fn record(number: u32, submitted: i64) -> JobRecord {
    let (procs, walltime) = (Procs(1), Span(10));
    JobRecord {
        handle: Handle { server: "lyon".parse().unwrap(), number },
        key: Key([0; 16]),
        owner: "alice".parse().unwrap(),
        name: "pi".to_owned(),
        work: Work { procs, walltime, speedup: Speedup::Rigid },
        state: JobState::Queued,
        submitted: Time(submitted),
        expected: Estimate { procs, walltime, start: Time(submitted) },
        procs,
        walltime,
        started: None,
        ended: None,
        exit: None,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        claim: None,
    }
}

proptest! {
    #[test]
    fn the_newest_are_the_first_of_all_when_sorted(
        submitted in prop::collection::vec(0_i64..20, 0..100),
        count in 1_usize..12,
    ) {
        let records: Vec<JobRecord> =
            submitted.iter().enumerate().map(|(number, at)| record(number as u32, *at)).collect();
        let mut expected = records.clone();
        expected.sort_by(newer_first);
        expected.truncate(count);
        prop_assert_eq!(newest(records.iter(), count), expected);
    }
}
