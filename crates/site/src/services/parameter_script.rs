//! Scripts that run once for each of several values of their parameters. Each is a service that its user brings: it is prepared like
//! one of the operator.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::Span;
use pliant_staging::{FileName, SCRIPT};
use pliant_wire::{ParameterScript, TaskArray, bounds};

use super::argument::{Argument, ArgumentKind};
use super::prepared::Bounds;
use super::refusal::Refusal;
use super::script::Script;
use super::service::{Runtime, Service};
use super::speedup_spec::SpeedupSpec;
use super::task_variables::task_templates;
use super::template::{BUILT_IN, Template};
use crate::processes::Streams;

/// The beginning of the names of the variables that hold the values of parameters.
pub const ARGUMENT_VARIABLE: &str = "PLIANT_ARG_";
/// The placeholders in arguments of scripts that are no parameters.
const OF_SCRIPTS: [&str; 2] = ["procs", "walltime_s"];

/// The folder in which a run of a script with parameters starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunFolder {
    /// The work folder of its job.
    Work,
    /// A folder of the run's own in that.
    OfInstance,
}

impl RunFolder {
    /// The path of the script from there on.
    fn script(self) -> String {
        match self {
            RunFolder::Work => format!("../{SCRIPT}"),
            RunFolder::OfInstance => format!("../../{SCRIPT}"),
        }
    }
}

/// Checks the names of parameters, and that the arguments of a script name no others.
///
/// # Errors
///
/// [`Refusal::Parameter`], [`Refusal::Placeholder`].
pub fn check_placeholders(arguments: &[String], parameters: &BTreeSet<&str>) -> Result<(), Refusal> {
    templates(arguments, parameters).map(drop)
}

/// The service that a script is to its user, if it runs with these parameters.
pub(crate) fn service_of(
    script: &ParameterScript,
    parameters: &BTreeSet<&str>,
    folder: RunFolder,
) -> Result<Service, Refusal> {
    let ParameterScript { name, text, work, arguments, environment, array, .. } = script;
    let file: FileName = name.parse().map_err(|_| Refusal::Value {
        argument: "script".to_owned(),
        expected: "the name of a file".to_owned(),
        found: name.clone(),
    })?;
    let speedup = SpeedupSpec { speedup: work.speedup.clone(), procs: work.procs };
    Script {
        name: &file,
        content: text.as_bytes(),
        arguments,
        speedup: speedup.clone(),
        walltime: work.walltime,
        folder: None,
        environment,
        streams: Streams::default(),
    }
    .check()?;
    let arguments = templates(arguments, parameters)?;
    let mut variables: BTreeMap<String, Template> =
        environment.iter().map(|(name, value)| (name.clone(), Template::text(value))).collect();
    let of_parameter = |name: &&str| (format!("{ARGUMENT_VARIABLE}{name}"), Template::argument(name));
    variables.extend(parameters.iter().map(of_parameter));
    if let Some(array) = array {
        variables.extend(of_array(array));
    }
    variables.extend(task_templates(text.as_bytes(), work));
    Ok(Service {
        name: file.last().to_owned(),
        summary: String::new(),
        arguments: parameters.iter().map(|name| ((*name).to_owned(), free_text())).collect(),
        speedup,
        resources: work.resources.clone(),
        runtime: Runtime::Fixed(work.walltime.max(Span(1))),
        scaling: None,
        walltime_factor: 1.0,
        max_walltime: None,
        bounds: Bounds::default(),
        users: None,
        command: std::iter::once(Template::text(&folder.script())).chain(arguments).collect(),
        environment: variables,
        call: None,
    })
}

/// A value that a script takes.
fn free_text() -> Argument {
    Argument {
        summary: String::new(),
        kind: ArgumentKind::Text { max_length: bounds::ARGUMENT_BYTES_MAX },
        default: None,
        required: true,
        // What it means is for the script of the same user to say.
        dash: true,
    }
}

/// The variables of a task of an array: scripts for Slurm find those that they know.
fn of_array(array: &TaskArray) -> impl Iterator<Item = (String, Template)> {
    let TaskArray { first, last, count, step } = array;
    let of_all = [("MIN", first), ("MAX", last), ("COUNT", count), ("STEP", step)];
    let of_all = of_all.map(|(name, value)| (name, Template::text(&value.to_string())));
    let variables = of_all.into_iter().chain([("ID", Template::argument(TaskArray::INDEX))]);
    variables.flat_map(|(name, value)| {
        ["PLIANT", "SLURM"].map(|owner| (format!("{owner}_ARRAY_TASK_{name}"), value.clone()))
    })
}

fn templates(arguments: &[String], parameters: &BTreeSet<&str>) -> Result<Vec<Template>, Refusal> {
    let is_plain = |name: &str| {
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        begins && name.bytes().all(letters) && !BUILT_IN.contains(&name)
    };
    if let Some(wrong) = parameters.iter().find(|name| !is_plain(name)) {
        return Err(Refusal::Parameter { found: (*wrong).to_owned() });
    }
    arguments.iter().map(|word| template(word, parameters)).collect()
}

fn template(word: &str, parameters: &BTreeSet<&str>) -> Result<Template, Refusal> {
    let wrong = |problem: String| Refusal::Placeholder { word: word.to_owned(), problem };
    // Where this program is on a server is of no use to a script.
    let known = |name: &str| parameters.contains(name) && name != "pliant";
    let template = Template::parse(word).map_err(wrong)?;
    let is_unknown = |name: &&str| !known(name);
    let unknown = match template.has_path() {
        true => Some("pliant"),
        false => template.arguments().find(is_unknown),
    };
    match unknown {
        None => Ok(template),
        Some(name) => {
            let known: Vec<&str> = parameters.iter().copied().chain(OF_SCRIPTS).collect();
            let known = known.join(", ");
            Err(wrong(format!("expected a parameter ({known}), found `{{{}}}`", name.escape_debug())))
        }
    }
}

#[cfg(test)]
mod tests {
    use pliant_control::job::Work;
    use pliant_model::{Procs, Speedup};

    use super::*;

    fn script(arguments: &[&str], array: Option<TaskArray>) -> ParameterScript {
        ParameterScript {
            name: "fit.sh".to_owned(),
            text: b"#!/bin/sh\n".to_vec().into(),
            work: Work { fixed_time: true, ..Work::new(Procs(2), Span(60), Speedup::Rigid) },
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            environment: [("MODE".to_owned(), "{x}".to_owned())].into(),
            array,
            folder: None,
            stdin: None,
            merge_output: false,
        }
    }

    #[test]
    fn a_script_runs_with_its_parameters() {
        let service =
            service_of(&script(&["-x{x}", "{{y}}", "{procs}"], None), &["x", "y"].into(), RunFolder::Work);
        let given = [("x", "-1 $(id)"), ("y", "")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let prepared = service.unwrap().prepare(&given, "/bin/pliant", Some(Span(1))).unwrap();
        assert_eq!(prepared.argv(Procs(2), Span(60)), ["../script", "-x-1 $(id)", "{y}", "2"]);
        assert_eq!(
            (prepared.name.as_str(), prepared.work.walltime),
            ("fit.sh", Span(60)),
            "it is no estimate"
        );
        let variables = prepared.variables(Procs(2), Span(60));
        let own: Vec<(&str, &str)> = variables
            .iter()
            .filter(|(name, _)| name.starts_with(ARGUMENT_VARIABLE) || *name == "MODE")
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(own, [("MODE", "{x}"), ("PLIANT_ARG_x", "-1 $(id)"), ("PLIANT_ARG_y", "")]);
    }

    #[test]
    fn a_task_of_an_array_finds_its_index_and_the_others() {
        let array = TaskArray { first: 1, last: 10, count: 4, step: 3 };
        let script = script(&["{array_task_id}"], Some(array));
        let service = service_of(&script, &[TaskArray::INDEX].into(), RunFolder::OfInstance).unwrap();
        let instances = [(0, vec!["1".to_owned()]), (3, vec!["10".to_owned()])];
        let varied = [TaskArray::INDEX.to_owned()];
        let made = service.prepare_batch(&BTreeMap::new(), &varied, instances.into_iter(), "pliant", None);
        let (prepared, batch) = made.unwrap();
        let spec = batch.spec(&prepared.work, prepared.work.procs, prepared.work.walltime, 5, Vec::new());
        let last = spec.runs.last().unwrap();
        assert_eq!(last.program, ["../../script", "10"]);
        for owner in ["PLIANT", "SLURM"] {
            let value = |name: &str| last.env[&format!("{owner}_ARRAY_TASK_{name}")].clone();
            assert_eq!(["ID", "MIN", "MAX", "COUNT", "STEP"].map(value), ["10", "1", "10", "4", "3"]);
        }
        assert_eq!((prepared.work.procs, prepared.work.walltime), (Procs(2), Span(120)));
    }

    #[test]
    fn unknown_placeholders_and_names_that_are_no_variables_are_refused() {
        let check = |arguments: &[&str], parameters: &[&str], expected: &str| {
            let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
            let found = check_placeholders(&arguments, &parameters.iter().copied().collect());
            let found = found.map_err(|refusal| refusal.to_string()).err().unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
        };
        check(&["{x}", "{{z}}", "{walltime_s}", ""], &["x", "y2", "_z"], "");
        check(
            &["a", "-{z}"],
            &["x"],
            "argument `-{z}` of the script: expected a parameter (x, procs, walltime_s)",
        );
        check(&["{pliant}"], &[], "found `{pliant}`");
        check(&["{x"], &["x"], "expected each brace to have its other");
        for name in ["", "2x", "a-b", "procs", "pliant", "walltime_s", "é"] {
            check(&[], &[name], "expected a parameter of letters, digits and `_`");
        }
    }

    #[test]
    fn a_script_that_cannot_run_is_refused() {
        let long = ParameterScript { text: vec![b'x'; 9].into(), ..script(&[], None) };
        assert!(matches!(service_of(&long, &[].into(), RunFolder::Work), Err(Refusal::Script(_))));
        let mut reserved = script(&[], None);
        reserved.environment.insert("LD_PRELOAD".to_owned(), "x".to_owned());
        assert!(matches!(service_of(&reserved, &[].into(), RunFolder::Work), Err(Refusal::Script(_))));
    }
}
