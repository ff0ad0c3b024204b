//! What is left of jobs of accounts whose launcher is a shell script.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::*;
use crate::processes::limits::JobLimits;
use crate::processes::spec::RunSpec;
use crate::processes::streams::Streams;
use crate::processes::table::Process;

/// As of an account that has as many processes as it may have: it runs no program, and a signal needs none.
#[test]
fn the_group_of_a_job_is_killed_though_nothing_runs_as_its_account() {
    let scratch = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let group = i32::try_from(child.id()).unwrap();
    let launcher = scratch.path().join("launcher");
    let lines = format!(
        "request=$(tr -c 'a-z0-9-' ' ')\ncase $request in *signal*kill*-{group}*) echo > {}; exec kill -9 -- -{group} ;; esac\n\
         echo 'pliant-launcher: cannot run: Resource temporarily unavailable' >&2; exit 123",
        scratch.path().join("signalled").display()
    );
    fs::write(&launcher, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
    let account = AccountRun {
        name: "alice".parse().unwrap(),
        folder: scratch.path().to_owned(),
        launcher,
        pliant: "/pliant".into(),
        processes_max: None,
        has_records: false,
        guard: None,
    };
    let spec = RunSpec {
        program: vec!["true".into()],
        account: Some(account),
        env: BTreeMap::new(),
        walltime_s: 1,
        grace_s: 1,
        cores: None,
        cpu_share: None,
        max_output_bytes: 0,
        folder: None,
        streams: Streams::default(),
        limits: JobLimits::default(),
        keeps_user: false,
    };
    let records = scratch.path().join("records");
    spec.write(&records).unwrap();
    let started = Started {
        supervisor: 1,
        group: Some(group),
        cgroup: None,
        leader_ticks: Process::read(group).map(|process| process.since_ticks),
        boot_id: survivors::boot_id(),
        started_unix_ms: 0,
    };
    Folder::at(&records).unwrap().claim(&started).unwrap();
    let found = find(&records);
    let is_signalled = scratch.path().join("signalled").exists();
    let _ = child.kill();
    child.wait().unwrap();
    assert!(is_signalled, "{found:?}");
    // Its processes outside of the group are looked for as soon as something runs as the account.
    assert!(found.is_err(), "{found:?}");
}
