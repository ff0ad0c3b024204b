//! A subjob is held once its tasks' input files have come, through `kill -9`; then they find them.

use pliant_client::{InputPaths, InputSender};
use pliant_control::coallocation::{LaunchRecord, LaunchState, TaskRecord, TaskSpec};
use pliant_control::payload::Payload;
use pliant_model::Time;
use pliant_staging::{Checksum, FileSpec};
use pliant_wire::TaskProgram;

use super::*;

/// A launch of which that task is to be held at the server.
fn reserving(subjob: &pliant_control::coallocation::Subjob, task: &str) -> LaunchRecord {
    LaunchRecord {
        id: subjob.id.launch.clone(),
        owner: subjob.owner.clone(),
        name: subjob.name.clone(),
        submitted: Time(0),
        state: LaunchState::Reserving,
        end: None,
        tasks: vec![TaskRecord {
            name: task.to_owned(),
            allocation: Some((LYON.parse().unwrap(), LYON.to_owned())),
            affinity: None,
            address: None,
            exit: None,
            not_spawned: None,
        }],
        unacknowledged: Vec::new(),
        open_subjobs: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subjob_is_held_when_its_input_files_have_come() {
    let mut federation = Federation::start(&[cluster(2)]).await;
    let mut agent = Agent::start(&federation, LYON).await;
    let path = federation.path().join("scene");
    fs::write(&path, "a scene").unwrap();
    let sha256 = Checksum::of(b"a scene");
    let inputs = vec![FileSpec { name: "in/scene.pov".parse().unwrap(), size: 7, sha256 }];
    let mut subjob = agent.subjob(1, LYON, &[("one", shell("cat in/scene.pov"), &[])]);
    let program = subjob.tasks[0].payload.read::<TaskProgram>().unwrap();
    subjob.tasks[0].payload = Payload::of(&TaskProgram { inputs, ..program });
    assert_eq!(agent.prepare(&subjob).await, SubjobState::Queued);
    until("its processors to be taken", async || (agent.machines().await[0].load == 1.0).then_some(())).await;
    assert_eq!(agent.prepare(&subjob).await, SubjobState::Queued, "nothing has come");
    // Only once it has its processors does the server look; it looks again after a restart.
    federation.kill(LYON);
    federation.revive(LYON);
    federation.sized(1).await;
    agent.server = client(&federation, Role::Agent, AGENT, LYON);

    let wish = TaskSpec { name: "one".to_owned(), rcr: 1.0, payload: subjob.tasks[0].payload.clone() };
    let alice = federation.client("alice");
    let paths = InputPaths::from([(sha256, path)]);
    let mut sender = InputSender::new(&alice, subjob.id.launch.key, [&wish], &paths).unwrap();
    let record = reserving(&subjob, "one");
    until("its input file to be sent", async || {
        sender.go_on(&record).unwrap();
        sender.is_done(&record).then_some(())
    })
    .await;
    let addresses = agent.held(&subjob.id).await;
    agent.decide(&subjob.id, SubjobDecision::Commit { peers: addresses }).await;
    assert_eq!(agent.hears(&subjob.id, "is over", how_it_ended).await, Exit::Code(0));
    let folders = folders(&federation, LYON);
    assert_eq!(written(&folders[0], "one"), "a scene");
    all_is_free(&federation, 2).await;
    let missing = InputSender::new(&alice, subjob.id.launch.key, [&wish], &InputPaths::new());
    assert!(missing.is_err_and(|error| error.to_string().contains("in/scene.pov")));
}
