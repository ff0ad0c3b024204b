//! Launches that are over, as the coordinator's journal keeps them.
//!
//! They are rows of the table in which other journals keep ended jobs: a launch has no number, and its id stands where a job
//! has its server. Its key finds it, and listings by owner and end are those of jobs.

use pliant_control::coallocation::LaunchRecord;
use pliant_control::names::{Key, User};
use pliant_journal::{Archive, Filter, JobRow};
use pliant_model::Time;
use tonic::Status;

use crate::host::{SharedArchive, archived, listed};

/// The row of a launch that is over since then.
pub(super) fn row(record: &LaunchRecord, ended: Time) -> JobRow {
    let LaunchRecord { id, owner, name, submitted, state, end, .. } = record;
    JobRow {
        server: id.to_string(),
        number: 0,
        key: Some(id.key.0),
        owner: owner.to_string(),
        name: name.clone(),
        state: end.as_ref().map_or(state.word(), |end| end.word()).to_owned(),
        submitted: submitted.0,
        started: None,
        ended: ended.0,
        expected_start: None,
        expected_completion: None,
        record: serde_json::to_string(record).expect("records are plain data with text keys"),
        last_server: id.agent.to_string(),
    }
}

/// The launch of that key, if it is over.
pub(super) async fn find(archive: &SharedArchive, key: Key) -> Result<Option<LaunchRecord>, Status> {
    let row = archived(archive, move |archive: &mut dyn Archive| archive.job_by_key(&key.0)).await?;
    row.as_ref().map(record).transpose()
}

/// The last launches to be over, of one user or of all, for a user: at most so many.
pub(super) async fn last(
    archive: &SharedArchive,
    user: &User,
    owner: Option<&User>,
    limit: u32,
) -> Result<Vec<LaunchRecord>, Status> {
    let filter = Filter { owner: owner.map(User::to_string), limit, ..Filter::default() };
    let rows = listed(archive, user, move |archive| archive.jobs(&filter)).await?;
    rows.iter().map(record).collect()
}

fn record(row: &JobRow) -> Result<LaunchRecord, Status> {
    serde_json::from_str(&row.record).map_err(|error| {
        tracing::error!(%error, launch = %row.server, "unreadable record in the archive of launches");
        Status::data_loss(format!("the record of {} cannot be read", row.server))
    })
}

#[cfg(test)]
mod tests {
    use pliant_control::coallocation::{LaunchEnd, LaunchId, LaunchState};

    use super::*;
    use pliant_journal::{Batch, Entry, open_sqlite};

    fn over(key: u8, owner: &str, submitted: i64) -> LaunchRecord {
        LaunchRecord {
            id: LaunchId { agent: "master".parse().unwrap(), key: Key([key; 16]) },
            owner: owner.parse().unwrap(),
            name: "row".to_owned(),
            submitted: Time(submitted),
            state: LaunchState::Over,
            end: Some(LaunchEnd::Failed("task `a` at lyon: exit code 3".to_owned())),
            tasks: Vec::new(),
            unacknowledged: Vec::new(),
            open_subjobs: Vec::new(),
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_found_by_its_key_and_listed_by_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = open_sqlite(dir.path()).unwrap();
        let launches = [over(1, "alice", 10), over(2, "bob", 20), over(3, "alice", 30)];
        let ended = launches.iter().map(|record| row(record, record.submitted)).collect();
        let entry = Entry { seq: 1, at: 30, event: "\"due\"".to_owned(), commands: 0 };
        journal.commit(&Batch { entries: vec![entry], ended, ..Batch::default() }).unwrap();
        let archive = SharedArchive::open(|| journal.archive()).unwrap();
        let [first, second, third] = launches;
        assert_eq!(find(&archive, Key([2; 16])).await.unwrap(), Some(second.clone()));
        assert_eq!(find(&archive, Key([9; 16])).await.unwrap(), None);
        let alice = "alice".parse().unwrap();
        assert_eq!(last(&archive, &alice, Some(&alice), 10).await.unwrap(), [third.clone(), first]);
        assert_eq!(last(&archive, &alice, None, 2).await.unwrap(), [third, second]);
    }
}
