//! What a changed file does to the jobs of its server: found from the journal, whether the server runs or not.

use std::fmt;

use pliant_control::server::{ChangeEffect, Server};
use pliant_journal as journal;
use pliant_model::Procs;

use super::machine_config;
use crate::config::ServerFile;
use crate::host::{DaemonError, MachineError, MachineHost};

/// How often the journal is read, until its daemon has not replaced a snapshot meanwhile.
const TRIES: u32 = 3;

/// A change of the size or the policy of an embedded batch system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterChange {
    /// The processors in the journal, and in the file.
    pub procs: (Procs, Procs),
    /// The local policy in the journal, and in the file.
    pub batch: (String, String),
    /// Whether what orders by usage are set by differs.
    pub priority: bool,
    /// Whether what the host has besides processors differs.
    pub nodes: bool,
    /// What the change does to the jobs.
    pub effect: ChangeEffect,
}

/// The change from a server's journal to its file; none if the server was never started, or nothing changes.
///
/// # Errors
///
/// If the journal cannot be read, is another daemon's, or does not fit the file: the server would not start.
pub fn cluster_change(file: &ServerFile) -> Result<Option<ClusterChange>, DaemonError> {
    let mut tries = 1;
    let host = loop {
        match recovered(file) {
            Ok(host) => break host,
            Err(DaemonError::Machine(MachineError::Journal(_))) if tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    };
    let Some(host) = host.filter(|host| !host.is_new()) else { return Ok(None) };
    let (now, server) = (host.clock.now(), host.into_machine());
    let config = machine_config(file)?;
    let settings = file.priority();
    let priority = server.priority().is_some_and(|present| *present != settings);
    let Some((procs, policy, present)) = server.configuration() else { return Ok(None) };
    let nodes = present != config.host;
    if !priority && !nodes && (procs, &policy) == (config.procs, &config.policy) {
        return Ok(None);
    }
    let effect = server.try_configuration(now, &config, &settings);
    let (procs, batch) = ((procs, config.procs), (policy, config.policy));
    Ok(Some(ClusterChange { procs, batch, priority, nodes, effect }))
}

/// The server in the journal; none if there is no journal.
fn recovered(file: &ServerFile) -> Result<Option<MachineHost<Server>>, DaemonError> {
    if file.postgres.is_some() {
        // An external batch system has no configuration of ours.
        return Ok(None);
    }
    let Some(mut journal) = journal::open_sqlite_read_only(&file.state)? else { return Ok(None) };
    journal.claim(&owner(file))?;
    let (config, again) = (machine_config(file)?, machine_config(file)?);
    let host = MachineHost::of(
        journal,
        |_, now| Server::new(config, now).expect("the file was checked for the policy's name"),
        |state| Server::from_state(again, state).map_err(|error| error.to_string()),
    )?;
    Ok(Some(host))
}

/// The name of a server's journal.
pub(super) fn owner(file: &ServerFile) -> String {
    format!("server {}", file.name)
}

impl fmt::Display for ClusterChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClusterChange { procs: (before, procs), batch: (policy_before, policy), priority, nodes, effect } =
            self;
        let ChangeEffect { running, waiting, later, earlier, too_large } = *effect;
        let changes = [
            (before != procs).then(|| format!("procs {} -> {}", before.0, procs.0)),
            (policy_before != policy).then(|| format!("batch {policy_before} -> {policy}")),
            priority.then(|| "priority changed".to_owned()),
            nodes.then(|| "node changed".to_owned()),
        ];
        f.write_str(&changes.into_iter().flatten().collect::<Vec<_>>().join(", "))?;
        write!(
            f,
            ": {running} running jobs keep their processors, {later} of {waiting} waiting jobs start later"
        )?;
        if earlier > 0 {
            write!(f, ", {earlier} start earlier")?;
        }
        match too_large {
            0 => Ok(()),
            1 => write!(f, ", 1 needs more than the cluster has and waits until it has more"),
            _ => write!(f, ", {too_large} need more than the cluster has and wait until it has more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_described_with_its_effect() {
        let check = |procs: (u32, u32), batch: (&str, &str), priority, effect, expected: &str| {
            let procs = (Procs(procs.0), Procs(procs.1));
            let batch = (batch.0.to_owned(), batch.1.to_owned());
            assert_eq!(
                ClusterChange { procs, batch, priority, nodes: priority, effect }.to_string(),
                expected
            );
        };
        let effect = ChangeEffect { running: 3, waiting: 20, later: 7, earlier: 0, too_large: 1 };
        check(
            (4, 2),
            ("cbf", "cbf"),
            false,
            effect,
            "procs 4 -> 2: 3 running jobs keep their processors, 7 of 20 waiting jobs start later, 1 needs more than the \
             cluster has and waits until it has more",
        );
        let effect = ChangeEffect { running: 0, waiting: 4, later: 0, earlier: 2, too_large: 0 };
        check(
            (4, 8),
            ("cbf", "easy/f1"),
            true,
            effect,
            "procs 4 -> 8, batch cbf -> easy/f1, priority changed, node changed: 0 running jobs keep their processors, 0 of 4 waiting jobs start later, 2 \
             start earlier",
        );
    }
}
