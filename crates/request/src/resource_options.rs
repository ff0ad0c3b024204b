//! The options of `pliant submit` about what a job needs besides processors, and how its processors may be spread over nodes.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::Args;
use pliant_model::{
    BatchOptions, Constraint, GpuCount, Gpus, Mebibytes, Memory, Procs, ResourceTextError, Resources,
    Speedup, parse_amount, parse_licences, parse_word,
};
use pliant_site::services::SpeedupSpec;
use pliant_wire::bounds;

use crate::error::RequestError;
use crate::numbers::whole;

/// Their names as fields.
pub const RESOURCE_OPTIONS: [&str; 14] = [
    "mem",
    "mem_per_proc",
    "gpus",
    "gpus_per_proc",
    "scratch",
    "nodes",
    "procs_per_node",
    "cpus_per_task",
    "exclusive",
    "constraint",
    "licenses",
    "partition",
    "account",
    "qos",
];

/// Options about resources, on the command line or in a `#PLIANT` line.
#[derive(Args, Clone, PartialEq, Default, Debug)]
pub struct ResourceOptions {
    /// The memory of the script in all, such as 512M or 64G: on more processors each has less.
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount, conflicts_with = "mem_per_proc")]
    mem: Option<Mebibytes>,
    /// The memory of the script for each of its processors.
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount)]
    mem_per_proc: Option<Mebibytes>,
    /// The GPUs of the script in all, such as 2 or a100:2. With --nodes each node has equally many.
    #[arg(long, value_name = "[KIND:]N", value_parser = total_gpus, conflicts_with = "gpus_per_proc")]
    gpus: Option<Gpus>,
    /// The GPUs of the script for each of its processors.
    #[arg(long, value_name = "[KIND:]N", value_parser = gpus_per_proc)]
    gpus_per_proc: Option<Gpus>,
    /// The local disk space of the script on each of its nodes.
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount)]
    scratch: Option<Mebibytes>,
    /// The exact number of nodes of the script [default: any].
    #[arg(long, value_name = "N", value_parser = whole(bounds::PROCS))]
    nodes: Option<u32>,
    /// The most processors of the script on each node.
    #[arg(long, value_name = "N", value_parser = whole(bounds::PROCS))]
    procs_per_node: Option<u32>,
    /// The processors of each task of the script, all on one node: the number of processors must be a multiple of it [default: 1].
    #[arg(long, value_name = "N", value_parser = whole(bounds::PROCS))]
    cpus_per_task: Option<u32>,
    /// Runs the script on nodes without other jobs.
    #[arg(long)]
    exclusive: bool,
    /// The features of its nodes: a&b is both, a|b at least one.
    #[arg(long, value_name = "FEATURES", value_parser = Constraint::from_str)]
    constraint: Option<Constraint>,
    /// The licences of the script, such as matlab or matlab:2,ansys.
    #[arg(long, value_name = "NAME[:N],...", value_parser = parse_licences)]
    licenses: Option<BTreeMap<String, u32>>,
    /// The partitions in front of Slurm, where the operator allows them: it runs where it completes first, and is not moved.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_word)]
    partition: Option<Vec<String>>,
    /// The account that is charged in front of Slurm, where the operator allows it.
    #[arg(long, value_name = "NAME", value_parser = parse_word)]
    account: Option<String>,
    /// The quality of service in front of Slurm, where the operator allows it.
    #[arg(long, value_name = "NAME", value_parser = parse_word)]
    qos: Option<String>,
}

/// The number and the shape of tasks, as far as options say it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TaskShape {
    /// The fixed number of processors.
    pub procs: Option<u32>,
    /// True if the number of processors may change.
    pub is_moldable: bool,
    /// The number of nodes.
    pub nodes: Option<u32>,
    /// The most processors on a node.
    pub procs_per_node: Option<u32>,
    /// The processors of each task.
    pub procs_per_task: Option<u32>,
}

fn total_gpus(text: &str) -> Result<Gpus, ResourceTextError> {
    Gpus::parse(text, GpuCount::Total)
}

fn gpus_per_proc(text: &str) -> Result<Gpus, ResourceTextError> {
    Gpus::parse(text, GpuCount::PerProc)
}

impl ResourceOptions {
    /// These options, with those of `weaker` where these say nothing.
    pub fn over(self, weaker: ResourceOptions) -> ResourceOptions {
        // Each is one thing, in either option.
        let (mem, mem_per_proc) = match (self.mem, self.mem_per_proc) {
            (None, None) => (weaker.mem, weaker.mem_per_proc),
            own => own,
        };
        let (gpus, gpus_per_proc) = match (self.gpus, self.gpus_per_proc) {
            (None, None) => (weaker.gpus, weaker.gpus_per_proc),
            own => own,
        };
        // A task is on one node.
        let task = self.cpus_per_task.unwrap_or(1);
        let procs_per_node = weaker.procs_per_node.filter(|most| *most >= task);
        ResourceOptions {
            mem,
            mem_per_proc,
            gpus,
            gpus_per_proc,
            scratch: self.scratch.or(weaker.scratch),
            nodes: self.nodes.or(weaker.nodes),
            procs_per_node: self.procs_per_node.or(procs_per_node),
            cpus_per_task: self.cpus_per_task.or(weaker.cpus_per_task),
            exclusive: self.exclusive || weaker.exclusive,
            constraint: self.constraint.or(weaker.constraint),
            licenses: self.licenses.or(weaker.licenses),
            partition: self.partition.or(weaker.partition),
            account: self.account.or(weaker.account),
            qos: self.qos.or(weaker.qos),
        }
    }

    /// The first of these options that is given.
    pub fn first(&self) -> Option<&'static str> {
        let options = [
            ("--mem", self.mem.is_some()),
            ("--mem-per-proc", self.mem_per_proc.is_some()),
            ("--gpus", self.gpus.is_some()),
            ("--gpus-per-proc", self.gpus_per_proc.is_some()),
            ("--scratch", self.scratch.is_some()),
            ("--nodes", self.nodes.is_some()),
            ("--procs-per-node", self.procs_per_node.is_some()),
            ("--cpus-per-task", self.cpus_per_task.is_some()),
            ("--exclusive", self.exclusive),
            ("--constraint", self.constraint.is_some()),
            ("--licenses", self.licenses.is_some()),
            ("--partition", self.partition.is_some()),
            ("--account", self.account.is_some()),
            ("--qos", self.qos.is_some()),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// The same, on fewer nodes if there are fewer tasks, and without what contradicts a number of processors that wins over these options, as do those of `stronger`.
    #[must_use]
    pub fn within(self, procs: u32, stronger: &ResourceOptions) -> ResourceOptions {
        let cpus_per_task = self.cpus_per_task.filter(|each| procs.is_multiple_of(*each));
        let tasks = procs / stronger.cpus_per_task.or(cpus_per_task).unwrap_or(1);
        let nodes = self.nodes.map(|nodes| nodes.min(tasks.max(1)));
        let on_nodes = stronger.nodes.or(nodes).unwrap_or(u32::MAX);
        let procs_per_node = self.procs_per_node.filter(|most| most.saturating_mul(on_nodes) >= procs);
        ResourceOptions { cpus_per_task, nodes, procs_per_node, ..self }
    }

    /// What these options say about the shape of tasks.
    pub fn shape(&self) -> TaskShape {
        let ResourceOptions { nodes, procs_per_node, cpus_per_task: procs_per_task, .. } = *self;
        TaskShape { nodes, procs_per_node, procs_per_task, ..TaskShape::default() }
    }

    /// True if these options say what an option of `sbatch` says as well.
    pub fn replaces(&self, long: &str) -> bool {
        match long {
            "mem" | "mem-per-cpu" => self.mem.is_some() || self.mem_per_proc.is_some(),
            "gpus" | "gpus-per-node" | "gpus-per-task" | "gres" => {
                self.gpus.is_some() || self.gpus_per_proc.is_some()
            }
            "tmp" => self.scratch.is_some(),
            "nodes" => self.nodes.is_some(),
            "ntasks-per-node" => self.procs_per_node.is_some(),
            "cpus-per-task" => self.cpus_per_task.is_some(),
            "exclusive" => self.exclusive,
            "constraint" => self.constraint.is_some(),
            "licenses" => self.licenses.is_some(),
            "partition" => self.partition.is_some(),
            "account" => self.account.is_some(),
            "qos" => self.qos.is_some(),
            _ => false,
        }
    }

    /// The number of nodes, if one is given.
    pub fn nodes(&self) -> Option<u32> {
        self.nodes
    }

    /// The same without the processors of tasks.
    #[must_use]
    pub fn without_tasks(self) -> ResourceOptions {
        ResourceOptions { cpus_per_task: None, ..self }
    }

    /// The processors of each task, if that is given.
    pub fn cpus_per_task(&self) -> Option<u32> {
        self.cpus_per_task
    }

    /// What a job of that size needs; none if nothing is asked for.
    pub fn resources(
        &self,
        SpeedupSpec { speedup, procs }: &SpeedupSpec,
    ) -> Result<Option<Resources>, RequestError> {
        let is_moldable = !matches!(speedup, Speedup::Rigid);
        let most = if is_moldable { Procs(u32::MAX) } else { *procs };
        let memory = self.mem.map(Memory::Total).or(self.mem_per_proc.map(Memory::PerProc));
        let resources = Resources {
            memory,
            gpus: self.gpus.clone().or_else(|| self.gpus_per_proc.clone()),
            scratch: self.scratch.unwrap_or_default(),
            nodes: self.nodes,
            procs_per_node: self.procs_per_node.map(Procs),
            procs_per_task: self.cpus_per_task.map(Procs),
            exclusive: self.exclusive,
            constraint: self.constraint.clone(),
            licences: self.licenses.clone().unwrap_or_default(),
            batch: BatchOptions {
                partitions: self.partition.clone().unwrap_or_default(),
                account: self.account.clone(),
                qos: self.qos.clone(),
            },
        };
        let task = resources.task_procs().0;
        if resources.undivided(speedup, *procs).is_some() {
            let (found, hint) = match is_moldable {
                true => (
                    "a number that may change (--speedup)".to_owned(),
                    "--rigid N gives a fixed number".to_owned(),
                ),
                false => {
                    let next = u64::from(procs.0.div_ceil(task)) * u64::from(task);
                    (procs.to_string(), format!("--rigid {next}: the number of tasks times --cpus-per-task"))
                }
            };
            let expected = format!("expected a fixed number of processors that is a multiple of {task}");
            return Err(RequestError::input(format!("--cpus-per-task: {expected}, found {found}")).hint(hint));
        }
        if let Some(most_on_node) = resources.procs_per_node.filter(|most| most.0 < task) {
            let expected = format!("expected at least the {task} processors of one task");
            return Err(RequestError::input(format!("--procs-per-node: {expected}, found {most_on_node}"))
                .hint(format!("--procs-per-node {task} or more: a task is on one node")));
        }
        if let Some(nodes) = resources.nodes_beyond(most) {
            let (problem, hint) = match task {
                1 => (format!("processors ({most})"), "processor"),
                _ => (format!("tasks ({})", resources.tasks(most)), "task"),
            };
            let problem = format!("--nodes: expected at most as many nodes as {problem}, found {nodes}");
            let procs = u64::from(nodes) * u64::from(task);
            return Err(
                RequestError::input(problem).hint(format!("--rigid {procs}: one {hint} on each node"))
            );
        }
        Ok((resources != Resources::default()).then_some(resources))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ResourceOptions,
    }

    fn options(line: &str) -> Result<ResourceOptions, String> {
        let words = std::iter::once("submit").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.options).map_err(|error| error.to_string())
    }

    fn rigid(procs: u32) -> SpeedupSpec {
        SpeedupSpec { speedup: Speedup::Rigid, procs: Procs(procs) }
    }

    #[test]
    fn options_say_what_a_job_needs() {
        let check = |line: &str, expected: &str| {
            let resources = options(line).unwrap().resources(&rigid(8)).unwrap();
            assert_eq!(
                resources.map(|resources| resources.to_string()).unwrap_or_default(),
                expected,
                "{line}"
            );
        };
        check("", "");
        check("--mem 64G --gpus a100:2", "64G of memory, 2 a100 GPUs");
        check("--mem-per-proc 512M --gpus-per-proc 1", "512M per processor, 1 GPU per processor");
        check(
            "--nodes 2 --procs-per-node 4 --exclusive",
            "2 nodes, at most 4 processors per node, whole nodes",
        );
        check("--constraint fast&ib --scratch 1T", "1T of local disk per node, nodes with fast&ib");
        check("--constraint a|b", "nodes with a|b");
        check("--partition gpu,long --account p1 --qos high", "partition gpu or long, account p1, QoS high");
        check("--licenses matlab:2,ansys", "1 of licence ansys, 2 of licence matlab");
    }

    #[test]
    fn options_win_over_weaker_ones() {
        let check = |stronger: &str, weaker: &str, expected: &str| {
            let found = options(stronger).unwrap().over(options(weaker).unwrap());
            assert_eq!(found, options(expected).unwrap(), "{stronger} over {weaker}");
        };
        check("--mem 1G", "--mem-per-proc 1G --gpus 1", "--mem 1G --gpus 1");
        check("--gpus-per-proc 2", "--gpus 1 --nodes 2", "--gpus-per-proc 2 --nodes 2");
        check("", "--exclusive --licenses a", "--exclusive --licenses a");
        check("--gpus 1", "--mem 1G --nodes 2", "--mem 1G --gpus 1 --nodes 2");
        check("--cpus-per-task 4", "--procs-per-node 2 --nodes 2", "--cpus-per-task 4 --nodes 2");
    }

    #[test]
    fn what_cannot_be_needed_is_an_error() {
        let check = |line: &str, expected: &str| {
            let error = options(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        };
        check("--mem 0", "expected an amount above 0, found `0`");
        check("--mem much", "expected an amount such as 512M, 64G or 1T");
        check("--gpus 0", "expected a whole number above 0, found `0`");
        check("--gpus a/b:1", "before the number, found `a/b`");
        check("--constraint a&b|c", "joined by & or by |, found both");
        check("--constraint [a*2]", "expected a name of 1 to 64");
        check("--licenses a,a", "expected each licence once, found `a` twice");
        check("--mem 1G --mem-per-proc 1G", "cannot be used with");
        let failure = options("--nodes 9").unwrap().resources(&rigid(8)).unwrap_err();
        assert_eq!(failure.message(), "--nodes: expected at most as many nodes as processors (8), found 9");
    }

    #[test]
    fn a_job_has_whole_tasks() {
        let check = |line: &str, size: SpeedupSpec, expected: Result<&str, &str>| {
            let found = options(line).unwrap().resources(&size);
            let found = found.map(|found| found.map(|found| found.to_string()).unwrap_or_default());
            let found = found.map_err(|failure| failure.message().to_owned());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{line}");
        };
        check("--cpus-per-task 4", rigid(8), Ok("4 processors per task"));
        check("--cpus-per-task 1", rigid(7), Ok("1 processor per task"));
        check(
            "--cpus-per-task 3",
            rigid(8),
            Err("--cpus-per-task: expected a fixed number of processors that is a multiple of 3, found 8"),
        );
        let moldable = SpeedupSpec { speedup: Speedup::Folding, procs: Procs(8) };
        check(
            "--cpus-per-task 2",
            moldable,
            Err(
                "--cpus-per-task: expected a fixed number of processors that is a multiple of 2, found a number \
                 that may change (--speedup)",
            ),
        );
        check(
            "--cpus-per-task 4 --procs-per-node 3",
            rigid(8),
            Err("--procs-per-node: expected at least the 4 processors of one task, found 3"),
        );
        check(
            "--cpus-per-task 4 --nodes 3",
            rigid(8),
            Err("--nodes: expected at most as many nodes as tasks (2), found 3"),
        );
    }
}
