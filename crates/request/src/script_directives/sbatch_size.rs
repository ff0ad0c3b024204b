//! The size that `#SBATCH` lines give: tasks, processors, nodes, and what Slurm counts for each node or task.

use pliant_wire::bounds;

use super::sbatch::TranslatedOption;

/// What a line gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
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

    /// The options of `pliant submit` that say the same; a problem names its line and option.
    pub(super) fn translated(self) -> Result<Vec<TranslatedOption>, Vec<(usize, String, String)>> {
        let number = |at: &Option<At<u64>>| at.as_ref().map_or(1, |at| at.value);
        let (nodes, each) = (number(&self.nodes), number(&self.procs_per_task));
        let on_nodes = nodes.saturating_mul(number(&self.tasks_per_node));
        let tasks = self.tasks.as_ref().map_or(on_nodes, |tasks| tasks.value);
        let procs = tasks.saturating_mul(each);
        let (mut options, mut problems) = (Vec::new(), Vec::new());
        let place = |at: &At<u64>| (at.line, at.name.clone());
        let sized = [&self.tasks, &self.procs_per_task, &self.nodes, &self.tasks_per_node];
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
        if let Some(At { line, name, value }) = &self.nodes {
            if *value > tasks {
                let problem = format!("expected at most as many nodes as tasks ({tasks}), found {value}");
                problems.push((*line, name.clone(), problem));
            }
            options.push(option(*line, name.clone(), format!("--nodes={value}")));
        }
        if let Some(At { line, name, value }) = &self.tasks_per_node {
            options.push(option(
                *line,
                name.clone(),
                format!("--procs-per-node={}", value.saturating_mul(each)),
            ));
        }
        if let Some(At { line, name, value }) = &self.procs_per_task {
            options.push(option(*line, name.clone(), format!("--cpus-per-task={value}")));
        }
        // One task is on one node.
        let known_nodes = self.nodes.is_some() || tasks == 1;
        let mut for_each_node =
            |line: usize, name: String, word: Box<dyn FnOnce(u64) -> String>| match known_nodes {
                true => options.push(option(line, name, word(nodes))),
                false => {
                    let problem =
                        "is for each node: expected the number of nodes (--nodes) of several tasks as well";
                    problems.push((line, name, problem.to_owned()));
                }
            };
        if let Some(At { line, name, value }) = self.memory_mib {
            for_each_node(
                line,
                name,
                Box::new(move |nodes| format!("--mem={}M", value.saturating_mul(nodes))),
            );
        }
        if let Some(At { line, name, value: (kind, count) }) = self.gpus_per_node {
            for_each_node(line, name, Box::new(move |nodes| gpus_word(kind, count.saturating_mul(nodes))));
        }
        if let Some(At { line, name, value: (kind, count) }) = self.gpus_per_task {
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
        let mut size = Size::default();
        for (line, (part, text)) in lines.iter().enumerate() {
            size.take(*part, line + 1, "--option", text)?;
        }
        let words = |options: Vec<TranslatedOption>| {
            options.into_iter().flat_map(|option| option.words).collect::<Vec<_>>().join(" ")
        };
        size.translated().map(words).map_err(|problems| problems[0].2.clone())
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
