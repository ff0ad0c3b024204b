//! The runs of a finished campaign of paper 000, from its `results.csv`.

use std::collections::BTreeMap;

use super::draws::{Estimate, mean, median};

/// The policies, in the order of the tables.
pub(super) const POLICIES: [&str; 4] = ["MCT-reg", "MinMin-reg", "MCT-can", "MinMin-can"];
/// The policies by their place in [`POLICIES`].
pub(super) const MCT_REG: usize = 0;
pub(super) const MINMIN_REG: usize = 1;
pub(super) const MCT_CAN: usize = 2;
pub(super) const MINMIN_CAN: usize = 3;
pub(super) const REGULAR: &[usize] = &[MCT_REG, MINMIN_REG];
pub(super) const ALL_CANCELLATION: &[usize] = &[MCT_CAN, MINMIN_CAN];
pub(super) const ALL: &[usize] = &[MCT_REG, MINMIN_REG, MCT_CAN, MINMIN_CAN];

/// What a run is compared with its reference by.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Measures {
    pub(super) impacted: f64,
    pub(super) moves: f64,
    pub(super) early: f64,
    pub(super) response: f64,
}

/// The runs of one draw of jobs, by policy.
pub(super) type Draw = [Measures; 4];

/// The draws of one setting, by month.
#[derive(Clone, Default, Debug)]
pub(super) struct Setting {
    pub(super) months: BTreeMap<String, BTreeMap<u64, Draw>>,
}

/// What distinguishes the settings of a campaign: the platform with its batch system, the load, and whether the platform is
/// dedicated.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) platform: String,
    pub(super) load: String,
    pub(super) dedicated: bool,
}

/// All settings of a campaign.
pub(super) struct Runs(BTreeMap<Key, Setting>);

impl Runs {
    /// Reads a table of results; the error says what is wrong.
    pub(super) fn parse(table: &str) -> Result<Runs, String> {
        let mut lines = table.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name: &str| {
            let index = header.iter().position(|found| *found == name);
            index.ok_or_else(|| format!("expected a column `{name}`, found none"))
        };
        let [workload, platform, share, seed, policy] =
            ["workload", "platform", "dedicated_share", "seed", "policy"].map(column);
        let (workload, platform, share, seed, policy) = (workload?, platform?, share?, seed?, policy?);
        let measures =
            ["impacted_percent", "reallocations_percent", "early_percent", "relative_mean_response"];
        let [impacted, moves, early, response] = measures.map(column);
        let (impacted, moves, early, response) = (impacted?, moves?, early?, response?);
        let mut runs = Runs(BTreeMap::new());
        for (index, line) in lines.enumerate() {
            let fields: Vec<&str> = line.split(',').collect();
            let field = |column: usize| fields.get(column).copied().unwrap_or_default();
            let Some(place) = POLICIES.iter().position(|name| *name == field(policy)) else { continue };
            let number = |column: usize| {
                let parsed = field(column).parse::<f64>();
                parsed.map_err(|_| {
                    let name = header[column];
                    format!("line {}: expected a number in `{name}`, found `{}`", index + 2, field(column))
                })
            };
            let (month, load) = field(workload).split_once('-').unwrap_or((field(workload), ""));
            let key = Key {
                platform: field(platform).to_owned(),
                load: load.to_owned(),
                dedicated: number(share)? == 1.0,
            };
            let month = runs.0.entry(key).or_default().months.entry(month.to_owned()).or_default();
            month.entry(number(seed)? as u64).or_default()[place] = Measures {
                impacted: number(impacted)?,
                moves: number(moves)?,
                early: number(early)?,
                response: number(response)?,
            };
        }
        Ok(runs)
    }

    /// The runs of a setting; the error names what the campaign lacks.
    pub(super) fn of(&self, platform: &str, load: &str, dedicated: bool) -> Result<&Setting, String> {
        let key = Key { platform: platform.to_owned(), load: load.to_owned(), dedicated };
        self.0.get(&key).ok_or_else(|| format!("expected runs of {key:?}, found none"))
    }

    /// The loads of the workloads, in ascending order.
    pub(super) fn loads(&self) -> Vec<&str> {
        let mut loads: Vec<&str> = self.0.keys().map(|key| key.load.as_str()).collect();
        loads.sort_unstable();
        loads.dedup();
        loads
    }
}

impl Setting {
    /// The mean over the draws of a value of each.
    pub(super) fn mean(&self, of: impl Fn(&Draw) -> f64) -> Estimate {
        Estimate::of(&self.values(of))
    }

    /// How many runs of these policies have a property, and which share in percent.
    pub(super) fn share(&self, policies: &[usize], has: impl Fn(&Measures) -> bool) -> (usize, Estimate) {
        self.share_of_draws(policies.len(), |draw| {
            policies.iter().filter(|policy| has(&draw[**policy])).count()
        })
    }

    /// How many of `of` things each draw has: all together, and the share in percent.
    pub(super) fn share_of_draws(&self, of: usize, count: impl Fn(&Draw) -> usize) -> (usize, Estimate) {
        let total = self.draws().map(&count).sum();
        (total, Estimate::of_shares(&self.values(|draw| count(draw) as f64 / of as f64)))
    }

    /// A value of each draw, by month.
    pub(super) fn values(&self, of: impl Fn(&Draw) -> f64) -> Vec<Vec<f64>> {
        self.months.values().map(|draws| draws.values().map(&of).collect()).collect()
    }

    /// The runs of one month.
    pub(super) fn month(&self, name: &str) -> Setting {
        let months = self.months.iter().filter(|(month, _)| *month == name);
        Setting { months: months.map(|(month, draws)| (month.clone(), draws.clone())).collect() }
    }

    pub(super) fn draws(&self) -> impl Iterator<Item = &Draw> {
        self.months.values().flat_map(BTreeMap::values)
    }

    /// The least, the middle and the largest value of all runs of a policy.
    pub(super) fn spread(&self, policy: usize, of: impl Fn(&Measures) -> f64) -> [f64; 3] {
        let values: Vec<f64> = self.draws().map(|draw| of(&draw[policy])).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        [least, median(&values), most]
    }

    /// The least and the largest value of all runs of some policies.
    pub(super) fn range(&self, policies: &[usize], of: impl Fn(&Measures) -> f64) -> [f64; 2] {
        let spreads = policies.iter().map(|policy| self.spread(*policy, &of));
        let join = |[low, high]: [f64; 2], [least, _, most]: [f64; 3]| [low.min(least), high.max(most)];
        spreads.fold([f64::INFINITY, f64::NEG_INFINITY], join)
    }

    /// The policies from the lowest mean response to the highest.
    pub(super) fn by_response(&self) -> [usize; 4] {
        let mut policies = [MCT_REG, MINMIN_REG, MCT_CAN, MINMIN_CAN];
        let response = |policy: usize| self.mean(|draw| draw[policy].response).mean;
        policies.sort_by(|one, other| response(*one).total_cmp(&response(*other)));
        policies
    }

    /// In each month, the largest minus the least response over the draws: the mean of some policies.
    pub(super) fn spread_in_months(&self, policies: &[usize]) -> Vec<f64> {
        let spread = |draws: &BTreeMap<u64, Draw>, policy: usize| {
            let responses = || draws.values().map(|draw| draw[policy].response);
            responses().fold(f64::NEG_INFINITY, f64::max) - responses().fold(f64::INFINITY, f64::min)
        };
        let of_month =
            |draws| mean(&policies.iter().map(|policy| spread(draws, *policy)).collect::<Vec<_>>());
        self.months.values().map(of_month).collect()
    }
}
