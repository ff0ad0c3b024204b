//! A stolen key signs no handoff of another time: its certificate would count as it was then.

use pliant_control::handoff::Reply;
use pliant_control::signed::CLOCK_TOLERANCE;
use pliant_model::Span;
use pliant_wire::{CommitOrder, proto};
use tonic::Code;

use super::{PARIS, Thief, handoff_refused, hop, job_of_alice, prepare};
use crate::harness::*;

/// Another server whose key is stolen.
const NANCY: &str = "nancy";
const REFUSAL: &str = "not dated between the submission of its job and now";

#[tokio::test(flavor = "multi_thread")]
async fn a_handoff_is_dated_between_the_submission_and_the_present() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let [paris, nancy] = [PARIS, NANCY].map(|name| Thief::of(&federation, name));
    let mut lyon = paris.at(&federation, "lyon");
    // Far enough for a test that takes its time.
    let beyond = CLOCK_TOLERANCE + Span(600);

    // On the way to the server that hands it over.
    let mut job = job_of_alice(&federation, "nancy.1", NANCY);
    for at in [now() + beyond, job.submitted - beyond] {
        let signed = nancy.handoff_at(&job, (NANCY, PARIS), 1, at);
        job.hops = vec![hop(NANCY, PARIS, Some(signed))];
        handoff_refused(&federation, &mut lyon, job.clone(), REFUSAL).await;
    }
    let signed = nancy.handoff_at(&job, (NANCY, PARIS), 1, now());
    job.hops = vec![hop(NANCY, PARIS, Some(signed))];
    job.id.attempt = 2;
    let reply = prepare(&mut lyon, &job).await;
    assert!(matches!(reply, Reply::Prepared(_)), "{reply:?}");

    // From there to the server that takes it over.
    let commit = |at| {
        let signed = paris.handoff_at(&job, (PARIS, "lyon"), 2, at);
        let order = CommitOrder { id: job.id.clone(), cancelled: false, attempts: 2, signed };
        proto::CommitRequest::from(&order)
    };
    for at in [now() + beyond, job.submitted - beyond] {
        let status = lyon.commit(commit(at)).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
        assert!(status.message().contains(REFUSAL), "{status:?}");
    }
    federation.logged("lyon", &["commit refused", "nancy.1", REFUSAL]).await;
    let done = lyon.commit(commit(now())).await.unwrap().into_inner();
    assert_eq!(Reply::try_from(done).unwrap(), Reply::Done);
}
