//! What a server's file may say, but should not.

use std::path::Path;

use pliant_site::Submitters;

use crate::config::{DiskQuota, JobLimitsFile, ServerFile};

/// What an operator should know before a server with that file starts as that program: that accounts can read the program, and what the batch
/// system hides from the user of this process, if it answers.
pub async fn warnings(file: &ServerFile, program: &Path) -> Vec<String> {
    let accounts = file.accounts();
    let readable_program = accounts.readable_program(program);
    let hidden = match file.cluster.external() {
        Some(settings) => {
            let submitters = Submitters::through(accounts.launcher.clone(), accounts.has_accounts());
            settings.hidden(&file.name, submitters).await
        }
        None => None,
    };
    readable_program.into_iter().chain(hidden).collect()
}

/// What the server decided about the disk that its file leaves open: what jobs may have of it.
pub(super) fn quota(file: &JobLimitsFile, decided: &JobLimitsFile) -> Option<String> {
    let bytes = decided.disk_bytes.bytes().filter(|_| file.disk_bytes == DiskQuota::Share)?;
    Some(format!(
        "a job may have {bytes} bytes of files, by what was free at the start: [cluster.limits] disk_bytes sets another number, or \"none\""
    ))
}
