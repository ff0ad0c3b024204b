//! How a server's own jobs are distinguished from others' in a listing, and as whom they are submitted.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::accounts::{Account, Launcher};

/// As whom the jobs of a server are submitted, by their numbers at the server: as the accounts of their users, or as the server's own
/// user. Clones share what is noted.
#[derive(Clone, Default, Debug)]
pub struct Submitters {
    /// The launcher.
    launcher: PathBuf,
    /// New jobs are submitted as accounts.
    has_accounts: bool,
    noted: Arc<RwLock<BTreeMap<u32, Account>>>,
}

impl Submitters {
    /// Those of a server that does things as accounts through that launcher. If `has_accounts`, jobs of other users than the server's
    /// own are expected.
    pub fn through(launcher: PathBuf, has_accounts: bool) -> Submitters {
        Submitters { launcher, has_accounts, noted: Arc::default() }
    }

    /// Notes as which account a job is submitted, before anything is done for it. A number that is never noted is the server's own
    /// user's.
    pub fn note(&self, number: u32, account: Account) {
        self.noted.write().insert(number, account);
    }

    /// The account as which a job is submitted; none if that is the server's own user.
    pub fn account(&self, number: u32) -> Option<Account> {
        self.noted.read().get(&number).cloned()
    }

    /// Whether new jobs are submitted as accounts.
    pub(crate) fn has_accounts(&self) -> bool {
        self.has_accounts
    }

    /// What runs a command about a job as its account; none if that is the server's own user.
    pub(crate) fn launcher(&self, number: u32) -> Option<Launcher> {
        let account = self.account(number)?.name;
        Some(Launcher { program: self.launcher.clone(), account })
    }
}

/// How a batch system writes users.
pub(crate) trait ListedUser: PartialEq + Debug {
    /// The user that an account is.
    fn of(account: &Account) -> Self;
}

/// Slurm: by number.
impl ListedUser for u32 {
    fn of(account: &Account) -> u32 {
        account.uid
    }
}

/// OAR: by name.
impl ListedUser for String {
    fn of(account: &Account) -> String {
        account.name.to_string()
    }
}

/// The users as whom a server submits, and the tags that its jobs carry. A job is the server's if its tag has a number *and* its user
/// is the one whom the server has chosen for that number: others may give their jobs any name. `U` is how the batch system writes
/// users.
#[derive(Clone, Debug)]
pub(crate) struct Submitter<U> {
    /// What the tags begin with: `pliant:<server>:`.
    pub(crate) prefix: String,
    /// The server's own user.
    pub(crate) user: U,
    /// The accounts of its jobs.
    pub(crate) accounts: Submitters,
}

impl<U: ListedUser> Submitter<U> {
    /// The tag of a job.
    pub(crate) fn tag(&self, number: u32) -> String {
        format!("{}{number}", self.prefix)
    }

    /// The number that a tag says.
    pub(crate) fn number(&self, text: &str) -> Option<u32> {
        let number = text.strip_prefix(&self.prefix)?;
        // One way to write each: no sign, no leading zero.
        number.parse().ok().filter(|&parsed| self.tag(parsed) == text)
    }

    /// Whether the job of that number is submitted as that user.
    pub(crate) fn is_of(&self, number: u32, user: &U) -> bool {
        match self.accounts.account(number) {
            Some(account) => U::of(&account) == *user,
            None => self.user == *user,
        }
    }

    /// Whether a job of a number from `first` on, below `end`, may be submitted as that user.
    pub(crate) fn may_be_of(&self, first: u32, end: u32, user: &U) -> bool {
        let is_its = |account: &Account| U::of(account) == *user;
        self.user == *user || self.accounts.noted.read().range(first..end).any(|(_, account)| is_its(account))
    }

    /// Whether any job is submitted as that user.
    pub(crate) fn is_known(&self, user: &U) -> bool {
        self.may_be_of(0, u32::MAX, user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_counts_only_of_the_account_that_was_chosen_for_its_number() {
        let accounts = Submitters::through("/launcher".into(), true);
        let account = |name: &str, uid: u32| Account { name: name.parse().unwrap(), uid };
        accounts.note(7, account("alice", 1001));
        accounts.note(8, account("bob", 1002));
        let by_number = Submitter { prefix: "pliant:x:".to_owned(), user: 500_u32, accounts: accounts.clone() };
        let check = |number: u32, user: u32, expected: bool| {
            assert_eq!(by_number.is_of(number, &user), expected, "{number} of {user}");
        };
        check(7, 1001, true);
        check(7, 1002, false);
        check(7, 500, false);
        check(8, 1002, true);
        check(9, 500, true);
        check(9, 1001, false);
        let by_name = Submitter { prefix: String::new(), user: "pliant".to_owned(), accounts };
        assert!(by_name.is_of(8, &"bob".to_owned()) && !by_name.is_of(7, &"bob".to_owned()));
        assert!(by_name.is_of(9, &"pliant".to_owned()));
        assert!(by_number.may_be_of(0, 8, &1001) && !by_number.may_be_of(0, 8, &1002));
        assert!(by_number.is_known(&500) && !by_number.is_known(&1003));
        let launcher = by_number.accounts.launcher(8).unwrap();
        assert_eq!((launcher.program.to_str(), launcher.account.as_str()), (Some("/launcher"), "bob"));
        assert!(by_number.accounts.launcher(9).is_none());
    }
}
