//! Instances of a multi-job that one job runs one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pliant_control::exact_text::ExactText;
use pliant_control::job::Work;
use pliant_model::{Procs, Span, Speed, Speedup};
use pliant_staging::{FileName, TASKS};
use serde::{Deserialize, Serialize};

use super::prepared::{Bounds, Prepared};
use super::refusal::Refusal;
use super::service::Service;
use crate::processes::{BatchSpec, InstanceRun, OUTPUT_BYTES, Streams};
use crate::word::Word;

/// The variable that holds an instance's number in its multi-job.
const INSTANCE: &str = "PLIANT_INSTANCE";
/// What a line on an instance may take beside what the instance wrote, escaped.
const LINE_BYTES: u64 = 1 << 10;

/// How long a batch may take to begin, and to end, in seconds.
const SLACK_S: u32 = 2;

/// How much longer the walltime of a batch is than those of its instances, on processors of speed 1: so that one which is over its
/// walltime is ended by the batch, which reports it, and not with it.
pub fn batch_margin(grace_s: u32, speed: Speed) -> Span {
    Span((f64::from(grace_s.saturating_add(SLACK_S)) * speed.get()).ceil() as i64)
}

/// A batch of instances, checked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Batch {
    command: Vec<Word>,
    environment: BTreeMap<String, Word>,
    varied: Vec<String>,
    instances: Vec<BatchInstance>,
    /// How much longer an instance takes on the processors of the batch than on those that runtimes are learned for.
    wider: f64,
    /// The user's own script that its instances run; none if they run a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    script: Option<ExactText>,
    /// The folder of the user's own in which its instances run, on this cluster; a folder of its own for each if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<PathBuf>,
    /// The standard input of each instance, and where its standard error goes.
    #[serde(default, skip_serializing_if = "Streams::are_default")]
    streams: Streams,
}

/// An instance of a batch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BatchInstance {
    number: u32,
    values: Vec<String>,
    /// At speed 1, on the processors of the batch.
    walltime: Span,
    /// What its arguments make of how long it takes.
    scale: f64,
}

impl Service {
    /// Fills in several requests that differ in some arguments, to be run one after the other on the fewest processors
    /// that will do: the job that runs them, and what it runs. As for [`Service::prepare`].
    ///
    /// # Errors
    ///
    /// The same, at the first instance that cannot be.
    pub fn prepare_batch(
        &self,
        fixed: &BTreeMap<String, String>,
        varied: &[String],
        instances: impl Iterator<Item = (u32, Vec<String>)>,
        pliant: &str,
        learned: Option<Span>,
    ) -> Result<(Prepared, Batch), Refusal> {
        let mut given = fixed.clone();
        let (mut ready, mut scale, mut walltime, mut procs) = (Vec::new(), 0.0, Span::ZERO, Procs::ONE);
        let (mut inputs, mut wider, mut resources) = (BTreeSet::new(), 1.0, None);
        for (number, values) in instances {
            given.extend(varied.iter().cloned().zip(values));
            let one = self.prepare(&given, pliant, learned)?;
            inputs.extend(one.inputs);
            let asked = one.work.procs;
            wider = one
                .work
                .narrowest()
                .map_or(1.0, |narrow| one.work.speedup.relative_time(narrow.procs, asked))
                / one.work.speedup.reference_time(asked);
            let work = one.work.narrowest().unwrap_or(one.work);
            let values = self.read(&given)?;
            let values = varied.iter().map(|name| values.get(name).cloned().unwrap_or_default()).collect();
            ready.push(BatchInstance { number, values, walltime: work.walltime, scale: one.scale });
            scale += one.scale;
            walltime = walltime + work.walltime;
            (procs, resources) = (work.procs, work.resources);
        }
        let values = self.read(&given)?;
        let fill = |word: &super::template::Template| word.fill_but(varied, &values, pliant);
        let environment = self.environment.iter();
        let bytes = ready.len() as u64 * (6 * OUTPUT_BYTES as u64 + LINE_BYTES);
        let runner = [pliant.to_owned(), "run-tasks".to_owned(), format!("../{TASKS}")];
        let prepared = Prepared {
            name: self.name.clone(),
            command: runner.into_iter().map(Word::text).collect(),
            environment: BTreeMap::new(),
            // They run one after the other: the batch needs what each of them does.
            work: Work { resources, ..Work::new(procs, walltime, Speedup::Rigid) },
            inputs: inputs.into_iter().collect(),
            scale,
            bounds: Bounds { max_output_bytes: Some(bytes), ..self.bounds },
            folder: None,
            streams: Streams::default(),
            call: None,
        };
        let batch = Batch {
            command: self.command.iter().filter_map(fill).collect(),
            environment: environment.filter_map(|(name, word)| Some((name.clone(), fill(word)?))).collect(),
            varied: varied.to_vec(),
            instances: ready,
            wider,
            script: None,
            folder: None,
            streams: Streams::default(),
        };
        Ok((prepared, batch))
    }
}

impl Batch {
    /// How many instances it has.
    pub fn count(&self) -> u32 {
        self.instances.len() as u32
    }

    /// The same batch, of a script with this text, whose instances run in a folder of the user's own or each in its own.
    #[must_use]
    pub fn of_script(self, text: ExactText, folder: Option<PathBuf>, streams: Streams) -> Batch {
        Batch { script: Some(text), folder, streams, ..self }
    }

    /// The text of the script that its instances run, if they run one.
    pub fn script(&self) -> Option<&ExactText> {
        self.script.as_ref()
    }

    /// What a job runs that was sized for `asked` and has `walltime` on `procs` processors. An instance has the share of
    /// it that it has of what was asked for. None begins that would not be ended in time with its walltime and `grace_s`.
    /// Each finds `inputs` in its folder.
    pub fn spec(
        &self,
        asked: &Work,
        procs: Procs,
        walltime: Span,
        grace_s: u64,
        inputs: Vec<FileName>,
    ) -> BatchSpec {
        let share = walltime.0.max(1) as f64 / asked.walltime.0.max(1) as f64;
        let run = |instance: &BatchInstance| {
            let own = Span(((instance.walltime.0 as f64 * share).ceil() as i64).max(1));
            let value = |name: &str| {
                let at = self.varied.iter().position(|varied| varied == name);
                at.and_then(|at| instance.values.get(at)).map_or("", String::as_str)
            };
            let fill = |word: &Word| word.of_instance(procs, own, value);
            let mut env: BTreeMap<String, String> =
                self.environment.iter().map(|(name, word)| (name.clone(), fill(word))).collect();
            env.insert(INSTANCE.to_owned(), instance.number.to_string());
            env.insert("PLIANT_WALLTIME_S".to_owned(), own.seconds().to_string());
            let program = self.command.iter().map(fill).collect();
            let (number, scale) = (instance.number, instance.scale);
            InstanceRun { number, program, env, walltime_s: own.0.unsigned_abs(), scale }
        };
        // From when the batch itself has begun, a moment after its job.
        let ends_in_s = walltime.0.unsigned_abs().saturating_sub(u64::from(SLACK_S) / 2);
        let runs = self.instances.iter().map(run).collect();
        let (folder, streams) = (self.folder.clone(), self.streams.clone());
        BatchSpec { grace_s, ends_in_s: Some(ends_in_s), inputs, runs, wider: self.wider, folder, streams }
    }
}
