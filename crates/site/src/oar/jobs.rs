//! What oarstat says of all jobs.

use std::collections::BTreeMap;

use pliant_control::listing::{
    CoreLayout, ListedJob, NodeAllocation, Phase, PlannedStart, RequestedResources, State, Status, WaitReason,
};
use pliant_model::{Span, Time};
use serde::Deserialize;
use serde_json::Value;

use super::EXPECTED;
use super::number::Number;
use super::requested::{self, Wanted};
use super::resources::Resources;
use crate::batch_system::PrintedJobs;
use crate::batch_system::error::Unreadable;
use crate::batch_system::submitter::Submitter;

#[derive(Deserialize)]
struct Job {
    state: String,
    queue: String,
    wanted_resources: String,
    walltime: Option<Number>,
    #[serde(rename = "submissionTime")]
    submitted: Number,
    #[serde(rename = "startTime")]
    started: Number,
    #[serde(rename = "stopTime")]
    stopped: Number,
    #[serde(rename = "scheduledStart")]
    scheduled: Option<Number>,
    exit_code: Option<Number>,
    assigned_resources: Vec<Number>,
    assigned_network_address: Vec<String>,
    types: Vec<String>,
    dependencies: Vec<Number>,
    reservation: String,
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    to_check: String,
}

/// Reads what `oarstat --json --full` printed. Others' jobs that are over are left out, and those that give way to any
/// other (besteffort), unless that is what ours are.
///
/// Fails if a job of our own is not understood: to leave it out would be to say that it is gone. What it asks for may be any text if an
/// account has submitted it, who can give an own job our tag: then its size is not known.
pub(super) fn read(
    printed: &str,
    who: &Submitter<String>,
    resources: &Resources,
) -> Result<PrintedJobs, Unreadable> {
    let mut queue = PrintedJobs::default();
    let unreadable = |location: &str, error: &serde_json::Error| {
        Unreadable::new("oarstat", location, EXPECTED, &error.to_string())
    };
    // Of nothing OAR prints nothing.
    let read: BTreeMap<String, Value> = match printed.trim() {
        "" | "null" => BTreeMap::new(),
        printed => serde_json::from_str(printed).map_err(|error| unreadable("its output", &error))?,
    };
    for (id, value) in read {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let user = text("job_user").to_owned();
        let tagged = who.number(text("name")).filter(|number| who.is_of(*number, &user));
        let may_ask_anything = tagged.is_some() && user != who.user;
        let read = serde_json::from_value::<Job>(value)
            .map_err(|error| unreadable(&format!("job {id}"), &error))
            .and_then(|job| {
                let gives_way = job.types.iter().any(|kind| kind == "besteffort");
                let wanted = wanted(&id, &job, resources);
                let wanted = if may_ask_anything { wanted.unwrap_or_default() } else { wanted? };
                Ok((listed(&id, tagged, job, &wanted, resources)?, gives_way))
            });
        match read {
            Ok((listed, gives_way)) => {
                if tagged.is_some() || (listed.phase() != Phase::Ended && !gives_way) {
                    queue.jobs.push(listed);
                }
            }
            Err(why) if tagged.is_some() => return Err(why),
            Err(why) => queue.unread.push(why.to_string()),
        }
    }
    Ok(queue)
}

fn wrong(id: &str, field: &str, expected: &'static str, found: &str) -> Unreadable {
    Unreadable::new("oarstat", &format!("job {id}, {field}"), expected, found)
}

/// The alternatives that a job asks for.
fn wanted(id: &str, job: &Job, resources: &Resources) -> Result<Vec<Wanted>, Unreadable> {
    requested::read(&job.wanted_resources, resources.size())
        .ok_or_else(|| wrong(id, "wanted_resources", "resources and walltimes", &job.wanted_resources))
}

fn listed(
    id: &str,
    tagged: Option<u32>,
    job: Job,
    wanted: &[Wanted],
    resources: &Resources,
) -> Result<ListedJob, Unreadable> {
    let instant = |number: &Number| Some(Time(number.0)).filter(|time| time.0 > 0);
    let walltime = job.walltime.map(|seconds| Span(seconds.0));
    // The one that is planned, or else the first.
    let chosen = wanted.iter().find(|one| Some(one.walltime) == walltime).or(wanted.first());
    let shape = chosen.map(|one| CoreLayout { cores: one.cores, nodes: one.nodes, exclusive: one.exclusive });
    let mut listed = ListedJob {
        id: id.to_owned(),
        job_number: tagged,
        state: state(&job).ok_or_else(|| wrong(id, "state", "a state of a job", &job.state))?,
        partition: job.queue.clone(),
        shape: shape.unwrap_or_default(),
        allocations: node_names(&job, resources),
        walltime: walltime.or(chosen.map(|one| one.walltime)),
        submitted: Time(job.submitted.0),
        requested: RequestedResources {
            licences: match job.assigned_resources.is_empty() {
                true => chosen.map(|one| wanted_by_type(one, resources)).unwrap_or_default(),
                false => held_by_type(&job, resources),
            },
            ..RequestedResources::default()
        },
        status: job.exit_code.map(|code| status(code.0)),
        requirements: job.types.iter().map(|kind| format!("type {kind}")).collect(),
        ..ListedJob::default()
    };
    match listed.phase() {
        Phase::Waiting => {
            listed.allocations.clear();
            let start = job.scheduled.as_ref().and_then(instant);
            listed.planned = start.map(|start| PlannedStart { start, nodes: Vec::new() });
            listed.wait_reason = match (start, job.reservation.as_str()) {
                (Some(start), "Scheduled") => Some(WaitReason::Time(start)),
                // What OAR plans it plans with all that it waits for.
                (Some(_), _) => None,
                (None, _) if !job.dependencies.is_empty() => {
                    let jobs: Vec<String> = job.dependencies.iter().map(|id| id.0.to_string()).collect();
                    Some(WaitReason::Jobs(jobs.join(",")))
                }
                (None, _) => None,
            };
        }
        Phase::Running => {
            listed.started = instant(&job.started);
        }
        Phase::Ended => {
            listed.started = instant(&job.started).filter(|_| !listed.allocations.is_empty());
            listed.ended = instant(&job.stopped);
        }
    }
    if listed.ever_started() && !job.assigned_resources.is_empty() {
        let cores = cores(&job, resources).count() as u32;
        listed.shape = CoreLayout { cores, nodes: None, exclusive: false };
    }
    Ok(listed)
}

/// The state of a job; none for a word that is no state. How one ended that OAR does not call terminated stands in its events.
fn state(job: &Job) -> Option<State> {
    let has = |kinds: &[&str]| job.events.iter().any(|event| kinds.contains(&event.kind.as_str()));
    Some(match job.state.as_str() {
        "Waiting" | "toAckReservation" => State::Pending,
        "Hold" => State::Held,
        "toLaunch" | "Launching" => State::Configuring,
        "Running" => State::Running,
        // Its resources may be given to others.
        "Suspended" | "Resuming" => State::Suspended,
        "Finishing" => State::Completing,
        "Terminated" => match job.exit_code.as_ref().is_none_or(|code| code.0 == 0) {
            true => State::Completed,
            false => State::Failed,
        },
        // What OAR has not looked at yet may make it submit the job anew: nothing is decided.
        "Error" | "toError" if job.events.iter().any(|event| event.to_check == "YES") => State::Requeued,
        "toError" => State::Failed,
        "Error" if has(&["WALLTIME"]) => State::TimedOut,
        "Error" if has(&["FRAG_JOB_REQUEST"]) => State::Cancelled,
        "Error" if has(NODE_FAILED) => State::NodeFailed,
        "Error" => State::Failed,
        _ => return None,
    })
}

/// Events of jobs whose nodes did not do what they should.
const NODE_FAILED: &[&str] = &[
    "PING_CHECKER_NODE_SUSPECTED",
    "PING_CHECKER_NODE_SUSPECTED_END_JOB",
    "CPUSET_ERROR",
    "CPUSET_CLEAN_ERROR",
    "CANNOT_WRITE_NODE_FILE",
    "CANNOT_WRITE_PID_FILE",
    "SSH_TRANSFER_TIMEOUT",
    "BIPBIP_TIMEOUT",
    "EXTERMINATE_JOB",
    "BAD_HASHTABLE_DUMP",
];

/// The ids of its resources that are not known to be something else than cores.
fn cores(job: &Job, resources: &Resources) -> impl Iterator<Item = i64> {
    job.assigned_resources.iter().map(|id| id.0).filter(|id| other_type(*id, resources).is_none())
}

fn other_type(id: i64, resources: &Resources) -> Option<&String> {
    resources.other_types.get(&u64::try_from(id).ok()?)
}

/// How many resources of other types it waits for, at most all that there are.
fn wanted_by_type(wanted: &Wanted, resources: &Resources) -> BTreeMap<String, u32> {
    let all = |(kind, count): (&String, &u32)| (kind.clone(), resources.units(kind).min(*count));
    wanted.others.iter().map(all).collect()
}

/// How many resources of other types it has.
fn held_by_type(job: &Job, resources: &Resources) -> BTreeMap<String, u32> {
    let mut held = BTreeMap::new();
    for kind in job.assigned_resources.iter().filter_map(|id| other_type(id.0, resources)) {
        *held.entry(kind.clone()).or_default() += 1;
    }
    held
}

/// Where it runs or ran.
fn node_names(job: &Job, resources: &Resources) -> Vec<NodeAllocation> {
    let mut cores: BTreeMap<&str, u32> = BTreeMap::new();
    let mut known = true;
    for id in self::cores(job, resources) {
        match u64::try_from(id).ok().and_then(|id| resources.node_names.get(&id)) {
            Some(node) => *cores.entry(node).or_default() += 1,
            None => known = false,
        }
    }
    let allocation = |node: &String| {
        NodeAllocation::new(node.clone(), cores.get(node.as_str()).copied().filter(|_| known))
    };
    job.assigned_network_address.iter().map(allocation).collect()
}

/// What `wait` said.
fn status(waited: i64) -> Status {
    let signal = (waited & 0x7f) as i32;
    if signal == 0 { Status::Code(((waited >> 8) & 0xff) as i32) } else { Status::Signal(signal) }
}
