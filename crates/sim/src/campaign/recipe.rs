//! Recipes: which generator, with which parameters. The same words in campaign files and on the command line.

use std::str::FromStr;

use pliant_model::{Platform, Procs};
use pliant_policy::UnknownName;
use pliant_trace::Workload;
use pliant_trace::generate::{self, Month};

use super::words::find;

/// What a generator makes if it is not told how many jobs.
const JOBS: u32 = 10_000;
/// Length of a `federation` workload that is not told.
const DAYS: f64 = 30.0;
/// Offered load of a `federation` workload that is not told.
const LOAD: f64 = 0.7;

/// Longest request of paper 001's workloads that is not told (spec A001-5).
const LONGEST_S: i64 = 200_000;

/// A workload generator (`docs/workloads.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generator {
    /// A month like one of Grid'5000's in 2008 (paper 000, Table 1).
    Grid5000,
    /// A stand-in for paper 000's seventh workload.
    PwaG5k,
    /// Lublin and Feitelson 2003, for one machine.
    Lublin,
    /// Paper 001's synthetic workload.
    Uniform,
    /// The same with normal laws.
    Gaussian,
    /// Any number of jobs on any platform.
    Federation,
}

impl Generator {
    /// Every one, in the order in which they are listed to users.
    pub const ALL: &'static [Generator] =
        &[Self::Grid5000, Self::PwaG5k, Self::Lublin, Self::Uniform, Self::Gaussian, Self::Federation];

    /// The stable name, as in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grid5000 => "grid5000",
            Self::PwaG5k => "pwa-g5k",
            Self::Lublin => "lublin",
            Self::Uniform => "uniform",
            Self::Gaussian => "gaussian",
            Self::Federation => "federation",
        }
    }

    /// The platform that its jobs are made for, if it is not told.
    pub const fn platform(self) -> Option<&'static str> {
        match self {
            Self::Grid5000 | Self::Federation => Some("grid5000"),
            Self::PwaG5k => Some("pwa-g5k"),
            Self::Lublin | Self::Uniform | Self::Gaussian => None,
        }
    }

    /// The parameters that it takes.
    const fn takes(self) -> &'static [&'static str] {
        match self {
            Self::Grid5000 => &["month", "load"],
            Self::PwaG5k => &["load"],
            Self::Lublin => &["jobs", "load"],
            Self::Uniform | Self::Gaussian => &["jobs", "load", "walltime_max_s"],
            Self::Federation => &["jobs", "load", "days"],
        }
    }
}

impl FromStr for Generator {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Generator, UnknownName> {
        find("generator", Self::ALL.iter().map(|one| (one.name(), *one)).collect(), text)
    }
}

/// What a generator is asked for; what is not given is the generator's own choice.
#[derive(Clone, PartialEq, Debug)]
pub struct Recipe {
    /// The generator.
    pub generator: Generator,
    /// The month of paper 000 (`grid5000`, which needs it).
    pub month: Option<&'static Month>,
    /// How many jobs.
    pub jobs: Option<u32>,
    /// Over how many days (`federation`).
    pub days: Option<f64>,
    /// Offered load as a share of the platform; runtimes are scaled to it.
    pub load: Option<f64>,
    /// Longest request in seconds (`uniform`, `gaussian`).
    pub walltime_max_s: Option<i64>,
}

/// The month of that name.
pub fn month(name: &str) -> Result<&'static Month, UnknownName> {
    find("month", generate::MONTHS.iter().map(|month| (month.name, month)).collect(), name)
}

impl Recipe {
    /// Whether the parameters are in range and belong to the generator; else a sentence that says why not.
    pub fn check(&self) -> Result<(), String> {
        let name = self.generator.name();
        let given = [
            ("month", self.month.is_some()),
            ("jobs", self.jobs.is_some()),
            ("days", self.days.is_some()),
            ("load", self.load.is_some()),
            ("walltime_max_s", self.walltime_max_s.is_some()),
        ];
        let takes = self.generator.takes();
        if let Some((key, _)) = given.iter().find(|(key, given)| *given && !takes.contains(key)) {
            return Err(format!("expected parameters of `{name}` ({}), found `{key}`", takes.join(", ")));
        }
        let positive = |value: Option<f64>| value.is_none_or(|value| value > 0.0 && value <= 100_000.0);
        if !positive(self.load) || !positive(self.days) {
            return Err("expected load and days above 0 and at most 100000".to_owned());
        }
        if self.jobs == Some(0) {
            return Err("expected at least 1 job, found 0".to_owned());
        }
        if let Some(longest) = self.walltime_max_s.filter(|longest| !(200..=1_000_000_000).contains(longest))
        {
            return Err(format!("expected a longest request of 200 to 1000000000 s, found {longest}"));
        }
        if self.generator == Generator::Grid5000 && self.month.is_none() {
            let months: Vec<&str> = generate::MONTHS.iter().map(|month| month.name).collect();
            return Err(format!("expected a month ({}) for `grid5000`", months.join(", ")));
        }
        Ok(())
    }

    /// The jobs, for that platform. [`Recipe::check`] says whether it makes sense.
    pub fn generate(&self, platform: &Platform, seed: u64) -> Workload {
        let jobs = self.jobs.unwrap_or(JOBS);
        let longest = self.walltime_max_s.unwrap_or(LONGEST_S);
        let mut workload = match self.generator {
            Generator::Grid5000 => generate::grid5000(self.month.unwrap_or(&generate::MONTHS[0]), seed),
            Generator::PwaG5k => generate::pwa_g5k(seed),
            Generator::Lublin => generate::lublin(jobs, largest(platform), seed),
            Generator::Uniform => generate::uniform(jobs, longest, seed),
            Generator::Gaussian => generate::gaussian(jobs, longest, seed),
            Generator::Federation => {
                let (days, load) = (self.days.unwrap_or(DAYS), self.load.unwrap_or(LOAD));
                return generate::federation(platform, jobs, days, load, seed);
            }
        };
        if let Some(load) = self.load {
            generate::rescale(&mut workload, platform.total_procs(), load);
        }
        workload
    }
}

/// Processors of the largest cluster.
fn largest(platform: &Platform) -> Procs {
    platform.clusters().iter().map(|cluster| cluster.procs).max().unwrap_or(Procs::ONE)
}
