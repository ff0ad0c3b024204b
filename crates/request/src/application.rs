//! Applications of communicating tasks as their users write them: what tasks run, with the texts of scripts, and their input
//! files.

use pliant_control::payload::Payload;
use std::path::Path;

use pliant_client::InputPaths;
use pliant_control::coallocation::{Application, SpawnedTask, TaskEdge, TaskSpec};
use pliant_staging::FileSpec;
use pliant_trace::tig::{self, read_application, read_joining_tasks};
use pliant_wire::{Program, TaskProgram};

use crate::RequestError;
use crate::job_files::{announced, input, script_file};

/// An application with the paths of its input files.
pub struct LaunchDescription {
    /// The tasks and their communication.
    pub application: Application,
    /// Where the input files of tasks are on this machine.
    pub inputs: InputPaths,
}

/// The application in a file.
///
/// # Errors
///
/// If the file, or one that it names, cannot be read or is wrong.
pub fn read(path: &Path) -> Result<LaunchDescription, RequestError> {
    let tig::Application { graph, programs, inputs } = read_application(path)?;
    let mut paths = InputPaths::new();
    let mut tasks = Vec::with_capacity(programs.len());
    for ((task, runs), files) in graph.tasks().iter().zip(programs).zip(&inputs) {
        let asked = format!("{}: task `{}`", path.display(), task.name);
        let program = program(&asked, runs)?;
        let inputs = files_of(&asked, files, path, &mut paths)?;
        let payload = Payload::of(&TaskProgram { program, inputs });
        tasks.push(TaskSpec { name: task.name.clone(), rcr: task.rcr, payload });
    }
    let edge = |edge: &pliant_tig::Edge| TaskEdge { between: edge.ends.map(|end| end.0), rqoc: edge.rqoc };
    let application = Application {
        mcr_mflops: graph.mcr_mflops(),
        bandwidth_mbps: graph.bandwidth_mbps(),
        tasks,
        edges: graph.edges().iter().map(edge).collect(),
    };
    Ok(LaunchDescription { application, inputs: paths })
}

/// The tasks of a file that are added to a launch, with the paths of their input files.
///
/// # Errors
///
/// As for [`read`].
pub fn joining(path: &Path) -> Result<(Vec<SpawnedTask>, InputPaths), RequestError> {
    let mut paths = InputPaths::new();
    let task = |task: tig::JoiningTask| {
        let tig::JoiningTask { name, rcr, program: runs, inputs, neighbours } = task;
        let asked = format!("{}: task `{name}`", path.display());
        let program = program(&asked, runs)?;
        let inputs = files_of(&asked, &inputs, path, &mut paths)?;
        let payload = Payload::of(&TaskProgram { program, inputs });
        Ok(SpawnedTask { task: TaskSpec { name, rcr, payload }, neighbours })
    };
    let tasks = read_joining_tasks(path)?.into_iter().map(task).collect::<Result<_, RequestError>>()?;
    Ok((tasks, paths))
}

/// The program of a task; `asked` names it in errors.
///
/// # Errors
///
/// If its script cannot be read or is wrong.
pub fn program(asked: &str, runs: tig::Program) -> Result<Program, RequestError> {
    match runs {
        tig::Program::Service { name, arguments } => Ok(Program::Service { name, arguments }),
        tig::Program::Script { path, arguments } => {
            let (name, text) = script_file(asked, &path)?;
            Ok(Program::Script { name, text, arguments })
        }
    }
}

/// The input files of a task, relative to the file `beside`; their paths are added to `paths`.
fn files_of(
    asked: &str,
    files: &[String],
    beside: &Path,
    paths: &mut InputPaths,
) -> Result<Vec<FileSpec>, RequestError> {
    let folder = beside.parent().unwrap_or(Path::new(""));
    let read = |text: &String| {
        let read = input(text).map_err(|error| RequestError::input(format!("{asked}: input: {error}")))?;
        Ok(read.relative_to(folder))
    };
    let inputs = files.iter().map(read).collect::<Result<Vec<_>, RequestError>>()?;
    let announced = announced(&format!("{asked}: input"), &inputs)?;
    paths.extend(announced.iter().map(|(spec, path)| (spec.sha256, path.clone())));
    Ok(announced.into_iter().map(|(spec, _)| spec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_files_are_beside_the_application_and_have_names_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("data")).unwrap();
        std::fs::write(dir.path().join("data/a.txt"), "abc").unwrap();
        let beside = dir.path().join("app.toml");
        let read = |files: &[&str]| {
            let (files, mut paths) =
                (files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>(), InputPaths::new());
            let specs = files_of("app.toml: task `x`", &files, &beside, &mut paths)?;
            let named: Vec<String> = specs.iter().map(|spec| spec.name.to_string()).collect();
            Ok::<_, RequestError>((named, paths))
        };
        let (named, paths) = read(&["data/a.txt", "in/b=data/a.txt"]).unwrap();
        assert_eq!(named, ["a.txt", "in/b"]);
        assert_eq!(
            paths.into_values().collect::<Vec<_>>(),
            [dir.path().join("data/a.txt")],
            "one content, one file"
        );
        for (wrong, is_input) in [
            (&["data/none"][..], false),
            (&["data"], true),
            (&["../x=data/a.txt"], true),
            (&["data/a.txt"; 2], true),
        ] {
            assert_eq!(read(wrong).unwrap_err().is_input(), is_input, "{wrong:?}");
        }
    }
}
