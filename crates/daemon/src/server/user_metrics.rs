//! Metrics of jobs by user, if the server's file asks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::{Handle, User};
use pliant_control::server::{Server, WaitingOfUser};
use pliant_model::Procs;
use pliant_telemetry::names;
use tokio::sync::watch;

use crate::host::{Mailbox, stopped};

/// How often metrics by user are brought up to date.
pub(super) const SHOWN_EVERY: Duration = Duration::from_secs(5);
/// Of how many users metrics are shown: each is a time series that stays.
pub(super) const USERS_SHOWN: usize = 1_000;

/// What the users of a server have running, and of whom metrics are shown.
#[derive(Clone, Default)]
pub(super) struct UserMetrics(Arc<Mutex<Jobs>>);

#[derive(Default)]
struct Jobs {
    running: BTreeMap<Handle, (User, Procs)>,
    shown: BTreeSet<User>,
}

/// What a user has at the server.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Present {
    waiting: u32,
    waiting_bytes: u64,
    running: u32,
    procs: u32,
}

impl UserMetrics {
    /// A job of the server has changed.
    pub(super) fn note(&self, record: &JobRecord) {
        self.0.lock().note(record);
    }

    /// Goes on until the daemon is to stop.
    pub(super) async fn run(self, mailbox: Mailbox<Server>, stop: watch::Receiver<bool>) {
        let of = self.clone();
        let running = move |server: &mut Server, _| server.running().for_each(|(record, ..)| of.note(record));
        let mut is_open = mailbox.ask(running).await.is_ok();
        while is_open {
            match mailbox.ask(|server, _| server.waiting_by_user().collect::<Vec<_>>()).await {
                Ok(waiting) => self.0.lock().show(&waiting),
                Err(_) => is_open = false,
            }
            tokio::select! {
                () = stopped(stop.clone()) => return,
                () = tokio::time::sleep(SHOWN_EVERY) => {}
            }
        }
    }
}

impl Jobs {
    fn note(&mut self, record: &JobRecord) {
        if record.state == JobState::Active {
            self.running.insert(record.handle.clone(), (record.owner.clone(), record.procs));
            return;
        }
        let was_running = self.running.remove(&record.handle).is_some();
        let lasted = record.started.zip(record.ended).map(|(started, ended)| (ended - started).0);
        if let (true, Some(Ok(lasted))) = (was_running, lasted.map(u64::try_from))
            && self.is_shown(&record.owner)
        {
            let user = record.owner.to_string();
            let seconds = lasted.saturating_mul(u64::from(record.procs.0));
            metrics::counter!(names::USER_PROCESSOR_SECONDS, "user" => user).increment(seconds);
        }
    }

    /// True if metrics of a user are shown: those of the first users that have something there.
    fn is_shown(&mut self, user: &User) -> bool {
        if self.shown.len() < USERS_SHOWN && !self.shown.contains(user) {
            self.shown.insert(user.clone());
        }
        self.shown.contains(user)
    }

    /// What each user has whose metrics are shown: nothing, if it was more before.
    fn present(&mut self, waiting: &[WaitingOfUser]) -> BTreeMap<User, Present> {
        let running: Vec<(User, Procs)> = self.running.values().cloned().collect();
        for user in waiting.iter().map(|one| &one.user).chain(running.iter().map(|(user, _)| user)) {
            self.is_shown(user);
        }
        let mut present: BTreeMap<User, Present> =
            self.shown.iter().map(|user| (user.clone(), Present::default())).collect();
        for WaitingOfUser { user, jobs, bytes } in waiting {
            if let Some(present) = present.get_mut(user) {
                (present.waiting, present.waiting_bytes) = (*jobs, *bytes);
            }
        }
        for (user, procs) in running {
            if let Some(present) = present.get_mut(&user) {
                present.running += 1;
                present.procs += procs.0;
            }
        }
        present
    }

    fn show(&mut self, waiting: &[WaitingOfUser]) {
        for (user, Present { waiting, waiting_bytes, running, procs }) in self.present(waiting) {
            let user = user.to_string();
            for (state, count) in [(JobState::Queued, waiting), (JobState::Active, running)] {
                let labels = [("user", user.clone()), ("state", state.word().to_owned())];
                metrics::gauge!(names::USER_JOBS, &labels).set(f64::from(count));
            }
            metrics::gauge!(names::USER_PROCESSORS, "user" => user.clone()).set(f64::from(procs));
            metrics::gauge!(names::USER_WAITING_BYTES, "user" => user).set(waiting_bytes as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::Time;

    use super::*;
    use crate::test_job::waiting_job;

    fn user(name: &str) -> User {
        name.parse().unwrap()
    }

    #[test]
    fn the_metrics_of_a_user_return_to_zero() {
        let mut jobs = Jobs::default();
        let runs = JobRecord { state: JobState::Active, started: Some(Time(10)), ..waiting_job() };
        jobs.note(&runs);
        jobs.note(&runs);
        let waits = [WaitingOfUser { user: user("bob"), jobs: 3, bytes: 99 }];
        let running = Present { running: 1, procs: runs.procs.0, ..Present::default() };
        let waiting = Present { waiting: 3, waiting_bytes: 99, ..Present::default() };
        let expected = BTreeMap::from([(runs.owner.clone(), running), (user("bob"), waiting)]);
        assert_eq!(jobs.present(&waits), expected);
        jobs.note(&JobRecord { state: JobState::Completed, ended: Some(Time(20)), ..runs.clone() });
        let nothing = BTreeMap::from([runs.owner, user("bob")].map(|user| (user, Present::default())));
        assert_eq!(jobs.present(&[]), nothing);
    }

    #[test]
    fn only_so_many_users_have_metrics() {
        let mut jobs = Jobs::default();
        let of = |number| WaitingOfUser { user: user(&format!("u{number}")), jobs: 1, bytes: 1 };
        let waiting: Vec<WaitingOfUser> = (0..USERS_SHOWN + 10).map(of).collect();
        assert_eq!(jobs.present(&waiting).len(), USERS_SHOWN);
    }
}
