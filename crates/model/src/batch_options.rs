//! What a request says to the batch system of a cluster.

use std::fmt;

/// Where a request runs within a cluster, and who pays for it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct BatchOptions {
    /// Partitions (queues): it runs in the one where it completes first. Empty leaves them to the cluster.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub partitions: Vec<String>,
    /// The account that is charged. None leaves it to the cluster.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub account: Option<String>,
    /// Its quality of service. None leaves it to the cluster.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub qos: Option<String>,
}

impl BatchOptions {
    /// Whether everything is left to the cluster.
    pub fn is_empty(&self) -> bool {
        *self == BatchOptions::default()
    }
}

/// As in listings: `partition gpu or long, account p1, QoS high`. Empty if everything is left to the cluster.
impl fmt::Display for BatchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.partitions.is_empty() {
            parts.push(format!("partition {}", self.partitions.join(" or ")));
        }
        parts.extend(self.account.as_ref().map(|account| format!("account {account}")));
        parts.extend(self.qos.as_ref().map(|qos| format!("QoS {qos}")));
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_named_in_one_line() {
        assert!(BatchOptions::default().is_empty());
        let options = BatchOptions {
            partitions: vec!["gpu".to_owned(), "long".to_owned()],
            account: Some("p1".to_owned()),
            qos: Some("high".to_owned()),
        };
        assert_eq!(options.to_string(), "partition gpu or long, account p1, QoS high");
    }
}
