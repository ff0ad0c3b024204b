//! What jobs may say to an external batch system: an operator's choice.

use pliant_model::{BatchOptions, is_word};
use serde::{Deserialize, Serialize};

/// The partitions, accounts and qualities of service that jobs may name. `*` stands for any.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AllowedOptions {
    /// Partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    /// Accounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
    /// Qualities of service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub qos: Vec<String>,
}

/// Any name.
const ANY: &str = "*";

impl AllowedOptions {
    /// Whether jobs may name nothing.
    pub fn is_empty(&self) -> bool {
        *self == AllowedOptions::default()
    }

    /// The first entry that is neither a name nor `*`, with its key.
    pub fn invalid(&self) -> Option<(&'static str, &str)> {
        let lists = [("partitions", &self.partitions), ("accounts", &self.accounts), ("qos", &self.qos)];
        let entries =
            lists.into_iter().flat_map(|(key, names)| names.iter().map(move |name| (key, name.as_str())));
        entries.into_iter().find(|(_, name)| *name != ANY && !is_word(name))
    }

    /// What of a request is not allowed, for people. It may always name `own` partitions, where jobs are that name none.
    pub(super) fn forbids(&self, options: &BatchOptions, own: Vec<String>) -> Option<String> {
        let mut partitions = own;
        let more = self.partitions.iter().filter(|name| !partitions.contains(name));
        let more: Vec<String> = more.cloned().collect();
        partitions.extend(more);
        let asked = [
            ("partition", "partitions", &partitions, options.partitions.as_slice()),
            ("account", "accounts", &self.accounts, options.account.as_slice()),
            ("QoS", "qos", &self.qos, options.qos.as_slice()),
        ];
        asked.into_iter().find_map(|(what, key, allowed, named)| {
            let is_allowed = |name: &&String| allowed.iter().any(|one| one == ANY || one == *name);
            let name = named.iter().find(|name| !is_allowed(name))?;
            let list = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            Some(format!("jobs may not name {what} {name} here; allowed {key}: {list}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_what_the_operator_lists_may_be_named() {
        let allowed = AllowedOptions {
            partitions: words("gpu long"),
            accounts: words("*"),
            ..AllowedOptions::default()
        };
        let named = |partitions: &str, account: Option<&str>, qos: Option<&str>| BatchOptions {
            partitions: words(partitions),
            account: account.map(str::to_owned),
            qos: qos.map(str::to_owned),
        };
        assert_eq!(allowed.forbids(&BatchOptions::default(), Vec::new()), None);
        assert_eq!(allowed.forbids(&named("long gpu own", Some("p1"), None), words("own")), None);
        let forbidden = |options: &BatchOptions| allowed.forbids(options, Vec::new()).unwrap();
        assert_eq!(
            forbidden(&named("gpu debug", None, None)),
            "jobs may not name partition debug here; allowed partitions: gpu, long"
        );
        assert_eq!(
            forbidden(&named("", None, Some("high"))),
            "jobs may not name QoS high here; allowed qos: none"
        );
        assert_eq!(allowed.invalid(), None);
        let wrong = AllowedOptions { accounts: words("p1 p,2"), ..AllowedOptions::default() };
        assert_eq!(wrong.invalid(), Some(("accounts", "p,2")));
    }
}
