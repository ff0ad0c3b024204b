//! As which accounts the jobs of a server run: the table `[accounts]` of its file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pliant_config::resolve_relative;
use pliant_control::names::User;
use pliant_site::accounts::{AccountName, own_user};
use serde::{Deserialize, Serialize};

/// The launcher of a package.
const LAUNCHER: &str = "/usr/lib/pliant/pliant-launcher";
/// Where the folders of accounts' jobs are.
const SPOOL: &str = "/var/spool/pliant";
/// The lowest uid of people on most systems.
const LOWEST_UID: u32 = 1_000;

/// As which accounts jobs run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountsFile {
    /// How users become accounts.
    pub map: AccountMap,
    /// The accounts of users, by name of the user.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<User, AccountName>,
    /// The file that says the accounts of users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The account of all jobs; the server's own user if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<AccountName>,
    /// The launcher.
    #[serde(default = "launcher")]
    pub launcher: PathBuf,
    /// Where the folders of jobs are: `/var/spool/pliant` if jobs run as accounts and it does not say, else the state folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The lowest uid of an account.
    #[serde(default = "lowest_uid")]
    pub lowest_uid: u32,
}

/// How users become accounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccountMap {
    /// A user has the account of the same name.
    Name,
    /// A table says the account of each user.
    Table,
    /// A file says the account of each user.
    File,
    /// All users have the same account.
    Shared,
}

fn launcher() -> PathBuf {
    LAUNCHER.into()
}

fn lowest_uid() -> u32 {
    LOWEST_UID
}

/// The key that is wrong, and why.
type Wrong = (&'static str, String);

impl AccountsFile {
    /// All jobs run as the server's own user.
    pub fn own() -> AccountsFile {
        AccountsFile {
            map: AccountMap::Shared,
            users: BTreeMap::new(),
            file: None,
            shared: None,
            launcher: launcher(),
            folder: None,
            lowest_uid: LOWEST_UID,
        }
    }

    /// Makes paths absolute that are relative to the server's file.
    pub(super) fn beside(&mut self, path: &Path) {
        self.file.iter_mut().chain(&mut self.folder).for_each(|named| resolve_relative(path, named));
        resolve_relative(path, &mut self.launcher);
    }

    /// Whether jobs run as other users than the server's own.
    pub fn has_accounts(&self) -> bool {
        self.map != AccountMap::Shared || self.shared.is_some()
    }

    /// The folder of the folders of jobs that run as the server's own user, if that is not the state folder.
    pub(crate) fn jobs_folder(&self) -> Option<PathBuf> {
        self.folder.clone().filter(|_| !self.has_accounts())
    }

    /// The folder of the folders of accounts' jobs.
    pub fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| SPOOL.into())
    }

    pub(super) fn check(&self, has_share: bool) -> Result<(), Wrong> {
        let AccountsFile { map, users, file, shared, .. } = self;
        let of = |key: &'static str, word: &str| {
            Err((key, format!("expected it only with `map = \"{word}\"`, found it without")))
        };
        match (map, users.is_empty(), file, shared) {
            (AccountMap::Table, true, ..) => {
                return Err(("accounts.users", "expected the accounts of users, found none".to_owned()));
            }
            (AccountMap::File, _, None, _) => {
                return Err((
                    "accounts.file",
                    "expected the file with the accounts of users, found none".to_owned(),
                ));
            }
            (AccountMap::Shared, false, ..) => {
                let why =
                    "expected none with `map = \"shared\"`, which gives all users one account, found some";
                return Err(("accounts.users", why.to_owned()));
            }
            (AccountMap::Name | AccountMap::Table | AccountMap::Shared, _, Some(_), _) => {
                return of("accounts.file", "file");
            }
            (AccountMap::Name | AccountMap::Table | AccountMap::File, .., Some(_)) => {
                return of("accounts.shared", "shared");
            }
            _ => {}
        }
        if self.lowest_uid == 0 {
            return Err((
                "accounts.lowest_uid",
                "expected at least 1, since no job runs as root, found 0".into(),
            ));
        }
        if !self.has_accounts() {
            return Ok(());
        }
        if has_share {
            let why = "expected none together with accounts, since a server cannot slow down the processes of \
                       others, found one";
            return Err(("cluster.cpu_share", why.to_owned()));
        }
        self.check_launcher()
    }

    fn check_launcher(&self) -> Result<(), Wrong> {
        let shown = self.launcher.display();
        let expected = "expected a program with the set-user-id bit";
        match fs::metadata(&self.launcher) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o4000 != 0 => Ok(()),
            Ok(_) => Err(("accounts.launcher", format!("{expected}, found {shown} without"))),
            Err(error) => Err(("accounts.launcher", format!("{expected}, cannot look at {shown}: {error}"))),
        }
    }

    /// A warning if the accounts of jobs can read this program, which the launcher starts as them. Linux lets other processes of the
    /// account attach to a program from its first moment, unless the account may execute but not read it.
    pub fn readable_program(&self, program: &Path) -> Option<String> {
        let mode = fs::metadata(program).ok()?.permissions().mode() & 0o7777;
        (self.has_accounts() && mode & 0o044 != 0).then(|| {
            let shown = program.display();
            format!(
                "expected a program that the accounts of jobs can execute but not read, found {shown} with mode {mode:04o}: a job could \
                 attach to a process that starts another job of its user; `chmod 0711 {shown}`"
            )
        })
    }

    /// A warning if this host shows no message queues: what jobs leave there is not removed.
    pub fn hidden_queues(&self) -> Option<String> {
        (self.has_accounts() && !pliant_site::processes::shows_message_queues()).then(|| {
            "expected the message queues of this host in /dev/mqueue, found nothing mounted there: queues that jobs leave stay; \
             `systemctl enable --now dev-mqueue.mount`, or mount an `mqueue` there"
                .to_owned()
        })
    }

    /// As whom all jobs run, if it is one for all.
    pub(crate) fn shared_account(&self) -> Option<String> {
        match (self.map, &self.shared) {
            (AccountMap::Shared, Some(account)) => Some(format!("all jobs run as the account {account}")),
            (AccountMap::Shared, None) => {
                Some(format!("all jobs run as the server's own user {}", own_user()))
            }
            (AccountMap::Name | AccountMap::Table | AccountMap::File, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> AccountsFile {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_can_stand_together() {
        let check = |text: &str, key: &str, word: &str| {
            let (found, why) = file(text).check(false).unwrap_err();
            assert!(found == key && why.contains(word), "{text}: {found}: {why}");
        };
        assert_eq!(file("map = \"shared\"").check(true), Ok(()));
        check("map = \"table\"", "accounts.users", "none");
        check("map = \"file\"", "accounts.file", "none");
        check("map = \"name\"\nfile = \"f\"", "accounts.file", "map = \"file\"");
        check("map = \"name\"\nshared = \"a\"", "accounts.shared", "map = \"shared\"");
        check("map = \"shared\"\nusers = { a = \"b\" }", "accounts.users", "one account");
        check("map = \"shared\"\nlowest_uid = 0", "accounts.lowest_uid", "root");
        check("map = \"name\"\nlauncher = \"/no/such\"", "accounts.launcher", "/no/such");
        check("map = \"name\"\nlauncher = \"/bin/sh\"", "accounts.launcher", "without");
        let named = file("map = \"name\"");
        assert_eq!(named.check(true).unwrap_err().0, "cluster.cpu_share");
        assert!(toml::from_str::<AccountsFile>("map = \"nobody\"").is_err());
        assert!(toml::from_str::<AccountsFile>("map = \"table\"\nusers = { alice = \"a:b\" }").is_err());
    }

    #[test]
    fn a_program_that_accounts_can_read_is_named() {
        let program = tempfile::NamedTempFile::new().unwrap();
        let check = |text: &str, mode: u32, expected: bool| {
            fs::set_permissions(program.path(), fs::Permissions::from_mode(mode)).unwrap();
            let warning = file(text).readable_program(program.path());
            assert_eq!(warning.is_some(), expected, "{text} {mode:o}");
            let fix = format!("mode {mode:04o}");
            assert!(warning.is_none_or(|warning| warning.contains(&fix)), "{mode:o}");
        };
        check("map = \"name\"", 0o755, true);
        check("map = \"name\"", 0o715, true);
        check("map = \"name\"", 0o751, true);
        check("map = \"name\"", 0o711, false);
        check("map = \"shared\"\nshared = \"jobs\"", 0o755, true);
        check("map = \"shared\"", 0o755, false);
    }

    #[test]
    fn hidden_message_queues_are_named_where_jobs_have_accounts() {
        let is_named = |text: &str| file(text).hidden_queues().is_some();
        assert_eq!(is_named("map = \"name\""), !pliant_site::processes::shows_message_queues());
        assert!(!is_named("map = \"shared\""));
    }

    #[test]
    fn one_account_for_all_is_named() {
        assert_eq!(file("map = \"name\"").shared_account(), None);
        let shared = file("map = \"shared\"\nshared = \"jobs\"").shared_account().unwrap();
        assert_eq!(shared, "all jobs run as the account jobs");
        let own = file("map = \"shared\"").shared_account().unwrap();
        assert!(own.starts_with("all jobs run as the server's own user "), "{own}");
    }
}
