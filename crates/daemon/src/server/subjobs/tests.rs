//! What is run of a subjob, and what is reserved for it.

use pliant_control::payload::Payload;
use std::fs;

use pliant_config::Source;
use pliant_control::coallocation::{LaunchId, SubjobId};
use pliant_control::handoff::Peer;
use pliant_control::job::Work;
use pliant_control::names::Key;
use pliant_model::{JobId, Speedup};
use pliant_site::services::{Catalogue, Script, SpeedupSpec};
use pliant_wire::SubmittedWork;

use super::super::execution::{self, Execution, ExecutionId, SubjobFolder};
use super::*;

pub(in crate::server) fn program(arguments: &[String]) -> Program {
    let content = b"#!/bin/sh\n";
    let script = Script {
        name: &"run.sh".parse().unwrap(),
        content,
        arguments,
        speedup: SpeedupSpec { speedup: pliant_model::Speedup::Rigid, procs: Procs(1) },
        walltime: Span(1),
        folder: None,
        environment: &BTreeMap::new(),
        streams: pliant_site::processes::Streams::default(),
    };
    let catalogue = Catalogue::from_toml(&Source::new("server.toml".as_ref(), String::new())).unwrap();
    let prepared = catalogue.prepare_script(&script, None, None).unwrap();
    let work = Work::new(Procs(1), Span(1), Speedup::Rigid);
    let (name, text) = ("run.sh".to_owned(), "#!/bin/sh\n".into());
    let script =
        pliant_wire::Script { arguments: arguments.to_vec(), ..pliant_wire::Script::new(name, text, work) };
    let submitted = Some(SubmittedWork::Script(script));
    Program {
        prepared,
        submitted,
        script: None,
        batch: None,
        inputs: Vec::new(),
        shared: None,
        account: None,
        request: String::new(),
    }
}

pub(in crate::server) fn subjob() -> SubjobRun {
    let task = |name: &str, neighbours: &[&str]| PlacedTask {
        name: name.to_owned(),
        machine: "n1".to_owned(),
        neighbours: neighbours.iter().map(|name| (*name).to_owned()).collect(),
        payload: Payload::of(&program(&[name.to_owned()])),
    };
    let launch = LaunchId { agent: "lyon".parse().unwrap(), key: Key([1; 16]) };
    let addresses = |names: &[(&str, &str)]| -> Addresses {
        names.iter().map(|(name, address)| ((*name).to_owned(), (*address).to_owned())).collect()
    };
    SubjobRun {
        number: 7,
        subjob: Subjob {
            coordinator: Peer { name: launch.agent.clone(), address: "10.0.0.1:7450".to_owned() },
            id: SubjobId { launch, number: 0 },
            owner: "alice".parse().unwrap(),
            name: "row".to_owned(),
            tasks: vec![task("one", &["two", "far", "gone"]), task("two", &["one"])],
            procs: Procs(5),
            walltime: Span(60),
            signed: Payload::default(),
            timeout: Span(120),
        },
        listens: addresses(&[("one", "h1:1"), ("two", "h1:2")]),
        peers: addresses(&[("one", "h1:1"), ("two", "h1:2"), ("far", "h2:3")]),
    }
}

#[tokio::test]
async fn each_task_gets_its_name_and_the_addresses_of_its_neighbours() {
    let root = tempfile::tempdir().unwrap();
    let host = Host::for_tests(root.path(), &["/opt/pliant"]);
    let dir = host.subjob_dir(&subjob().subjob.id);
    // The start of the SHA-256 checksum of its key.
    assert_eq!(dir, root.path().join("subjobs/lyon.cc8cd41cef907c4d216069122c4b8993.0"));
    let work = execution::Work::Subjob(Box::new(subjob()));
    let allocation = Allocation::of(&host, Procs(1), 0..1, Span(1));
    let id = ExecutionId::Job(JobId(7));
    let execution = Execution { id, work, dir: dir.clone(), allocation, had_started: false };
    // It was submitted for the time that it may be held as well.
    let execution = execution.with(&host, Procs(5), 0..5, Span(180));
    execution.prepare(&host, &[]).unwrap();
    assert_eq!(host.subjobs(), [(SubjobFolder::of(&subjob().subjob.id), dir.clone())].into());
    let spec: RunSpec = serde_json::from_slice(&fs::read(dir.join("spec.json")).unwrap()).unwrap();
    assert_eq!(spec.program, ["/opt/pliant", "run-tasks", "../tasks.json"]);
    assert_eq!((spec.walltime_s, spec.env["PLIANT_OWNER"].as_str()), (60, "alice"));
    let TaskList::Subjob(written) = TaskList::of(&dir).unwrap() else { panic!("another list") };
    let [one, two] = &written.tasks[..] else { panic!("{written:?}") };
    assert_eq!(one.program, ["../script", "one"]);
    let environment_of = |task: &TaskRun| {
        ["PLIANT_TASK", "PLIANT_ADDRESS", "PLIANT_PEERS", "PLIANT_PROCS"].map(|name| task.env[name].clone())
    };
    // One that is not known to listen anywhere is left out.
    assert_eq!(environment_of(one), ["one", "h1:1", "two=h1:2 far=h2:3", "2"]);
    assert_eq!(environment_of(two), ["two", "h1:2", "one=h1:1", "2"]);
}

#[test]
fn a_supervisor_waits_on_a_node_as_long_as_the_launch() {
    let terms = subjob().reservation();
    assert_eq!((terms.timeout_s, terms.toward.as_str()), (120 + 25, "10.0.0.1:7450"));
    assert_eq!((terms.tasks, subjob().node()), (vec!["one".to_owned(), "two".to_owned()], Some("n1")));
}
