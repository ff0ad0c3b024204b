//! `pliant servers`: the servers of the federation, what they offer, and how good their estimates were.

use clap::Args;
use pliant_client::{Client, ClientError};
use pliant_control::names::Name;
use pliant_model::{Span, Time};
use pliant_wire::{
    Accuracy, AccuracyQuery, Federation, Offer, OfferedArgument, OfferedService, ServerStatus, bounds,
};
use serde_json::{Value, json};

use super::{servers_accuracy, servers_certificates, servers_links, servers_runtimes};
use crate::failure::Failure;
use crate::federation::{Access, Session};
use crate::numbers::whole;
use crate::output::Output;
use crate::table::Table;
use crate::time_text::{both, now, rough};

/// The tolerated difference between the clocks of this machine and the agent, in seconds.
const CLOCK_APART_S: u64 = 5;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Shows the errors of estimates, by quantile.
    #[arg(long)]
    accuracy: bool,
    /// With --accuracy: how many of the last jobs of each server count.
    #[arg(long, value_name = "N", requires = "accuracy", default_value_t = bounds::ACCURACY_JOBS_DEFAULT,
        value_parser = whole(1..=bounds::ACCURACY_JOBS_MAX))]
    last: u32,
    /// With --accuracy: for how many of the last days it is shown by day.
    #[arg(long, value_name = "N", requires = "accuracy", default_value_t = 7,
        value_parser = whole(0..=bounds::PROMISE_DAYS_MAX))]
    days: u32,
    /// Shows the services of each server, with their arguments.
    #[arg(long)]
    services: bool,
    /// Shows what is known of the runtimes of services, from completed jobs.
    #[arg(long)]
    runtimes: bool,
    /// Shows the measured speed of links between servers.
    #[arg(long)]
    links: bool,
    #[command(flatten)]
    access: Access,
}

/// The services of a server, or why they are not known.
type OfferAnswer = (Name, Result<Offer, String>);

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let federation = session.run(session.client.servers())?;
    let asked_at = now();
    let own_until = session.client.certificate_not_after();
    let accuracy = match arguments.accuracy {
        true => Some(
            session
                .run(session.client.accuracy(AccuracyQuery { last: arguments.last, days: arguments.days }))?,
        ),
        false => None,
    };
    let offers = arguments.services.then(|| offers(&session, &federation));
    let runtimes = match arguments.runtimes {
        true => Some(session.run(session.client.runtimes())?),
        false => None,
    };
    let links = match arguments.links {
        true => Some(session.run(session.client.links())?),
        false => None,
    };
    let text = || {
        let accuracy = accuracy.as_deref().map(|accuracy| servers_accuracy::text(accuracy, arguments.last));
        let offers = offers.as_deref().map(offers_text);
        let runtimes = runtimes.as_ref().map(servers_runtimes::text);
        let links = links.as_deref().map(|links| servers_links::text(links, asked_at));
        let sections: Vec<String> = accuracy.into_iter().chain(offers).chain(runtimes).chain(links).collect();
        match sections.is_empty() {
            true => {
                federation_text(&federation, asked_at)
                    + &servers_certificates::text(&federation, own_until, asked_at)
            }
            false => sections.join("\n"),
        }
    };
    let mut value = value(&federation, accuracy.as_deref(), offers.as_deref());
    value["own_certificate_not_after_s"] = json!(own_until);
    if let Some(runtimes) = &runtimes {
        value["runtimes"] = servers_runtimes::value(runtimes);
    }
    if let Some(links) = &links {
        value["links"] = servers_links::value(links);
    }
    output.print("servers", text, value)
}

/// Asks every connected server.
fn offers(session: &Session, federation: &Federation) -> Vec<OfferAnswer> {
    let there: Vec<&ServerStatus> = federation.servers.iter().filter(|server| server.attached).collect();
    let mut offers: Vec<OfferAnswer> = Vec::with_capacity(there.len());
    let ask = |client: Client, (name, address): (Name, String)| async move {
        let offer = client.offer(&name, &address).await;
        // One failure does not hide the others.
        Ok::<OfferAnswer, ClientError>((name, offer.map_err(|error| error.to_string())))
    };
    let whom = there.iter().map(|server| (server.info.name.clone(), server.info.address.clone()));
    session.run(session.each(whom, ask, |_, offered| offers.extend(offered.ok())));
    offers.sort_by(|(first, _), (second, _)| first.cmp(second));
    offers
}

fn value(federation: &Federation, accuracy: Option<&[Accuracy]>, offers: Option<&[OfferAnswer]>) -> Value {
    let server = |server: &ServerStatus| {
        let info = &server.info;
        let mut value = json!({
            "name": info.name,
            "address": info.address,
            "rank": info.rank,
            "procs": info.procs,
            "free_procs": server.free,
            "speed": info.speed.get(),
            "policy": info.policy,
            "via": server.via,
            "attached": server.attached,
            "drained": server.drained,
            "queued": server.queued,
            "active": server.active,
            "clock_ahead_s": server.clock_ahead,
            "certificate_not_after_s": server.certificate_not_after,
            "scripts": info.scripts,
            "services": info.services.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        });
        if let Some(offers) = offers {
            let own = offers.iter().find(|(name, _)| *name == info.name);
            let offer = own.and_then(|(_, offer)| offer.as_ref().ok());
            value["offer"] = json!(offer.map(offer_value));
            value["offers_to_others"] = json!(offer.map(|offer| offer.hidden));
        }
        if let Some(accuracy) = accuracy {
            let own = accuracy.iter().find(|one| one.server == info.name);
            value["accuracy"] = json!(own.map(servers_accuracy::value));
        }
        value
    };
    let agents = federation.agents.iter().map(|agent| {
        json!({
            "name": agent.name,
            "attached": agent.attached,
            "since_s": agent.since,
            "clock_ahead_s": agent.clock_ahead,
            "certificate_not_after_s": agent.certificate_not_after,
        })
    });
    json!({
        "servers": federation.servers.iter().map(server).collect::<Vec<Value>>(),
        "agents": agents.collect::<Vec<Value>>(),
        "certificate_not_after_s": federation.certificate_not_after,
    })
}

fn offer_value(offer: &Offer) -> Value {
    let argument = |argument: &OfferedArgument| {
        json!({
            "name": argument.name,
            "takes": argument.takes,
            "required": argument.required,
            "default": Some(&argument.default).filter(|default| !default.is_empty()),
        })
    };
    let service = |service: &OfferedService| {
        json!({
            "name": service.name,
            "summary": service.summary,
            "speedup": service.speedup,
            "arguments": service.arguments.iter().map(argument).collect::<Vec<Value>>(),
            "for_others": service.for_others,
            "resources": Some(&service.resources).filter(|resources| !resources.is_empty()),
            "signature": Some(&service.signature).filter(|signature| !signature.is_empty()),
            "resident": service.resident,
        })
    };
    offer.services.iter().map(service).collect()
}

fn federation_text(federation: &Federation, now: Time) -> String {
    let header = [
        "server", "state", "via", "policy", "procs", "free", "speed", "rank", "active", "queued", "services",
    ];
    let mut table = Table::new(4, &header);
    for ServerStatus { info, via, attached, queued, active, free, drained, .. } in &federation.servers {
        table.row(vec![
            info.name.to_string(),
            state(*attached, *drained).to_owned(),
            // A server that is attached to the agent itself.
            if *via == info.name { "-".to_owned() } else { via.to_string() },
            info.policy.clone(),
            info.procs.to_string(),
            free.map_or_else(|| "-".to_owned(), |free| free.to_string()),
            info.speed.get().to_string(),
            info.rank.to_string(),
            active.to_string(),
            queued.to_string(),
            info.services.len().to_string(),
        ]);
    }
    let mut text = table.render();
    for agent in federation.agents.iter().filter(|agent| !agent.attached) {
        text.push_str(&format!("agent {} is down since {}\n", agent.name, both(agent.since, now)));
    }
    text + &clocks_text(federation, now)
}

/// The column `state` of a server.
fn state(attached: bool, drained: bool) -> &'static str {
    match (attached, drained) {
        (false, _) => "down",
        (true, true) => "drained",
        (true, false) => "up",
    }
}

/// A line for each clock that differs. `now` is the time of this machine.
fn clocks_text(federation: &Federation, now: Time) -> String {
    let line = |whose: &str, ahead: Span| {
        let way = if ahead.0 > 0 { "ahead of" } else { "behind" };
        format!("the clock of {whose} is {} {way} the agent's\n", rough(Span(ahead.0.saturating_abs())))
    };
    let servers = federation.servers.iter().map(|server| (server.info.name.to_string(), server.clock_ahead));
    let agents = federation.agents.iter().map(|agent| (format!("agent {}", agent.name), agent.clock_ahead));
    let own =
        federation.now.map(|theirs| now - theirs).filter(|ahead| ahead.0.unsigned_abs() > CLOCK_APART_S);
    let apart = servers.chain(agents).chain([("this machine".to_owned(), own)]);
    apart.filter_map(|(whose, ahead)| Some(line(&whose, ahead?))).collect()
}

/// Servers with the same services share an entry.
fn offers_text(offers: &[OfferAnswer]) -> String {
    let mut groups: Vec<(Vec<&str>, &Result<Offer, String>)> = Vec::new();
    for (name, offer) in offers {
        match groups.iter_mut().find(|(_, same)| *same == offer) {
            Some((names, _)) => names.push(name.as_str()),
            None => groups.push((vec![name.as_str()], offer)),
        }
    }
    let group = |(names, offer): &(Vec<&str>, &Result<Offer, String>)| {
        let names = names.join(", ");
        match offer {
            Ok(offer) => format!("{names}\n{}", offer_text(offer)),
            Err(why) => format!("{names}\n  cannot be asked: {why}\n"),
        }
    };
    groups.iter().map(group).collect::<Vec<_>>().join("\n")
}

fn offer_text(offer: &Offer) -> String {
    let mut text = String::new();
    for service in &offer.services {
        let OfferedService { name, summary, speedup, arguments, for_others, resources, signature, resident } =
            service;
        let summary = if summary.is_empty() { String::new() } else { format!(": {summary}") };
        let whose = if *for_others { ", for other users" } else { "" };
        text.push_str(&format!("  {name}{summary} ({speedup}{whose})\n"));
        if !resources.is_empty() {
            text.push_str(&format!("    needs {resources}\n"));
        }
        if !signature.is_empty() {
            let how = if *resident { " by a resident process" } else { "" };
            text.push_str(&format!("    called with values{how}: {signature}\n"));
        }
        let width = arguments.iter().map(|argument| argument.name.chars().count()).max().unwrap_or(0);
        for OfferedArgument { name, takes, required, default } in arguments {
            let absent = match (required, default.as_str()) {
                (true, _) => ", required".to_owned(),
                (false, "") => String::new(),
                (false, default) => format!(", by default {default}"),
            };
            text.push_str(&format!("    {name:<width$}  {takes}{absent}\n"));
        }
    }
    if offer.hidden > 0 {
        text.push_str(&format!("  ({} more for other users)\n", offer.hidden));
    }
    text.push_str(if offer.scripts { "  takes scripts\n" } else { "  takes no scripts\n" });
    text
}

#[cfg(test)]
mod tests {
    use pliant_wire::AgentStatus;

    use super::*;

    #[test]
    fn servers_with_the_same_services_share_an_entry() {
        let argument = |name: &str, required, default: &str| OfferedArgument {
            name: name.to_owned(),
            takes: "an integer".to_owned(),
            required,
            default: default.to_owned(),
        };
        let pi = OfferedService {
            name: "pi".to_owned(),
            summary: "estimates pi".to_owned(),
            speedup: "amdahl:0.99,64".to_owned(),
            arguments: vec![argument("samples", true, ""), argument("seed", false, "1")],
            for_others: false,
            resources: "2G per processor, 1 GPU".to_owned(),
            ..OfferedService::default()
        };
        let dna = OfferedService {
            name: "dna".to_owned(),
            speedup: "rigid".to_owned(),
            for_others: true,
            signature: "in int n, out double v[n]".to_owned(),
            resident: true,
            ..OfferedService::default()
        };
        let offer = |services: &[OfferedService], scripts| {
            Ok(Offer { services: services.to_vec(), scripts, hidden: 0 })
        };
        let name = |text: &str| text.parse::<Name>().unwrap();
        let offers = [
            (name("lyon"), offer(std::slice::from_ref(&pi), true)),
            (name("nancy"), offer(&[], false).map(|offer| Offer { hidden: 2, ..offer })),
            (name("nice"), Err("no answer".to_owned())),
            (name("rennes"), offer(&[pi], true)),
            (name("tours"), offer(&[dna], false)),
        ];
        let expected = "\
lyon, rennes
  pi: estimates pi (amdahl:0.99,64)
    needs 2G per processor, 1 GPU
    samples  an integer, required
    seed     an integer, by default 1
  takes scripts

nancy
  (2 more for other users)
  takes no scripts

nice
  cannot be asked: no answer

tours
  dna (rigid, for other users)
    called with values by a resident process: in int n, out double v[n]
  takes no scripts
";
        assert_eq!(offers_text(&offers), expected);
    }

    #[test]
    fn a_drained_server_is_shown_as_such_while_it_is_up() {
        let states = [(true, false), (true, true), (false, false), (false, true)];
        let shown = states.map(|(attached, drained)| state(attached, drained));
        assert_eq!(shown, ["up", "drained", "down", "down"]);
    }

    #[test]
    fn only_clocks_that_differ_are_reported() {
        let agent = |name: &str, ahead: Option<i64>| AgentStatus {
            name: name.parse().unwrap(),
            attached: true,
            since: Time(0),
            clock_ahead: ahead.map(Span),
            certificate_not_after: None,
        };
        let agents = vec![agent("paris", None), agent("nice", Some(3600)), agent("lyon", Some(-63))];
        let federation = Federation { agents, now: Some(Time(1000)), ..Federation::default() };
        let nice = "the clock of agent nice is 1h ahead of the agent's\n";
        let lyon = "the clock of agent lyon is 1m3s behind the agent's\n";
        assert_eq!(clocks_text(&federation, Time(1005)), format!("{nice}{lyon}"));
        let own = "the clock of this machine is 6s behind the agent's\n";
        assert_eq!(clocks_text(&federation, Time(994)), format!("{nice}{lyon}{own}"));
        assert_eq!(clocks_text(&Federation::default(), Time(994)), "", "an agent of an earlier version");
    }
}
