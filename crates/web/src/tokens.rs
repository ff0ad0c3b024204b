//! Tokens of the API: for programs of the user, limited in what they may do and in time.
//!
//! A token is its own record: what it permits and until when, with a code that only the user's key can make. The key is in a file of
//! the user's own, so a token is good for every `pliant web` of that user with the same certificate, and all tokens are revoked with
//! the key.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pliant_control::names::User;
use pliant_model::Time;

use crate::secret::Secret;

/// What tokens begin with.
const PREFIX: &str = "pliant";

/// What a token permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenScope {
    /// To read.
    Read,
    /// To read and to change: to submit, to cancel, and what operators may do.
    Write,
}

impl TokenScope {
    /// The word in tokens and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The key of a user's tokens.
#[derive(Clone, Debug)]
pub struct TokenKey {
    path: PathBuf,
    /// The user in the certificate, with the role.
    holder: String,
}

impl TokenKey {
    /// The key in that file, for the holder of a certificate; the file need not exist.
    pub fn new(path: &Path, user: &str, is_operator: bool) -> TokenKey {
        let role = if is_operator { "operator" } else { "user" };
        TokenKey { path: path.to_owned(), holder: format!("{role}/{user}") }
    }

    /// A token that is good until that time. The first one makes the key.
    ///
    /// # Errors
    ///
    /// If the key cannot be read or made.
    pub fn create(&self, scope: TokenScope, until: Time) -> io::Result<String> {
        let key = match self.read()? {
            Some(key) => key,
            None => self.make()?,
        };
        Ok(format!("{PREFIX}.{}.{}.{}", scope.word(), until.0, self.code(&key, scope, until).hex()))
    }

    /// True if there may be tokens that are good: one was created since all were revoked.
    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Revokes all tokens; false if there were none.
    ///
    /// # Errors
    ///
    /// If the key cannot be removed.
    pub fn revoke_all(&self) -> io::Result<bool> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What a token permits now; none if it is not one of this key, or its time is over.
    pub(crate) fn scope(&self, token: &str, now: Time) -> io::Result<Option<TokenScope>> {
        let Some((scope, until, code)) = parts(token) else { return Ok(None) };
        let Some(key) = self.read()? else { return Ok(None) };
        Ok((self.code(&key, scope, until).is(code) && now <= until).then_some(scope))
    }

    fn code(&self, key: &Secret, scope: TokenScope, until: Time) -> Secret {
        key.derived(&format!("token {} {} {}", scope.word(), until.0, self.holder))
    }

    fn read(&self) -> io::Result<Option<Secret>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Secret::from_hex(text.trim_end()).map(Some).ok_or_else(|| {
                let path = self.path.display();
                io::Error::new(
                    ErrorKind::InvalidData,
                    format!("{path}: expected a key of 64 hexadecimal digits"),
                )
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn make(&self) -> io::Result<Secret> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let key = Secret::draw()?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
        writeln!(file, "{}", key.hex())?;
        file.sync_all()?;
        Ok(key)
    }
}

/// Creates the tokens of a user of a portal. They end with the user's name, by which the portal finds the key.
#[derive(Clone, Debug)]
pub(crate) struct TokenIssuer {
    key: TokenKey,
    user: User,
    life_max_s: i64,
}

impl TokenIssuer {
    /// Creates tokens with that key, which are good for at most so many seconds.
    pub(crate) fn new(key: TokenKey, user: User, life_max_s: i64) -> TokenIssuer {
        TokenIssuer { key, user, life_max_s }
    }

    /// The longest time that a token can be good, in seconds.
    pub(crate) fn life_max_s(&self) -> i64 {
        self.life_max_s
    }

    /// The user whose tokens they are.
    pub(crate) fn user(&self) -> &str {
        self.user.as_str()
    }

    /// As [`TokenKey::exists`].
    pub(crate) fn exists(&self) -> bool {
        self.key.exists()
    }

    /// A token that is good until that time.
    pub(crate) fn create(&self, scope: TokenScope, until: Time) -> io::Result<String> {
        Ok(format!("{}.{}", self.key.create(scope, until)?, self.user))
    }

    /// As [`TokenKey::revoke_all`].
    pub(crate) fn revoke_all(&self) -> io::Result<bool> {
        self.key.revoke_all()
    }

    /// The user whom a token names, and the rest of the token.
    pub(crate) fn user_of(token: &str) -> Option<(User, &str)> {
        // Names may have points in them, so they are what follows the fourth one.
        let (at, _) = token.match_indices('.').nth(3)?;
        Some((token.get(at + 1..)?.parse().ok()?, token.get(..at)?))
    }
}

/// What a token says of itself, and its code.
fn parts(token: &str) -> Option<(TokenScope, Time, &str)> {
    let mut parts = token.split('.');
    let (prefix, scope, until, code) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let scope = [TokenScope::Read, TokenScope::Write].into_iter().find(|one| one.word() == scope)?;
    let time: i64 = until.parse().ok()?;
    // A token has one spelling: no sign, no leading zero.
    let is_plain = prefix == PREFIX && parts.next().is_none() && time.to_string() == until;
    is_plain.then_some((scope, Time(time), code))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_permits_what_it_says_until_its_time_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder/key");
        let key = TokenKey::new(&path, "alice", false);
        let token = key.create(TokenScope::Read, Time(100)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let scope = |key: &TokenKey, token: &str, at| key.scope(token, Time(at)).unwrap();
        assert_eq!(scope(&key, &token, 100), Some(TokenScope::Read));
        assert_eq!(scope(&key, &token, 101), None);
        let write = key.create(TokenScope::Write, Time(100)).unwrap();
        assert_eq!(scope(&key, &write, 0), Some(TokenScope::Write));
        for other in [
            token.replace("read", "write"),
            token.replace(".100.", ".101."),
            token.replace(".100.", ".0100."),
            token.to_uppercase(),
            format!("{token}."),
            token[..token.len() - 1].to_owned(),
            String::new(),
        ] {
            assert_eq!(scope(&key, &other, 0), None, "{other}");
        }
    }

    #[test]
    fn a_token_is_of_one_holder_and_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let alice = TokenKey::new(&path, "alice", false);
        let token = alice.create(TokenScope::Read, Time(100)).unwrap();
        for other in [TokenKey::new(&path, "bob", false), TokenKey::new(&path, "alice", true)] {
            assert_eq!(other.scope(&token, Time(0)).unwrap(), None);
        }
        assert!(alice.revoke_all().unwrap() && !alice.revoke_all().unwrap());
        assert_eq!(alice.scope(&token, Time(0)).unwrap(), None);
        alice.create(TokenScope::Read, Time(100)).unwrap();
        assert_eq!(alice.scope(&token, Time(0)).unwrap(), None, "the key is another one");
        fs::write(&path, "short\n").unwrap();
        assert!(alice.scope(&token, Time(0)).is_err() && alice.create(TokenScope::Read, Time(1)).is_err());
    }
}
