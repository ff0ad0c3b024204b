//! The size that `#SBATCH` lines give: tasks, processors, nodes, and what Slurm counts for each node or task.
//!
//! Options of the command line and of `#PLIANT` lines are joined with them option by option, as `sbatch` joins its own with those of a script.
//! What is left of the lines and contradicts these options does not count.

use pliant_wire::bounds;

use super::sbatch::TranslatedOption;
use crate::resource_options::TaskShape;
use crate::sbatch_options::Part;

/// A value, with where it is.
#[derive(Clone, PartialEq, Debug)]
struct At<T> {
    line: usize,
    name: String,
    value: T,
}

/// GPUs, of a kind if one is named.
type Gpus = (Option<String>, u64);

/// All parts of the size.
#[derive(PartialEq, Default, Debug)]
pub(super) struct Size {
    tasks: Option<At<u64>>,
    procs_per_task: Option<At<u64>>,
    nodes: Option<At<u64>>,
    tasks_per_node: Option<At<u64>>,
    memory_mib: Option<At<u64>>,
    gpus_per_node: Option<At<Gpus>>,
    gpus_per_task: Option<At<Gpus>>,
}

impl Size {
    /// Takes a part of the size from an option of a line; a later line wins.
    pub(super) fn take(&mut self, part: Part, line: usize, name: &str, text: &str) -> Result<(), String> {
        let name = name.to_owned();
        match part {
            Part::Tasks => self.tasks = Some(At { line, name, value: count(text)? }),
            Part::ProcsPerTask => self.procs_per_task = Some(At { line, name, value: count(text)? }),
            Part::Nodes => self.nodes = Some(At { line, name, value: nodes(text)? }),
            Part::TasksPerNode => self.tasks_per_node = Some(At { line, name, value: count(text)? }),
            Part::MemoryPerNode => self.memory_mib = Some(At { line, name, value: memory_mib(text)? }),
            Part::GpusPerNode => self.gpus_per_node = Some(At { line, name, value: gpus(text)? }),
            Part::Gres => self.gpus_per_node = Some(At { line, name, value: gres(text)? }),
            Part::GpusPerTask => self.gpus_per_task = Some(At { line, name, value: gpus(text)? }),
        }
        Ok(())
    }

    /// The same without what contradicts stronger options about tasks, whose values are not among these.
    fn within(mut self, stronger: &TaskShape) -> Size {
        let value = |at: &Option<At<u64>>| at.as_ref().map(|at| at.value);
        if let Some(procs) = stronger.procs.map(u64::from) {
            self.procs_per_task = self.procs_per_task.filter(|each| procs.is_multiple_of(each.value));
            let tasks = procs / self.procs_of_task(stronger);
            // As in Slurm, no node is without a task.
            self.nodes = self.nodes.map(|nodes| At { value: nodes.value.min(tasks.max(1)), ..nodes });
            let nodes = self.nodes_with(stronger).unwrap_or(u64::MAX);
            self.tasks_per_node =
                self.tasks_per_node.filter(|each| each.value.saturating_mul(nodes) >= tasks);
            self.tasks = None;
            return self;
        }
        let Some(tasks) = value(&self.tasks) else { return self };
        let most = |size: &Size| {
            let each = size.tasks_on_node(stronger).unwrap_or(u64::MAX);
            size.nodes_with(stronger).map_or(u64::MAX, |nodes| nodes.saturating_mul(each))
        };
        // As in Slurm the number of tasks counts more than how many each node has.
        if stronger.nodes.is_some() && most(&self) < tasks {
            self.tasks_per_node = None;
        }
        if stronger.procs_per_node.is_some() && most(&self) < tasks {
            self.nodes = None;
        }
        if most(&self) < tasks || stronger.nodes.is_some_and(|nodes| u64::from(nodes) > tasks) {
            self.tasks = None;
        }
        self
    }

    fn procs_of_task(&self, stronger: &TaskShape) -> u64 {
        let own = self.procs_per_task.as_ref().map(|each| each.value);
        stronger.procs_per_task.map(u64::from).or(own).unwrap_or(1)
    }

    fn nodes_with(&self, stronger: &TaskShape) -> Option<u64> {
        stronger.nodes.map(u64::from).or(self.nodes.as_ref().map(|nodes| nodes.value))
    }

    fn tasks_on_node(&self, stronger: &TaskShape) -> Option<u64> {
        let of_procs = |procs| (u64::from(procs) / self.procs_of_task(stronger)).max(1);
        stronger.procs_per_node.map(of_procs).or(self.tasks_per_node.as_ref().map(|each| each.value))
    }

    /// The options of `pliant submit` that say the same, with `stronger` ones that are given already; a problem names its line and option.
    pub(super) fn translated(
        self,
        stronger: &TaskShape,
    ) -> Result<Vec<TranslatedOption>, Vec<(usize, String, String)>> {
        let is_one_task =
            self.tasks.as_ref().map_or(1, |tasks| tasks.value) == 1 && self.tasks_per_node.is_none();
        // A size that may change has no tasks.
        let own = if stronger.is_moldable { self } else { self.within(stronger) };
        let (known_nodes, each) = (own.nodes_with(stronger), own.procs_of_task(stronger));
        let nodes = known_nodes.unwrap_or(1);
        let on_nodes = nodes.saturating_mul(own.tasks_on_node(stronger).unwrap_or(1));
        let tasks = own.tasks.as_ref().map_or(on_nodes, |tasks| tasks.value);
        let tasks = stronger.procs.map_or(tasks, |procs| u64::from(procs) / each);
        let procs = tasks.saturating_mul(each);
        let (mut options, mut problems) = (Vec::new(), Vec::new());
        let place = |at: &At<u64>| (at.line, at.name.clone());
        let sized = [&own.tasks, &own.procs_per_task, &own.nodes, &own.tasks_per_node];
        if let Some((line, name)) = sized.into_iter().flatten().map(place).max() {
            let most = u64::from(*bounds::PROCS.end());
            match procs <= most {
                true => options.push(option(line, name, format!("--rigid={procs}"))),
                false => {
                    let problem = format!("expected at most {most} processors of all tasks, found {procs}");
                    problems.push((line, name, problem));
                }
            }
        }
        if let Some(At { line, name, value }) = &own.nodes {
            if *value > tasks {
                let problem = format!("expected at most as many nodes as tasks ({tasks}), found {value}");
                problems.push((*line, name.clone(), problem));
            }
            options.push(option(*line, name.clone(), format!("--nodes={value}")));
        }
        if let Some(At { line, name, value }) = &own.tasks_per_node {
            options.push(option(
                *line,
                name.clone(),
                format!("--procs-per-node={}", value.saturating_mul(each)),
            ));
        }
        if let Some(At { line, name, value }) = &own.procs_per_task {
            options.push(option(*line, name.clone(), format!("--cpus-per-task={value}")));
        }
        // One task is on one node, also if stronger options give it more processors.
        let known_nodes = known_nodes.is_some() || tasks == 1 || is_one_task;
        let mut for_each_node =
            |line: usize, name: String, word: Box<dyn FnOnce(u64) -> String>| match known_nodes {
                true => options.push(option(line, name, word(nodes))),
                false => {
                    let problem =
                        "is for each node: expected the number of nodes (--nodes) of several tasks as well";
                    problems.push((line, name, problem.to_owned()));
                }
            };
        if let Some(At { line, name, value }) = own.memory_mib {
            for_each_node(
                line,
                name,
                Box::new(move |nodes| format!("--mem={}M", value.saturating_mul(nodes))),
            );
        }
        if let Some(At { line, name, value: (kind, count) }) = own.gpus_per_node {
            for_each_node(line, name, Box::new(move |nodes| gpus_word(kind, count.saturating_mul(nodes))));
        }
        if let Some(At { line, name, value: (kind, count) }) = own.gpus_per_task {
            options.push(option(line, name, gpus_word(kind, count.saturating_mul(tasks))));
        }
        if problems.is_empty() { Ok(options) } else { Err(problems) }
    }
}

fn option(line: usize, name: String, word: String) -> TranslatedOption {
    TranslatedOption { line, name, words: vec![word] }
}

fn gpus_word(kind: Option<String>, count: u64) -> String {
    let kind = kind.map_or(String::new(), |kind| format!("{kind}:"));
    format!("--gpus={kind}{count}")
}

fn count(text: &str) -> Result<u64, String> {
    let count = text.parse::<u32>().ok().filter(|count| bounds::PROCS.contains(count));
    let (least, most) = (bounds::PROCS.start(), bounds::PROCS.end());
    count
        .map(u64::from)
        .ok_or_else(|| format!("expected a whole number from {least} to {most}, found `{text}`"))
}

/// A number of nodes; a range only if both ends are the same.
fn nodes(text: &str) -> Result<u64, String> {
    match text.split_once('-') {
        Some((least, most)) if least != most => {
            Err(format!("expected one number of nodes, found the range `{text}`"))
        }
        Some((least, _)) => count(least),
        None => count(text),
    }
}

/// Memory in Slurm's units, in MiB: `G` and `GB` are the same.
pub(super) fn memory_mib(text: &str) -> Result<u64, String> {
    let amount = text.strip_suffix(['B', 'b']).filter(|amount| amount.ends_with(char::is_alphabetic));
    let amount = amount.unwrap_or(text);
    let (number, unit) = match amount.char_indices().last() {
        Some((end, unit)) if unit.is_ascii_alphabetic() => (&amount[..end], unit.to_ascii_uppercase()),
        _ => (amount, 'M'),
    };
    let number = number.parse::<u32>().ok().map(u64::from);
    let mib = number.and_then(|number| match unit {
        'K' => Some(number.div_ceil(1024)),
        'M' => Some(number),
        'G' => Some(number << 10),
        'T' => Some(number << 20),
        _ => None,
    });
    match mib {
        Some(0) => Err("expected an amount above 0; all memory of a node is that of --exclusive".to_owned()),
        Some(mib) => Ok(mib),
        None => Err(format!("expected a whole number of K, M, G or T, found `{text}`")),
    }
}

/// `2`, `a100:2`.
fn gpus(text: &str) -> Result<Gpus, String> {
    let (kind, number) = match text.rsplit_once(':') {
        Some((kind, number)) => (Some(kind.to_owned()), number),
        None => (None, text),
    };
    Ok((kind, count(number)?))
}

/// GPUs in a list of generic resources.
fn gres(text: &str) -> Result<Gpus, String> {
    let text = text.strip_prefix("gres/").unwrap_or(text);
    match text.strip_prefix("gpu") {
        Some("") => Ok((None, 1)),
        Some(rest) if rest.starts_with(':') && !rest.contains(',') => match &rest[1..] {
            kind if !kind.contains(':') && kind.parse::<u32>().is_err() => Ok((Some(kind.to_owned()), 1)),
            given => gpus(given),
        },
        _ => Err(format!("expected gpu, gpu:N or gpu:KIND:N alone, found `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(lines: &[(Part, &str)]) -> Result<String, String> {
        with(lines, TaskShape::default())
    }

    fn with(lines: &[(Part, &str)], stronger: TaskShape) -> Result<String, String> {
        let mut size = Size::default();
        for (line, (part, text)) in lines.iter().enumerate() {
            size.take(*part, line + 1, "--option", text)?;
        }
        let words = |options: Vec<TranslatedOption>| {
            options.into_iter().flat_map(|option| option.words).collect::<Vec<_>>().join(" ")
        };
        size.translated(&stronger).map(words).map_err(|problems| problems[0].2.clone())
    }

    #[test]
    fn sizes_are_translated_together() {
        use Part::*;
        let check = |lines: &[(Part, &str)], expected: &str| {
            assert_eq!(translated(lines).as_deref(), Ok(expected), "{lines:?}");
        };
        check(&[], "");
        check(&[(Tasks, "4"), (ProcsPerTask, "8")], "--rigid=32 --cpus-per-task=8");
        check(
            &[(Nodes, "2"), (TasksPerNode, "1"), (ProcsPerTask, "3")],
            "--rigid=6 --nodes=2 --procs-per-node=3 --cpus-per-task=3",
        );
        check(&[(Nodes, "2"), (TasksPerNode, "16")], "--rigid=32 --nodes=2 --procs-per-node=16");
        check(
            &[(Nodes, "1-1"), (ProcsPerTask, "8"), (MemoryPerNode, "16G")],
            "--rigid=8 --nodes=1 --cpus-per-task=8 --mem=16384M",
        );
        check(&[(Nodes, "2"), (MemoryPerNode, "4000")], "--rigid=2 --nodes=2 --mem=8000M");
        check(
            &[(ProcsPerTask, "4"), (MemoryPerNode, "1500K"), (Gres, "gpu:a100:2")],
            "--rigid=4 --cpus-per-task=4 --mem=2M --gpus=a100:2",
        );
        check(&[(Tasks, "4"), (GpusPerTask, "1")], "--rigid=4 --gpus=4");
        check(&[(Nodes, "2"), (Tasks, "4"), (GpusPerNode, "v100:2")], "--rigid=4 --nodes=2 --gpus=v100:4");
        check(&[(MemoryPerNode, "10GB")], "--mem=10240M");
        check(&[(MemoryPerNode, "500mb")], "--mem=500M");
        check(&[(Gres, "gpu")], "--gpus=1");
        check(&[(Gres, "gpu:2"), (Gres, "gpu:v100")], "--gpus=v100:1");
    }

    #[test]
    fn what_contradicts_stronger_options_does_not_count() {
        use Part::*;
        let none = TaskShape::default();
        let check = |lines: &[(Part, &str)], stronger: TaskShape, expected: &str| {
            assert_eq!(with(lines, stronger).as_deref(), Ok(expected), "{lines:?} {stronger:?}");
        };
        let nodes = |nodes| TaskShape { nodes: Some(nodes), ..none };
        check(
            &[(TasksPerNode, "8"), (MemoryPerNode, "10M"), (Gres, "gpu:1")],
            nodes(2),
            "--rigid=16 --procs-per-node=8 --mem=20M --gpus=2",
        );
        check(&[(Tasks, "4"), (MemoryPerNode, "10M")], nodes(2), "--rigid=4 --mem=20M");
        check(&[(Tasks, "4")], nodes(8), "");
        check(&[(Tasks, "32"), (TasksPerNode, "8")], nodes(2), "--rigid=32");
        check(&[(Tasks, "32"), (TasksPerNode, "8")], nodes(4), "--rigid=32 --procs-per-node=8");
        let procs = |procs| TaskShape { procs: Some(procs), ..none };
        check(&[(ProcsPerTask, "4")], procs(8), "--rigid=8 --cpus-per-task=4");
        check(&[(ProcsPerTask, "4"), (GpusPerTask, "1")], procs(6), "--gpus=6");
        check(
            &[(Nodes, "4"), (TasksPerNode, "8"), (MemoryPerNode, "10M")],
            procs(2),
            "--rigid=2 --nodes=2 --procs-per-node=8 --mem=20M",
        );
        check(&[(MemoryPerNode, "10M")], procs(4), "--mem=10M");
        check(&[(Tasks, "4"), (MemoryPerNode, "10M")], procs(1), "--mem=10M");
        assert!(with(&[(Tasks, "4"), (MemoryPerNode, "10M")], procs(8)).is_err());
        let each = |each| TaskShape { procs_per_task: Some(each), ..none };
        check(&[(Tasks, "3"), (Nodes, "3")], each(2), "--rigid=6 --nodes=3");
        let on_node = |most| TaskShape { procs_per_node: Some(most), ..none };
        check(&[(Nodes, "4")], on_node(2), "--rigid=8 --nodes=4");
        check(&[(Nodes, "4"), (Tasks, "32")], on_node(4), "--rigid=32");
        check(&[(Nodes, "4"), (Tasks, "16")], on_node(4), "--rigid=16 --nodes=4");
        let moldable = TaskShape { is_moldable: true, ..none };
        check(&[(Nodes, "2"), (MemoryPerNode, "4M")], moldable, "--rigid=2 --nodes=2 --mem=8M");
    }

    #[test]
    fn what_cannot_be_translated_is_named() {
        use Part::*;
        let check = |lines: &[(Part, &str)], expected: &str| {
            let error = translated(lines).unwrap_err();
            assert!(error.starts_with(expected), "{lines:?}: {error}");
        };
        check(&[(Nodes, "2-4")], "expected one number of nodes, found the range `2-4`");
        check(&[(Nodes, "2"), (Tasks, "1")], "expected at most as many nodes as tasks (1), found 2");
        check(&[(Tasks, "0")], "expected a whole number from 1");
        check(&[(Tasks, "4"), (MemoryPerNode, "4G")], "is for each node: expected the number of nodes");
        check(&[(MemoryPerNode, "0")], "expected an amount above 0");
        check(&[(MemoryPerNode, "4X")], "expected a whole number of K, M, G or T, found `4X`");
        check(&[(MemoryPerNode, "4B")], "expected a whole number of K, M, G or T, found `4B`");
        check(&[(MemoryPerNode, "4GBB")], "expected a whole number of K, M, G or T, found `4GBB`");
        check(&[(Gres, "fpga:1")], "expected gpu, gpu:N or gpu:KIND:N alone, found `fpga:1`");
        check(&[(Gres, "gpu:1,fpga:1")], "expected gpu, gpu:N or gpu:KIND:N alone");
        check(
            &[(Tasks, "10000000"), (ProcsPerTask, "2")],
            "expected at most 10000000 processors of all tasks",
        );
    }
}
