//! Runtime history: predicts the walltime of the next run of a category from finished runs.
//!
//! Runs differ in size and in the speed of their cluster. The history stores *reference times*: the time of the same work
//! on the requested processors at speed 1 by the speedup model, the inverse of [`pliant_model::Walltimes::at`]. Each user
//! of a category (a service) has a window of the own last runs. The *statistic* of a user is an order statistic of this
//! window with a margin.
//!
//! A user's runs predict the next run of that user. A user with too few runs gets the lower median of the statistics of
//! the others, one vote each ([`VOTERS`]). So whatever the runs of one user are, a prediction for another user by the
//! others' statistics lies between the two middle ones that the category has without that user.
//!
//! Recording a run costs O(window), a prediction O(log users) by own runs and O(users log users) by the median.

use std::collections::BTreeMap;
use std::time::Duration;

use pliant_model::{Procs, Span, Speed, Speedup};

use super::categories::Settings;
use super::choice::Choice;
use super::window::{Window, Windows};

/// The fewest users of a category whose statistics are a prediction for other users: a median of three ignores one of them.
pub const VOTERS: usize = 3;

/// A finished run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FinishedRun<'a> {
    /// Its runtime.
    pub runtime: Duration,
    /// The processors that it used.
    pub procs: Procs,
    /// Their speed.
    pub speed: Speed,
    /// The GPUs that it used, where the time depends on them.
    pub gpus: u32,
    /// The processors to which a requested walltime refers.
    pub requested: Procs,
    /// The speedup model.
    pub speedup: &'a Speedup,
}

impl FinishedRun<'_> {
    /// The time of the same work on the requested processors at speed 1, in milliseconds, rounded up:
    /// `runtime * speed * time(requested) / time(procs)`, reduced slightly before rounding like a walltime.
    pub fn reference_ms(&self) -> u64 {
        let Self { procs, gpus, requested, speedup, .. } = *self;
        let ratio = speedup.reference_time(requested) / speedup.relative_time_with(procs, gpus, requested);
        let exact = self.runtime.as_secs_f64() * 1000.0 * self.speed.get() * ratio;
        (exact * (1.0 - 1e-12)).ceil() as u64
    }
}

/// The last runs of a user in a category as data.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Recent {
    /// The category.
    pub category: String,
    /// The user.
    pub user: String,
    /// Reference times in milliseconds, in the order of recording.
    pub reference_ms: Vec<u64>,
}

/// Reference times of finished runs by category and user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    settings: Settings,
    /// By category, then by user; in milliseconds.
    categories: BTreeMap<String, Windows<String, u64>>,
}

impl History {
    /// An empty history with these windows; a user with fewer runs than `settings.least` has no statistic.
    pub fn new(settings: Settings) -> History {
        History { settings, categories: BTreeMap::new() }
    }

    /// Records a finished run. Failed and cancelled runs must not be recorded: they do not show how long the work takes.
    pub fn record(&mut self, category: &str, user: &str, run: &FinishedRun<'_>) {
        self.record_reference(category, user, run.reference_ms());
    }

    /// Records a run by its reference time, in milliseconds.
    pub fn record_reference(&mut self, category: &str, user: &str, reference_ms: u64) {
        let users = self.categories.entry(category.to_owned()).or_default();
        users.push(user, reference_ms, self.settings.window.get());
    }

    /// The time of a user's next run on the requested processors at speed 1, at least 1 s; none if neither this user nor
    /// enough others have runs.
    pub fn predict(&self, category: &str, user: &str, choice: Choice) -> Option<Span> {
        let users = self.categories.get(category)?;
        let own = users.get(user).and_then(|window| self.statistic(window, choice));
        let reference_ms = own.or_else(|| self.median(users, choice))?;
        let seconds = choice.with_margin(reference_ms as f64 / 1000.0);
        Some(Span(i64::try_from(seconds).unwrap_or(i64::MAX).clamp(1, Span::MAX.0)))
    }

    /// What one user's runs say; nothing if there are too few.
    fn statistic(&self, window: &Window<u64>, choice: Choice) -> Option<u64> {
        if window.len() < self.settings.least.get() { None } else { choice.of(window) }
    }

    /// The lower median over users.
    fn median(&self, users: &Windows<String, u64>, choice: Choice) -> Option<u64> {
        let votes = users.all().filter_map(|window| self.statistic(window, choice));
        let mut votes: Vec<u64> = votes.collect();
        if votes.len() < VOTERS {
            return None;
        }
        votes.sort_unstable();
        Some(votes[(votes.len() - 1) / 2])
    }

    /// The state as data, by category and user.
    pub fn dump(&self) -> Vec<Recent> {
        let of = |(category, users): (&String, &Windows<String, u64>)| {
            let category = category.clone();
            let recent =
                move |(user, reference_ms)| Recent { category: category.clone(), user, reference_ms };
            users.dump().map(recent).collect::<Vec<_>>()
        };
        self.categories.iter().flat_map(of).collect()
    }

    /// Restores a dumped history. A smaller window keeps the last runs.
    pub fn restore(settings: Settings, dump: &[Recent]) -> History {
        let mut history = History::new(settings);
        for Recent { category, user, reference_ms } in dump {
            reference_ms.iter().for_each(|ms| history.record_reference(category, user, *ms));
        }
        history
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
