//! Scripts that a page submits, read as the command line reads them.

use std::sync::Arc;
use std::time::Duration;

use pliant_control::names::Name;
use pliant_staging::FileName;
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
    /// The names of the files that are sent along: those of an earlier job.
    pub inputs: Vec<FileName>,
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

type Read = dyn Fn(&TypedScript) -> Result<ReadScript, Problem> + Send + Sync;
type Write = dyn Fn(&Script, &[FileName]) -> Result<TypedScript, Problem> + Send + Sync;

/// Reads scripts as they are typed, and writes them so. The command line has the options and the lines in scripts that describe jobs, so
/// it hands its reader to the pages: what is submitted here is what the same command would submit.
#[derive(Clone)]
pub struct ScriptReader {
    read: Arc<Read>,
    write: Arc<Write>,
}

impl ScriptReader {
    /// A reader. `write` says how a script has to be typed, with these files sent along, so that `read` reads the same script, or why it
    /// cannot be typed into a form.
    pub fn new(
        read: impl Fn(&TypedScript) -> Result<ReadScript, Problem> + Send + Sync + 'static,
        write: impl Fn(&Script, &[FileName]) -> Result<TypedScript, Problem> + Send + Sync + 'static,
    ) -> ScriptReader {
        ScriptReader { read: Arc::new(read), write: Arc::new(write) }
    }

    pub(crate) fn read(&self, typed: &TypedScript) -> Result<ReadScript, Problem> {
        (self.read)(typed)
    }

    pub(crate) fn write(&self, script: &Script, inputs: &[FileName]) -> Result<TypedScript, Problem> {
        (self.write)(script, inputs)
    }
}
