//! All scheduling decisions of Pliant: the availability profile, local batch policies, sizing of moldable jobs, mapping of
//! requests onto clusters, discovery of servers, reallocation of waiting jobs, allocation of multi-jobs, and runtime predictions.
//!
//! Nothing here reads a clock, a file or the environment: `now` and the random generator are arguments (ARCHITECTURE.md,
//! invariant 2). The simulator and the live federation call the same functions.

pub mod allocation;
pub mod alternatives;
pub mod batch;
pub mod completion;
pub mod custom;
pub mod discovery;
mod failure;
pub mod federation;
pub mod mapping;
pub mod optional;
pub mod profile;
pub mod reallocation;
pub mod runtimes;
pub mod tuning;

pub use batch::nodes;

/// A name that is not in a registry, with the names that are.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a {what} ({}), found `{found}`", expected.join(", "))]
pub struct UnknownName {
    /// The kind of name: `batch policy`, `tuner`, ...
    pub what: &'static str,
    /// The name found.
    pub found: String,
    /// The registered names.
    pub expected: Vec<&'static str>,
}

/// Declares an enum with a stable name per variant, `ALL`, `name`, `Display` and `FromStr`: a registry of policies without
/// state.
macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident, $what:literal, { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum $name {
            $($(#[$vmeta])* #[cfg_attr(feature = "serde", serde(rename = $word))] $variant,)+
        }

        impl $name {
            /// All variants, in the order of listings.
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
