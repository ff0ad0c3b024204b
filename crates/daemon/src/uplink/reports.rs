//! What is reported of jobs, as it is read from the journal.

use std::collections::BTreeSet;

use pliant_control::job::JobRecord;
use pliant_control::masters::MasterShare;
use pliant_journal::StatusUpdate;
use pliant_wire::FromChild;
use tonic::Status;

/// A report about a job.
#[cfg_attr(test, derive(Debug))]
pub(super) enum Report {
    /// For the first time, under that number.
    Update(u64, Box<JobRecord>),
    /// Again, or that all were.
    Again(FromChild),
    /// The status updates up to this number that were not reported are for other parents.
    PassedOver(u64),
}

/// The status updates of a page that are for a parent, without those of jobs that have ended within the page before their ends: short calls
/// take up one each.
pub(super) fn last_reports(page: &[StatusUpdate], share: &MasterShare) -> Result<Vec<Report>, Status> {
    let (mut reports, mut ended) = (Vec::with_capacity(page.len()), BTreeSet::new());
    for update in page.iter().rev() {
        let record: Result<Box<JobRecord>, _> = serde_json::from_str(&update.body);
        let record = record.map_err(|error| {
            Status::data_loss(format!("status update {} in the journal: {error}", update.seq))
        })?;
        if !share.has(record.owner.owner()) || !record.state.is_final() && ended.contains(&record.handle) {
            continue;
        }
        if record.state.is_final() {
            ended.insert(record.handle.clone());
        }
        reports.push(Report::Update(update.seq, record));
    }
    reports.reverse();
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use pliant_control::job::JobState;
    use pliant_control::names::Handle;

    use super::*;
    use crate::test_job::waiting_job;

    #[test]
    fn jobs_that_end_within_a_page_are_reported_once() {
        use JobState::{Active, Canceled, Completed, Queued};
        let check = |updates: &[(u32, JobState)], expected: &[u64]| {
            let update = |(seq, (number, state)): (u64, &(u32, JobState))| {
                let job = waiting_job();
                let record = JobRecord {
                    handle: Handle { number: *number, ..job.handle.clone() },
                    state: *state,
                    ..job
                };
                StatusUpdate { seq, body: serde_json::to_string(&record).unwrap() }
            };
            let page: Vec<StatusUpdate> = (1..).zip(updates).map(update).collect();
            let reports = last_reports(&page, &MasterShare::default()).unwrap();
            let number = |report: &Report| match report {
                Report::Update(number, record) => {
                    assert_eq!(record.state, updates[*number as usize - 1].1);
                    *number
                }
                other => panic!("expected an update, found {other:?}"),
            };
            assert_eq!(reports.iter().map(number).collect::<Vec<_>>(), expected);
        };
        check(&[], &[]);
        check(&[(1, Queued), (1, Active)], &[1, 2]);
        check(&[(1, Queued), (2, Queued), (1, Active), (1, Completed), (2, Active)], &[2, 4, 5]);
        check(&[(1, Queued), (1, Canceled), (2, Completed), (1, Canceled)], &[2, 3, 4]);
        let damaged = [StatusUpdate { seq: 7, body: "{".to_owned() }];
        let error = last_reports(&damaged, &MasterShare::default()).unwrap_err();
        assert!(error.message().contains("status update 7"), "{error}");
    }
}
