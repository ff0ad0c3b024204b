//! Keeps a cluster busy, and writes down what a server in front of it sees.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pliant_model::Time;
use pliant_site::slurm::{Settings, Slurm};

use crate::Outcome;
use crate::local::{Load, Users};
use crate::recording::Line;

/// Between two listings, as a server's `period_s`.
const PERIOD: Duration = Duration::from_secs(10);
/// Jobs that are there from the beginning.
const FIRST: usize = 30;

pub(crate) fn record(file: &Path, conf: &Path, load: Load, seed: u64, minutes: u64) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(keep(file, conf, load, seed, minutes))
}

async fn keep(file: &Path, conf: &Path, load: Load, seed: u64, minutes: u64) -> Outcome<()> {
    let settings = Settings { conf: Some(conf.to_owned()), ..Settings::default() };
    let slurm = Slurm::connect(settings, &"nobody".parse()?).await?;
    let mut file = File::create(file)?;
    let mut write = |line: &Line| -> Outcome<()> { Ok(writeln!(file, "{}", serde_json::to_string(line)?)?) };
    let interval = slurm.about().scheduler.interval;
    write(&Line::ClusterConfiguration { interval, load: format!("{load:?}").to_lowercase() })?;
    let mut users = Users::new(load, seed);
    for _ in 0..FIRST {
        users.submit(conf)?;
    }
    let begin = Instant::now();
    let mut next_submission = Duration::from_secs(users.pause_s());
    let mut next_listing = Duration::ZERO;
    let mut began = BTreeMap::new();
    while begin.elapsed() < Duration::from_secs(60 * minutes) {
        if begin.elapsed() >= next_submission {
            users.submit(conf)?;
            next_submission += Duration::from_secs(users.pause_s());
        }
        if begin.elapsed() >= next_listing {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            write(&Line::Listed(slurm.list(Time(now as i64)).await?.listing))?;
            began.extend(starts(conf)?);
            next_listing += PERIOD;
        }
        let next = next_listing.min(next_submission);
        tokio::time::sleep(next.saturating_sub(begin.elapsed())).await;
    }
    write(&Line::Began(began))
}

/// When jobs started, of all that the controller still knows.
fn starts(conf: &Path) -> Outcome<Vec<(String, Time)>> {
    let mut command = Command::new("squeue");
    command.env("SLURM_CONF", conf).env("SLURM_TIME_FORMAT", "%s").env("TZ", "UTC");
    let output = command.args(["--all", "--noheader", "--states=all", "--format=%i %T %S"]).output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let start = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            [_, "PENDING", _] => None,
            [id, _, at] => Some(((*id).to_owned(), Time(at.parse().ok()?))),
            _ => None,
        }
    };
    Ok(printed.lines().filter_map(start).collect())
}
