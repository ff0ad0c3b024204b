//! Launches as the client verbs show them: one place for their words and their keys.

use pliant_control::coallocation::{LaunchRecord, TaskRecord};
use pliant_model::Time;
use serde_json::{Value, json};

use crate::job::{exit, short};
use crate::moment::both;
use crate::table::{Table, decimals};

/// Every fact of a launch, for scripts.
pub(crate) fn described(record: &LaunchRecord) -> Value {
    let LaunchRecord { id, owner, name, submitted, state, end, tasks, unacknowledged } = record;
    json!({
        "launch": id.to_string(),
        "agent": id.agent,
        "key": id.key,
        "name": name,
        "owner": owner,
        "state": state.word(),
        "outcome": end.as_ref().map(|end| end.word()),
        "why": end.as_ref().map(ToString::to_string),
        "submitted_s": submitted,
        "tasks": tasks.iter().map(task).collect::<Vec<Value>>(),
        "unacknowledged": unacknowledged,
    })
}

fn task(task: &TaskRecord) -> Value {
    let TaskRecord { name, place, affinity, address, exit: ended, not_spawned } = task;
    json!({
        "task": name,
        "server": place.as_ref().map(|(server, _)| server),
        "machine": place.as_ref().map(|(_, machine)| machine),
        "affinity": affinity,
        "address": address,
        "exit": ended.as_ref().map(exit),
        "not_spawned": not_spawned,
    })
}

/// Where the tasks of a launch are.
pub(crate) fn mapping(record: &LaunchRecord) -> String {
    tasks(&record.tasks, false)
}

/// Where some of them are.
pub(crate) fn mapping_of(some: &[TaskRecord]) -> String {
    tasks(some, false)
}

/// Every fact of a launch, for people.
pub(crate) fn facts(record: &LaunchRecord, now: Time) -> String {
    let LaunchRecord { id, owner, name, submitted, state, end, unacknowledged, .. } = record;
    let mut lines = vec![
        ("state", state.word().to_owned()),
        ("name", name.clone()),
        ("owner", owner.to_string()),
        ("submitted", both(*submitted, now)),
    ];
    if let Some(end) = end {
        lines.push(("end", end.to_string()));
    }
    if !unacknowledged.is_empty() {
        let servers: Vec<&str> = unacknowledged.iter().map(|server| server.as_str()).collect();
        lines.push(("not heard of", servers.join(", ")));
    }
    let mut text = format!("{id}\n");
    lines.into_iter().for_each(|(key, value)| text.push_str(&format!("  {key:<13}{value}\n")));
    text + "\n" + &tasks(&record.tasks, true)
}

fn tasks(tasks: &[TaskRecord], with_exits: bool) -> String {
    let mut header = vec!["task", "server", "machine", "address"];
    if with_exits {
        header.push("exit");
    }
    let left = header.len();
    header.push("affinity");
    let mut table = Table::new(left, &header);
    for TaskRecord { name, place, affinity, address, exit, not_spawned } in tasks {
        let (server, machine) = match place {
            Some((server, machine)) => (server.to_string(), machine.clone()),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let address = address.clone().unwrap_or_else(|| "-".to_owned());
        let mut row = vec![name.clone(), server, machine, address];
        if with_exits {
            row.push(if not_spawned.is_some() { "not spawned".to_owned() } else { short(exit.as_ref()) });
        }
        row.push(decimals(*affinity, 2));
        table.row(row);
    }
    table.render()
}
