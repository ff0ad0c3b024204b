//! The rooms of copies that wait here: what is decided there, and who has come ([`processes::await_consent`]).
//!
//! A listing shows that the batch system has started a copy, and that is its turn. It is wanted at once and not when the
//! period is over, since processors are kept meanwhile: so whoever has come to a room has a new listing made.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pliant_control::batch::foreign::Event;
use pliant_model::JobId;
use pliant_site::processes::{self, StartGate, StartPermit};
use tokio::sync::{Notify, watch};

use super::folders::Unready;
use super::{Cluster, Job};
use crate::host::stopped;
use crate::server::execution::{Host, Retry};

/// Between two looks who has come.
const LOOK: Duration = Duration::from_millis(250);

/// Has a new listing made whenever somebody has come to a room.
pub(super) async fn watch_rooms(host: Host, news: Arc<Notify>, stop: watch::Receiver<bool>) {
    let mut known = BTreeSet::new();
    loop {
        tokio::select! {
            () = stopped(stop.clone()) => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let (host, before) = (host.clone(), std::mem::take(&mut known));
        let looked = tokio::task::spawn_blocking(move || look(&host, before)).await;
        let Ok((now_known, has_come)) = looked else { continue };
        known = now_known;
        if has_come {
            news.notify_one();
        }
    }
}

/// Which rooms there are that need no further look, and whether somebody has come to one of those that did.
fn look(host: &Host, mut known: BTreeSet<u32>) -> (BTreeSet<u32>, bool) {
    let rooms = host.gates();
    let mut somebody = false;
    for number in &rooms {
        if !known.contains(number)
            && let Some(has_come) = processes::has_come(&host.gate(*number))
        {
            known.insert(*number);
            somebody |= has_come;
        }
    }
    known.retain(|number| rooms.contains(number));
    (known, somebody)
}

impl Cluster {
    fn room(&self, job: &Job) -> PathBuf {
        self.around.host.gate(job.number)
    }

    /// Makes the room of a copy, or of a part of a launch, and gives what runs there: a supervisor that waits.
    pub(super) async fn furnished(&self, job: &Job, dir: &Path) -> Result<(PathBuf, Vec<OsString>), String> {
        let room = self.room(job);
        let (made, terms) = (room.clone(), job.execution.as_ref().and_then(|execution| execution.gate()));
        self.until_ready(job.number, move || furnish(&made, terms.as_ref())).await?;
        let mut program: Vec<OsString> = self.around.supervisor.to_vec();
        program.extend([OsString::from("--room"), room.clone().into(), dir.into()]);
        Ok((room, program))
    }

    /// Lets a copy go on, if somebody still waits for that or will.
    pub(super) async fn let_go_on(&self, job: &Job) -> Event {
        let number = JobId(job.number);
        let mut retry = Retry::new("let a job go on", &job.number);
        loop {
            match self.decided(job, StartPermit::Given).await {
                Ok(StartPermit::Given) => return Event::Released { job: number },
                Ok(StartPermit::Refused) => {
                    tracing::info!(job = job.number, "was let go on too late: queued anew");
                    return Event::Missed { job: number };
                }
                Err(error) => retry.after(&error).await,
            }
        }
    }

    /// Has whoever waits in a job's room give up, or comes there later. Nothing else waits for that: they do by themselves.
    pub(super) async fn refuse(&self, job: &Job) {
        if let Err(error) = self.decided(job, StartPermit::Refused).await {
            tracing::warn!(job = job.number, %error, "cannot tell a supervisor to give up: it does soon");
        }
    }

    /// A room that is gone decides that nothing is run.
    async fn decided(&self, job: &Job, consent: StartPermit) -> io::Result<StartPermit> {
        let room = self.room(job);
        let decided = tokio::task::spawn_blocking(move || match processes::decide(&room, consent) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(StartPermit::Refused),
            decided => decided,
        });
        decided.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Removes the room of a job that does not run here, if it has one.
    pub(super) async fn clear(&self, job: &Job) {
        let room = self.room(job);
        let cleared = tokio::task::spawn_blocking(move || remove(&room)).await;
        if let Ok(Err(error)) = cleared {
            tracing::warn!(job = job.number, %error, "cannot remove the room of a copy");
        }
    }
}

fn furnish(room: &Path, terms: Option<&StartGate>) -> Result<(), Unready> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(room);
    let made = made.and_then(|()| terms.map_or(Ok(()), |terms| terms.write(room)));
    made.map_err(|error| match pliant_staging::may_pass(&error) {
        true => Unready::Passing(error.to_string()),
        false => Unready::Lasting(format!("there is no room for it: {error}")),
    })
}

/// Removes a room. Whoever looks meanwhile finds it decided or gone.
pub(in crate::server) fn remove(room: &Path) -> io::Result<()> {
    match processes::decide(room, StartPermit::Refused) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        // What was decided stands until the room is gone.
        Ok(_) | Err(_) => {}
    }
    // Under another name it is gone at once, and not file by file.
    let aside = room.with_extension("gone");
    if aside.exists() {
        fs::remove_dir_all(&aside)?;
    }
    fs::rename(room, &aside)?;
    fs::remove_dir_all(aside)
}
