//! What a server asks of the launcher, and its form in bytes.
//!
//! A request is its length, four bytes with the lowest first, and that many bytes: fields, each of them its own length in the same
//! form and its bytes. The first field says what is asked for, the second is the account. What follows the request on the
//! input belongs to the program that is run.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

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

/// Why bytes are no request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// The request is longer than [`MAX_REQUEST_BYTES`].
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The bytes end within a field.
    Truncated,
    /// A field is missing.
    Missing(&'static str),
    /// A field has a value that it cannot have.
    Field(&'static str),
    /// There are bytes behind the last field.
    Excess,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::TooLong { bytes } => {
                write!(f, "expected at most {MAX_REQUEST_BYTES} bytes, found {bytes}")
            }
            Malformed::Truncated => f.write_str("the request ends within a field"),
            Malformed::Missing(field) => write!(f, "the field `{field}` is missing"),
            Malformed::Field(field) => write!(f, "the field `{field}` has a value that it cannot have"),
            Malformed::Excess => f.write_str("there is more behind the last field"),
        }
    }
}

impl std::error::Error for Malformed {}

impl Request {
    /// The request in bytes, with its length.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Fields(vec![0; 4]);
        fields.add(self.action.verb().as_bytes());
        fields.add(self.account.as_bytes());
        match &self.action {
            Action::MakeFolder { folder } => fields.add(folder.as_os_str().as_bytes()),
            Action::Run { program, environment, folder, processes_max } => {
                fields.add(folder.as_os_str().as_bytes());
                fields.list(program.iter().map(|word| word.as_bytes()));
                let pairs = environment.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
                fields.list(pairs);
                fields.add(processes_max.map_or(String::new(), |most| most.to_string()).as_bytes());
            }
            Action::Signal { signal, processes } => {
                fields.add(signal.word().as_bytes());
                let numbers: Vec<String> = processes.iter().map(i32::to_string).collect();
                fields.list(numbers.iter().map(|number| number.as_bytes()));
            }
        }
        let Fields(mut bytes) = fields;
        let length = length(bytes.len() - 4);
        bytes[..4].copy_from_slice(&length);
        bytes
    }

    /// Reads one request and nothing of what follows it.
    ///
    /// # Errors
    /// The input cannot be read or ends early, or there is no request on it.
    pub fn read(mut input: impl Read) -> io::Result<Request> {
        let mut length = [0; 4];
        input.read_exact(&mut length)?;
        let bytes = u32::from_le_bytes(length) as usize;
        let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        if bytes > MAX_REQUEST_BYTES {
            return Err(malformed(Malformed::TooLong { bytes }));
        }
        let mut request = vec![0; bytes];
        input.read_exact(&mut request)?;
        Request::decode(&request).map_err(malformed)
    }

    /// Decodes a request, without its length.
    ///
    /// # Errors
    /// The bytes are no request.
    pub fn decode(bytes: &[u8]) -> Result<Request, Malformed> {
        let mut fields = Decoder(bytes);
        let verb = fields.text("verb")?;
        let account = fields.text("account")?;
        let action = match verb.as_str() {
            "make-folder" => Action::MakeFolder { folder: fields.path("folder")? },
            "run" => {
                let folder = fields.path("folder")?;
                let program = fields.list("program")?.into_iter().map(|word| word.os("program"));
                let program = program.collect::<Result<_, _>>()?;
                let environment = environment(fields.list("environment")?)?;
                let most = Some(fields.field("processes_max")?).filter(|most| !most.0.is_empty());
                let processes_max = most.map(|most| most.number("processes_max")).transpose()?;
                Action::Run { program, environment, folder, processes_max }
            }
            "signal" => {
                let signal = Signal::of(&fields.text("signal")?).ok_or(Malformed::Field("signal"))?;
                let numbers = fields.list("processes")?;
                let processes =
                    numbers.into_iter().map(|number| number.number("processes")).collect::<Result<_, _>>()?;
                Action::Signal { signal, processes }
            }
            _ => return Err(Malformed::Field("verb")),
        };
        if fields.0.is_empty() { Ok(Request { account, action }) } else { Err(Malformed::Excess) }
    }
}

impl Action {
    /// The word for it.
    fn verb(&self) -> &'static str {
        match self {
            Action::MakeFolder { .. } => "make-folder",
            Action::Run { .. } => "run",
            Action::Signal { .. } => "signal",
        }
    }
}

fn environment(fields: Vec<Field<'_>>) -> Result<Vec<(OsString, OsString)>, Malformed> {
    let wrong = Malformed::Field("environment");
    let (pairs, []) = fields.as_chunks::<2>() else { return Err(wrong) };
    let mut environment: Vec<(OsString, OsString)> = Vec::with_capacity(pairs.len());
    for [name, value] in pairs {
        if name.0.is_empty() || name.0.contains(&b'=') {
            return Err(wrong);
        }
        environment.push((name.os("environment")?, value.os("environment")?));
    }
    Ok(environment)
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

/// Fields that are written.
struct Fields(Vec<u8>);

impl Fields {
    fn add(&mut self, field: &[u8]) {
        self.0.extend(length(field.len()));
        self.0.extend(field);
    }

    /// A field of fields.
    fn list<'a>(&mut self, list: impl Iterator<Item = &'a [u8]>) {
        let mut inner = Fields(Vec::new());
        list.for_each(|field| inner.add(field));
        self.add(&inner.0);
    }
}

/// A length in bytes. One that no request can have stays one that no request can have.
fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}

/// Fields that are read.
struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    fn next(&mut self) -> Result<Option<Field<'a>>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (length, rest) = self.0.split_first_chunk::<4>().ok_or(Malformed::Truncated)?;
        let (field, rest) =
            rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(Some(Field(field)))
    }

    fn field(&mut self, name: &'static str) -> Result<Field<'a>, Malformed> {
        self.next()?.ok_or(Malformed::Missing(name))
    }

    fn text(&mut self, name: &'static str) -> Result<String, Malformed> {
        self.field(name)?.text(name)
    }

    fn path(&mut self, name: &'static str) -> Result<PathBuf, Malformed> {
        self.field(name)?.os(name).map(PathBuf::from)
    }

    fn list(&mut self, name: &'static str) -> Result<Vec<Field<'a>>, Malformed> {
        let mut inner = Decoder(self.field(name)?.0);
        std::iter::from_fn(|| inner.next().transpose()).collect()
    }
}

/// The bytes of a field.
#[derive(Clone, Copy)]
struct Field<'a>(&'a [u8]);

impl Field<'_> {
    fn text(self, name: &'static str) -> Result<String, Malformed> {
        String::from_utf8(self.0.to_vec()).map_err(|_| Malformed::Field(name))
    }

    /// A text of the system's, which has no zero byte.
    fn os(self, name: &'static str) -> Result<OsString, Malformed> {
        match self.0.contains(&0) {
            true => Err(Malformed::Field(name)),
            false => Ok(OsString::from_vec(self.0.to_vec())),
        }
    }

    fn number<T: std::str::FromStr>(self, name: &'static str) -> Result<T, Malformed> {
        self.text(name)?.parse().map_err(|_| Malformed::Field(name))
    }
}
