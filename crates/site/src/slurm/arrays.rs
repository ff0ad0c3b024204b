//! Jobs that are submitted together, as the tasks of one array: one command in place of many, and one entry of Slurm's queue
//! as long as none of them has started.
//!
//! An array carries a block of our numbers in its tag, and the index of a task says which of the block it is: so every task
//! has a number, an id (`12_3`) and a folder of its own, and is listed, withdrawn, ended and looked up like any job. Block
//! and index follow from the number alone, so that one is found again by its tag.

use std::ops::RangeInclusive;

use pliant_control::listing::ListedJob;

use crate::batch_system::submitter::Submitter;

/// How many numbers a block has. Slurm allows indices up to 1000 unless it is configured otherwise (`MaxArraySize`).
pub(super) const BLOCK: u32 = 1_000;

/// What a name or comment of our own says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tag {
    /// It is a job.
    Job(u32),
    /// It is an array with numbers from here on.
    Block(u32),
}

impl Tag {
    /// The number of the job with that id, if it has one: a whole array has none.
    pub(super) fn number(self, id: &str) -> Option<u32> {
        match self {
            Tag::Job(number) => Some(number),
            Tag::Block(first) => {
                let (_, index) = id.split_once('_')?;
                first.checked_add(index.parse().ok().filter(|index| *index < BLOCK)?)
            }
        }
    }
}

/// The first number of the block that a number is in.
pub fn block(number: u32) -> u32 {
    number - number % BLOCK
}

/// Whether an id is that of a task.
pub(super) fn is_task(id: &str) -> bool {
    id.contains('_')
}

impl Submitter<u32> {
    /// The tag of the array that has the jobs of a block.
    pub(super) fn array_tag(&self, number: u32) -> String {
        format!("{}{}+", self.prefix, block(number))
    }

    /// What a name or a comment says.
    pub(super) fn tagged(&self, text: &str) -> Option<Tag> {
        let Some(first) = text.strip_suffix('+') else { return self.number(text).map(Tag::Job) };
        self.number(first).filter(|first| first % BLOCK == 0).map(Tag::Block)
    }
}

/// The tasks that wait of an array of our own, `indices` being `0-3,7`: each is a job. Slurm plans the first of them. None if
/// that is no such list.
pub(super) fn tasks(waiting: &ListedJob, first: u32, indices: &str) -> Option<Vec<ListedJob>> {
    let array = waiting.id.strip_suffix("[]")?;
    let mut tasks = Vec::new();
    for range in indices.split(',') {
        for index in range_of(range)? {
            let mut task = ListedJob {
                id: format!("{array}{index}"),
                job_number: Some(first.checked_add(index)?),
                more_tasks: 0,
                max_running_tasks: None,
                ..waiting.clone()
            };
            if !tasks.is_empty() {
                task.planned = None;
            }
            tasks.push(task);
        }
    }
    Some(tasks)
}

fn range_of(range: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < BLOCK).then_some(first..=last)
}

/// The indices of numbers of one block, as sbatch takes them: `0-3,7`. In order.
pub(super) fn indices(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in numbers.iter().map(|number| number % BLOCK) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use pliant_control::listing::{PlannedStart, State};
    use pliant_model::Time;

    use super::*;
    use crate::batch_system::submitter::Submitters;

    fn who() -> Submitter<u32> {
        Submitter { prefix: "pliant:lyon:".to_owned(), user: 7, accounts: Submitters::default() }
    }

    #[test]
    fn a_number_says_its_block_and_its_index() {
        let numbers = [2_000, 2_001, 2_002, 2_007, 2_998, 2_999];
        assert_eq!(indices(&numbers), "0-2,7,998-999");
        assert_eq!(indices(&[2_017]), "17");
        let tag = who().array_tag(2_017);
        assert_eq!(tag, "pliant:lyon:2000+");
        assert_eq!(who().tagged(&tag), Some(Tag::Block(2_000)));
        assert_eq!(Tag::Block(2_000).number("55_17"), Some(2_017));
        assert_eq!(who().tagged("pliant:lyon:2000"), Some(Tag::Job(2_000)));
        for (tag, id) in
            [(Tag::Block(2_000), "55_1000"), (Tag::Block(2_000), "55"), (Tag::Block(2_000), "55_[]")]
        {
            assert_eq!(tag.number(id), None, "{id}");
        }
        for none in ["pliant:lyon:2001+", "pliant:lyon:+", "pliant:paris:2000+", "pliant:lyon:02000+"] {
            assert_eq!(who().tagged(none), None, "{none}");
        }
    }

    #[test]
    fn waiting_tasks_are_jobs() {
        let planned = Some(PlannedStart { start: Time(90), nodes: vec!["n1".to_owned()] });
        let waiting = ListedJob {
            id: "12_[]".to_owned(),
            state: State::Pending,
            more_tasks: 3,
            max_running_tasks: Some(2),
            planned: planned.clone(),
            ..ListedJob::default()
        };
        let found = tasks(&waiting, 4_000, "0-1,9").unwrap();
        let found_tasks: Vec<_> =
            found.iter().map(|task| (task.id.as_str(), task.job_number, task.more_tasks)).collect();
        assert_eq!(
            found_tasks,
            [("12_0", Some(4_000), 0), ("12_1", Some(4_001), 0), ("12_9", Some(4_009), 0)]
        );
        assert_eq!((&found[0].planned, &found[1].planned), (&planned, &None));
        for bad in ["", "3-1", "0-1000", "a", "0-3:2"] {
            assert_eq!(tasks(&waiting, 4_000, bad), None, "{bad}");
        }
    }
}
