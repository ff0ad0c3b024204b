//! The account as which something is done, and whether the file allows it.

use std::ffi::CString;

use crate::c_library::{self, Entry};
use crate::config::{Config, is_name};
use crate::error::Error;

/// The overflow uid (the account `nobody`), which stands for every user that the system cannot name.
const OVERFLOW_UID: u32 = 65_534;
/// A uid without processes: no range of uids that is in use for accounts, services or containers reaches so far.
pub(crate) const UNUSED_UID: u32 = 0xFFFF_FFF0;
/// What calls of the system understand as "leave it as it is".
const UNCHANGED: u32 = u32::MAX;

/// An account that the file allows.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) entry: Entry,
    /// All groups, that of the entry included.
    pub(crate) groups: Vec<u32>,
}

impl Account {
    /// The account of that name, if the file allows it and the name service has it. As an account in `end_only` processes are only ended.
    ///
    /// # Errors
    /// The account is unknown, not allowed or banned, the caller's own or one of the system's.
    pub(crate) fn allowed(name: &str, config: &Config, caller: u32, ends: bool) -> Result<Account, Error> {
        let refused = |expected: &str| Error::refused("account", name, expected);
        if !is_name(name) {
            return Err(refused("letters, digits, `.`, `_`, `-`, `@`, `+`, `$` and `\\`"));
        }
        let has_name = |names: &[String]| names.iter().any(|one| one == name);
        let is_allowed = config.allow.as_ref().is_none_or(|allow| has_name(allow));
        if !(is_allowed || ends && has_name(&config.end_only)) {
            return Err(refused("one in `allow` of the launcher's file"));
        }
        let entry = entry(name)?.ok_or_else(|| refused("one that exists"))?;
        if entry.name.to_bytes() != name.as_bytes() {
            return Err(refused("the name that the account has itself"));
        }
        requirement(&entry, (config.uid_min, config.uid_max), caller)
            .map_or(Ok(()), |expected| Err(refused(&expected)))?;
        if is_among(&config.deny, name, &entry)? {
            return Err(refused("one that `deny` of the launcher's file does not ban"));
        }
        if !ends && is_among(&config.end_only, name, &entry)? {
            return Err(refused("one that `end_only` of the launcher's file does not ban"));
        }
        let groups = c_library::groups(&entry.name, entry.gid)
            .map_err(Error::name_service(format!("look up the groups of {name:?}")))?;
        if groups.iter().any(|group| matches!(*group, 0 | UNCHANGED)) {
            return Err(refused("one outside the group of root"));
        }
        Ok(Account { entry, groups })
    }
}

/// Whether an account is in a list, under whatever name: it may have several.
fn is_among(list: &[String], name: &str, account: &Entry) -> Result<bool, Error> {
    for listed in list {
        if listed == name || entry(listed)?.is_some_and(|listed| listed.uid == account.uid) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The uid of the user who may call the launcher.
pub(crate) fn caller(config: &Config) -> Result<u32, Error> {
    let entry = entry(&config.caller)?.map(|entry| entry.uid);
    let expected = "a user other than root as `caller` in the launcher's file";
    entry
        .filter(|uid| !matches!(*uid, 0 | UNCHANGED))
        .ok_or_else(|| Error::refused("caller", &config.caller, expected))
}

fn entry(name: &str) -> Result<Option<Entry>, Error> {
    let look_up = || c_library::account(&CString::new(name)?);
    look_up().map_err(Error::name_service(format!("look up the account {name:?}")))
}

/// What an account has to be and is not, whatever the lists of the file say.
fn requirement(entry: &Entry, (uid_min, uid_max): (u32, u32), caller: u32) -> Option<String> {
    match (entry.uid, entry.gid) {
        (0, _) | (_, 0) => Some("one that is neither root nor in its group".to_owned()),
        (UNCHANGED | OVERFLOW_UID | UNUSED_UID, _) | (_, UNCHANGED) => {
            Some("one of a person, not the system's `nobody`".to_owned())
        }
        (uid, _) if uid == caller => Some("another one than the caller's own".to_owned()),
        (uid, _) if uid < uid_min => Some(format!("one with a uid from {uid_min} (`uid_min`; it has {uid})")),
        (uid, _) if uid > uid_max => {
            Some(format!("one with a uid up to {uid_max} (`uid_max`; it has {uid})"))
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
            assert_eq!(requirement(&entry, (1000, 61_183), 1500).is_some(), refused, "{uid} {gid}");
        };
        check(1000, 1000, false);
        check(1501, 5, false);
        check(999, 1000, true);
        check(61_183, 1000, false);
        check(61_184, 1000, true);
        check(0, 1000, true);
        check(1000, 0, true);
        check(1500, 1500, true);
        check(65_534, 1000, true);
        check(UNUSED_UID, 1000, true);
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
