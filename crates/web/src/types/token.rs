//! Tokens for programs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The tokens of a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct TokensView {
    /// True if there may be tokens that are good: one was created since all were revoked.
    pub(crate) created: bool,
    /// The longest time that a token can be good, in seconds.
    pub(crate) life_max_s: i64,
}

/// A token to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenBody {
    /// What it permits.
    pub(crate) scope: ScopeWord,
    /// How long it is good, in seconds.
    pub(crate) for_s: i64,
}

/// What a token permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScopeWord {
    /// To read.
    Read,
    /// To read and to change: what the user may do.
    Write,
}

/// A token that was created. It is shown once, and is not kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct TokenView {
    /// The token, for the header `Authorization: Bearer TOKEN`.
    pub(crate) token: String,
    /// What it permits.
    pub(crate) scope: ScopeWord,
    /// Until when it is good.
    pub(crate) not_after_s: i64,
}

/// The answer to a revocation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct RevokedView {
    /// True if there were tokens.
    pub(crate) revoked: bool,
}
