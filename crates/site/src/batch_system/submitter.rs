//! How a server's own jobs are distinguished from others' in a listing, and as whom they are submitted.
//!
//! As whom is written into a file before the submission. The machine of a server forgets a job that it has withdrawn or that has ended; an
//! entry of it that comes to light later in the batch system is still known to be the server's, and can be removed as its account.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

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
    /// Where it is noted, too; none if that is not needed.
    file: Option<Arc<Mutex<File>>>,
}

/// How many numbers are kept when the file is opened, counted from the highest: a job that is so much older has left the batch system.
const NUMBERS_KEPT: u32 = 100_000;

impl Submitters {
    /// Those of a server that does things as accounts through that launcher. If `has_accounts`, jobs of other users than the server's
    /// own are expected.
    pub fn through(launcher: PathBuf, has_accounts: bool) -> Submitters {
        Submitters { launcher, has_accounts, ..Submitters::default() }
    }

    /// The same with what is noted in a file, which is made if accounts are expected.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(path: &Path, launcher: PathBuf, has_accounts: bool) -> io::Result<Submitters> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let submitters = Submitters::through(launcher, has_accounts);
        let noted = match fs::read_to_string(path) {
            Ok(text) => read(&text),
            Err(error) if error.kind() == ErrorKind::NotFound && !has_accounts => return Ok(submitters),
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(named(error)),
        };
        // Without those of long ago, and without a line that a crash has cut.
        let text = noted.iter().fold(String::new(), |mut text, (number, account)| {
            text.push_str(&line(*number, account));
            text
        });
        let temporary = path.with_extension("tmp");
        let options = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).clone();
        let mut file = options.open(&temporary).map_err(named)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(named)?;
        fs::rename(&temporary, path).map_err(named)?;
        *submitters.noted.write() = noted;
        Ok(Submitters { file: Some(Arc::new(Mutex::new(file))), ..submitters })
    }

    /// Notes as which account a job is submitted, before anything is done for it. A number that is never noted is the server's own
    /// user's.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn note(&self, number: u32, account: Account) -> io::Result<()> {
        if self.noted.read().get(&number) == Some(&account) {
            return Ok(());
        }
        if let Some(file) = &self.file {
            // It outlives this process. After a crash of the host, what is lost of it is noted again of every job that the server knows. What
            // could be written of an earlier line on a full disk ends here, and is no line.
            file.lock().write_all(format!("\n{}", line(number, &account)).as_bytes())?;
        }
        self.noted.write().insert(number, account);
        Ok(())
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

fn line(number: u32, Account { name, uid }: &Account) -> String {
    let mut line = String::new();
    let _ = writeln!(line, "{number} {uid} {name}");
    line
}

fn read(text: &str) -> BTreeMap<u32, Account> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let noted = whole.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let (number, uid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((number, Account { name: words.next()?.parse().ok()?, uid }))
    });
    let mut noted: BTreeMap<u32, Account> = noted.collect();
    let highest = noted.last_key_value().map_or(0, |(number, _)| *number);
    noted.retain(|number, _| *number >= highest.saturating_sub(NUMBERS_KEPT));
    noted
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
        accounts.note(7, account("alice", 1001)).unwrap();
        accounts.note(8, account("bob", 1002)).unwrap();
        let by_number =
            Submitter { prefix: "pliant:x:".to_owned(), user: 500_u32, accounts: accounts.clone() };
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

    #[test]
    fn what_is_noted_outlives_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("submitters");
        let account = |name: &str, uid: u32| Account { name: name.parse().unwrap(), uid };
        let open = |has_accounts: bool| Submitters::open(&path, "/launcher".into(), has_accounts).unwrap();
        assert!(open(false).account(7).is_none() && !path.exists(), "none is needed");
        let first = open(true);
        first.note(7, account("alice", 1001)).unwrap();
        first.note(8, account("bob", 1002)).unwrap();
        first.note(8, account("bob", 1003)).unwrap();
        // Also where new jobs are the server's own by now; a line that was cut off counts for nothing.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"9 1001 ali").unwrap();
        let second = open(false);
        assert_eq!((second.account(7), second.account(9)), (Some(account("alice", 1001)), None));
        assert_eq!(second.account(8), Some(account("bob", 1003)));
        second.note(NUMBERS_KEPT + 8, account("alice", 1001)).unwrap();
        let third = open(true);
        assert_eq!((third.account(7), third.account(8)), (None, Some(account("bob", 1003))));
        assert!(third.account(NUMBERS_KEPT + 8).is_some());
    }
}
