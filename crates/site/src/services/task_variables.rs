//! What a script finds about its tasks, as in Slurm: how many there are, and how many processors each has.
//!
//! In front of Slurm the batch system sets the same values itself.

use pliant_control::job::Work;

use super::template::Template;
use crate::word::{Piece, Word};

/// How a line of options of `sbatch` begins.
const SLURM_LINE: &[u8] = b"#SBATCH";
/// The owners whose names the variables have.
const OWNERS: [&str; 2] = ["PLIANT", "SLURM"];

/// The variables of a script, for those that say how many processors a task has, and for those with `#SBATCH` lines. `text` is its text.
pub fn task_variables(text: &[u8], work: &Work) -> impl Iterator<Item = (String, Word)> {
    variables(text, work).map(|(name, value)| match value {
        Value::Count(count) => (name, Word::text(count.to_string())),
        Value::Procs => (name, Word::of(vec![Piece::Procs])),
    })
}

/// The same of a script that runs with parameters.
pub(super) fn task_templates(text: &[u8], work: &Work) -> impl Iterator<Item = (String, Template)> {
    variables(text, work).map(|(name, value)| match value {
        Value::Count(count) => (name, Template::text(&count.to_string())),
        Value::Procs => (name, Template::procs()),
    })
}

#[derive(Clone, Copy)]
enum Value {
    Count(u32),
    /// The number of processors, which is decided later.
    Procs,
}

fn variables(text: &[u8], work: &Work) -> impl Iterator<Item = (String, Value)> {
    let resources = work.resources.as_deref().filter(|resources| resources.procs_per_task.is_some());
    let tasks = match resources {
        Some(resources) => Some(Value::Count(resources.tasks(work.procs))),
        None => has_slurm_lines(text).then_some(Value::Procs),
    };
    let each = resources.map(|resources| Value::Count(resources.task_procs().0));
    let found = [("NTASKS", tasks), ("CPUS_PER_TASK", each)];
    let found = found.into_iter().filter_map(|(name, value)| Some((name, value?)));
    found.flat_map(|(name, value)| OWNERS.map(|owner| (format!("{owner}_{name}"), value)))
}

/// Whether the head of a script, which ends before the first line that is neither blank nor a comment, has options of `sbatch`.
pub fn has_slurm_lines(text: &[u8]) -> bool {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut head = lines.take_while(|line| line.is_empty() || line.starts_with(b"#"));
    head.any(|line| {
        line.strip_prefix(SLURM_LINE).is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pliant_model::{Procs, Resources, Span, Speedup};

    use super::*;

    #[test]
    fn scripts_find_their_tasks_as_in_slurm() {
        let check = |text: &str, procs_per_task: Option<u32>, expected: &[(&str, &str)]| {
            let resources = Resources { procs_per_task: procs_per_task.map(Procs), ..Resources::default() };
            let resources = Some(Arc::new(resources)).filter(|one| **one != Resources::default());
            let work = Work { resources, ..Work::new(Procs(8), Span(60), Speedup::Rigid) };
            let at_start = |(name, word): (String, Word)| (name, word.at_start(Procs(8), Span(60)));
            let found: Vec<(String, String)> = task_variables(text.as_bytes(), &work).map(at_start).collect();
            let expected = expected.iter().flat_map(|(name, value)| {
                OWNERS.map(|owner| (format!("{owner}_{name}"), (*value).to_owned()))
            });
            assert_eq!(found, expected.collect::<Vec<_>>(), "{text}");
        };
        let lines = "#!/bin/sh\n\n#SBATCH --ntasks=8\necho";
        check(lines, None, &[("NTASKS", "8")]);
        check(lines, Some(4), &[("NTASKS", "2"), ("CPUS_PER_TASK", "4")]);
        check("#!/bin/sh\n", Some(1), &[("NTASKS", "8"), ("CPUS_PER_TASK", "1")]);
        check("#!/bin/sh\n#SBATCHES\necho\n#SBATCH -n 8", None, &[]);
    }
}
