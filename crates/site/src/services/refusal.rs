//! Why a request for a service, or a script, is refused.

use std::fmt;

use pliant_control::names::{Key, Name, User};
use pliant_control::reason::Cause;
use pliant_model::Span;
use pliant_staging::FileName;

use super::duration::show_duration;
use super::script::ScriptProblem;
use super::speedup_spec::SpeedupSpecError;
use super::template::BUILT_IN;

/// A request that cannot be prepared.
#[derive(Clone, PartialEq, Debug)]
pub enum Refusal {
    /// The server has no such service, or none for this user: the two look the same from outside.
    Service {
        /// What was asked for.
        found: String,
        /// What is there for the user.
        expected: Vec<String>,
    },
    /// The service has no such argument.
    Unknown {
        /// What was given.
        found: String,
        /// The arguments that it has.
        expected: Vec<String>,
    },
    /// An argument without a default was not given.
    Missing {
        /// The argument.
        argument: String,
        /// What it takes.
        expected: String,
    },
    /// An argument's value is not what it takes.
    Value {
        /// The argument.
        argument: String,
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// The value would stand where the program reads an option.
    Dash {
        /// The argument.
        argument: String,
        /// What was given.
        found: String,
    },
    /// It would run longer than it may.
    TooLong {
        /// How long it may run.
        allowed: Span,
        /// How long it would.
        found: Span,
    },
    /// An input file that an argument names was not submitted.
    MissingInput {
        /// Its name.
        name: FileName,
    },
    /// The input files are too large together.
    InputBytes {
        /// Bytes that are allowed.
        allowed: u64,
        /// Bytes that were submitted.
        found: u64,
    },
    /// The server runs no scripts.
    NoScripts,
    /// The server does not have the file system of the folder in which the script is to run.
    NotShared {
        /// The file system.
        file_system: Name,
    },
    /// Files were submitted with a script that runs in a folder of the user's own.
    InputsInPlace,
    /// The user has no account on the cluster.
    NoAccount {
        /// The user.
        user: User,
        /// Why, as text behind "expected an account".
        why: String,
    },
    /// The script cannot be run.
    Script(ScriptProblem),
    /// The parameter of a script has a name that no variable can have, or one that means something else.
    Parameter {
        /// Its name.
        found: String,
    },
    /// An argument of a script has braces that name no parameter.
    Placeholder {
        /// The argument.
        word: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A script's speedup model uses more processors than the server gives.
    Speedup(SpeedupSpecError),
    /// The service needs resources that only jobs get, and is to run otherwise.
    OnlyJobs {
        /// Its name.
        service: String,
        /// What it needs besides processors.
        resources: String,
    },
    /// The values of a call are not those of the service's signature.
    Values {
        /// The service.
        service: String,
        /// What is wrong.
        problem: String,
    },
    /// A call names data that are not here, or not of its user.
    NoData {
        /// The parameter.
        parameter: String,
        /// The key of the data.
        data: Key,
    },
    /// What a call has stay at the server is more than its user may have.
    DataBounds {
        /// What is wrong.
        problem: String,
    },
    /// The service has no signature, or is called in another way.
    NotTyped {
        /// Its name.
        service: String,
    },
    /// A typed service was asked for without a call.
    OnlyCalls {
        /// Its name.
        service: String,
    },
}

impl Refusal {
    /// What stands in the way.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Service { .. } | Self::NoScripts | Self::NotShared { .. } => Cause::NotOffered,
            Self::NoAccount { .. } => Cause::NoAccount,
            Self::TooLong { .. } => Cause::TooLong,
            Self::Unknown { .. } | Self::Missing { .. } | Self::Value { .. } => Cause::Invalid,
            Self::Dash { .. } | Self::Script(_) | Self::Speedup(_) => Cause::Invalid,
            Self::MissingInput { .. } | Self::InputBytes { .. } | Self::InputsInPlace => Cause::Invalid,
            Self::Parameter { .. } | Self::Placeholder { .. } | Self::OnlyJobs { .. } => Cause::Invalid,
            Self::Values { .. } | Self::OnlyCalls { .. } => Cause::Invalid,
            Self::NotTyped { .. } => Cause::NotOffered,
            Self::NoData { .. } => Cause::NoData,
            Self::DataBounds { .. } => Cause::DataBounds,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Service { .. } => "`pliant servers --services` lists what each server offers".to_owned(),
            Self::Unknown { .. } => "`pliant servers --services` says what each of them is".to_owned(),
            Self::Missing { argument, .. } => format!("add {argument}=..."),
            Self::Value { argument, .. } => {
                format!("`pliant servers --services` says what {argument} takes")
            }
            Self::Dash { .. } => "a value that begins with `-` would be read as an option".to_owned(),
            Self::TooLong { .. } => "ask for less, or on another server".to_owned(),
            Self::MissingInput { .. } | Self::InputBytes { .. } => String::new(),
            Self::NotShared { .. } => "submit it to a server that shares it, or without --chdir".to_owned(),
            Self::InputsInPlace => "put them into the folder of --chdir".to_owned(),
            Self::NoScripts => "use one of its services, or another server".to_owned(),
            Self::NoAccount { .. } => "ask the operator of this server, or use another server".to_owned(),
            Self::Script(problem) => problem.hint().to_owned(),
            Self::Parameter { .. } => "rename the parameter".to_owned(),
            Self::Placeholder { .. } => "write {{ or }} for a brace itself".to_owned(),
            Self::Speedup(error) => error.hint(),
            Self::Values { .. } | Self::NotTyped { .. } => {
                "`pliant servers --services` shows the signatures of typed services".to_owned()
            }
            Self::NoData { .. } => {
                "pass the value itself; data expire, and are deleted by their user".to_owned()
            }
            Self::DataBounds { .. } => {
                "delete data that are not needed any more, or have them come back".to_owned()
            }
            Self::OnlyCalls { .. } => {
                "programs call it with values, through GridRPC or the client library".to_owned()
            }
            Self::OnlyJobs { .. } => "`pliant submit` and `pliant sweep` run it in jobs".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| text.chars().take(80).flat_map(char::escape_debug).collect::<String>();
        match self {
            Self::Service { found, expected } if expected.is_empty() => {
                write!(f, "expected a service, found `{}` on a server that offers none", shown(found))
            }
            Self::Service { found, expected } => {
                write!(f, "expected a service ({}), found `{}`", expected.join(", "), shown(found))
            }
            Self::Unknown { found, expected } if expected.is_empty() => {
                write!(f, "expected no argument, since the service takes none, found `{}`", shown(found))
            }
            Self::Unknown { found, expected } => {
                write!(
                    f,
                    "expected an argument of the service ({}), found `{}`",
                    expected.join(", "),
                    shown(found)
                )
            }
            Self::Missing { argument, expected } => {
                write!(f, "`{argument}`: expected {expected}, found nothing")
            }
            Self::Value { argument, expected, found } => {
                write!(f, "`{argument}`: expected {expected}, found `{}`", shown(found))
            }
            Self::Dash { argument, found } => {
                write!(f, "`{argument}`: expected no leading `-`, found `{}`", shown(found))
            }
            Self::TooLong { allowed, found } => {
                let (allowed, found) = (show_duration(*allowed), show_duration(*found));
                write!(f, "expected at most {allowed} of time, found {found}")
            }
            Self::MissingInput { name } => write!(f, "expected the input file {}, found none", name.as_str()),
            Self::InputBytes { allowed, found } => {
                write!(f, "expected at most {allowed} bytes of input, found {found}")
            }
            Self::NoScripts => write!(f, "expected a service, found a script on a server that runs none"),
            Self::NotShared { file_system } => {
                write!(f, "expected a folder on a file system of the server, found one on `{file_system}`")
            }
            Self::InputsInPlace => {
                write!(f, "expected no input files for a script in a folder of the user's own, found some")
            }
            Self::NoAccount { user, why } => {
                write!(f, "expected an account of this cluster for user {user}, found none: {why}")
            }
            Self::Script(problem) => problem.fmt(f),
            Self::Parameter { found } => write!(
                f,
                "expected a parameter of letters, digits and `_` that is none of {}, found `{}`",
                BUILT_IN.join(", "),
                shown(found)
            ),
            Self::Placeholder { word, problem } => {
                write!(f, "argument `{}` of the script: {problem}", shown(word))
            }
            Self::Speedup(error) => error.fmt(f),
            Self::Values { service, problem } => write!(f, "call of `{}`: {problem}", shown(service)),
            Self::NoData { parameter, data } => {
                write!(
                    f,
                    "`{}`: expected data of this user at this server, found none with the key {data}",
                    shown(parameter)
                )
            }
            Self::DataBounds { problem } => f.write_str(problem),
            Self::NotTyped { service } => {
                write!(f, "expected a service with a signature, found `{}`, which has none", shown(service))
            }
            Self::OnlyCalls { service } => {
                write!(
                    f,
                    "expected a call, since `{}` is a typed service, found a submission",
                    shown(service)
                )
            }
            Self::OnlyJobs { service, resources } => write!(
                f,
                "expected a service that needs processors alone, found `{service}`, which needs {resources}"
            ),
        }
    }
}

impl std::error::Error for Refusal {}
