//! Identities of daemons and users: the authority of a federation, certificates, and TLS.
//!
//! An [`Authority`] is a folder that signs certificates and revokes them. A certificate says who its holder is: a
//! role and a name ([`Identity`]), as the URI `pliant://ROLE/NAME` and, for daemons, as the DNS name
//! `NAME.ROLE.pliant`. Every connection is TLS 1.3 with certificates on both sides. A daemon takes connections
//! through [`Acceptor`] or [`incoming`] and finds the [`Caller`] in the extensions of each request; a client binds
//! to a daemon's role and name, not to its address ([`channel`]).
//!
//! New certificate files count for new connections without a restart, too, once they fit together.
//!
//! Signatures outside of TLS, with the same keys and certificates: [`ClientTls::sign`], [`ServerTls::signer`].
//!
//! Revocation: a new list is read when its file changes, without a restart. New connections of a revoked holder are
//! refused by the handshake; [`ServerTls::check`] checks open connections, also for certificates that have expired since. [`guard`] asks it once per call, so the handler of a long stream asks it again as messages come.

mod accept;
mod authority;
mod certificate_lapse;
mod channel;
mod checked_connection;
mod clock;
mod connections;
mod credentials;
mod dates;
mod error;
mod files;
mod holder;
mod incoming;
mod issued_certificates;
mod peer;
mod provider;
mod recent;
mod register;
mod reloading;
mod revocation_verifier;
mod role;
mod signing;
#[cfg(test)]
mod tests;
mod tls;
mod trust;

pub use accept::{Acceptor, ConnectionRefusal};
pub use authority::{
    Authority, CertificateRequest, DAYS_DEFAULT, IssuedCertificate, Revocation, RolloverStatus,
    SigningRequest,
};
pub use certificate_lapse::CertificateLapse;
pub use channel::{ConnectError, ConnectReason, Timeouts, channel, channel_from, not_sent};
pub use clock::Clock;
pub use connections::{AgentAddress, Connections, MasterAddress};
pub use credentials::{Credentials, TlsError};
pub use error::AuthorityError;
pub use holder::{InstalledCertificate, WrittenRequest, install, request_certificate, request_renewal};
pub use incoming::{Caller, Connection, Limits, guard, incoming};
pub use peer::{IdentityError, Peer, Serial};
pub use register::{CertificateRecord, RolloverStep};
pub use reloading::{Validity, ValidityLeft};
pub use role::{Identity, NameError, Role, UnknownRole};
pub use signing::{Revocations, SignatureError, ValidAt};
pub use tls::{ClientTls, ServerTls};
