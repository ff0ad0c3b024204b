//! What the orders by usage are set by: weights of the factors, shares of users and groups, classes, and the half-life of
//! usage. They follow Slurm's multifactor priority.
//!
//! A user has one share, no group and no bonus unless something else is set. The shares of a group are divided among those of its
//! users who have used something, in proportion to theirs, as those of the cluster are. What counts for such a user is the mean of the user's own usage and the user's part of the
//! group's: a group gets what its shares are worth, and its users divide that by theirs. (The effective usage of Slurm's
//! classic fair share, `own + (group - own) x part`, gives groups less than their shares next to single users.)

use pliant_model::{Owner, Span};

/// The weights of the three factors of `multifactor`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Weights {
    /// Of the age.
    pub age: u32,
    /// Of the size.
    pub size: u32,
    /// Of the fair share.
    pub fair_share: u32,
}

impl Weights {
    /// Equal weights.
    pub const EQUAL: Weights = Weights { age: 1, size: 1, fair_share: 1 };
}

/// A user who has other shares than one, or a group, or a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UserPriority {
    /// The user.
    pub owner: Owner,
    /// The user's shares, at least 1: among all users and groups, or among the users of the group.
    pub shares: u32,
    /// The user's group, by its position in [`PrioritySettings::groups`].
    pub group: Option<u32>,
    /// What the user's class adds to the priority of a job.
    pub bonus: u32,
}

impl UserPriority {
    /// A user of whom nothing is said.
    pub fn usual(owner: Owner) -> UserPriority {
        UserPriority { owner, shares: 1, group: None, bonus: 0 }
    }
}

/// What the orders by usage are set by.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PrioritySettings {
    /// The weights of the factors.
    pub weights: Weights,
    /// After this wait, at least 1 s, the age of a job no longer grows.
    pub age_max: Span,
    /// In this time, at least 1 s, the usage of ended jobs halves; never without one.
    pub half_life: Option<Span>,
    /// The users of whom something is said, by their number.
    pub users: Vec<UserPriority>,
    /// The shares of each group, at least 1.
    pub groups: Vec<u32>,
}

impl Default for PrioritySettings {
    fn default() -> PrioritySettings {
        // Slurm's PriorityMaxAge and PriorityDecayHalfLife.
        let week = Span(7 * 86_400);
        PrioritySettings {
            weights: Weights::EQUAL,
            age_max: week,
            half_life: Some(week),
            users: Vec::new(),
            groups: Vec::new(),
        }
    }
}

impl PrioritySettings {
    /// What is set for a user.
    pub fn of(&self, owner: Owner) -> UserPriority {
        match self.users.binary_search_by_key(&owner, |user| user.owner) {
            Ok(at) => self.users[at],
            Err(_) => UserPriority::usual(owner),
        }
    }
}

/// A factor of a priority: what it is of its full value, and what that counts.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Factor {
    /// From 0 to 1.
    pub value: f64,
    /// What the full value adds to the priority.
    pub weight: u32,
}

impl Factor {
    /// What it adds to the priority.
    pub fn points(&self) -> f64 {
        self.value * f64::from(self.weight)
    }
}

/// The parts of a job's priority under `multifactor`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PriorityParts {
    /// How long it has waited, relative to the maximal age.
    pub age: Factor,
    /// Its part of the processors of the cluster.
    pub size: Factor,
    /// `1 / (1 + U / S)` for a user with the part `U` of all usage and the part `S` of all shares.
    pub fair_share: Factor,
    /// What the class of its user adds.
    pub class: u32,
}

impl PriorityParts {
    /// The priority: the highest goes first.
    pub fn total(&self) -> f64 {
        let PriorityParts { age, size, fair_share, class } = self;
        age.points() + size.points() + fair_share.points() + f64::from(*class)
    }
}

/// What an order by usage knows of a waiting job's user.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Entitlement {
    /// Effective usage, in processor seconds.
    pub used: f64,
    /// The usage of all users together.
    pub used_by_all: f64,
    /// The user's shares.
    pub shares: f64,
    /// The shares of the users and groups who have used something; at least 1.
    pub shares_of_all: f64,
    /// What the user's class adds to the priority.
    pub bonus: u32,
}

impl Entitlement {
    /// A user who has used nothing, among nothing but such users.
    pub const UNUSED: Entitlement =
        Entitlement { used: 0.0, used_by_all: 0.0, shares: 1.0, shares_of_all: 1.0, bonus: 0 };
}
