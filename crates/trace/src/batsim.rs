//! Batsim's JSON workloads: jobs that name profiles. Whole file in memory, at most 512 MiB.
//!
//! A delay profile states its runtime, and so does any profile with a measured `runtime`. Profiles that compute and do not communicate
//! take as long as a processor of speed 1 needs ([`FLOPS`]), and composed ones as long as their parts one after another. The other
//! profiles describe communication that only a network simulator can time; their jobs run for their requested walltime and are counted
//! as repaired (`derived-from-profile`).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Problem, TraceError};
use crate::lines::read_all;
use crate::record::Record;
use pliant_config::plain_message;

/// The floating point operations that a processor of speed 1 does in a second: Batsim's amounts of computation are in such operations,
/// and its platforms say how many each host does.
const FLOPS: f64 = 1e9;

/// The content of a workload file.
pub(crate) struct Log {
    /// Processors of the machine, if given.
    pub(crate) procs: Option<i64>,
    /// Jobs; true if the runtime was derived.
    pub(crate) jobs: Vec<(Record, bool)>,
}

#[derive(Deserialize)]
struct File {
    nb_res: Option<i64>,
    jobs: Vec<JobEntry>,
    profiles: BTreeMap<String, Profile>,
}

#[derive(Deserialize)]
struct JobEntry {
    id: Value,
    profile: String,
    res: i64,
    subtime: f64,
    walltime: Option<f64>,
}

#[derive(Deserialize)]
struct Profile {
    #[serde(rename = "type")]
    kind: String,
    delay: Option<f64>,
    runtime: Option<f64>,
    /// Operations of each processor, of all of them together, or of each in turn.
    #[serde(default)]
    cpu: Option<Amounts>,
    /// Bytes that are communicated.
    #[serde(default)]
    com: Option<Amounts>,
    /// The names of the parts of a composed profile.
    #[serde(default)]
    seq: Vec<String>,
    /// How often these are done.
    #[serde(default)]
    repeat: Option<f64>,
}

/// A number, or one for each processor or pair of processors.
#[derive(Deserialize)]
#[serde(untagged)]
enum Amounts {
    Each(f64),
    All(Vec<f64>),
}

impl Amounts {
    fn most(&self) -> f64 {
        match self {
            Amounts::Each(one) => *one,
            Amounts::All(all) => all.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// How long profiles take on so many processors of speed 1.
struct Timing<'a> {
    profiles: &'a BTreeMap<String, Profile>,
    /// Of composed profiles, by name and processors; none while one is being timed, so that one that contains itself has no time.
    composed: BTreeMap<(&'a str, i64), Option<f64>>,
}

impl<'a> Timing<'a> {
    /// The runtime in seconds; none if only a network simulator can tell.
    fn runtime(&mut self, name: &'a str, procs: i64) -> Option<f64> {
        let profile = self.profiles.get(name)?;
        if profile.runtime.is_some() {
            return profile.runtime;
        }
        let is_silent = profile.com.as_ref().is_none_or(|com| com.most() == 0.0);
        let operations = || profile.cpu.as_ref().filter(|_| is_silent).map(Amounts::most);
        match profile.kind.as_str() {
            "delay" | "DelayProfile" => profile.delay,
            "parallel" | "parallel_homogeneous" => operations().map(|operations| operations / FLOPS),
            "parallel_homogeneous_total" => {
                operations().map(|operations| operations / (FLOPS * procs.max(1) as f64))
            }
            "composed" => self.composed(name, profile, procs),
            _ => None,
        }
    }

    fn composed(&mut self, name: &'a str, profile: &'a Profile, procs: i64) -> Option<f64> {
        if let Some(known) = self.composed.get(&(name, procs)) {
            return *known;
        }
        self.composed.insert((name, procs), None);
        let once = profile.seq.iter().map(|part| self.runtime(part, procs)).sum::<Option<f64>>();
        let runtime = once.map(|once| once * profile.repeat.unwrap_or(1.0));
        self.composed.insert((name, procs), runtime);
        runtime
    }
}

/// Reads a workload.
pub(crate) fn read(path: &Path, input: impl Read) -> Result<Log, TraceError> {
    let fail = |problem| TraceError::new(path, problem);
    let content = read_all(input, 512 << 20).map_err(|error| fail(Problem::Io(error)))?;
    let file: File = serde_json::from_slice(&content).map_err(|error| {
        // The position is reported once, in front.
        let message = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        fail(Problem::Key {
            line: error.line() as u64,
            column: error.column().max(1) as u64,
            message: plain_message(message.strip_suffix(&position).unwrap_or(&message)),
            hint: "expected a Batsim workload: `nb_res`, `jobs` and `profiles`".to_owned(),
        })
    })?;
    let mut jobs = Vec::with_capacity(file.jobs.len());
    let mut timing = Timing { profiles: &file.profiles, composed: BTreeMap::new() };
    for (position, entry) in file.jobs.iter().enumerate() {
        if !file.profiles.contains_key(&entry.profile) {
            return Err(fail(Problem::Content {
                message: format!(
                    "job {} names the profile `{}`, which is not there",
                    entry.id, entry.profile
                ),
                hint: "every job's `profile` must be a key of `profiles`".to_owned(),
            }));
        }
        jobs.push(record(position, entry, timing.runtime(&entry.profile, entry.res)));
    }
    Ok(Log { procs: file.nb_res, jobs })
}

/// A job whose profile takes `timed` seconds.
fn record(position: usize, entry: &JobEntry, timed: Option<f64>) -> (Record, bool) {
    let whole = |seconds: f64| if seconds.is_finite() { seconds.ceil() as i64 } else { -1 };
    let walltime = entry.walltime.filter(|walltime| *walltime > 0.0).map_or(-1, whole);
    let run = timed.map_or(walltime, whole);
    // Ids may be numbers, or strings such as `w0!12`; the digits at the end name the job in its workload.
    let id = match &entry.id {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => {
            let digits = text.rsplit(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
            digits.parse().ok()
        }
        _ => None,
    };
    let record = Record {
        line: position as u64 + 1,
        id: id.unwrap_or(position as i64),
        submit: entry.subtime.floor() as i64,
        wait: -1,
        run,
        procs: -1,
        cpu: -1,
        memory: -1,
        req_procs: entry.res,
        req_time: walltime,
        req_memory: -1,
        status: -1,
        user: -1,
        group: -1,
        executable: -1,
        queue: -1,
        partition: -1,
        preceding: -1,
        think: -1,
    };
    (Record { procs: entry.res, ..record }, timed.is_none())
}
