//! Jobs as real processes: what they get, how they end, and that none is lost or run twice, whichever process is killed.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod scratch;

mod ends;
mod found_again;
mod gets;
mod limits;
mod resident;
mod started_once;
mod unreadable;

use std::path::PathBuf;

use pliant_site::processes::{run_resident, spawn, supervise};

use crate::scratch::{slow_supervisor, supervisor};

/// Not a test: this program started by another test, as the supervisor of the job in its last argument.
#[test]
#[ignore = "a supervisor, started by the other tests"]
fn as_supervisor() {
    if let Some(dir) = folder_argument() {
        let result = supervise(&dir);
        if let Err(error) = &result {
            eprintln!("error: {error}");
        }
        std::process::exit(i32::from(result.is_err()));
    }
}

/// Not a test: this program started by another test, as the supervisor of a resident process.
#[test]
#[ignore = "a supervisor, started by the other tests"]
fn as_resident() {
    if let Some(home) = folder_argument() {
        let result = run_resident(&home);
        std::process::exit(i32::from(result.is_err()));
    }
}

/// Not a test: a server that starts a job and then does nothing until it is killed.
#[test]
#[ignore = "a server, started by the other tests"]
fn as_server() {
    if let Some(dir) = folder_argument() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let command = if dir.join("slowly").exists() { slow_supervisor() } else { supervisor() };
        runtime.block_on(async {
            let _running = spawn(&command, &dir).unwrap();
            println!("spawned");
            std::future::pending::<()>().await;
        });
    }
}

fn folder_argument() -> Option<PathBuf> {
    std::env::args_os().map(PathBuf::from).next_back().filter(|last| last.is_absolute() && last.is_dir())
}
