use std::collections::BTreeMap;

use pliant_control::listing::{CoreLayout, ListedJob, NodeAllocation, Phase, State, Status, WaitReason};
use pliant_model::{Mebibytes, Span, Time};
use serde_json::{Value, json};

use crate::accounts::Account;
use crate::batch_system::PrintedJobs;
use crate::batch_system::submitter::{Submitter, Submitters};
use crate::oar::jobs;
use crate::oar::requested::{self, Size, Wanted};
use crate::oar::resources::Resources;
use crate::oar::settings::{NodeProperties, Settings};

const OARSTAT: &str = include_str!("captured/oarstat.json");
const OARNODES: &str = include_str!("captured/oarnodes.json");

fn who() -> Submitter<String> {
    Submitter {
        prefix: "pliant:x:".to_owned(),
        user: "pliant-jobs".to_owned(),
        accounts: Submitters::default(),
    }
}

fn resources() -> Resources {
    Resources::read(OARNODES, Time(0), &Settings::default()).unwrap()
}

fn listed() -> BTreeMap<String, ListedJob> {
    let PrintedJobs { jobs, unread } = jobs::read(OARSTAT, &who(), &resources()).unwrap();
    assert_eq!(unread, [""; 0]);
    jobs.into_iter().map(|job| (job.id.clone(), job)).collect()
}

/// One captured job, changed.
fn changed(id: &str, changes: &[(&str, Value)]) -> ListedJob {
    let mut job = serde_json::from_str::<Value>(OARSTAT).unwrap()[id].clone();
    for (key, value) in changes {
        job[*key] = value.clone();
    }
    let text = json!({ id: job }).to_string();
    jobs::read(&text, &who(), &resources()).unwrap().jobs.pop().unwrap()
}

#[test]
fn nodes_with_their_cores() {
    let found = resources();
    let nodes: Vec<(&str, u32, &Option<String>)> =
        found.nodes.iter().map(|node| (node.name.as_str(), node.cores, &node.unusable)).collect();
    assert_eq!(nodes, [("node1", 2, &None), ("node2", 2, &None)]);
    assert_eq!(found.node_names[&3], "node2");
    assert_eq!(found.size(), Size { nodes: 2, node_cores: 2, cores: 4 });

    // What is broken, drained, asleep, or no processor.
    let check = |changes: &[(&str, &str, Value)], expected: &[(&str, u32, Option<&str>)]| {
        let mut all: Value = serde_json::from_str(OARNODES).unwrap();
        for (id, key, value) in changes {
            all[*id][*key] = value.clone();
        }
        let found = Resources::read(&all.to_string(), Time(1_000), &Settings::default()).unwrap();
        let nodes: Vec<(&str, u32, Option<&str>)> = found
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), node.cores, node.unusable.as_deref()))
            .collect();
        assert_eq!(nodes, expected, "{changes:?}");
    };
    let two = ("node2", 2, None);
    check(&[("1", "state", json!("Suspected"))], &[("node1", 1, None), two]);
    let dead = [("1", "state", json!("Dead")), ("2", "state", json!("Dead"))];
    check(&dead, &[("node1", 2, Some("dead")), two]);
    let drained = [("1", "drain", json!("YES")), ("2", "drain", json!("YES"))];
    check(&drained, &[("node1", 2, Some("drained")), two]);
    let until = |time: &str| {
        ["1", "2"].map(|id| [(id, "state", json!("Absent")), (id, "available_upto", json!(time))]).concat()
    };
    check(&until("1001"), &[("node1", 2, None), two]);
    check(&until("1000"), &[("node1", 2, Some("absent")), two]);
    check(&[("1", "type", json!("licence"))], &[("node1", 1, None), two]);
}

#[test]
fn jobs_as_they_were_meant() {
    let jobs = listed();
    let allocation = |node: &str, cores| NodeAllocation::new(node, Some(cores));
    let running = &jobs["1"];
    assert_eq!((running.job_number, &running.state), (Some(1), &State::Running));
    // Of the two sizes that it was submitted with OAR took the larger one.
    assert_eq!((running.shape.cores, running.walltime), (2, Some(Span(600))));
    assert_eq!(running.allocations, [allocation("node1", 2)]);
    assert_eq!(running.started, Some(Time(1_795_290_484)));

    let local = &jobs["2"];
    assert_eq!(
        (local.job_number, &local.state, &*local.allocations),
        (None, &State::Running, &[allocation("node2", 2)][..])
    );

    let waiting = &jobs["3"];
    assert_eq!((waiting.job_number, &waiting.state), (Some(2), &State::Pending));
    // Of three sizes the largest is planned.
    assert_eq!((waiting.shape.cores, waiting.walltime), (4, Some(Span(600))));
    assert_eq!(waiting.planned.as_ref().map(|plan| plan.start), Some(Time(1_795_291_086)));
    assert_eq!((waiting.started, &*waiting.allocations, &waiting.wait_reason), (None, &[][..], &None));

    assert_eq!(jobs["4"].wait_reason, None, "what it waits for is in its plan");
    assert_eq!(
        (jobs["5"].job_number, jobs["5"].phase()),
        (None, Phase::Waiting),
        "a name that nothing can break"
    );
    assert_eq!((&jobs["6"].state, &jobs["6"].planned), (&State::Held, &None));
    assert!(!jobs.contains_key("10"), "a job that gives way to all is in no other's way");
    let nodes = CoreLayout { cores: 2, nodes: Some(1), exclusive: true };
    assert_eq!(jobs["11"].shape, nodes, "a whole node");
    let reserved = &jobs["12"];
    assert_eq!(reserved.wait_reason, Some(WaitReason::Time(Time(1_795_297_704))));
}

#[test]
fn how_jobs_ended() {
    let jobs = listed();
    let check = |id: &str, state: State, status: Option<Status>, ran: bool| {
        let job = &jobs[id];
        assert_eq!((&job.state, job.status, job.ever_started()), (&state, status, ran), "{id}");
        assert_eq!((job.phase(), job.started.is_some()), (Phase::Ended, ran), "{id}");
    };
    check("13", State::Failed, Some(Status::Code(3)), true);
    check("14", State::TimedOut, None, true);
    check("15", State::Failed, Some(Status::Signal(9)), true);
    check("16", State::Completed, Some(Status::Code(0)), true);
    assert_eq!((jobs["19"].shape.cores, jobs["19"].walltime), (2, Some(Span(600))), "the size that it had");
    // Its folder was not there.
    check("17", State::Failed, None, true);
    check("18", State::Cancelled, None, false);
    check("19", State::Cancelled, None, true);
}

#[test]
fn every_state_is_known() {
    let check = |word: &str, expected: State| {
        assert_eq!(changed("1", &[("state", json!(word))]).state, expected, "{word}");
    };
    check("Waiting", State::Pending);
    check("Hold", State::Held);
    check("toLaunch", State::Configuring);
    check("toError", State::Failed);
    check("toAckReservation", State::Pending);
    check("Launching", State::Configuring);
    check("Running", State::Running);
    check("Suspended", State::Suspended);
    check("Resuming", State::Suspended);
    check("Finishing", State::Completing);
    check("Terminated", State::Completed);
    check("Error", State::Failed);
}

#[test]
fn what_is_not_understood_is_an_error_and_never_a_guess() {
    let check = |key: &str, value: &str, expected: &str| {
        let mut job = serde_json::from_str::<Value>(OARSTAT).unwrap()["1"].clone();
        job[key] = json!(value);
        let read = |job: &Value| jobs::read(&json!({ "1": job }).to_string(), &who(), &resources());
        (job["name"], job["job_user"]) = (json!("pliant:x:1"), json!("pliant-jobs"));
        assert_eq!(read(&job).unwrap_err().to_string(), expected);
        job["name"] = json!("local");
        let others = read(&job).unwrap();
        assert_eq!((others.jobs.len(), others.unread), (0, vec![expected.to_owned()]));
    };
    check("state", "Other", "oarstat: job 1, state: expected a state of a job, found `Other`");
    let wanted = "oarstat: job 1, wanted_resources: expected resources and walltimes, found `-l \\\"4\\\"`";
    check("wanted_resources", "-l \"4\"", wanted);
}

/// An account can submit an own job with the tag of a job of its own here, and ask for anything.
#[test]
fn a_job_of_an_account_that_asks_for_anything_stops_no_listing() {
    let accounts = Submitters::through("/no/such/launcher".into(), true);
    accounts.note(1, Account { name: "alice".parse().unwrap(), uid: 1001 }).unwrap();
    let who = Submitter { accounts, ..who() };
    let mut job = serde_json::from_str::<Value>(OARSTAT).unwrap()["1"].clone();
    (job["name"], job["job_user"]) = (json!("pliant:x:1"), json!("alice"));
    for wanted in [r#"-l "{network_address != '{'}/resource_id=1,walltime=0:1:0" "#, "-l \"4\"", "}{"] {
        job["wanted_resources"] = json!(wanted);
        let queue = jobs::read(&json!({ "1": job }).to_string(), &who, &resources()).unwrap();
        assert_eq!((queue.jobs[0].job_number, queue.unread), (Some(1), Vec::new()), "{wanted}");
    }
}

#[test]
fn what_oar_may_submit_anew_is_not_over() {
    let event = |to_check: &str| json!([{ "type": "PING_CHECKER_NODE_SUSPECTED", "to_check": to_check }]);
    let undecided = changed("1", &[("state", json!("Error")), ("events", event("YES"))]);
    assert_eq!((undecided.state, undecided.job_number), (State::Requeued, Some(1)));
    let decided = changed("1", &[("state", json!("Error")), ("events", event("NO"))]);
    assert_eq!(decided.state, State::NodeFailed);
}

#[test]
fn only_tagged_jobs_of_the_own_user_count_as_the_servers() {
    let check = |name: Value, user: &str, expected: Option<u32>| {
        assert_eq!(changed("1", &[("name", name), ("job_user", json!(user))]).job_number, expected);
    };
    check(json!("pliant:x:1"), "pliant-jobs", Some(1));
    check(json!("pliant:x:1"), "mallory", None);
    check(json!("pliant:x:01"), "pliant-jobs", None);
    check(json!("pliant:xx:1"), "pliant-jobs", None);
    check(json!(null), "pliant-jobs", None);
}

#[test]
fn what_is_not_understood() {
    let read = |text: &str| jobs::read(text, &who(), &resources());
    for nothing in ["", "\n", "null", "{}"] {
        assert_eq!(read(nothing).unwrap(), PrintedJobs::default());
    }
    assert!(read("{").unwrap_err().to_string().starts_with("oarstat: its output: expected"));
    let broken = |name: &str| {
        read(&json!({ "1": { "name": name, "job_user": "pliant-jobs", "state": 7 } }).to_string())
    };
    // A job of this server that is left out would count as gone.
    assert!(broken("pliant:x:1").unwrap_err().to_string().starts_with("oarstat: job 1: expected"));
    let others = broken("local").unwrap();
    assert_eq!((others.jobs.len(), others.unread.len()), (0, 1));
}

#[test]
fn licences_are_no_cores() {
    let settings =
        Settings { licences: vec!["matlab".to_owned(), "ansys".to_owned()], ..Settings::default() };
    let mut all: Value = serde_json::from_str(OARNODES).unwrap();
    for (id, kind, state) in
        [(5, "matlab", "Alive"), (6, "matlab", "Alive"), (7, "matlab", "Dead"), (8, "disk", "Alive")]
    {
        all[id.to_string()] = json!({"resource_id": id, "type": kind, "state": state, "network_address": "", "available_upto": 0});
    }
    let resources = Resources::read(&all.to_string(), Time(0), &settings).unwrap();
    let expected = [("ansys".to_owned(), 0), ("matlab".to_owned(), 2)].into();
    assert_eq!((resources.licences.clone(), resources.nodes.len()), (expected, 2));

    let one = |text: &str| requested::read(text, resources.size()).unwrap().remove(0);
    let wanted = one(
        r#"-l "{type = 'default'}/resource_id=4+{(gpu = 'no') AND type='matlab'}/resource_id=2+{mytype = 'a'}/host=1,walltime=0:10:0" "#,
    );
    assert_eq!((wanted.cores, wanted.others), (6, [("matlab".to_owned(), 2)].into()));

    // One that runs has what it was given.
    let mut jobs: Value = serde_json::from_str(OARSTAT).unwrap();
    let (id, running) =
        jobs.as_object_mut().unwrap().iter_mut().find(|(_, job)| job["state"] == "Running").unwrap();
    let id = id.clone();
    running["assigned_resources"] = json!([1, 2, 5, 8]);
    running["assigned_network_address"] = json!(["node1"]);
    let found = jobs::read(&jobs.to_string(), &who(), &resources).unwrap().jobs;
    let found = found.into_iter().find(|job| job.id == id).unwrap();
    let held = [("disk".to_owned(), 1), ("matlab".to_owned(), 1)].into();
    assert_eq!((found.shape.cores, found.requested.licences), (2, held));
    assert_eq!(found.allocations[0].cores, Some(2));
}

#[test]
fn what_jobs_ask_for() {
    let size = Size { nodes: 3, node_cores: 8, cores: 20 };
    type Plain = (u32, Option<u32>, bool, i64);
    let check = |text: &str, expected: Option<&[Plain]>| {
        let found = requested::read(text, size);
        let found = found.map(|all| {
            let plain = |one: &Wanted| {
                assert!(one.others.is_empty(), "{text}");
                (one.cores, one.nodes, one.exclusive, one.walltime.0)
            };
            all.iter().map(plain).collect::<Vec<Plain>>()
        });
        assert_eq!(found.as_deref(), expected, "{text}");
    };
    check("", Some(&[]));
    check(
        r#"-l "{type = 'default'}/resource_id=4,walltime=0:10:0" -l "{type = 'default'}/resource_id=2,walltime=0:15:30" "#,
        Some(&[(4, None, false, 600), (2, None, false, 930)]),
    );
    check(r#"-l "/network_address=2/resource_id=3,walltime=1:0:0" "#, Some(&[(6, Some(2), false, 3600)]));
    check(r#"-l "/host=2,walltime=1:0:0" "#, Some(&[(16, Some(2), true, 3600)]));
    check(r#"-l "/switch=1/host=2/core=4,walltime=1:0:0" "#, Some(&[(8, Some(2), false, 3600)]));
    check(
        r#"-l "{cluster = 'a/b,walltime=' AND -l \""}/host=1+{x}/resource_id=2,walltime=0:0:1" "#,
        Some(&[(10, Some(1), true, 1)]),
    );
    check(r#"-l "/host=ALL,walltime=1:0:0" "#, Some(&[(24, Some(3), true, 3600)]));
    check(r#"-l "/resource_id=BEST,walltime=1:0:0" "#, Some(&[(20, None, false, 3600)]));
    check(r#"-l "/resource_id=BESTHALF,walltime=1:0:0" "#, Some(&[(20, None, false, 3600)]));
    check(
        r#"-l "{network_address != '{' AND \"}\" = 1}/resource_id=1,walltime=0:1:0" "#,
        Some(&[(1, None, false, 60)]),
    );
    check(r#"-l "/host=1/resource_id=ALL,walltime=1:0:0" "#, Some(&[(8, Some(1), false, 3600)]));
    // More nodes than there are numbers for.
    check(
        r#"-l "/host=4294967295/resource_id=1+/host=4294967295/resource_id=1,walltime=1:0:0" "#,
        Some(&[(u32::MAX, Some(u32::MAX), false, 3600)]),
    );
    check(r#"-l "/resource_id=x,walltime=1:0:0" "#, None);
    check(r#"-l "/resource_id=1" "#, None);
}

#[test]
fn nodes_have_what_the_named_properties_say() {
    let mut all: Value = serde_json::from_str(OARNODES).unwrap();
    for (id, key, value) in [
        ("2", "memnode", json!(8192)),
        ("2", "gpu_count", json!("2")),
        ("2", "gpu_model", json!("A100")),
        ("2", "scratch_mb", json!(30_000)),
        ("2", "disktype", json!("SSD")),
        ("2", "ib", json!("YES")),
        ("4", "memnode", json!("4096")),
        ("4", "disktype", json!("")),
        ("4", "ib", json!("NO")),
    ] {
        all[id][key] = value;
    }
    let named = |name: &str| Some(name.to_owned());
    let properties = NodeProperties {
        memory: named("memnode"),
        gpus: named("gpu_count"),
        gpu_kind: named("gpu_model"),
        scratch: named("scratch_mb"),
        features: ["disktype", "ib"].map(str::to_owned).to_vec(),
    };
    let with = |node: &NodeProperties| Settings { node: node.clone(), ..Settings::default() };
    let read = Resources::read(&all.to_string(), Time(0), &with(&properties)).unwrap();
    assert!(read.unread.is_empty(), "{:?}", read.unread);
    let nodes = read.nodes;
    let [first, second] = nodes.as_slice() else { panic!("{nodes:?}") };
    assert_eq!((first.memory, first.gpus, first.gpu_kind.as_deref()), (Mebibytes(8192), 2, Some("A100")));
    assert_eq!((first.scratch, second.scratch), (Mebibytes(30_000), Mebibytes::ZERO));
    assert_eq!(first.features, ["SSD", "ib"]);
    assert_eq!((second.memory, second.gpus, second.gpu_kind.as_deref()), (Mebibytes(4096), 0, None));
    assert!(second.features.is_empty());
    all["4"]["memnode"] = json!("much");
    let misspelt = NodeProperties { gpus: named("gpu_cuont"), ..properties };
    let read = Resources::read(&all.to_string(), Time(0), &with(&misspelt)).unwrap();
    let [name, amount] = read.unread.as_slice() else { panic!("{:?}", read.unread) };
    assert!(amount.contains("memnode") && amount.contains("much"), "{amount}");
    assert!(name.contains("gpu_cuont") && name.contains("[cluster.oar.node]"), "{name}");
    let memory: Vec<Mebibytes> = read.nodes.iter().map(|node| node.memory).collect();
    assert_eq!(memory, [Mebibytes(8192), Mebibytes::ZERO], "the other node keeps its own");
}
