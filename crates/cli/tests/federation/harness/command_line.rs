//! The command line as users run it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pliant_transport::Role;
use serde_json::Value;

use super::Federation;
use crate::schemas;

/// A verb with its words and a client file. Its output is captured.
pub(crate) fn pliant(config: &Path, words: &[&str]) -> Command {
    // Behind verbs of two words, and before the arguments of scripts.
    let (words, arguments) =
        words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_pliant"));
    command.args(words).arg("--config").arg(config).args(arguments);
    // What commands note about this machine's user belongs to the test.
    command.env("XDG_STATE_HOME", config.with_extension("state"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The exit code, standard output and standard error.
pub(crate) fn said(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A user of the command line, with a working directory.
pub(crate) struct CommandUser {
    config: PathBuf,
    dir: tempfile::TempDir,
}

impl CommandUser {
    pub(crate) fn new(federation: &Federation, name: &str) -> CommandUser {
        CommandUser::with_role(federation, Role::User, name)
    }

    pub(crate) fn operator(federation: &Federation) -> CommandUser {
        CommandUser::with_role(federation, Role::Operator, "root")
    }

    pub(crate) fn with_role(federation: &Federation, role: Role, name: &str) -> CommandUser {
        CommandUser { config: federation.client_file(role, name), dir: tempfile::tempdir().unwrap() }
    }

    /// Another user in the same working directory.
    pub(crate) fn become_user(self, federation: &Federation, name: &str) -> CommandUser {
        CommandUser { config: federation.client_file(Role::User, name), ..self }
    }

    /// Adds tables to the user's client file.
    pub(crate) fn add_to_file(&self, tables: &str) {
        let text = std::fs::read_to_string(&self.config).unwrap();
        std::fs::write(&self.config, text + tables).unwrap();
    }

    /// The working directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A command that prints a document.
    pub(crate) fn command(&self, line: &str) -> Command {
        let words: Vec<&str> = ["--format", "json"].into_iter().chain(line.split(' ')).collect();
        let mut command = pliant(&self.config, &words);
        command.current_dir(self.dir());
        command
    }

    /// What a command prints for people, line by line.
    pub(crate) fn lines(&self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let output = pliant(&self.config, &words).current_dir(self.dir()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    pub(crate) fn begin(&self, line: &str) -> Child {
        self.command(line).spawn().unwrap()
    }

    /// The exit code, the document, which is as its schema says, and standard error.
    pub(crate) fn run(&self, line: &str) -> (i32, Value, String) {
        let (code, document, stderr) = said(self.command(line).output().unwrap());
        let value = if document.is_empty() { Value::Null } else { schemas::document(&document) };
        (code, value, stderr)
    }
}
