//! `pliant submit --dry-run`: shows the estimates of all servers, and submits nothing.

use pliant_client::{SubmitOrder, without_estimate};
use pliant_control::agent::DiscoveryResult;
use pliant_control::client::refusals;
use pliant_control::estimation_vector::EstimationVector;
use pliant_control::names::Name;
use pliant_control::reason::Reason;
use pliant_model::Time;
use pliant_request::sending::answers;
use pliant_site::services::show_duration;
use serde_json::{Value, json};

use super::submit_refused::refused;
use crate::failure::Failure;
use crate::federation::{Session, interrupted};
use crate::job::estimate;
use crate::output::Output;
use crate::table::{Table, counted};
use crate::time_text::{both, from_now, now};

/// Prints the estimates and refusals. An error as that of the submission if no server takes the job now.
pub(super) fn show(output: Output, session: &Session, order: &SubmitOrder) -> Result<(), Failure> {
    let found = session.run_until_interrupted(session.client.estimates(order));
    let found = found.ok_or_else(|| interrupted("interrupted", "run the same command again"))??;
    let is_taken = !found.vectors.is_empty();
    // For people the error says the same as the document.
    if is_taken || output == Output::Json {
        output.print("estimates", || text(&found, now()), value(&found))?;
    }
    if is_taken {
        return Ok(());
    }
    Err(refused(session, order, without_estimate(order, &found), Some(answers(&found))))
}

fn text(found: &DiscoveryResult, now: Time) -> String {
    let mut heads = vec!["", "server", "start", "completion", "procs", "walltime"];
    let has_partitions = found.vectors.iter().any(|offer| offer.partition.is_some());
    if has_partitions {
        heads.insert(2, "partition");
    }
    let mut offers = Table::new(if has_partitions { 5 } else { 4 }, &heads);
    for (index, EstimationVector { server, estimate, partition, .. }) in found.vectors.iter().enumerate() {
        let start = if estimate.start <= now { "now".to_owned() } else { from_now(estimate.start, now) };
        let mut row = vec![
            if index == 0 { "*".to_owned() } else { String::new() },
            server.to_string(),
            start,
            both(estimate.completion(), now),
            estimate.procs.to_string(),
            show_duration(estimate.walltime),
        ];
        if has_partitions {
            row.insert(2, partition.clone().unwrap_or_default());
        }
        offers.row(row);
    }
    let mut text = offers.render();
    for (server, Reason { why, .. }) in refusals(found) {
        text.push_str(&match server {
            Some(server) => format!("Not {server}: {why}.\n"),
            None => format!("{why}.\n"),
        });
    }
    if !found.down.is_empty() {
        let down: Vec<&str> = found.down.iter().map(Name::as_str).collect();
        text.push_str(&format!("Not {}: not connected.\n", down.join(", ")));
    }
    // Each level of agents passes on the best estimates only.
    let known = u64::from(found.servers.max(found.answered));
    if u64::from(found.answered) > (found.vectors.len() + found.refusals.len()) as u64 {
        let (answered, servers) = (found.answered, counted(known, "server"));
        text.push_str(&format!("{answered} of {servers} answered; the best estimates are listed.\n"));
    }
    if found.not_asked > 0 {
        text.push_str(&format!(
            "Not asked: {}. By what was reported to the agents, none of them could complete it earlier.\n",
            counted(found.not_asked.into(), "server")
        ));
    }
    text
}

fn value(found: &DiscoveryResult) -> Value {
    let offer = |offer: &EstimationVector| {
        let mut value = estimate(&offer.estimate);
        value["server"] = json!(offer.server);
        value["free_procs"] = json!(offer.free);
        value["queue_length"] = json!(offer.queue_length);
        value["partition"] = json!(offer.partition);
        value
    };
    let refusal = |(server, Reason { cause, why }): &(Name, Reason)| json!({ "server": server, "cause": cause.word(), "why": why });
    json!({
        "chosen": found.vectors.first().map(|best| &best.server),
        "estimates": found.vectors.iter().map(offer).collect::<Vec<Value>>(),
        "refusals": found.refusals.iter().map(refusal).collect::<Vec<Value>>(),
        "silent": found.silent,
        "down": found.down,
        "servers": found.servers,
        "answered": found.answered,
        "not_asked": found.not_asked,
    })
}

#[cfg(test)]
mod tests {
    use pliant_control::reason::Cause;
    use pliant_model::{Estimate, Procs, Span, Speed};

    use super::*;

    fn offer(server: &str, start: i64) -> EstimationVector {
        EstimationVector {
            server: server.parse().unwrap(),
            address: String::new(),
            rank: 0,
            estimate: Estimate { procs: Procs(4), walltime: Span(600), start: Time(start) },
            speed: Speed::REFERENCE,
            procs: Procs(8),
            free: Procs(4),
            queue_length: 1,
            partition: None,
        }
    }

    #[test]
    fn estimates_and_refusals_are_listed() {
        let name = |name: &str| -> Name { name.parse().unwrap() };
        let found = DiscoveryResult {
            vectors: vec![offer("lyon", 90), offer("nancy", 400)],
            refusals: vec![(name("paris"), Cause::TooLarge.because("at most 2 processors, found 4"))],
            silent: vec![name("rennes")],
            more: 2,
            down: vec![name("sophia")],
            servers: 120,
            answered: 77,
            not_asked: 40,
            ..DiscoveryResult::default()
        };
        assert_eq!(
            text(&found, Time(100)),
            "   server  start  completion                       procs  walltime\n\
             *  lyon    now    1970-01-01 00:11:30Z (in 9m50s)      4       10m\n\
             \u{20}  nancy   in 5m  1970-01-01 00:16:40Z (in 15m)        4       10m\n\
             Not paris: at most 2 processors, found 4.\n\
             Not rennes: did not answer in time.\n\
             2 more refuse or did not answer.\n\
             Not sophia: not connected.\n\
             77 of 120 servers answered; the best estimates are listed.\n\
             Not asked: 40 servers. By what was reported to the agents, none of them could complete it earlier.\n"
        );
        let in_long = EstimationVector { partition: Some("long".to_owned()), ..offer("paris", 500) };
        let compared = DiscoveryResult {
            vectors: vec![offer("lyon", 90), in_long],
            servers: 2,
            answered: 2,
            ..DiscoveryResult::default()
        };
        assert_eq!(
            text(&compared, Time(100)),
            "   server  partition  start     completion                        procs  walltime\n\
             *  lyon               now       1970-01-01 00:11:30Z (in 9m50s)       4       10m\n\
             \u{20}  paris   long       in 6m40s  1970-01-01 00:18:20Z (in 16m40s)      4       10m\n"
        );
        let value = value(&found);
        assert_eq!((&value["chosen"], &value["estimates"][1]["start_s"]), (&json!("lyon"), &json!(400)));
        assert_eq!(value["refusals"][0]["cause"], "too-large");
    }
}
