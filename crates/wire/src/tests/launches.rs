//! Messages about launches that do not say what they should.

use std::collections::BTreeMap;

use pliant_control::coallocation::{Application, LaunchRecord, Machine, Subjob, SubjobId};

use super::super::proto::{self, prepare_subjob, program, subjob_decision, subjob_state};
use super::super::{
    DecidedSubjob, LaunchRequest, LaunchesQuery, SpawnRequest, SubjobReport, TaskDownload, bounds,
    launch_answer, listed_machines, machines_reply,
};
use super::samples::{
    ADDRESS, EMPTY, FIRST_LINE, KEY, NAME, NOTHING, PRINTABLE, PROCS, WALLTIME, call, check, signed_tasks,
};
use super::sent;

const TASK: &str =
    "the name of a task, 1 to 64 letters, digits and `. _ -` of which the first is a letter or digit";
const ABOVE_0: &str = "a number above 0";

fn id() -> proto::LaunchId {
    proto::LaunchId { agent: "lyon".to_owned(), key: vec![1; 16] }
}

fn subjob_id() -> proto::SubjobId {
    proto::SubjobId { launch: Some(id()), number: 3 }
}

fn service() -> Option<proto::Program> {
    Some(proto::Program { what: Some(program::What::Service(call(&[]))) })
}

fn wish(name: &str) -> proto::TaskSpec {
    proto::TaskSpec { name: name.to_owned(), rcr: 2.0, program: service(), inputs: Vec::new() }
}

fn launch() -> proto::LaunchRequest {
    let application = proto::Application {
        mcr_mflops: 100.0,
        bandwidth_mbps: Some(1.0),
        tasks: vec![wish("source"), wish("sink")],
        edges: vec![proto::TaskEdge { one: 0, other: 1, rqoc: 1.0 }],
    };
    proto::LaunchRequest {
        key: vec![2; 16],
        name: "row".to_owned(),
        application: Some(application),
        walltime_s: 60,
        timeout_s: 10,
        signed: Some(signed_tasks()),
        ..proto::LaunchRequest::default()
    }
}

fn of_application(launch: &mut proto::LaunchRequest) -> &mut proto::Application {
    launch.application.as_mut().expect("it was made with one")
}

#[test]
fn launches_of_clients() {
    type Damage = fn(&mut proto::LaunchRequest);
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|launch| launch.key.clear(), "key", KEY, "0 bytes"),
        (|launch| launch.name = "a\nb".into(), "name", PRINTABLE, "`a\\nb`"),
        (|launch| launch.application = None, "application", "an application", NOTHING),
        (|launch| launch.walltime_s = 0, "walltime_s", WALLTIME, "0"),
        (|launch| launch.timeout_s = 86_401, "timeout_s", "seconds from 1 to 86400", "86401"),
        (|launch| launch.user_lan = "a b".into(), "user_lan", NAME, "`a b`"),
        (|launch| launch.mapping = 4, "mapping", "0 (wase), 1 (best-fit), 2 (random) or 3 (refined)", "4"),
        (|launch| launch.threshold = Some(f64::NAN), "threshold", "a number from 0 to 1", "NaN"),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, LaunchRequest>(launch(), damage, field, expected, found);
    }
}

#[test]
fn applications() {
    type Damage = fn(&mut proto::Application);
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|application| application.mcr_mflops = 0.0, "mcr_mflops", ABOVE_0, "0"),
        (|application| application.bandwidth_mbps = Some(-1.0), "bandwidth_mbps", ABOVE_0, "-1"),
        (|application| application.tasks[1].name = "../x".into(), "tasks[1].name", TASK, "`../x`"),
        (|application| application.tasks[1].name = "a b".into(), "tasks[1].name", TASK, "`a b`"),
        (|application| application.tasks[1].rcr = f64::INFINITY, "tasks[1].rcr", ABOVE_0, "inf"),
        (
            |application| application.tasks[0].program = None,
            "tasks[0].program",
            "a service or a script",
            NOTHING,
        ),
        (
            |application| {
                let script = program::Script { name: "x".into(), text: "echo".into(), ..Default::default() };
                let what = Some(program::What::Script(script));
                application.tasks[0].program = Some(proto::Program { what });
            },
            "tasks[0].program.script.text",
            FIRST_LINE,
            "`echo`",
        ),
        (
            |application| application.tasks[1].inputs = vec![proto::InputFile::default()],
            "tasks[1].inputs[0].name",
            "a file name that is not empty",
            EMPTY,
        ),
        (|application| application.edges[0].rqoc = 0.0, "edges[0].rqoc", ABOVE_0, "0"),
        (
            |application| application.edges[0].other = 2,
            "edges[0].other",
            "the position of one of 2 tasks, from 0",
            "2",
        ),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, Application>(of_application(&mut launch()).clone(), damage, field, expected, found);
    }
    let many = vec![wish("a"); bounds::TASKS_MAX + 1];
    let damage = |application: &mut proto::Application| application.tasks = many;
    let right = of_application(&mut launch()).clone();
    check::<_, Application>(right, damage, "tasks", "at most 10000 items", "10001");
}

#[test]
fn tasks_that_are_spawned() {
    type Damage = fn(&mut proto::SpawnRequest);
    let neighbours = vec![proto::spawn_request::Neighbour { task: "source".to_owned(), rqoc: 1.0 }];
    let more =
        vec![proto::spawn_request::Spawned { task: Some(wish("newer")), neighbours: neighbours.clone() }];
    let right = proto::SpawnRequest {
        launch: Some(id()),
        key: vec![1; 16],
        task: Some(wish("new")),
        neighbours,
        more,
        signed: Some(signed_tasks()),
    };
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|spawn| spawn.launch = None, "launch", "a launch", NOTHING),
        (|spawn| spawn.launch.as_mut().unwrap().agent.clear(), "launch.agent", NAME, EMPTY),
        (|spawn| spawn.key = vec![1; 17], "key", KEY, "17 bytes"),
        (|spawn| spawn.task = None, "task", "a task", NOTHING),
        (|spawn| spawn.neighbours[0].task.clear(), "neighbours[0].task", TASK, EMPTY),
        (|spawn| spawn.signed = None, "signed", "the user's signature for the tasks", NOTHING),
        (|spawn| spawn.more[0].task = None, "more[0].task", "a task", NOTHING),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, SpawnRequest>(right.clone(), damage, field, expected, found);
    }
}

#[test]
fn records() {
    type Damage = fn(&mut proto::Launch);
    let task = proto::LaunchedTask { name: "source".to_owned(), ..Default::default() };
    let right = proto::Launch {
        id: Some(id()),
        owner: "alice".to_owned(),
        state: 3,
        tasks: vec![task],
        ..proto::Launch::default()
    };
    const HOW: &str = "completed, mapped, not_mapped, not_reserved, cancelled or failed";
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|launch| launch.state = 0, "state", "the state of a launch, from 1 to 5", "0"),
        (|launch| launch.state = 6, "state", "the state of a launch, from 1 to 5", "6"),
        (|launch| launch.end = Some(proto::launch::End { how: None }), "end", HOW, NOTHING),
        (|launch| launch.tasks[0].address = "here".into(), "tasks[0].address", ADDRESS, "`here`"),
        (
            |launch| launch.tasks[0].affinity = Some(-1.0),
            "tasks[0].affinity",
            "a number from 0 to 1000000000000000000",
            "-1",
        ),
        (|launch| launch.unacknowledged = vec![String::new()], "unacknowledged[0]", NAME, EMPTY),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, LaunchRecord>(right.clone(), damage, field, expected, found);
    }
    let nothing = launch_answer(proto::LaunchReply { answer: None }).unwrap_err();
    assert_eq!(nothing.to_string(), "expected a launch or a refusal, found nothing");
    let many = proto::LaunchesRequest { all: true, limit: 1001 };
    assert_eq!(LaunchesQuery::try_from(many).unwrap_err().field, "limit");
    assert_eq!(LaunchesQuery::try_from(proto::LaunchesRequest::default()).unwrap().limit, 100);
}

#[test]
fn subjobs() {
    type Damage = fn(&mut proto::PrepareSubjob);
    let task = prepare_subjob::PlacedTask {
        name: "source".to_owned(),
        program: service(),
        machine: "node-1".to_owned(),
        neighbours: vec!["sink".to_owned()],
        inputs: Vec::new(),
    };
    let right = proto::PrepareSubjob {
        id: Some(subjob_id()),
        coordinator: "10.0.0.1:7450".to_owned(),
        owner: "alice".to_owned(),
        name: "row".to_owned(),
        tasks: vec![task],
        procs: 2,
        walltime_s: 60,
        timeout_s: 10,
        signed: Some(signed_tasks()),
    };
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|subjob| subjob.id = None, "id", "a subjob", NOTHING),
        (|subjob| subjob.id.as_mut().unwrap().launch = None, "id.launch", "a launch", NOTHING),
        (|subjob| subjob.coordinator.clear(), "coordinator", ADDRESS, EMPTY),
        (|subjob| subjob.tasks.clear(), "tasks", "at least one task", NOTHING),
        (|subjob| subjob.tasks[0].machine.clear(), "tasks[0].machine", "a machine", EMPTY),
        (|subjob| subjob.tasks[0].neighbours[0].push('='), "tasks[0].neighbours[0]", TASK, "`sink=`"),
        (|subjob| subjob.procs = 0, "procs", PROCS, "0"),
        (|subjob| subjob.signed = None, "signed", "the user's signature for the tasks", NOTHING),
        (|subjob| subjob.timeout_s = 0, "timeout_s", "seconds from 1 to 86400", "0"),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, Subjob>(right.clone(), damage, field, expected, found);
    }
}

#[test]
fn what_clients_fetch_of_tasks() {
    type Damage = fn(&mut proto::TaskDownload);
    let of = proto::LaunchTask { launch: Some(id()), task: "source".to_owned() };
    let right = proto::TaskDownload { of: Some(of), result: "work/out.txt".to_owned(), offset: 7 };
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|download| download.of = None, "of", "a task of a launch", NOTHING),
        (|download| download.of.as_mut().unwrap().launch = None, "of.launch", "a launch", NOTHING),
        (|download| download.of.as_mut().unwrap().task = "..".into(), "of.task", TASK, "`..`"),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, TaskDownload>(right.clone(), damage, field, expected, found);
    }
}

#[test]
fn subjob_states_and_decisions() {
    let addresses = |name: &str, address: &str| BTreeMap::from([(name.to_owned(), address.to_owned())]);
    let held = |name: &str, address: &str| {
        let addresses = addresses(name, address);
        let state = Some(subjob_state::State::Prepared(subjob_state::Prepared { addresses }));
        proto::SubjobReport { id: Some(subjob_id()), state: Some(proto::SubjobState { state }) }
    };
    let nothing = proto::SubjobReport { id: Some(subjob_id()), state: None };
    let over = subjob_state::State::Over(subjob_state::Over::default());
    let over = proto::SubjobState { state: Some(over) };
    let over = proto::SubjobReport { id: Some(subjob_id()), state: Some(over) };
    let cases = [
        (nothing, "state", "the state of the subjob", NOTHING),
        (held("a/b", "host:1"), "state.prepared.addresses", TASK, "`a/b`"),
        (held("a", "host"), "state.prepared.addresses[a]", ADDRESS, "`host`"),
        (over, "state.over.exit", "how it ended", NOTHING),
    ];
    for (message, field, expected, found) in cases {
        check::<_, SubjobReport>(held("a", "host:1"), |stands| *stands = message, field, expected, found);
    }
    let peers = addresses("sink", "host:99999");
    let commit = subjob_decision::Decision::Commit(subjob_decision::Commit { peers });
    let decided = |decision| proto::DecideSubjob {
        id: Some(subjob_id()),
        decision: Some(proto::SubjobDecision { decision, end_acknowledged: false }),
    };
    let right = || decided(Some(subjob_decision::Decision::End(true)));
    let cases = [
        (None, "decision", "undecided, commit or end", NOTHING),
        (Some(commit), "decision.commit.peers[sink]", ADDRESS, "`host:99999`"),
    ];
    for (decision, field, expected, found) in cases {
        let damage = |message: &mut proto::DecideSubjob| *message = decided(decision);
        check::<_, (SubjobId, DecidedSubjob)>(right(), damage, field, expected, found);
    }
}

#[test]
fn machines() {
    let machine = Machine { name: "node".to_owned(), power_mflops: 1e4, procs: 4, load: 0.5 };
    type Change = fn(&mut proto::LaunchMachine);
    let cases: [(Change, &str, &str, &str); 4] = [
        (|machine| machine.name.clear(), "name", "the name of a machine", EMPTY),
        (|machine| machine.procs = 0, "procs", PROCS, "0"),
        (|machine| machine.load = 1.5, "load", "a share from 0 to 1", "1.5"),
        (
            |machine| machine.power_mflops = f64::NAN,
            "power_mflops",
            "MFlop/s from 0.001 to 1000000000000000",
            "NaN",
        ),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, Machine>((&machine).into(), damage, field, expected, found);
    }
    // What was measured badly does not end the line.
    let wild = Machine { power_mflops: f64::NAN, load: f64::INFINITY, procs: 0, ..machine };
    let read = listed_machines(sent(&machines_reply(&[wild]))).unwrap().remove(0);
    assert_eq!((read.power_mflops, read.load, read.procs), (1e-3, 1.0, 1));
}
