//! A server whose key is stolen decides about no job that another server hands over.

use pliant_control::handoff::Reply;
use pliant_control::job::{JobRecord, JobState};
use pliant_wire::{CommitOrder, Prepare, proto};
use tonic::{Code, Status};

use super::{PARIS, Thief, prepare, work_of_alice};
use crate::harness::*;

/// Another server whose key is stolen.
const NANCY: &str = "nancy";

fn commit(thief: &Thief, job: &Prepare, attempt: u32, cancelled: bool) -> proto::CommitRequest {
    let mut id = job.id.clone();
    id.attempt = attempt;
    let signed = thief.handoff(job, thief.own.as_str(), "lyon", attempt);
    proto::CommitRequest::from(&CommitOrder { id, cancelled, attempts: attempt, signed })
}

fn denied(status: Status) {
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    assert!(status.message().contains("another server hands this job over"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handoff_of_another_server_is_neither_aborted_nor_its_job_cancelled() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let [source, thief] = [PARIS, NANCY].map(|name| Thief::of(&federation, name));
    let [mut from_paris, mut from_nancy] = [&source, &thief].map(|of| of.at(&federation, "lyon"));
    let gate = federation.path().join("gate");
    let job = work_of_alice(&federation, "paris.7", PARIS, rigid(&waiting_for(&gate), 1, 600));
    assert!(matches!(prepare(&mut from_paris, &job).await, Reply::Prepared(_)));

    // Prepared: whatever attempt the thief names.
    for attempt in [0, 1, 2, 99, u32::MAX] {
        let mut id = job.id.clone();
        id.attempt = attempt;
        let abort = proto::AbortRequest { id: Some(proto::HandoffId::from(&id)) };
        denied(from_nancy.abort(abort).await.unwrap_err());
        denied(from_nancy.commit(commit(&thief, &job, attempt, true)).await.unwrap_err());
    }
    federation.logged("lyon", &["request refused", "another server hands this job over", NANCY]).await;
    let done = from_paris.commit(commit(&source, &job, 1, false)).await.unwrap().into_inner();
    assert_eq!(Reply::try_from(done).unwrap(), Reply::Done);

    // Taken over: it runs on.
    let mut alice = federation.server_client(pliant_transport::Role::User, "alice", "lyon");
    let mut state = async || {
        let found = alice.job(proto::JobRequest { handle: "paris.7".to_owned() }).await.unwrap().into_inner();
        JobRecord::try_from(found).unwrap().state
    };
    until("the job to run", async || (state().await == JobState::Active).then_some(())).await;
    denied(from_nancy.commit(commit(&thief, &job, 1, true)).await.unwrap_err());
    for attempt in [0, 2, u32::MAX] {
        // There was no such attempt: nothing comes of it.
        from_nancy.commit(commit(&thief, &job, attempt, true)).await.unwrap();
        assert_eq!(state().await, JobState::Active, "attempt {attempt}");
    }
    std::fs::write(gate, "").unwrap();
    until("the job to end", async || (state().await == JobState::Completed).then_some(())).await;
}
