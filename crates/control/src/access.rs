//! Who may do what. A user is who its certificate says (paper 004 left this as future work).

use serde::{Deserialize, Serialize};

use crate::names::User;

/// Somebody who asks, as proven by a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Caller {
    /// Who.
    pub user: User,
    /// True if the certificate makes them an operator of the federation.
    pub operator: bool,
}

impl Caller {
    /// Whether they may see, cancel or fetch a job of `owner`: only the owner and operators.
    pub fn may_touch(&self, owner: &User) -> bool {
        self.operator || self.user == *owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_and_operators_touch_a_job() {
        let user = |name: &str| name.parse::<User>().unwrap();
        let caller = |name: &str, operator| Caller { user: user(name), operator };
        assert!(caller("alice", false).may_touch(&user("alice")));
        assert!(!caller("bob", false).may_touch(&user("alice")));
        assert!(!caller("Alice", false).may_touch(&user("alice")), "names are exact");
        assert!(caller("root", true).may_touch(&user("alice")));
    }
}
