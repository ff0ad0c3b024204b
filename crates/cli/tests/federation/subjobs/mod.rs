//! Subjobs of launches at a real server, driven by hand in place of the agent that coordinates them: held until that is
//! decided, run with the addresses of their tasks, found again after `kill -9`, ended, refused.

mod agent;
mod held;
mod inputs;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use agent::*;
use pliant_control::batch::external::RELEASE_TIMEOUT;
use pliant_control::coallocation::{Addresses, SubjobDecision, SubjobState};
use pliant_control::job::{Exit, JobState};
use pliant_transport::Role;
use pliant_wire::{DecidedSubjob, Program, proto};
use tonic::Code;

use crate::harness::*;
use crate::slurm::Behind;

/// The server.
const LYON: &str = "lyon";

fn cluster(procs: u32) -> Cluster {
    Cluster::new(LYON, procs, 1.0)
}

/// A task that prints its environment, and waits for its gate.
fn telling(federation: &Federation, task: &str, code: i32) -> Program {
    let gate = federation.path().join(format!("gate-{task}"));
    let said = "echo \"$PLIANT_TASK at $PLIANT_ADDRESS knows $PLIANT_PEERS\"";
    shell(&format!("{said}\n{}\nexit {code}", waiting_for(&gate)))
}

fn open(federation: &Federation, task: &str) {
    fs::write(federation.path().join(format!("gate-{task}")), "").unwrap();
}

fn ended(state: &SubjobState) -> Option<&BTreeMap<String, Exit>> {
    match state {
        SubjobState::Runs { ended } | SubjobState::Over { ended, .. } => Some(ended),
        _ => None,
    }
}

fn how_it_ended(state: &SubjobState) -> Option<Exit> {
    match state {
        SubjobState::Over { exit, .. } => Some(exit.clone()),
        _ => None,
    }
}

/// The addresses of all tasks.
fn peers(addresses: &Addresses) -> Addresses {
    let far = ("far".to_owned(), "10.9.9.9:7".to_owned());
    addresses.clone().into_iter().chain([far]).collect()
}

/// Everything that the server has is free: a job gets it.
async fn all_is_free(federation: &Federation, procs: u32) {
    let ran = run(&federation.client("bob"), &order_to(LYON, rigid("true", procs, 60))).await;
    assert_eq!(ran.exit, Some(Exit::Code(0)), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subjob_is_held_until_that_is_decided_and_its_tasks_know_each_other() {
    let federation = Federation::start(&[cluster(2)]).await;
    let mut agent = Agent::start(&federation, LYON).await;
    let machines = agent.machines().await;
    let [machine] = &machines[..] else { panic!("{machines:?}") };
    assert_eq!((machine.name.as_str(), machine.procs), (LYON, 2));
    assert!(machine.power_mflops > 0.0 && (0.0..1.0).contains(&machine.load), "{machine:?}");

    let tasks = [
        ("one", telling(&federation, "one", 0), &["two", "far"][..]),
        ("two", telling(&federation, "two", 0), &["one"]),
    ];
    let subjob = agent.subjob(1, LYON, &tasks);
    agent.prepare(&subjob).await;
    let addresses = agent.held(&subjob.id).await;
    assert_eq!(addresses.keys().collect::<Vec<_>>(), ["one", "two"]);
    for address in addresses.values() {
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        assert!(TcpListener::bind(address).is_err(), "{address} is kept for its task");
    }
    assert_eq!(agent.prepare(&subjob).await, SubjobState::Prepared { addresses: addresses.clone() });
    assert!(folders(&federation, LYON).is_empty(), "nothing runs");
    assert_eq!(agent.machines().await[0].load, 1.0, "its processors are taken");

    agent.decide(&subjob.id, SubjobDecision::Commit { peers: peers(&addresses) }).await;
    open(&federation, "two");
    agent
        .hears(&subjob.id, "has ended one of its tasks", |state| {
            (ended(state)? == &[("two".to_owned(), Exit::Code(0))].into()).then_some(())
        })
        .await;
    open(&federation, "one");
    assert_eq!(agent.hears(&subjob.id, "is over", how_it_ended).await, Exit::Code(0));
    let folders = folders(&federation, LYON);
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    let (one, two) = (&addresses["one"], &addresses["two"]);
    assert_eq!(written(folder, "one"), format!("one at {one} knows two={two} far=10.9.9.9:7\n"));
    assert_eq!(written(folder, "two"), format!("two at {two} knows one={one}\n"));
    all_is_free(&federation, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_held_when_the_server_died_is_held_still_and_ends_when_that_is_decided() {
    let mut federation = Federation::start(&[cluster(2)]).await;
    let mut agent = Agent::start(&federation, LYON).await;
    let subjob = agent.subjob(1, LYON, &[("one", telling(&federation, "one", 0), &[])]);
    agent.prepare(&subjob).await;
    let addresses = agent.held(&subjob.id).await;
    federation.kill(LYON);
    federation.revive(LYON);
    agent.server = client(&federation, Role::Agent, AGENT, LYON);
    assert_eq!(agent.prepare(&subjob).await, SubjobState::Prepared { addresses: addresses.clone() });
    assert!(TcpListener::bind(&addresses["one"]).is_err(), "its port is kept again");
    let over = agent.decide(&subjob.id, SubjobDecision::End).await;
    assert_eq!(how_it_ended(&over), Some(Exit::Cancelled), "{over:?}");
    until("its port to be free", async || TcpListener::bind(&addresses["one"]).ok()).await;
    assert!(folders(&federation, LYON).is_empty(), "nothing of it ever ran");
    all_is_free(&federation, 2).await;
    // One that was ended before it was prepared takes nothing when it is.
    let late = agent.subjob(2, LYON, &[("one", telling(&federation, "one", 0), &[])]);
    agent.decide(&late.id, SubjobDecision::End).await;
    assert_eq!(how_it_ended(&agent.prepare(&late).await), Some(Exit::Cancelled));
    all_is_free(&federation, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_when_the_server_died_is_found_again_with_the_ends_of_its_tasks() {
    let mut federation = Federation::start(&[cluster(2)]).await;
    let mut agent = Agent::start(&federation, LYON).await;
    let tasks = [
        ("one", telling(&federation, "one", 3), &["two"][..]),
        ("two", telling(&federation, "two", 0), &["one"]),
    ];
    let subjob = agent.subjob(1, LYON, &tasks);
    agent.prepare(&subjob).await;
    let addresses = agent.held(&subjob.id).await;
    agent.decide(&subjob.id, SubjobDecision::Commit { peers: addresses }).await;
    agent.hears(&subjob.id, "runs", |state| ended(state).map(drop)).await;
    let folder = until("its tasks to run", async || {
        let folder = folders(&federation, LYON).pop()?;
        ["one", "two"].iter().all(|task| folder.join("work").join(task).exists()).then_some(folder)
    })
    .await;
    federation.kill(LYON);
    open(&federation, "one");
    until("the end of a task to be written down", async || {
        let said = fs::read_to_string(folder.join("stdout")).ok()?;
        said.contains("one").then_some(())
    })
    .await;
    federation.revive(LYON);
    agent.server = client(&federation, Role::Agent, AGENT, LYON);
    // A failed task is reported at once; the others continue until the agent ends them.
    agent
        .hears(&subjob.id, "has lost a task", |state| {
            (ended(state)? == &[("one".to_owned(), Exit::Code(3))].into()).then_some(())
        })
        .await;
    agent.decide(&subjob.id, SubjobDecision::End).await;
    assert_eq!(agent.hears(&subjob.id, "is over", how_it_ended).await, Exit::Cancelled);
    all_is_free(&federation, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_agent_of_a_launch_speaks_for_it() {
    let federation = Federation::start(&[cluster(2)]).await;
    let mut agent = Agent::start(&federation, LYON).await;
    let subjob = agent.subjob(1, LYON, &[("one", telling(&federation, "one", 0), &[])]);
    let others =
        [(Role::Agent, "another"), (Role::Server, AGENT), (Role::User, "alice"), (Role::Operator, "root")];
    for (role, name) in others {
        let mut other = client(&federation, role, name, LYON);
        let refused = other.prepare(proto::PrepareSubjob::from(&agent.signed(&subjob))).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{role} {name}: {refused}");
        let decided =
            (subjob.id.clone(), DecidedSubjob { decision: SubjobDecision::End, end_acknowledged: true });
        let refused = other.decide(proto::DecideSubjob::from(&decided)).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{role} {name}: {refused}");
        let listed_machines = other.list_machines(proto::ListMachinesRequest {}).await;
        assert_eq!(listed_machines.is_ok(), role == Role::Agent, "{role} {name}");
    }
    // No other caller has changed anything.
    agent.prepare(&subjob).await;
    agent.held(&subjob.id).await;
    agent.decide(&subjob.id, SubjobDecision::End).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_would_not_run_is_refused_at_once_and_says_why() {
    let federation = Federation::start(&[cluster(2)]).await;
    let mut agent = Agent::start(&federation, LYON).await;
    let call = |name: &str, arguments: &[(&str, &str)]| Program::Service {
        name: name.to_owned(),
        arguments: arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    };
    let cases = [
        (call("nothing", &[]), "nothing"),
        (call("sleep", &[("seconds", "many")]), "many"),
        (call("count", &[("data", "data.txt")]), "expected the input file data.txt"),
    ];
    for (number, (program, word)) in cases.into_iter().enumerate() {
        let subjob = agent.subjob(number as u8, LYON, &[("one", program, &[])]);
        let Some(Exit::NotStarted(why)) = how_it_ended(&agent.prepare(&subjob).await) else {
            panic!("{word}: expected a refusal")
        };
        assert!(why.contains("task `one`") && why.contains(word), "{why}");
    }
    // It would wait for longer than the launch's timeout.
    let blocking = submit(&federation.client("bob"), &order_to(LYON, rigid("sleep 1000", 2, 2000))).await;
    federation.reaches(&federation.client("bob"), &blocking.handle, JobState::Active).await;
    let subjob = agent.subjob(9, LYON, &[("one", call("say", &[("text", "hello")]), &[])]);
    let Some(Exit::NotStarted(why)) = how_it_ended(&agent.prepare(&subjob).await) else {
        panic!("expected a refusal")
    };
    assert!(why.contains("within 300 s"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subjob_waits_in_slurm_for_as_long_as_its_launch_has_timeout() {
    let Some(behind) = Behind::start(2, 2).await else { return };
    let federation = &behind.federation;
    let mut agent = Agent::start(federation, LYON).await;
    let machines = agent.machines().await;
    let found: Vec<_> = machines.iter().map(|machine| (machine.procs, machine.load)).collect();
    assert_eq!(found, [(2, 0.0), (2, 0.0)], "{machines:?}");
    // The last one: it is what was asked for, and not where Slurm begins.
    let node = &machines[1].name;
    let tasks = [
        ("one", telling(federation, "one", 0), &["two"][..]),
        ("two", telling(federation, "two", 0), &["one"]),
    ];
    let mut subjob = agent.subjob(1, node, &tasks);
    let other = &machines[0].name;
    subjob.tasks[1].machine.clone_from(other);
    let Some(Exit::NotStarted(why)) = how_it_ended(&agent.prepare(&subjob).await) else {
        panic!("expected a refusal")
    };
    assert!(why.contains("one node") && why.contains(other), "{why}");

    let subjob = agent.subjob(2, node, &tasks);
    agent.prepare(&subjob).await;
    let addresses = agent.held(&subjob.id).await;
    let loads: Vec<_> =
        agent.machines().await.into_iter().map(|machine| (machine.name, machine.load)).collect();
    assert_eq!(loads, [(other.clone(), 0.0), (node.clone(), 1.0)], "its node has it");
    // A sibling of a job would have timed out by now.
    tokio::time::sleep(Duration::from_secs(RELEASE_TIMEOUT.0 as u64)).await;
    assert_eq!(agent.prepare(&subjob).await, SubjobState::Prepared { addresses: addresses.clone() });
    agent.decide(&subjob.id, SubjobDecision::Commit { peers: addresses.clone() }).await;
    open(federation, "one");
    agent
        .hears(&subjob.id, "has ended one of its tasks", |state| {
            (ended(state)? == &[("one".to_owned(), Exit::Code(0))].into()).then_some(())
        })
        .await;
    open(federation, "two");
    assert_eq!(agent.hears(&subjob.id, "is over", how_it_ended).await, Exit::Code(0));
    let folder = folders(federation, LYON).pop().unwrap();
    let (one, two) = (&addresses["one"], &addresses["two"]);
    assert_eq!(written(&folder, "one"), format!("one at {one} knows two={two}\n"));

    let held = agent.subjob(3, node, &tasks);
    agent.prepare(&held).await;
    agent.held(&held.id).await;
    agent.decide(&held.id, SubjobDecision::End).await;
    agent.hears(&held.id, "is over", how_it_ended).await;
    until("its queue to be empty", async || behind.queue(LYON).is_empty().then_some(())).await;
}
