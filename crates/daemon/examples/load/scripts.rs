//! Waiting jobs with scripts of 1 MiB: the memory of their server and the size of its state, also once they were cancelled.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pliant_client::SubmitOrder;
use pliant_control::job::{JobState, Work};
use pliant_control::names::Key;
use pliant_model::{Procs, Span, Speedup};
use pliant_transport::Role;
use pliant_wire::{Script, SubmittedWork};

use crate::Outcome;
use crate::federation::{Daemons, Federation, attached};
use crate::figures::POLL_INTERVAL;
use crate::submits::{Fillers, PROCS, fill};

const SERVER: &str = "lyon";
const USERS: usize = 8;
const JOBS: usize = 200;
const SCRIPT_BYTES: usize = 1 << 20;
/// Longer than an ended job stays in the memory of a server.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(70);

pub(crate) async fn measure(dir: &Path) -> Outcome<()> {
    let federation = Federation::new(dir)?;
    let fillers = Fillers(vec![federation.path(SERVER)]);
    let agent = Daemons::start(&[federation.agent("master", None)?])?;
    let address = agent.addresses[0].clone();
    let file = federation.server(SERVER, &address, &format!("procs = {PROCS}"))?;
    let server = Daemons::start(std::slice::from_ref(&file))?;
    let operator = federation.client(Role::Operator, "operator", &address)?;
    attached(&operator, 1).await?;
    fill(&operator, &[SERVER]).await?;
    let clients = (0..USERS).map(|user| federation.client(Role::User, &format!("user{user}"), &address));
    let clients = clients.collect::<Outcome<Vec<_>>>()?;
    let state = federation.path(SERVER).join("state");

    let mut waiting = Vec::new();
    println!("scripts: {JOBS} jobs of {USERS} users with scripts of {SCRIPT_BYTES} bytes at a server");
    print_sizes("before", &server, &state)?;
    for number in 0..JOBS {
        let client = &clients[number % USERS];
        waiting.push((client, client.submit(&order(number)?, |_| Ok(())).await?.handle));
    }
    print_sizes("waiting", &server, &state)?;
    for (client, handle) in &waiting {
        client.cancel(handle).await?;
        while client.job(handle).await?.state != JobState::Canceled {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    print_sizes("cancelled", &server, &state)?;
    tokio::time::sleep(FORGOTTEN_AFTER).await;
    print_sizes("70 s later", &server, &state)?;
    server.stop()?;
    let server = Daemons::start(std::slice::from_ref(&file))?;
    print_sizes("after a restart", &server, &state)?;
    drop(fillers);
    Ok(())
}

/// A job that waits behind the one that fills the cluster.
fn order(number: usize) -> Outcome<SubmitOrder> {
    let mut text = format!("#!/bin/sh\nexit 0\n# {number} ").into_bytes();
    text.resize(SCRIPT_BYTES, b'x');
    let work = Work::new(Procs(PROCS), Span(600), Speedup::Rigid);
    let script = Script::new("large.sh".to_owned(), text.into(), work);
    let key = Key((number as u128 + 1).to_be_bytes());
    let order = SubmitOrder::new(key, SubmittedWork::Script(script));
    Ok(SubmitOrder { only: Some(SERVER.parse()?), timeout: Duration::from_secs(30), ..order })
}

fn print_sizes(when: &str, server: &Daemons, state: &Path) -> Outcome<()> {
    let (present, most) = server.cost()?.resident_mb;
    let disk = bytes_of(state)? / 1_000_000;
    println!("  {when}: {present} MB resident, {most} MB at most, {disk} MB in its state folder");
    Ok(())
}

/// The bytes of all files below a folder.
fn bytes_of(folder: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = fs::symlink_metadata(entry.path())?;
        bytes += if metadata.is_dir() { bytes_of(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
