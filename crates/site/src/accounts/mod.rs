//! Accounts of the operating system, as which users' jobs run, and the [`Launcher`] through which a server does things as them.

mod command;
mod launcher;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub(crate) use command::CommandOutput;
pub use launcher::{Launched, Launcher, LauncherError, STDERR_PREFIX};
pub use pliant_launcher::REFUSED;

/// The name of an account of the operating system: 1 to 128 letters, digits and `. _ - @ + $ \\`, not all of them digits, beginning with a letter, a digit or `_`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AccountName(String);

/// A text that is not the name of an account.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected the name of an account (1 to {} letters, digits and . _ - @ + $ \\), found `{}`",
    AccountName::LENGTH_MAX,
    found.escape_debug()
)]
pub struct AccountNameError {
    found: String,
}

impl AccountName {
    const LENGTH_MAX: usize = 128;

    /// The name, as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AccountName {
    type Err = AccountNameError;
    fn from_str(text: &str) -> Result<AccountName, AccountNameError> {
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-@+$\\".contains(byte);
        let begins_well =
            text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        // Some programs take digits for a number of an account.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let is_short = text.len() <= AccountName::LENGTH_MAX;
        if begins_well && is_short && !is_number && text.as_bytes().iter().all(is_allowed) {
            return Ok(AccountName(text.to_owned()));
        }
        Err(AccountNameError { found: text.chars().take(80).collect() })
    }
}

impl TryFrom<String> for AccountName {
    type Error = AccountNameError;
    fn try_from(text: String) -> Result<AccountName, AccountNameError> {
        text.parse()
    }
}

impl From<AccountName> for String {
    fn from(name: AccountName) -> String {
        name.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An account, as the host's name service knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// Its name.
    pub name: AccountName,
    /// Its number.
    pub uid: u32,
}

impl Account {
    /// The account of a name; none if the host has none. Asks the name service, which may take time.
    ///
    /// # Errors
    /// The name service cannot be asked.
    pub fn find(name: &AccountName) -> io::Result<Option<Account>> {
        let found = nix::unistd::User::from_name(name.as_str()).map_err(io::Error::from)?;
        Ok(found.map(|user| Account { name: name.clone(), uid: user.uid.as_raw() }))
    }
}

/// The name of the user as which this process runs; its number if it has none.
pub fn own_user() -> String {
    let uid = rustix::process::geteuid();
    let found = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid.as_raw()));
    found.ok().flatten().map_or_else(|| uid.as_raw().to_string(), |user| user.name)
}

/// As which account a job runs, and where its files are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccountRun {
    /// The account.
    pub name: AccountName,
    /// The folder of the job's files, which belongs to the account.
    pub folder: PathBuf,
    /// The launcher.
    pub launcher: PathBuf,
    /// This program, which the launcher runs as the account to start the job's program and to read and write its files.
    pub pliant: PathBuf,
    /// How many processes and threads the account may have while the job starts others: all of its jobs and logins together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes_max: Option<u64>,
    /// A batch system starts the supervisor as the account, too: the records are in the folder of the account.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_records: bool,
    /// A file of the server's beside the folder. If it is not there, the file system is not mounted, and it is not known whether there is a
    /// folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<PathBuf>,
}

impl AccountRun {
    /// The launcher, for this account.
    pub fn launcher(&self) -> Launcher {
        Launcher { program: self.launcher.clone(), account: self.name.clone() }
    }

    /// Has the launcher make the folder, unless it is there.
    ///
    /// # Errors
    /// The launcher cannot be run, or refuses.
    pub fn make_folder(&self) -> Result<(), LauncherError> {
        self.check_guard()?;
        self.launcher().make_folder(&self.folder)
    }

    /// Whether the folder is there. The folder that it is in belongs to the server: nothing of the account's is followed.
    ///
    /// # Errors
    /// That cannot be seen.
    pub fn has_folder(&self) -> Result<bool, LauncherError> {
        match std::fs::symlink_metadata(&self.folder) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.check_guard().map(|()| false),
            Err(source) => Err(LauncherError::Io { action: "look for a folder", source }),
        }
    }

    /// Fails while the file system of the folder is not mounted.
    fn check_guard(&self) -> Result<(), LauncherError> {
        match &self.guard {
            Some(guard) if !guard.try_exists().is_ok_and(|is_there| is_there) => {
                Err(LauncherError::Unmounted)
            }
            _ => Ok(()),
        }
    }

    /// A command line of this program.
    pub(crate) fn pliant(&self, arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
        std::iter::once(self.pliant.clone().into_os_string()).chain(arguments).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_accounts() {
        for name in ["alice", "a", "_svc", "alice.smith", "a-b", "alice@site", "4711x"] {
            assert_eq!(name.parse::<AccountName>().unwrap().as_str(), name);
        }
        let long = "a".repeat(129);
        for name in ["", "-a", ".a", "1000", "a b", "a:b", "a/b", "a\n", "ü", "$a", long.as_str()] {
            assert!(name.parse::<AccountName>().is_err(), "{name}");
        }
    }

    #[test]
    fn accounts_of_this_host() {
        let find = |name: &str| Account::find(&name.parse().unwrap()).unwrap();
        assert_eq!(find("root").map(|account| account.uid), Some(0));
        assert_eq!(find("pliant-no-such-account"), None);
    }
}
