//! Measures the live federation, with real processes, certificates and TLS connections on the loopback address:
//! `cargo run --release -p pliant-daemon --example load -- [submits|batches|discovery|archive|backlog|flood|folding|explorations|scripts|retention]...
//! [--dir DIR] [--seconds N] [--figures DIR] [--jobs N] [--servers N] [--no-summaries]`
//!
//! docs/research/performance-live.md quotes what it prints. Everything is made in a temporary folder (in DIR, whose disk then counts),
//! and removed at the end. The daemons are this program again and end with it, however it ends.
//!
//! - `submits`: an agent and three servers whose clusters are full take submissions from 8 users at once.
//! - `batches`: the same with 256 submissions of each user at a time, which go several in a message.
//! - `discovery`: a tree of a master, 12 local agents and 138 servers (or `--servers N`) is asked who would complete a job first, with
//!   `--no-summaries` by asking every server.
//! - `archive`: an agent with 1,000,000 ended jobs and 50,000 waiting ones is started, queried, and gets status updates of
//!   100,000 more.
//! - `backlog`: a server with 1,000,000 waiting jobs is started, and takes submissions while it writes a snapshot.
//! - `flood`: one user asks an agent with 600,000 ended jobs 2,000 questions a second while another submits and lists jobs.
//! - `folding`: a job made for two cores runs on both, and folded onto one (quoted in docs/research/paper-001.md).
//! - `scripts`: 200 jobs with scripts of 1 MiB wait at a server, and are cancelled: its memory and its disk space, also of a debug build.
//! - `retention`: a server's journal goes through 1,000,000 jobs (or `--jobs N`) in 1,000 days of compressed time: the size of its files.
//! - `explorations`: 100 users share 138 servers, as in section 5.2 of paper 004; `--figures DIR` draws what that uses.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program of its own, that measures time, prints tables and starts processes"
)]

mod archive;
mod backlog;
mod daemon;
mod discovery;
mod explorations;
mod federation;
mod figures;
mod flood;
mod folding;
mod past;
mod retention;
mod scripts;
mod submits;

use std::path::PathBuf;
use std::time::Duration;

/// What goes wrong here ends the measurement: only people read it.
type Outcome<A> = Result<A, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "usage: load [submits|batches|discovery|archive|backlog|flood|folding|explorations|scripts|retention]... [--dir DIR] [--seconds N] [--figures DIR] [--jobs N] [--servers N] [--no-summaries]";

/// The measurements of sizes, which are the same in every build.
const SIZES: [&str; 2] = ["scripts", "retention"];

/// What was asked for on the command line.
struct Options {
    wanted: Vec<String>,
    dir: PathBuf,
    /// How long submissions go on.
    time: Duration,
    /// Where figures are drawn, if they are.
    figures: Option<PathBuf>,
    /// How many jobs a server goes through.
    jobs: u32,
    /// How many servers a discovery has.
    servers: usize,
    /// Whether daemons report their summaries.
    summaries: bool,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        // What the measurements start: daemons, and what daemons start.
        Some((verb, files)) if verb == daemon::VERB => daemon::run(files),
        Some((verb, dirs)) if verb == daemon::SUPERVISOR => {
            let dir = dirs.first().ok_or("expected a folder")?;
            Ok(pliant_site::processes::supervise(dir.as_ref())?)
        }
        _ => measure(&options(arguments)?),
    }
}

fn options(arguments: Vec<String>) -> Outcome<Options> {
    let (dir, time) = (std::env::temp_dir(), Duration::from_secs(10));
    let mut options = Options {
        wanted: Vec::new(),
        dir,
        time,
        figures: None,
        jobs: retention::JOBS,
        servers: discovery::SERVERS,
        summaries: true,
    };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(USAGE);
        match argument.as_str() {
            "submits" | "batches" | "discovery" | "archive" | "backlog" | "flood" | "folding"
            | "explorations" | "scripts" | "retention" => options.wanted.push(argument),
            "--dir" => options.dir = value()?.into(),
            "--figures" => options.figures = Some(value()?.into()),
            "--jobs" => options.jobs = value()?.parse()?,
            "--servers" => options.servers = value()?.parse()?,
            "--no-summaries" => options.summaries = false,
            "--seconds" => options.time = Duration::from_secs(value()?.parse()?),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

fn measure(options: &Options) -> Outcome<()> {
    let only_sizes =
        !options.wanted.is_empty() && options.wanted.iter().all(|one| SIZES.contains(&one.as_str()));
    if cfg!(debug_assertions) && !only_sizes {
        return Err("expected a release build (--release): the figures of others mean nothing".into());
    }
    let is_wanted = |name: &str| options.wanted.is_empty() || options.wanted.iter().any(|one| one == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        if is_wanted("submits") {
            submits::measure(&options.dir, options.time).await?;
        }
        if is_wanted("batches") {
            submits::measure_batches(&options.dir, options.time).await?;
        }
        if is_wanted("discovery") {
            discovery::measure(&options.dir, options.servers, options.summaries).await?;
        }
        if is_wanted("archive") {
            archive::measure(&options.dir).await?;
        }
        if is_wanted("backlog") {
            backlog::measure(&options.dir, options.time).await?;
        }
        if is_wanted("flood") {
            flood::measure(&options.dir, options.time).await?;
        }
        if is_wanted("folding") {
            folding::measure(&options.dir).await?;
        }
        if is_wanted("explorations") {
            explorations::measure(&options.dir, options.figures.as_deref()).await?;
        }
        if is_wanted("scripts") {
            scripts::measure(&options.dir).await?;
        }
        if is_wanted("retention") {
            retention::measure(&options.dir, options.jobs)?;
        }
        Ok(())
    })
}
