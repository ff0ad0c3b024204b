//! What `pliant sweep` and `pliant explore` run: a service, or a script of the user's own, with arguments that vary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_client::ParameterSpace;
use pliant_site::services::check_placeholders;
use pliant_wire::{Executable, ParameterScript, Script, TaskArray};

use crate::error::RequestError;
use crate::job_files::{Input, script_file, script_on_standard_input};
use crate::parameter_options::ParameterOptions;
use crate::runs::Runs;
use crate::script_directives;
use crate::service_arguments::argument;
use crate::submit_options::{JobOptions, RunOptions};

/// The ids of these options, for those that exclude them.
pub const EXECUTABLE_OPTIONS: [&str; 10] = [
    "arguments",
    "vary",
    "vary_file",
    "zip",
    "script",
    "time",
    "job_name",
    "env",
    "ignore_sbatch",
    "script_arguments",
];

/// The options that say what is run, and with which arguments.
#[derive(Args)]
pub struct ExecutableOptions {
    #[command(flatten)]
    varying: ParameterOptions,
    /// A script to run instead of a service; its first line names the interpreter (#!). - is standard input.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    #[command(flatten)]
    run: RunOptions,
    /// The arguments of the script: {KEY} is replaced by the value of that argument, and {{ and }} are braces.
    #[arg(last = true, value_name = "ARGUMENT")]
    script_arguments: Vec<String>,
}

/// What is run, with all that the command line and the script say of it.
pub struct ExecutableChoice {
    /// The service or the script.
    pub executable: Executable,
    /// The arguments of all runs.
    pub parameters: ParameterSpace,
    /// The input files that the script names.
    pub inputs: Vec<Input>,
}

impl ExecutableOptions {
    /// What is run. `service` is the first word of the command line; `sized` has the options about its size.
    pub fn choice(
        &self,
        service: Option<&str>,
        sized: JobOptions,
        runs: Runs,
        note: &mut dyn FnMut(&str),
    ) -> Result<ExecutableChoice, RequestError> {
        let path = service.filter(|service| self.script.is_none() && is_path(service)).map(Path::new);
        let Some(path) = self.script.as_deref().or(path) else {
            let Some(name) = service else {
                return Err(RequestError::input("expected SERVICE or --script FILE, found neither")
                    .hint("`pliant servers --services` lists the services"));
            };
            self.without_script_options(name, &sized, runs)?;
            let (executable, parameters) = (Executable::from(name), self.varying.space(None)?);
            return Ok(ExecutableChoice { executable, parameters, inputs: Vec::new() });
        };
        // With --script the first word is an argument like the others.
        let first = service.filter(|_| self.script.is_some()).map(argument).transpose();
        let parameters = self.varying.space(first.map_err(RequestError::input)?)?;
        let given = JobOptions::of_runs(self.run.clone(), sized);
        let (script, options) = read(path, given, self.script_arguments.clone(), note)?;
        if let Some(option) = options.without_use(runs) {
            let expected = format!("expected options that `pliant {}` has", runs.verb());
            let problem = match options.places.of(option) {
                Some(place) => format!("{place}: {expected}"),
                None => format!("{expected}, found {option}"),
            };
            let is_of_sbatch = options.places.of(option).is_some_and(|place| place.contains("#SBATCH "));
            return Err(RequestError::input(problem).hint(match is_of_sbatch {
                true => "remove it from the script; --ignore-sbatch ignores all #SBATCH lines, --ignore-sbatch=OPTION the one of that long name",
                false => "remove it from the script",
            }));
        }
        let names: BTreeSet<&str> =
            parameters.fixed.keys().map(String::as_str).chain(parameters.names()).collect();
        let script = with_parameters(script, &names, None)?;
        let executable = Executable::Script(Box::new(script));
        Ok(ExecutableChoice { executable, parameters, inputs: options.inputs })
    }

    /// Refuses options of scripts for a service.
    fn without_script_options(
        &self,
        service: &str,
        sized: &JobOptions,
        runs: Runs,
    ) -> Result<(), RequestError> {
        let arguments = (!self.script_arguments.is_empty()).then_some("arguments after --");
        let of_script = JobOptions::of_runs(self.run.clone(), sized.clone()).of_scripts().or(arguments);
        let Some(option) = of_script else { return Ok(()) };
        let problem = format!("expected {option} with a script, found it with the service `{service}`");
        Err(RequestError::input(problem)
            .hint(format!("`pliant {} --script FILE ...` runs a script", runs.verb())))
    }
}

/// True if the word for a service is the path of a script: it has a slash.
pub fn is_path(service: &str) -> bool {
    service.contains('/')
}

/// Reads a script and the options in it: the script that the options describe, and all options, those of the command line first.
pub fn read(
    path: &Path,
    given: JobOptions,
    arguments: Vec<String>,
    note: &mut dyn FnMut(&str),
) -> Result<(Script, JobOptions), RequestError> {
    let is_standard_input = path == Path::new("-");
    let (name, text) = match is_standard_input {
        true => script_on_standard_input()?,
        false => script_file("--script", path)?,
    };
    let shown = if is_standard_input { "standard input".into() } else { path.to_string_lossy() };
    let directives = script_directives::read(&shown, text.as_bytes(), &given)?;
    directives.notes.iter().for_each(|text| note(text));
    let options = given.over(directives.options);
    let script = options.script(name, text, arguments)?;
    Ok((script, options))
}

/// A script that runs once for each of several values of these parameters.
pub fn with_parameters(
    script: Script,
    parameters: &BTreeSet<&str>,
    array: Option<TaskArray>,
) -> Result<ParameterScript, RequestError> {
    let Script { name, text, work, arguments, environment, folder, stdin, merge_output } = script;
    check_placeholders(&arguments, parameters)
        .map_err(|refusal| RequestError::input(&refusal).hint(refusal.hint()))?;
    Ok(ParameterScript { name, text, work, arguments, environment, array, folder, stdin, merge_output })
}
