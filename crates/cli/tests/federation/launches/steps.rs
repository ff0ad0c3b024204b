//! Real `kill -9` at each step of a co-allocation: a daemon ends itself there (`PLIANT_CRASH_AT`, in what is built for
//! tests), is started again, and all tasks run, once each, or none does, and no subjob is left. Clients are killed at
//! every state that they see.

use pliant_transport::Role;

use super::talkers::Talkers;
use super::*;

/// A server that takes subjob.
const SERVER: &str = NAMES[0];

/// Who dies, and where. The events of a server and of the agent about subjobs have one name each: of a server's these
/// are the subjob, where its tasks listen, and what the agent says; of the agent's how subjobs stand, queued, held and so on.
const POINTS: &[(&str, &str)] = &[
    (MASTER, "before-journal.launch"),
    (MASTER, "after-journal.launch"),
    (MASTER, "before-call.list-machines"),
    (MASTER, "after-call.list-machines"),
    (MASTER, "before-journal.machines-listed"),
    (MASTER, "after-journal.machines-listed"),
    (MASTER, "before-call.prepare-subjob"),
    (SERVER, "before-journal.subjob:1"),
    (SERVER, "after-journal.subjob:1"),
    (MASTER, "after-call.prepare-subjob"),
    (SERVER, "before-journal.subjob:2"),
    (SERVER, "after-journal.subjob:2"),
    (SERVER, "before-call.report-subjob"),
    (SERVER, "after-call.report-subjob"),
    (MASTER, "before-journal.subjob-status:1"),
    (MASTER, "after-journal.subjob-status:1"),
    (MASTER, "before-journal.subjob-status:4"),
    (MASTER, "after-journal.subjob-status:4"),
    (MASTER, "before-call.commit-subjob"),
    (SERVER, "before-journal.subjob:4"),
    (SERVER, "after-journal.subjob:4"),
    (MASTER, "after-call.commit-subjob"),
    (MASTER, "after-journal.subjob-status:6"),
];

/// A launch without an answer is sent again under the same key, as the client does.
fn follow(client: Client, request: LaunchRequest) -> tokio::task::JoinHandle<LaunchRecord> {
    tokio::spawn(async move {
        let go_on = |_: &LaunchRecord| ControlFlow::Continue(());
        client.launch(&request, &InputPaths::new(), TIMEOUT, std::future::pending(), go_on).await.unwrap()
    })
}

/// All of it ran, once, or nothing did; or it was ended after it was decided.
fn check(record: &LaunchRecord, talkers: &Talkers, tasks: &[&str], when: &str) {
    let began = talkers.began();
    assert!(began.values().all(|times| *times == 1), "{when}: {began:?}");
    match &record.end {
        Some(LaunchEnd::Completed) => assert_eq!(began.len(), tasks.len(), "{when}"),
        Some(LaunchEnd::NotMapped(_) | LaunchEnd::NotReserved(_)) => {
            assert_eq!(began.len(), 0, "{when}: {record:?}")
        }
        Some(LaunchEnd::Failed(_)) => {}
        other => panic!("{when}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_task_runs_alone_after_a_crash_at_any_step_of_a_launch() {
    // Most of the time is waiting for repeated messages: four federations run at the same time.
    let mut quarters = POINTS.chunks(POINTS.len().div_ceil(4));
    let mut at_a_quarter = || {
        let points = quarters.next().unwrap_or_default();
        async move {
            let mut federation = federation().await;
            let completed = die_at(&mut federation, points).await;
            nothing_left(&mut federation, &NAMES).await;
            completed
        }
    };
    let (one, two, three, four) =
        tokio::join!(at_a_quarter(), at_a_quarter(), at_a_quarter(), at_a_quarter());
    let completed = one + two + three + four;
    assert!(completed > POINTS.len() / 2, "{completed} of {} completed", POINTS.len());
}

/// A launch for each point, at which a daemon is killed; returns how many completed.
pub(super) async fn die_at(federation: &mut Federation, points: &[(&str, &str)]) -> usize {
    let tasks = ["a", "b", "c", "d"];
    let mut completed = 0;
    for (number, (victim, point)) in points.iter().enumerate() {
        let when = format!("{victim} died at {point}");
        let talkers = Talkers::new(federation.path().join(format!("ring-{number}")));
        tasks.iter().for_each(|task| talkers.open(task));
        federation.environment = vec![("PLIANT_CRASH_AT", (*point).to_owned())];
        federation.kill(victim);
        federation.revive(victim);
        federation.environment.clear();
        federation.sized(NAMES.len()).await;
        let request = talkers.ring(MCR, &tasks.map(|task| (task, 0)));
        let following = follow(federation.client("alice"), request);
        until(&format!("{victim} to die at {point}"), async || federation.has_died(victim).then_some(()))
            .await;
        federation.revive(victim);
        let over = format!("the launch to be over after {when}");
        until(&over, async || following.is_finished().then_some(())).await;
        let record = following.await.unwrap();
        check(&record, &talkers, &tasks, &when);
        completed += usize::from(record.end == Some(LaunchEnd::Completed));
        no_process(&talkers).await;
    }
    completed
}

/// The launch of the only user, once there is one.
async fn the_launch(client: &Client, not: &[LaunchId], state: LaunchState) -> LaunchRecord {
    until(&format!("a launch that is {}", state.word()), async || {
        let launches = client.launches(&LaunchesQuery { all: true, limit: 10 }).await.ok()?;
        let record = launches.into_iter().find(|record| !not.contains(&record.id))?;
        assert!(record.state == state || record.state != LaunchState::Over, "{record:?}");
        (record.state == state).then_some(record)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_killed_changes_nothing() {
    let mut federation = federation().await;
    let operator = federation.operator();
    let tasks = ["a", "b", "c", "d"];
    let config = federation.client_file(Role::User, "alice");
    let mut seen = Vec::new();
    for state in [LaunchState::Mapping, LaunchState::Reserving, LaunchState::Running] {
        let talkers = Talkers::new(federation.path().join(state.word()));
        let file = talkers.ring_file(MCR, &tasks.map(|task| (task, 0)));
        // What lasts too short to be seen is held up.
        match state {
            LaunchState::Mapping => federation.suspend(SERVER),
            LaunchState::Reserving => {
                federation.environment = vec![("PLIANT_CRASH_AT", "after-journal.subjob:1".to_owned())];
                federation.kill(SERVER);
                federation.revive(SERVER);
                federation.environment.clear();
                federation.attached(NAMES.len()).await;
            }
            _ => {}
        }
        let mut client = pliant(&config, &["launch", file.to_str().unwrap()]).spawn().unwrap();
        let record = the_launch(&operator, &seen, state).await;
        client.kill().unwrap();
        client.wait().unwrap();
        match state {
            LaunchState::Mapping => federation.go_on(SERVER),
            LaunchState::Reserving => {
                until("the server to die", async || federation.has_died(SERVER).then_some(())).await;
                federation.revive(SERVER);
            }
            _ => {}
        }
        tasks.iter().for_each(|task| talkers.open(task));
        let record = reaches(&operator, &record.id, LaunchState::Over).await;
        check(&record, &talkers, &tasks, state.word());
        no_process(&talkers).await;
        seen.push(record.id);
    }
    nothing_left(&mut federation, &NAMES).await;
}
