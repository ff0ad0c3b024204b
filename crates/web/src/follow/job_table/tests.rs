//! Lists of jobs: their order, their pages, and what agents and servers say of the same job.

use std::cmp::Ordering;

use pliant_control::job::{Hop, JobState};
use pliant_model::{MoveReason, Span, Time};

use super::*;
use crate::follow::tests::{ended, record};

/// The order of two jobs, by the jobs themselves.
fn compare(order: JobOrder, one: &JobView, other: &JobView) -> Ordering {
    let ascending = match order.by {
        SortKey::Submitted => one.submitted_s.cmp(&other.submitted_s),
        SortKey::Id => id_parts(one).cmp(&id_parts(other)),
        SortKey::Name => one.name.cmp(&other.name),
        SortKey::Owner => one.owner.cmp(&other.owner),
        SortKey::Server => one.server.cmp(&other.server),
        SortKey::State => one.state.cmp(&other.state),
        SortKey::Start => one.start().cmp(&other.start()),
        SortKey::End => one.end().cmp(&other.end()),
        SortKey::Procs => one.procs.cmp(&other.procs),
        SortKey::Walltime => one.walltime_s.cmp(&other.walltime_s),
        SortKey::Moves => one.moves.cmp(&other.moves),
    };
    if order.ascending { ascending } else { ascending.reverse() }
}

/// A job ID so that `lyon.9` comes before `lyon.10`.
fn id_parts(job: &JobView) -> (&str, u32) {
    let (server, number) = job.job_id.rsplit_once('.').unwrap_or((&job.job_id, ""));
    (server, number.parse().unwrap_or_default())
}

fn ids(jobs: &[JobView]) -> Vec<&str> {
    jobs.iter().map(|job| job.job_id.as_str()).collect()
}

fn every(table: &JobTable, order: JobOrder) -> Vec<JobView> {
    table.select(&JobFilter::default(), order, 0, usize::MAX).jobs
}

#[test]
fn lists_are_filtered_sorted_and_paged() {
    let mut table = JobTable::default();
    for (number, procs) in [(1, 8), (2, 2), (9, 4), (10, 4)] {
        let mut job = record("lyon", number, i64::from(number) * 10);
        job.procs.0 = procs;
        table.list(&job);
    }
    table.list(&ended("nice", 3, 95));
    let newest = JobOrder::default();
    assert_eq!(ids(&every(&table, newest)), ["lyon.10", "nice.3", "lyon.9", "lyon.2", "lyon.1"]);
    let by = |by, ascending| JobOrder { by, ascending };
    assert_eq!(
        ids(&every(&table, by(SortKey::Id, true))),
        ["lyon.1", "lyon.2", "lyon.9", "lyon.10", "nice.3"]
    );
    assert_eq!(ids(&every(&table, by(SortKey::Procs, false)))[..1], ["lyon.1"]);
    assert_eq!(ids(&every(&table, by(SortKey::Submitted, true)))[..2], ["lyon.1", "lyon.2"]);
    assert_eq!(ids(&every(&table, by(SortKey::State, false)))[..1], ["nice.3"]);
    let waiting =
        JobFilter { states: vec![StateView::Queued], text: Some("LYON".to_owned()), ..JobFilter::default() };
    let page = table.select(&waiting, newest, 1, 2);
    assert_eq!((ids(&page.jobs), page.matching), (vec!["lyon.9", "lyon.2"], 4));
    let states: Vec<_> = table.select(&JobFilter::default(), newest, 0, 0).states;
    assert_eq!(
        states.iter().map(|group| (group.value.as_str(), group.jobs)).collect::<Vec<_>>(),
        [("QUEUED", 4), ("COMPLETED", 1)]
    );
    for filter in [
        JobFilter { server: Some("nice".to_owned()), ..JobFilter::default() },
        JobFilter { states: vec![StateView::Completed], ..JobFilter::default() },
    ] {
        assert_eq!(ids(&table.select(&filter, newest, 0, 9).jobs), ["nice.3"]);
    }
    let other_user = JobFilter { owner: Some("bob".to_owned()), ..JobFilter::default() };
    assert_eq!(table.select(&other_user, newest, 0, 9).matching, 0);
}

#[test]
fn a_page_is_a_part_of_the_whole_list() {
    let mut table = JobTable::default();
    for number in 0..60 {
        let mut job = record(if number % 3 == 0 { "lyon" } else { "nice" }, number, i64::from(number / 4));
        job.procs.0 = number * 7 % 5;
        job.hops = vec![hop(); number as usize * 5 % 3];
        table.list(&job);
    }
    use SortKey::{End, Id, Moves, Name, Owner, Procs, Server, Start, State, Submitted, Walltime};
    for by in [Submitted, Id, Name, Owner, Server, State, Start, End, Procs, Walltime, Moves] {
        for ascending in [false, true] {
            let order = JobOrder { by, ascending };
            let all = every(&table, order);
            // The reference: equal jobs stay in the order of submission.
            let mut expected: Vec<JobView> = table.all().cloned().collect();
            match by {
                Submitted if ascending => expected.reverse(),
                Submitted => {}
                _ => expected.sort_by(|one, other| compare(order, one, other)),
            }
            assert_eq!(ids(&all), ids(&expected), "{order:?}");
            for (skipped, most) in [(0, 0), (0, 7), (20, 10), (55, 10), (60, 5), (70, 5), (0, usize::MAX)] {
                let page = table.select(&JobFilter::default(), order, skipped, most);
                let part: Vec<JobView> = expected.iter().skip(skipped).take(most).cloned().collect();
                assert_eq!((ids(&page.jobs), page.matching), (ids(&part), 60), "{order:?} {skipped} {most}");
            }
        }
    }
}

/// A move from nice to lyon.
fn hop() -> Hop {
    let expected = record("lyon", 1, 0).expected;
    Hop {
        from: "nice".parse().unwrap(),
        to: "lyon".parse().unwrap(),
        attempt: 1,
        at: Time(0),
        before: Time(0),
        expected,
        reason: MoveReason::EarlierCompletion,
        signed: None,
    }
}

#[test]
fn groups_count_states() {
    let mut table = JobTable::default();
    table.list(&record("lyon", 1, 10));
    table.list(&ended("lyon", 2, 20));
    table.list(&ended("nice", 3, 30));
    let groups = table.groups(&JobFilter::default(), GroupKey::Server);
    let lyon = JobGroupView {
        value: "lyon".to_owned(),
        jobs: 2,
        waiting: 1,
        completed: 1,
        ..JobGroupView::default()
    };
    let nice = JobGroupView { value: "nice".to_owned(), jobs: 1, completed: 1, ..JobGroupView::default() };
    assert_eq!(groups, [lyon, nice]);
}

#[test]
fn an_older_record_does_not_replace_a_newer_one() {
    let mut table = JobTable::default();
    let waiting = record("lyon", 1, 10);
    assert!(table.list(&waiting).is_some());
    assert!(table.list(&waiting).is_none(), "nothing is new");
    let cancelled = JobRecord { state: JobState::Canceled, ..waiting.clone() };
    assert_eq!(table.learn(&cancelled).unwrap().state, StateView::Canceled);
    assert!(table.list(&waiting).is_none(), "the agent does not know yet");
    assert_eq!(every(&table, JobOrder::default())[0].state, StateView::Canceled);
    assert_eq!(table.open().count(), 0);
    let priority = JobRecord { walltime: Span(700), ..cancelled };
    assert!(table.list(&priority).is_some(), "another fact of the same state");
}

#[test]
fn a_new_job_is_not_missed_before_the_agent_lists_it() {
    let mut table = JobTable::default();
    let (old, new) = (record("lyon", 1, 10), record("lyon", 2, 20));
    table.list(&old);
    table.learn(&new);
    assert_eq!(table.lost_sight(&[], 9), std::slice::from_ref(&old.handle));
    table.list(&new);
    assert_eq!(table.lost_sight(std::slice::from_ref(&old), 9), std::slice::from_ref(&new.handle));
    assert!(table.remove(&new.handle) && !table.remove(&new.handle));
    assert_eq!(table.lost_sight(&[], 0), []);
}

#[test]
fn older_jobs_are_read_to_the_end() {
    let mut table = JobTable::default();
    assert_eq!(table.older(), Some(None));
    let cursor = JobCursor::of(&record("lyon", 5, 50));
    assert!(!table.read_until(Some(cursor.clone())));
    assert_eq!(table.older(), Some(Some(cursor)));
    assert!(table.read_until(None) && table.is_complete());
    assert_eq!(table.older(), None);
}

/// A hundred thousand jobs are paged, and of more the oldest ended ones are left out, never an open one.
#[test]
fn very_many_jobs_are_paged() {
    let mut table = JobTable::default();
    table.list(&record("lyon", 0, 0));
    (1..=KEPT_MAX as u32 + 10).for_each(|number| drop(table.list(&ended("lyon", number, number.into()))));
    assert!(table.is_cut() && table.is_complete());
    let order = JobOrder { by: SortKey::Procs, ascending: true };
    let page = table.select(&JobFilter::default(), order, KEPT_MAX - 100, 100);
    assert_eq!((page.jobs.len(), page.matching), (100, KEPT_MAX));
    assert_eq!(page.jobs.last().unwrap().job_id, "lyon.0", "it is the oldest, and waits");
    assert_eq!(table.open().count(), 1);
    assert_eq!(every(&table, JobOrder::default())[0].submitted_s, Time(KEPT_MAX as i64 + 10).0);
}

#[test]
fn a_sweep_is_the_jobs_of_its_batches() {
    use pliant_control::multi_job::batch_key;
    use pliant_control::names::Key;
    let mut table = JobTable::default();
    let (one, other) = (Key([1; 16]), Key([2; 16]));
    for (server, number, at, key) in
        [("lyon", 1, 10, batch_key(one, 0)), ("nice", 2, 20, batch_key(one, 1)), ("lyon", 3, 30, other)]
    {
        let mut job = record(server, number, at);
        job.key = key;
        table.list(&job);
    }
    let mut last = ended("lyon", 4, 40);
    last.key = batch_key(one, 70_000);
    table.list(&last);
    let (sweeps, left_out) = table.sweeps(10);
    assert_eq!((sweeps.len(), left_out), (1, 0), "a job alone is no sweep");
    let sweep = &sweeps[0];
    assert_eq!((sweep.group.jobs, sweep.group.waiting, sweep.group.completed), (3, 2, 1));
    let servers: Vec<_> = sweep.servers.iter().map(|server| (server.value.as_str(), server.jobs)).collect();
    assert_eq!((servers, sweep.submitted_s, sweep.ended_s), (vec![("lyon", 2), ("nice", 1)], 10, None));
    let filter = JobFilter { sweep: sweep.group.value.parse().ok(), ..JobFilter::default() };
    let jobs = table.select(&filter, JobOrder::default(), 0, 9).jobs;
    assert_eq!(ids(&jobs), ["lyon.4", "nice.2", "lyon.1"]);
    for (number, key) in [(5, other), (6, batch_key(other, 1))] {
        let mut job = ended("nice", number, 50);
        job.key = key;
        table.list(&job);
    }
    let (sweeps, left_out) = table.sweeps(1);
    assert_eq!((sweeps[0].group.jobs, left_out), (3, 1), "the newest first");
    assert_eq!(sweeps[0].ended_s, None, "one of it waits");
}

#[test]
fn texts_are_found_in_whatever_case() {
    for (text, wanted, expected) in [
        ("lyon.17", "LYON", true),
        ("lyon.17", "7", true),
        ("lyon.17", "lyon.171", false),
        ("", "a", false),
        ("Straße", "STRASSE", false),
        ("Élan", "élan", true),
        ("elan", "É", false),
    ] {
        assert_eq!(contains(text, wanted), expected, "{text} {wanted}");
        assert_eq!(expected, text.to_lowercase().contains(&wanted.to_lowercase()), "{text} {wanted}");
    }
}
