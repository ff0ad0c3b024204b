//! Local users and what they submit: jobs of many shapes whose limits are a minute to six.

use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Outcome;

/// How the runtimes of jobs compare with their limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Load {
    /// They end two seconds before them.
    Limits,
    /// Each user asks for a multiple of their own of what the job takes, give or take a tenth of that.
    Habits,
    /// They take 10 to 100 % of them, for any caller.
    Anything,
    /// As [`Load::Limits`], but memory and GPUs are what is scarce.
    Memory,
}

impl FromStr for Load {
    type Err = String;

    fn from_str(word: &str) -> Result<Load, String> {
        match word {
            "limits" => Ok(Load::Limits),
            "habits" => Ok(Load::Habits),
            "anything" => Ok(Load::Anything),
            "memory" => Ok(Load::Memory),
            _ => Err(format!("expected limits, habits, anything or memory, found {word}")),
        }
    }
}

/// Users that every Debian has, and which share of their limits their jobs take.
const USERS: [(&str, f64); 4] = [("daemon", 0.2), ("games", 0.35), ("mail", 0.55), ("news", 0.85)];

/// The local users of a cluster.
pub(crate) struct Users {
    random: ChaCha8Rng,
    load: Load,
    number: u64,
}

impl Users {
    pub(crate) fn new(load: Load, seed: u64) -> Users {
        Users { random: ChaCha8Rng::seed_from_u64(seed), load, number: 0 }
    }

    /// How long until one of them submits again.
    pub(crate) fn pause_s(&mut self) -> u64 {
        match self.load {
            // They take the cores for longer.
            Load::Limits => self.random.random_range(20..=50),
            Load::Habits | Load::Anything | Load::Memory => self.random.random_range(10..=24),
        }
    }

    /// One of them submits a job.
    pub(crate) fn submit(&mut self, conf: &Path) -> Outcome<()> {
        let (user, share) = USERS[self.random.random_range(0..USERS.len())];
        let limit_s = 60 * self.random.random_range(1..=6);
        let share = match self.load {
            Load::Limits | Load::Memory => 1.0 - 2.0 / f64::from(limit_s),
            Load::Habits => share * self.random.random_range(0.9..1.1),
            Load::Anything => self.random.random_range(0.1..1.0),
        };
        let seconds = (f64::from(limit_s) * share).max(1.0);
        self.number += 1;
        let mut command = Command::new("sbatch");
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("SLURM_CONF", conf)
            .args(["--parsable", "--chdir=/", "--output=/dev/null", "--export=NONE"])
            .arg(format!("--uid={user}"))
            .arg(format!("--job-name=local-{}", self.number))
            .arg(format!("--time={}", limit_s / 60))
            .args(if self.load == Load::Memory { self.resources() } else { self.shape() })
            .arg(format!("--wrap=sleep {seconds:.2}"));
        let output = command.output()?;
        if !output.status.success() {
            return Err(format!("sbatch: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(())
    }

    /// One or two cores, with memory for each or on each node, and with some GPUs; of nodes with 1,000 MiB and two GPUs.
    fn resources(&mut self) -> Vec<String> {
        let cores = self.random.random_range(1..=2);
        let mut options = vec![format!("--ntasks={cores}")];
        options.push(match self.random.random_range(0..3) {
            0 => format!("--mem-per-cpu={}", self.random.random_range(100..=900) / cores),
            1 => format!("--mem={}", self.random.random_range(200..=900)),
            _ => {
                return vec![
                    format!("--ntasks={cores}"),
                    format!("--gpus={}", self.random.random_range(1..=cores + 1)),
                ];
            }
        });
        options
    }

    /// Cores anywhere, so many on each of some nodes, or nodes to itself.
    fn shape(&mut self) -> Vec<String> {
        match self.random.random_range(0..10) {
            0..=5 => vec![format!("--ntasks={}", self.random.random_range(1..=8))],
            6..=8 => {
                let (nodes, each) = (self.random.random_range(1..=3), self.random.random_range(1..=4));
                vec![format!("--nodes={nodes}"), format!("--ntasks-per-node={each}")]
            }
            _ => vec![format!("--nodes={}", self.random.random_range(1..=2)), "--exclusive".to_owned()],
        }
    }
}
