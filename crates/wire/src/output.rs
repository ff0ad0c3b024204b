//! Output of supervisors for clients: the ends of instances, and notices of cut output.

use std::fmt;

use pliant_control::exact_text::ExactText;
use serde::{Deserialize, Serialize};

/// How the first process of a job ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited with this code, 0 to 255.
    ExitCode(i32),
    /// This signal ended it.
    Signal(i32),
    /// It never ran, for this reason.
    NotStarted(String),
}

/// The end of an instance: a line of the job's standard output.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InstanceEnd {
    /// Its number in the multi-job.
    pub instance: u32,
    /// How its first process ended.
    pub outcome: Outcome,
    /// It was ended for its walltime.
    #[serde(default, skip_serializing_if = "is_false")]
    pub over_walltime: bool,
    /// How long it took.
    pub elapsed_ms: u64,
    /// The amount of work that its arguments mean.
    #[serde(default = "unscaled", skip_serializing_if = "is_unscaled")]
    pub scale: f64,
    /// Its standard output.
    #[serde(
        default,
        skip_serializing_if = "ExactText::is_empty",
        with = "pliant_control::exact_text::string_if_utf8"
    )]
    pub output: ExactText,
    /// The output was cut.
    #[serde(default, skip_serializing_if = "is_false")]
    pub output_cut: bool,
    /// The end of what it wrote on standard error, if it failed.
    #[serde(
        default,
        skip_serializing_if = "ExactText::is_empty",
        with = "pliant_control::exact_text::string_if_utf8"
    )]
    pub error: ExactText,
}

impl InstanceEnd {
    /// Whether it ran to its own end and reported success.
    pub fn is_success(&self) -> bool {
        self.outcome == Outcome::ExitCode(0) && !self.over_walltime
    }
}

/// The notice at the end of a cut output, around the number of kept bytes.
const CUT_BEGIN: &str = "\n[pliant: output beyond ";
const CUT_END: &str = " bytes was dropped]\n";

/// The notice that replaces the output after the first `max_bytes`.
pub fn cut_notice(max_bytes: u64) -> String {
    format!("{CUT_BEGIN}{max_bytes}{CUT_END}")
}

/// True if an output ends with that notice.
pub fn is_cut(output: &[u8]) -> bool {
    let end = &output[output.len().saturating_sub(CUT_BEGIN.len() + 20 + CUT_END.len())..];
    let end = String::from_utf8_lossy(end);
    let number = end.strip_suffix(CUT_END).and_then(|rest| rest.rsplit_once(CUT_BEGIN));
    number.is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_false(value: &bool) -> bool {
    !value
}

fn unscaled() -> f64 {
    1.0
}

fn is_unscaled(scale: &f64) -> bool {
    *scale == 1.0
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::ExitCode(code) => write!(f, "exit code {code}"),
            Outcome::Signal(signal) => write!(f, "ended by signal {signal}"),
            Outcome::NotStarted(reason) => write!(f, "could not be started: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_was_cut_ends_with_the_notice() {
        let is_cut_with = |notice: String| is_cut(format!("abc{notice}").as_bytes());
        assert!(is_cut_with(cut_notice(3)) && is_cut_with(cut_notice(u64::MAX)));
        for number in ["x", ""] {
            assert!(!is_cut_with(format!("{CUT_BEGIN}{number}{CUT_END}")));
        }
        assert!(!is_cut(b"abc\n") && !is_cut(b""));
    }
}
