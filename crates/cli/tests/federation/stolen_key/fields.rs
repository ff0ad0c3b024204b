//! Each field of what a user has signed is changed once: the server that accepts a job refuses it, and so does a server to which a
//! stolen server hands it over. What is presented once more runs once.

use std::fs;

use pliant_control::handoff::Reply;
use pliant_control::job::JobState;
use pliant_control::names::Key;
use pliant_control::reason::DiscoverySummary;
use pliant_control::signed::{Claim, SignedClaim};
use pliant_model::{Procs, Span, Speedup};
use pliant_staging::{Checksum, FileSpec};
use pliant_transport::Role;
use pliant_wire::{Prepare, Script, Submission, SubmitAnswer, SubmittedWork, proto};
use tonic::Code;

use super::{PARIS, Thief, prepare};
use crate::harness::*;

/// A change, and the reason of the refusal.
type Change<T> = (fn(&mut T), &'static str);

const DIGEST: &str = "something else to run";

fn call(arguments: &[(&str, &str)]) -> SubmittedWork {
    let arguments = arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    SubmittedWork::Service { name: "touch".to_owned(), arguments }
}

/// What alice signs: a script with an argument and an input file.
fn signed_work() -> (SubmittedWork, Vec<FileSpec>) {
    let SubmittedWork::Script(script) = rigid("echo one >> \"$1\"", 1, 60) else { panic!("it is a script") };
    let file = FileSpec { name: "data".parse().unwrap(), size: 3, sha256: Checksum::of(b"one") };
    (SubmittedWork::Script(Script { arguments: vec!["lines".to_owned()], ..script }), vec![file])
}

/// Each field of a script.
const SCRIPT: &[fn(&mut Script)] = &[
    |script| script.name.push('2'),
    |script| script.text = format!("{}rm -r .\n", script.text).into(),
    |script| script.arguments[0].push('2'),
    |script| script.arguments.push(String::new()),
    |script| script.arguments.clear(),
    |script| _ = script.environment.insert("PATH".to_owned(), "/tmp".to_owned()),
    |script| script.stdin = Some("data".parse().unwrap()),
    |script| script.merge_output = true,
    |script| script.folder = Some("home:alice".parse().unwrap()),
    |script| script.work.procs = Procs(2),
    |script| script.work.walltime = Span(61),
    |script| script.work.speedup = Speedup::Amdahl { parallel: 0.5, limit: Procs(2) },
];

/// Each field of an input file, and their number.
const INPUTS: &[fn(&mut Vec<FileSpec>)] = &[
    |inputs| inputs[0].name = "other".parse().unwrap(),
    |inputs| inputs[0].size = 4,
    |inputs| inputs[0].sha256 = Checksum::of(b"two"),
    |inputs| inputs.push(FileSpec { name: "more".parse().unwrap(), ..inputs[0].clone() }),
    Vec::clear,
];

/// Each field of a claim, of which the signature stays that of alice.
const CLAIM: &[Change<Claim>] = &[
    (|claim| claim.owner = "bob".parse().unwrap(), "expected the signature of its owner"),
    (|claim| claim.key = Key([9; 16]), "another submission"),
    (|claim| claim.digest.0[0] ^= 1, DIGEST),
    (|claim| claim.audience = "nancy".parse().unwrap(), "is for nancy"),
    (|claim| claim.made += Span(1), "did not sign this"),
    (|claim| claim.lifetime = claim.lifetime + Span(1), "did not sign this"),
];

/// What is to run, its input files, what changes of the claim, and the reason of the refusal.
type Changed = (SubmittedWork, Vec<FileSpec>, fn(&mut Claim), &'static str);

/// All changes of what is to run, of its input files and of the claim.
fn changes() -> Vec<Changed> {
    let unchanged: fn(&mut Claim) = |_| {};
    let mut changes = vec![
        (call(&[]), signed_work().1, unchanged, DIGEST),
        (call(&[("lines", "1")]), signed_work().1, unchanged, DIGEST),
    ];
    for change in SCRIPT {
        let (SubmittedWork::Script(mut script), inputs) = signed_work() else { panic!("it is a script") };
        change(&mut script);
        changes.push((SubmittedWork::Script(script), inputs, unchanged, DIGEST));
    }
    for change in INPUTS {
        let (what, mut inputs) = signed_work();
        change(&mut inputs);
        changes.push((what, inputs, unchanged, DIGEST));
    }
    for &(change, why) in CLAIM {
        let (what, inputs) = signed_work();
        changes.push((what, inputs, change, why));
    }
    changes
}

fn changed(claim: &SignedClaim, change: fn(&mut Claim)) -> SignedClaim {
    let mut changed = claim.clone();
    change(&mut changed.claim);
    changed
}

#[tokio::test(flavor = "multi_thread")]
async fn each_changed_field_is_refused_at_acceptance_and_at_a_handoff() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let (what, inputs) = signed_work();

    let key = fresh_key();
    let claim = alice.sign_submission(key, (&what, &inputs, false), &"lyon".parse().unwrap()).unwrap();
    let mut hers = federation.server_client(Role::User, "alice", "lyon");
    for (what, inputs, change, why) in changes() {
        let submission = Submission {
            key,
            what,
            inputs,
            latest: None,
            compared: Vec::new(),
            discovery: DiscoverySummary::default(),
            pinned: false,
            claim: changed(&claim, change),
        };
        let status = hers.submit(proto::SubmitRequest::from(&submission)).await.unwrap_err();
        let as_expected = status.code() == Code::PermissionDenied && status.message().contains(why);
        assert!(as_expected, "expected {why} in {status:?} for {submission:?}");
    }

    let mut lyon = Thief::of(&federation, PARIS).at(&federation, "lyon");
    let mut job = super::job_of_alice(&federation, "paris.7", PARIS);
    let claim = alice.sign_submission(job.key, (&what, &inputs, false), &PARIS.parse().unwrap()).unwrap();
    for (number, (what, inputs, change, why)) in changes().into_iter().enumerate() {
        job.id.job = format!("paris.{}", number + 10).parse().unwrap();
        let job = Prepare { what, inputs, claim: changed(&claim, change), ..job.clone() };
        let reply = prepare(&mut lyon, &job).await;
        assert!(
            matches!(&reply, Reply::Refused(found) if found.contains(why)),
            "expected {why} in {reply:?} for {job:?}"
        );
        federation.logged("lyon", &["handoff refused", "alice", &job.id.job.to_string(), why]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_presented_twice_runs_once() {
    let mut federation = Federation::start(&["lyon", PARIS].map(|name| Cluster::new(name, 1, 1.0))).await;
    let alice = federation.client("alice");
    let lines = federation.path().join("lines");
    let (key, what) = (fresh_key(), rigid(&format!("echo ran >> '{}'", lines.display()), 1, 60));
    let claim = alice.sign_submission(key, (&what, &[], false), &"lyon".parse().unwrap()).unwrap();
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
    let request = || proto::SubmitRequest::from(&submission);
    let present = async |federation: &Federation| {
        let mut lyon = federation.server_client(Role::User, "alice", "lyon");
        let answer = lyon.submit(request()).await.unwrap().into_inner();
        let SubmitAnswer::Accepted(job) = SubmitAnswer::try_from(answer).unwrap() else {
            panic!("alice has signed it");
        };
        job.handle
    };
    let job = present(&federation).await;
    assert_eq!(alice.wait(&job, |_| {}).await.unwrap().state, JobState::Completed);

    // At the same server it is the same job, also after a restart; at another server it is refused.
    assert_eq!(present(&federation).await, job);
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(2).await;
    assert_eq!(present(&federation).await, job);
    let mut paris = federation.server_client(Role::User, "alice", PARIS);
    let status = paris.submit(request()).await.unwrap_err();
    assert!(
        status.code() == Code::PermissionDenied && status.message().contains("is for lyon"),
        "{status:?}"
    );
    federation.logged(PARIS, &["submission refused", "alice", "is for lyon"]).await;
    assert_eq!(fs::read_to_string(&lines).unwrap(), "ran\n");
}
