//! Many submissions of a client at a time, several in a message.

use std::collections::BTreeMap;
use std::fs;

use pliant_client::{Client, SubmitOrder};
use pliant_control::job::JobRecord;
use pliant_control::names::Key;
use pliant_control::reason::DiscoverySummary;
use pliant_transport::Role;
use pliant_wire::{Submission, SubmitAnswer, SubmitOutcome, SubmittedWork, bounds, proto};
use tokio::task::JoinSet;
use tonic::Code;

use crate::harness::*;

/// A signed submission to lyon.
fn submission(client: &Client, what: SubmittedWork) -> Submission {
    let key = fresh_key();
    let claim = client.sign_submission(key, (&what, &[], false), &"lyon".parse().unwrap()).unwrap();
    let (compared, discovery) = (Vec::new(), DiscoverySummary::default());
    Submission { key, what, inputs: Vec::new(), latest: None, compared, discovery, pinned: false, claim }
}

/// The outcome of each, in a word or two: `accepted` with the job ID.
fn outcomes(reply: proto::SubmitManyReply) -> Vec<String> {
    let outcome = |outcome| match SubmitOutcome::try_from(outcome).unwrap() {
        SubmitOutcome::Answered(SubmitAnswer::Accepted(job)) => format!("accepted {}", job.handle),
        SubmitOutcome::Answered(SubmitAnswer::Refused(refused)) => format!("refused {}", refused.word),
        SubmitOutcome::Failed(failure) => format!("{:?}", Code::from_i32(failure.code as i32)),
    };
    reply.outcomes.into_iter().map(outcome).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_submission_of_a_message_has_an_answer_of_its_own() {
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0)]).await;
    let alice = federation.client("alice");
    let mut lyon = federation.server_client(Role::User, "alice", "lyon");
    let waits = || rigid("sleep 60", 1, 60);
    let message = |submission: &Submission| proto::SubmitRequest::from(submission);
    let (first, last) = (submission(&alice, waits()), submission(&alice, waits()));
    let large = submission(&alice, rigid("true", 64, 60));
    let malformed = proto::SubmitRequest { key: vec![1], ..message(&submission(&alice, waits())) };
    // Signed for another key.
    let stolen = Submission { key: Key([7; 16]), ..submission(&alice, waits()) };
    let submissions =
        vec![message(&first), message(&large), malformed, message(&stolen), message(&first), message(&last)];
    let sent = |submissions| proto::SubmitManyRequest { submissions };
    let mut answered = Vec::new();
    for _ in 0..2 {
        let reply = lyon.submit_many(sent(submissions.clone())).await.unwrap();
        answered.push(outcomes(reply.into_inner()));
    }
    let found = &answered[0];
    assert_eq!(&found[1..4], ["refused too-large", "InvalidArgument", "PermissionDenied"], "{found:?}");
    // The same key is the same job, in the same message and in a later one.
    assert_eq!(found[0], found[4]);
    assert!(found[0].starts_with("accepted lyon.") && found[5].starts_with("accepted lyon."), "{found:?}");
    assert_ne!(found[0], found[5]);
    assert_eq!(answered[0], answered[1]);
    let too_many = vec![message(&first); bounds::MANY_MAX + 1];
    let refused = lyon.submit_many(sent(too_many)).await.unwrap_err();
    assert_eq!(refused.message(), "submissions: expected at most 256 items, found 257");
    assert_eq!(alice.newest_jobs(all_jobs(), 10).await.unwrap().jobs.len(), 2);
}

fn all_jobs() -> pliant_wire::JobsQuery {
    pliant_wire::JobsQuery {
        owner: None,
        all: false,
        server: None,
        states: Vec::new(),
        limit: 100,
        before: None,
    }
}

/// Submits all at a time: the records in the order in which they were accepted.
fn submitted(client: &Client, orders: Vec<SubmitOrder>) -> JoinSet<JobRecord> {
    let client = client.gathering();
    let mut under_way = JoinSet::new();
    for order in orders {
        let client = client.clone();
        under_way.spawn(async move { submit(&client, &order).await });
    }
    under_way
}

#[tokio::test(flavor = "multi_thread")]
async fn each_job_runs_exactly_once_though_its_server_is_killed_with_the_others_under_way() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 4, 1.0)]).await;
    let lines = federation.path().join("lines");
    let alice = federation.client("alice");
    let mut expected = 0;
    for point in ["received", "before-journal", "after-journal"] {
        federation.stop("lyon");
        federation.environment = vec![("PLIANT_CRASH_AT", format!("{point}.submit:40"))];
        federation.revive("lyon");
        federation.environment = Vec::new();
        let orders = (0..100).map(|_| order(rigid(&noting(&lines, ""), 1, 60))).collect();
        let under_way = submitted(&alice, orders);
        until(&format!("lyon to die at {point}"), async || federation.has_died("lyon").then_some(())).await;
        federation.revive("lyon");
        let mut jobs: Vec<String> =
            under_way.join_all().await.iter().map(|job| job.handle.to_string()).collect();
        jobs.sort();
        jobs.dedup();
        assert_eq!(jobs.len(), 100, "{point}");
        expected += 100;
        let ran = async || (runs(&lines).len() >= expected).then_some(());
        until("all jobs to run", ran).await;
        agree(&federation.operator(), &lines).await;
        let runs = runs(&lines);
        assert_eq!(runs.len(), expected, "{point}");
        assert!(jobs.iter().all(|job| runs.contains_key(job)), "{point}");
        assert!(runs.values().all(|times| *times == 1), "{point}: {runs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_jobs_that_are_submitted_together_go_to_all_servers() {
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0), Cluster::new("nancy", 4, 1.0)]).await;
    let alice = federation.client("alice");
    let gate = federation.path().join("gate");
    let orders: Vec<SubmitOrder> = (0..96).map(|_| order(rigid(&waiting_for(&gate), 1, 600))).collect();
    let jobs = submitted(&alice, orders).join_all().await;
    let mut by_server: BTreeMap<&str, usize> = BTreeMap::new();
    for job in &jobs {
        *by_server.entry(job.handle.server.as_str()).or_default() += 1;
    }
    // Four more jobs are ten minutes more, and more than a tenth of what is left: a server that is so much later refuses them.
    let (least, most) = (by_server.values().min().unwrap(), by_server.values().max().unwrap());
    assert!(by_server.len() == 2 && most - least <= 8, "{by_server:?}");
    fs::write(&gate, "").unwrap();
}
