//! What a server asks of the launcher, and its form in bytes.
//!
//! A request is its length, four bytes with the lowest first, and that many bytes: fields, each of them its own length in the same
//! form and its bytes. The first field says what is asked for, the second is the account. What follows the request on the
//! input belongs to the program that is run.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

mod encode;

/// The longest request: twice what Linux takes as arguments and environment of a program.
pub const MAX_REQUEST_BYTES: usize = 4 << 20;

/// Something to be done as an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The account's name.
    pub account: String,
    /// What is done.
    pub action: Action,
}

/// What is done as an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Does nothing, if something may be done as the account.
    Check,
    /// Makes an empty folder that belongs to the account, and that no other account may look into.
    MakeFolder {
        /// The folder: directly within one that the file allows.
        folder: PathBuf,
    },
    /// Runs a program as the account, in a session of its own, in place of the launcher. It reads what follows the request.
    Run {
        /// The program, one that the file allows, and its arguments.
        program: Vec<OsString>,
        /// The program's environment, beside `PATH`, `HOME`, `USER`, `LOGNAME` and `SHELL`.
        environment: Vec<(OsString, OsString)>,
        /// The folder in which it runs. The account must have access to it.
        folder: PathBuf,
        /// The most processes and threads of the account, if there is a limit.
        processes_max: Option<u64>,
    },
    /// Runs a program as root of a user namespace that has the account and its subordinate users (subuid(5)), in a session of its own, in
    /// place of the launcher. It reads what follows the request.
    RunWithSubordinates {
        /// The program, one that the file allows, and its arguments.
        program: Vec<OsString>,
        /// The folder in which it runs.
        folder: PathBuf,
    },
    /// Sends a signal to processes of the account.
    Signal {
        /// The signal.
        signal: Signal,
        /// Process ids. A negative number is the process group of that id.
        processes: Vec<i32>,
    },
}

/// A signal that a server may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Asks for the end.
    Term,
    /// Ends.
    Kill,
    /// Stops for a while.
    Stop,
    /// Goes on after a stop.
    Cont,
}

impl Request {
    /// Reads one request and nothing of what follows it.
    ///
    /// # Errors
    /// The input cannot be read or ends early, or there is no request on it.
    pub fn read(mut input: impl Read) -> io::Result<Request> {
        let mut length = [0; 4];
        input.read_exact(&mut length)?;
        let bytes = u32::from_le_bytes(length) as usize;
        let malformed = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        if bytes > MAX_REQUEST_BYTES {
            let why = format!("expected at most {MAX_REQUEST_BYTES} bytes, found {bytes}");
            return Err(malformed(why));
        }
        let mut request = vec![0; bytes];
        input.read_exact(&mut request)?;
        Request::decode(&request).map_err(malformed)
    }

    /// Decodes a request, without its length.
    ///
    /// # Errors
    /// The bytes are no request; why, in words.
    pub fn decode(bytes: &[u8]) -> Result<Request, String> {
        let mut fields = Decoder(bytes);
        let verb = fields.field("verb", Field::text)?;
        let account = fields.field("account", Field::text)?;
        let action = match verb.as_str() {
            "check" => Action::Check,
            "make-folder" => Action::MakeFolder { folder: fields.field("folder", Field::os)?.into() },
            "run" => {
                let folder = fields.field("folder", Field::os)?.into();
                let program = fields.list("program", Field::os)?;
                let environment = pairs(&fields.list("environment", Field::os)?)?;
                let most = fields.field("processes_max", |field, _| Ok(field))?;
                let most = Some(most).filter(|most| !most.0.is_empty());
                let processes_max = most.map(|most| most.number("processes_max")).transpose()?;
                Action::Run { program, environment, folder, processes_max }
            }
            "run-with-subordinates" => {
                let folder = fields.field("folder", Field::os)?.into();
                Action::RunWithSubordinates { program: fields.list("program", Field::os)?, folder }
            }
            "signal" => {
                let signal =
                    Signal::of(&fields.field("signal", Field::text)?).ok_or_else(|| wrong("signal"))?;
                Action::Signal { signal, processes: fields.list("processes", Field::number)? }
            }
            _ => return Err(wrong("verb")),
        };
        match fields.0.is_empty() {
            true => Ok(Request { account, action }),
            false => Err("there is more behind the last field".to_owned()),
        }
    }
}

/// Names of variables, each with its value behind it.
fn pairs(words: &[OsString]) -> Result<Vec<(OsString, OsString)>, String> {
    let (pairs, []) = words.as_chunks::<2>() else { return Err(wrong("environment")) };
    let pair = |[name, value]: &[OsString; 2]| match name.is_empty() || name.as_bytes().contains(&b'=') {
        true => Err(wrong("environment")),
        false => Ok((name.clone(), value.clone())),
    };
    pairs.iter().map(pair).collect()
}

impl Signal {
    /// Every signal.
    pub const ALL: [Signal; 4] = [Signal::Term, Signal::Kill, Signal::Stop, Signal::Cont];

    fn word(self) -> &'static str {
        match self {
            Signal::Term => "term",
            Signal::Kill => "kill",
            Signal::Stop => "stop",
            Signal::Cont => "cont",
        }
    }

    fn of(word: &str) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.word() == word)
    }
}

fn wrong(field: &str) -> String {
    format!("the field `{field}` has a value that it cannot have")
}

/// Fields that are read.
struct Decoder<'a>(&'a [u8]);

/// How the bytes of a field of that name are understood.
type ReadAs<'a, T> = fn(Field<'a>, &str) -> Result<T, String>;

impl<'a> Decoder<'a> {
    fn next(&mut self) -> Result<Option<Field<'a>>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let truncated = || "the request ends within a field".to_owned();
        let (length, rest) = self.0.split_first_chunk::<4>().ok_or_else(truncated)?;
        let (field, rest) =
            rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(truncated)?;
        self.0 = rest;
        Ok(Some(Field(field)))
    }

    fn field<T>(&mut self, name: &str, read: ReadAs<'a, T>) -> Result<T, String> {
        let missing = || format!("the field `{name}` is missing");
        read(self.next()?.ok_or_else(missing)?, name)
    }

    fn list<T>(&mut self, name: &str, read: ReadAs<'a, T>) -> Result<Vec<T>, String> {
        let mut inner = Decoder(self.field(name, |field, _| Ok(field))?.0);
        std::iter::from_fn(|| inner.next().transpose()).map(|field| read(field?, name)).collect()
    }
}

/// The bytes of a field.
struct Field<'a>(&'a [u8]);

impl Field<'_> {
    fn text(self, name: &str) -> Result<String, String> {
        String::from_utf8(self.0.to_vec()).map_err(|_| wrong(name))
    }

    /// A text of the system's, which has no zero byte.
    fn os(self, name: &str) -> Result<OsString, String> {
        if self.0.contains(&0) { Err(wrong(name)) } else { Ok(OsString::from_vec(self.0.to_vec())) }
    }

    fn number<T: FromStr>(self, name: &str) -> Result<T, String> {
        self.text(name)?.parse().map_err(|_| wrong(name))
    }
}
