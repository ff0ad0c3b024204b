//! Words of the files of campaigns of multi-jobs that have no registry of their own.

use std::str::FromStr;

use pliant_policy::UnknownName;
use pliant_trace::generate::JobLaw;

use crate::campaign::words::find;
use crate::multi_job::{RunningJobs, RuntimeKnowledge};

const LAWS: [(&str, JobLaw); 4] = [
    ("deterministic", JobLaw::Deterministic),
    ("gaussian", JobLaw::Gaussian),
    ("pareto", JobLaw::Pareto),
    ("pareto-printed", JobLaw::ParetoPrinted),
];

/// The word of a law.
pub fn law_name(law: JobLaw) -> &'static str {
    LAWS.iter().find(|(_, other)| *other == law).map_or("", |(word, _)| word)
}

/// A law of job times.
pub(super) struct LawWord(pub(super) JobLaw);

impl FromStr for LawWord {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<LawWord, UnknownName> {
        find("law of job times", LAWS.to_vec(), text).map(LawWord)
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
