//! The policies of a what-if, in words: `none`, `regular/minmin,period=5m`, `now,mapping=random`.

use std::collections::BTreeMap;

use pliant_policy::batch;
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::tuning::{Tuner, TunerError};
use pliant_sim::Policies;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::reallocation_keys::set;

/// A policy that a recorded federation is replayed under.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct WhatIfPolicy {
    /// What the user calls it.
    pub(crate) name: String,
    /// How requests are mapped.
    pub(crate) mapping: Mapping,
    /// How waiting jobs are moved, if they are.
    pub(crate) reallocation: Option<Reallocation>,
    /// The batch policy of the clusters of Pliant's own batch system, if it is to be another one.
    pub(crate) batch: Option<String>,
    /// How servers size moldable requests, if not as they do now.
    pub(crate) sizing: TunerChange,
}

/// What is changed of the tuners of servers.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct TunerChange {
    /// The tuner of every server, if it is to be another one.
    pub(crate) tuner: Option<Tuner>,
    /// Parameters that are changed, the rest stays.
    pub(crate) parameters: Vec<(String, f64)>,
}

impl TunerChange {
    /// The change to the tuner of a server.
    pub(crate) fn changed(&self, present: Tuner) -> Result<Tuner, TunerError> {
        let tuner = self.tuner.unwrap_or(present);
        self.parameters.iter().try_fold(tuner, |tuner, (key, value)| tuner.with(key, *value))
    }
}

impl WhatIfPolicy {
    /// The policy in force: agents map by the earliest completion.
    pub(crate) fn in_force(reallocation: Option<Reallocation>) -> WhatIfPolicy {
        WhatIfPolicy {
            name: "now".to_owned(),
            mapping: Mapping::Mct,
            reallocation,
            batch: None,
            sizing: TunerChange::default(),
        }
    }

    /// What `words` mean where `in_force` is the policy in force: a policy, then what is different in it.
    pub(crate) fn read(words: &str, in_force: &WhatIfPolicy) -> Result<WhatIfPolicy, Failure> {
        let mut parts = split(words).into_iter();
        let base = parts.next().unwrap_or_default();
        let mut what_if = WhatIfPolicy { name: words.to_owned(), ..in_force.clone() };
        match base {
            "now" => {}
            "none" => what_if.reallocation = None,
            _ => what_if.reallocation = Some(moving(base, in_force.reallocation)?),
        }
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(Failure::input(format!("{words}: expected KEY=VALUE, found `{part}`")));
            };
            what_if.change(words, key, value)?;
        }
        Ok(what_if)
    }

    fn change(&mut self, words: &str, key: &str, value: &str) -> Result<(), Failure> {
        match key {
            "mapping" => self.mapping = value.parse().map_err(Failure::input)?,
            "batch" => {
                self.batch = Some(value.parse::<batch::LocalPolicy>().map_err(Failure::input)?.to_string());
            }
            "tuner" => {
                let tuner = Some(value.parse().map_err(Failure::input)?);
                self.sizing = TunerChange { tuner, ..TunerChange::default() };
            }
            "slack" | "share" => {
                let number = value.parse().map_err(|_| {
                    Failure::input(format!("{words}: `{key}`: expected a number, found `{value}`"))
                })?;
                // On a server with another tuner it is found out when the recorded jobs are replayed.
                let known = self.sizing.tuner.unwrap_or_default().with(key, number);
                known.map_err(|error| Failure::input(format!("{words}: {error}")))?;
                self.sizing.parameters.push((key.to_owned(), number));
            }
            _ => {
                let Some(reallocation) = &mut self.reallocation else {
                    let found = format!(
                        "{words}: expected mapping, batch, tuner, slack or share, found `{key}`: no jobs are moved"
                    );
                    return Err(
                        Failure::input(found).hint("say how waiting jobs are moved: regular/mct,period=5m")
                    );
                };
                if !set(reallocation, key, value)? {
                    let expected = "mapping, batch, tuner, slack, share, algorithm, heuristic, period, threshold or window";
                    return Err(Failure::input(format!(
                        "{words}: expected one of {expected}, found `{key}`"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The same for the simulator.
    pub(crate) fn policies(&self, seed: u64) -> Policies {
        let (mapping, reallocation) = (self.mapping, self.reallocation);
        Policies { mapping, reallocation, seed, keep_moves: false, ..Policies::default() }
    }

    /// True if both do the same.
    pub(crate) fn is_like(&self, other: &WhatIfPolicy) -> bool {
        WhatIfPolicy { name: other.name.clone(), ..self.clone() } == *other
    }

    /// For scripts.
    pub(crate) fn value(&self) -> Value {
        let moving = self.reallocation.map(|policy| {
            json!({
                "algorithm": policy.algorithm.name(),
                "heuristic": policy.heuristic.name(),
                "period_s": policy.period,
                "threshold_s": policy.threshold,
                "window": policy.window,
            })
        });
        json!({
            "name": self.name,
            "mapping": self.mapping.name(),
            "batch": self.batch,
            "tuner": self.sizing.tuner.map(|tuner| tuner.to_string()),
            "tuner_parameters": self.sizing.parameters.iter().cloned().collect::<BTreeMap<_, _>>(),
            "moving": moving,
        })
    }
}

/// The parts between commas, but for those within parentheses.
fn split(words: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let between = |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    };
    words.split(between).collect()
}

/// ALGORITHM or ALGORITHM/HEURISTIC, with the parameters in force, or the paper's if nothing is moved now.
fn moving(word: &str, in_force: Option<Reallocation>) -> Result<Reallocation, Failure> {
    let (algorithm, heuristic) = match word.split_once('/') {
        Some((algorithm, heuristic)) => (algorithm, heuristic.parse().map_err(Failure::input)?),
        None => (word, Heuristic::Mct),
    };
    let algorithm: Algorithm = algorithm.parse().map_err(|_| {
        let names: Vec<&str> = Algorithm::ALL.iter().map(|one| one.name()).collect();
        Failure::input(format!("expected now, none or one of {}, found `{algorithm}`", names.join(", ")))
            .hint("for example: --policy regular/minmin,period=5m")
    })?;
    Ok(with_parameters(algorithm, heuristic, in_force))
}

fn with_parameters(
    algorithm: Algorithm,
    heuristic: Heuristic,
    in_force: Option<Reallocation>,
) -> Reallocation {
    let default = Reallocation::new(algorithm, heuristic);
    Reallocation { algorithm, heuristic, ..in_force.unwrap_or(default) }
}

/// What is compared if nothing else is asked for.
pub(crate) fn defaults(in_force: &WhatIfPolicy) -> Vec<WhatIfPolicy> {
    let none = WhatIfPolicy { name: "none".to_owned(), reallocation: None, ..in_force.clone() };
    let regular = with_parameters(Algorithm::Regular, Heuristic::Mct, in_force.reallocation);
    let regular =
        WhatIfPolicy { name: "regular/mct".to_owned(), reallocation: Some(regular), ..in_force.clone() };
    [none, regular].into_iter().filter(|one| !one.is_like(in_force)).collect()
}

#[cfg(test)]
mod tests {
    use pliant_model::Span;

    use super::*;

    fn in_force() -> WhatIfPolicy {
        let policy = Reallocation::new(Algorithm::Regular, Heuristic::Sufferage);
        WhatIfPolicy::in_force(Some(Reallocation { period: Span(300), ..policy }))
    }

    #[test]
    fn words_say_what_is_different() {
        let read = |words: &str| WhatIfPolicy::read(words, &in_force()).unwrap();
        assert!(read("now").is_like(&in_force()));
        assert_eq!(read("none").reallocation, None);
        let found = read("no-worse/minmin,threshold=30s,window=7,mapping=random,batch=easy");
        let policy = Reallocation::new(Algorithm::NoWorse, Heuristic::MinMin);
        let expected = Reallocation { period: Span(300), threshold: Span(30), window: 7, ..policy };
        assert_eq!(found.reallocation, Some(expected), "the period is the one in force");
        assert_eq!((found.mapping, found.batch.as_deref()), (Mapping::Random, Some("easy")));
        assert_eq!(read("none,tuner=exact").sizing.changed(Tuner::default()), Ok(Tuner::Exact));
        let own = Tuner::default().with("share", 0.8).unwrap();
        let expected = own.with("slack", 0.4);
        assert_eq!(read("none,slack=0.4").sizing.changed(own), expected, "the share of the server stays");
        assert_eq!(read("now,tuner=slack(slack=0.4,share=0.8)").sizing.changed(Tuner::Exact), expected);
        assert!(read("now,slack=0.4").sizing.changed(Tuner::Exact).is_err());
        let nothing = WhatIfPolicy::in_force(None);
        let found = WhatIfPolicy::read("regular", &nothing).unwrap();
        assert_eq!(found.reallocation, Some(Reallocation::new(Algorithm::Regular, Heuristic::Mct)));
        let names = |in_force: &WhatIfPolicy| -> Vec<String> {
            defaults(in_force).into_iter().map(|one| one.name).collect()
        };
        assert_eq!(names(&nothing), ["regular/mct"], "the other is the policy in force");
        assert_eq!(names(&in_force()), ["none", "regular/mct"]);
    }

    #[test]
    fn invalid_policies_are_refused() {
        for words in [
            "",
            "best",
            "regular/best",
            "none,period=5m",
            "now,period",
            "now,period=0s",
            "now,x=1",
            "now,mapping=best",
            "now,batch=slurm",
            "now,tuner=greedy",
            "now,tuner=exact,slack=0.5",
            "now,slack=much",
        ] {
            assert!(WhatIfPolicy::read(words, &in_force()).is_err(), "{words}");
        }
    }
}
