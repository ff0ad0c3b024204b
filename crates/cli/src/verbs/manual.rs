//! `pliant manual`: the manual pages, `pliant.1` and one for each verb.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;

use crate::failure::Failure;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder, which is created.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<(), Failure> {
    let dir = &arguments.dir;
    std::fs::create_dir_all(dir).map_err(|error| Failure::io(dir, "create", &error))?;
    // Names and global options of verbs are known once it is built.
    command.build();
    pages(&command, "pliant", dir)
}

/// Writes the page of a command and those of its verbs.
fn pages(command: &Command, name: &str, dir: &Path) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    let page = command.clone().display_name(name.to_owned());
    let mut text = Vec::new();
    let rendered = Man::new(page).title(name.to_owned()).render(&mut text);
    rendered
        .and_then(|()| std::fs::write(&path, &text))
        .map_err(|error| Failure::io(&path, "write", &error))?;
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
    for verb in shown {
        pages(verb, &format!("{name}-{}", verb.get_name()), dir)?;
    }
    Ok(())
}
