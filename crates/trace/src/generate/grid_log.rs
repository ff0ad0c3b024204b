//! The log of a grid whose jobs take one processor each, as in paper 002: a few sites have most of the work (its
//! Figure 3), and what says how long a job runs is who submitted what.
//!
//! Groups have users, users have executables; each executable has a typical time, drawn around its user's, and that
//! around its group's. How far jobs of one executable differ is a parameter: the spread inside a category. Users
//! submit bursts of one executable to one site, mostly the same one.

use pliant_model::{Job, rng::stream_seed};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::law::log_normal;
use super::{finish, job};
use crate::workload::Workload;

/// What the log is to look like.
#[derive(Clone, PartialEq, Debug)]
pub struct GridLog {
    /// Sites; partitions of the log, from 1.
    pub sites: u32,
    /// Jobs.
    pub jobs: u32,
    /// Days over which they are submitted.
    pub days: f64,
    /// Groups, from 1.
    pub groups: u32,
    /// Users of each group.
    pub users: u32,
    /// Executables of each user.
    pub executables: u32,
    /// Mean time of a job, about, s.
    pub mean_s: f64,
    /// Deviation of the jobs of one executable, in their means.
    pub spread: f64,
    /// How unequal the sites are: the work of the n-th falls as `n^-skew`.
    pub skew: f64,
}

const DAY_S: f64 = 86_400.0;
/// Deviation of the means of groups, of users in a group and of executables of a user, in means.
const BETWEEN: f64 = 0.8;
/// A burst has so many jobs on average, at most a hundred times as many.
const BURST: f64 = 6.0;
/// Share of the bursts that go to the executable's own site.
const AT_HOME: f64 = 0.7;
/// No job runs longer.
const LONGEST_S: f64 = 8.0 * DAY_S;

/// An executable: whose it is, where it mostly runs and how long.
struct Executable {
    group: i32,
    user: i32,
    executable: i32,
    home: usize,
    typical_s: f64,
}

/// The log. The same seed gives the same programs whatever the spread.
pub fn grid_log(what: &GridLog, seed: u64) -> Workload {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "grid-log programs"));
    let sites = Ranked::new(what.sites.max(1) as usize, what.skew);
    let programs = programs(what, &sites, &mut rng);
    let popular = Ranked::new(programs.len(), 0.8);
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "grid-log jobs"));
    let mut jobs: Vec<(Job, i32)> = Vec::with_capacity(what.jobs as usize);
    while jobs.len() < what.jobs as usize {
        let program = &programs[popular.draw(&mut rng)];
        let site = if rng.random_bool(AT_HOME) { program.home } else { sites.draw(&mut rng) };
        let size = (BURST * -(1.0 - rng.random::<f64>()).ln()).clamp(1.0, 100.0 * BURST) as usize;
        let mut at = rng.random::<f64>() * what.days * DAY_S;
        for _ in 0..size {
            let runtime = (program.typical_s * log_normal(what.spread, &mut rng)).clamp(1.0, LONGEST_S);
            let mut one = job(at.min(what.days * DAY_S), 1, LONGEST_S as i64, runtime.round() as i64);
            (one.group, one.user, one.executable) = (program.group, program.user, program.executable);
            jobs.push((one, site as i32 + 1));
            at += rng.random_range(1.0..60.0);
        }
    }
    jobs.truncate(what.jobs as usize);
    jobs.sort_by_key(|(job, _)| job.submit);
    let (jobs, partitions): (Vec<Job>, Vec<i32>) = jobs.into_iter().unzip();
    Workload { partitions, ..finish("grid-log", jobs, Some(i64::from(what.sites))) }
}

fn programs(what: &GridLog, sites: &Ranked, rng: &mut ChaCha8Rng) -> Vec<Executable> {
    let mut programs = Vec::new();
    for group in 1..=what.groups.max(1) as i32 {
        let of_group = what.mean_s * log_normal(BETWEEN, rng);
        for user in 1..=what.users.max(1) as i32 {
            let of_user = of_group * log_normal(BETWEEN, rng);
            for executable in 1..=what.executables.max(1) as i32 {
                let user = (group - 1) * what.users.max(1) as i32 + user;
                let executable = (user - 1) * what.executables.max(1) as i32 + executable;
                let typical_s = of_user * log_normal(BETWEEN, rng);
                programs.push(Executable { group, user, executable, home: sites.draw(rng), typical_s });
            }
        }
    }
    // Popular programs are not those of the first group.
    for last in (1..programs.len()).rev() {
        programs.swap(last, rng.random_range(0..=last));
    }
    programs
}

/// Ranks drawn with a probability that falls as a power of the rank.
struct Ranked {
    cumulative: Vec<f64>,
}

impl Ranked {
    fn new(count: usize, exponent: f64) -> Ranked {
        let mut sum = 0.0;
        let weight = |rank: usize| {
            sum += (rank as f64).powf(-exponent);
            sum
        };
        Ranked { cumulative: (1..=count.max(1)).map(weight).collect() }
    }

    fn draw(&self, rng: &mut impl Rng) -> usize {
        let most = self.cumulative.last().copied().unwrap_or(1.0);
        let drawn = rng.random::<f64>() * most;
        self.cumulative.partition_point(|sum| *sum <= drawn).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pliant_model::{Procs, Span, Time};

    use super::*;

    fn what(spread: f64) -> GridLog {
        GridLog {
            sites: 10,
            jobs: 20_000,
            days: 10.0,
            groups: 4,
            users: 5,
            executables: 3,
            mean_s: 1000.0,
            spread,
            skew: 1.5,
        }
    }

    #[test]
    fn categories_are_nested_and_sites_unequal() {
        let log = grid_log(&what(0.2), 1);
        assert_eq!((log.jobs.len(), log.partitions.len()), (20_000, 20_000));
        assert!(log.jobs.is_sorted_by_key(|job| job.submit) && log.jobs[0].submit == Time::ZERO);
        for job in &log.jobs {
            assert_eq!((job.executable - 1) / 3, job.user - 1);
            assert_eq!((job.user - 1) / 5, job.group - 1);
            assert!(job.procs == Procs(1) && job.runtime >= Span(1));
        }
        let mut work: BTreeMap<i32, i64> = BTreeMap::new();
        for (job, site) in log.jobs.iter().zip(&log.partitions) {
            *work.entry(*site).or_default() += job.runtime.0;
        }
        let mut work: Vec<i64> = work.into_values().collect();
        work.sort_unstable();
        assert!(work.len() == 10 && work[9] > 5 * work[4], "{work:?}");
        assert_eq!(grid_log(&what(0.2), 1), log);
    }

    #[test]
    fn the_spread_is_that_of_an_executable() {
        for spread in [0.0, 0.2, 1.0] {
            let log = grid_log(&what(spread), 1);
            let of = |executable| log.jobs.iter().filter(move |job| job.executable == executable);
            let most = (1..=60).max_by_key(|executable| of(*executable).count()).unwrap();
            let times: Vec<f64> = of(most).map(|job| job.runtime.0 as f64).collect();
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
            let found = variance.sqrt() / mean;
            assert!((found - spread).abs() <= 0.2 * spread + 0.01, "{found} for {spread}");
        }
    }
}
