use pliant_model::Time;
use proptest::prelude::*;

use super::*;
use crate::test_job::waiting_job;

fn record(number: u32, submitted: i64) -> JobRecord {
    let handle = Handle { server: "lyon".parse().unwrap(), number };
    JobRecord { handle, submitted: Time(submitted), ..waiting_job() }
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
    #[test]
    fn pages_hold_each_job_once_and_say_whether_there_are_more(
        // When each was submitted, and whether it is in memory (1), in the archive (2) or in both (3).
        jobs in prop::collection::vec((0_i64..20, 1_u8..4), 0..60),
        limit in 1_u32..12,
    ) {
        let of = |place: u8| -> Vec<JobRecord> {
            let jobs = jobs.iter().enumerate().filter(|(_, (_, places))| places & place > 0);
            jobs.map(|(number, (at, _))| record(number as u32, *at)).collect()
        };
        let (mut memory, mut archive) = (of(1), of(2));
        let mut expected: Vec<JobRecord> =
            jobs.iter().enumerate().map(|(number, (at, _))| record(number as u32, *at)).collect();
        expected.sort_by(newer_first);
        let mut wanted = Wanted { owner: None, query: JobsQuery::of_caller(Vec::new(), limit) };
        let mut found = Vec::new();
        loop {
            let most = limit as usize + 1;
            let in_memory = newest(memory.iter().filter(|job| wanted.takes(job)), most);
            let ended = newest(archive.iter().filter(|job| wanted.takes(job)), most);
            let page = merged(in_memory, ended, limit as usize);
            found.extend(page.jobs);
            prop_assert_eq!(page.next.is_some(), found.len() < expected.len(), "more than {}", found.len());
            let Some(next) = page.next else { break };
            wanted.query.before = Some(next);
            // Meanwhile a job is submitted, one ends, and one leaves the memory.
            memory.insert(0, record(1000 + found.len() as u32, 20));
            let leaves = memory.pop();
            archive.extend(leaves.filter(|leaves| archive.iter().all(|job| job.handle != leaves.handle)));
        }
        prop_assert_eq!(found, expected);
    }
}
