//! `pliant campaign run`: a campaign of any kind into a folder, or what is left of it.

use std::path::{Path, PathBuf};
use std::{process, thread};

use clap::Args;
use pliant_sim::campaign::{Campaign, Options, Shard, THREADS_MAX};
use serde_json::json;

use crate::campaigns::{Warnings, joined, view};
use crate::failure::Failure;
use crate::federation::interrupted;
use crate::input::log_dirs;
use crate::measure::measure;
use crate::numbers::whole;
use crate::output::Output;
use crate::progress::CampaignProgress;
use crate::table::counted;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The campaign file (docs/reference/files/campaign.md).
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// The folder of the results. Finished runs in it are kept: the same command resumes a campaign.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The number of parallel runs, at most 1024 [default: one per core, or RAYON_NUM_THREADS]. It does not change
    /// results.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = whole(0..=THREADS_MAX), allow_negative_numbers = true)]
    threads: usize,
    /// Runs shard I of N only; `pliant campaign merge` joins the shards.
    #[arg(long, value_name = "I/N", value_parser = |text: &str| text.parse::<Shard>(), default_value_t = Shard::WHOLE, hide_default_value = true)]
    shard: Shard,
    /// Shows no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { file, out, shard, quiet, .. } = arguments;
    let mut warnings = Warnings::default();
    let mut campaign = Campaign::read(file, log_dirs())?;
    warnings.skipped(&campaign.skip_absent());
    let progress = CampaignProgress::new(*quiet);
    end_on_interrupt(&progress, out);
    let threads = threads(arguments.threads, std::env::var("RAYON_NUM_THREADS").ok().as_deref());
    let options = Options { threads, shard: *shard };
    let finished = campaign.run(out, options, &measure, &progress);
    progress.clear();
    let finished = finished?;
    warnings.damaged(&finished.damaged, "the run was simulated again");
    let contents = &finished.contents;
    let view = view(&contents.results);
    view.check()?;
    view.warn(&mut warnings);
    let (name, dir, present) = (&contents.name, out.display().to_string(), contents.present());
    let (summary, facts) = view.summary();
    let value = json!({
        "campaign": name,
        "kind": contents.kind.name(),
        "out": dir,
        "shard": shard.to_string(),
        "simulated": finished.ran,
        "kept": finished.kept,
        "runs": present,
        "planned": contents.planned,
        "warnings": warnings.all(),
    });
    let text = || {
        let mut text = format!(
            "campaign {name}: {} simulated, {} kept; {present} of {} are in {dir}\n",
            counted(finished.ran as u64, "run"),
            finished.kept,
            contents.planned
        );
        if present < contents.planned {
            text.push_str("join the shards with: pliant campaign merge --out DIR SHARD...\n");
        } else {
            text.push_str(&summary);
            text.push_str(&format!("show them with: pliant campaign show {dir}, pliant report {dir}\n"));
        }
        text
    };
    output.print("campaign-run", text, joined(value, facts))
}

/// How many runs at a time: as the user says, else as `RAYON_NUM_THREADS` does, else 0, one per core.
fn threads(asked: usize, environment: Option<&str>) -> usize {
    let said = || environment.and_then(|threads| threads.parse().ok());
    if asked > 0 { asked } else { said().unwrap_or(0) }
}

/// Ends the process when Ctrl-C is pressed. Each finished run is in the folder by then.
fn end_on_interrupt(progress: &CampaignProgress, dir: &Path) {
    let hint = format!("finished runs are kept in {}: the same command resumes", dir.display());
    let bar = progress.bar();
    // If signals cannot be caught, Ctrl-C ends the process as usual, and the same command resumes.
    thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            bar.finish_and_clear();
            let failure = interrupted("interrupted", hint);
            failure.print();
            process::exit(failure.code.into());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_comes_before_the_environment() {
        assert_eq!(threads(3, Some("2")), 3);
        assert_eq!(threads(0, Some("2")), 2);
        assert_eq!(threads(0, Some("many")), 0);
        assert_eq!(threads(0, None), 0);
    }
}
