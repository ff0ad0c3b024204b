//! Removes what is left of old jobs, with a budget for each account and cycle.
//!
//! What removes the files of an account runs as the account. Its user can stop it, and the file system of its folder can hang: then a
//! removal takes as long as the launcher waits for it, ten minutes. So the folders of an account are removed one after the other, several
//! accounts at a time, and no account takes more of a cycle than its budget. A removal that takes longer goes on, and its account is left
//! out until it has ended. Accounts that had such a removal, or one that failed, come after all others in the next cycle, and so do those
//! folders after the account's other ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_site::FilesError;
use pliant_site::accounts::AccountName;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

/// How much of a cycle the removals of an account may take.
const BUDGET: Duration = Duration::from_secs(120);
/// Of how many accounts folders are removed at the same time.
const AT_ONCE: usize = 4;

/// Whose files are removed: none is the server's own user.
pub(in crate::server) type Account = Option<AccountName>;

/// Something that is to be removed.
pub(in crate::server) struct Removal {
    name: String,
    remove: Box<dyn FnOnce() -> Result<bool, FilesError> + Send>,
}

impl Removal {
    /// `remove` blocks, and says whether it has removed something: it may find out that it is too early.
    pub(in crate::server) fn new(
        name: String,
        remove: impl FnOnce() -> Result<bool, FilesError> + Send + 'static,
    ) -> Removal {
        Removal { name, remove: Box::new(remove) }
    }
}

/// What is to be removed of an account.
type OfAccount = (Account, Vec<Removal>);

/// Removes, and remembers which accounts made trouble.
#[derive(Clone, Debug)]
pub(in crate::server) struct Removals {
    budget: Duration,
    troubles: Arc<Mutex<BTreeMap<Account, Trouble>>>,
}

/// What was not removed of an account in the last cycle.
#[derive(Clone, Default, Debug)]
struct Trouble {
    /// The names of the removals that failed, or took too long.
    names: BTreeSet<String>,
    /// One of them has not ended.
    is_busy: bool,
}

impl Default for Removals {
    fn default() -> Removals {
        Removals { budget: BUDGET, troubles: Arc::default() }
    }
}

impl Removals {
    /// One cycle: removes of each account what its budget allows. `may_go_on` is awaited before each removal.
    pub(in crate::server) async fn remove<F>(
        &self,
        left: Vec<(Account, Removal)>,
        may_go_on: impl Fn() -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let (troubled, others) = self.sorted(by_account(left));
        let mut under_way = JoinSet::new();
        for (account, removals) in others.into_iter().chain(troubled) {
            if under_way.len() >= AT_ONCE {
                under_way.join_next().await;
            }
            under_way.spawn(self.clone().of_account(account, removals, may_go_on.clone()));
        }
        while under_way.join_next().await.is_some() {}
    }

    /// The accounts that made trouble, without those that are busy, and the others. What made trouble comes last.
    fn sorted(&self, by_account: BTreeMap<Account, Vec<Removal>>) -> (Vec<OfAccount>, Vec<OfAccount>) {
        let mut troubles = self.troubles.lock();
        // An account that has nothing left to remove is forgotten.
        troubles.retain(|account, trouble| trouble.is_busy || by_account.contains_key(account));
        let is_busy = |account: &Account| troubles.get(account).is_some_and(|trouble| trouble.is_busy);
        let free = by_account.into_iter().filter(|(account, _)| !is_busy(account));
        let sorted = free.map(|(account, mut removals)| {
            if let Some(Trouble { names, .. }) = troubles.get(&account) {
                removals.sort_by_key(|removal| names.contains(&removal.name));
            }
            (account, removals)
        });
        sorted.partition(|(account, _)| troubles.contains_key(account))
    }

    /// Removes folders of an account one after the other, until its budget is used up.
    async fn of_account<F>(self, account: Account, removals: Vec<Removal>, may_go_on: impl Fn() -> F + Send)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let until = Instant::now() + self.budget;
        let mut trouble = Trouble::default();
        for Removal { name, remove } in removals {
            may_go_on().await;
            if Instant::now() >= until {
                trouble.names.insert(name);
                break;
            }
            let mut removing = tokio::task::spawn_blocking(remove);
            match timeout_at(until, &mut removing).await {
                Ok(Ok(Ok(false))) => {}
                Ok(Ok(Ok(true))) => tracing::info!(what = name, "what was left of a job is removed"),
                Ok(Ok(Err(error))) => {
                    tracing::warn!(%error, what = name, "cannot remove what is left of a job");
                    trouble.names.insert(name);
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, what = name, "removing what is left of a job failed");
                    trouble.names.insert(name);
                }
                Err(_) => {
                    tracing::warn!(what = name, "removing what is left of a job takes long");
                    trouble.names.insert(name);
                    trouble.is_busy = true;
                    self.note(&account, trouble);
                    self.forget_once_ended(account, removing);
                    return;
                }
            }
        }
        self.note(&account, trouble);
    }

    fn note(&self, account: &Account, trouble: Trouble) {
        let mut troubles = self.troubles.lock();
        if trouble.names.is_empty() {
            troubles.remove(account);
        } else {
            troubles.insert(account.clone(), trouble);
        }
    }

    /// Lets the account take part again once its removal has ended.
    fn forget_once_ended(self, account: Account, removing: JoinHandle<Result<bool, FilesError>>) {
        tokio::spawn(async move {
            if let Ok(Err(error)) = removing.await {
                tracing::warn!(%error, "cannot remove what is left of a job");
            }
            if let Some(trouble) = self.troubles.lock().get_mut(&account) {
                trouble.is_busy = false;
            }
        });
    }
}

fn by_account(left: impl IntoIterator<Item = (Account, Removal)>) -> BTreeMap<Account, Vec<Removal>> {
    let mut all: BTreeMap<Account, Vec<Removal>> = BTreeMap::new();
    for (account, removal) in left {
        all.entry(account).or_default().push(removal);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use pliant_staging::StagingError;

    /// What was done, in this order.
    type Log = Arc<Mutex<Vec<String>>>;

    fn account(name: &str) -> Account {
        Some(name.parse().unwrap())
    }

    fn works(log: &Log, of: &str, name: &str) -> (Account, Removal) {
        let (log, line) = (log.clone(), format!("{of} {name}"));
        let remove = move || {
            log.lock().push(line);
            Ok(true)
        };
        (account(of), Removal::new(name.to_owned(), remove))
    }

    fn fails(log: &Log, of: &str, name: &str) -> (Account, Removal) {
        let (log, line) = (log.clone(), format!("{of} {name}"));
        let remove = move || {
            log.lock().push(line);
            Err(StagingError::Missing { name: "a".parse().unwrap() }.into())
        };
        (account(of), Removal::new(name.to_owned(), remove))
    }

    /// A removal that lasts until the sender is dropped.
    fn stopped_removal(of: &str, name: &str) -> ((Account, Removal), mpsc::Sender<()>) {
        let (go, wait) = mpsc::channel();
        let remove = move || {
            let _ = wait.recv();
            Ok(true)
        };
        ((account(of), Removal::new(name.to_owned(), remove)), go)
    }

    async fn cycle(removals: &Removals, left: Vec<(Account, Removal)>) {
        removals.remove(left, || std::future::ready(())).await;
    }

    fn taken(log: &Log) -> Vec<String> {
        std::mem::take(&mut log.lock())
    }

    fn impatient() -> Removals {
        Removals { budget: Duration::from_millis(300), ..Removals::default() }
    }

    /// More accounts are stopped than are served at once, and none of the others waits for more than the budgets.
    #[tokio::test]
    async fn users_who_stop_their_removals_delay_nobody_elses() {
        let (removals, log) = (impatient(), Log::default());
        let (mut left, mut gates) = (Vec::new(), Vec::new());
        for number in 0..AT_ONCE + 1 {
            let (removal, gate) = stopped_removal(&format!("a{number}"), "stopped");
            left.extend([removal, works(&log, &format!("a{number}"), "next")]);
            gates.push(gate);
        }
        left.extend([works(&log, "bob", "one"), works(&log, "bob", "two")]);
        let begun = Instant::now();
        cycle(&removals, left).await;
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        assert_eq!(taken(&log), ["bob one", "bob two"]);
        // As long as one lasts, nothing else of its account is begun: each keeps one thread.
        cycle(&removals, vec![works(&log, "a0", "next"), works(&log, "bob", "three")]).await;
        assert_eq!(taken(&log), ["bob three"]);
        drop(gates);
        let mut tries = 0;
        while removals.troubles.lock().values().any(|trouble| trouble.is_busy) {
            tries += 1;
            assert!(tries < 1_000, "the removals have ended");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Behind the others, and what took long behind the rest.
        let left = ["a0 stopped", "a0 next", "bob four"].map(|line| {
            let (of, name) = line.split_once(' ').unwrap();
            works(&log, of, name)
        });
        let one_by_one = removals.sorted(by_account(left));
        assert_eq!(names(&one_by_one.1), ["bob: four"]);
        assert_eq!(names(&one_by_one.0), ["a0: next stopped"]);
    }

    #[tokio::test]
    async fn what_fails_keeps_the_same_account_from_nothing() {
        let (removals, log) = (Removals::default(), Log::default());
        let left = || vec![fails(&log, "alice", "broken"), works(&log, "alice", "fine")];
        cycle(&removals, left()).await;
        assert_eq!(taken(&log), ["alice broken", "alice fine"]);
        cycle(&removals, left()).await;
        assert_eq!(taken(&log), ["alice fine", "alice broken"]);
        cycle(&removals, vec![works(&log, "alice", "broken")]).await;
        assert!(removals.troubles.lock().is_empty(), "it is forgotten once it works");
        cycle(&removals, left()).await;
        cycle(&removals, Vec::new()).await;
        assert!(removals.troubles.lock().is_empty(), "nothing is left of the account");
    }

    fn names(accounts: &[OfAccount]) -> Vec<String> {
        let names = |removals: &[Removal]| {
            removals.iter().map(|removal| removal.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let line =
            |(account, removals): &OfAccount| format!("{}: {}", account.as_ref().unwrap(), names(removals));
        accounts.iter().map(line).collect()
    }
}
