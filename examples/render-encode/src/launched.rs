//! The application as `pliant launch` takes it: the graph of `campaigns/paper-003/render.toml`, and a script that is each of
//! its tasks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::Failure;
use crate::film::Film;

/// The tasks, what they need, and their edges.
const GRAPH: &str = include_str!("../../../campaigns/paper-003/render.toml");
/// The script, beside the application.
const SCRIPT: &str = "task.sh";

/// What is written.
#[derive(Args)]
pub(crate) struct Application {
    /// The folder for `app.toml` and the script of its tasks.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// What a task of RCR 1 needs of a machine, in MFlop/s: more spreads the tasks over more machines.
    #[arg(long, value_name = "MFLOPS", default_value_t = 50)]
    pub(crate) mcr: u32,
    #[command(flatten)]
    pub(crate) film: Film,
}

/// Writes the application and its script; where the application is.
pub(crate) fn write(application: &Application) -> Result<PathBuf, Failure> {
    let Application { dir, mcr, film } = application;
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("cannot write {path}: {error}")
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    let app = dir.join("app.toml");
    fs::write(&app, launched(*mcr)).map_err(failed(&app))?;
    let script = dir.join(SCRIPT);
    // Tasks run in folders of their own.
    let out = std::path::absolute(&film.out).map_err(failed(&film.out))?;
    let Film { frames, width, gop, .. } = film;
    let text = format!(
        "#!/bin/sh\nexec {} task --frames {frames} --width {width} --gop {gop} --out {}\n",
        quoted(&std::env::current_exe()?),
        quoted(&out)
    );
    fs::write(&script, text).map_err(failed(&script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(failed(&script))?;
    Ok(app)
}

/// The graph with what its tasks run.
fn launched(mcr: u32) -> String {
    let line = |line: &str| match line {
        line if line.starts_with("rcr = ") => format!("{line}\nscript = \"{SCRIPT}\"\n"),
        line if line.starts_with("mcr_mflops = ") => format!("mcr_mflops = {mcr}\n"),
        line => format!("{line}\n"),
    };
    GRAPH.lines().map(line).collect()
}

/// Two tasks with an edge, in the direction of the film.
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) rqoc: f64,
}

/// The edges of the graph.
pub(crate) fn edges() -> Result<Vec<Edge>, Failure> {
    let graph: toml::Table = GRAPH.parse()?;
    let edge = |edge: &toml::Value| {
        let [from, to] = edge.get("between")?.as_array()?.as_slice() else { return None };
        let (from, to) = (from.as_str()?.to_owned(), to.as_str()?.to_owned());
        Some(Edge { from, to, rqoc: edge.get("rqoc")?.as_float()? })
    };
    let edges: Option<Vec<Edge>> =
        graph.get("edge").and_then(|edges| edges.as_array()?.iter().map(edge).collect());
    Ok(edges.ok_or("expected edges with `between` and `rqoc` in the graph")?)
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::tasks;

    #[test]
    fn the_film_goes_from_the_source_to_the_sink() {
        let edges = edges().unwrap();
        assert_eq!(edges.len(), 18);
        for edge in &edges {
            assert!(
                edge.to != "source" && edge.from != "sink" && edge.rqoc > 0.0,
                "{} {}",
                edge.from,
                edge.to
            );
        }
    }

    #[test]
    fn every_task_of_the_pipeline_has_the_script() {
        let text = launched(700);
        assert_eq!(text.matches("script = \"task.sh\"").count(), tasks().len());
        assert!(tasks().iter().all(|task| text.contains(&format!("name = \"{task}\""))));
        assert!(text.contains("mcr_mflops = 700\n") && !text.contains("mcr_mflops = 50"));
    }
}
