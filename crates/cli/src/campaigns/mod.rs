//! How each kind of campaign is shown; the verbs do the same with all of them.

mod mapping;
mod multi_job;
mod simulations;
mod warnings;

use pliant_sim::campaign::Results;
use serde_json::{Map, Value, json};

use crate::failure::Failure;

pub(crate) use warnings::Warnings;

/// The results of a campaign as they are shown.
pub(crate) trait View {
    /// Fails if the results say that the campaign makes no sense.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// What users have to know of the results.
    fn warn(&self, _warnings: &mut Warnings) {}

    /// Further facts of the campaign: a line, and keys for scripts.
    fn summary(&self) -> (String, Value) {
        (String::new(), json!({}))
    }

    /// What the tables show.
    fn caption(&self) -> String;

    /// The tables.
    fn text(&self) -> String;

    /// Everything, as keys for scripts.
    fn value(&self) -> Value;

    /// The HTML page.
    fn page(&self) -> String;

    /// The page's figure as an SVG file.
    fn figure(&self) -> Result<String, Failure> {
        Err(Failure::input("expected a campaign of simulations for --figure").hint("leave --figure out"))
    }
}

/// The results as they are shown.
pub(crate) fn view(results: &Results) -> &dyn View {
    match results {
        Results::Simulations(results) => results,
        Results::Mapping(results) => results,
        Results::MultiJob(results) => results,
    }
}

/// The keys of both objects; the first one has precedence.
pub(crate) fn joined(first: Value, second: Value) -> Value {
    let keys = |value| if let Value::Object(keys) = value { keys } else { Map::new() };
    let mut all = keys(second);
    all.extend(keys(first));
    Value::Object(all)
}
