//! Any text in place of what Slurm's commands print: it is read or refused, and nothing panics. Tests and the fuzzer share it.

use std::collections::BTreeMap;

use pliant_control::listing::ListedJob;

use super::configuration::ClusterConfiguration;
use super::mark::Mark;
use super::queue;
use super::{accounts, error, hostlist, nodes};
use crate::batch_system::commands::Call;
use crate::batch_system::error::{Unreadable, fit_to_show};
use crate::batch_system::submitter::{Submitter, Submitters};

/// The nodes that each job has.
const NODES_MAX: usize = 100;
/// The mark of the captured output.
const MARK: &str = "\u{1e}mark";

fn who() -> Submitter<u32> {
    Submitter { prefix: "pliant:rennes:".to_owned(), user: 0, accounts: Submitters::default() }
}

/// Fields that are read are fit to be shown and to be planned with.
fn jobs(read: Result<Vec<ListedJob>, Unreadable>) {
    match read {
        Ok(jobs) => jobs.iter().for_each(|job| assert!(!job.id.is_empty())),
        Err(unreadable) => fit_to_show(&unreadable),
    }
}

/// What squeue prints of all jobs.
pub fn queue(text: &str) {
    match queue::read(text, &Mark::fixed(MARK), &who()) {
        Ok(queue) => jobs(Ok(queue.jobs)),
        Err(unreadable) => fit_to_show(&unreadable),
    }
}

/// What sacct and squeue print of jobs that ended.
pub fn accounts(text: &str) {
    let mark = &Mark::fixed(MARK);
    match accounts::read_names(text, mark) {
        Ok(names) => jobs(accounts::read_accounts(text, &names, &who())),
        Err(unreadable) => fit_to_show(&unreadable),
    }
    jobs(accounts::read_accounts(text, &BTreeMap::new(), &who()));
    jobs(accounts::read_exits(text, mark, &who()));
}

/// What sinfo and scontrol print of nodes, jobs and the configuration; and what any command prints when it fails.
pub fn nodes(text: &str) {
    if let Err(unreadable) = nodes::read(text) {
        fit_to_show(&unreadable);
    }
    let ids = text.split("JobId=").filter_map(|rest| rest.split([' ', '\n']).next());
    let spreads = nodes::spreads(text, &ids.map(|id| (id, NODES_MAX)).collect());
    assert!(spreads.values().all(|spread| (1..=NODES_MAX).contains(&spread.len())));
    if let Err(unreadable) = ClusterConfiguration::read(text) {
        fit_to_show(&unreadable);
    }
    let _ = hostlist::expand(text);
    let _ = error::failed(&Call::new("sbatch", &[]), 1, text).to_string();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::batch_system::damaged::damaged;

    const PRINTED: &[&str] = &[
        include_str!("tests/captured/sacct.txt"),
        include_str!("tests/captured/sacct-names.txt"),
        include_str!("tests/captured/scontrol-config.txt"),
        include_str!("tests/captured/scontrol-jobs.txt"),
        include_str!("tests/captured/sinfo.txt"),
        include_str!("tests/captured/squeue-exits.txt"),
        include_str!("tests/captured/squeue.txt"),
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn damaged_output_is_read_or_refused(text in damaged(PRINTED)) {
            super::queue(&text);
            super::accounts(&text);
            super::nodes(&text);
        }
    }
}
