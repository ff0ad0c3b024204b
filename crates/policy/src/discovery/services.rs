//! The services of the servers below a child.

use std::collections::BTreeSet;

/// The most services in a summary. Of more, nothing is said.
pub const SERVICES_MAX: usize = 256;

/// The services that some servers have, those that only some users may use among them: hashes of their names, which lead to no names. Two names
/// with the same hash cost a question to a server without the service.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServiceSet {
    /// In their order.
    hashes: BTreeSet<u64>,
}

impl ServiceSet {
    /// The services of these names; none if they are too many.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<ServiceSet> {
        ServiceSet::from_hashes(names.into_iter().map(hash))
    }

    /// A set as it is sent; none if it is too large.
    pub fn from_hashes(hashes: impl IntoIterator<Item = u64>) -> Option<ServiceSet> {
        let set = ServiceSet { hashes: hashes.into_iter().collect() };
        (set.hashes.len() <= SERVICES_MAX).then_some(set)
    }

    /// The hashes, in order.
    pub fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.hashes.iter().copied()
    }

    /// False if none of the servers has the service.
    pub fn may_have(&self, name: &str) -> bool {
        self.hashes.contains(&hash(name))
    }

    /// Those of several children; none if of one of them nothing is known, or if they are too many.
    pub(super) fn joined<'a>(sets: impl IntoIterator<Item = Option<&'a ServiceSet>>) -> Option<ServiceSet> {
        let sets: Option<Vec<&ServiceSet>> = sets.into_iter().collect();
        ServiceSet::from_hashes(sets?.into_iter().flat_map(ServiceSet::hashes))
    }
}

/// FNV-1a: the same in every version and on every machine.
fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_says_which_services_are_nowhere() {
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8, "the published test vector of FNV-1a");
        let [fit, sum] = ["fit", "sum"].map(|name| ServiceSet::of([name]));
        let both = ServiceSet::joined([fit.as_ref(), sum.as_ref()]).unwrap();
        assert!(both.may_have("fit") && both.may_have("sum") && !both.may_have("fits"));
        assert_eq!(ServiceSet::joined([fit.as_ref(), None]), None);
        let many: Vec<String> = (0..=SERVICES_MAX).map(|number| number.to_string()).collect();
        assert!(ServiceSet::of(many[1..].iter().map(String::as_str)).is_some());
        assert_eq!(ServiceSet::of(many.iter().map(String::as_str)), None);
    }
}
