//! `[optional]` of a server's file: cores for the requests of explorations.

use std::collections::BTreeMap;

use pliant_control::names::User;
use pliant_control::optional::server::Config;
use pliant_model::SpanMs;
use pliant_model::rng::Draws;
use pliant_policy::optional::{Fairness, Order};
use serde::{Deserialize, Serialize};

/// More cores than any host has.
const CORES_MAX: u32 = 4_096;
/// The heaviest user.
const WEIGHT_MAX: u32 = 1_000;
/// The most mandatory requests that one user may have at a server.
const MANDATORY_MAX: u32 = 1_000_000;
/// The longest grace.
const GRACE_S_MAX: u32 = 86_400;

/// What takes the requests of explorations (paper 004).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionalFile {
    /// Cores: one request runs on each. They are not among the processors of the batch system.
    pub cores: u32,
    /// The order of requests.
    #[serde(default)]
    pub order: OrderFile,
    /// Which user's optional requests come first.
    #[serde(default = "virtual_time")]
    pub fairness: String,
    /// How long a mandatory request may wait for an optional one that is about to complete.
    #[serde(default)]
    pub grace_s: u32,
    /// How many optional requests of a user may be here for each core. If left out one, as in the paper, and two if there are
    /// weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_core: Option<u32>,
    /// How many mandatory requests one user may have here.
    #[serde(default = "mandatory_per_user")]
    pub mandatory_per_user: u32,
    /// How many bytes the requests of one user may have here.
    #[serde(default = "bytes_per_user")]
    pub bytes_per_user: u64,
    /// The same of all users.
    #[serde(default = "bytes")]
    pub bytes: u64,
    /// The first core of this host to bind requests to; none are bound without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_core: Option<u32>,
    /// Whether `pause` is offered, which keeps a core and does nothing.
    #[serde(default)]
    pub pause: bool,
    /// Users who are to get more than others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<User, u32>,
}

/// The order of requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderFile {
    /// Mandatory ones first, then by the usage of their users.
    #[default]
    Fair,
    /// As they came; nothing is ended.
    Fcfs,
}

fn virtual_time() -> String {
    Fairness::VirtualTime.name().to_owned()
}

fn mandatory_per_user() -> u32 {
    1_000
}

fn bytes_per_user() -> u64 {
    64 << 20
}

fn bytes() -> u64 {
    1 << 30
}

impl OptionalFile {
    /// Checks what the types do not.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let between = |key, most: u32, found: u32| match (1..=most).contains(&found) {
            true => Ok(()),
            false => Err((key, format!("expected 1 to {most}, found {found}"))),
        };
        between("optional.cores", CORES_MAX, self.cores)?;
        between("optional.per_core", CORES_MAX, self.per_core())?;
        between("optional.mandatory_per_user", MANDATORY_MAX, self.mandatory_per_user)?;
        if self.grace_s > GRACE_S_MAX {
            return Err(("optional.grace_s", format!("expected 0 to {GRACE_S_MAX}, found {}", self.grace_s)));
        }
        self.weights.values().try_for_each(|weight| between("optional.weights", WEIGHT_MAX, *weight))?;
        self.fairness().map(|_| ())
    }

    fn fairness(&self) -> Result<Fairness, (&'static str, String)> {
        let fairness = self.fairness.parse();
        fairness.map_err(|error: pliant_policy::UnknownName| ("optional.fairness", error.to_string()))
    }

    /// The machine's configuration. Ties are drawn from `seed`.
    pub(crate) fn config(&self) -> Result<Config, (&'static str, String)> {
        let grace = SpanMs(i64::from(self.grace_s) * 1_000);
        let order = match self.order {
            OrderFile::Fair => Order::Fair { fairness: self.fairness()?, grace },
            OrderFile::Fcfs => Order::Fcfs,
        };
        // The clients of the baseline submit all of their requests at once.
        let optional_per_core = (self.order == OrderFile::Fair).then_some(self.per_core());
        Ok(Config {
            order,
            cores: self.cores,
            optional_per_core,
            mandatory_per_user: Some(self.mandatory_per_user),
            bytes_per_user: Some(self.bytes_per_user),
            bytes: Some(self.bytes),
            draws: Draws::new(0, "ties"),
        })
    }

    /// How many optional requests of a user may be here for each core. Of a heavier user the next one has to be here when one
    /// ends, or those of others go first.
    pub fn per_core(&self) -> u32 {
        self.per_core.unwrap_or(if self.weights.is_empty() { 1 } else { 2 })
    }

    /// A user's weight.
    pub(crate) fn weight(&self, user: &User) -> u32 {
        self.weights.get(user).copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavier_user_needs_two_requests_for_each_core() {
        for (table, expected) in [
            ("cores = 4", 1),
            ("cores = 4\n[weights]\nalice = 3", 2),
            ("cores = 4\nper_core = 1\n[weights]\nalice = 3", 1),
            ("cores = 4\nper_core = 5", 5),
        ] {
            let file: OptionalFile = toml::from_str(table).unwrap();
            assert_eq!((file.check(), file.per_core()), (Ok(()), expected), "{table}");
            assert_eq!(file.config().unwrap().optional_per_core, Some(expected), "{table}");
        }
        let file: OptionalFile = toml::from_str("cores = 4\nper_core = 0").unwrap();
        assert_eq!(file.check(), Err(("optional.per_core", "expected 1 to 4096, found 0".to_owned())));
    }
}
