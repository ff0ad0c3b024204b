//! The launcher's file: who may call it, and what it may do as which accounts.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::error::{ConfigError, Error};
use crate::protected;
use crate::toml::{self, Entry, Value};

/// The longest file.
const MAX_BYTES: u64 = 1 << 16;
/// The lowest uid if the file names none: that of the first person on most systems.
const UID_MIN: u32 = 1000;
/// The highest uid if the file names none: the one below those that systemd gives to services as they start (`DynamicUser=`).
const UID_MAX: u32 = 61_183;

/// The content of the launcher's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The user whose processes may call the launcher.
    pub caller: String,
    /// The lowest uid of accounts, at least 1.
    pub uid_min: u32,
    /// The highest uid of accounts.
    pub uid_max: u32,
    /// The accounts as which it does something; `None` is every account from `uid_min` to `uid_max`.
    pub allow: Option<Vec<String>>,
    /// Accounts as which it does nothing, under whatever name of the same uid.
    pub deny: Vec<String>,
    /// Accounts as which nothing is begun any more, under whatever name of the same uid: what runs as them can be ended.
    pub end_only: Vec<String>,
    /// The folders in which folders of jobs are made and emptied.
    pub folders: Vec<PathBuf>,
    /// The programs that are run.
    pub programs: Vec<PathBuf>,
    /// Whether no program that is run gets more rights by executing another one (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privs: bool,
}

impl Config {
    /// Reads a file that only root can change.
    ///
    /// # Errors
    /// Others than root could change the file or put another one in its place, or it says something that it cannot say.
    pub(crate) fn load(path: &Path) -> Result<Config, Error> {
        protected::open(path, FileType::RegularFile, 0)?;
        let mut text = String::new();
        let file = fs::File::open(path).map_err(Error::system(format!("open {path:?}")))?;
        file.take(MAX_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(Error::system(format!("read {path:?}")))?;
        Config::parse(&text).map_err(|cause| Error::lasting(format!("{}:{cause}", path.display())))
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The text is too long, is no list of keys with values, or a key or value is not one of a launcher's file.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        if text.len() as u64 > MAX_BYTES {
            return Err(ConfigError { line: 1, message: format!("expected at most {MAX_BYTES} bytes") });
        }
        let mut config = Config {
            caller: String::new(),
            uid_min: UID_MIN,
            uid_max: UID_MAX,
            allow: None,
            deny: Vec::new(),
            end_only: Vec::new(),
            folders: Vec::new(),
            programs: Vec::new(),
            no_new_privs: false,
        };
        for Entry { line, key, value } in toml::parse(text)? {
            config.set(&key, value).map_err(|message| ConfigError { line, message })?;
        }
        // The name of no account is empty.
        if config.caller.is_empty() {
            let message = "the key `caller` is missing: the user who may call the launcher".to_owned();
            return Err(ConfigError { line: text.lines().count().max(1), message });
        }
        Ok(config)
    }

    fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match (key, value) {
            ("caller", Value::Text(name)) => self.caller = account_name(name)?,
            ("uid_min", Value::Number(uid)) => self.uid_min = user(uid)?,
            ("uid_max", Value::Number(uid)) => self.uid_max = user(uid)?,
            ("no_new_privs", Value::Bool(on)) => self.no_new_privs = on,
            ("allow", Value::List(names)) => self.allow = Some(each(names, account_name)?),
            ("deny", Value::List(names)) => self.deny = each(names, account_name)?,
            ("end_only", Value::List(names)) => self.end_only = each(names, account_name)?,
            ("folders", Value::List(paths)) => self.folders = each(paths, plain_path)?,
            ("programs", Value::List(paths)) => self.programs = each(paths, plain_path)?,
            ("caller", _) => return Err("expected a text: `caller = \"pliant\"`".to_owned()),
            ("uid_min" | "uid_max", _) => return Err(format!("expected a number: `{key} = 1000`")),
            ("no_new_privs", _) => return Err("expected `true` or `false`".to_owned()),
            ("allow" | "deny" | "end_only" | "folders" | "programs", _) => {
                return Err(format!("expected a list of texts: `{key} = [\"...\"]`"));
            }
            _ => {
                return Err(format!(
                    "unknown key `{key}`; expected caller, uid_min, uid_max, allow, deny, end_only, folders, programs or no_new_privs"
                ));
            }
        }
        Ok(())
    }
}

/// Whether a text can be the name of an account. Names of Active Directory have `\`, `+` or `@` before or behind their domain.
pub(crate) fn is_name(name: &str) -> bool {
    let is_first = |char: char| char.is_ascii_alphanumeric() || char == '_';
    name.len() <= 256
        && name.starts_with(is_first)
        && name.chars().all(|char| is_first(char) || matches!(char, '.' | '-' | '@' | '+' | '$' | '\\'))
        // `chown` and others take such a text for a uid.
        && !name.chars().all(|char| char.is_ascii_digit())
}

fn account_name(name: String) -> Result<String, String> {
    let expected = "the name of an account other than root";
    if is_name(&name) && name != "root" {
        Ok(name)
    } else {
        Err(format!("expected {expected}, found {name:?}"))
    }
}

fn each<T>(texts: Vec<String>, read: fn(String) -> Result<T, String>) -> Result<Vec<T>, String> {
    texts.into_iter().map(read).collect()
}

fn user(uid: u64) -> Result<u32, String> {
    match u32::try_from(uid) {
        Ok(uid) if uid > 0 => Ok(uid),
        _ => Err(format!("expected a uid from 1, found {uid}: nothing is ever done as root")),
    }
}

/// A path that is absolute, and spelled in the one way in which it is compared.
fn plain_path(path: String) -> Result<PathBuf, String> {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    let expected = "an absolute path without `.`, `..`, `//` and a `/` at its end";
    match path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_name)) {
        true => Ok(path.into()),
        false => Err(format!("expected {expected}, found {path:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        Config::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn names_of_accounts() {
        for name in [
            "alice",
            "a.b-c_d",
            "EXAMPLE\\alice",
            "EXAMPLE+alice",
            "alice@example.org",
            "_apt",
            "host$",
            "0day",
        ] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(257);
        for name in [
            "", "-alice", ".alice", "+alice", "a b", "a:b", "a\nb", "a/b", "a\0b", "0", "1000", "älice",
            "@x", &long,
        ] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_file_and_its_defaults() {
        let text = "# comment\ncaller = \"pliant\"  # who\nallow = ['alice',\n  # and\n  \"bob\",\n]\nuid_min=500\nuid_max = 70000\n\
                    folders = [\"/var/spool/pliant\"]\nprograms = [ '/usr/bin/pliant' ]\ndeny = []\nno_new_privs = true\n";
        let expected = Config {
            caller: "pliant".into(),
            uid_min: 500,
            uid_max: 70_000,
            allow: Some(vec!["alice".into(), "bob".into()]),
            deny: Vec::new(),
            end_only: Vec::new(),
            folders: vec!["/var/spool/pliant".into()],
            programs: vec!["/usr/bin/pliant".into()],
            no_new_privs: true,
        };
        assert_eq!(config(text), Ok(expected));
        let least = config("caller = 'pliant'").unwrap();
        assert_eq!((least.uid_min, least.uid_max, least.no_new_privs), (1000, 61_183, false));
        assert_eq!((least.allow, least.programs.len()), (None, 0));
    }

    #[test]
    fn what_a_file_cannot_say() {
        let check = |text: &str, expected: &str| assert_eq!(config(text).unwrap_err(), expected, "{text}");
        check("", "1: the key `caller` is missing: the user who may call the launcher");
        check("uid_min = 5\n\n", "2: the key `caller` is missing: the user who may call the launcher");
        check("\ncaller = 5", "2: expected a text: `caller = \"pliant\"`");
        check("caller = 'root'", "1: expected the name of an account other than root, found \"root\"");
        check("caller = ''", "1: expected the name of an account other than root, found \"\"");
        check("uid_min = 0", "1: expected a uid from 1, found 0: nothing is ever done as root");
        check(
            "uid_min = 4294967296",
            "1: expected a uid from 1, found 4294967296: nothing is ever done as root",
        );
        check("uid_min = 'x'", "1: expected a number: `uid_min = 1000`");
        check("uid_max = true", "1: expected a number: `uid_max = 1000`");
        check("no_new_privs = 1", "1: expected `true` or `false`");
        check("allow = 'alice'", "1: expected a list of texts: `allow = [\"...\"]`");
        check("deny = [\n'a:b']", "1: expected the name of an account other than root, found \"a:b\"");
        check(
            "allows = []",
            "1: unknown key `allows`; expected caller, uid_min, uid_max, allow, deny, end_only, folders, programs or no_new_privs",
        );
        check("caller = 'a'\ncaller = 'b'", "2: the key `caller` is there twice, first in line 1");
        for path in ["tmp", "", "/", "/a/", "/a//b", "/a/./b", "/a/../b", "./a"] {
            let message = config(&format!("folders = ['{path}']")).unwrap_err();
            assert!(message.contains("expected an absolute path"), "{path}: {message}");
        }
        let long = format!("caller = 'pliant'\n{}", "#\n".repeat(40_000));
        check(&long, "1: expected at most 65536 bytes");
    }
}
