//! Jobs that a controller has forgotten, and the accounts have not: commands of our own stand in for Slurm's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pliant_control::listing::CoreLayout;
use pliant_model::Span;
use tempfile::TempDir;

use crate::batch_system::{BatchSystemError, Submission};
use crate::slurm::Slurm;
use crate::slurm::settings::Settings;

const CONFIG: &str = include_str!("captured/scontrol-config.txt");

/// A cluster with accounts that knows no job; sacct and sbatch answer as the test wants.
async fn cluster(sacct: &str, sbatch: &str) -> (TempDir, Slurm) {
    let folder = tempfile::tempdir().unwrap();
    let command = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let config: Vec<&str> =
        CONFIG.lines().filter(|line| !line.starts_with("AccountingStorageType")).collect();
    let config = format!("{}\nAccountingStorageType = accounting_storage/slurmdbd\n", config.join("\n"));
    fs::write(folder.path().join("config"), config).unwrap();
    command("scontrol", "exec cat \"${0%/*}/config\"");
    command("squeue", "");
    command("sacct", sacct);
    command("sbatch", sbatch);
    let settings = Settings { commands: Some(folder.path().to_owned()), ..Settings::default() };
    let slurm = Slurm::connect(settings, &"rennes".parse().unwrap()).await.unwrap();
    assert!(slurm.about().accounts);
    (folder, slurm)
}

async fn submitted(sacct: &str, sbatch: &str) -> Result<Vec<String>, BatchSystemError> {
    let (_folder, slurm) = cluster(sacct, sbatch).await;
    let program = ["true".into()];
    let shape = CoreLayout { cores: 1, ..CoreLayout::default() };
    let job = Submission::new(4, Path::new("/"), &program, shape, Span(60));
    slurm.submit_unless_there(&job).await
}

#[tokio::test]
async fn what_the_accounts_take_for_waiting_is_submitted_again() {
    let user = rustix::process::geteuid().as_raw();
    for (state, ids) in [("PENDING", ["18"]), ("RUNNING", ["18"]), ("COMPLETED", ["17"]), ("FAILED", ["17"])]
    {
        let sacct = format!(
            "for word; do case $word in --delimiter=*) mark=${{word#*=}};; esac; done\n\
             case $mark in '') echo '17|{state}|0:0|100|100|100|{user}|1|main||';;\n\
             *) printf '17%spliant:rennes:4%s\\n' \"$mark\" \"$mark\";; esac"
        );
        assert_eq!(submitted(&sacct, "echo 18").await.unwrap(), ids, "{state}");
    }
}

#[tokio::test]
async fn a_refused_question_is_no_refused_job() {
    let refuses = "echo 'error: Access denied' >&2; exit 1";
    let error = submitted(refuses, "echo 18").await.unwrap_err();
    assert!(error.may_pass(), "{error}");
    let error = submitted("", refuses).await.unwrap_err();
    assert!(!error.may_pass(), "{error}");
}
