//! Measures how well starts on real Slurm clusters are predicted, as docs/research/validation-live.md quotes it.
//!
//! - `starts record FILE CONF [--load limits|habits|anything|memory] [--seed N] [--minutes N]` keeps the cluster of a slurm.conf busy
//!   with the jobs of four local users, lists it every ten seconds as a server does, and writes what it sees to FILE. As
//!   root; `deploy/test-clusters/slurm.sh` starts clusters to do it with.
//! - `starts report FILE... [--after N]` plans every listing of the recordings anew, under each way of
//!   planning, and compares with when the jobs really started. Nothing that came later than a listing is used for it.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program of its own, that measures time, prints tables and starts processes"
)]

mod local;
mod record;
mod recording;
mod report;

use std::path::PathBuf;

/// What goes wrong here ends the measurement: only people read it.
type Outcome<A> = Result<A, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "usage: starts record FILE CONF [--load limits|habits|anything|memory] [--seed N] [--minutes N]\n       \
                     starts report FILE... [--after N]";

/// The words of a command line, and the values of its options.
struct Words {
    words: Vec<PathBuf>,
    load: local::Load,
    seed: u64,
    minutes: u64,
    after_s: i64,
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next().ok_or(USAGE)?;
    let words = words(arguments)?;
    match (verb.as_str(), words.words.as_slice()) {
        ("record", [file, conf]) => record::record(file, conf, words.load, words.seed, words.minutes),
        ("report", files) if !files.is_empty() => report::report(files, words.after_s),
        _ => Err(USAGE.into()),
    }
}

fn words(mut arguments: impl Iterator<Item = String>) -> Outcome<Words> {
    let mut words =
        Words { words: Vec::new(), load: local::Load::Habits, seed: 1, minutes: 20, after_s: 300 };
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.strip_prefix("--") else {
            words.words.push(argument.into());
            continue;
        };
        let value = arguments.next().ok_or(USAGE)?;
        match option {
            "load" => words.load = value.parse()?,
            "seed" => words.seed = value.parse()?,
            "after" => words.after_s = value.parse()?,
            "minutes" => words.minutes = value.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(words)
}
