//! A server whose key is stolen decides about no job that another server hands over.

use pliant_control::handoff::Reply;
use pliant_control::job::{JobRecord, JobState};
use pliant_wire::proto::server_client::ServerClient;
use pliant_wire::{CommitOrder, Prepare, proto};
use tonic::transport::Channel;
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

/// Who asks all the time meets the moment in which a handoff arrives between the check of a decision and its effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_comes_before_its_handoff_has_no_effect() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let [source, thief] = [PARIS, NANCY].map(|name| Thief::of(&federation, name));
    let mut from_paris = source.at(&federation, "lyon");
    let [mut first, mut second, mut third] = [(); 3].map(|()| thief.at(&federation, "lyon"));
    let mut alice = federation.server_client(pliant_transport::Role::User, "alice", "lyon");
    for number in 7..37 {
        let handle = format!("paris.{number}");
        let job = work_of_alice(&federation, &handle, PARIS, rigid("true", 1, 60));
        let order = commit(&thief, &job, 1, false);
        // So that it has a connection.
        for from_nancy in [&mut first, &mut second, &mut third] {
            from_nancy.commit(order.clone()).await.unwrap();
        }
        let until_denied = async |from_nancy: &mut ServerClient<Channel>| {
            loop {
                if let Err(status) = from_nancy.commit(order.clone()).await {
                    return denied(status);
                }
            }
        };
        let (prepared, (), (), ()) = tokio::join!(
            prepare(&mut from_paris, &job),
            until_denied(&mut first),
            until_denied(&mut second),
            until_denied(&mut third)
        );
        assert!(matches!(prepared, Reply::Prepared(_)), "{handle}: {prepared:?}");
        let taken = alice.job(proto::JobRequest { handle: handle.clone() }).await;
        assert!(taken.is_err(), "{handle} was taken over: {taken:?}");
        let abort = proto::AbortRequest { id: Some(proto::HandoffId::from(&job.id)) };
        let aborted = from_paris.abort(abort).await.unwrap().into_inner();
        assert_eq!(Reply::try_from(aborted).unwrap(), Reply::Done, "{handle}");
    }
}
