//! Who may say what about a job that one server hands over to another.

use pliant_control::handoff::{HandoffId, Reply};
use pliant_control::signed::{Digest, HandoffSignature, Signature};
use pliant_transport::Role;
use pliant_wire::proto::server_client::ServerClient;
use pliant_wire::{CommitOrder, Prepare, proto};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::harness::*;
use crate::stolen_key::work_of_alice;

/// The job that a server of that name hands over.
fn id() -> HandoffId {
    HandoffId { job: "paris.7".parse().unwrap(), attempt: 1 }
}

/// A job of alice, who submitted it to paris.
fn prepare(federation: &Federation) -> Prepare {
    work_of_alice(federation, "paris.7", "paris", rigid("true", 1, 60))
}

type ReplyResult = Result<Reply, Status>;

fn reply(answer: Result<tonic::Response<proto::HandoffReply>, Status>) -> ReplyResult {
    answer.map(|reply| Reply::try_from(reply.into_inner()).unwrap())
}

async fn prepared(server: &mut ServerClient<Channel>, job: &Prepare) -> ReplyResult {
    reply(server.prepare(proto::PrepareRequest::from(job)).await)
}

/// Commits with a signature that is none.
async fn commit(server: &mut ServerClient<Channel>) -> ReplyResult {
    let signature = Signature { bytes: vec![1; 70], certificate: vec![2; 500] };
    let signed = HandoffSignature { claim: Digest([3; 32]), at: now(), signature };
    let order = CommitOrder { id: id(), cancelled: false, attempts: 1, signed };
    reply(server.commit(proto::CommitRequest::from(&order)).await)
}

async fn abort(server: &mut ServerClient<Channel>) -> ReplyResult {
    reply(server.abort(proto::AbortRequest { id: Some((&id()).into()) }).await)
}

fn denied(answer: ReplyResult, who: &str, why: &str) {
    let status = answer.expect_err("this must be refused");
    assert_eq!(status.code(), Code::PermissionDenied, "{who}: {status:?}");
    assert!(status.message().contains(why), "{who}: {status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_server_that_hands_a_job_over_has_a_say_in_that() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let job = prepare(&federation);
    for (role, name) in [(Role::User, "alice"), (Role::Operator, "root"), (Role::Agent, "other")] {
        let mut lyon = federation.server_client(role, name, "lyon");
        let why = "expected a daemon's certificate";
        denied(prepared(&mut lyon, &job).await, name, why);
        denied(commit(&mut lyon).await, name, why);
        denied(abort(&mut lyon).await, name, why);
        let decision = lyon.inquire(proto::InquireRequest { id: Some((&id()).into()), ready: false }).await;
        denied(decision.map(|_| Reply::Done), name, why);
    }
    let mut paris = federation.server_client(Role::Server, "paris", "lyon");
    let mut rennes = federation.server_client(Role::Server, "rennes", "lyon");
    let held = prepared(&mut rennes, &job).await.unwrap();
    assert!(
        matches!(&held, Reply::Refused(why) if why.contains("paris")),
        "rennes does not have it: {held:?}"
    );
    assert!(matches!(prepared(&mut paris, &job).await.unwrap(), Reply::Prepared(_)));
    denied(commit(&mut rennes).await, "rennes", "another server hands this job over");
    denied(commit(&mut paris).await, "paris", "signed for another submission");
    denied(abort(&mut rennes).await, "rennes", "another server hands this job over");
    assert_eq!(abort(&mut paris).await.unwrap(), Reply::Done);
    assert_eq!(commit(&mut paris).await.unwrap(), Reply::Unknown, "it was dropped");
}
