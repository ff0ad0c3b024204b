//! In whose name a client calls.

use pliant_control::access::Caller;
use pliant_transport::Role;

use super::Client;

impl Client {
    /// The name in the certificate.
    pub fn user(&self) -> String {
        self.tls.own().name.clone()
    }

    /// True if the certificate is an operator's.
    pub fn is_operator(&self) -> bool {
        self.tls.own().role == Role::Operator
    }

    /// The role in the certificate.
    pub fn role(&self) -> Role {
        self.tls.own().role
    }

    /// The caller that a state machine in the same process sees; for tests of access.
    pub fn caller(&self) -> Option<Caller> {
        Some(Caller { user: self.user().parse().ok()?, operator: self.is_operator() })
    }
}
