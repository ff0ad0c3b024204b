//! All tasks on this machine, as `pliant launch` would start them: each a process with its neighbours in its environment.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::Duration;

use crate::Failure;
use crate::film::Film;
use crate::place::{ADDRESS, PEERS, TASK, neighbours, tasks};

/// The tasks that run; whatever happens, none outlives this.
struct Running(Vec<(&'static str, Child)>);

impl Drop for Running {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // One that has ended is no failure here.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs all tasks until the film is made, or the first one fails.
pub(crate) fn run(film: &Film) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let addresses = free_addresses()?;
    let mut running = Running(Vec::new());
    for task in tasks() {
        let peers: Vec<String> = neighbours(task).map(|name| format!("{name}={}", addresses[name])).collect();
        let mut command = Command::new(&program);
        command.arg("task").args(["--frames", &film.frames.to_string(), "--width", &film.width.to_string()]);
        command.args(["--gop", &film.gop.to_string(), "--out"]).arg(&film.out);
        command.env(TASK, task).env(ADDRESS, &addresses[task]).env(PEERS, peers.join(" "));
        running.0.push((task, command.spawn()?));
    }
    while !running.0.is_empty() {
        let mut left = Vec::new();
        for (task, mut child) in std::mem::take(&mut running.0) {
            match child.try_wait()? {
                None => left.push((task, child)),
                Some(status) if status.success() => {}
                Some(status) => {
                    running.0.extend(left);
                    return Err(format!("task {task} ended with {status}").into());
                }
            }
        }
        running.0 = left;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// A free port of this machine for each task.
fn free_addresses() -> Result<BTreeMap<&'static str, String>, Failure> {
    let listen = |task| Ok((task, TcpListener::bind("127.0.0.1:0")?));
    // All are taken before the first is given back, so that no two are the same.
    let listeners = tasks().into_iter().map(listen).collect::<Result<Vec<_>, Failure>>()?;
    let address =
        |(task, listener): (&'static str, TcpListener)| Ok((task, listener.local_addr()?.to_string()));
    listeners.into_iter().map(address).collect()
}
