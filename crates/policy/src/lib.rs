//! Every scheduling decision of Pliant, once: the availability profile, the local batch policies, the
//! tuning of moldable jobs, the mapping of requests onto clusters, the reallocation of waiting jobs, the
//! allocation of multi-jobs, and what finished runs teach about the next ones.
//!
//! Nothing here reads a clock, a file or the environment: `now` and the random generator are arguments
//! (ARCHITECTURE.md, invariant 2). The simulator and the live federation call the same functions.

pub mod allocation;
pub mod alternatives;
pub mod batch;
pub mod completion;
pub mod federation;
pub mod mapping;
pub mod nodes;
pub mod optional;
pub mod profile;
pub mod reallocation;
pub mod runtimes;
pub mod tuning;

/// A name that is not in a registry, with the names that are.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a {what} ({}), found `{found}`", expected.join(", "))]
pub struct UnknownName {
    /// What was being named: `batch policy`, `tuner`, ...
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// What was expected: one of these.
    pub expected: Vec<&'static str>,
}

/// Declares an enum whose variants have a stable name each, with `ALL`, `name`, `Display` and `FromStr`:
/// the registries of policies that need no state of their own.
macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident, $what:literal, { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum $name {
            $($(#[$vmeta])* #[cfg_attr(feature = "serde", serde(rename = $word))] $variant,)+
        }

        impl $name {
            /// Every one, in the order in which they are listed to users.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The stable name, as in options and files.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownName;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|one| one.name() == text).ok_or_else(|| $crate::UnknownName {
                    what: $what,
                    found: text.to_owned(),
                    expected: Self::ALL.iter().map(|one| one.name()).collect(),
                })
            }
        }
    };
}
pub(crate) use named_enum;
