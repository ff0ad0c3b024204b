//! The options of one simulation, as the command line and other front ends take them.

use std::collections::BTreeMap;
use std::fmt;

use pliant_model::Span;
use pliant_policy::batch::order::{LocalPolicyChange, PrioritySettings};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::runtimes::predicted::{Basis, Prediction};
use pliant_policy::tuning::{Tuner, TunerError};
use pliant_trace::RepairReport;
use serde_json::{Value, json};

use crate::campaign::{Moldable, SimJobs};
use crate::{PlanBy, Policies, Ties};

/// What a user chooses of one simulation. None stands for what is usual.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOptions {
    /// What is changed of the local policies of the platform's clusters.
    pub local: LocalPolicyChange,
    /// The order of the events of one instant.
    pub ties: Ties,
    /// Which jobs are moldable.
    pub moldable: Moldable,
    /// The tuner of moldable jobs.
    pub tuner: Option<Tuner>,
    /// The tuner's parameter of that name.
    pub slack: Option<f64>,
    /// The tuner's parameter of that name.
    pub share: Option<f64>,
    /// The mapping of jobs to clusters.
    pub mapping: Option<Mapping>,
    /// The reallocation algorithm; none: jobs stay where they are.
    pub realloc: Option<Algorithm>,
    /// The heuristic of the reallocation.
    pub heuristic: Option<Heuristic>,
    /// The time between two reallocation cycles.
    pub period: Option<Span>,
    /// The least gain for which a job moves.
    pub threshold: Option<Span>,
    /// How many of the oldest jobs heuristics consider.
    pub window: Option<u32>,
    /// The runtimes that clusters plan by.
    pub plan_by: Basis,
    /// The share of jobs that go through the federation.
    pub dedicated_share: f64,
    /// The seed of all that is drawn.
    pub seed: u64,
    /// What queue orders by usage are set by.
    pub priority: PrioritySettings,
    /// Whether to record every move.
    pub keep_moves: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            local: LocalPolicyChange { batch: None, order: None, aging: None },
            ties: Ties::default(),
            moldable: Moldable::None,
            tuner: None,
            slack: None,
            share: None,
            mapping: None,
            realloc: None,
            heuristic: None,
            period: None,
            threshold: None,
            window: None,
            plan_by: Basis::Walltimes,
            dedicated_share: 1.0,
            seed: 1,
            priority: PrioritySettings::default(),
            keep_moves: true,
        }
    }
}

/// An option that would change nothing, or has a wrong value.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionError {
    /// A parameter of a reallocation that there is not.
    NoReallocation {
        /// The parameter.
        option: &'static str,
    },
    /// A parameter of sizes that no job may change.
    NotMoldable {
        /// The parameter.
        option: &'static str,
    },
    /// A parameter of the tuner is wrong.
    Tuner {
        /// The parameter.
        option: &'static str,
        /// Why.
        error: TunerError,
    },
}

impl OptionError {
    /// The option.
    pub fn option(&self) -> &'static str {
        match self {
            Self::NoReallocation { option } | Self::NotMoldable { option } | Self::Tuner { option, .. } => {
                option
            }
        }
    }

    /// The message, and what to do about it if that is not plain, with options written as `spelled` says.
    pub fn explain(&self, spelled: impl Fn(&str) -> String) -> (String, Option<String>) {
        let shown = spelled(self.option());
        match self {
            Self::NoReallocation { .. } => {
                let realloc = spelled("realloc");
                let algorithms: Vec<_> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
                let problem =
                    format!("expected {realloc} ({}) with {shown}, found none", algorithms.join(", "));
                let hint = format!("leave {shown} out, or say how waiting jobs are moved: {realloc} regular");
                (problem, Some(hint))
            }
            Self::NotMoldable { .. } => {
                let moldable = spelled("moldable");
                let problem =
                    format!("expected {moldable} with {shown}, found none: no job may change its size");
                let hint = format!("leave {shown} out, or say which jobs are moldable: {moldable} paper");
                (problem, Some(hint))
            }
            Self::Tuner { error, .. } => (format!("{shown}: {error}"), None),
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.explain(str::to_owned).0)
    }
}

impl std::error::Error for OptionError {}

impl RunOptions {
    /// The policies of the run; by default jobs stay on their clusters if there is one cluster only.
    ///
    /// # Errors
    ///
    /// If an option would be ignored, or a parameter of the tuner is wrong.
    pub fn policies(&self, is_one_cluster: bool) -> Result<Policies, OptionError> {
        self.check_reallocation()?;
        self.check_sizing()?;
        let usual = if is_one_cluster { Mapping::Given } else { Mapping::Mct };
        let reallocation = self.realloc.map(|algorithm| {
            let usual = Reallocation::new(algorithm, self.heuristic.unwrap_or(Heuristic::Mct));
            Reallocation {
                period: self.period.unwrap_or(usual.period),
                threshold: self.threshold.unwrap_or(usual.threshold),
                window: self.window.map_or(usual.window, |window| window as usize),
                ..usual
            }
        });
        Ok(Policies {
            tuner: self.tuner()?,
            mapping: self.mapping.unwrap_or(usual),
            reallocation,
            priority: self.priority.clone(),
            ties: self.ties,
            plan_by: match self.plan_by {
                Basis::Walltimes => PlanBy::Walltimes,
                Basis::Predictions => PlanBy::Predictions(Prediction::default()),
                Basis::Runtimes => PlanBy::Runtimes,
            },
            seed: self.seed,
            keep_moves: self.keep_moves,
            ..Policies::default()
        })
    }

    /// Prepares the jobs, one after the other.
    pub fn jobs(&self) -> SimJobs {
        SimJobs::new(self.moldable, self.dedicated_share, self.seed)
    }

    /// The description of the run for `summary.json`, under the policies of these options. `workload` and `priority` are the names
    /// of files.
    pub fn describe(
        &self,
        policies: &Policies,
        repairs: &RepairReport,
        workload: Option<&str>,
        priority: Option<&str>,
    ) -> BTreeMap<String, Value> {
        let mut about = BTreeMap::new();
        let mut add = |name: &str, value: Value| about.insert(name.to_owned(), value);
        add("workload", json!(workload));
        if let Some(file) = priority {
            add("priority", json!(file));
        }
        add("moldable", json!(self.moldable.name()));
        add("tuner", json!(policies.tuner.to_string()));
        add("mapping", json!(policies.mapping.name()));
        add("plan_by", json!(self.plan_by.name()));
        add("dedicated_share", json!(self.dedicated_share));
        add("seed", json!(self.seed));
        add("repairs", json!(repairs.by_word()));
        add("realloc", json!(self.realloc.map_or("none", |algorithm| algorithm.name())));
        if let Some(policy) = &policies.reallocation {
            add("heuristic", json!(policy.heuristic.name()));
            add("period_s", json!(policy.period.0));
            add("threshold_s", json!(policy.threshold.0));
            add("window", json!(policy.window));
        }
        about
    }

    /// Parameters of a reallocation that there is not would be ignored: they are a mistake.
    fn check_reallocation(&self) -> Result<(), OptionError> {
        let given = [
            ("heuristic", self.heuristic.is_some()),
            ("period", self.period.is_some()),
            ("threshold", self.threshold.is_some()),
            ("window", self.window.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given && self.realloc.is_none()) {
            None => Ok(()),
            Some((option, _)) => Err(OptionError::NoReallocation { option }),
        }
    }

    /// So are parameters of sizes that no job may change.
    fn check_sizing(&self) -> Result<(), OptionError> {
        let given = [
            ("tuner", self.tuner.is_some()),
            ("slack", self.slack.is_some()),
            ("share", self.share.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given && self.moldable == Moldable::None) {
            None => Ok(()),
            Some((option, _)) => Err(OptionError::NotMoldable { option }),
        }
    }

    /// The tuner with its parameters.
    fn tuner(&self) -> Result<Tuner, OptionError> {
        let given = [("slack", self.slack), ("share", self.share)];
        given.into_iter().try_fold(self.tuner.unwrap_or_default(), |tuner, (option, value)| match value {
            None => Ok(tuner),
            Some(value) => tuner.with(option, value).map_err(|error| OptionError::Tuner { option, error }),
        })
    }
}
