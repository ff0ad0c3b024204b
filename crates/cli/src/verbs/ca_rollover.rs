//! `pliant ca rollover`: replaces the root of an authority while the federation runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pliant_model::Time;
use pliant_transport::{Authority, RolloverStatus, RolloverStep};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;

#[derive(Args)]
pub(super) struct Rollover {
    /// The next step; without it the verb shows how far the rollover is.
    #[arg(value_name = "STEP")]
    step: Option<Step>,
    /// The folder of the authority.
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// With finish: locks out holders who have not renewed.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Makes a new root, which is trusted and does not sign yet.
    Begin,
    /// The new root signs; the old one is still trusted.
    Switch,
    /// Drops the old root.
    Finish,
}

pub(super) fn run(output: Output, arguments: &Rollover, now: Time) -> Result<(), Failure> {
    let authority = Authority::open(&arguments.ca)?;
    if arguments.force && arguments.step != Some(Step::Finish) {
        return Err(Failure::input("--force: expected the step finish, found another one"));
    }
    let status = match arguments.step {
        None => authority.rollover(now),
        Some(Step::Begin) => authority.begin_rollover(now),
        Some(Step::Switch) => authority.switch_rollover(now),
        Some(Step::Finish) => authority.finish_rollover(arguments.force, now),
    }?;
    let value = json!({
        "step": status.step.map(RolloverStep::name),
        "roots": status.roots,
        "not_after_s": status.not_after,
        "waiting": status.waiting,
        "ca": authority.ca_path(),
        "crl": authority.crl_path(),
    });
    output.print("ca-rollover", || text(&authority, &status), value)
}

fn text(authority: &Authority, status: &RolloverStatus) -> String {
    let (ca, crl) = (authority.ca_path(), authority.crl_path());
    let (ca, crl) = (ca.display(), crl.display());
    match status.step {
        None => format!(
            "one root is trusted, that of {ca}\nnext, after a rollover: copy {ca} and {crl} to everybody\n"
        ),
        Some(RolloverStep::Begun) => format!(
            "two roots are trusted, and the old one signs\n\
             next: copy {ca} and {crl} to all daemons and users, then `pliant ca rollover switch`\n"
        ),
        Some(RolloverStep::Switched) if status.waiting.is_empty() => format!(
            "two roots are trusted, and the new one signs; all holders have certificates of it\n\
             next: once they use them, `pliant ca rollover finish`, then copy {ca} and {crl} to everybody\n"
        ),
        Some(RolloverStep::Switched) => format!(
            "two roots are trusted, and the new one signs\nnext: renew the certificates of {}\n",
            status.waiting.join(", ")
        ),
    }
}
