//! What squeue says of all jobs.
//!
//! The fields that Slurm fills come first, with the separator of ASCII (31) between. What users write freely comes
//! last, behind a mark that is drawn for every call: no user can have written it into the name of a job. `--json`
//! would be free of that, but costs ten times as much and does not report planned nodes in the versions that lack
//! slurmdbd's types (0.2 s against 0.02 s for 1000 jobs).

use std::collections::BTreeSet;

use pliant_control::listing::{CoreLayout, ListedJob, NodeAllocation, Phase, PlannedStart};

use super::arrays::{self, BLOCK, Tag};
use super::hostlist;
use super::mark::Mark;
use super::requests;
use super::states::{instant, state, wait_reason, walltime};
use crate::batch_system::PrintedJobs;
use crate::batch_system::error::Unreadable;
use crate::batch_system::submitter::Submitter;

const SEPARATOR: char = '\u{1f}';
const FIELDS: [&str; 19] = [
    "%i", // id; of an array's waiting tasks with their numbers
    "%T", // state
    "%C", // cores
    "%D", // nodes
    "%h", // NO: its nodes are its own
    "%N", // its nodes
    "%Y", // the nodes it is planned on
    "%V", // submitted
    "%S", // started, or planned to
    "%e", // ended, or is to
    "%l", // limit
    "%Q", // priority
    "%r", // why it waits
    "%E", // the jobs it waits for
    "%P", // partition
    "%U", // its owner, by number
    "%v", // reservation
    "%f", // features
    "%n", // required nodes
];
/// Where the owner stands in them.
const USER: usize = 15;
const COMMAND: &str = "squeue";
/// How the id of an array's waiting tasks ends here.
const WAITING: &str = "_[]";

/// The format that squeue is to print jobs in.
pub(super) fn format(mark: &Mark) -> String {
    let fields = FIELDS.join("\u{1f}");
    let mark = mark.text();
    format!("{mark}<{fields}{mark}>%k{mark}>%j{mark}>")
}

/// Reads what squeue printed.
///
/// Fails if a job of our own is not understood: to leave it out would be to say that it is gone.
pub(super) fn read(printed: &str, mark: &Mark, who: &Submitter<u32>) -> Result<PrintedJobs, Unreadable> {
    let mut queue = PrintedJobs::default();
    let (begin, part) = (format!("{}<", mark.text()), format!("{}>", mark.text()));
    let mut records = printed.split(begin.as_str());
    let before = records.next().unwrap_or_default();
    if !before.trim().is_empty() {
        return Err(Unreadable::new(COMMAND, "its beginning", "a job", before));
    }
    for record in records {
        let parts: Vec<&str> = record.split(part.as_str()).collect();
        let &[fields, comment, name, "\n" | ""] = parts.as_slice() else {
            return Err(Unreadable::new(COMMAND, "a job", "its fields, a comment and a name", record));
        };
        let tagged = who.tagged(name).or_else(|| who.tagged(comment));
        match jobs(fields, tagged, who) {
            Ok(jobs) => queue.jobs.extend(jobs),
            Err(unreadable) if tagged.is_some_and(|tag| is_ours(fields, tag, who)) => return Err(unreadable),
            Err(unreadable) => queue.unread.push(unreadable.to_string()),
        }
    }
    Ok(queue)
}

/// Whether a record that is not understood may be one of ours. One whose user is not understood either may be.
fn is_ours(line: &str, tag: Tag, who: &Submitter<u32>) -> bool {
    let user = line.split(SEPARATOR).nth(USER).and_then(|user| user.parse().ok());
    user.is_none_or(|user| match tag {
        Tag::Job(number) => who.is_of(number, &user),
        Tag::Block(first) => who.may_be_of(first, first.saturating_add(BLOCK), &user),
    })
}

/// A job, or several: the waiting tasks of an array of Pliant's are one record, and a job each.
fn jobs(line: &str, tagged: Option<Tag>, who: &Submitter<u32>) -> Result<Vec<ListedJob>, Unreadable> {
    let job = job(line, tagged, who)?;
    let Some(tag @ Tag::Block(first)) = tagged.filter(|_| job.id.ends_with(WAITING)) else {
        return Ok(vec![job]);
    };
    if !is_ours(line, tag, who) {
        return Ok(vec![job]);
    }
    let indices =
        line.split_once("_[").and_then(|(_, rest)| rest.split([']', '%']).next()).unwrap_or_default();
    let user = job.owner.parse().ok();
    match arrays::tasks(&job, first, indices) {
        Some(mut tasks) => {
            for task in &mut tasks {
                task.job_number =
                    task.job_number.filter(|number| user.is_some_and(|user| who.is_of(*number, &user)));
            }
            Ok(tasks)
        }
        // A user can give an array of their own our tag. The server's own user has none but ours.
        None if user != Some(who.user) => Ok(vec![job]),
        None => Err(Unreadable::new(COMMAND, &format!("job {}", job.id), "indices of our own", indices)),
    }
}

fn job(line: &str, tagged: Option<Tag>, who: &Submitter<u32>) -> Result<ListedJob, Unreadable> {
    let fields: Vec<&str> = line.split(SEPARATOR).collect();
    let Ok(fields) = <[&str; FIELDS.len()]>::try_from(fields) else {
        return Err(Unreadable::new(COMMAND, "a job", "19 fields", line));
    };
    let [id, word, cores, nodes, shared, allocated, planned_on, submit, start, end, limit, ..] = fields;
    let [.., priority, reason, dependency, partition, user, reservation, features, required] = fields;
    let wrong = |name: &str, expected, found: &str| {
        Unreadable::new(COMMAND, &format!("job {id}, {name}"), expected, found)
    };
    let count = |name: &str, text: &str| text.parse::<u32>().map_err(|_| wrong(name, "a number", text));
    let time = |name: &str, text: &str| instant(text).ok_or_else(|| wrong(name, "seconds", text));
    let hosts = |name: &str, text: &str| match nothing(text) {
        true => Ok(Vec::new()),
        false => hostlist::expand(text).ok_or_else(|| wrong(name, "a list of nodes", text)),
    };
    let Id { id: whole, more_tasks, max_running_tasks } =
        self::id(id).ok_or_else(|| wrong("id", "a job's id", id))?;
    let (start, end) = (time("start", start)?, time("end", end)?);
    let allocations =
        hosts("nodes", allocated)?.into_iter().map(|node| NodeAllocation::new(node, None)).collect();
    let mut job = ListedJob {
        job_number: tagged
            .and_then(|tag| tag.number(&whole))
            .filter(|number| user.parse().is_ok_and(|user| who.is_of(*number, &user))),
        id: whole,
        owner: user.to_owned(),
        state: state(word, reason).ok_or_else(|| wrong("state", "a state of a job", word))?,
        partition: partition.to_owned(),
        shape: CoreLayout {
            cores: count("cores", cores)?,
            nodes: Some(count("number of nodes", nodes)?),
            exclusive: match shared {
                "NO" => true,
                "OK" | "YES" | "USER" | "MCS" | "TOPO" => false,
                _ => return Err(wrong("oversubscription", "NO, OK, YES, USER, MCS or TOPO", shared)),
            },
        },
        more_tasks,
        max_running_tasks,
        allocations,
        walltime: walltime(limit).ok_or_else(|| wrong("limit", "a length of time", limit))?,
        submitted: time("submission", submit)?.ok_or_else(|| wrong("submission", "seconds", submit))?,
        priority: priority.parse().map_err(|_| wrong("priority", "a number", priority))?,
        ..ListedJob::default()
    };
    match job.phase() {
        Phase::Waiting => {
            let nodes = hosts("planned nodes", planned_on)?;
            // Without nodes a start is not a plan but the earliest that its owner allows.
            job.planned = start.filter(|_| !nodes.is_empty()).map(|start| PlannedStart { start, nodes });
            job.wait_reason = wait_reason(reason, dependency, start);
        }
        Phase::Running => job.started = start,
        Phase::Ended => (job.started, job.ended) = (start.filter(|_| job.ever_started()), end),
    }
    job.requested.constraint = requests::constraint(features);
    let features = if job.requested.constraint.is_some() { "" } else { features };
    job.reservation = (!nothing(reservation)).then(|| reservation.to_owned());
    let needs = [("features", features), ("nodes", required)];
    job.requirements = needs
        .iter()
        .filter(|(_, text)| !nothing(text))
        .map(|(name, text)| format!("{name} {text}"))
        .collect();
    if let [allocation] = job.allocations.as_mut_slice() {
        allocation.cores = Some(job.shape.cores);
    }
    Ok(job)
}

pub(super) fn nothing(text: &str) -> bool {
    matches!(text, "" | "(null)" | "N/A" | "n/a" | "None" | "none")
}

/// What a job is called here, by its ID as squeue writes it; none for what is no ID.
pub(super) fn key(text: &str) -> Option<String> {
    Some(id(text)?.id)
}

/// What the tasks of an array are called that wait.
pub(super) fn waiting_tasks(array: &str) -> String {
    format!("{array}{WAITING}")
}

struct Id {
    id: String,
    more_tasks: u32,
    max_running_tasks: Option<u32>,
}

/// `12`, `12_3` (a task of an array), `12_[4-9%2]` (its tasks that wait, two at a time), `12+1` (a part of a job of
/// several kinds). The tasks that wait are called `12_[]`, whichever they are, so that the name stays.
fn id(text: &str) -> Option<Id> {
    let whole = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((array, tasks)) = text.split_once("_[") {
        let tasks = tasks.strip_suffix(']')?;
        let (tasks, max_running_tasks) = match tasks.split_once('%') {
            Some((tasks, max_running_tasks)) => (tasks, Some(max_running_tasks.parse().ok()?)),
            None => (tasks, None),
        };
        let more_tasks = hostlist::count(tasks)?.checked_sub(1)?;
        return whole(array).then(|| Id { id: waiting_tasks(array), more_tasks, max_running_tasks });
    }
    let plain = match text.split_once(['_', '+']) {
        Some((job, part)) => whole(job) && whole(part),
        None => whole(text),
    };
    plain.then(|| Id { id: text.to_owned(), more_tasks: 0, max_running_tasks: None })
}

/// Leaves out others' jobs that are over, but for those that were not when the last listing was made: the end of
/// them is reported once.
pub(super) fn leave_out_over(jobs: &mut Vec<ListedJob>, known: &mut Option<BTreeSet<String>>) {
    let is_over = |job: &ListedJob| job.job_number.is_none() && job.phase() == Phase::Ended;
    let over = jobs.iter().filter(|job| is_over(job)).map(|job| job.id.clone()).collect();
    let before = known.replace(over);
    jobs.retain(|job| !is_over(job) || before.as_ref().is_some_and(|before| !before.contains(&job.id)));
}
