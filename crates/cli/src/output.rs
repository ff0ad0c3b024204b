//! What verbs print on standard output: text for people, or one JSON document for scripts.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::Failure;

/// `--format`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON document, versioned by its key `schema`.
    Json,
}

impl Output {
    /// Prints the result of a verb in the asked form: `text` as it is, or the keys of `value` (an object)
    /// with `schema: "pliant.VERB/1"`.
    pub(crate) fn print(
        self,
        verb: &str,
        text: impl FnOnce() -> String,
        value: impl Serialize,
    ) -> Result<(), Failure> {
        match self {
            Self::Text => print_bytes(text().as_bytes()),
            Self::Json => {
                let mut document = serde_json::to_value(value).map_err(Failure::system)?;
                match &mut document {
                    Value::Object(keys) => {
                        keys.insert("schema".into(), schema(verb));
                    }
                    other => document = json!({ "schema": schema(verb), "result": other }),
                }
                print_bytes(format!("{document:#}\n").as_bytes())
            }
        }
    }
}

fn schema(verb: &str) -> Value {
    Value::String(format!("pliant.{verb}/1"))
}

/// Writes a line to standard error. If that is closed or full, the exit code is all that is left to say what happened.
pub(crate) fn write_error_line(line: std::fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes to standard output. A reader that has seen enough and closed the pipe is no failure.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::system(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
