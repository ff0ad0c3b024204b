//! The claim of a user: what is to run, in whose name, at which daemon.

use std::fmt;

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use super::{Digest, Signature, SignedBytes};
use crate::names::{Key, Name, User};

/// How long after its instant a claim is accepted by the daemon that it is meant for. Clients sign anew with every try. A clock that is
/// an hour wrong, as by a wrong time zone, makes no difference.
pub const CLAIM_LIFETIME: Span = Span(7_200);
/// How far the clock of a client may be ahead of a server's.
pub const CLOCK_TOLERANCE: Span = Span(7_200);
/// How long after its instant a claim lets a waiting job move. It bounds how long a server that keeps old claims can hand the
/// same job over again.
pub const CLAIM_MOVES: Span = Span(30 * 86_400);
/// The longest lifetime that a claim may say.
const LIFETIME_MAX: Span = Span(86_400);

/// What a claim is about. A claim for one never counts for the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimSubject {
    /// A job, submitted to a server.
    Submission,
    /// Tasks of a launch, submitted to an agent.
    Launch,
}

/// What a user signs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// The user.
    pub owner: User,
    /// The key of the submission.
    pub key: Key,
    /// The digest of what is to run, with its input files.
    pub digest: Digest,
    /// The daemon that it is meant for: the server that accepts the job, or the agent that coordinates the launch.
    pub audience: Name,
    /// When it was signed.
    pub made: Time,
    /// How long after that its audience may accept it.
    pub lifetime: Span,
}

/// A claim with its signature.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SignedClaim {
    /// The claim.
    pub claim: Claim,
    /// The user's signature.
    pub signature: Signature,
}

/// What a claim must say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected<'a> {
    /// The owner of the job or launch.
    pub owner: &'a User,
    /// Its key.
    pub key: Key,
    /// The digest of what is to run.
    pub digest: Digest,
    /// The daemon that accepted it.
    pub audience: &'a Name,
    /// When it accepted it.
    pub accepted: Time,
}

/// Why a claim does not count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimFault {
    /// Another user signed.
    Owner {
        /// Who.
        found: User,
    },
    /// It was signed for another submission.
    Key,
    /// It was signed for something else to run.
    Digest,
    /// It was signed for another daemon.
    Audience {
        /// Which.
        found: Name,
        /// The daemon that accepted the job.
        expected: Name,
    },
    /// It says that it was signed later than it was accepted.
    Early,
    /// It was accepted after its lifetime.
    Expired,
    /// It lasts longer than any claim may.
    Lifetime {
        /// For how long.
        found: Span,
    },
}

impl Claim {
    /// The bytes that are signed.
    pub fn signed_bytes(&self, subject: ClaimSubject) -> Vec<u8> {
        let Claim { owner, key, digest, audience, made, lifetime } = self;
        let kind = match subject {
            ClaimSubject::Submission => "pliant submission claim v1",
            ClaimSubject::Launch => "pliant launch claim v1",
        };
        let bytes = SignedBytes::new(kind).field(owner.as_str().as_bytes()).field(&key.0).field(&digest.0);
        bytes.field(audience.as_str().as_bytes()).number(made.0).number(lifetime.0).0
    }

    /// Checks that a claim is about this job or launch, and that it was accepted while it was valid.
    ///
    /// # Errors
    ///
    /// The first thing that does not match.
    pub fn check(&self, expected: &Expected<'_>) -> Result<(), ClaimFault> {
        let Claim { owner, key, digest, audience, made, lifetime } = self;
        if owner != expected.owner {
            return Err(ClaimFault::Owner { found: owner.clone() });
        }
        if *key != expected.key {
            return Err(ClaimFault::Key);
        }
        if audience != expected.audience {
            let (found, expected) = (audience.clone(), expected.audience.clone());
            return Err(ClaimFault::Audience { found, expected });
        }
        if *digest != expected.digest {
            return Err(ClaimFault::Digest);
        }
        if !(Span(1)..=LIFETIME_MAX).contains(lifetime) {
            return Err(ClaimFault::Lifetime { found: *lifetime });
        }
        if *made > expected.accepted + CLOCK_TOLERANCE {
            return Err(ClaimFault::Early);
        }
        if expected.accepted > *made + *lifetime {
            return Err(ClaimFault::Expired);
        }
        Ok(())
    }

    /// True if the job may still move at that time ([`CLAIM_MOVES`]).
    pub fn moves_at(&self, now: Time) -> bool {
        now <= self.made + CLAIM_MOVES
    }
}

impl ClaimFault {
    /// The stable word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Owner { .. } => "owner",
            Self::Key => "key",
            Self::Digest => "digest",
            Self::Audience { .. } => "audience",
            Self::Early | Self::Expired | Self::Lifetime { .. } => "expired",
        }
    }
}

impl fmt::Display for ClaimFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner { found } => write!(f, "expected the signature of its owner, found that of {found}"),
            Self::Key => write!(f, "the user's signature is for another submission"),
            Self::Digest => write!(f, "the user's signature is for something else to run"),
            Self::Audience { found, expected } => {
                write!(f, "the user's signature is for {found}, and {expected} accepted the work")
            }
            Self::Early => {
                write!(
                    f,
                    "the user's signature is of later than its acceptance: compare the clocks of the hosts"
                )
            }
            Self::Expired => write!(
                f,
                "the user's signature had expired when the work was accepted: compare the clocks of the hosts, and submit again"
            ),
            Self::Lifetime { found } => write!(
                f,
                "expected a signature that lasts 1 to {} seconds, found {}",
                LIFETIME_MAX.0, found.0
            ),
        }
    }
}
