//! The registry of tuners: their names, parameters and text form.

use std::fmt;
use std::str::FromStr;

use crate::UnknownName;

/// A number of thousandths: 500 is one half. Parameters of tuners are such numbers, so that decisions are computed in integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Thousandths(pub u32);

impl Thousandths {
    /// The nearest number of thousandths; none below 0, above 1,000 or for what is no number.
    pub fn nearest(value: f64) -> Option<Thousandths> {
        (0.0..=1000.0).contains(&value).then(|| Thousandths((value * 1000.0).round() as u32))
    }
}

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1000.0)
    }
}

/// How a server chooses the number of processors of a moldable request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "String", into = "String")
)]
pub enum Tuner {
    /// The fewest processors with which the request completes almost as early as it could, not below a part of an equal
    /// share of the cluster ([`super::slack`]).
    Slack {
        /// By how much the promised response may exceed the earliest possible one, relative to it.
        slack: Thousandths,
        /// The part of an equal share that a request gets at least, above 0.
        share: Thousandths,
    },
    /// One pass over the profile: the exhaustive answer at the cost of a few probes.
    Exact,
    /// Paper 000's binary search: few estimations, may miss the size that completes first (section 3.2.1).
    Binary,
    /// Tries every size for the one that completes first (paper 000, section 3.2.1).
    Exhaustive,
    /// At most an equal share of the cluster ([`super::rules::equal_share`]).
    EqualShare,
    /// At most what heSRPT gives a job of its size ([`super::rules::he_srpt`]).
    HeSrpt,
    /// At most its fair share by work ([`super::rules::fair_share`]).
    FairShare,
    /// At most the knee of its efficiency ([`super::rules::knee`]).
    Knee,
    /// At most as many processors as it uses efficiently ([`super::rules::efficient`]).
    Efficiency {
        /// The least efficiency, above 0 and at most 1.
        least: Thousandths,
    },
    /// LPA, local processor allocation ([`super::rules::local_allocation`]).
    Lpa,
    /// The size with the lowest cost of waiting and processor time ([`super::rules::cheapest`]).
    Price {
        /// The weight of processor time.
        weight: Thousandths,
    },
}

/// A parameter of a tuner as options and files name it, with the values that it may take.
struct Parameter {
    key: &'static str,
    least: Thousandths,
    most: Thousandths,
}

const SLACK: Parameter = Parameter { key: "slack", least: Thousandths(0), most: Thousandths(1_000_000) };
const SHARE: Parameter = Parameter { key: "share", least: Thousandths(1), most: Thousandths(1_000) };
const EFFICIENCY: Parameter =
    Parameter { key: "efficiency", least: Thousandths(1), most: Thousandths(1_000) };
const PRICE: Parameter = Parameter { key: "price", least: Thousandths(0), most: Thousandths(1_000_000) };

impl Default for Tuner {
    fn default() -> Tuner {
        Tuner::Slack { slack: Thousandths(500), share: Thousandths(500) }
    }
}

impl Tuner {
    /// Every tuner with its usual parameters, in the order in which they are listed to users.
    pub const ALL: &'static [Tuner] = &[
        Tuner::Slack { slack: Thousandths(500), share: Thousandths(500) },
        Tuner::Exact,
        Tuner::Binary,
        Tuner::Exhaustive,
        Tuner::EqualShare,
        Tuner::HeSrpt,
        Tuner::FairShare,
        Tuner::Knee,
        Tuner::Efficiency { least: Thousandths(500) },
        Tuner::Lpa,
        Tuner::Price { weight: Thousandths(1_000) },
    ];

    /// The stable name, as in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slack { .. } => "slack",
            Self::Exact => "exact",
            Self::Binary => "binary",
            Self::Exhaustive => "exhaustive",
            Self::EqualShare => "equal-share",
            Self::HeSrpt => "hesrpt",
            Self::FairShare => "fair-share",
            Self::Knee => "knee",
            Self::Efficiency { .. } => "efficiency",
            Self::Lpa => "lpa",
            Self::Price { .. } => "price",
        }
    }

    /// What it does, in a line.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Slack { .. } => {
                "the fewest processors that complete within 1.5 times the earliest response, at least half an equal share"
            }
            Self::Exact => "the size that completes first, found in one pass over the cluster's plan",
            Self::Binary => "binary search for the size that completes first: few estimations, may miss it",
            Self::Exhaustive => "tries every size and takes the one that completes first",
            Self::EqualShare => "completes first with at most an equal share of the cluster",
            Self::HeSrpt => "completes first with at most the share that heSRPT gives a job of its size",
            Self::FairShare => "completes first with at most a share in proportion to the job's work",
            Self::Knee => "completes first with at most the processors at the knee of the job's efficiency",
            Self::Efficiency { .. } => {
                "completes first with at most as many processors as the job uses efficiently"
            }
            Self::Lpa => {
                "the least processor time within a bound on the walltime (local processor allocation)"
            }
            Self::Price { .. } => "the lowest sum of the response and a price on processor time",
        }
    }

    /// True if it looks for the earliest completion only, whatever that costs others.
    pub const fn is_greedy(self) -> bool {
        matches!(self, Self::Exact | Self::Binary | Self::Exhaustive)
    }

    /// The keys of the parameters that it takes.
    pub fn keys(self) -> Vec<&'static str> {
        let (mut tuner, mut keys) = (self, Vec::new());
        tuner.parameters(|parameter, _| keys.push(parameter.key));
        keys
    }

    /// The same with a parameter changed.
    pub fn with(mut self, key: &str, value: f64) -> Result<Tuner, TunerError> {
        let (mut expected, mut found, mut wrong) = (Vec::new(), false, None);
        self.parameters(|parameter, estimate| {
            expected.push(parameter.key);
            if parameter.key == key {
                found = true;
                match Thousandths::nearest(value) {
                    Some(value) if (parameter.least..=parameter.most).contains(&value) => *estimate = value,
                    _ => wrong = Some((parameter.key, parameter.least, parameter.most)),
                }
            }
        });
        match wrong {
            Some((key, least, most)) => Err(TunerError::Value { key, found: value.to_string(), least, most }),
            None if found => Ok(self),
            None => Err(TunerError::Parameter { tuner: self.name(), found: key.to_owned(), expected }),
        }
    }

    /// Calls `each` with every parameter and its value.
    fn parameters(&mut self, mut each: impl FnMut(Parameter, &mut Thousandths)) {
        match self {
            Self::Slack { slack, share } => {
                each(SLACK, slack);
                each(SHARE, share);
            }
            Self::Efficiency { least } => each(EFFICIENCY, least),
            Self::Price { weight } => each(PRICE, weight),
            Self::Exact | Self::Binary | Self::Exhaustive | Self::EqualShare => {}
            Self::HeSrpt | Self::FairShare | Self::Knee | Self::Lpa => {}
        }
    }
}

/// The name, followed by the parameters if they are not the usual ones: `slack(slack=0.4,share=0.5)`.
impl fmt::Display for Tuner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if Tuner::ALL.contains(self) {
            return Ok(());
        }
        let (mut tuner, mut values) = (*self, Vec::new());
        tuner.parameters(|parameter, value| values.push(format!("{}={value}", parameter.key)));
        write!(f, "({})", values.join(","))
    }
}

impl FromStr for Tuner {
    type Err = TunerError;

    fn from_str(text: &str) -> Result<Tuner, TunerError> {
        let (name, parameters) = match text.split_once('(') {
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(parameters) => (name, parameters),
                None => return Err(TunerError::Syntax(text.to_owned())),
            },
            None => (text, ""),
        };
        let known = Tuner::ALL.iter().copied().find(|one| one.name() == name);
        let unknown = || UnknownName {
            what: "tuner",
            found: name.to_owned(),
            expected: Tuner::ALL.iter().map(|one| one.name()).collect(),
        };
        let tuner = known.ok_or_else(|| TunerError::Name(unknown()))?;
        parameters.split(',').filter(|part| !part.is_empty()).try_fold(tuner, |tuner, part| {
            let form = || TunerError::Syntax(text.to_owned());
            let (key, value) = part.split_once('=').ok_or_else(form)?;
            tuner.with(key.trim(), value.trim().parse().map_err(|_| form())?)
        })
    }
}

impl TryFrom<String> for Tuner {
    type Error = TunerError;

    fn try_from(text: String) -> Result<Tuner, TunerError> {
        text.parse()
    }
}

impl From<Tuner> for String {
    fn from(tuner: Tuner) -> String {
        tuner.to_string()
    }
}

/// A text that is not a valid tuner.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum TunerError {
    /// The name is not in the registry.
    #[error(transparent)]
    Name(UnknownName),
    /// The tuner has no parameter of that name.
    #[error("expected {}, found `{found}`", expected_parameters(tuner, expected))]
    Parameter {
        /// The tuner.
        tuner: &'static str,
        /// The parameter that was given.
        found: String,
        /// The parameters that it has.
        expected: Vec<&'static str>,
    },
    /// A parameter is out of its range.
    #[error("expected `{key}` from {least} to {most}, found {found}")]
    Value {
        /// The parameter.
        key: &'static str,
        /// What was given.
        found: String,
        /// The least value.
        least: Thousandths,
        /// The largest value.
        most: Thousandths,
    },
    /// The parameters cannot be parsed.
    #[error("expected a tuner such as `slack` or `slack(slack=0.4,share=0.5)`, found `{0}`")]
    Syntax(String),
}

fn expected_parameters(tuner: &str, expected: &[&str]) -> String {
    if expected.is_empty() {
        return format!("no parameters for the tuner `{tuner}`");
    }
    format!("a parameter of the tuner `{tuner}` ({})", expected.join(", "))
}
