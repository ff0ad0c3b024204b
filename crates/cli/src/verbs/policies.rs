//! `pliant policies`: every name that options and files take, with what it does.

use pliant_policy::batch::REGISTRY;
use pliant_policy::batch::order::ORDERS;
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic};
use pliant_policy::tuning::Tuner;
use pliant_sim::campaign::Moldable;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output::Output;

/// A registry: its title, the option that takes its names, the names with a line each.
type Registry = (&'static str, &'static str, Vec<(&'static str, &'static str)>);

pub(crate) fn run(output: Output) -> Result<(), Failure> {
    let registries = registries();
    output.print("policies", || text(&registries), value(&registries))
}

fn registries() -> Vec<Registry> {
    vec![
        ("Local batch policies", "batch", REGISTRY.iter().map(|one| (one.name, one.summary)).collect()),
        (
            "Queue orders, under fcfs, easy, easy-sjbf and backfill",
            "order",
            ORDERS.iter().map(|one| (one.name, one.summary)).collect(),
        ),
        ("Moldable jobs", "moldable", Moldable::ALL.iter().map(|one| (one.name(), one.summary())).collect()),
        (
            "Tuners of moldable jobs",
            "tuner",
            Tuner::ALL.iter().map(|one| (one.name(), one.summary())).collect(),
        ),
        (
            "Mappings onto clusters",
            "mapping",
            Mapping::ALL.iter().map(|one| (one.name(), of_mapping(*one))).collect(),
        ),
        ("Reallocation of waiting jobs", "realloc", reallocations()),
        (
            "Order of reallocation",
            "heuristic",
            Heuristic::ALL.iter().map(|one| (one.name(), of_heuristic(*one))).collect(),
        ),
    ]
}

fn reallocations() -> Vec<(&'static str, &'static str)> {
    let none = ("none", "waiting jobs stay where they were sent");
    std::iter::once(none).chain(Algorithm::ALL.iter().map(|one| (one.name(), of_algorithm(*one)))).collect()
}

fn of_mapping(mapping: Mapping) -> &'static str {
    match mapping {
        Mapping::Mct => "the cluster that completes the job first",
        Mapping::Random => "drawn among the clusters that can run the job",
        Mapping::Given => "the cluster that the log's user chose",
    }
}

fn of_algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Regular => {
            "moves a job when another cluster completes it earlier by the threshold or more"
        }
        Algorithm::AllCancellation => {
            "cancels every waiting job and submits each again where it completes first"
        }
        Algorithm::NoWorse => "all-cancellation after which no job expects to complete later than before",
        Algorithm::Siblings => {
            "queues siblings of a waiting job on all clusters: the first to start runs it (baseline)"
        }
    }
}

fn of_heuristic(heuristic: Heuristic) -> &'static str {
    match heuristic {
        Heuristic::Mct => "in order of submission",
        Heuristic::MinMin => "the job that can complete first, first",
        Heuristic::MaxMin => "the job that completes last even at its best, first",
        Heuristic::Sufferage => "the job that loses most if it does not get its best cluster, first",
        Heuristic::MaxGain => "the job that gains most over where it is, first",
        Heuristic::MaxRelGain => "the job that gains most per processor, first",
    }
}

fn text(registries: &[Registry]) -> String {
    let width = registries.iter().flat_map(|(.., rows)| rows).map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, option, rows) in registries {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{title} (--{option})\n"));
        for (name, summary) in rows {
            text.push_str(&format!("  {name:width$}  {summary}\n"));
        }
    }
    text
}

fn value(registries: &[Registry]) -> Value {
    let registry = |(_, option, rows): &Registry| {
        let rows = rows.iter().map(|(name, summary)| json!({ "name": name, "summary": summary }));
        ((*option).to_owned(), Value::Array(rows.collect()))
    };
    Value::Object(registries.iter().map(registry).collect::<Map<_, _>>())
}
