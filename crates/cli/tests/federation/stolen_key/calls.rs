//! What stolen keys are worth for other work than jobs: batches, explorations and launches.

use std::collections::BTreeMap;

use pliant_control::coallocation::{LaunchId, PlacedTask, Subjob, SubjobId, TaskSpec};
use pliant_control::handoff::{Peer, Reply};
use pliant_control::payload::Payload;
use pliant_model::{Procs, Span};
use pliant_transport::{ClientTls, Role};
use pliant_wire::proto::launches_client::LaunchesClient;
use pliant_wire::proto::subjobs_client::SubjobsClient;
use pliant_wire::{InstanceBatch, InstanceCall, Program, SignedTasks, SubmittedWork, TaskProgram, proto};
use tonic::{Code, Status};

use super::{PARIS, Thief, job_of_alice, prepare};
use crate::harness::*;

fn denied(status: Status) {
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_and_an_exploration_are_calls_of_their_user() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let thief = Thief::of(&federation, PARIS);
    let alice = federation.client("alice");
    let mut lyon = thief.at(&federation, "lyon");
    // Alice has signed the batch for paris, as all batches are: for one server.
    let batch = InstanceBatch {
        executable: "touch".into(),
        arguments: BTreeMap::new(),
        varied: Vec::new(),
        instances: vec![InstanceCall { number: 0, values: Vec::new() }],
        inputs_key: None,
    };
    let mut job = job_of_alice(&federation, "paris.3", PARIS);
    job.what = SubmittedWork::Batch(batch);
    job.claim = alice.sign_submission(job.key, (&job.what, &[], true), &thief.own).unwrap();
    let reply = prepare(&mut lyon, &job).await;
    assert!(matches!(&reply, Reply::Refused(why) if why.contains("something else to run")), "{reply:?}");
    federation.logged("lyon", &["handoff refused", "paris.3", "something else to run"]).await;
    // A client that signs it as a job that moves is of no use to the thief either.
    job.claim = alice.sign_submission(job.key, (&job.what, &[], false), &thief.own).unwrap();
    let reply = prepare(&mut lyon, &job).await;
    assert!(
        matches!(&reply, Reply::Refused(why) if why.contains("a batch of a sweep does not move")),
        "{reply:?}"
    );
    federation.logged("lyon", &["handoff refused", "paris.3", "does not move"]).await;

    let begin = proto::explore_request::Begin {
        exploration: vec![7; 16],
        service: "touch".to_owned(),
        script: None,
        ..proto::explore_request::Begin::default()
    };
    let message = Some(proto::explore_request::Message::Begin(begin));
    let requests = tokio_stream::iter([proto::ExploreRequest { message, attempt: 0 }]);
    denied(lyon.explore(requests).await.unwrap_err());
    federation.logged("lyon", &["request refused", PARIS]).await;
}

fn task(name: &str, text: &str) -> TaskSpec {
    let text = format!("#!/bin/sh\n{text}\n").into();
    let program = Program::Script { name: "one.sh".to_owned(), text, arguments: Vec::new() };
    TaskSpec {
        name: name.to_owned(),
        rcr: 1.0,
        payload: Payload::of(&TaskProgram { program, inputs: Vec::new() }),
    }
}

/// A subjob of alice's launch at that agent, with one task.
fn subjob(launch: &LaunchId, task: &TaskSpec, signed: Option<SignedTasks>) -> Subjob {
    let placed = PlacedTask {
        name: task.name.clone(),
        machine: "lyon".to_owned(),
        neighbours: Vec::new(),
        payload: task.payload.clone(),
    };
    Subjob {
        coordinator: Peer { name: launch.agent.clone(), address: "127.0.0.1:1".to_owned() },
        id: SubjobId { launch: launch.clone(), number: 0 },
        owner: "alice".parse().unwrap(),
        name: "row".to_owned(),
        tasks: vec![placed],
        procs: Procs(1),
        walltime: Span(60),
        timeout: Span(60),
        signed: signed.as_ref().map(Payload::of).unwrap_or_default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_launch_are_those_that_their_user_signed() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let thief = Thief::of(&federation, PARIS);
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let launch = LaunchId { agent: "conductor".parse().unwrap(), key: fresh_key() };
    let one = task("one", "echo what alice signed");
    let sign = |client: &pliant_client::Client, launch: &LaunchId, task: &TaskSpec| {
        client.sign_tasks(launch.key, [task].into_iter(), &launch.agent).unwrap()
    };
    let signed = sign(&alice, &launch, &one);

    // With the key of a server.
    let mut subjobs = SubjobsClient::new(federation.channel(&thief.credentials, Role::Server, "lyon"));
    let wanted = subjob(&launch, &one, Some(signed.clone()));
    denied(subjobs.prepare(proto::PrepareSubjob::from(&wanted)).await.unwrap_err());
    let mut launches = LaunchesClient::new(federation.channel(&thief.credentials, Role::Agent, MASTER));
    denied(launches.launch(proto::LaunchRequest::default()).await.unwrap_err());
    denied(launches.spawn(proto::SpawnRequest::default()).await.unwrap_err());

    // With the key of an agent.
    let conductor = federation.credentials(Role::Agent, "conductor");
    let tls = ClientTls::load(&conductor).unwrap();
    let mut subjobs = SubjobsClient::new(federation.channel(&conductor, Role::Server, "lyon"));
    let other = task("one", "rm -r .");
    let elsewhere = LaunchId { agent: MASTER.parse().unwrap(), ..launch.clone() };
    let again = LaunchId { key: fresh_key(), ..launch.clone() };
    let mut forged = signed.clone();
    let bytes = forged.claim.claim.signed_bytes(pliant_control::signed::ClaimSubject::Launch);
    forged.claim.signature = tls.sign(&bytes).unwrap();
    let mut late = signed.clone();
    late.claim.claim.made = now() + Span(86_400);
    let lies = [
        (subjob(&launch, &one, None), "the user's signature for the tasks"),
        (subjob(&launch, &one, Some(forged)), "found that of agent/conductor"),
        (subjob(&launch, &one, Some(sign(&bob, &launch, &one))), "found that of bob"),
        (subjob(&launch, &other, Some(signed.clone())), "not among those"),
        (subjob(&launch, &one, Some(sign(&alice, &elsewhere, &one))), "for master"),
        (subjob(&again, &one, Some(signed.clone())), "another submission"),
        (subjob(&launch, &one, Some(late)), "later than its acceptance"),
    ];
    for (lie, why) in lies {
        let reply = subjobs.prepare(proto::PrepareSubjob::from(&lie)).await;
        let said = reply.map_or_else(|status| status.to_string(), |reply| format!("{reply:?}"));
        assert!(said.contains(why), "expected {why} in {said}");
        if !lie.tasks.is_empty() && lie.signed != Payload::default() {
            federation.logged("lyon", &["subjob refused", "alice", why]).await;
        }
    }
}
