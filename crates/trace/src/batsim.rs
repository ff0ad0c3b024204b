//! Batsim's JSON workloads: jobs that name profiles. Whole file in memory, at most 512 MiB.
//!
//! A delay profile states its runtime. The other profiles describe computation and communication that only a
//! network simulator can time; their jobs run for their requested walltime and are counted as repaired
//! (`derived-from-profile`), unless the profile carries a measured `runtime`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Problem, TraceError};
use crate::lines::read_all;
use crate::record::Record;
use pliant_config::plain_message;

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
    for (position, entry) in file.jobs.iter().enumerate() {
        let profile = file.profiles.get(&entry.profile).ok_or_else(|| {
            fail(Problem::Content {
                message: format!(
                    "job {} names the profile `{}`, which is not there",
                    entry.id, entry.profile
                ),
                hint: "every job's `profile` must be a key of `profiles`".to_owned(),
            })
        })?;
        jobs.push(record(position, entry, profile));
    }
    Ok(Log { procs: file.nb_res, jobs })
}

fn record(position: usize, entry: &JobEntry, profile: &Profile) -> (Record, bool) {
    let whole = |seconds: f64| if seconds.is_finite() { seconds.ceil() as i64 } else { -1 };
    let stated = match profile.kind.as_str() {
        "delay" | "DelayProfile" => profile.delay,
        _ => profile.runtime,
    };
    let walltime = entry.walltime.filter(|walltime| *walltime > 0.0).map_or(-1, whole);
    let run = stated.map_or(walltime, whole);
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
    (Record { procs: entry.res, ..record }, stated.is_none())
}
