//! What the key of a stolen server is worth at an agent: the records of jobs.

use std::fs;

use pliant_control::agent::ChildKind;
use pliant_control::job::{Exit, JobRecord, JobState, Work};
use pliant_control::reason::DiscoverySummary;
use pliant_control::server_info::ServerInfo;
use pliant_model::{Procs, Span, Speed, Speedup};
use pliant_transport::Role;
use pliant_wire::proto::agent_client::AgentClient;
use pliant_wire::{FromChild, FromParent, Prepare, proto};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::{PARIS, Thief, hop, job_of_alice, script};
use crate::harness::*;

/// A stolen server at the master agent.
struct Attached {
    up: mpsc::Sender<proto::Up>,
    down: Streaming<proto::Down>,
    sequence: u64,
}

impl Attached {
    async fn of(federation: &Federation, thief: &Thief) -> Attached {
        let mut agent = AgentClient::new(federation.channel(&thief.credentials, Role::Agent, MASTER));
        let (up, receiver) = mpsc::channel(16);
        let info = ServerInfo {
            name: thief.own.clone(),
            address: "127.0.0.1:1".to_owned(),
            rank: 0,
            procs: Procs(1),
            speed: Speed::REFERENCE,
            policy: "cbf".to_owned(),
            services: Vec::new(),
            scripts: true,
            optional_cores: 0,
            optional_per_core: 0,
        };
        let (name, kind, servers) = (thief.own.clone(), ChildKind::Server, vec![info]);
        let hello = FromChild::Hello { name, kind, journal: 4_711, servers };
        up.send((&hello).into()).await.unwrap();
        let down = agent.attach(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Attached { up, down, sequence: 0 }
    }

    /// Reports a job, until the agent has acknowledged it.
    async fn report(&mut self, record: &JobRecord) {
        self.sequence += 1;
        let update = FromChild::StatusUpdate { sequence: self.sequence, record: Box::new(record.clone()) };
        self.up.send((&update).into()).await.unwrap();
        loop {
            let message = self.down.message().await.unwrap().expect("the agent keeps the connection");
            if FromParent::try_from(message).unwrap() == (FromParent::Acknowledge { sequence: self.sequence })
            {
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_record_is_rewritten_at_the_agent() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let ended = run(&alice, &order(rigid("true", 1, 60))).await;
    let gate = federation.path().join("gate");
    let running = submit(&alice, &order(rigid(&waiting_for(&gate), 1, 600))).await.handle;
    let running = federation.reaches(&alice, &running, JobState::Active).await;
    let waiting = submit(&alice, &order(rigid("true", 1, 600))).await;
    until("the agent to know them", async || {
        let state = alice.find(&running.handle).await.ok()?.record.state;
        (state == JobState::Active && alice.find(&waiting.handle).await.is_ok()).then_some(())
    })
    .await;
    let known = async |record: &JobRecord| alice.find(&record.handle).await.unwrap().record;
    let before = [known(&ended).await, known(&running).await, known(&waiting).await];

    // Another server's jobs: by its word alone, and by handoffs that it has signed itself.
    let thief = Thief::of(&federation, PARIS);
    let mut paris = Attached::of(&federation, &thief).await;
    for record in &before {
        let failed = JobRecord {
            state: JobState::Failed,
            started: Some(now()),
            ended: Some(now()),
            exit: Some(Exit::Code(1)),
            ..record.clone()
        };
        let bobs = JobRecord { owner: "bob".parse().unwrap(), ..record.clone() };
        for lie in [failed, bobs] {
            paris.report(&lie).await;
            let mut job = job_of_alice(&federation, &record.handle.to_string(), "lyon");
            (job.key, job.owner) = (lie.key, lie.owner.clone());
            for signed in [None, Some(thief.handoff(&job, "lyon", PARIS, 1))] {
                paris.report(&JobRecord { hops: vec![hop("lyon", PARIS, signed)], ..lie.clone() }).await;
            }
        }
    }
    for why in ["lead to lyon", "that lyon has signed", "expected the signature of server lyon"] {
        federation.logged(MASTER, &["status update refused", PARIS, why]).await;
    }
    assert_eq!([known(&ended).await, known(&running).await, known(&waiting).await], before);

    // With the key of its own server an ended job stays as it was, and no job becomes another user's.
    federation.kill("lyon");
    let thief = Thief::of(&federation, "lyon");
    let mut lyon = Attached::of(&federation, &thief).await;
    let [ended, running, _] = &before;
    let lies = [
        JobRecord { exit: Some(Exit::Code(1)), state: JobState::Failed, ..ended.clone() },
        JobRecord { hops: vec![hop("lyon", PARIS, None)], ..ended.clone() },
        JobRecord { owner: "bob".parse().unwrap(), ..ended.clone() },
        JobRecord { key: fresh_key(), ..ended.clone() },
        JobRecord { owner: "bob".parse().unwrap(), ..running.clone() },
        JobRecord { key: fresh_key(), ..running.clone() },
    ];
    // What was refused once is not believed when it is said again.
    for lie in lies.iter().chain(&lies) {
        lyon.report(lie).await;
    }
    for why in ["has ended, and otherwise", "another user's", "under another key"] {
        federation.logged(MASTER, &["status update refused", "lyon", why]).await;
    }
    assert_eq!([known(ended).await, known(running).await], [ended.clone(), running.clone()]);
    // Not from the archive either, once the agent has forgotten the job.
    federation.kill(MASTER);
    federation.revive(MASTER);
    drop(lyon);
    until("the agent to be up", async || alice.find(&ended.handle).await.ok()).await;
    let mut lyon = Attached::of(&federation, &thief).await;
    lyon.sequence = 100;
    for lie in lies.iter().chain(&lies) {
        lyon.report(lie).await;
    }
    assert_eq!([known(ended).await, known(running).await], [ended.clone(), running.clone()]);
    drop(lyon);
    // The server itself goes on where it was.
    federation.revive("lyon");
    fs::write(&gate, "").unwrap();
    for job in [&running.handle, &waiting.handle] {
        assert_eq!(alice.wait(job, |_| {}).await.unwrap().state, JobState::Completed);
    }
}

/// The record of a job that a server says it has.
fn record_of(job: &Prepare) -> JobRecord {
    let handle = job.id.job.clone();
    let expected = hop(PARIS, PARIS, None).expected;
    JobRecord {
        handle,
        key: job.key,
        owner: job.owner.clone(),
        name: "job.sh".to_owned(),
        work: Work::new(Procs(1), Span(60), Speedup::Rigid),
        state: JobState::Queued,
        submitted: job.submitted,
        expected,
        procs: Procs(1),
        walltime: Span(60),
        started: None,
        ended: None,
        exit: None,
        requeues: 0,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: Some(Box::new(job.claim.clone())),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_invented_at_the_agent() {
    let federation = Federation::agent_only("");
    let alice = federation.client("alice");
    let thief = Thief::of(&federation, PARIS);
    let mut paris = Attached::of(&federation, &thief).await;
    let signed = job_of_alice(&federation, "paris.1", PARIS);
    let true_record = record_of(&signed);
    let changed = |change: &dyn Fn(&mut JobRecord)| {
        let mut record = true_record.clone();
        change(&mut record);
        record
    };
    let forged = thief.forged(signed.key, &script());
    let other = job_of_alice(&federation, "lyon.1", "lyon").claim;
    let lies = [
        (changed(&|job| job.claim = None), "expected the signature of the job's user"),
        (changed(&|job| job.claim = Some(Box::new(forged.clone()))), "found that of server/paris"),
        (changed(&|job| job.claim = Some(Box::new(other.clone()))), "another submission"),
        (changed(&|job| job.owner = "bob".parse().unwrap()), "found that of alice"),
        (changed(&|job| job.key = fresh_key()), "another submission"),
        (changed(&|job| job.submitted = now() + Span(10_000)), "had expired"),
        (changed(&|job| job.handle = "lyon.1".parse().unwrap()), "for paris, and lyon"),
    ];
    for (lie, why) in lies {
        paris.report(&lie).await;
        federation.logged(MASTER, &["status update refused", PARIS, why]).await;
        assert!(alice.find(&lie.handle).await.is_err(), "{why}");
    }
    // What alice has signed for paris is recorded, and is hers.
    paris.report(&true_record).await;
    let found = alice.find(&signed.id.job).await.unwrap().record;
    assert_eq!(found, true_record.without_signatures());
}
