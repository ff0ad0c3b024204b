//! What a job needs besides processors, as options of sbatch.

use std::ffi::OsString;

use pliant_control::listing::CoreLayout;
use pliant_model::{GpuCount, Gpus, Mebibytes, Procs, Resources};

/// Resources of a job, as options.
pub(super) struct ResourceOptions {
    /// Number of nodes, and whether these are its alone.
    pub(super) shape: CoreLayout,
    /// Number of tasks.
    pub(super) tasks: u32,
    options: Vec<String>,
}

impl ResourceOptions {
    /// `shape` is what it needs of cores, on nodes of at most `node_cores`.
    pub(super) fn new(shape: CoreLayout, resources: Option<&Resources>, node_cores: u32) -> ResourceOptions {
        let Some(resources) = resources else {
            return ResourceOptions { shape, tasks: shape.cores, options: Vec::new() };
        };
        let procs = Procs(shape.cores);
        let shape = CoreLayout {
            nodes: resources.nodes.or(shape.nodes),
            exclusive: resources.exclusive || shape.exclusive,
            ..shape
        };
        let (tasks, task) = (resources.tasks(procs), resources.task_procs().0);
        let mut options = Vec::new();
        options.extend(resources.procs_per_task.map(|each| format!("--cpus-per-task={each}")));
        let mut per_node = resources.procs_per_node.map(|most| (most.0 / task).max(1));
        if shape.exclusive {
            // For each core it would be for all cores of the node, also those without a process.
            if let Some(memory) = resources.memory_of_whole_node(procs, Procs(node_cores)) {
                options.push(format!("--mem={}M", memory.0));
                per_node = per_node.or(shape.nodes.map(|nodes| tasks.div_ceil(nodes.max(1))));
            }
        } else if let Some(memory) = resources.memory {
            options.push(format!("--mem-per-cpu={}M", memory.per_proc(procs).0));
        }
        options.extend(per_node.map(|most| format!("--ntasks-per-node={most}")));
        options.extend(resources.gpus.as_ref().map(|gpus| self::gpus(gpus, shape.nodes, task)));
        if !resources.licences.is_empty() {
            let licence = |(name, count): (&String, &u32)| format!("{name}:{count}");
            let licences: Vec<String> = resources.licences.iter().map(licence).collect();
            options.push(format!("--licenses={}", licences.join(",")));
        }
        if resources.scratch > Mebibytes::ZERO {
            options.push(format!("--tmp={}M", resources.scratch.0));
        }
        options.extend(resources.constraint.as_ref().map(|features| format!("--constraint={features}")));
        ResourceOptions { shape, tasks, options }
    }

    /// The options.
    pub(super) fn words(self) -> impl Iterator<Item = OsString> {
        self.options.into_iter().map(OsString::from)
    }
}

/// `--gpus=a100:2`. With a fixed number of nodes each has equally many.
fn gpus(Gpus { count, kind }: &Gpus, nodes: Option<u32>, task_procs: u32) -> String {
    let (option, count) = match (count, nodes) {
        (GpuCount::PerProc(each), _) => ("gpus-per-task", each.saturating_mul(task_procs)),
        (GpuCount::Total(all), Some(nodes)) => ("gpus-per-node", all.div_ceil(nodes.max(1))),
        (GpuCount::Total(all), None) => ("gpus", *all),
    };
    let kind = kind.as_ref().map_or(String::new(), |kind| format!("{kind}:"));
    format!("--{option}={kind}{count}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pliant_model::{Constraint, Memory};

    use super::*;

    fn of(cores: u32) -> CoreLayout {
        CoreLayout { cores, ..CoreLayout::default() }
    }

    #[track_caller]
    fn check(resources: &Resources, cores: u32, expected: &[&str]) {
        let options = ResourceOptions::new(of(cores), Some(resources), 4).words();
        let words: Vec<String> = options.map(|word| word.into_string().unwrap()).collect();
        assert_eq!(words, expected, "{resources} on {cores}");
    }

    #[test]
    fn memory_is_asked_for_each_core_and_of_whole_nodes_for_each_node() {
        let total = |mib| Resources { memory: Some(Memory::Total(Mebibytes(mib))), ..Resources::default() };
        check(&total(1000), 3, &["--mem-per-cpu=334M"]);
        check(&Resources { exclusive: true, ..total(800) }, 8, &["--mem=400M"]);
        check(
            &Resources { exclusive: true, nodes: Some(4), ..total(800) },
            8,
            &["--mem=200M", "--ntasks-per-node=2"],
        );
    }

    #[test]
    fn tasks_of_several_processors_are_named() {
        let of_tasks = |task| Resources { procs_per_task: Some(Procs(task)), ..Resources::default() };
        check(&of_tasks(4), 8, &["--cpus-per-task=4"]);
        check(&of_tasks(1), 8, &["--cpus-per-task=1"]);
        let on_nodes = Resources { nodes: Some(2), procs_per_node: Some(Procs(3)), ..of_tasks(3) };
        check(&on_nodes, 6, &["--cpus-per-task=3", "--ntasks-per-node=1"]);
        let gpus = Some(Gpus { count: GpuCount::PerProc(1), kind: None });
        check(&Resources { gpus, ..of_tasks(2) }, 4, &["--cpus-per-task=2", "--gpus-per-task=2"]);
        let memory = Some(Memory::PerProc(Mebibytes(100)));
        // Of a node with four processors it has one task of three.
        let whole = Resources { memory, exclusive: true, ..of_tasks(3) };
        check(&whole, 6, &["--cpus-per-task=3", "--mem=300M"]);
        let tasks = |resources| ResourceOptions::new(of(8), Some(resources), 4).tasks;
        assert_eq!((tasks(&of_tasks(4)), tasks(&Resources::default())), (2, 8));
    }

    #[test]
    fn gpus_licences_and_features_have_options_of_their_own() {
        let gpus = Some(Gpus { count: GpuCount::Total(3), kind: Some("a100".to_owned()) });
        let resources = Resources {
            gpus,
            constraint: Some(Constraint::All(vec!["fast".to_owned(), "ssd".to_owned()])),
            licences: BTreeMap::from([("ansys".to_owned(), 2), ("matlab".to_owned(), 1)]),
            scratch: Mebibytes(2048),
            ..Resources::default()
        };
        let rest = ["--licenses=ansys:2,matlab:1", "--tmp=2048M", "--constraint=fast&ssd"];
        check(&resources, 2, &[&["--gpus=a100:3"], &rest[..]].concat());
        let on_nodes = Resources { nodes: Some(2), ..resources.clone() };
        check(&on_nodes, 2, &[&["--gpus-per-node=a100:2"], &rest[..]].concat());
        let gpus = Some(Gpus { count: GpuCount::PerProc(1), kind: None });
        check(&Resources { gpus, ..Resources::default() }, 2, &["--gpus-per-task=1"]);
    }
}
