//! Launches as the client verbs show them.

use std::collections::BTreeMap;

use pliant_control::coallocation::{Application, LaunchRecord, TaskRecord, TaskSpec};
use pliant_control::names::Name;
use pliant_model::Time;
use serde_json::{Value, json};

use crate::job::{exit, short};
use crate::table::{Table, decimals};
use crate::time_text::both;

/// Every fact of a launch, for scripts.
pub(crate) fn described(record: &LaunchRecord) -> Value {
    let LaunchRecord { id, owner, name, submitted, state, end, tasks, unacknowledged, .. } = record;
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
    let TaskRecord { name, allocation, affinity, address, exit: ended, not_spawned } = task;
    json!({
        "task": name,
        "server": allocation.as_ref().map(|(server, _)| server),
        "machine": allocation.as_ref().map(|(_, machine)| machine),
        "affinity": affinity,
        "address": address,
        "exit": ended.as_ref().map(exit),
        "not_spawned": not_spawned,
    })
}

/// The machines of the tasks of a launch.
pub(crate) fn mapping(record: &LaunchRecord) -> String {
    tasks(&record.tasks, false)
}

/// The computing requirements of tasks, in MFlop/s.
pub(crate) fn needs(application: &Application) -> BTreeMap<String, f64> {
    let need = |wish: &TaskSpec| (wish.name.clone(), application.mcr_mflops * wish.rcr);
    application.tasks.iter().map(need).collect()
}

/// The mapping of the tasks of a launch: the power that each task needs, the power that its machine has left, and the affinity,
/// which is their ratio (eq. 10).
pub(crate) fn trial(record: &LaunchRecord, needs: &BTreeMap<String, f64>) -> String {
    let mut table = Table::new(3, &["task", "server", "machine", "needs MFlop/s", "of", "affinity"]);
    for TaskRecord { name, allocation, affinity, .. } in &record.tasks {
        let (server, machine) = words(allocation.as_ref());
        let need = needs.get(name).copied();
        let left = need.zip(*affinity).map(|(need, affinity)| need * affinity);
        table.row(vec![
            name.clone(),
            server,
            machine,
            decimals(need, 1),
            decimals(left, 1),
            decimals(*affinity, 2),
        ]);
    }
    table.render()
}

/// The machines of some tasks.
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
        lines.push(("no answer of", servers.join(", ")));
    }
    let mut text = format!("{id}\n");
    lines.into_iter().for_each(|(key, value)| text.push_str(&format!("  {key:<13}{value}\n")));
    text + "\n" + &tasks(&record.tasks, true)
}

fn words(allocation: Option<&(Name, String)>) -> (String, String) {
    match allocation {
        Some((server, machine)) => (server.to_string(), machine.clone()),
        None => ("-".to_owned(), "-".to_owned()),
    }
}

fn tasks(tasks: &[TaskRecord], with_exits: bool) -> String {
    let mut header = vec!["task", "server", "machine", "address"];
    if with_exits {
        header.push("exit");
    }
    let left = header.len();
    header.push("affinity");
    let mut table = Table::new(left, &header);
    for TaskRecord { name, allocation, affinity, address, exit, not_spawned } in tasks {
        let (server, machine) = words(allocation.as_ref());
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
