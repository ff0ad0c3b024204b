//! The chain of handoffs of a job: from the server that accepted it to the server that has it.

use std::fmt;

use crate::job::{Hop, JobRecord};
use crate::names::{Handle, Key, Name, User};
use crate::signed::{Digest, HandoffSignature, HandoffStatement, Signature};

/// Why a chain of handoffs does not count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChainFault {
    /// A handoff is by a server that did not have the job.
    Gap {
        /// The server that had it.
        expected: Name,
        /// The server that is said to have handed it over.
        found: Name,
    },
    /// The chain does not end at the server that says that it has the job.
    End {
        /// Where it ends.
        expected: Name,
        /// Who says that it has the job.
        found: Name,
    },
    /// A handoff has no signature.
    Unsigned {
        /// The server that is said to have handed the job over.
        from: Name,
        /// To which server.
        to: Name,
    },
    /// A signature is for the job with another claim of its user.
    Claim {
        /// The server that signed.
        from: Name,
    },
    /// A signature is not that of its server.
    Signature {
        /// The server that is said to have signed.
        from: Name,
        /// Why.
        why: String,
    },
}

/// A job as the links of its chain must name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ChainOf<'a> {
    job: &'a Handle,
    owner: &'a User,
    key: Key,
    claim: Option<Digest>,
}

/// Checks that a job went from the server that accepted it, which its ID names, to `holder`, by handoffs that each server
/// on the way has signed. `verify` says whether a server, `from`, signed a statement.
///
/// # Errors
///
/// The first link that does not count.
pub fn check_chain(
    (job, owner, key, claim): (&Handle, &User, Key, Digest),
    hops: &[Hop],
    holder: &Name,
    verify: impl FnMut(&HandoffStatement<'_>, &Signature) -> Result<(), String>,
) -> Result<(), ChainFault> {
    let end = follow(&ChainOf { job, owner, key, claim: Some(claim) }, hops, verify)?;
    if end != holder {
        return Err(ChainFault::End { expected: end.clone(), found: holder.clone() });
    }
    Ok(())
}

/// The server to which a chain leads.
fn follow<'a>(
    of: &ChainOf<'a>,
    hops: &'a [Hop],
    mut verify: impl FnMut(&HandoffStatement<'_>, &Signature) -> Result<(), String>,
) -> Result<&'a Name, ChainFault> {
    let ChainOf { job, owner, key, claim } = *of;
    let mut holder = &job.server;
    for hop in hops {
        let Hop { from, to, attempt, .. } = hop;
        if from != holder {
            return Err(ChainFault::Gap { expected: holder.clone(), found: from.clone() });
        }
        holder = to;
        let signed = hop.signed.as_deref();
        let signed = signed.ok_or_else(|| ChainFault::Unsigned { from: from.clone(), to: to.clone() })?;
        if claim.is_some_and(|claim| claim != signed.claim) {
            return Err(ChainFault::Claim { from: from.clone() });
        }
        let HandoffSignature { claim, at, ref signature } = *signed;
        let statement = HandoffStatement { job, owner, key, claim, from, to, attempt: *attempt, at };
        verify(&statement, signature).map_err(|why| ChainFault::Signature { from: from.clone(), why })?;
    }
    Ok(holder)
}

/// Why a server's report of a job does not count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReportFault {
    /// The server does not have the job, as far as the chain of handoffs shows.
    Chain(ChainFault),
    /// The job waited when it left the server, and the report says that it ran.
    Departed,
}

/// Checks that a server may report a job: it accepted the job, took it over by a signed chain of handoffs, or handed it
/// over itself, which needs no signature. `verify` says whether a server signed a statement.
///
/// # Errors
///
/// Why it may not.
pub fn check_reporter(
    record: &JobRecord,
    reporter: &Name,
    verify: impl FnMut(&HandoffStatement<'_>, &Signature) -> Result<(), String>,
) -> Result<(), ReportFault> {
    let of = ChainOf { job: &record.handle, owner: &record.owner, key: record.key, claim: None };
    let mut hops = record.hops.as_slice();
    if is_own_departure(record, reporter) {
        if record.state.is_final() || record.started.is_some() {
            return Err(ReportFault::Departed);
        }
        hops = &hops[..hops.len() - 1];
    }
    let end = follow(&of, hops, verify).map_err(ReportFault::Chain)?;
    if end != reporter {
        let (expected, found) = (end.clone(), reporter.clone());
        return Err(ReportFault::Chain(ChainFault::End { expected, found }));
    }
    Ok(())
}

/// True if a server reports that it has handed a job over: that needs no signature.
pub fn is_own_departure(record: &JobRecord, reporter: &Name) -> bool {
    record.hops.last().is_some_and(|last| last.from == *reporter && last.to != *reporter)
}

impl ChainFault {
    /// The stable word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Gap { .. } | Self::End { .. } => "chain",
            Self::Unsigned { .. } => "unsigned",
            Self::Claim { .. } => "claim",
            Self::Signature { .. } => "signature",
        }
    }
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { expected, found } => {
                write!(f, "the job was at {expected}, and the next handoff is by {found}")
            }
            Self::End { expected, found } => {
                write!(f, "the signed handoffs lead to {expected}, and {found} says that it has the job")
            }
            Self::Unsigned { from, to } => {
                write!(f, "expected a handoff from {from} to {to} that {from} has signed")
            }
            Self::Claim { from } => {
                write!(f, "{from} handed the job over with another signature of its user")
            }
            Self::Signature { from, why } => write!(f, "the handoff by {from} has no good signature: {why}"),
        }
    }
}

impl ReportFault {
    /// The stable word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Chain(fault) => fault.word(),
            Self::Departed => "departed",
        }
    }
}

impl fmt::Display for ReportFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(fault) => fault.fmt(f),
            Self::Departed => write!(f, "a job that was handed over had not started"),
        }
    }
}
