use pliant_control::agent::{AgentConfig, ChildKind, Event};
use pliant_control::job::JobState;
use pliant_model::{Span, Time};
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

#[test]
fn a_client_that_knows_a_position_gets_what_has_changed_since() {
    let name = |name: &str| name.parse::<Name>().unwrap();
    let config = AgentConfig { name: name("master"), root: true, timeout: Span(3), reallocation: None };
    let mut agent = Agent::new(config);
    let (child, kind) = (name("lyon"), ChildKind::Server);
    agent.on(Time(0), Event::Attached { child, kind, journal: 1, servers: Vec::new() }, &mut Vec::new());
    let mut sequence = 0;
    let mut report = |agent: &mut Agent, number: u32, owner: &str, state: JobState| {
        sequence += 1;
        let record = Box::new(JobRecord { owner: owner.parse().unwrap(), state, ..record(number, 0) });
        agent.on(Time(1), Event::StatusUpdate { child: name("lyon"), sequence, record }, &mut Vec::new());
    };
    let alice: User = "alice".parse().unwrap();
    let ask = |agent: &Agent, run: u64, owner: Option<&User>, after: Option<(u64, u64)>| {
        let after = after.map(|(run, number)| ChangePosition { run, number });
        let (page, gone) = changed(agent, run, owner, after);
        let mut found: Vec<u32> = page.jobs.iter().map(|job| job.handle.number).collect();
        found.extend(gone.iter().map(|handle| handle.number));
        (found, page.position.number, page.more, page.forgotten)
    };
    assert_eq!(ask(&agent, 5, None, None), (vec![], 0, false, false));
    for number in 1..=3 {
        report(&mut agent, number, if number == 2 { "bob" } else { "alice" }, JobState::Queued);
    }
    report(&mut agent, 1, "alice", JobState::Active);
    assert_eq!(
        ask(&agent, 5, None, Some((5, 0))),
        (vec![1, 2, 3], 4, false, false),
        "each once, as it is now"
    );
    assert_eq!(
        changed(&agent, 5, None, Some(ChangePosition { run: 5, number: 0 })).0.jobs[0].state,
        JobState::Active
    );
    assert_eq!(ask(&agent, 5, Some(&alice), Some((5, 1))), (vec![3, 1], 4, false, false));
    assert_eq!(ask(&agent, 5, None, Some((5, 4))), (vec![], 4, false, false));
    for (run, number) in [(4, 4), (5, 5), (6, 0)] {
        assert_eq!(
            ask(&agent, 5, None, Some((run, number))),
            (vec![], 4, false, true),
            "another run, or a later change"
        );
    }
    for number in 0..1_500 {
        report(&mut agent, 100 + number, "alice", JobState::Queued);
    }
    let (found, position, more, _) = ask(&agent, 5, None, Some((5, 4)));
    assert_eq!((found.len(), position, more), (bounds::JOBS_MAX, 1_004, true));
    assert_eq!(ask(&agent, 5, None, Some((5, position))).0.len(), 500);
}
