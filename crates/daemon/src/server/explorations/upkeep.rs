//! What is done from time to time: shares are shown as metrics, and what is forgotten is removed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pliant_control::names::User;
use pliant_control::optional::server::{Event, TimedEvent, UserShare};
use pliant_model::TimeMs;
use pliant_policy::optional::unfairness;
use pliant_site::{FilesError, JobFolder};
use pliant_telemetry::names;
use pliant_wire::Shares;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Explorations, inputs, moment};
use crate::host::{Stopped, stopped};
use crate::server::execution::FolderKey;
use crate::server::upkeep::{Account, Removal};
use crate::server::user_metrics::{SHOWN_EVERY, USERS_SHOWN};

/// After how many such times it is looked for what can be thrown away.
const CLEANED_EVERY: u32 = 120;
/// How long a folder is left alone whose exploration is not known.
const FRESH: Duration = Duration::from_secs(600);

impl Explorations {
    /// The shares of all users or of one.
    pub(in crate::server) async fn shares(&self, of: Option<User>) -> Result<Shares, Stopped> {
        let (cores, clock) = (self.file.cores, self.clock);
        self.mailbox
            .ask(move |machine, _| {
                let at = moment(&clock).max(machine.at());
                let shares = machine.requests().shares(at);
                let wanted = |share: &UserShare| of.as_ref().is_none_or(|user| share.user == *user);
                Shares { users: shares.filter(wanted).collect(), cores, at }
            })
            .await
    }

    /// Goes on until the daemon is to stop.
    pub(super) async fn look_after(self, stop: watch::Receiver<bool>) {
        self.recount_inputs().await;
        let mut cleaning: Option<JoinHandle<()>> = None;
        for round in 0_u32.. {
            if round.is_multiple_of(CLEANED_EVERY) && cleaning.as_ref().is_none_or(JoinHandle::is_finished) {
                // What removes files as an account can take long.
                let own = self.clone();
                cleaning = Some(tokio::spawn(async move { own.clean().await }));
            }
            if let Ok(shares) = self.shares(None).await {
                show(&shares);
                if self.user_metrics {
                    show_users(&shares.users);
                }
            }
            tokio::select! {
                () = stopped(stop.clone()) => return,
                () = tokio::time::sleep(SHOWN_EVERY) => {}
            }
        }
    }

    /// Counts the input files of the explorations that were there before the server started.
    async fn recount_inputs(&self) {
        let known = self.mailbox.ask(|machine, _| {
            let requests = machine.requests();
            let owned = requests.explorations().filter_map(|key| Some((requests.owner(key)?.clone(), key)));
            owned.collect::<Vec<_>>()
        });
        let Ok(known) = known.await else { return };
        let host = &self.runner.host;
        for (user, exploration) in known {
            let of = inputs::uploads_of(&user, exploration);
            inputs::recount(&host.store, &of, &host.exploration_inputs(exploration)).await;
        }
    }

    /// Has the machine forget explorations that are long over, and removes the folders of those that it does not know.
    async fn clean(&self) {
        let timed = TimedEvent { at: moment(&self.clock), event: Event::Due };
        let Ok(()) = self.mailbox.send(timed) else { return };
        // Before the machine is asked: a folder is made for an exploration that it knows, or will know in a moment,
        // when the first request follows its input files.
        let folder = self.runner.host.explorations_dir();
        let listed = move || {
            // There is none before the first program.
            let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
            let named = |entry: fs::DirEntry| {
                let age = entry.metadata().and_then(|metadata| metadata.modified()).ok()?.elapsed();
                age.ok().filter(|age| *age >= FRESH)?;
                Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))
            };
            entries.flatten().filter_map(named).collect()
        };
        let found: Vec<(FolderKey, PathBuf)> = tokio::task::spawn_blocking(listed).await.unwrap_or_default();
        let known = self
            .mailbox
            .ask(|machine, _| machine.requests().explorations().map(FolderKey::of).collect::<BTreeSet<_>>());
        let Ok(known) = known.await else { return };
        let sorted = move || {
            let unknown = found.into_iter().filter(|(key, _)| !known.contains(key));
            unknown.map(|(_, dir)| removal(dir)).collect()
        };
        let left: Vec<(Account, Removal)> = tokio::task::spawn_blocking(sorted).await.unwrap_or_default();
        self.removals.remove(left, || async {}).await;
        let host = &self.runner.host;
        inputs::give_back_removed(&host.store, |exploration| host.exploration_inputs(exploration)).await;
    }
}

/// The removal of the folder of an exploration; all of its requests run as one account.
fn removal(dir: PathBuf) -> (Account, Removal) {
    let account = |entry: fs::DirEntry| Some(JobFolder::at(&entry.path()).ok()?.account()?.name.clone());
    let account = fs::read_dir(&dir).ok().and_then(|entries| entries.flatten().find_map(account));
    let name = dir.display().to_string();
    (account, Removal::new(name, move || removed(&dir).map(|()| true)))
}

/// Removes the folder of an exploration, with the files of its requests.
fn removed(dir: &Path) -> Result<(), FilesError> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    for entry in entries.flatten() {
        JobFolder::at(&entry.path())?.remove()?;
    }
    // The last folder is that of its input files, which has no account.
    JobFolder::at(dir)?.remove()
}

/// Shows metrics of all users together.
fn show(shares: &Shares) {
    let Shares { users, cores, at: TimeMs(_) } = shares;
    metrics::gauge!(names::OPTIONAL_CORES).set(f64::from(*cores));
    let all = || users.iter().map(|user| user.share);
    metrics::gauge!(names::OPTIONAL_UNFAIRNESS_RATIO).set(unfairness(all()));
    let unhappy = all().filter(|share| share.late > 0).count();
    metrics::gauge!(names::OPTIONAL_UNHAPPY_USERS).set(unhappy as f64);
}

/// Shows metrics of each user, by name.
fn show_users(users: &[UserShare]) {
    for UserShare { user, share } in users.iter().take(USERS_SHOWN) {
        let user = user.to_string();
        let (usage, fair_share) = (share.usage.seconds(), share.fair_share.seconds());
        for (name, value) in [
            (names::OPTIONAL_COMPLETED_REQUESTS, f64::from(share.completed)),
            (names::OPTIONAL_USEFUL_SECONDS, share.useful.seconds()),
            (names::OPTIONAL_KILLED_RUNS, f64::from(share.killed)),
            (names::OPTIONAL_LATE_REQUESTS, f64::from(share.late)),
        ] {
            metrics::gauge!(name, "user" => user.clone()).set(value);
        }
        metrics::gauge!(names::OPTIONAL_REQUESTS, "user" => user.clone()).set(f64::from(share.requests));
        metrics::gauge!(names::OPTIONAL_USAGE_SECONDS, "user" => user.clone()).set(usage);
        metrics::gauge!(names::OPTIONAL_FAIR_SHARE_SECONDS, "user" => user.clone()).set(fair_share);
        if let Some(satisfaction) = share.satisfaction() {
            metrics::gauge!(names::OPTIONAL_SATISFACTION_RATIO, "user" => user).set(satisfaction);
        }
    }
}
