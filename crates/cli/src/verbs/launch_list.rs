//! `pliant launch list`: launches, newest first, or one of them.

use clap::Args;
use pliant_control::coallocation::{LaunchId, LaunchRecord};
use pliant_model::Time;
use pliant_wire::{LaunchesQuery, bounds};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, inform};
use crate::launch_text::{described, facts};
use crate::numbers::whole;
use crate::output::Output;
use crate::table::Table;
use crate::time_text::{from_now, now};

/// The most launches of one answer.
const LAST_MAX: u32 = bounds::JOBS_MAX as u32;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A launch ID: shows this launch in detail.
    #[arg(value_name = "LAUNCH", conflicts_with_all = ["all", "last"])]
    launch: Option<LaunchId>,
    /// Lists the launches of all users (operators only).
    #[arg(long)]
    all: bool,
    /// How many launches are listed, the newest first.
    #[arg(long, value_name = "N", default_value_t = bounds::JOBS_DEFAULT, value_parser = whole(1..=LAST_MAX))]
    last: u32,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    if let Some(id) = &arguments.launch {
        let record = session.run(session.client.find_launch(id))?;
        return output.print(
            "launch-list",
            || facts(&record, now()),
            json!({ "launches": [described(&record)] }),
        );
    }
    let query = LaunchesQuery { all: arguments.all, limit: arguments.last };
    let launches = session.run(session.client.launches(&query))?;
    let value = json!({ "launches": launches.iter().map(described).collect::<Vec<Value>>() });
    output.print("launch-list", || table(&launches, arguments.all, now()), value)?;
    if launches.is_empty() {
        inform(|| "no launches".to_owned());
    }
    Ok(())
}

fn table(launches: &[LaunchRecord], owners: bool, now: Time) -> String {
    let mut header = vec!["launch", "name", "state", "submitted", "end", "tasks"];
    if owners {
        header.insert(1, "owner");
    }
    let mut table = Table::new(header.len() - 1, &header);
    for LaunchRecord { id, owner, name, submitted, state, end, tasks, .. } in launches {
        let mut row = vec![
            id.to_string(),
            name.clone(),
            state.word().to_owned(),
            from_now(*submitted, now),
            end.as_ref().map_or("-", |end| end.word()).to_owned(),
            tasks.len().to_string(),
        ];
        if owners {
            row.insert(1, owner.to_string());
        }
        table.row(row);
    }
    table.render()
}
