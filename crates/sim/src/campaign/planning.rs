//! The keys of the basis of plans: `plan_by`, `level`, `estimator`, `quantile`, `last_jobs`, `least_jobs`, `fallback`,
//! `correction`.

use std::num::NonZeroUsize;

use pliant_policy::batch::Registered;
use pliant_policy::runtimes::Settings;
use pliant_policy::runtimes::predicted::{Basis, Prediction};
use toml::Spanned;

use super::check::{Checked, Reader};
use super::file::PolicyTable;
use super::keywords::estimator;
use crate::{PlanBy, limits};

impl Reader<'_> {
    pub(super) fn plan_by(&self, given: &PolicyTable) -> Checked<PlanBy> {
        let basis = given.plan_by.map_or(Basis::Walltimes, |word| word.0);
        if let (Basis::Walltimes | Basis::Runtimes, Some(span)) = (basis, given.prediction_key()) {
            let problem = format!("expected keys of predictions with plans by predictions, found {basis}");
            return Err(self.at(span, problem, "plan_by = \"predictions\""));
        }
        Ok(match basis {
            Basis::Walltimes => PlanBy::Walltimes,
            Basis::Runtimes => PlanBy::Runtimes,
            Basis::Predictions => PlanBy::Predictions(self.prediction(given)?),
        })
    }

    fn prediction(&self, given: &PolicyTable) -> Checked<Prediction> {
        let usual = Prediction::default();
        let word = given.estimator.as_ref();
        let quantile = given.quantile.as_ref();
        let estimator = match quantile.map(Spanned::span).or(word.map(Spanned::span)) {
            None => usual.estimator,
            Some(span) => {
                estimator(word.map(|word| word.get_ref().0), quantile.map(|given| *given.get_ref())).map_err(
                    |problem| {
                        self.at(span, problem, "docs/reference/files/campaign.md describes predictions")
                    },
                )?
            }
        };
        let count = |given: &Option<Spanned<i64>>, usual| match given {
            None => Ok(usual),
            Some(given) => {
                let count = self.within(given, limits::LAST_JOBS)?;
                Checked::Ok(NonZeroUsize::new(count as usize).unwrap_or(NonZeroUsize::MIN))
            }
        };
        Ok(Prediction {
            level: given.level.as_ref().map_or(usual.level, |word| word.get_ref().0),
            estimator,
            settings: Settings {
                window: count(&given.last_jobs, usual.settings.window)?,
                least: count(&given.least_jobs, usual.settings.least)?,
            },
            fallback: given.fallback.as_ref().map_or(usual.fallback, |word| word.get_ref().0),
            correction: given.correction.as_ref().map_or(usual.correction, |word| word.get_ref().0),
        })
    }

    /// Refuses a batch policy that needs walltimes for its shapes if plans use another basis.
    pub(super) fn plannable(
        &self,
        name: &Spanned<String>,
        batch: &Registered,
        given: &PolicyTable,
    ) -> Checked<()> {
        match given.plan_by {
            Some(word) if batch.folds && word.0 != Basis::Walltimes => {
                let problem = format!(
                    "expected a batch policy that does not fold jobs to plan by {}, found `{}`",
                    word.0, batch.name
                );
                Err(self.at(name.span(), problem, "batch = \"cbf\" or \"easy\""))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pliant_policy::runtimes::predicted::{Correction, Fallback};

    use super::super::{SimulationCampaign, VariantPolicies};
    use super::*;

    fn planned(keys: &str) -> Result<PlanBy, String> {
        let text = format!(
            "name = \"c\"\nseeds = [1]\n[[workload]]\nname = \"w\"\ngenerate = \"uniform\"\njobs = 5\nprocs = 90\n\
             [[policy]]\nname = \"p\"\n{keys}\n"
        );
        let campaign =
            SimulationCampaign::parse(&text, Path::new("c.toml")).map_err(|error| error.to_string())?;
        match &campaign.policies[0].treatment {
            VariantPolicies::Jobs { policies, .. } => Ok(policies.plan_by),
            VariantPolicies::Requests(_) => Err("no policy of jobs".to_owned()),
        }
    }

    #[test]
    fn the_keys_of_predictions_say_what_they_are_called() {
        assert_eq!(planned(""), Ok(PlanBy::Walltimes));
        assert_eq!(planned("plan_by = \"runtimes\""), Ok(PlanBy::Runtimes));
        assert_eq!(planned("plan_by = \"predictions\""), Ok(PlanBy::Predictions(Prediction::default())));
        let keys = "plan_by = \"predictions\"\nlevel = \"executable\"\nestimator = \"mean\"\nlast_jobs = 7\nleast_jobs = 3\n\
                    fallback = \"walltime\"\ncorrection = \"offsets\"";
        let count = |count| NonZeroUsize::new(count).unwrap();
        let expected = Prediction {
            level: pliant_policy::runtimes::Level::Executable,
            estimator: pliant_policy::runtimes::Estimator::Mean,
            settings: Settings { window: count(7), least: count(3) },
            fallback: Fallback::Walltime,
            correction: Correction::Offsets,
        };
        assert_eq!(planned(keys), Ok(PlanBy::Predictions(expected)));
    }

    #[test]
    fn keys_without_a_meaning_are_refused() {
        let check = |keys: &str, problem: &str| {
            let error = planned(keys).unwrap_err();
            assert!(error.contains(problem), "{error}");
        };
        check("level = \"user\"", "expected keys of predictions with plans by predictions, found walltimes");
        check("plan_by = \"runtimes\"\nlast_jobs = 2", "found runtimes");
        check(
            "correction = \"steps\"",
            "expected keys of predictions with plans by predictions, found walltimes",
        );
        check(
            "plan_by = \"predictions\"\nfallback = \"user\"",
            "expected a fallback of predictions (broader, walltime)",
        );
        check(
            "plan_by = \"predictions\"\nquantile = 0.5",
            "expected `quantile` with `estimator = \"quantile\"`",
        );
        check(
            "plan_by = \"predictions\"\nlast_jobs = 0",
            "expected a whole number from 1 to 100000, found 0",
        );
        check(
            "plan_by = \"predictions\"\nbatch = \"h2\"",
            "does not fold jobs to plan by predictions, found `h2`",
        );
        check("plan_by = \"history\"", "expected a basis of plans (walltimes, predictions, runtimes)");
    }
}
