//! Scripts that a page submits, read as the command line reads them.

use std::sync::Arc;
use std::time::Duration;

use pliant_control::names::Name;
use pliant_wire::Script;

use crate::problem::Problem;

/// A script as it was typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypedScript {
    /// The name of the script.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Options of `pliant submit`, one word each.
    pub options: Vec<String>,
    /// The arguments of the script.
    pub arguments: Vec<String>,
}

/// A script with everything that its options and its lines say.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadScript {
    /// The script.
    pub script: Script,
    /// The only server to submit to.
    pub server: Option<Name>,
    /// How long to try until a server takes it.
    pub timeout: Duration,
}

/// Reads scripts. The command line has the options and the lines in scripts that describe jobs, so it hands its reader to the pages:
/// what is submitted here is what the same command would submit.
pub type ScriptReader = Arc<dyn Fn(&TypedScript) -> Result<ReadScript, Problem> + Send + Sync>;
