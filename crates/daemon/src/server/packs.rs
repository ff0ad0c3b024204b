//! How long the longest instance of a pack took, told to the machine before it is told that the pack is over.

use std::path::PathBuf;

use pliant_control::server::{Event, Server};
use pliant_model::JobId;
use pliant_site::processes::longest_of_pack;

use crate::host::Mailbox;

/// Tells the machine, if it wants to know that of a job. Where the pack has left no word of it nothing is learned.
pub(super) async fn tell(mailbox: &Mailbox<Server>, dir: PathBuf, job: JobId) {
    let JobId(number) = job;
    if !mailbox.ask(move |server, _| server.wants_longest(number)).await.unwrap_or(false) {
        return;
    }
    let longest = tokio::task::spawn_blocking(move || longest_of_pack(&dir)).await;
    if let Ok(Some(ms)) = longest {
        // A server that has stopped finds out when it starts again.
        let _ = mailbox.tell(Event::Longest { number, ms });
    }
}
