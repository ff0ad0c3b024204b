//! How jobs ended: by sacct where Slurm keeps accounts, by squeue for as long as the controller remembers.
//!
//! A user can write line ends and separators into the name of a job, and so the ends of others' jobs. So squeue gets a mark between its
//! fields that is drawn for every call, in its environment. All users read the arguments of sacct, which has no variable for that: it is
//! asked for what no user writes, and in another call for the names alone, which say nothing of how a job ended.

use std::collections::BTreeMap;

use pliant_control::listing::{CoreLayout, ListedJob, NodeAllocation, Phase};

use super::hostlist;
use super::mark::Mark;
use super::states::{instant, state, status};
use crate::batch_system::error::Unreadable;
use crate::batch_system::submitter::Submitter;

/// The fields of sacct that no user writes freely.
pub(super) const ACCOUNTS: &str = "JobID,State,ExitCode,Submit,Start,End,UID,NCPUS,Partition,NodeList";
/// Those of the call for names.
pub(super) const NAMES: &str = "JobID,JobName";
/// The fields of squeue that `-o` does not have: what a job's process ended with. The name comes last here, too.
const EXITS: [&str; 8] =
    ["jobarrayid", "state", "exit_code", "starttime", "endtime", "nodelist", "userid", "name"];

/// The format that squeue is to print ends in, with the mark behind each field.
pub(super) fn exits_format(mark: &Mark) -> String {
    EXITS.map(|field| format!("{field}:0{}", mark.text())).join(",")
}

/// The names of jobs by their IDs, as sacct printed them with the mark behind each field. A job that has two is an error: a user who read
/// the mark may have written one of them.
pub(super) fn read_names(printed: &str, mark: &Mark) -> Result<BTreeMap<String, String>, Unreadable> {
    let mut names = BTreeMap::new();
    for [id, name] in records("sacct", printed, mark)? {
        let id = checked_id("sacct", id.trim_start())?;
        if names.contains_key(&id) {
            return Err(Unreadable::new("sacct", &id, "one name of a job", name));
        }
        names.insert(id, name.to_owned());
    }
    Ok(names)
}

/// Reads what sacct printed, a job a line: the jobs of our users. Not all have a name: of a short job the accounts may hear the end
/// before the beginning.
pub(super) fn read_accounts(
    printed: &str,
    names: &BTreeMap<String, String>,
    who: &Submitter<u32>,
) -> Result<Vec<ListedJob>, Unreadable> {
    let wrong = |location: &str, expected, found: &str| Unreadable::new("sacct", location, expected, found);
    let mut jobs = Vec::new();
    for line in printed.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let &[id, word, exit, submit, start, end, user, cores, partition, nodes, ""] = fields.as_slice()
        else {
            return Err(wrong("a job", "10 fields", line));
        };
        let id = id.trim_start();
        let name = names.get(id).map_or("", String::as_str);
        let Some(job_number) = number(id, name, user, who) else { continue };
        let time = |text: &str| instant(text).ok_or_else(|| wrong(id, "seconds", text));
        let mut job = ListedJob {
            id: checked_id("sacct", id)?,
            job_number,
            owner: user.to_owned(),
            state: state(word, "").ok_or_else(|| wrong(id, "a state of a job", word))?,
            partition: partition.to_owned(),
            shape: CoreLayout {
                cores: cores.parse().map_err(|_| wrong(id, "a number of cores", cores))?,
                ..CoreLayout::default()
            },
            allocations: allocations(nodes).ok_or_else(|| wrong(id, "a list of nodes", nodes))?,
            submitted: time(submit)?.ok_or_else(|| wrong(id, "seconds", submit))?,
            ..ListedJob::default()
        };
        if job.phase() != Phase::Waiting && job.ever_started() {
            job.started = time(start)?;
        }
        if job.phase() == Phase::Ended {
            job.ended = time(end)?;
            job.status = Some(status(exit).ok_or_else(|| wrong(id, "the end of a process", exit))?);
        }
        jobs.push(job);
    }
    Ok(jobs)
}

/// Reads what squeue printed in [`exits_format`]: the jobs of our users. Ids begin anew where a controller's state was
/// lost.
pub(super) fn read_exits(
    printed: &str,
    mark: &Mark,
    who: &Submitter<u32>,
) -> Result<Vec<ListedJob>, Unreadable> {
    let wrong = |location: &str, expected, found: &str| Unreadable::new("squeue", location, expected, found);
    let mut jobs = Vec::new();
    for [id, word, exit, start, end, nodes, user, name] in records("squeue", printed, mark)? {
        let id = id.trim_start();
        let Some(job_number) = number(id, name, user, who) else { continue };
        let time = |text: &str| instant(text).ok_or_else(|| wrong(id, "seconds", text));
        let mut job = ListedJob {
            id: checked_id("squeue", id)?,
            job_number,
            state: state(word, "").ok_or_else(|| wrong(id, "a state of a job", word))?,
            allocations: allocations(nodes).ok_or_else(|| wrong(id, "a list of nodes", nodes))?,
            ..ListedJob::default()
        };
        if job.phase() == Phase::Ended {
            (job.started, job.ended) = (time(start)?.filter(|_| job.ever_started()), time(end)?);
            job.status = Some(status(exit).ok_or_else(|| wrong(id, "the end of a process", exit))?);
        }
        jobs.push(job);
    }
    Ok(jobs)
}

/// The fields of each record, with the mark behind each of them: names of jobs may have line ends.
fn records<'a, const FIELDS: usize>(
    command: &'static str,
    printed: &'a str,
    mark: &Mark,
) -> Result<Vec<[&'a str; FIELDS]>, Unreadable> {
    let mut fields: Vec<&str> = printed.split(mark.text()).collect();
    let rest = fields.pop().unwrap_or_default().trim();
    let (records, incomplete) = fields.as_chunks::<FIELDS>();
    match rest.is_empty() && incomplete.is_empty() {
        true => Ok(records.to_vec()),
        false => {
            Err(Unreadable::new(command, "its end", "whole records", incomplete.last().unwrap_or(&rest)))
        }
    }
}

/// `12`, `12_3` or `12+1`.
fn checked_id(command: &'static str, id: &str) -> Result<String, Unreadable> {
    match id.starts_with(|first: char| first.is_ascii_digit()) {
        true => Ok(id.to_owned()),
        false => Err(Unreadable::new(command, "a job", "a job's id", id)),
    }
}

/// The number of a job of ours, if its name says one; none if the job is another user's.
fn number(id: &str, name: &str, user: &str, who: &Submitter<u32>) -> Option<Option<u32>> {
    let user: u32 = user.parse().ok()?;
    match who.tagged(name).and_then(|tag| tag.number(id)) {
        Some(number) => who.is_of(number, &user).then_some(Some(number)),
        // Any other job of the server's own user; of an account, which has jobs beside ours, only one that has no name yet.
        None => (user == who.user || (name.is_empty() && who.is_known(&user))).then_some(None),
    }
}

fn allocations(list: &str) -> Option<Vec<NodeAllocation>> {
    if matches!(list, "" | "None assigned" | "(null)" | "n/a") {
        return Some(Vec::new());
    }
    Some(hostlist::expand(list)?.into_iter().map(|node| NodeAllocation::new(node, None)).collect())
}
