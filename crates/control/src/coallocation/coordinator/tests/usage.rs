//! The launches of a user are bounded, and their bytes.

use super::*;

/// A launch of a user by a key, with a program of so many bytes that no machine can run.
fn launch(coordinator: &mut Coordinator, now: i64, user: &str, key: u8, bytes: usize) -> Result<(), String> {
    let mut application = row(&[1e9]);
    application.tasks[0].payload = Payload::of(&"x".repeat(bytes));
    let spec = LaunchSpec { key: Key([key; 16]), owner: user.parse().unwrap(), ..launch_spec(application) };
    let mut commands = Vec::new();
    let event = Event::Launch { reply: Token(0), spec: Box::new(spec) };
    coordinator.on(Time(now), event, &mut commands);
    let nowhere = Event::MachinesListed {
        launch: LaunchId { key: Key([key; 16]), ..id() },
        group: 0,
        sites: Vec::new(),
    };
    match commands.pop().unwrap() {
        Command::Answer { answer: Answer::Launch(_), .. } => {
            coordinator.on(Time(now), nowhere, &mut commands)
        }
        Command::Answer { answer: Answer::Refused(why), .. } => return Err(why),
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[test]
fn the_bytes_of_a_users_launches_are_bounded_until_they_are_forgotten() {
    let own = Peer { name: "agent".parse().unwrap(), address: String::new() };
    let mut coordinator = Coordinator::new(CoordinatorConfig { own: own.clone() });
    for key in 0..3 {
        launch(&mut coordinator, 0, "alice", key, 20 << 20).unwrap();
    }
    let why = launch(&mut coordinator, 1, "alice", 3, 20 << 20).unwrap_err();
    assert!(why.contains("this user would have 838") && why.contains("at most 67108864"), "{why}");
    launch(&mut coordinator, 1, "alice", 0, 20 << 20).unwrap();
    launch(&mut coordinator, 1, "bob", 4, 20 << 20).unwrap();
    // Its state counts the same.
    let mut coordinator = Coordinator::from_state(CoordinatorConfig { own }, coordinator.dump(Time(1)));
    launch(&mut coordinator, 2, "alice", 5, 20 << 20).unwrap_err();
    // All have ended, and are forgotten an hour later.
    while let Some(due) = coordinator.next_due() {
        coordinator.on(due, Event::Due, &mut Vec::new());
    }
    assert_eq!(coordinator.records().count(), 0);
    assert_eq!(coordinator.usage, UsageByUser::default());
    launch(&mut coordinator, 10_000, "alice", 6, 60 << 20).unwrap();
}
