//! What Slurm hides from a server, as the check of its file shows it: commands of our own stand in for Slurm's.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::slurm::settings::Settings;
use crate::{BatchSystemSettings, Submitters};

const CONFIG: &str = include_str!("captured/scontrol-config.txt");

/// What is hidden by a cluster with accounts and that `PrivateData`, if the server's user has that level and jobs run as accounts.
async fn hidden(private: &str, level: &str, has_accounts: bool) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let command = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let is_kept =
        |line: &&str| !line.starts_with("AccountingStorageType") && !line.starts_with("PrivateData");
    let kept: Vec<&str> = CONFIG.lines().filter(is_kept).collect();
    let config = format!(
        "{}\nAccountingStorageType = accounting_storage/slurmdbd\nPrivateData = {private}\n",
        kept.join("\n")
    );
    fs::write(folder.path().join("config"), config).unwrap();
    command("scontrol", "exec cat \"${0%/*}/config\"");
    command("sacctmgr", &format!("echo {level}"));
    let settings = Settings { commands: Some(folder.path().to_owned()), ..Settings::default() };
    let accounts = Submitters::through("/launcher".into(), has_accounts);
    BatchSystemSettings::Slurm(settings).hidden(&"rennes".parse().unwrap(), accounts).await
}

#[tokio::test]
async fn a_check_shows_what_slurm_hides() {
    let is_root = rustix::process::geteuid().is_root();
    let check = async |private: &str, level: &str, has_accounts: bool, expected: Option<&str>| {
        let found = hidden(private, level, has_accounts).await;
        // Root sees all, and so cannot answer for the server's user.
        let expected = match private {
            "none" => None,
            _ if is_root => Some("run it as the server's user"),
            _ => expected,
        };
        let is_expected = match (&found, expected) {
            (Some(found), Some(expected)) => found.contains(expected),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_expected, "{private} {level} {has_accounts}: {found:?}");
    };
    check("none", "None", true, None).await;
    check("jobs", "None", true, Some("adminlevel=operator")).await;
    check("jobs", "None", false, Some("estimates do not know")).await;
    check("usage,all", "None", true, Some("PrivateData=usage,all")).await;
    check("jobs", "Operator", true, None).await;
    check("reservations", "None", true, Some("hides reservations")).await;
    check("reservations", "Operator", true, None).await;
}

#[tokio::test]
async fn a_slurm_that_does_not_answer_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { commands: Some(folder.path().to_owned()), ..Settings::default() };
    let settings = BatchSystemSettings::Slurm(settings);
    assert_eq!(settings.hidden(&"rennes".parse().unwrap(), Submitters::default()).await, None);
}
