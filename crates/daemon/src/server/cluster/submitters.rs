//! As which accounts jobs are submitted: noted before anything is done for a job in the batch system.

use pliant_control::server::Server;
use pliant_site::Submitters;
use pliant_site::accounts::{Account, AccountName};

use super::{Cluster, Job};
use crate::server::execution::{Execution, Host, Program, Retry};

impl Cluster {
    /// Notes as which account a job is submitted, if it is one.
    ///
    /// # Errors
    /// There is no such account any more.
    pub(super) async fn noted(&self, job: &Job) -> Result<(), String> {
        match job.account() {
            Some(account) => note(&self.host.submitters, job.number, account).await,
            None => Ok(()),
        }
    }
}

/// Notes as which account a job is submitted, as soon as the name service and the disk allow it.
///
/// # Errors
/// There is no such account any more.
pub(super) async fn note(submitters: &Submitters, number: u32, account: &AccountName) -> Result<(), String> {
    // What was chosen stays, even if the name means another account by now.
    if submitters.account(number).is_some_and(|noted| noted.name == *account) {
        return Ok(());
    }
    let mut retry = Retry::new("look up the account of a job", &number);
    loop {
        let (submitters, account) = (submitters.clone(), account.clone());
        let noted = tokio::task::spawn_blocking(move || match Account::find(&account)? {
            Some(found) => submitters.note(number, found).map(|()| true),
            None => Ok(false),
        });
        match noted.await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => return Err("its account does not exist on the cluster any more".to_owned()),
            Ok(Err(error)) => retry.after(&error).await,
            Err(error) => retry.after(&error).await,
        }
    }
}

/// The jobs of accounts that a machine knows, by their numbers in the batch system.
pub(super) fn known(host: &Host, machine: &Server) -> Vec<(u32, AccountName)> {
    let jobs = machine.jobs().filter_map(|job| machine.number_of(&job.handle));
    let subjobs = machine.subjobs().map(|(_, number, _)| number);
    let prepared = machine.prepared_numbers();
    let numbers = jobs.chain(subjobs).chain(prepared);
    numbers.filter_map(|number| Some((number, account_of(host, machine, number)?.parse().ok()?))).collect()
}

/// The name of the account of a job that a machine knows or has prepared; none if it is the server's own.
pub(super) fn account_of(host: &Host, machine: &Server, number: u32) -> Option<String> {
    let of_execution = || {
        let execution = Execution::of_number(host, machine, pliant_model::JobId(number))?;
        execution.account().unwrap_or_else(|error| {
            tracing::error!(job = number, error = error.reason, "cannot see as whom a job runs");
            None
        })
    };
    match machine.prepared_payload(number) {
        Some(payload) => payload.read::<Program>().ok()?.account,
        None => of_execution(),
    }
}
