//! The key and certificate of a server are stolen. Who has them can say nothing in a user's name that the user has not signed,
//! and nothing about jobs that the server does not have.

use std::fs;

use pliant_control::handoff::{HandoffId, Reply};
use pliant_control::job::{Hop, JobRecord, JobState};
use pliant_control::names::{Key, Name};
use pliant_control::reason::DiscoverySummary;
use pliant_control::signed::{
    CLAIM_LIFETIME, Claim, ClaimSubject, HandoffSignature, HandoffStatement, SignedClaim,
};
use pliant_model::{Estimate, MoveReason, Procs, Span, Time};
use pliant_transport::{ClientTls, Credentials, Role};
use pliant_wire::proto::server_client::ServerClient;
use pliant_wire::{
    CommitOrder, Prepare, Script, Submission, SubmittedWork, Upload, claim_digest, proto, submission_digest,
};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::harness::*;

mod calls;
mod dates;
mod decisions;
mod fields;
mod records;
mod uploads;

/// The server whose key is stolen. It runs nothing: the test is the thief.
const PARIS: &str = "paris";

/// A thief with the stolen files of a server.
struct Thief {
    credentials: Credentials,
    tls: ClientTls,
    own: Name,
}

impl Thief {
    fn of(federation: &Federation, server: &str) -> Thief {
        let credentials = federation.credentials(Role::Server, server);
        let tls = ClientTls::load(&credentials).unwrap();
        Thief { credentials, tls, own: server.parse().unwrap() }
    }

    fn at(&self, federation: &Federation, server: &str) -> ServerClient<Channel> {
        ServerClient::new(federation.channel(&self.credentials, Role::Server, server))
    }

    /// A claim of alice that the thief has signed.
    fn forged(&self, key: Key, what: &SubmittedWork) -> SignedClaim {
        let claim = Claim {
            owner: "alice".parse().unwrap(),
            key,
            digest: submission_digest(what, &[], false),
            audience: self.own.clone(),
            made: now(),
            lifetime: CLAIM_LIFETIME,
        };
        let signature = self.tls.sign(&claim.signed_bytes(ClaimSubject::Submission)).unwrap();
        SignedClaim { claim, signature }
    }

    /// A signed handoff of a job, said to be by a server.
    fn handoff(&self, prepare: &Prepare, from: &str, to: &str, attempt: u32) -> HandoffSignature {
        self.handoff_at(prepare, (from, to), attempt, now())
    }

    /// The same with that date.
    fn handoff_at(
        &self,
        prepare: &Prepare,
        (from, to): (&str, &str),
        attempt: u32,
        at: Time,
    ) -> HandoffSignature {
        let claim = claim_digest(&prepare.claim.claim.signed_bytes(ClaimSubject::Submission));
        let (from, to): (Name, Name) = (from.parse().unwrap(), to.parse().unwrap());
        let Prepare { id, owner, key, .. } = prepare;
        let (job, key) = (&id.job, *key);
        let statement = HandoffStatement { job, owner, key, claim, from: &from, to: &to, attempt, at };
        let signature = self.tls.sign(&statement.signed_bytes()).unwrap();
        HandoffSignature { claim, at, signature }
    }
}

fn script() -> SubmittedWork {
    rigid("echo what alice signed", 1, 60)
}

/// The same in another folder.
fn script_elsewhere() -> SubmittedWork {
    let SubmittedWork::Script(script) = script() else { panic!("it is one") };
    SubmittedWork::Script(Script { folder: Some("home:bob".parse().unwrap()), ..script })
}

/// A job of alice, who has signed it for a server.
fn job_of_alice(federation: &Federation, job: &str, audience: &str) -> Prepare {
    work_of_alice(federation, job, audience, script())
}

/// The same for other work.
pub(crate) fn work_of_alice(
    federation: &Federation,
    job: &str,
    audience: &str,
    what: SubmittedWork,
) -> Prepare {
    let key = fresh_key();
    let claim =
        federation.client("alice").sign_submission(key, (&what, &[], false), &audience.parse().unwrap());
    Prepare {
        id: HandoffId { job: job.parse().unwrap(), attempt: 1 },
        address: "127.0.0.1:1".to_owned(),
        key,
        owner: "alice".parse().unwrap(),
        what,
        inputs: Vec::new(),
        submitted: now(),
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        hops: Vec::new(),
        before: now() + Span(36_000),
        latest: now() + Span(3_600),
        sibling: false,
        reason: MoveReason::EarlierCompletion,
        request: "test".to_owned(),
        claim: claim.unwrap(),
        requeues: 0,
        estimates: Vec::new(),
    }
}

async fn prepare(server: &mut ServerClient<Channel>, job: &Prepare) -> Reply {
    server.prepare(proto::PrepareRequest::from(job)).await.unwrap().into_inner().try_into().unwrap()
}

/// A server refuses to take a job over, and logs why.
async fn handoff_refused(
    federation: &Federation,
    server: &mut ServerClient<Channel>,
    job: Prepare,
    why: &str,
) {
    let reply = prepare(server, &job).await;
    assert!(matches!(&reply, Reply::Refused(found) if found.contains(why)), "expected {why} in {reply:?}");
    federation.logged("lyon", &["handoff refused", "alice", why]).await;
}

fn hop(from: &str, to: &str, signed: Option<HandoffSignature>) -> Hop {
    let expected = Estimate { procs: Procs(1), walltime: Span(60), start: now() };
    Hop {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        attempt: 1,
        at: now(),
        before: now(),
        expected,
        reason: MoveReason::EarlierCompletion,
        signed: signed.map(Box::new),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_submitted_in_a_users_name() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let thief = Thief::of(&federation, PARIS);
    let alice = federation.client("alice");
    let (key, what, lyon) = (fresh_key(), script(), "lyon".parse().unwrap());
    let claim = alice.sign_submission(key, (&what, &[], false), &lyon).unwrap();
    let submission = Submission {
        key,
        what,
        inputs: Vec::new(),
        latest: None,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        claim,
    };
    let request = |submission: &Submission| proto::SubmitRequest::from(submission);
    let denied = |status: Status, why: &str| {
        assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
        assert!(status.message().contains(why), "expected {why} in {status:?}");
    };
    // The stolen key, even with what alice has signed.
    let stolen = thief.at(&federation, "lyon").submit(request(&submission)).await.unwrap_err();
    denied(stolen, "expected a user's certificate");
    // Another user with it; alice with something that she has not signed.
    let mut mallory = federation.server_client(Role::User, "mallory", "lyon");
    denied(mallory.submit(request(&submission)).await.unwrap_err(), "found that of alice");
    let mut hers = federation.server_client(Role::User, "alice", "lyon");
    let check = async |hers: &mut ServerClient<Channel>, change: &dyn Fn(&mut Submission), why: &str| {
        let mut changed = submission.clone();
        change(&mut changed);
        denied(hers.submit(request(&changed)).await.unwrap_err(), why);
    };
    check(&mut hers, &|one| one.what = rigid("rm -r .", 1, 60), "something else to run").await;
    check(&mut hers, &|one| one.what = script_elsewhere(), "something else to run").await;
    check(&mut hers, &|one| one.pinned = true, "something else to run").await;
    check(&mut hers, &|one| one.key = fresh_key(), "another submission").await;
    check(&mut hers, &|one| one.claim = thief.forged(one.key, &one.what), "for paris").await;
    let other = |one: &mut Submission| one.claim.claim.audience = PARIS.parse().unwrap();
    check(&mut hers, &other, "for paris").await;
    check(&mut hers, &|one| one.claim.claim.made = now() - Span(10_000), "had expired").await;
    check(&mut hers, &|one| one.claim.claim.lifetime = Span(1 << 30), "lasts 1 to").await;
    check(&mut hers, &|one| one.claim.claim.lifetime = Span(4_000), "did not sign this").await;
    let thieves = |one: &mut Submission| {
        let mut forged = thief.forged(one.key, &one.what);
        forged.claim.audience = "lyon".parse().unwrap();
        forged.signature = thief.tls.sign(&forged.claim.signed_bytes(ClaimSubject::Submission)).unwrap();
        one.claim = forged;
    };
    check(&mut hers, &thieves, "found that of server/paris").await;
    federation.logged("lyon", &["submission refused", "alice", "something else to run"]).await;
    federation.logged("lyon", &["request refused", "daemons submit nothing", PARIS]).await;
    // What she has signed is accepted.
    hers.submit(request(&submission)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_handed_over_that_its_user_has_not_signed() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let thief = Thief::of(&federation, PARIS);
    let mut lyon = thief.at(&federation, "lyon");
    let true_job = job_of_alice(&federation, "paris.7", PARIS);
    let changed = |change: &dyn Fn(&mut Prepare)| {
        let mut job = true_job.clone();
        change(&mut job);
        job
    };
    // A made-up owner, with the only key that the thief has.
    let forged = changed(&|job| job.claim = thief.forged(job.key, &job.what));
    handoff_refused(&federation, &mut lyon, forged, "found that of server/paris").await;
    // What alice has signed, with another script, key, time or owner.
    handoff_refused(
        &federation,
        &mut lyon,
        changed(&|job| job.what = rigid("rm -r .", 1, 60)),
        "something else to run",
    )
    .await;
    handoff_refused(
        &federation,
        &mut lyon,
        changed(&|job| job.what = script_elsewhere()),
        "something else to run",
    )
    .await;
    handoff_refused(&federation, &mut lyon, changed(&|job| job.key = fresh_key()), "another submission")
        .await;
    handoff_refused(
        &federation,
        &mut lyon,
        changed(&|job| job.submitted = now() + Span(10_000)),
        "had expired",
    )
    .await;
    let lengthened = changed(&|job| job.claim.claim.lifetime = Span(10_000));
    handoff_refused(&federation, &mut lyon, lengthened, "did not sign this").await;
    let bobs = changed(&|job| job.owner = "bob".parse().unwrap());
    let reply = prepare(&mut lyon, &bobs).await;
    assert!(matches!(&reply, Reply::Refused(why) if why.contains("found that of alice")), "{reply:?}");
    // What alice has signed for another server.
    handoff_refused(
        &federation,
        &mut lyon,
        job_of_alice(&federation, "paris.8", "lyon"),
        "for lyon, and paris",
    )
    .await;
    handoff_refused(
        &federation,
        &mut lyon,
        changed(&|job| job.id.job = "nancy.7".parse().unwrap()),
        "for paris, and nancy",
    )
    .await;
    // A job that another server has, by a handoff without a signature, and by one that the thief has signed itself.
    let mut nancys = job_of_alice(&federation, "nancy.1", "nancy");
    handoff_refused(&federation, &mut lyon, nancys.clone(), "lead to nancy").await;
    nancys.hops = vec![hop("nancy", PARIS, None)];
    handoff_refused(&federation, &mut lyon, nancys.clone(), "nancy has signed").await;
    nancys.hops = vec![hop("nancy", PARIS, Some(thief.handoff(&nancys, "nancy", PARIS, 1)))];
    handoff_refused(&federation, &mut lyon, nancys, "expected the signature of server nancy").await;
    // Files for users who have signed nothing.
    for (claim, why) in [
        (Some(thief.forged(true_job.key, &true_job.what)), "found that of server/paris"),
        (Some(job_of_alice(&federation, "paris.9", PARIS).claim), "another submission"),
        (None, "signature of the owner"),
    ] {
        let file = input("data", &federation.authority.ca_path()).0;
        let begin = Upload::Begin { key: true_job.key, file, claim: claim.map(Box::new) };
        let uploads = tokio_stream::iter([proto::UploadRequest::from(&begin)]);
        let mut answers = lyon.upload(uploads).await.unwrap().into_inner();
        let status = answers.message().await.unwrap_err();
        assert!(status.message().contains(why), "{status:?}");
    }
    federation.logged("lyon", &["upload refused", PARIS]).await;

    // What the stolen server has is its to hand over: the job runs as its user signed it, and once at this server.
    assert!(matches!(prepare(&mut lyon, &true_job).await, Reply::Prepared(_)));
    let commit = |signed: HandoffSignature| {
        proto::CommitRequest::from(&CommitOrder {
            id: true_job.id.clone(),
            cancelled: false,
            attempts: 1,
            signed,
        })
    };
    for (signed, why) in [
        (thief.handoff(&true_job, PARIS, "nancy", 1), "did not sign"),
        (thief.handoff(&true_job, PARIS, "lyon", 2), "did not sign"),
        (thief.handoff(&job_of_alice(&federation, "paris.7", PARIS), PARIS, "lyon", 1), "another submission"),
    ] {
        let status = lyon.commit(commit(signed)).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
        assert!(status.message().contains(why), "expected {why} in {status:?}");
    }
    federation.logged("lyon", &["commit refused", "paris.7"]).await;
    let done = lyon.commit(commit(thief.handoff(&true_job, PARIS, "lyon", 1))).await.unwrap().into_inner();
    assert_eq!(Reply::try_from(done).unwrap(), Reply::Done);
    let mut alice = federation.server_client(Role::User, "alice", "lyon");
    let ended = until("the job to end", async || {
        let job = alice.job(proto::JobRequest { handle: "paris.7".to_owned() }).await.ok()?.into_inner();
        JobRecord::try_from(job).ok().filter(|job| job.state.is_final())
    });
    assert_eq!(ended.await.state, JobState::Completed);
    // Once, whatever ID or number of attempts the thief gives it, also after a restart.
    let replays = [
        (changed(&|job| job.id.job = "paris.8".parse().unwrap()), "key"),
        (changed(&|job| job.id.attempt = 2), "another path"),
    ];
    for (replay, why) in &replays {
        handoff_refused(&federation, &mut lyon, replay.clone(), why).await;
    }
    federation.kill("lyon");
    federation.revive("lyon");
    let mut lyon = thief.at(&federation, "lyon");
    for (replay, why) in replays {
        handoff_refused(&federation, &mut lyon, replay, why).await;
    }

    // A certificate that has been revoked signs for nothing.
    let late = job_of_alice(&federation, "paris.10", PARIS);
    federation.authority.revoke("user/alice", now()).unwrap();
    let (draft, list) = (federation.folder("lyon").join("draft"), federation.folder("lyon").join("crl.pem"));
    fs::copy(federation.authority.crl_path(), &draft).unwrap();
    fs::rename(draft, list).unwrap();
    handoff_refused(&federation, &mut lyon, late, "has been revoked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_not_read_at_another_server() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let ended = run(&alice, &order(rigid("echo secret", 1, 60))).await;
    for name in [PARIS, "lyon"] {
        let mut stolen = Thief::of(&federation, name).at(&federation, "lyon");
        let job = || proto::JobRequest { handle: ended.handle.to_string() };
        let download = proto::DownloadRequest::from(&stdout_of(&ended.handle));
        let refused = [
            stolen.job(job()).await.map(drop),
            stolen.watch(job()).await.map(drop),
            stolen.results(job()).await.map(drop),
            stolen.explain(job()).await.map(drop),
            stolen.cancel(job()).await.map(drop),
            stolen.withdraw(job()).await.map(drop),
            stolen.download(download).await.map(drop),
        ];
        for status in refused {
            let status = status.unwrap_err();
            assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
        }
        federation.logged("lyon", &["request refused", name]).await;
    }
}
