//! A server that has a user's signature sends other files under the same key: neither the user's upload nor that of another server is
//! spoilt.

use std::fs;

use pliant_control::handoff::Reply;
use pliant_control::job::JobState;
use pliant_control::names::Key;
use pliant_control::reason::DiscoverySummary;
use pliant_control::signed::SignedClaim;
use pliant_staging::{Checksum, FileSpec};
use pliant_transport::Role;
use pliant_wire::proto::server_client::ServerClient;
use pliant_wire::{CommitOrder, Submission, SubmitAnswer, Upload, UploadAnswer, proto};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{PARIS, Thief, prepare, work_of_alice};
use crate::harness::*;

const NANCY: &str = "nancy";
const RIGHT: &[u8] = b"right";
const WRONG: &[u8] = b"wrong";

fn file() -> FileSpec {
    FileSpec { name: "data".parse().unwrap(), size: RIGHT.len() as u64, sha256: Checksum::of(RIGHT) }
}

/// Sends a file, or as much of it as that is, and says where it had to begin.
async fn send(
    server: &mut ServerClient<Channel>,
    key: Key,
    claim: Option<SignedClaim>,
    content: &[u8],
) -> Result<u64, Status> {
    let begin = Upload::Begin { key, file: file(), claim: claim.map(Box::new) };
    let messages = [begin, Upload::Data(content.to_vec())];
    let requests: Vec<_> = messages.iter().map(proto::UploadRequest::from).collect();
    let mut answers = server.upload(tokio_stream::iter(requests)).await?.into_inner();
    let mut begun_at = None;
    while let Some(answer) = answers.message().await? {
        if let UploadAnswer::Offset(offset) = UploadAnswer::try_from(answer).unwrap() {
            begun_at = Some(offset);
        }
    }
    Ok(begun_at.expect("the server says where an upload begins"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_server_spoils_no_upload_of_others() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let [thief, nancy] = [PARIS, NANCY].map(|name| Thief::of(&federation, name));
    let alice = federation.client("alice");
    let mut hers = federation.server_client(Role::User, "alice", "lyon");
    let [mut stolen, mut from_nancy] = [&thief, &nancy].map(|of| of.at(&federation, "lyon"));
    let lines = federation.path().join("lines");
    let what = rigid(&format!("cat data >> '{}'", lines.display()), 1, 60);
    let sign = |key, server: &str| {
        alice.sign_submission(key, (&what, &[file()], false), &server.parse().unwrap()).unwrap()
    };

    // Paris has refused her submission, which she sends to lyon next. The wrong bytes come first.
    let key = fresh_key();
    let claim = sign(key, PARIS);
    let status = send(&mut stolen, key, Some(claim.clone()), WRONG).await.unwrap_err();
    assert!(status.message().contains("checksum"), "{status:?}");
    let status = send(&mut stolen, key, Some(claim), &WRONG[..3]).await.unwrap_err();
    assert!(status.code() != Code::PermissionDenied, "{status:?}");
    assert_eq!(send(&mut hers, key, None, RIGHT).await.unwrap(), 0, "nothing of hers has come");
    let submission = Submission {
        key,
        what: what.clone(),
        inputs: vec![file()],
        latest: None,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        claim: sign(key, "lyon"),
    };
    let answer = hers.submit(proto::SubmitRequest::from(&submission)).await.unwrap().into_inner();
    let SubmitAnswer::Accepted(job) = SubmitAnswer::try_from(answer).unwrap() else { panic!("it is signed") };
    assert_eq!(alice.wait(&job.handle, |_| {}).await.unwrap().state, JobState::Completed);
    assert_eq!(fs::read(&lines).unwrap(), RIGHT);

    // Nancy hands a job over whose submission paris had refused before.
    let mut moved = work_of_alice(&federation, "nancy.1", NANCY, what.clone());
    moved.inputs = vec![file()];
    moved.claim = sign(moved.key, NANCY);
    let status = send(&mut stolen, moved.key, Some(sign(moved.key, PARIS)), &WRONG[..3]).await.unwrap_err();
    assert!(status.code() != Code::PermissionDenied, "{status:?}");
    // What others have sent under the key is not there for this handoff.
    send(&mut hers, moved.key, None, RIGHT).await.unwrap();
    let reply = prepare(&mut from_nancy, &moved).await;
    assert!(matches!(&reply, Reply::Refused(why) if why.contains("data")), "{reply:?}");
    assert_eq!(send(&mut from_nancy, moved.key, Some(moved.claim.clone()), RIGHT).await.unwrap(), 0);
    let reply = prepare(&mut from_nancy, &moved).await;
    assert!(matches!(reply, Reply::Prepared(_)), "{reply:?}");
    let signed = nancy.handoff(&moved, NANCY, "lyon", 1);
    let order = CommitOrder { id: moved.id.clone(), cancelled: false, attempts: 1, signed };
    from_nancy.commit(proto::CommitRequest::from(&order)).await.unwrap();
    until("the job to end", async || fs::read(&lines).is_ok_and(|all| all == b"rightright").then_some(()))
        .await;
    // Nothing of it stays behind.
    let uploads = federation.folder("lyon").join("state/staging/incoming/alice");
    assert_eq!(fs::read_dir(uploads).unwrap().count(), 0);
}
