//! How the tasks of a part end: what the part has written down, told to the machine as soon as it is there, and in any case
//! before the machine is told that the part is over. What it knows already it is not told again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pliant_control::coallocation::{PartId, Standing};
use pliant_control::server::{Event, PartEvent, Server};
use pliant_site::processes::{TaskEnd, task_ends, task_ends_length};

use crate::host::Mailbox;
use crate::server::driver::exit_of;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// After so many looks without news is asked whether the part is still there.
const LOOKS: u32 = 50;

/// Tells the machine of ends as they come, until nothing of the part is left.
pub(in crate::server) async fn follow(mailbox: Mailbox<Server>, dir: PathBuf, id: PartId) {
    let (mut seen, mut looks) = (0, 0);
    loop {
        tokio::time::sleep(LOOK).await;
        looks += 1;
        let there = dir.clone();
        let length = tokio::task::spawn_blocking(move || task_ends_length(&there)).await.unwrap_or(seen);
        if length == seen && looks < LOOKS {
            continue;
        }
        looks = 0;
        match tell(&mailbox, &dir, &id).await {
            ReportOutcome::All => seen = length,
            ReportOutcome::NotNow => {}
            ReportOutcome::TooLate => return,
        }
    }
}

/// What came of telling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::server) enum ReportOutcome {
    /// The machine knows all of them.
    All,
    /// What there is cannot be read at the moment.
    NotNow,
    /// The part does not run, or not any more.
    TooLate,
}

/// Tells the machine of all ends that it does not know.
pub(in crate::server) async fn tell(mailbox: &Mailbox<Server>, dir: &Path, id: &PartId) -> ReportOutcome {
    let wanted = id.clone();
    let known = match mailbox.ask(move |server, _| server.part_standing(&wanted)).await {
        Ok(Standing::Runs { ended }) => ended,
        Ok(Standing::Committed) => BTreeMap::new(),
        Ok(_) | Err(_) => return ReportOutcome::TooLate,
    };
    let (there, shown) = (dir.to_owned(), dir.display().to_string());
    let ends = match tokio::task::spawn_blocking(move || task_ends(&there)).await {
        Ok(Ok(ends)) => ends,
        Ok(Err(error)) => {
            tracing::warn!(%error, dir = shown, "cannot see how the tasks of a part ended");
            return ReportOutcome::NotNow;
        }
        Err(_) => return ReportOutcome::NotNow,
    };
    for TaskEnd { task, outcome, .. } in ends.into_iter().filter(|end| !known.contains_key(&end.task)) {
        let exit = exit_of(outcome);
        tracing::info!(part = %id, task, %exit, "a task has ended");
        if mailbox.tell(Event::Part(PartEvent::TaskEnded { id: id.clone(), task, exit })).is_err() {
            return ReportOutcome::TooLate;
        }
    }
    ReportOutcome::All
}
