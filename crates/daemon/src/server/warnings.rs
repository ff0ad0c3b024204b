//! What a server's file may say, but should not.

use std::path::Path;

use pliant_site::Submitters;

use crate::config::ServerFile;

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
