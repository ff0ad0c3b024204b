//! How jobs ended: by sacct where Slurm keeps accounts, by squeue for as long as the controller remembers.

use pliant_control::listing::{CoreLayout, ListedJob, NodeAllocation, Phase};

use super::hostlist;
use super::states::{instant, state, status};
use crate::batch_system::error::Unreadable;
use crate::batch_system::submitter::Submitter;

/// The fields of sacct; the name, which others write freely, comes last.
pub(super) const ACCOUNTS: &str =
    "JobID,State,ExitCode,Submit,Start,End,UID,NCPUS,Partition,NodeList,JobName";
/// The fields of squeue that `-o` does not have: what a job's process ended with. The name comes last here, too.
pub(super) const EXITS: &str = "jobarrayid:0\u{1f},state:0\u{1f},exit_code:0\u{1f},starttime:0\u{1f},endtime:0\u{1f},\
                                nodelist:0\u{1f},userid:0\u{1f},name:0\u{1f}";

/// Reads what sacct printed: the jobs of our users. Not all have a name: of a short job the accounts may hear the end
/// before the beginning.
pub(super) fn read_accounts(printed: &str, who: &Submitter<u32>) -> Result<Vec<ListedJob>, Unreadable> {
    let wrong = |location: &str, expected, found: &str| Unreadable::new("sacct", location, expected, found);
    let mut jobs = Vec::new();
    for (index, line) in printed.lines().enumerate() {
        let fields: Vec<&str> = line.splitn(11, '\u{1f}').collect();
        let &[id, word, exit, submit, start, end, user, cores, partition, nodes, name] = fields.as_slice()
        else {
            if index == 0 {
                return Err(wrong("a job", "11 fields", line));
            }
            // The rest of a name with a line end in it, which is no name of Pliant's.
            continue;
        };
        let Some(job_number) = number(id, name, user, who) else { continue };
        let time = |text: &str| instant(text).ok_or_else(|| wrong(id, "seconds", text));
        let mut job = ListedJob {
            id: id.to_owned(),
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

/// Reads what squeue printed in [`EXITS`]: the jobs of our users. Ids begin anew where a controller's state was lost.
pub(super) fn read_exits(printed: &str, who: &Submitter<u32>) -> Result<Vec<ListedJob>, Unreadable> {
    let wrong = |location: &str, expected, found: &str| Unreadable::new("squeue", location, expected, found);
    let mut jobs = Vec::new();
    for line in printed.lines() {
        let fields: Vec<&str> = line.splitn(8, '\u{1f}').collect();
        let &[id, word, exit, start, end, nodes, user, name] = fields.as_slice() else {
            return Err(wrong("a job", "8 fields", line));
        };
        let Some(job_number) = number(id, name.trim_end_matches('\u{1f}'), user, who) else { continue };
        let time = |text: &str| instant(text).ok_or_else(|| wrong(id, "seconds", text));
        let mut job = ListedJob {
            id: id.to_owned(),
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
    Some(hostlist::expand(list)?.into_iter().map(|node| NodeAllocation { node, cores: None }).collect())
}
