//! Summaries of children: bounds on when work could start on their servers.

use pliant_policy::discovery::{ClusterBounds, GROUPS_MAX, Summary};
use pliant_policy::profile::ClassStarts;
#[cfg(test)]
use proptest::prelude::*;

use super::field::*;
use super::table::{conversions, message};
use super::{Malformed, proto};

message! {
    proto::Summary <=> Summary {
        groups: list(nested(), GROUPS_MAX),
    }

    proto::ClusterBounds <=> ClusterBounds {
        speed: SPEED,
        procs: ANY_PROCS,
        counts_resources,
        starts: optional(nested()),
    }
}

/// By hand: neighbours in the table are often equal, so that their differences take one byte each.
impl HasMessage for ClassStarts {
    type Message = proto::ClassStarts;

    fn to_message(&self) -> proto::ClassStarts {
        let mut before = 0;
        let difference = |entry: &u32| {
            let entry = i64::from(*entry);
            entry - std::mem::replace(&mut before, entry)
        };
        let differences = self.seconds().iter().map(difference).collect();
        proto::ClassStarts { at: TIME.encode(&self.at()), differences }
    }

    fn from_message(message: proto::ClassStarts) -> Result<ClassStarts, Malformed> {
        let at = TIME.decode("at", message.at)?;
        let (length, mut entry) = (message.differences.len(), 0_i64);
        let mut entries = Vec::with_capacity(length.min(ClassStarts::LENGTH_MAX));
        for (index, difference) in message.differences.into_iter().enumerate().take(ClassStarts::LENGTH_MAX) {
            let found = entry.saturating_add(difference);
            let within = u32::try_from(found).map_err(|_| {
                Malformed::new("", format!("seconds from 0 to {}", u32::MAX), found).at("differences", index)
            })?;
            entries.push(within);
            entry = found;
        }
        let (row, most) = (ClassStarts::ROW, ClassStarts::LENGTH_MAX);
        let expected = || format!("1 to {} rows of {row} differences", most / row);
        let table = (length <= most).then(|| ClassStarts::from_seconds(at, entries)).flatten();
        table.ok_or_else(|| Malformed::new("differences", expected(), length))
    }

    #[cfg(test)]
    fn strategy() -> BoxedStrategy<ClassStarts> {
        let entry = prop_oneof![4 => 0..100_000_u32, 1 => any::<u32>()];
        let rows = (1..4_usize)
            .prop_flat_map(move |rows| proptest::collection::vec(entry.clone(), ClassStarts::ROW * rows));
        let table = |(at, entries)| ClassStarts::from_seconds(at, entries).expect("whole rows are a table");
        (TIME.strategy(), rows).prop_map(table).boxed()
    }
}

conversions! { proto::ClassStarts <=> ClassStarts; }
