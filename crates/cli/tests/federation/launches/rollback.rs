//! Real `kill -9` at each step by which a launch that runs is ended, because a task has failed or because its user cancels it: a
//! daemon ends itself there, is started again, and no task is left running and nothing held.

use pliant_control::coallocation::TaskRecord;

use super::talkers::Talkers;
use super::*;

/// The server that is notified of the end, and the one where a task fails.
const TOLD: &str = NAMES[0];
const FAILING: &str = NAMES[1];

/// Why a launch is ended.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Cause {
    TaskFails,
    UserCancels,
}

use Cause::{TaskFails, UserCancels};

/// Who dies, and where.
type Point = (Cause, &'static str, &'static str);

/// From the first word of the end to the last server that hears of it.
const POINTS: &[Point] = &[
    (TaskFails, FAILING, "before-journal.subjob+task-ended"),
    (TaskFails, FAILING, "after-journal.subjob+task-ended"),
    (TaskFails, MASTER, "before-journal.subjob-status+code"),
    (TaskFails, MASTER, "after-journal.subjob-status+code"),
    (TaskFails, MASTER, "before-call.end-subjob"),
    (TaskFails, TOLD, "before-journal.subjob+end"),
    (TaskFails, TOLD, "after-journal.subjob+end"),
    (TaskFails, MASTER, "after-call.end-subjob"),
    (UserCancels, MASTER, "before-journal.cancel"),
    (UserCancels, MASTER, "after-journal.cancel"),
    (UserCancels, MASTER, "before-call.end-subjob"),
    (UserCancels, TOLD, "before-journal.subjob+end"),
    (UserCancels, TOLD, "after-journal.subjob+end"),
    (UserCancels, MASTER, "after-call.end-subjob"),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_task_is_left_after_a_crash_at_any_step_of_the_end() {
    // Most of the time is waiting for repeated messages: two federations run at the same time.
    let (one, other) = POINTS.split_at(POINTS.len() / 2);
    let at = |points: &'static [Point]| async move {
        let mut federation = federation().await;
        for (number, point) in points.iter().enumerate() {
            die_at(&mut federation, number, point).await;
        }
        nothing_left(&mut federation, &NAMES).await;
    };
    tokio::join!(at(one), at(other));
}

/// A running launch is ended, and a daemon is killed at a step of that.
async fn die_at(federation: &mut Federation, number: usize, (cause, victim, point): &Point) {
    let tasks = ["a", "b", "c", "d"];
    let when = format!("{victim} died at {point}, {cause:?}");
    let talkers = Talkers::new(federation.path().join(format!("ring-{number}")));
    federation.environment = vec![("PLIANT_CRASH_AT", (*point).to_owned())];
    federation.kill(victim);
    federation.revive(victim);
    federation.environment.clear();
    federation.sized(NAMES.len()).await;
    let alice = federation.client("alice");
    let id = launched(&alice, &talkers.ring(MCR, &tasks.map(|task| (task, 3)))).await;
    all_received(&talkers, &tasks).await;
    let record = reaches(&alice, &id, LaunchState::Running).await;
    assert!(!federation.has_died(victim), "{victim} died before the end: {point}");
    let cancelling = match cause {
        TaskFails => {
            let is_there = |task: &&TaskRecord| {
                task.allocation.as_ref().is_some_and(|(server, _)| server.as_str() == FAILING)
            };
            talkers.open(&record.tasks.iter().find(is_there).unwrap().name);
            None
        }
        UserCancels => {
            let (client, id) = (federation.client("alice"), id.clone());
            Some(tokio::spawn(async move {
                while client.cancel_launch(&id).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }))
        }
    };
    until(&format!("{victim} to die at {point}"), async || federation.has_died(victim).then_some(())).await;
    federation.revive(victim);
    let record = reaches(&alice, &id, LaunchState::Over).await;
    match cause {
        TaskFails => assert!(matches!(record.end, Some(LaunchEnd::Failed(_))), "{when}: {record:?}"),
        UserCancels => assert_eq!(record.end, Some(LaunchEnd::Cancelled), "{when}"),
    }
    if let Some(cancelling) = cancelling {
        cancelling.await.unwrap();
    }
    assert_eq!(talkers.began(), tasks.map(|task| (task.to_owned(), 1)).into(), "{when}");
    no_process(&talkers).await;
}
