//! The options of `pliant submit` that describe a script which was submitted before: the words that a user would type.

use pliant_control::job::Work;
use pliant_model::{BatchOptions, GpuCount, Gpus, Memory, Resources, Speedup};
use pliant_site::services::{SpeedupSpec, show_duration};
use pliant_wire::Script;

use crate::time_text::moment;

/// All options of a script, in groups that belong together. Options that are the default are among them: a line of the script may say
/// something else.
pub(crate) fn all_words(script: &Script) -> Vec<Vec<String>> {
    let mut words = Words::default();
    let Script { name, work, environment, stdin, merge_output, .. } = script;
    words.flag("--ignore-sbatch", true);
    words.value("--job-name", name);
    words.of_work(work);
    for (name, value) in environment {
        words.value("--env", format!("{name}={value}"));
    }
    if let Some(file) = stdin {
        words.value("--stdin", format!("{0}={0}", file.as_str()));
    }
    words.flag("--merge-output", *merge_output);
    words.0
}

#[derive(Default)]
struct Words(Vec<Vec<String>>);

impl Words {
    /// An option with a value. A value that begins with a dash is no option.
    fn value(&mut self, option: &str, value: impl ToString) {
        let value = value.to_string();
        self.0.push(match value.starts_with('-') {
            true => vec![format!("{option}={value}")],
            false => vec![option.to_owned(), value],
        });
    }

    fn some(&mut self, option: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.value(option, value);
        }
    }

    fn flag(&mut self, option: &str, is_given: bool) {
        if is_given {
            self.0.push(vec![option.to_owned()]);
        }
    }

    fn of_work(&mut self, work: &Work) {
        let Work { procs, walltime, fixed_time: _, speedup, resources, begin, deadline, nice, requeue } =
            work;
        self.value("--time", show_duration(*walltime));
        match speedup {
            Speedup::Rigid => self.value("--rigid", procs.0),
            speedup => self.value("--speedup", SpeedupSpec { speedup: speedup.clone(), procs: *procs }),
        }
        if let Some(resources) = resources {
            self.of_resources(resources);
        }
        self.some("--begin", begin.map(moment));
        self.some("--deadline", deadline.map(moment));
        self.value("--nice", nice);
        self.value("--requeue", requeue);
    }

    fn of_resources(&mut self, resources: &Resources) {
        let Resources {
            memory,
            gpus,
            scratch,
            nodes,
            procs_per_node,
            procs_per_task,
            exclusive,
            constraint,
            licences,
            batch,
        } = resources;
        match memory {
            Some(Memory::Total(all)) => self.value("--mem", all),
            Some(Memory::PerProc(each)) => self.value("--mem-per-proc", each),
            None => {}
        }
        if let Some(Gpus { count, kind }) = gpus {
            let kind = kind.as_ref().map_or(String::new(), |kind| format!("{kind}:"));
            match count {
                GpuCount::Total(all) => self.value("--gpus", format!("{kind}{all}")),
                GpuCount::PerProc(each) => self.value("--gpus-per-proc", format!("{kind}{each}")),
            }
        }
        self.some("--scratch", Some(scratch).filter(|scratch| scratch.0 > 0));
        self.some("--nodes", *nodes);
        self.some("--procs-per-node", procs_per_node.map(|procs| procs.0));
        self.some("--cpus-per-task", procs_per_task.map(|procs| procs.0));
        self.flag("--exclusive", *exclusive);
        self.some("--constraint", constraint.as_ref());
        let licences: Vec<String> = licences.iter().map(|(name, count)| format!("{name}:{count}")).collect();
        self.some("--licenses", Some(licences.join(",")).filter(|licences| !licences.is_empty()));
        let BatchOptions { partitions, account, qos } = batch;
        self.some("--partition", Some(partitions.join(",")).filter(|partitions| !partitions.is_empty()));
        self.some("--account", account.as_ref());
        self.some("--qos", qos.as_ref());
    }
}
