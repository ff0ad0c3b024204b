//! `pliant fetch`: what a job left behind.

use std::path::{Path, PathBuf};

use clap::Args;
use pliant_control::names::Handle;
use pliant_live::client::ClientError;
use pliant_live::wire::Fetchable;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session};
use crate::output::Output;
use crate::progress::bar;
use crate::table::{Table, grouped};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The job, by its handle; it must have ended.
    #[arg(value_name = "HANDLE")]
    handle: Handle,
    /// The folder to write to: stdout and stderr, and what the job left in its folder in work/.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { handle, out, access } = arguments;
    is_folder(out)?;
    let session = access.open()?;
    let files = into(&session, handle, out)?;
    let value = json!({ "handle": handle, "dir": out, "files": described(&files) });
    output.print("fetch", || table(&files), value)
}

/// Fetches every result of a job into a folder.
pub(crate) fn into(session: &Session, handle: &Handle, folder: &Path) -> Result<Vec<Fetchable>, Failure> {
    let client = &session.client;
    let fetched = session.run(async {
        let files = client.results(handle).await?;
        let bar = bar(files.iter().map(|file| file.size).sum(), "bytes");
        for file in &files {
            if let Err(error) = client.fetch(handle, file, folder).await {
                bar.finish_and_clear();
                return Err(error);
            }
            bar.inc(file.size);
        }
        bar.finish_and_clear();
        Ok::<Vec<Fetchable>, ClientError>(files)
    });
    Ok(fetched?)
}

/// Refuses what is there and is no folder, before anything is done for it.
pub(crate) fn is_folder(path: &Path) -> Result<(), Failure> {
    if path.exists() && !path.is_dir() {
        let problem = format!("--out: expected a folder, found the file {}", path.display());
        return Err(Failure::input(problem));
    }
    Ok(())
}

/// Results, for scripts.
pub(crate) fn described(files: &[Fetchable]) -> Value {
    let file = |file: &Fetchable| json!({ "name": file.name, "bytes": file.size, "sha256": file.sha256 });
    files.iter().map(file).collect()
}

fn table(files: &[Fetchable]) -> String {
    let mut table = Table::new(1, &["file", "bytes"]);
    for file in files {
        table.row(vec![file.name.to_string(), grouped(file.size)]);
    }
    table.render()
}
