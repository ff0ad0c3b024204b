//! Why the certificate of an open connection does not count any more.

use std::fmt;

use super::dates::date;
use super::peer::Peer;

/// The certificate of an open connection is not valid any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateLapse {
    /// It has been revoked.
    Revoked {
        /// Its holder.
        peer: Peer,
    },
    /// Its time is over.
    Expired {
        /// Its holder.
        peer: Peer,
    },
}

impl fmt::Display for CertificateLapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Revoked { peer } => {
                write!(f, "the certificate {} of {peer} has been revoked", peer.serial)
            }
            Self::Expired { peer } => {
                write!(
                    f,
                    "the certificate {} of {peer} has expired on {}",
                    peer.serial,
                    date(peer.not_after.0)
                )
            }
        }
    }
}

impl std::error::Error for CertificateLapse {}
