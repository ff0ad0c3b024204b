//! The accounts of users on the cluster of a server, as its file maps them now. What a job was given when it was accepted stays.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use pliant_control::names::User;
use pliant_site::accounts::{Account, AccountName, AccountRun, Launcher, LauncherError};
use pliant_site::services::Refusal;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::config::{AccountMap, AccountsFile};

/// How long an answer of the host's name service, and one of the launcher, counts. Changes of the launcher's file need no restart.
const LOOKED_UP: Duration = Duration::from_secs(30);
/// How many such answers are kept.
const LOOKED_UP_MAX: usize = 10_000;

/// When the name service and the launcher were asked for an account, and why nothing runs as it, if nothing does. Locked while they are
/// asked: they are asked once for all who want to know.
type Answer = Arc<Mutex<Option<(Instant, Result<(), String>)>>>;

/// The accounts of users.
#[derive(Debug)]
pub(super) struct Accounts {
    file: AccountsFile,
    /// Where the folders of their jobs are.
    folder: PathBuf,
    /// This program.
    pliant: PathBuf,
    /// The file by which that folder is known again, where a file system may be missing.
    guard: Option<PathBuf>,
    map: Mutex<MapFile>,
    looked_up: Mutex<BTreeMap<AccountName, Answer>>,
}

/// The last good content of the map file.
#[derive(Default, Debug)]
struct MapFile {
    users: BTreeMap<User, AccountName>,
    /// What the file was when it was read, whether it made sense or not.
    version: Option<(SystemTime, u64)>,
}

/// Why a user has no account here, as text behind "expected an account".
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unmapped(String);

impl Accounts {
    /// The accounts that a server's file describes. The map file has to make sense.
    pub(super) fn new(file: &AccountsFile, pliant: PathBuf) -> Result<Accounts, io::Error> {
        let accounts = Accounts {
            file: file.clone(),
            folder: file.folder(),
            pliant,
            guard: None,
            map: Mutex::default(),
            looked_up: Mutex::default(),
        };
        if let Some(path) = &file.file {
            accounts.map.lock().read(path)?;
        }
        if file.has_accounts() {
            accounts.prepare_folder()?;
        }
        if let Some(account) = &file.shared {
            accounts
                .check(account)
                .map_err(|why| io::Error::new(io::ErrorKind::NotFound, why.to_string()))?;
        }
        Ok(accounts)
    }

    /// The same with a file by which the folder of the folders is known again; without it nothing is concluded from a folder that is missing.
    pub(super) fn guarded_by(self, guard: PathBuf) -> Accounts {
        Accounts { guard: Some(guard), ..self }
    }

    /// Accounts may look for their own folder in the folder of all, and see no other.
    fn prepare_folder(&self) -> io::Result<()> {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("accounts.folder {}: {error}", self.folder.display()))
        };
        fs::DirBuilder::new().recursive(true).mode(0o711).create(&self.folder).map_err(named)?;
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o711)).map_err(named)
    }

    /// The account as which a user's jobs run; none if that is the server's own user. May ask the host's name service and
    /// the launcher, and wait.
    pub(super) fn of(&self, user: &User) -> Result<Option<AccountName>, Unmapped> {
        let AccountsFile { map, users, shared, .. } = &self.file;
        let exception = users.get(user).cloned();
        let account = match (map, exception) {
            (AccountMap::Shared, _) => match shared {
                None => return Ok(None),
                Some(account) => account.clone(),
            },
            (_, Some(account)) => account,
            (AccountMap::Name, None) => user
                .as_str()
                .parse()
                .map_err(|_| Unmapped("its name cannot be that of an account".to_owned()))?,
            (AccountMap::Table, None) => return Err(Unmapped("it is not in the server's table".to_owned())),
            (AccountMap::File, None) => self.in_file(user)?,
        };
        self.check(&account)?;
        Ok(Some(account))
    }

    /// The same, as a request for work is refused.
    pub(super) fn of_owner(&self, user: &User) -> Result<Option<AccountName>, Refusal> {
        self.of(user).map_err(|Unmapped(why)| Refusal::NoAccount { user: user.clone(), why })
    }

    /// How something runs as an account, with its files in a folder of that name.
    pub(super) fn run(&self, account: AccountName, folder: &str) -> AccountRun {
        AccountRun {
            name: account,
            folder: self.folder.join(folder),
            launcher: self.file.launcher.clone(),
            pliant: self.pliant.clone(),
            processes_max: None,
            has_records: false,
            guard: self.guard.clone(),
        }
    }

    fn in_file(&self, user: &User) -> Result<AccountName, Unmapped> {
        let mut map = self.map.lock();
        if let Some(path) = &self.file.file
            && let Err(error) = map.read(path)
        {
            tracing::warn!(%error, "the accounts of users are those of the last good file");
        }
        map.users.get(user).cloned().ok_or_else(|| Unmapped("it is not in the server's map file".to_owned()))
    }

    /// Whether jobs may run as an account.
    fn check(&self, account: &AccountName) -> Result<(), Unmapped> {
        let answer = {
            let mut looked_up = self.looked_up.lock();
            if looked_up.len() >= LOOKED_UP_MAX && !looked_up.contains_key(account) {
                looked_up.clear();
            }
            looked_up.entry(account.clone()).or_default().clone()
        };
        let is_fresh = |at: Instant| at.elapsed() < LOOKED_UP;
        if let Some(Some((at, found))) = answer.try_lock().as_deref()
            && is_fresh(*at)
        {
            return found.clone().map_err(Unmapped);
        }
        let found = waiting(|| {
            let mut answer = answer.lock();
            match &*answer {
                Some((at, found)) if is_fresh(*at) => found.clone(),
                _ => {
                    let found = self.look_up(account);
                    *answer = Some((Instant::now(), found.clone()));
                    found
                }
            }
        });
        found.map_err(Unmapped)
    }

    fn look_up(&self, account: &AccountName) -> Result<(), String> {
        let lowest = self.file.lowest_uid;
        let own = rustix::process::geteuid().as_raw();
        match Account::find(account) {
            Ok(None) => Err(format!("there is no account {account}")),
            Ok(Some(found)) if found.uid == 0 => Err(format!("the account {account} is root")),
            Ok(Some(found)) if found.uid == own => Err(format!("the account {account} is the server's own")),
            Ok(Some(found)) if found.uid < lowest => {
                Err(format!("the account {account} has a uid below {lowest}"))
            }
            Ok(Some(_)) => self.ask_launcher(account),
            Err(error) => {
                tracing::warn!(%error, %account, "the name service does not say whether there is an account");
                Err("the name service does not answer at the moment".to_owned())
            }
        }
    }
}

/// Does something that may wait for the host. The other tasks of this thread go on meanwhile, on another one.
fn waiting<T>(act: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(act),
        _ => act(),
    }
}

/// What the launcher refuses with about an account, before what it expects of one.
const ABOUT_ACCOUNT: &str = "account: ";

impl Accounts {
    /// Whether the launcher would do something as the account, which its own file says.
    fn ask_launcher(&self, account: &AccountName) -> Result<(), String> {
        let launcher = Launcher { program: self.file.launcher.clone(), account: account.clone() };
        let Err(error) = launcher.check() else { return Ok(()) };
        if let LauncherError::Refused(why) = &error
            && let Some(why) = why.strip_prefix(ABOUT_ACCOUNT)
        {
            return Err(format!("the launcher does not allow the account {account}: {why}"));
        }
        // About the installation, which is not for users.
        tracing::warn!(%error, %account, "the launcher does not say whether something may run as an account");
        Err("the launcher does not answer at the moment".to_owned())
    }
}

impl MapFile {
    /// Reads the file if it is another than the one that was read last. What it says counts only if all of it makes sense.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let found = fs::metadata(path).map_err(named)?;
        let version = Some((found.modified().map_err(named)?, found.len()));
        if version == self.version {
            return Ok(());
        }
        if found.permissions().mode() & 0o022 != 0 {
            let file = path.display();
            tracing::warn!(%file, "its group or others can write the file that says as whom jobs run; `chmod go-w` it");
        }
        let text = fs::read_to_string(path).map_err(named)?;
        // Not before: what could not be read is read at the next call.
        self.version = version;
        self.users = parsed(&text).map_err(|why| named(io::Error::new(io::ErrorKind::InvalidData, why)))?;
        Ok(())
    }
}

/// The lines of a map file: a user and an account each; `#` begins a comment.
fn parsed(text: &str) -> Result<BTreeMap<User, AccountName>, String> {
    let mut users = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |why: String| format!("line {}: {why}", index + 1);
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [user, account] => {
                let user: User = user.parse().map_err(|error| wrong(format!("{error}")))?;
                let account = account.parse().map_err(|error| wrong(format!("{error}")))?;
                if users.insert(user.clone(), account).is_some() {
                    return Err(wrong(format!("expected each user once, found {user} again")));
                }
            }
            _ => return Err(wrong(format!("expected a user and an account, found {} words", words.len()))),
        }
    }
    Ok(users)
}

#[cfg(test)]
impl Accounts {
    /// All jobs run as the server's own user.
    pub(super) fn own() -> Accounts {
        Accounts::new(&AccountsFile::own(), "pliant".into()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        name.parse().unwrap()
    }

    /// The launcher is a shell script, which allows every account unless the test has put another one there.
    fn accounts(dir: &Path, text: &str) -> Accounts {
        let mut file: AccountsFile = toml::from_str(text).unwrap();
        file.launcher = dir.join("launcher");
        if !file.launcher.exists() {
            write_launcher(dir, "cat > /dev/null");
        }
        file.folder = Some(dir.join("spool"));
        file.file = file.file.map(|name| dir.join(name));
        Accounts::new(&file, "pliant".into()).unwrap()
    }

    fn write_launcher(dir: &Path, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.join("launcher");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn found(accounts: &Accounts, name: &str) -> Result<Option<String>, String> {
        let found = accounts.of(&user(name));
        found.map(|account| account.map(String::from)).map_err(|why| why.to_string())
    }

    #[test]
    fn users_become_accounts() {
        let dir = tempfile::tempdir().unwrap();
        let own = accounts(dir.path(), "map = \"shared\"");
        assert_eq!(found(&own, "alice"), Ok(None));
        // An account that every Linux has, and that is no person's.
        let named = accounts(
            dir.path(),
            "map = \"name\"\nlowest_uid = 1\nusers = { alice = \"daemon\", eve = \"root\" }",
        );
        assert_eq!(found(&named, "daemon"), Ok(Some("daemon".to_owned())));
        assert_eq!(found(&named, "alice"), Ok(Some("daemon".to_owned())));
        assert_eq!(found(&named, "eve"), Err("the account root is root".to_owned()));
        assert_eq!(found(&named, "root"), Err("the account root is root".to_owned()));
        assert_eq!(found(&named, "no-such-one"), Err("there is no account no-such-one".to_owned()));
        assert_eq!(found(&named, "1234"), Err("its name cannot be that of an account".to_owned()));
        let people = accounts(dir.path(), "map = \"name\"");
        assert_eq!(found(&people, "daemon"), Err("the account daemon has a uid below 1000".to_owned()));
        let table = accounts(dir.path(), "map = \"table\"\nlowest_uid = 1\nusers = { alice = \"daemon\" }");
        assert_eq!(found(&table, "alice"), Ok(Some("daemon".to_owned())));
        assert_eq!(found(&table, "daemon"), Err("it is not in the server's table".to_owned()));
        let refusal = table.of_owner(&user("daemon")).unwrap_err().to_string();
        assert_eq!(
            refusal,
            "expected an account of this cluster for user daemon, found none: it is not in the server's table"
        );
    }

    #[test]
    fn a_user_whose_account_the_launcher_refuses_has_none() {
        const NAMED: &str = "map = \"name\"\nlowest_uid = 1";
        let dir = tempfile::tempdir().unwrap();
        let refuses = |why: &str| {
            format!(
                "cat > /dev/null; echo x >> '{}/asked'; echo 'pliant-launcher: {why}' >&2; exit 125",
                dir.path().display()
            )
        };
        write_launcher(
            dir.path(),
            &refuses("account: expected one in `allow` of the file, found \"daemon\""),
        );
        let named = accounts(dir.path(), NAMED);
        let expected = "the launcher does not allow the account daemon: expected one in `allow` of the file, found \"daemon\"";
        for _ in 0..3 {
            assert_eq!(found(&named, "daemon"), Err(expected.to_owned()));
        }
        assert_eq!(
            fs::read_to_string(dir.path().join("asked")).unwrap().lines().count(),
            1,
            "it is asked once"
        );
        let refusal = named.of_owner(&user("daemon")).unwrap_err();
        assert!(matches!(refusal, Refusal::NoAccount { .. }), "{refusal}");
        // Other faults of the launcher are not for users.
        write_launcher(dir.path(), &refuses("/etc/pliant/launcher.toml:2: expected a key"));
        let silent = Err("the launcher does not answer at the moment".to_owned());
        assert_eq!(found(&accounts(dir.path(), NAMED), "daemon"), silent);
        write_launcher(dir.path(), "cat > /dev/null");
        assert_eq!(found(&accounts(dir.path(), NAMED), "daemon"), Ok(Some("daemon".to_owned())));
        // What an earlier answer was counts for a while only.
        for answer in named.looked_up.lock().values() {
            let mut answer = answer.lock();
            let (at, _) = answer.as_mut().unwrap();
            *at = at.checked_sub(LOOKED_UP).unwrap();
        }
        assert_eq!(found(&named, "daemon"), Ok(Some("daemon".to_owned())));
    }

    #[test]
    fn an_account_is_looked_up_once_for_all_who_ask_at_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        let named = accounts(dir.path(), "map = \"name\"\nlowest_uid = 1");
        let calls = dir.path().join("calls");
        write_launcher(dir.path(), &format!("cat > /dev/null; echo >> {}; sleep 0.3", calls.display()));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| named.of(&user("daemon")).unwrap());
            }
        });
        assert_eq!(fs::read_to_string(calls).unwrap().lines().count(), 1);
    }

    #[test]
    fn a_map_file_is_read_again_and_a_damaged_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        fs::write(&path, "# user account\nalice daemon\n\n").unwrap();
        let mapped = accounts(dir.path(), "map = \"file\"\nfile = \"map\"\nlowest_uid = 1");
        let none = Err("it is not in the server's map file".to_owned());
        let daemon = Ok(Some("daemon".to_owned()));
        assert_eq!((found(&mapped, "alice"), found(&mapped, "bob")), (daemon.clone(), none.clone()));
        fs::write(&path, "bob daemon # since May\n").unwrap();
        assert_eq!((found(&mapped, "alice"), found(&mapped, "bob")), (none.clone(), daemon.clone()));
        fs::write(&path, "alice daemon\nbob\n").unwrap();
        assert_eq!((found(&mapped, "alice"), found(&mapped, "bob")), (none, daemon.clone()));
        fs::remove_file(&path).unwrap();
        assert_eq!(found(&mapped, "bob"), daemon);
    }

    /// Text that is not UTF-8 stands for a file system that fails once.
    #[test]
    fn a_map_file_that_cannot_be_read_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        let write = |bytes: &[u8], modified_s: u64| {
            fs::write(&path, bytes).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(modified_s)).unwrap();
        };
        write(b"alice daemon\n", 1_000);
        let mapped = accounts(dir.path(), "map = \"file\"\nfile = \"map\"\nlowest_uid = 1");
        let daemon = Ok(Some("daemon".to_owned()));
        write(b"bob d\xffemon\n", 2_000);
        assert_eq!(found(&mapped, "alice"), daemon, "that of the last good file");
        write(b"bob daemon\n", 2_000);
        assert_eq!(found(&mapped, "bob"), daemon);
        assert!(found(&mapped, "alice").is_err());
    }

    #[test]
    fn lines_of_a_map_file() {
        let wrong = |text: &str, expected: &str| {
            let why = parsed(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        };
        wrong("alice a\nalice b", "line 2: expected each user once");
        wrong("alice", "line 1: expected a user and an account, found 1 words");
        wrong("alice a b", "found 3 words");
        wrong("alice a/b", "line 1: expected the name of an account");
        wrong("a/b alice", "line 1: expected");
    }
}
