//! `#SBATCH` lines as options of `pliant submit`. What has no equivalent is an error that names all of it.

use super::head::Directive;
use super::sbatch_size::{Size, memory_mib};
use super::slurm_time;
use crate::error::RequestError;
use crate::sbatch_options::{Meaning, OPTIONS, SbatchOption, Value};
use crate::submit_options::JobOptions;

/// The lines, translated.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Translation {
    pub(super) options: Vec<TranslatedOption>,
    /// What is otherwise than with Slurm.
    pub(super) notes: Vec<String>,
}

/// An option of Slurm as words of `pliant submit`.
#[derive(PartialEq, Debug)]
pub(super) struct TranslatedOption {
    pub(super) line: usize,
    /// The option as the script has it.
    pub(super) name: String,
    pub(super) words: Vec<String>,
}

/// An option in a line.
struct Given {
    line: usize,
    /// Its long name.
    long: &'static str,
    /// As the script has it: `-n`, `--ntasks`.
    name: String,
    value: Option<String>,
    meaning: Meaning,
}

/// Options of which a job has one: each gives the whole amount.
const ALTERNATIVES: [&[&str]; 2] =
    [&["mem", "mem-per-cpu"], &["gpus", "gpus-per-node", "gpus-per-task", "gres"]];

/// Translates the lines of a script, without the options of these long names and those that `stronger` options replace.
pub(super) fn translated(
    shown: &str,
    directives: &[Directive],
    ignored: &[&String],
    stronger: &JobOptions,
) -> Result<Translation, RequestError> {
    let (mut given, mut problems) = (Vec::new(), Vec::new());
    for directive in directives {
        let words = &mut directive.words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if let Err(problem) = options_of(word, words, directive.line, &mut given) {
                problems.push((directive.line, None, format!("#SBATCH {problem}")));
            }
        }
    }
    let is_read =
        |option: &Given| !ignored.iter().any(|name| *name == option.long) && !stronger.replaces(option.long);
    given.retain(is_read);
    for (option, first) in contradictions(&given) {
        let problem = format!("expected one of both, found {} in line {} as well", first.name, first.line);
        problems.push((option.line, Some(option.long), format!("#SBATCH {}: {problem}", option.name)));
    }
    let mut translation = Translation::default();
    let mut size = Size::default();
    for Given { line, long, name, value, meaning } in given {
        let place = format!("{shown}:{line}: #SBATCH {name}");
        let value = value.unwrap_or_default();
        let translated = match meaning {
            Meaning::Same(option) if value.is_empty() => Ok(vec![option.to_owned()]),
            Meaning::Same(option) => Ok(vec![format!("{option}={value}")]),
            Meaning::Time => match slurm_time::seconds(&value) {
                Some(seconds) => Ok(vec!["--time".to_owned(), format!("{seconds}s")]),
                None => Err(slurm_time::expected(&value)),
            },
            Meaning::Size(part) => size.take(part, line, &name, &value).map(|()| Vec::new()),
            Meaning::Memory(option) => memory_mib(&value).map(|mib| vec![format!("{option}={mib}M")]),
            Meaning::Exclusive if value.is_empty() => Ok(vec!["--exclusive".to_owned()]),
            Meaning::Exclusive => {
                Err(format!("expected no value, found `{value}`: no nodes are shared with some jobs only"))
            }
            Meaning::Nice if value.is_empty() => Ok(vec!["--nice=100".to_owned()]),
            Meaning::Nice => Ok(vec![format!("--nice={value}")]),
            Meaning::Always(option) => Ok(vec![option.to_owned()]),
            Meaning::Export => {
                let passes_all = value.split(',').any(|variable| variable == "ALL");
                let note = || format!("{place}: {NOT_PASSED_ON}");
                translation.notes.extend(passes_all.then(note));
                exported(&value)
            }
            Meaning::Ignored => Ok(Vec::new()),
            Meaning::Noted(note) => {
                translation.notes.push(format!("{place}: {note}"));
                Ok(Vec::new())
            }
            Meaning::Unsupported(instead) => Err(format!("is not supported: {instead}")),
        };
        match translated {
            Ok(words) if words.is_empty() => {}
            Ok(words) => translation.options.push(TranslatedOption { line, name, words }),
            Err(problem) => {
                let colon = if matches!(meaning, Meaning::Unsupported(_)) { "" } else { ":" };
                problems.push((line, Some(long), format!("#SBATCH {name}{colon} {problem}")));
            }
        }
    }
    match size.translated(&stronger.shape()) {
        Ok(options) => translation.options.extend(options),
        Err(found) => problems.extend(
            found.into_iter().map(|(line, name, problem)| (line, None, format!("#SBATCH {name}: {problem}"))),
        ),
    }
    if problems.is_empty() {
        return Ok(translation);
    }
    problems.sort_by_key(|&(line, ..)| line);
    let hint = hint(problems.iter().filter_map(|&(_, long, _)| long));
    let problems: Vec<String> =
        problems.into_iter().map(|(line, _, problem)| format!("{shown}:{line}: {problem}")).collect();
    Err(RequestError::input(problems.join("\n  ")).hint(hint))
}

/// Options each with an earlier one that says the same in another way.
fn contradictions(given: &[Given]) -> Vec<(&Given, &Given)> {
    let mut found = Vec::new();
    for (index, option) in given.iter().enumerate() {
        let group = ALTERNATIVES.iter().find(|group| group.contains(&option.long));
        let others = |first: &&Given| group.is_some_and(|group| group.contains(&first.long));
        let first = given[..index].iter().find(others).filter(|first| first.long != option.long);
        found.extend(first.map(|first| (option, first)));
    }
    found
}

/// What to do about lines with problems, where the options of these long names are refused.
fn hint(refused: impl Iterator<Item = &'static str>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in refused {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match &names[..] {
        [] => "remove or change the lines, or submit with --ignore-sbatch and the options of `pliant submit`"
            .to_owned(),
        names => {
            format!("remove or change the lines; --ignore-sbatch={} ignores these options", names.join(","))
        }
    }
}

/// Reads the options that a word begins: one, or several letters without values.
fn options_of<'a>(
    word: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
    line: usize,
    given: &mut Vec<Given>,
) -> Result<(), String> {
    if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let option = OPTIONS.iter().find(|option| option.long == name);
        return given_option(option, format!("--{name}"), value, rest, line).map(|option| given.push(option));
    }
    let mut letters = match word.strip_prefix('-') {
        Some(letters) if !letters.is_empty() && letters != "-" => letters,
        _ => return Err(format!("expected an option, found `{word}`")),
    };
    while let Some(letter) = letters.chars().next() {
        letters = &letters[letter.len_utf8()..];
        let option = OPTIONS.iter().find(|option| option.short == Some(letter));
        let has_value = option.is_some_and(|option| option.value != Value::Without);
        let value = (has_value && !letters.is_empty()).then(|| std::mem::take(&mut letters).to_owned());
        given.push(given_option(option, format!("-{letter}"), value, rest, line)?);
    }
    Ok(())
}

/// One option, with its value. The value is the next word if it is not in the same one.
fn given_option<'a>(
    option: Option<&SbatchOption>,
    name: String,
    value: Option<String>,
    rest: &mut impl Iterator<Item = &'a str>,
    line: usize,
) -> Result<Given, String> {
    let Some(option) = option else {
        // Whether the next word is its value is not known.
        rest.for_each(drop);
        return Err(format!("{name} is not known: expected an option of sbatch that Pliant knows"));
    };
    let value = match (option.value, value) {
        (Value::Without, Some(value)) => return Err(format!("{name}: expected no value, found `{value}`")),
        (Value::With, None) => {
            let next = rest.next().map(str::to_owned);
            Some(next.ok_or_else(|| format!("{name}: expected a value, found none"))?)
        }
        (_, value) => value,
    };
    Ok(Given { line, long: option.long, name, value, meaning: option.meaning })
}

/// What is otherwise than with `--export=ALL`.
const NOT_PASSED_ON: &str = "no variables of the command are passed on; --env NAME=VALUE, or NAME=VALUE in --export, gives a job variables";

/// The variables in the list of `--export`.
fn exported(list: &str) -> Result<Vec<String>, String> {
    if matches!(list, "NONE" | "NIL") {
        return Ok(Vec::new());
    }
    let named = list.split(',').filter(|variable| *variable != "ALL");
    let variables = named.map(|variable| match variable.contains('=') {
        true => Ok(format!("--env={variable}")),
        false => Err(format!(
            "expected ALL, NONE or NAME=VALUE, found `{variable}`: no variables of the command are passed on"
        )),
    });
    variables.collect()
}
