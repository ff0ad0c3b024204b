//! Planning by predictions instead of by what users ask for: how long jobs are *planned* to run, judging by those that
//! have ended (Tsafrir, Etsion and Feitelson, IEEE TPDS 18(6), 2007, "EASY++"; Gaussier, Glesser, Reis and Trystram, SC
//! 2015).
//!
//! The user's walltime remains the limit: no job is ended because of a wrong prediction.
//! A job is planned for the time that [`Runtimes`] predict when it is submitted, at most the user's, and for the user's
//! while nothing is known ([`Fallback`]). One that outlives its plan is planned longer ([`Correction`]), usually by ever
//! larger steps up to the limit, and the jobs behind it are planned again
//! ([`crate::batch::BatchScheduler::extend_running`]): a plan by predictions is an expectation, not a promise.

use std::num::NonZeroUsize;

use pliant_model::{Job, Span};

use super::{Categories, Estimator, Level, Predicted, Runtimes, Settings};

crate::named_enum! {
    /// What plans are made by.
    Basis, "basis of plans", {
        /// What users ask for.
        Walltimes = "walltimes",
        /// What jobs that have ended make likely, at most that.
        Predictions = "predictions",
        /// Actual runtimes, an oracle: an upper bound on the value of predictions.
        Runtimes = "runtimes",
    }
}

crate::named_enum! {
    /// What a job is planned for whose category has too few jobs.
    Fallback, "fallback of predictions", {
        /// What the next broader category makes likely.
        Broader = "broader",
        /// What its user asks for, as in EASY++.
        Walltime = "walltime",
    }
}

crate::named_enum! {
    /// How the plan of a job is extended that outlived it.
    Correction, "correction of exceeded plans", {
        /// By a minute, then by ever longer steps, as in EASY++.
        Steps = "steps",
        /// To the first plan and a minute, then to the first plan and ever longer steps, as in the simulator of Gaussier
        /// et al. 2015.
        Offsets = "offsets",
        /// To the time limit at once.
        Walltime = "walltime",
    }
}

/// How a job's runtime is predicted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prediction {
    /// The narrowest categories that are asked.
    pub level: Level,
    /// What is taken of a category.
    pub estimator: Estimator,
    /// Which jobs count.
    pub settings: Settings,
    /// What is taken if the narrowest category has too few jobs.
    pub fallback: Fallback,
    /// What follows if the prediction is too short.
    pub correction: Correction,
}

impl Default for Prediction {
    /// EASY++'s: the mean of the user's last two jobs.
    fn default() -> Prediction {
        Prediction {
            level: Level::User,
            estimator: Estimator::RecentMean,
            settings: Settings { window: NonZeroUsize::MIN.saturating_add(1), least: NonZeroUsize::MIN },
            fallback: Fallback::Broader,
            correction: Correction::Steps,
        }
    }
}

/// Extensions of a plan that its job exceeded, s: the first is a minute, the last days.
const EXTENSIONS_S: [i64; 11] = [60, 300, 900, 1_800, 3_600, 7_200, 18_000, 36_000, 72_000, 180_000, 360_000];

impl Correction {
    /// How long a job is planned for that has outlived `planned` after it was extended so many times already; at most
    /// `limit`, and longer than `planned` unless that is the limit.
    pub fn corrected(self, planned: Span, limit: Span, times: usize) -> Span {
        let last = EXTENSIONS_S.len() - 1;
        let step = EXTENSIONS_S[times.min(last)];
        let longer = match self {
            Correction::Steps => planned.0.saturating_add(step),
            Correction::Offsets if (1..=last).contains(&times) => {
                planned.0.saturating_add(step - EXTENSIONS_S[times - 1])
            }
            Correction::Offsets => planned.0.saturating_add(step),
            Correction::Walltime => limit.0,
        };
        Span(longer).min(limit.max(planned)).max(planned)
    }
}

/// Plans for jobs by those that have ended.
#[derive(Clone, Debug)]
pub struct Predictor {
    prediction: Prediction,
    runtimes: Runtimes<i32>,
}

/// The categories that a log knows of a job.
pub fn categories(job: &Job) -> Categories<i32> {
    let known = |id: i32| (id >= 0).then_some(id);
    Categories { executable: known(job.executable), user: known(job.user), group: known(job.group) }
}

impl Predictor {
    /// Nothing has ended yet.
    pub fn new(prediction: Prediction) -> Predictor {
        Predictor { prediction, runtimes: Runtimes::new(prediction.settings) }
    }

    /// A job has ended that took so long: in the size that was asked for, on a cluster of speed 1.
    pub fn ended(&mut self, of: &Categories<i32>, runtime: Span) {
        self.runtimes.record(of, runtime);
    }

    /// How long a job is planned for whose user asked for `walltime`, in the same terms.
    pub fn planned(&self, of: &Categories<i32>, walltime: Span) -> Span {
        let Prediction { level, estimator, fallback, .. } = self.prediction;
        let found = self.runtimes.predict(of, level, estimator);
        let counts = |found: &Predicted| fallback == Fallback::Broader || found.level == level;
        found.filter(counts).map_or(walltime, |found| found.runtime.min(walltime))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_believed_until_jobs_have_ended_and_never_exceeded() {
        let mut predictor = Predictor::new(Prediction::default());
        let of = |user| Categories { executable: Some(1), user: Some(user), group: None };
        assert_eq!(predictor.planned(&of(7), Span(3600)), Span(3600));
        [10, 100, 200].into_iter().for_each(|runtime| predictor.ended(&of(7), Span(runtime)));
        assert_eq!(predictor.planned(&of(7), Span(3600)), Span(150));
        assert_eq!(predictor.planned(&of(7), Span(60)), Span(60));
        assert_eq!(
            predictor.planned(&of(8), Span(3600)),
            Span(150),
            "other users' jobs count as long as she has none"
        );
    }

    #[test]
    fn with_the_walltime_as_fallback_only_the_own_category_counts() {
        let least = NonZeroUsize::new(2).unwrap();
        let usual = Prediction::default();
        let settings = Settings { least, ..usual.settings };
        let mut predictor = Predictor::new(Prediction { settings, fallback: Fallback::Walltime, ..usual });
        let of = |user| Categories { executable: None, user, group: Some(1) };
        let mut check = |user, expected| {
            assert_eq!(predictor.planned(&of(user), Span(3600)), Span(expected), "{user:?}");
            predictor.ended(&of(user), Span(100));
        };
        check(Some(7), 3600);
        check(Some(7), 3600);
        check(Some(7), 100);
        check(Some(8), 3600);
        check(None, 3600);
    }

    #[test]
    fn a_plan_that_is_outlived_grows_up_to_the_limit_and_no_further() {
        let grown_by = |correction: Correction, limit: i64| {
            let mut planned = vec![Span(5)];
            for times in 0.. {
                let last = planned[times];
                let next = correction.corrected(last, Span(limit), times);
                if next == last {
                    return planned.into_iter().map(|span| span.0).collect::<Vec<_>>();
                }
                planned.push(next);
            }
            unreachable!("the steps do not shrink")
        };
        let grown = |limit| grown_by(Correction::Steps, limit);
        assert_eq!(grown(5), [5]);
        assert_eq!(grown(3), [5], "never shorter");
        assert_eq!(grown(1300), [5, 65, 365, 1265, 1300]);
        assert_eq!(grown(1_500_000).len(), 15, "to seventeen days");
        assert_eq!(grown_by(Correction::Offsets, 1300), [5, 65, 305, 905, 1300]);
        assert_eq!(grown_by(Correction::Offsets, 1_500_000).len(), 16);
        assert_eq!(grown_by(Correction::Walltime, 1300), [5, 1300]);
        assert_eq!(grown_by(Correction::Walltime, 3), [5], "never shorter");
    }
}
