//! Authorization. A user is identified by a certificate (paper 004 left this as future work).

use serde::{Deserialize, Serialize};

use crate::names::User;

/// A caller, as proven by a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Caller {
    /// The caller's user name.
    pub user: User,
    /// True if the certificate makes the caller an operator of the federation.
    pub operator: bool,
}

impl Caller {
    /// True if the caller may see, cancel or fetch a job of `owner`: only the owner and operators may.
    pub fn may_access(&self, owner: &User) -> bool {
        self.operator || self.user == *owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_and_operators_may_access_a_job() {
        let user = |name: &str| name.parse::<User>().unwrap();
        let caller = |name: &str, operator| Caller { user: user(name), operator };
        assert!(caller("alice", false).may_access(&user("alice")));
        assert!(!caller("bob", false).may_access(&user("alice")));
        assert!(!caller("Alice", false).may_access(&user("alice")), "names are exact");
        assert!(caller("root", true).may_access(&user("alice")));
    }
}
