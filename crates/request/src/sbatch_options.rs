//! The options of Slurm's `sbatch`, which `#SBATCH` lines may have, and what each means here.
//!
//! To support another option, change its entry.

use self::Meaning::*;
use self::Value::*;

/// An option of `sbatch`.
pub(crate) struct SbatchOption {
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) value: Value,
    pub(crate) meaning: Meaning,
}

/// Whether an option has a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Without,
    With,
    /// With one only directly behind it: `--nice`, `--nice=5`.
    Optional,
}

/// What an option means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// This option of `pliant submit`, with the same value.
    Same(&'static str),
    /// `--time`, in Slurm's formats.
    Time,
    /// A part of the size of the job.
    Size(Part),
    /// This option of `pliant submit`, with an amount in Slurm's units.
    Memory(&'static str),
    /// `--exclusive`, without a value.
    Exclusive,
    /// `--nice`, without a value 100.
    Nice,
    /// This option of `pliant submit`, with its value.
    Always(&'static str),
    /// `--env` for each variable in a list; the environment of `sbatch` is not passed on.
    Export,
    /// Nothing: it does not change what runs or where.
    Ignored,
    /// Nothing, with a note for the user.
    Noted(&'static str),
    /// It cannot be satisfied; what to do.
    Unsupported(&'static str),
}

/// A part of the size of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// How many tasks it runs.
    Tasks,
    /// How many processors each task has.
    ProcsPerTask,
    /// How many nodes it has.
    Nodes,
    /// How many tasks each node has.
    TasksPerNode,
    /// The memory on each node.
    MemoryPerNode,
    /// The GPUs on each node.
    GpusPerNode,
    /// The same among other generic resources.
    Gres,
    /// The GPUs of each task.
    GpusPerTask,
}

impl Part {
    /// The options of `pliant submit` that give it.
    pub(crate) fn instead(self) -> &'static str {
        match self {
            Part::Tasks => "`--rigid N` gives the number of processors",
            Part::ProcsPerTask => "`--cpus-per-task N` does that",
            Part::Nodes => "`--nodes N` does that",
            Part::TasksPerNode => {
                "`--procs-per-node N` gives the most processors of a node, and --rigid those of the job"
            }
            Part::MemoryPerNode => "`--mem` gives the memory of the job",
            Part::GpusPerNode | Part::Gres | Part::GpusPerTask => {
                "`--gpus [KIND:]N` gives the GPUs of the job"
            }
        }
    }
}

const fn option(long: &'static str, short: Option<char>, value: Value, meaning: Meaning) -> SbatchOption {
    SbatchOption { long, short, value, meaning }
}

const OUTPUT: &str = "output stays with the job: `pliant logs JOB` prints it, `pliant fetch JOB` brings it";
const SIZE: &str = "--ntasks and --cpus-per-task give the number of processors";
const VARIABLES: &str = "--env NAME=VALUE gives variables one by one";
const CHOICE: &str = "the federation chooses the cluster, and its operator the rest";
const MEMORY: &str = "--mem or --mem-per-cpu gives the memory";
const GPUS: &str = "--gpus, --gpus-per-node or --gpus-per-task gives the number of GPUs";
const NODES: &str = "--nodes and --ntasks-per-node give the number of nodes, and the cluster chooses which";
const CLUSTER: &str = "`#PLIANT --server NAME` chooses the cluster";
const BURST_BUFFER: &str = "--in sends files, and --scratch asks for local disk space";
const USER: &str = "the certificate of the command says who submits";
const LATER: &str = "`pliant wait JOB && pliant submit ...` submits after the end of another job";

/// The options, by their long names.
pub(crate) const OPTIONS: [SbatchOption; 100] = [
    option("account", Some('A'), With, Same("--account")),
    option("acctg-freq", None, With, Ignored),
    option("array", Some('a'), With, Same("--array")),
    option("batch", None, With, Unsupported(NODES)),
    option("bb", None, With, Unsupported(BURST_BUFFER)),
    option("bbf", None, With, Unsupported(BURST_BUFFER)),
    option("begin", Some('b'), With, Same("--begin")),
    option("chdir", Some('D'), With, Same("--chdir")),
    option("cluster-constraint", None, With, Unsupported(CLUSTER)),
    option("clusters", Some('M'), With, Unsupported(CLUSTER)),
    option("comment", None, With, Ignored),
    option("constraint", Some('C'), With, Same("--constraint")),
    option("container", None, With, Unsupported("start the container in the script")),
    option("contiguous", None, Without, Unsupported(NODES)),
    option("core-spec", Some('S'), With, Unsupported(NODES)),
    option("cores-per-socket", None, With, Unsupported(NODES)),
    option("cpu-freq", None, With, Unsupported("processors run as their cluster has them run")),
    option("cpus-per-gpu", None, With, Unsupported(GPUS)),
    option("cpus-per-task", Some('c'), With, Size(Part::ProcsPerTask)),
    option("deadline", None, With, Same("--deadline")),
    option("delay-boot", None, With, Unsupported(NODES)),
    option("dependency", Some('d'), With, Unsupported(LATER)),
    option("distribution", Some('m'), With, Unsupported(NODES)),
    option("error", Some('e'), With, Noted(OUTPUT)),
    option("exclude", Some('x'), With, Unsupported(NODES)),
    option("exclusive", None, Optional, Exclusive),
    option("export", None, With, Export),
    option("export-file", None, With, Unsupported(VARIABLES)),
    option("extra", None, With, Ignored),
    option("extra-node-info", Some('B'), With, Unsupported(NODES)),
    option("get-user-env", None, Optional, Unsupported(VARIABLES)),
    option("gid", None, With, Unsupported(USER)),
    option("gpu-bind", None, With, Unsupported(GPUS)),
    option("gpu-freq", None, With, Unsupported(GPUS)),
    option("gpus", Some('G'), With, Same("--gpus")),
    option("gpus-per-node", None, With, Size(Part::GpusPerNode)),
    option("gpus-per-socket", None, With, Unsupported(GPUS)),
    option("gpus-per-task", None, With, Size(Part::GpusPerTask)),
    option("gres", None, With, Size(Part::Gres)),
    option("gres-flags", None, With, Unsupported(GPUS)),
    option("hint", None, With, Unsupported(SIZE)),
    option("hold", Some('H'), Without, Unsupported("--begin, or submit it when it may start")),
    option("input", Some('i'), With, Same("--stdin")),
    option("job-name", Some('J'), With, Same("--job-name")),
    option("kill-on-invalid-dep", None, With, Ignored),
    option("licenses", Some('L'), With, Same("--licenses")),
    option("mail-type", None, With, Ignored),
    option("mail-user", None, With, Ignored),
    option("mcs-label", None, With, Unsupported(CHOICE)),
    option("mem", None, With, Size(Part::MemoryPerNode)),
    option("mem-bind", None, With, Unsupported(MEMORY)),
    option("mem-per-cpu", None, With, Memory("--mem-per-proc")),
    option("mem-per-gpu", None, With, Unsupported(MEMORY)),
    option("mincpus", None, With, Unsupported(NODES)),
    option("network", None, With, Unsupported(NODES)),
    option("nice", None, Optional, Nice),
    option("no-kill", Some('k'), Optional, Unsupported("--requeue runs it again after a node failed")),
    option("no-requeue", None, Without, Always("--requeue=0")),
    option("nodefile", Some('F'), With, Unsupported(NODES)),
    option("nodelist", Some('w'), With, Unsupported(CLUSTER)),
    option("nodes", Some('N'), With, Size(Part::Nodes)),
    option("ntasks", Some('n'), With, Size(Part::Tasks)),
    option("ntasks-per-core", None, With, Unsupported(SIZE)),
    option("ntasks-per-gpu", None, With, Unsupported(GPUS)),
    option("ntasks-per-node", None, With, Size(Part::TasksPerNode)),
    option("ntasks-per-socket", None, With, Unsupported(SIZE)),
    option("open-mode", None, With, Ignored),
    option("output", Some('o'), With, Noted(OUTPUT)),
    option("overcommit", Some('O'), Without, Unsupported(SIZE)),
    option("oversubscribe", Some('s'), Without, Ignored),
    option("parsable", None, Without, Ignored),
    option("partition", Some('p'), With, Same("--partition")),
    option("power", None, With, Unsupported("processors run as their cluster has them run")),
    option("prefer", None, With, Ignored),
    option("priority", None, With, Unsupported("the queue order of each cluster decides")),
    option("profile", None, With, Ignored),
    option("propagate", None, Optional, Unsupported("`ulimit` in the script sets its limits")),
    option("qos", Some('q'), With, Same("--qos")),
    option("quiet", Some('Q'), Without, Ignored),
    option("reboot", None, Without, Unsupported(NODES)),
    option("requeue", None, Without, Always("--requeue=5")),
    option("reservation", None, With, Unsupported(CHOICE)),
    option("segment", None, With, Unsupported(NODES)),
    option("signal", None, With, Unsupported("a job gets SIGTERM at its walltime, and SIGKILL later")),
    option("sockets-per-node", None, With, Unsupported(NODES)),
    option("spread-job", None, Without, Unsupported(NODES)),
    option("switches", None, With, Unsupported(NODES)),
    option(
        "test-only",
        None,
        Without,
        Unsupported("`pliant submit --dry-run` prints the estimates of all clusters"),
    ),
    option("thread-spec", None, With, Unsupported(NODES)),
    option("threads-per-core", None, With, Unsupported(SIZE)),
    option("time", Some('t'), With, Time),
    option("time-min", None, With, Ignored),
    option("tmp", None, With, Memory("--scratch")),
    option("tres-per-task", None, With, Unsupported(SIZE)),
    option("uid", None, With, Unsupported(USER)),
    option("use-min-nodes", None, Without, Unsupported(NODES)),
    option("verbose", Some('v'), Without, Ignored),
    option("wait", Some('W'), Without, Same("--wait")),
    option("wait-all-nodes", None, With, Ignored),
    option("wckey", None, With, Ignored),
];

/// What to do about an option of `sbatch` that `pliant submit` does not have: what means the same, or why nothing does. None for words that
/// are no options of `sbatch`.
pub(crate) fn instead(given: &str) -> Option<String> {
    let is_given = |option: &&SbatchOption| match given.strip_prefix("--") {
        Some(long) => option.long == long,
        None => option.short.is_some_and(|letter| given == format!("-{letter}")),
    };
    let option = OPTIONS.iter().find(is_given)?;
    let same = |option: &str| format!("`{option}` does that");
    Some(match option.meaning {
        Meaning::Same(option) | Meaning::Memory(option) | Meaning::Always(option) => same(option),
        Meaning::Time => same("--time"),
        Meaning::Exclusive => same("--exclusive"),
        Meaning::Nice => same("--nice N"),
        Meaning::Export => same("--env NAME=VALUE"),
        Meaning::Size(part) => part.instead().to_owned(),
        Meaning::Ignored => "it changes nothing here: leave it out".to_owned(),
        Meaning::Noted(note) | Meaning::Unsupported(note) => note.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_option_has_one_entry_in_order() {
        assert!(OPTIONS.is_sorted_by(|a, b| a.long < b.long), "not in order");
        let short: Vec<char> = OPTIONS.iter().filter_map(|option| option.short).collect();
        assert_eq!(short.iter().collect::<BTreeSet<_>>().len(), short.len(), "a letter twice");
    }

    #[test]
    fn the_page_lists_each_option_where_it_belongs() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/files/scripts.md");
        let page = std::fs::read_to_string(page).unwrap();
        let listed = |heading: &str| -> Vec<String> {
            let section = page.split(heading).nth(1).and_then(|rest| rest.split("\n## ").next());
            let rows = section.unwrap_or_else(|| panic!("no section {heading}")).lines();
            let cells = rows.filter_map(|row| row.strip_prefix('|')?.split('|').next());
            let names = cells.flat_map(|cell| {
                cell.split('`').filter(|word| word.starts_with("--") && !word.ends_with('-'))
            });
            let mut names: Vec<String> = names.map(str::to_owned).collect();
            names.sort();
            names
        };
        let check = |heading: &str, belongs: fn(Meaning) -> bool| {
            let options = OPTIONS.iter().filter(|option| belongs(option.meaning));
            let expected: Vec<String> = options.map(|option| format!("--{}", option.long)).collect();
            assert_eq!(listed(heading), expected, "{heading}");
        };
        check("\n## What is an error\n", |meaning| matches!(meaning, Unsupported(_)));
        check("\n## What is ignored\n", |meaning| meaning == Ignored);
        check("\n## What is understood\n", |meaning| !matches!(meaning, Ignored | Unsupported(_)));
    }
}
