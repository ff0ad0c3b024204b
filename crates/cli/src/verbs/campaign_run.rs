//! `pliant campaign run`: a matrix of simulations into a folder, or what is left of it.

use std::path::{Path, PathBuf};

use clap::Args;
use pliant_sim::campaign::{self, Campaign, Kind, Options, Shard, THREADS_MAX};
use serde_json::json;

use crate::failure::Failure;
use crate::input::log_dirs;
use crate::measure::measure;
use crate::numbers::whole;
use crate::output::Output;
use crate::progress::Runs;
use crate::verbs::campaign_warnings::{Warnings, nothing_ran};
use crate::verbs::{campaign_mapping, campaign_multi_job};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The campaign file (docs/campaigns.md).
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// The folder of the results. Finished runs in it are kept, so a campaign goes on where it was stopped.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How many runs at a time, at most 1024 [default: one per core, or RAYON_NUM_THREADS]. Results do not depend
    /// on it.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = whole(0..=THREADS_MAX), allow_negative_numbers = true)]
    threads: usize,
    /// Runs part I of N only; `pliant campaign merge` joins the parts.
    #[arg(long, value_name = "I/N", value_parser = |text: &str| text.parse::<Shard>(), default_value_t = Shard::WHOLE, hide_default_value = true)]
    shard: Shard,
    /// Shows no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { file, out, shard, .. } = arguments;
    let threads = threads(arguments.threads, std::env::var("RAYON_NUM_THREADS").ok().as_deref());
    match Kind::of_file(file)? {
        Kind::Mapping => return campaign_mapping::run(output, file, out, threads, *shard),
        Kind::MultiJob => return campaign_multi_job::run(output, file, out, threads, *shard),
        Kind::Simulations => {}
    }
    let mut warnings = Warnings::default();
    let mut campaign = Campaign { log_dirs: log_dirs(), ..Campaign::read(file)? };
    warnings.skipped(&campaign.skip_absent());
    let options = Options { threads, shard: *shard };
    let progress = Runs::new(arguments.quiet);
    let finished = campaign::run(&campaign, &arguments.out, options, &measure, &progress);
    progress.clear();
    let finished = finished?;
    warnings.damaged(&finished.damaged, "the run was simulated again");
    if nothing_ran(&finished.results) {
        return Err(impossible(&campaign, &arguments.out));
    }
    warnings.refused(&finished.results);
    let (dir, shard) = (arguments.out.display().to_string(), arguments.shard.to_string());
    let there = finished.results.runs.len();
    let value = json!({
        "campaign": campaign.name,
        "out": dir,
        "shard": shard,
        "simulated": finished.simulated,
        "kept": finished.kept,
        "runs": there,
        "planned": finished.results.planned,
        "warnings": warnings.all(),
    });
    let text = || {
        let mut text = format!(
            "campaign {}: {} runs simulated, {} kept; {there} of {} are in {dir}\n",
            campaign.name, finished.simulated, finished.kept, finished.results.planned
        );
        if there < finished.results.planned {
            text.push_str("join the parts with: pliant campaign merge --out WHOLE PART...\n");
        } else {
            text.push_str(&format!("look at them with: pliant campaign show {dir}, pliant report {dir}\n"));
        }
        text
    };
    output.print("campaign-run", text, value)
}

/// How many runs at a time: as the user says, else as `RAYON_NUM_THREADS` does, else 0, one per core.
fn threads(asked: usize, environment: Option<&str>) -> usize {
    let said = || environment.and_then(|threads| threads.parse().ok());
    if asked > 0 { asked } else { said().unwrap_or(0) }
}

/// The error of a campaign whose platforms take no job at all.
fn impossible(campaign: &Campaign, dir: &Path) -> Failure {
    Failure::input(format!(
        "campaign {}: expected a platform that some job fits, found every job of every run refused",
        campaign.name
    ))
    .hint(format!(
        "give larger clusters, or let jobs shrink with moldable = [\"paper\"]; begin anew in another folder than {}",
        dir.display()
    ))
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
