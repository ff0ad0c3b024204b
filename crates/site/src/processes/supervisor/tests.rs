//! Jobs of accounts whose launcher is a shell script.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::accounts::AccountRun;
use crate::processes::limits::JobLimits;
use crate::processes::streams::Streams;

/// Why a job with that walltime is not started, and how long that was tried.
fn not_started(launcher: &str, walltime_s: u64) -> (String, Duration) {
    not_started_after(None, launcher, walltime_s)
}

/// The same of a job whose account has failed before, in milliseconds since 1970.
fn not_started_after(first_failure: Option<u64>, launcher: &str, walltime_s: u64) -> (String, Duration) {
    let scratch = tempfile::tempdir().unwrap();
    let program = scratch.path().join("launcher");
    fs::write(&program, format!("#!/bin/sh\n{launcher}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let account = AccountRun {
        name: "alice".parse().unwrap(),
        folder: scratch.path().to_owned(),
        launcher: program,
        pliant: "/pliant".into(),
        processes_max: None,
        has_records: false,
        guard: None,
    };
    // As far as folders go; no process is moved before the job is started.
    let cgroups = scratch.path().join("cgroups");
    std::fs::create_dir(&cgroups).unwrap();
    let spec = RunSpec {
        program: vec!["true".into()],
        account: Some(account),
        env: BTreeMap::new(),
        walltime_s,
        grace_s: 1,
        cores: None,
        cpu_share: None,
        max_output_bytes: 0,
        folder: None,
        streams: Streams::default(),
        limits: JobLimits { cgroup: Some(cgroups.clone()), ..JobLimits::default() },
        keeps_user: false,
    };
    let records = scratch.path().join("records");
    spec.write(&records).unwrap();
    if let Some(first) = first_failure {
        Folder::at(&records).unwrap().write_first_account_failure(first).unwrap();
    }
    let started = Started {
        supervisor: 1,
        group: None,
        cgroup: None,
        leader_ticks: None,
        boot_id: String::new(),
        started_unix_ms: 0,
    };
    let begun = Instant::now();
    let exit = run(&Folder::at(&records).unwrap(), started, &mut Signals::listen().unwrap());
    let Outcome::NotStarted(why) = exit.outcome else { panic!("{exit:?}") };
    let left = std::fs::read_dir(cgroups).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["supervisors"], "however often it was tried");
    (why, begun.elapsed())
}

#[test]
fn a_job_whose_account_fails_for_too_long_is_not_started() {
    // As when the user of the account kills what makes the outputs.
    let (why, tried) = not_started("kill -9 $$", 1);
    assert!(why.contains("what runs as the account alice ended with signal: 9"), "{why}");
    assert!(tried >= ACCOUNT_TIMEOUT_MIN);
    let (_, tried) = not_started("kill -9 $$", ACCOUNT_TIMEOUT_MIN.as_secs() + 1);
    assert!(tried > ACCOUNT_TIMEOUT_MIN, "no earlier than its walltime");
    // The quota of the account.
    let (why, tried) = not_started(r#"cat > /dev/null; echo '{"failed":{"disk-full":{"path":"/x"}}}'"#, 1);
    assert!(why.contains("the disk is full") && tried >= ACCOUNT_TIMEOUT_MIN, "{why}");
}

#[test]
fn the_time_in_which_the_server_could_not_give_the_account_its_files_counts() {
    let (why, _) = not_started_after(Some(1), "kill -9 $$", 1_000_000_000);
    assert!(why.contains("what runs as the account alice ended with signal: 9"), "{why}");
    // A clock that was set back begins anew, and not in the future.
    let (_, tried) = not_started_after(Some(u64::MAX), "kill -9 $$", 1);
    assert!(tried >= ACCOUNT_TIMEOUT_MIN);
}
