//! What queue orders by usage are set by: the table `[priority]` of a server's file, and of a file for simulations. Drivers read the files.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use pliant_model::{Owner, Span};
use pliant_policy::batch::order::{Aging, PrioritySettings, UserPriority, Weights};
use serde::{Deserialize, Serialize};

use crate::names::User;

/// The table; what is left out has its default.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriorityFile {
    /// The weight of the age of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<u32>,
    /// The weight of its part of the processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// The weight of the fair share of its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_share: Option<u32>,
    /// After this wait the age no longer grows: a time like `7d`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_max: Option<String>,
    /// In this time usage halves: a time like `7d`, or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_life: Option<String>,
    /// The shares of users; those of the others are 1.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<String, u32>,
    /// Users who have shares together.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, GroupFile>,
    /// Users whose jobs have a bonus.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, ClassFile>,
}

/// Users who have shares together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupFile {
    /// The shares of the group.
    pub shares: u32,
    /// Its users.
    pub users: Vec<String>,
}

/// Users whose jobs have a bonus.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassFile {
    /// What is added to the priority of their jobs.
    pub priority: u32,
    /// Its users.
    pub users: Vec<String>,
}

/// A key and what is wrong with its value.
type WrongValue = (&'static str, String);

const USERS: &str = "priority.users";
const GROUPS: &str = "priority.groups";
const CLASSES: &str = "priority.classes";

/// What shares may be, and weights up to it.
const NUMBERS: RangeInclusive<u32> = 1..=1_000_000;

impl PriorityFile {
    /// The settings for users of the federation.
    ///
    /// # Errors
    ///
    /// The key that is wrong, and what was expected and found.
    pub fn of_federation(&self) -> Result<PrioritySettings, WrongValue> {
        self.settings(|name| match name.parse::<User>() {
            Ok(user) => Ok(user.owner()),
            Err(error) => Err(format!("expected the name of a user, found {name:?}: {error}")),
        })
    }

    /// The settings for users of a log, who have numbers.
    ///
    /// # Errors
    ///
    /// As [`PriorityFile::of_federation`].
    pub fn of_log(&self) -> Result<PrioritySettings, WrongValue> {
        self.settings(|name| match name.parse::<i32>() {
            Ok(number @ 0..) => Ok(Owner::numbered(number)),
            _ => Err(format!("expected the number of a user in the log, found {name:?}")),
        })
    }

    fn settings(
        &self,
        owner_of: impl Fn(&str) -> Result<Owner, String>,
    ) -> Result<PrioritySettings, WrongValue> {
        let usual = PrioritySettings::default();
        let weights = Weights {
            age: weight("priority.age", self.age, usual.weights.age)?,
            size: weight("priority.size", self.size, usual.weights.size)?,
            fair_share: weight("priority.fair_share", self.fair_share, usual.weights.fair_share)?,
        };
        let age_max = time("priority.age_max", self.age_max.as_deref())?;
        let half_life = time("priority.half_life", self.half_life.as_deref())?;
        let age_max = match age_max.unwrap_or(Some(usual.age_max)) {
            Some(age_max) => age_max,
            None => return Err(("priority.age_max", "expected a time such as 7d, found `none`".to_owned())),
        };
        let mut users = Users { owner_of, users: BTreeMap::new() };
        for (name, given) in &self.users {
            users.of(USERS, name)?.shares = shares(USERS, name, *given)?;
        }
        let mut groups = Vec::new();
        for ((name, group), number) in self.groups.iter().zip(0..) {
            groups.push(shares(GROUPS, name, group.shares)?);
            for member in &group.users {
                let user = users.of(GROUPS, member)?;
                if user.group.replace(number).is_some() {
                    return Err((GROUPS, format!("expected each user once, found {member:?} twice")));
                }
            }
        }
        let mut classed = Vec::new();
        for (name, class) in &self.classes {
            let bonus = weight(CLASSES, Some(class.priority), 0);
            let bonus = bonus.map_err(|(key, problem)| (key, format!("{name}: {problem}")))?;
            for member in &class.users {
                if classed.contains(&member) {
                    return Err((CLASSES, format!("expected each user once, found {member:?} twice")));
                }
                classed.push(member);
                users.of(CLASSES, member)?.bonus = bonus;
            }
        }
        let half_life = half_life.unwrap_or(usual.half_life);
        Ok(PrioritySettings {
            weights,
            age_max,
            half_life,
            users: users.users.into_values().collect(),
            groups,
        })
    }
}

/// The users that a table names, by their number.
struct Users<F> {
    owner_of: F,
    users: BTreeMap<Owner, UserPriority>,
}

impl<F: Fn(&str) -> Result<Owner, String>> Users<F> {
    fn of(&mut self, key: &'static str, name: &str) -> Result<&mut UserPriority, WrongValue> {
        let owner = (self.owner_of)(name).map_err(|problem| (key, problem))?;
        Ok(self.users.entry(owner).or_insert(UserPriority::usual(owner)))
    }
}

fn weight(key: &'static str, given: Option<u32>, usual: u32) -> Result<u32, WrongValue> {
    match given.unwrap_or(usual) {
        weight if weight <= *NUMBERS.end() => Ok(weight),
        weight => Err((key, format!("expected 0 to {}, found {weight}", NUMBERS.end()))),
    }
}

fn shares(key: &'static str, name: &str, given: u32) -> Result<u32, WrongValue> {
    match NUMBERS.contains(&given) {
        true => Ok(given),
        false => {
            let (least, most) = (NUMBERS.start(), NUMBERS.end());
            Err((key, format!("expected {least} to {most} shares for {name:?}, found {given}")))
        }
    }
}

/// A time, or no bound; none if it is not given.
fn time(key: &'static str, given: Option<&str>) -> Result<Option<Option<Span>>, WrongValue> {
    let Some(text) = given else { return Ok(None) };
    match text.parse::<Aging>() {
        Ok(Aging(Some(Span(0)))) | Err(_) => {
            Err((key, format!("expected a time such as 7d, 12h or 3600s, found {text:?}")))
        }
        Ok(Aging(time)) => Ok(Some(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PrioritySettings, WrongValue> {
        toml::from_str::<PriorityFile>(text).unwrap().of_federation()
    }

    #[test]
    fn the_table_says_weights_shares_groups_and_classes() {
        assert_eq!(read(""), Ok(PrioritySettings::default()));
        let priority = read(
            "age = 10\nsize = 0\nfair_share = 1000\nage_max = \"12h\"\nhalf_life = \"1d\"\nusers = { alice = 2 }\n\
             groups.physics = { shares = 3, users = [\"alice\", \"bob\"] }\n\
             classes.urgent = { priority = 500, users = [\"bob\"] }\n",
        )
        .unwrap();
        assert_eq!(priority.weights, Weights { age: 10, size: 0, fair_share: 1000 });
        assert_eq!((priority.age_max, priority.half_life), (Span(43_200), Some(Span(86_400))));
        assert_eq!(priority.groups, [3]);
        let of = |name: &str| {
            let UserPriority { shares, group, bonus, .. } = priority.of(Owner::named(name));
            (shares, group, bonus)
        };
        assert_eq!([of("alice"), of("bob"), of("carol")], [(2, Some(0), 0), (1, Some(0), 500), (1, None, 0)]);
        assert_eq!(read("half_life = \"none\"").unwrap().half_life, None);
        let of_log: PriorityFile = toml::from_str("users = { 7 = 2 }").unwrap();
        assert_eq!(of_log.of_log().unwrap().of(Owner(7)).shares, 2);
    }

    #[test]
    fn wrong_values_are_reported_with_their_key() {
        let check = |text: &str, key: &str, words: &str| {
            let (found, problem) = read(text).unwrap_err();
            assert!(found == key && problem.contains(words), "{found}: {problem}");
        };
        check("age = 1000001", "priority.age", "0 to 1000000");
        check("age_max = \"none\"", "priority.age_max", "found `none`");
        check("half_life = \"0\"", "priority.half_life", "such as 7d");
        check("half_life = \"soon\"", "priority.half_life", "found \"soon\"");
        check("users = { alice = 0 }", "priority.users", "1 to 1000000 shares for \"alice\"");
        check("users = { \"a b\" = 1 }", "priority.users", "the name of a user");
        let twice =
            "groups.a = { shares = 1, users = [\"bob\"] }\ngroups.b = { shares = 1, users = [\"bob\"] }";
        check(twice, "priority.groups", "found \"bob\" twice");
        let twice = "classes.a = { priority = 1, users = [\"bob\", \"bob\"] }";
        check(twice, "priority.classes", "found \"bob\" twice");
        let of_log: PriorityFile = toml::from_str("users = { alice = 2 }").unwrap();
        assert!(of_log.of_log().unwrap_err().1.contains("the number of a user"));
    }
}
