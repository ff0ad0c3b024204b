//! Recipes: a generator with its parameters, in the same words in campaign files and on the command line.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use pliant_model::{Platform, Procs, Span, Time};
use pliant_policy::UnknownName;
use pliant_trace::Workload;
use pliant_trace::generate::{self, DAYS_MAX, JOBS_MAX, LOAD_MAX, Month};

use super::keywords::find;

/// The default number of jobs.
const JOBS: u32 = 10_000;
/// The default length of a `federation` workload.
const DAYS: f64 = 30.0;
/// The default offered load of a `federation` workload.
const LOAD: f64 = 0.7;

/// The range of the longest request of paper 001's workloads, in seconds.
pub const LONGEST_RANGE_S: RangeInclusive<i64> = 200..=1_000_000_000;

/// The default of the longest request of paper 001's workloads, for makespans of the paper's order.
const LONGEST_S: i64 = 200_000;

/// A workload generator (`docs/reference/files/generators.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generator {
    /// A month like one of Grid'5000's in 2008 (paper 000, Table 1).
    Grid5000,
    /// A replacement for paper 000's seventh workload.
    PwaG5k,
    /// Lublin and Feitelson 2003, for one machine.
    Lublin,
    /// Paper 001's synthetic workload.
    Uniform,
    /// Paper 001's synthetic workload with normal distributions.
    Gaussian,
    /// Any number of jobs on any platform.
    Federation,
}

impl Generator {
    /// All generators, in the order of user listings.
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

    /// The default platform of its jobs.
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

/// A generator with parameters; missing ones have the generator's defaults.
#[derive(Clone, PartialEq, Debug)]
pub struct Recipe {
    /// The generator.
    pub generator: Generator,
    /// The month of paper 000 (`grid5000`, which needs it).
    pub month: Option<&'static Month>,
    /// The number of jobs.
    pub jobs: Option<u32>,
    /// The length in days (`federation`).
    pub days: Option<f64>,
    /// Offered load as a share of the platform's capacity; runtimes are scaled to it.
    pub load: Option<f64>,
    /// Longest request in seconds (`uniform`, `gaussian`).
    pub walltime_max_s: Option<i64>,
}

/// Finds the month of a name.
pub fn month(name: &str) -> Result<&'static Month, UnknownName> {
    find("month", generate::MONTHS.iter().map(|month| (month.name, month)).collect(), name)
}

/// An invalid parameter of a generator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterError {
    /// Its key in campaign files; `generate` if another one is missing.
    pub key: &'static str,
    /// What was expected and what was found.
    pub problem: String,
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.key, self.problem)
    }
}

impl std::error::Error for ParameterError {}

impl Recipe {
    /// Checks that the parameters are in range and belong to the generator.
    pub fn check(&self) -> Result<(), ParameterError> {
        self.check_keys()?;
        let above_zero = |key, value: Option<f64>, most: f64| match value {
            Some(found) if !(found > 0.0 && found <= most) => {
                let problem = format!("expected a number above 0 and at most {most}, found {found}");
                Err(ParameterError { key, problem })
            }
            _ => Ok(()),
        };
        above_zero("load", self.load, LOAD_MAX)?;
        above_zero("days", self.days, DAYS_MAX)?;
        if let Some(found) = self.jobs.filter(|jobs| !(1..=JOBS_MAX).contains(jobs)) {
            let problem = format!("expected a whole number from 1 to {JOBS_MAX}, found {found}");
            return Err(ParameterError { key: "jobs", problem });
        }
        if let Some(found) = self.walltime_max_s.filter(|longest| !LONGEST_RANGE_S.contains(longest)) {
            let (least, most) = LONGEST_RANGE_S.into_inner();
            let problem = format!("expected a whole number from {least} to {most} (seconds), found {found}");
            return Err(ParameterError { key: "walltime_max_s", problem });
        }
        Ok(())
    }

    /// Checks that the generator has the given parameters and gets the required ones.
    fn check_keys(&self) -> Result<(), ParameterError> {
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
            let problem = format!("expected parameters of `{name}` ({}), found another", takes.join(", "));
            return Err(ParameterError { key, problem });
        }
        if self.generator == Generator::Grid5000 && self.month.is_none() {
            let months: Vec<&str> = generate::MONTHS.iter().map(|month| month.name).collect();
            let problem = format!("expected a month ({}) for `grid5000`, found none", months.join(", "));
            return Err(ParameterError { key: "generate", problem });
        }
        Ok(())
    }

    /// Generates the jobs for a platform. [`Recipe::check`] must have succeeded.
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
            generate::rescale(&mut workload, platform.capacity(), load);
        }
        workload
    }

    /// The offered load of the generated jobs on a platform, to compare with `load`. Measured over the days of a `federation`,
    /// else up to the last submission.
    pub fn offered_load(&self, workload: &Workload, platform: &Platform) -> f64 {
        let span = match self.generator {
            Generator::Federation => Span((self.days.unwrap_or(DAYS) * 86_400.0) as i64),
            _ => workload.last_submit() - Time::ZERO,
        };
        pliant_trace::offered_load(&workload.jobs, platform.capacity(), span)
    }
}

/// The processors of the largest cluster.
fn largest(platform: &Platform) -> Procs {
    platform.clusters().iter().map(|cluster| cluster.procs).max().unwrap_or(Procs::ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Recipe = Recipe {
        generator: Generator::Federation,
        month: None,
        jobs: None,
        days: None,
        load: None,
        walltime_max_s: None,
    };

    #[test]
    fn parameters_are_bounded_and_belong_to_their_generator() {
        let check = |recipe: &Recipe, expected: &str| {
            assert_eq!(recipe.check().map_or_else(|misfit| misfit.to_string(), |()| String::new()), expected);
        };
        check(&NONE, "");
        check(&Recipe { jobs: Some(JOBS_MAX), days: Some(DAYS_MAX), load: Some(LOAD_MAX), ..NONE }, "");
        for (load, found) in [(0.0, "0"), (-1.0, "-1"), (1_000.5, "1000.5"), (f64::NAN, "NaN")] {
            let expected = format!("`load`: expected a number above 0 and at most 1000, found {found}");
            check(&Recipe { load: Some(load), ..NONE }, &expected);
        }
        check(
            &Recipe { days: Some(36_501.0), ..NONE },
            "`days`: expected a number above 0 and at most 36500, found 36501",
        );
        for jobs in [0, 20_000_001] {
            let expected = format!("`jobs`: expected a whole number from 1 to 20000000, found {jobs}");
            check(&Recipe { jobs: Some(jobs), ..NONE }, &expected);
        }
        check(
            &Recipe { generator: Generator::Uniform, walltime_max_s: Some(199), ..NONE },
            "`walltime_max_s`: expected a whole number from 200 to 1000000000 (seconds), found 199",
        );
        check(
            &Recipe { generator: Generator::Lublin, days: Some(3.0), ..NONE },
            "`days`: expected parameters of `lublin` (jobs, load), found another",
        );
        check(
            &Recipe { generator: Generator::Grid5000, ..NONE },
            "`generate`: expected a month (january, february, march, april, may, june) for `grid5000`, found none",
        );
    }

    /// One meaning for every generator, on platforms of several speeds too.
    #[test]
    fn the_load_is_the_one_asked_for() {
        let check = |recipe: Recipe, platform: &str, tolerance: f64| {
            let platform = pliant_trace::platform::built_in(platform).unwrap();
            let wanted = recipe.load.unwrap();
            let load = recipe.offered_load(&recipe.generate(&platform, 3), &platform);
            assert!((load / wanted - 1.0).abs() < tolerance, "{recipe:?}: {load}");
        };
        let month = Some(&generate::MONTHS[5]);
        check(Recipe { jobs: Some(5_000), load: Some(1.3), ..NONE }, "grid5000", 0.03);
        check(Recipe { jobs: Some(5_000), load: Some(0.4), days: Some(7.0), ..NONE }, "pwa-g5k", 0.03);
        check(Recipe { generator: Generator::Grid5000, month, load: Some(1.3), ..NONE }, "grid5000", 0.001);
        for generator in [Generator::Lublin, Generator::Uniform, Generator::Gaussian] {
            check(Recipe { generator, jobs: Some(500), load: Some(0.9), ..NONE }, "pwa-g5k", 0.001);
        }
    }
}
