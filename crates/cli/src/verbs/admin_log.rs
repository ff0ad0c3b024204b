//! `pliant admin log`: the audit trail of servers and agents.

use clap::Args;
use pliant_client::Client;
use pliant_control::names::Name;
use pliant_wire::AuditEntry;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, inform, none_failed};
use crate::output::{Output, print_bytes};
use crate::table::Table;
use crate::time_text::moment;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The servers, or agents of the client's file [default: these agents, and the servers that are up].
    #[arg(value_name = "NAME")]
    servers: Vec<Name>,
    /// Prints one JSON object on a line for each record, to be kept elsewhere.
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    access: Access,
}

/// A record with its server.
struct Located {
    server: Name,
    entry: AuditEntry,
}

pub(super) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let servers = if arguments.servers.is_empty() { up(&session)? } else { arguments.servers.clone() };
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    let ask = |client: Client, server: Name| async move { client.audit_trail(&server, usize::MAX).await };
    session.run(session.each(servers.clone(), ask, |index, answer| match answer {
        Ok(entries) => {
            let located = |entry| Located { server: servers[index].clone(), entry };
            records.extend(entries.into_iter().map(located));
        }
        Err(error) => errors.push(error),
    }));
    records.sort_by(|one, other| key(one).cmp(&key(other)));
    if arguments.lines {
        let lines: String = records.iter().map(|record| format!("{}\n", described(record))).collect();
        print_bytes(lines.as_bytes())?;
    } else {
        let value = json!({ "records": records.iter().map(described).collect::<Vec<Value>>() });
        output.print("admin-log", || table(&records), value)?;
    }
    if records.is_empty() && errors.is_empty() {
        inform(|| "no records".to_owned());
    }
    none_failed(errors)
}

/// The agents of the client's file, and the servers that are up.
fn up(session: &Session) -> Result<Vec<Name>, Failure> {
    let federation = session.run(session.client.servers())?;
    let attached = federation.servers.into_iter().filter(|server| server.attached);
    Ok(session.client.agents().cloned().chain(attached.map(|server| server.info.name)).collect())
}

/// The order of records: by time, and those of one server by their numbers.
fn key(record: &Located) -> (i64, &Name, u64) {
    (record.entry.at.0, &record.server, record.entry.number)
}

fn described(record: &Located) -> Value {
    let Located { server, entry: AuditEntry { number, at, by, act, job, user, why } } = record;
    json!({
        "server": server, "number": number, "at_s": at.0, "by": by, "act": act, "job": job, "user": user, "why": why,
    })
}

fn table(records: &[Located]) -> String {
    let mut table = Table::new(6, &["time", "server", "by", "act", "of", "why"]);
    for Located { server, entry } in records {
        let job = entry.job.as_ref().map(ToString::to_string);
        let subject = job.or_else(|| entry.user.as_ref().map(ToString::to_string)).unwrap_or_default();
        table.row(vec![
            moment(entry.at),
            server.to_string(),
            entry.by.clone(),
            entry.act.clone(),
            subject,
            entry.why.clone(),
        ]);
    }
    table.render()
}
