//! Keywords of campaign files of multi-jobs that have no registry of their own.

use std::str::FromStr;

use pliant_policy::UnknownName;
use pliant_trace::generate::JobLaw;

use crate::campaign::keywords::find;
use crate::multi_job::{RunningJobs, RuntimeKnowledge};

const LAWS: [(&str, JobLaw); 4] = [
    ("deterministic", JobLaw::Deterministic),
    ("gaussian", JobLaw::Gaussian),
    ("pareto", JobLaw::Pareto),
    ("pareto-printed", JobLaw::ParetoPrinted),
];

/// The keyword of a distribution.
pub fn law_name(law: JobLaw) -> &'static str {
    LAWS.iter().find(|(_, other)| *other == law).map_or("", |(word, _)| word)
}

/// A distribution of runtimes, by its keyword.
pub(super) struct LawKeyword(pub(super) JobLaw);

impl FromStr for LawKeyword {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<LawKeyword, UnknownName> {
        find("law of job times", LAWS.to_vec(), text).map(LawKeyword)
    }
}

impl FromStr for RuntimeKnowledge {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<RuntimeKnowledge, UnknownName> {
        let words = vec![
            ("whole-log", RuntimeKnowledge::WholeLog),
            ("finished", RuntimeKnowledge::Finished),
            ("exact", RuntimeKnowledge::Exact),
        ];
        find("source of runtimes", words, text)
    }
}

impl FromStr for RunningJobs {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<RunningJobs, UnknownName> {
        let words = vec![("as-submitted", RunningJobs::AsSubmitted), ("by-elapsed", RunningJobs::ByElapsed)];
        find("expectation of running jobs", words, text)
    }
}
