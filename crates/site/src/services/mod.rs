//! Services: what a server offers to run, as its operator declares it; and the scripts that users bring.
//!
//! ```toml
//! scripts = true                        # users may bring their own; false forbids it
//!
//! [[service]]
//! name = "matrix"
//! summary = "multiplies two random square matrices"
//! command = ["{pliant}", "work", "matrix", "--size", "{size}"]
//! speedup = "amdahl:0.95,64"            # SpeedupSpec: the runtime is on 1 processor, or on N with @N behind it
//! runtime = "90s"                       # at speed 1; or "history", learned from finished runs
//! # first = "10m"                       # with "history": until enough runs are known
//! # min_runtime = "1m"                  # with "history": no shorter one counts
//! runtime_per = { argument = "size", exponent = 3.0, at = 1000 }   # for size 1000; in proportion to size^3
//! walltime_factor = 1.5                 # the walltime is so much longer
//! max_walltime = "2h"                   # at speed 1, on the processors of the runtime
//! max_procs = 32
//! max_input_bytes = 1_000_000
//! max_output_bytes = 1_000_000_000
//! users = ["alice", "bob"]              # all, if left out
//!
//! [service.arguments.size]
//! type = "integer"                      # integer, number, string, choice, bool, file
//! min = 1
//! max = 20_000
//! default = 1000
//!
//! [service.environment]
//! OMP_NUM_THREADS = "{procs}"
//!
//! [service.resources]                   # keys and values are those of the options of `pliant submit`
//! mem_per_proc = "2G"
//! gpus = "a100:1"
//! ```
//!
//! A command is a list of words, and no shell ever sees it: an argument's value takes the place of `{name}`
//! inside one word and cannot become two words, an option or a redirection. `{pliant}` is this program;
//! `{procs}` and `{walltime_s}` are filled in when the job starts, since both are decided later than it is
//! submitted. `{{` and `}}` are braces. A word with an optional argument that was not given is left out.

mod argument;
mod batch;
mod call;
mod catalogue;
mod data;
mod declared;
mod declared_argument;
mod declared_call;
mod declared_resources;
mod description;
mod duration;
mod parameter_script;
mod prepared;
mod refusal;
mod script;
mod service;
mod speedup_spec;
mod task_variables;
mod template;

pub use crate::word::Word;
pub use argument::{Argument, ArgumentKind};
pub use batch::{Batch, BatchInstance, batch_margin};
pub use call::{CallDeclaration, DEFAULT_IDLE, KeptValue, PreparedCall, ResidentCall};
pub use catalogue::Catalogue;
pub use declared::Declared;
pub use description::{ArgumentDescription, ServiceDescription};
pub use duration::{DurationError, parse_duration, show_duration};
pub use parameter_script::{ARGUMENT_VARIABLE, RunFolder, check_placeholders};
/// How many bytes of values a call has at most, and so of data at the server for all of its parameters.
pub use pliant_calls::VALUES_BYTES_MAX;
pub use prepared::{Bounds, Prepared};
pub use refusal::Refusal;
pub use script::{Script, ScriptProblem};
pub use service::{Runtime, Scaling, Service};
pub use speedup_spec::{SpeedupSpec, SpeedupSpecError};
pub use task_variables::{has_slurm_lines, task_variables};
