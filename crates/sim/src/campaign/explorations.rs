//! Campaign files of optional computations: `[[scenario]]` instead of `[[workload]]`, `[[system]]` instead of `[[policy]]`.

use std::path::Path;

use pliant_control::optional::explore::Dispatch;
use pliant_model::SpanMs;
use pliant_policy::optional::{Fairness, Order, Reallocation};
use serde::Deserialize;
use toml::Spanned;

use super::check::{Checked, Reader};
use super::file::{Keyword, Seeds};
use super::{JobSource, Moldable, PlatformChoice, SimulationCampaign, Variant, VariantPolicies, Workload};
use crate::optional::{Arrivals, Outages, Scenario, System};

/// The upper bound of servers, users, cores, weights and requests.
const MOST: i64 = 100_000;
/// The default of the gain that the move of a mandatory request must have.
const LEAST_GAIN: SpanMs = SpanMs(100);
/// The upper bound of times, in milliseconds: a year.
const LONGEST_MS: i64 = 31_536_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplorationFile {
    name: Spanned<String>,
    seeds: Spanned<Seeds>,
    reference: Option<Spanned<String>>,
    scenario: Spanned<Vec<Spanned<ScenarioTable>>>,
    system: Spanned<Vec<Spanned<SystemTable>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioTable {
    name: Spanned<String>,
    arrivals: Keyword<Arrivals>,
    users: Option<Spanned<i64>>,
    weights: Option<Spanned<Vec<Spanned<i64>>>>,
    mandatory: Option<Spanned<i64>>,
    requests: Option<Spanned<i64>>,
    deadline_ms: Option<Spanned<i64>>,
    runtime_ms: Option<Spanned<i64>>,
    servers: Option<Spanned<i64>>,
    speeds: Option<Spanned<Vec<Spanned<f64>>>>,
    cores: Option<Spanned<i64>>,
    pace_ms: Option<Spanned<i64>>,
    up_ms: Option<Spanned<i64>>,
    down_ms: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SystemTable {
    name: Spanned<String>,
    fairness: Option<Keyword<Fairness>>,
    window: Option<Spanned<i64>>,
    grace_ms: Option<Spanned<i64>>,
    reallocate_ms: Option<Spanned<i64>>,
    least_gain_ms: Option<Spanned<i64>>,
    guesses: Option<Spanned<Vec<Spanned<i64>>>>,
}

impl Reader<'_> {
    pub(super) fn explorations(&self, file: ExplorationFile) -> Checked<SimulationCampaign> {
        self.name(&file.name)?;
        self.filled(&file.seeds, file.seeds.get_ref().0.is_empty(), "seeds = { from = 1, count = 10 }")?;
        self.distinct(&file.seeds, &file.seeds.get_ref().0)?;
        self.filled(&file.scenario, file.scenario.get_ref().is_empty(), "add a [[scenario]]")?;
        self.filled(&file.system, file.system.get_ref().is_empty(), "add a [[system]]")?;
        let mut workloads: Vec<Workload> = Vec::new();
        for table in file.scenario.get_ref() {
            let given = table.get_ref();
            self.name(&given.name)?;
            if workloads.iter().any(|other| &other.name == given.name.get_ref()) {
                return Err(self.repeated(&given.name));
            }
            let scenario = self.scenario(given)?;
            let procs = scenario.speeds.len() as u32 * scenario.cores;
            workloads.push(Workload {
                name: given.name.get_ref().clone(),
                source: JobSource::Scenario(Box::new(scenario)),
                optional: false,
                sequence: None,
                platforms: vec![PlatformChoice::Procs(procs)],
            });
        }
        let mut policies: Vec<Variant> = Vec::new();
        for table in file.system.get_ref() {
            self.name(&table.get_ref().name)?;
            for variant in self.systems(table)? {
                if policies.iter().any(|other| other.name == variant.name) {
                    return Err(self.repeated(&table.get_ref().name));
                }
                policies.push(variant);
            }
        }
        Ok(SimulationCampaign {
            base: self.path.parent().unwrap_or(Path::new("")).to_owned(),
            log_dirs: Vec::new(),
            dedicated_shares: vec![1.0],
            moldable: vec![Moldable::None],
            reference: self.reference(file.reference.as_ref(), &policies, "system")?,
            name: file.name.into_inner(),
            seeds: file.seeds.into_inner().0,
            workloads,
            policies,
            planned_starts: false,
        })
    }

    fn scenario(&self, given: &ScenarioTable) -> Checked<Scenario> {
        let paper = Scenario::paper(given.arrivals.0);
        let count = |key: &Option<Spanned<i64>>, least: i64, usual: u32| match key {
            None => Ok(usual),
            Some(found) => self.within(found, least..=MOST).map(|value| value as u32),
        };
        let span = |key: &Option<Spanned<i64>>, least: i64, usual: SpanMs| match key {
            None => Ok(usual),
            Some(found) => self.within(found, least..=LONGEST_MS).map(SpanMs),
        };
        let weights = given.weights.iter().flat_map(|weights| weights.get_ref());
        let outages = match (&given.up_ms, &given.down_ms) {
            (None, None) => None,
            (Some(up), Some(down)) => Some(Outages {
                up: SpanMs(self.within(up, 1..=LONGEST_MS)?),
                down: SpanMs(self.within(down, 1..=LONGEST_MS)?),
            }),
            (Some(one), None) | (None, Some(one)) => {
                let problem = "expected `up_ms` and `down_ms`, found one of them".to_owned();
                return Err(self.at(one.span(), problem, "up_ms = 60000, down_ms = 10000"));
            }
        };
        Ok(Scenario {
            users: count(&given.users, 1, paper.users)?,
            weights: weights
                .map(|one| self.within(one, 1..=MOST).map(|one| one as u32))
                .collect::<Checked<_>>()?,
            mandatory: count(&given.mandatory, 0, paper.mandatory)?,
            most: count(&given.requests, 1, paper.most)?,
            deadline: span(&given.deadline_ms, 1, paper.deadline)?,
            runtime: span(&given.runtime_ms, 1, paper.runtime)?,
            speeds: self.speeds(given)?,
            cores: count(&given.cores, 1, paper.cores)?,
            pace: span(&given.pace_ms, 0, paper.pace)?,
            outages,
            arrivals: paper.arrivals,
        })
    }

    fn speeds(&self, given: &ScenarioTable) -> Checked<Vec<f64>> {
        match (&given.servers, &given.speeds) {
            (Some(servers), Some(_)) => {
                let problem = "expected either `servers` or `speeds`, found both".to_owned();
                Err(self.at(servers.span(), problem, "speeds = [0.5, 1.0, 2.0] are three servers"))
            }
            (Some(servers), None) => Ok(vec![1.0; self.within(servers, 1..=MOST)? as usize]),
            (None, Some(speeds)) => {
                self.filled(speeds, speeds.get_ref().is_empty(), "speeds = [0.5, 1.0, 2.0]")?;
                for speed in speeds.get_ref() {
                    if !(0.001..=1_000.0).contains(speed.get_ref()) {
                        let problem =
                            format!("expected a speed from 0.001 to 1000, found {}", speed.get_ref());
                        return Err(self.at(
                            speed.span(),
                            problem,
                            "1.0 is the speed that runtimes are given for",
                        ));
                    }
                }
                Ok(speeds.get_ref().iter().map(|speed| *speed.get_ref()).collect())
            }
            (None, None) => Ok(vec![1.0; 10]),
        }
    }

    fn moving(&self, given: &SystemTable) -> Checked<Option<Reallocation>> {
        let Some(every) = &given.reallocate_ms else {
            return match &given.least_gain_ms {
                None => Ok(None),
                Some(gain) => {
                    let problem = "expected `reallocate_ms` with `least_gain_ms`, found it alone".to_owned();
                    Err(self.at(gain.span(), problem, "reallocate_ms = 1000"))
                }
            };
        };
        let least_gain = given.least_gain_ms.as_ref();
        let least_gain = least_gain.map(|gain| self.within(gain, 0..=LONGEST_MS)).transpose()?;
        let every = SpanMs(self.within(every, 1..=LONGEST_MS)?);
        Ok(Some(Reallocation { every, least_gain: least_gain.map_or(LEAST_GAIN, SpanMs) }))
    }

    /// The systems of a table: one, or one legacy system for each guess.
    fn systems(&self, table: &Spanned<SystemTable>) -> Checked<Vec<Variant>> {
        let given = table.get_ref();
        let name = given.name.get_ref();
        if let Some(guesses) = &given.guesses {
            let keys = [&given.window, &given.grace_ms, &given.reallocate_ms, &given.least_gain_ms];
            let stray = keys.into_iter().flatten().next().map(Spanned::span);
            let stray = stray.or_else(|| given.fairness.as_ref().map(|_| table.span()));
            if let Some(span) = stray {
                let problem =
                    "expected `guesses` alone: the legacy system knows no optional requests".to_owned();
                return Err(self.at(
                    span,
                    problem,
                    "remove fairness, window, grace_ms, reallocate_ms and least_gain_ms",
                ));
            }
            self.filled(guesses, guesses.get_ref().is_empty(), "guesses = [3, 100, 1000]")?;
            let legacy = |guess: &Spanned<i64>| {
                let guess = self.within(guess, 1..=MOST)?;
                let treatment = VariantPolicies::Requests(System::legacy(guess as u32));
                Ok(Variant { name: format!("{name}-{guess}"), treatment, compare_with: Vec::new() })
            };
            return guesses.get_ref().iter().map(legacy).collect();
        }
        let grace = match &given.grace_ms {
            None => SpanMs::ZERO,
            Some(grace) => SpanMs(self.within(grace, 0..=LONGEST_MS)?),
        };
        let window = match &given.window {
            None => 1,
            Some(window) => self.within(window, 1..=MOST)? as u32,
        };
        let fairness = given.fairness.map_or(Fairness::VirtualTime, |word| word.0);
        let (order, dispatch) = (Order::Fair { fairness, grace }, Dispatch::Window(window));
        let system = System { order, dispatch, reallocation: self.moving(given)? };
        let treatment = VariantPolicies::Requests(system);
        Ok(vec![Variant { name: name.clone(), treatment, compare_with: Vec::new() }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"name = "tiny"
seeds = [1]
reference = "ours"

[[scenario]]
name = "day"
arrivals = "regular"
speeds = [0.5, 2.0]
weights = [1, 2]
cores = 3

[[system]]
name = "ours"
grace_ms = 500

[[system]]
name = "legacy"
guesses = [3, 100]
"#;

    fn parse(text: &str) -> Result<SimulationCampaign, super::super::CampaignError> {
        SimulationCampaign::parse(text, Path::new("c.toml"))
    }

    #[test]
    fn a_file_says_what_is_run() {
        let campaign = parse(GOOD).unwrap();
        let keys =
            ["ours", "legacy-3", "legacy-100"].map(|one| format!("day_6-procs_none_share-1_seed-1_{one}"));
        assert_eq!(campaign.keys(), keys);
        let scenario = Scenario {
            speeds: vec![0.5, 2.0],
            weights: vec![1, 2],
            cores: 3,
            ..Scenario::paper(Arrivals::Regular)
        };
        assert_eq!(campaign.workloads[0].source, JobSource::Scenario(Box::new(scenario)));
        assert_eq!(campaign.policies[2].treatment, VariantPolicies::Requests(System::legacy(100)));
    }

    #[test]
    fn errors_name_the_position() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(GOOD.contains(from), "{from}");
            let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.is_input() && error.hint().is_some_and(|hint| !hint.is_empty()), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(
            "reference = \"ours\"",
            "reference = \"else\"",
            "3:13: `reference`: expected the name of a [[system]]",
        );
        check("\"regular\"", "\"rare\"", "7:12: `arrivals`: expected a pattern of arrivals (simultaneous, ");
        check("[0.5, 2.0]", "[0.0]", "8:11: `speeds`: expected a speed from 0.001 to 1000, found 0");
        check("[0.5, 2.0]", "[]", "8:10: `speeds`: expected at least one");
        check("[1, 2]", "[0]", "9:12: `weights`: expected a whole number from 1 to 100000, found 0");
        check("cores = 3", "up_ms = 5", "10:9: `up_ms`: expected `up_ms` and `down_ms`, found one of them");
        check(
            "cores = 3",
            "servers = 3",
            "10:11: `servers`: expected either `servers` or `speeds`, found both",
        );
        check("guesses = [3, 100]", "guesses = [3]\nwindow = 2", "19:10: `window`: expected `guesses` alone");
        check(
            "\"legacy\"",
            "\"ours\"\nwindow = 2\n[[system]]\nname = \"x\"",
            "expected unique names, found `ours` twice",
        );
        check(
            "grace_ms = 500",
            "least_gain_ms = 5",
            "expected `reallocate_ms` with `least_gain_ms`, found it alone",
        );
        check("grace_ms = 500", "reallocate_ms = 0", "`reallocate_ms`: expected a whole number from 1 to");
        check("grace_ms", "grace", "unknown key `grace`");
    }
}
