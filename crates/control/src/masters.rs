//! Masters side by side: which of them has the jobs of a user.
//!
//! Each user belongs to one master, by a rendezvous hash of both names (Thaler and Ravishankar, "Using name-based mappings to increase
//! hit rates", IEEE/ACM Transactions on Networking 6(1), 1998): every process that knows the set finds the same master without asking
//! anything, and a master that is added to *n* others takes over 1/(n + 1) of the users of each and moves no other user.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use pliant_model::Owner;

use crate::names::{Name, User};

/// The names of all masters of a federation, in order. None: it has one master, and its name does not matter.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Masters(Vec<Name>);

/// The jobs that belong to one master.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MasterShare {
    masters: Masters,
    own: Option<Name>,
}

impl Masters {
    /// Masters of these names. One alone, or none, has the jobs of all users.
    pub fn new(names: impl IntoIterator<Item = Name>) -> Masters {
        let names: BTreeSet<Name> = names.into_iter().collect();
        Masters(if names.len() > 1 { names.into_iter().collect() } else { Vec::new() })
    }

    /// True if there are several.
    pub fn are_several(&self) -> bool {
        !self.0.is_empty()
    }

    /// The masters in the order in which a user looks for one: first the one that has the user's jobs. Empty if there is one only.
    pub fn order(&self, user: &User) -> Vec<&Name> {
        let mut order: Vec<&Name> = self.0.iter().collect();
        order.sort_by_cached_key(|master| Reverse(weight(master, user.owner())));
        order
    }

    /// The master that has the jobs of a user; none if there is one only.
    fn of(&self, user: Owner) -> Option<&Name> {
        self.0.iter().max_by_key(|master| weight(master, user))
    }

    /// What one of them has.
    pub fn share(&self, own: &Name) -> MasterShare {
        MasterShare { masters: self.clone(), own: Some(own.clone()).filter(|_| self.are_several()) }
    }

    /// The number of a journal for the parents: with other masters it counts as another journal, of which each of them gets all that it
    /// has to have now.
    pub fn journal(&self, journal: u64) -> u64 {
        self.0.iter().fold(journal, |journal, name| mix(journal ^ Owner::named(name.as_str()).0))
    }
}

impl MasterShare {
    /// True if the jobs of a user belong to the master.
    pub fn has(&self, user: Owner) -> bool {
        self.own.is_none() || self.masters.of(user) == self.own.as_ref()
    }

    /// True if there are users whose jobs belong to other masters.
    pub fn is_part(&self) -> bool {
        self.own.is_some()
    }
}

/// How much a user belongs to a master: equal weights are as unlikely as equal hashes, and then the later name has the user.
fn weight<'n>(master: &'n Name, user: Owner) -> (u64, &'n Name) {
    (mix(user.0 ^ mix(Owner::named(master.as_str()).0)), master)
}

/// The last step of SplitMix64: one changed bit changes half of the others. Names that differ in their last letter have similar FNV hashes.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn masters(names: &[&str]) -> Masters {
        Masters::new(names.iter().map(|name| name.parse().unwrap()))
    }

    fn users() -> impl Iterator<Item = User> {
        (0..3_000).map(|number| format!("user{number}").parse().unwrap())
    }

    #[test]
    fn users_are_spread_evenly_and_a_new_master_takes_its_part_of_each() {
        let (two, three) = (masters(&["north", "south"]), masters(&["north", "south", "east"]));
        let mut moved: BTreeMap<(String, String), u32> = BTreeMap::new();
        for user in users() {
            let of = |masters: &Masters| masters.of(user.owner()).unwrap().to_string();
            *moved.entry((of(&two), of(&three))).or_default() += 1;
        }
        let count = |from: &str, to: &str| moved.get(&(from.to_owned(), to.to_owned())).copied().unwrap_or(0);
        for from in ["north", "south"] {
            assert!((900..1_100).contains(&count(from, from)), "{moved:?}");
            assert!((400..600).contains(&count(from, "east")), "{moved:?}");
        }
        assert_eq!((count("north", "south"), count("south", "north")), (0, 0));
    }

    #[test]
    fn each_user_has_one_master_which_is_the_first_that_the_user_looks_for() {
        let three = masters(&["east", "north", "south"]);
        for user in users() {
            let order = three.order(&user);
            let shares = order.iter().map(|name| three.share(name).has(user.owner()));
            assert_eq!(shares.collect::<Vec<_>>(), [true, false, false]);
        }
        // The same in every version and on every machine: daemons and clients of two versions agree.
        let first = |user: &str| three.order(&user.parse().unwrap())[0].to_string();
        assert_eq!(["alice", "bob", "carol", "dave"].map(first), PINNED);
    }

    const PINNED: [&str; 4] = ["", "", "", ""];

    #[test]
    fn one_master_has_everything() {
        for one in [masters(&[]), masters(&["north"]), masters(&["north", "north"])] {
            assert!(!one.are_several() && one.order(&"alice".parse().unwrap()).is_empty());
            let share = one.share(&"south".parse().unwrap());
            assert!(share.has(Owner::named("alice")) && !share.is_part());
            assert_eq!(one.journal(7), 7);
        }
        assert_ne!(masters(&["a", "b"]).journal(7), masters(&["a", "c"]).journal(7));
        assert_eq!(masters(&["a", "b"]).journal(7), masters(&["b", "a"]).journal(7));
    }
}
