//! The account as which something is done, and whether the file allows it.

use std::ffi::{CString, OsString};

use crate::c_library::{self, Entry};
use crate::config::{Config, is_name};
use crate::error::Error;

/// The uid of `nobody`, which stands for every user whom the system cannot name.
const NOBODY: u32 = 65_534;
/// What calls of the system understand as "leave it as it is".
const UNCHANGED: u32 = u32::MAX;

/// An account that the file allows.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups, `gid` included.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: OsString,
    pub(crate) shell: OsString,
}

impl Account {
    /// The account of that name, if the file allows it and the name service has it.
    ///
    /// # Errors
    /// The account is unknown, not allowed or banned, the caller's own or one of the system's.
    pub(crate) fn allowed(name: &str, config: &Config, caller: u32) -> Result<Account, Error> {
        let refused = |reason: &str| Error::Account { account: name.to_owned(), reason: reason.to_owned() };
        if !is_name(name) {
            return Err(refused("expected a name of letters, digits, `.`, `_`, `-`, `@`, `+`, `$` and `\\`"));
        }
        if !config.allow.as_ref().is_none_or(|allow| allow.iter().any(|allowed| allowed == name)) {
            return Err(refused("is not in `allow` of the launcher's file"));
        }
        let entry = entry(name)?.ok_or_else(|| refused("there is no such account"))?;
        if entry.name.to_bytes() != name.as_bytes() {
            return Err(refused("is another name of an account; expected the name that it has itself"));
        }
        refusal(&entry, config.uid_min, caller).map_or(Ok(()), |reason| Err(refused(&reason)))?;
        // By uid: an account may have several names.
        for denied in &config.deny {
            if denied == name || self::entry(denied)?.is_some_and(|denied| denied.uid == entry.uid) {
                return Err(refused("is banned by `deny` of the launcher's file"));
            }
        }
        let groups = c_library::groups(&entry.name, entry.gid)
            .map_err(Error::system(format!("look up the groups of {name:?}")))?;
        if groups.iter().any(|group| matches!(*group, 0 | UNCHANGED)) {
            return Err(refused("is in the group of root, as which nothing is done"));
        }
        let Entry { uid, gid, home, shell, .. } = entry;
        Ok(Account { name: name.to_owned(), uid, gid, groups, home, shell })
    }
}

/// The uid of the user who may call the launcher.
pub(crate) fn caller(config: &Config) -> Result<u32, Error> {
    let entry = entry(&config.caller)?.map(|entry| entry.uid);
    entry.filter(|uid| !matches!(*uid, 0 | UNCHANGED)).ok_or_else(|| Error::Account {
        account: config.caller.clone(),
        reason: "`caller` of the launcher's file is no user, or root".to_owned(),
    })
}

fn entry(name: &str) -> Result<Option<Entry>, Error> {
    let look_up = || c_library::account(&CString::new(name)?);
    look_up().map_err(Error::system(format!("look up the account {name:?}")))
}

/// Why nothing is done as an account, whatever the lists of the file say.
fn refusal(entry: &Entry, uid_min: u32, caller: u32) -> Option<String> {
    match (entry.uid, entry.gid) {
        (0, _) | (_, 0) => Some("is root, or in its group".to_owned()),
        (UNCHANGED | NOBODY, _) | (_, UNCHANGED) => Some("is nobody's account".to_owned()),
        (uid, _) if uid == caller => Some("is the account of the caller itself".to_owned()),
        (uid, _) if uid < uid_min => {
            Some(format!("has the uid {uid}; expected at least {uid_min} (`uid_min`)"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_the_system() {
        let check = |uid: u32, gid: u32, refused: bool| {
            let entry = Entry { name: CString::default(), uid, gid, home: "/".into(), shell: "".into() };
            assert_eq!(refusal(&entry, 1000, 1500).is_some(), refused, "{uid} {gid}");
        };
        check(1000, 1000, false);
        check(1501, 5, false);
        check(999, 1000, true);
        check(0, 1000, true);
        check(1000, 0, true);
        check(1500, 1500, true);
        check(65_534, 1000, true);
        check(u32::MAX, 1000, true);
        check(1000, u32::MAX, true);
    }

    #[test]
    fn the_name_service_knows_root_and_its_groups() {
        let root = entry("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid, root.home), (0, 0, "/root".into()));
        assert!(c_library::groups(c"root", 0).unwrap().contains(&0));
        assert!(entry("no-such-account-of-pliant").unwrap().is_none());
    }
}
