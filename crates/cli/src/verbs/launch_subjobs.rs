//! `pliant launch subjobs`: lists the subjobs of launches at servers, and ends subjobs whose agent is gone.

use clap::Args;
use pliant_client::{Client, ClientError};
use pliant_control::coallocation::LaunchId;
use pliant_control::names::Name;
use pliant_control::server::ListedSubjob;
use pliant_model::Span;
use pliant_wire::HeldSubjobs;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, inform, none_failed};
use crate::output::Output;
use crate::table::Table;
use crate::time_text::rough;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Lists the subjobs of this server only.
    #[arg(long, value_name = "NAME")]
    server: Option<Name>,
    /// Ends the subjobs of this launch (operators only). A launch that has started fails.
    #[arg(long, value_name = "LAUNCH", requires = "server")]
    end: Option<LaunchId>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let servers = match &arguments.server {
        Some(server) => vec![server.clone()],
        None => there(&session)?,
    };
    let ask = |client: Client, server: Name| async move { client.held_subjobs(&server).await };
    let mut answers: Vec<(Name, Result<HeldSubjobs, ClientError>)> = Vec::new();
    session.run(session.each(servers.clone(), ask, |index, answer| {
        answers.push((servers[index].clone(), answer));
    }));
    answers.sort_by(|one, other| one.0.cmp(&other.0));
    let (mut held, mut errors) = (Vec::new(), Vec::new());
    for (server, answer) in answers {
        match answer {
            Ok(HeldSubjobs { now, subjobs }) => held.extend(subjobs.into_iter().map(|subjob| {
                let (since, last_contact) = (now - subjob.since, now - subjob.last_contact);
                LocatedSubjob { server: server.clone(), subjob, since, last_contact }
            })),
            Err(error) => errors.push(error),
        }
    }
    if let Some(launch) = &arguments.end {
        held.retain(|held| held.subjob.id.launch == *launch);
        none_failed(errors)?;
        return end(output, &session, launch, &held);
    }
    output.print(
        "launch-subjobs",
        || table(&held),
        json!({ "subjobs": held.iter().map(described).collect::<Vec<Value>>() }),
    )?;
    if held.is_empty() && errors.is_empty() {
        inform(|| "no subjobs".to_owned());
    }
    none_failed(errors)
}

/// A subjob with its server.
struct LocatedSubjob {
    server: Name,
    subjob: ListedSubjob,
    /// The time since its last change of state.
    since: Span,
    /// The time since the last message of its agent.
    last_contact: Span,
}

/// The connected servers.
fn there(session: &Session) -> Result<Vec<Name>, Failure> {
    let federation = session.run(session.client.servers())?;
    Ok(federation
        .servers
        .into_iter()
        .filter(|server| server.attached)
        .map(|server| server.info.name)
        .collect())
}

fn end(output: Output, session: &Session, launch: &LaunchId, held: &[LocatedSubjob]) -> Result<(), Failure> {
    if held.is_empty() {
        return Err(Failure::input(format!("{launch} has no subjobs at these servers"))
            .hint("`pliant launch subjobs` lists the subjobs of all servers"));
    }
    let (mut ended, mut text) = (Vec::new(), String::new());
    for LocatedSubjob { server, subjob, .. } in held {
        let state = session.run(session.client.give_up_subjob(server, &subjob.id))?;
        let what = if state.is_over() { "is ended" } else { "is being ended" };
        text.push_str(&format!("{} at {server} {what}\n", subjob.id));
        ended.push(json!({ "server": server, "subjob": subjob.id.number, "state": state.word() }));
    }
    output.print("launch-subjobs", || text, json!({ "launch": launch.to_string(), "ended": ended }))
}

fn described(held: &LocatedSubjob) -> Value {
    let LocatedSubjob { server, subjob, since, last_contact } = held;
    json!({
        "server": server,
        "launch": subjob.id.launch.to_string(),
        "subjob": subjob.id.number,
        "agent": subjob.id.launch.agent,
        "name": subjob.name,
        "owner": subjob.owner,
        "state": state(subjob),
        "tasks": subjob.tasks,
        "procs": subjob.procs,
        "since_s": since,
        "last_contact_s": last_contact,
    })
}

fn state(subjob: &ListedSubjob) -> &'static str {
    if subjob.ending { "ending" } else { subjob.state.word() }
}

fn table(held: &[LocatedSubjob]) -> String {
    let header =
        ["server", "launch", "subjob", "name", "owner", "state", "for", "last contact", "tasks", "procs"];
    let mut table = Table::new(8, &header);
    for LocatedSubjob { server, subjob, since, last_contact } in held {
        table.row(vec![
            server.to_string(),
            subjob.id.launch.to_string(),
            subjob.id.number.to_string(),
            subjob.name.clone(),
            subjob.owner.to_string(),
            state(subjob).to_owned(),
            rough(*since),
            format!("{} ago", rough(*last_contact)),
            subjob.tasks.to_string(),
            subjob.procs.to_string(),
        ]);
    }
    table.render()
}
