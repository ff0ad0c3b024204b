//! `pliant down`: stops the daemons of `pliant up` and their jobs.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::local::{self, Folder, StopReport};
use crate::output::Output;
use crate::table::counted;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder of the federation, as for `pliant up`.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let folder = Folder::of(arguments.dir.as_deref())?;
    let StopReport { daemons, jobs } = local::stop(&folder)?;
    let text = || {
        if daemons == 0 {
            return format!("Nothing runs in {}\n", folder.path().display());
        }
        let ended = if jobs == 0 {
            String::new()
        } else {
            format!(", {} ended", counted(jobs as u64, "running job"))
        };
        format!("Stopped {}{ended}\n", counted(daemons as u64, "daemon"))
    };
    output.print("down", text, json!({ "dir": folder.path(), "daemons": daemons, "jobs": jobs }))
}
