//! Sequences of a log: the runs of a seed use a number of consecutive jobs instead of the whole log. The keys
//! `sequence_jobs`, `sequence_first` and `sequence_times`.

use std::str::FromStr;

use pliant_model::{Job, Time, rng::stream_seed};
use pliant_policy::UnknownName;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::check::{Checked, Reader};
use super::file::{File, WorkloadTable};
use super::keywords::find;
use crate::limits;

/// The jobs of a workload that the runs of a seed use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// The number of jobs.
    pub jobs: usize,
    /// The position of the first job in the workload, from 0 on, for each seed of the campaign; drawn from the seed if empty.
    pub first: Vec<usize>,
    /// The submission times of the jobs.
    pub times: Times,
}

/// The submission times of the jobs of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    /// Shifted so that the first job is submitted at 0.
    Shifted,
    /// As in the log.
    Log,
}

impl FromStr for Times {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Times, UnknownName> {
        find("time of submission", vec![("shifted", Times::Shifted), ("log", Times::Log)], text)
    }
}

impl Sequence {
    /// The jobs for the seed at a position of the campaign's seeds; an error if the workload is too short.
    pub(super) fn of(&self, jobs: &[Job], position: usize, seed: u64) -> Result<Vec<Job>, String> {
        let last = jobs.len().checked_sub(self.jobs);
        let last =
            last.ok_or_else(|| format!("expected {} jobs at least, found {}", self.jobs, jobs.len()))?;
        let first = match self.first.get(position) {
            Some(first) if *first > last => {
                return Err(format!("expected a first job from 0 to {last}, found {first}"));
            }
            Some(first) => *first,
            None => ChaCha8Rng::seed_from_u64(stream_seed(seed, "sequence")).random_range(0..=last),
        };
        let mut sequence = jobs[first..first + self.jobs].to_vec();
        if self.times == Times::Shifted {
            let origin = sequence.first().map_or(Time::ZERO, |job| job.submit);
            sequence.iter_mut().for_each(|job| job.submit = Time((job.submit - origin).0));
        }
        Ok(sequence)
    }
}

impl Reader<'_> {
    pub(super) fn sequence(&self, file: &File, given: &WorkloadTable) -> Checked<Option<Sequence>> {
        let Some(jobs) = &given.sequence_jobs else {
            let first = given.sequence_first.as_ref().map(|key| ("sequence_first", key.span()));
            let times = given.sequence_times.as_ref().map(|key| ("sequence_times", key.span()));
            return match first.or(times) {
                None => Ok(None),
                Some((key, span)) => {
                    let problem = format!("expected `{key}` with `sequence_jobs`, found no `sequence_jobs`");
                    Err(self.at(span, problem, "sequence_jobs = 1024"))
                }
            };
        };
        let count = self.within(jobs, limits::SEQUENCE_JOBS)?;
        let first = given.sequence_first.as_ref().map_or(&[][..], |key| key.get_ref());
        let seeds = file.seeds.get_ref().0.len();
        if let Some(key) = given.sequence_first.as_ref().filter(|key| key.get_ref().len() != seeds) {
            let problem =
                format!("expected a position for each of {seeds} seeds, found {}", key.get_ref().len());
            return Err(self.at(
                key.span(),
                problem,
                "positions count from 0; without the key they are drawn",
            ));
        }
        let times = given.sequence_times.as_ref().map_or(Times::Shifted, |word| word.get_ref().0);
        Ok(Some(Sequence { jobs: count as usize, first: first.to_vec(), times }))
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::{Procs, Span};

    use super::*;

    fn log(jobs: i64) -> Vec<Job> {
        let job = |number: i64| Job {
            log_id: number as u64,
            submit: Time(1_000 + 10 * number),
            procs: Procs::ONE,
            walltime: Span(5),
            runtime: Span(5),
            user: -1,
            group: -1,
            executable: -1,
            origin: None,
            memory: pliant_model::LoggedMemory::default(),
            resources: None,
        };
        (0..jobs).map(job).collect()
    }

    #[test]
    fn a_sequence_is_what_follows_its_first_job() {
        let check = |first: Vec<usize>, times, position, expected: Result<&[(u64, i64)], &str>| {
            let sequence = Sequence { jobs: 3, first, times };
            let found = sequence.of(&log(8), position, 1);
            let found =
                found.map(|jobs| jobs.iter().map(|job| (job.log_id, job.submit.0)).collect::<Vec<_>>());
            assert_eq!(found.as_deref().map_err(String::as_str), expected);
        };
        check(vec![2, 5], Times::Log, 0, Ok(&[(2, 1_020), (3, 1_030), (4, 1_040)]));
        check(vec![2, 5], Times::Shifted, 1, Ok(&[(5, 0), (6, 10), (7, 20)]));
        check(vec![2, 6], Times::Log, 1, Err("expected a first job from 0 to 5, found 6"));
        let long = Sequence { jobs: 9, first: Vec::new(), times: Times::Log };
        assert_eq!(long.of(&log(8), 0, 1), Err("expected 9 jobs at least, found 8".to_owned()));
    }

    #[test]
    fn drawn_sequences_are_everywhere_and_the_same_again() {
        let sequence = Sequence { jobs: 3, first: Vec::new(), times: Times::Log };
        let first = |seed| sequence.of(&log(8), 0, seed).unwrap()[0].log_id;
        let drawn: std::collections::BTreeSet<u64> = (0..100).map(first).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(first(7), first(7));
    }
}
