//! What a server's file may say, but should not.

use std::path::Path;

use crate::config::ServerFile;

/// What an operator should know before a server with that file starts as that program: that accounts can read the program.
pub async fn warnings(file: &ServerFile, program: &Path) -> Vec<String> {
    file.accounts().readable_program(program).into_iter().collect()
}
