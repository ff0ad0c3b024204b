//! The tokens of a portal's users: for programs, created on a page, limited as their user is.
//!
//! Each user has a key in the portal's folder. A token names its user, and its call goes with the certificate of that user as those of
//! sessions do. When a user is no user of the portal any more, the key is removed, so tokens are not good again for a later user of
//! that name.

use std::io;
use std::path::{Path, PathBuf};

use pliant_control::names::User;
use pliant_model::Time;

use super::file::TokenSection;
use super::users::check_private;
use crate::tokens::{TokenIssuer, TokenKey, TokenScope};

/// How the files of keys end.
const SUFFIX: &str = ".key";

/// The tokens of all users.
pub(super) struct PortalTokens {
    folder: PathBuf,
    life_max_s: i64,
}

/// A token that is good now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GoodToken {
    pub(super) scope: TokenScope,
    /// Whether its user was an operator when it was created; it is not good for another role.
    pub(super) is_operator: bool,
}

impl PortalTokens {
    /// Those whose keys are in the folder of the portal's file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is open to others.
    pub(super) fn new(section: &TokenSection) -> Result<PortalTokens, String> {
        check_private(&section.folder, "tokens.folder")?;
        Ok(PortalTokens { folder: section.folder.clone(), life_max_s: section.life_s })
    }

    fn key(&self, user: &User, is_operator: bool) -> TokenKey {
        TokenKey::new(&self.folder.join(format!("{user}{SUFFIX}")), user.as_str(), is_operator)
    }

    /// What creates the tokens of a user.
    pub(super) fn issuer(&self, user: &User, is_operator: bool) -> TokenIssuer {
        TokenIssuer::new(self.key(user, is_operator), user.clone(), self.life_max_s)
    }

    /// The user of a token, and what it permits now; none if it is not good.
    pub(super) fn find(&self, token: &str, now: Time) -> io::Result<Option<(User, GoodToken)>> {
        let Some((user, token)) = TokenIssuer::user_of(token) else { return Ok(None) };
        for is_operator in [false, true] {
            if let Some(scope) = self.key(&user, is_operator).scope(token, now)? {
                return Ok(Some((user, GoodToken { scope, is_operator })));
            }
        }
        Ok(None)
    }

    /// Revokes the tokens of those who are no users any more; the users.
    pub(super) fn revoke_removed(&self, is_user: impl Fn(&User) -> bool) -> io::Result<Vec<User>> {
        let mut revoked = Vec::new();
        for entry in self.folder.read_dir()? {
            let name = entry?.file_name();
            let user = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse().ok());
            if let Some(user) = user.filter(|user| !is_user(user))
                && self.key(&user, false).revoke_all()?
            {
                revoked.push(user);
            }
        }
        Ok(revoked)
    }

    /// The folder of keys.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn user(name: &str) -> User {
        name.parse().unwrap()
    }

    #[test]
    fn a_token_is_of_its_user_role_and_time() {
        let dir = tempfile::tempdir().unwrap();
        let section = TokenSection { folder: dir.path().to_owned(), life_s: 100 };
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(PortalTokens::new(&section).err().unwrap().contains("tokens.folder: expected"));
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let tokens = PortalTokens::new(&section).unwrap();
        // A name with points, and one that it begins with.
        let (alice, other) = (user("a.b@site.example"), user("a.b"));
        let text = tokens.issuer(&alice, true).create(TokenScope::Read, Time(50)).unwrap();
        let good = GoodToken { scope: TokenScope::Read, is_operator: true };
        assert_eq!(tokens.find(&text, Time(50)).unwrap(), Some((alice.clone(), good)));
        assert_eq!(tokens.find(&text, Time(51)).unwrap(), None);
        tokens.issuer(&other, true).create(TokenScope::Read, Time(50)).unwrap();
        let of_other = text.replace("a.b@site.example", "a.b");
        assert_eq!(tokens.find(&of_other, Time(50)).unwrap(), None, "the key of another user");
        for wrong in ["", "pliant.read.1", "pliant.read.1.aa", "pliant.read.1.aa.", "pliant.read.1.aa.../x"] {
            assert_eq!(tokens.find(wrong, Time(0)).unwrap(), None, "{wrong}");
        }
        assert_eq!(tokens.revoke_removed(|user| *user == other).unwrap(), std::slice::from_ref(&alice));
        assert_eq!(tokens.find(&text, Time(50)).unwrap(), None);
        assert!(tokens.issuer(&other, true).exists() && !tokens.issuer(&alice, true).exists());
    }
}
