//! Errors of options in the form of all errors: one message, and a hint.

use std::error::Error;
use std::ffi::{OsStr, OsString};

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::RequestError;
use crate::sbatch_options::instead;

/// The option that all verbs of a federation have, and that may also precede the verb.
pub const CONFIG: &str = "--config";
/// The option that may precede any verb.
pub const FORMAT: &str = "--format";

/// Options that people try, and the option that a verb may have for it.
pub const EQUIVALENT_OPTIONS: [(&str, &str); 25] = [
    ("--walltime", "--time"),
    ("--time-limit", "--time"),
    ("-t", "--time"),
    ("--ntasks", "--rigid"),
    ("--nodes", "--rigid"),
    ("--procs", "--rigid"),
    ("-n", "--rigid"),
    ("--partition", "--server"),
    ("-p", "--server"),
    ("--output", "--out"),
    ("-o", "--out"),
    ("--export", "--env"),
    ("--input", "--stdin"),
    ("-i", "--stdin"),
    ("-J", "--job-name"),
    ("-D", "--chdir"),
    ("--test-only", "--dry-run"),
    ("--json", "--format json"),
    ("--mapping", "--mapper"),
    ("--threshold", "--similarity"),
    ("--timeout", "--server-timeout"),
    ("--patience", "--timeout"),
    ("--patience", "--server-timeout"),
    ("--patience", "--reservation-timeout"),
    ("--talks", "--edge"),
];

/// The failure that an error of clap means. None for help and the version, which clap prints.
pub fn usage_failure(command: &Command, arguments: &[OsString], error: &clap::Error) -> Option<RequestError> {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return None;
    }
    let (verb, path) = verb_path(command, arguments);
    let unknown =
        text_of(error, ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument);
    let misplaced = unknown
        .and_then(|option| behind_verb(verb, arguments, option))
        .map(|of| format!("options follow the verb: `{path} {of} ...`"));
    let other = || {
        let option = equivalent_option(verb, unknown?)?;
        Some(format!("`{option}` does that; `{path} --help` describes the options"))
    };
    let of_sbatch = || {
        let is_submission = ["submit", "pliant submit", "sweep", "explore"].contains(&verb.get_name());
        let instead = instead(unknown?).filter(|_| is_submission)?;
        Some(format!("it is an option of sbatch: {instead}"))
    };
    let missing = || missing_argument(error).map(str::to_owned);
    let help = || match error.kind() {
        ErrorKind::InvalidSubcommand | ErrorKind::MissingSubcommand => {
            format!("`{path} --help` lists the verbs")
        }
        _ => format!("`{path} --help` describes the options"),
    };
    let hint =
        misplaced.or_else(other).or_else(of_sbatch).or_else(missing).or_else(|| suggestion(error, &path));
    let hint = hint.unwrap_or_else(help);
    Some(RequestError::input(message(error, &path)).hint(hint))
}

/// The command whose arguments are wrong, and the words up to it.
fn verb_path<'a>(command: &'a Command, arguments: &[OsString]) -> (&'a Command, String) {
    let (mut path, mut verb) = (command.get_name().to_owned(), command);
    let mut skipped = false;
    for argument in arguments.iter().skip(1) {
        if std::mem::take(&mut skipped) {
            continue;
        }
        if let Some(found) = verb.find_subcommand(argument) {
            path = format!("{path} {}", found.get_name());
            verb = found;
        } else if let Some((_, words)) = option_words(argument, &[CONFIG, FORMAT]) {
            skipped = words > 1;
        } else {
            break;
        }
    }
    (verb, path)
}

/// A verb of this command with its option, if both are among the arguments.
fn behind_verb(command: &Command, arguments: &[OsString], option: &str) -> Option<String> {
    let verb = arguments.iter().find_map(|word| command.find_subcommand(word))?;
    let long = option.strip_prefix("--")?;
    let mut options = verb.get_arguments().filter_map(clap::Arg::get_long);
    options.any(|known| known == long).then(|| format!("{} {option}", verb.get_name()))
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

fn message(error: &clap::Error, path: &str) -> String {
    // What a parser of ours expected, or the values of an option.
    let argument = text_of(error, ContextKind::InvalidArg).and_then(|shown| shown.split(' ').next());
    let found = text_of(error, ContextKind::InvalidValue).filter(|value| !value.is_empty());
    match (error.kind(), argument, found) {
        (ErrorKind::ValueValidation, Some(argument), Some(found)) => {
            let said = error.source().map(ToString::to_string).unwrap_or_default();
            let argument = argument.trim_end_matches("...").trim_matches(['<', '>', '[', ']']);
            match said.starts_with("expected") {
                true => format!("{argument}: {said}"),
                false => format!("{argument}: `{found}` is not valid: {said}"),
            }
        }
        (ErrorKind::InvalidValue, Some(argument), Some(found)) => match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(values)) if !values.is_empty() => {
                format!("{argument}: expected one of {}, found `{found}`", values.join(", "))
            }
            _ => paragraph(error),
        },
        (ErrorKind::InvalidSubcommand, ..) => {
            let found = text_of(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("expected a verb of {path}, found `{found}`")
        }
        _ => paragraph(error),
    }
}

/// What clap says before its tips and the usage.
fn paragraph(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default().trim_end();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

/// What clap suggests in place of a wrong word.
fn suggestion(error: &clap::Error, path: &str) -> Option<String> {
    for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue] {
        let suggested = match error.get(kind) {
            Some(ContextValue::String(word)) => word,
            // The most similar one comes last.
            Some(ContextValue::Strings(words)) => words.last()?,
            _ => continue,
        };
        return Some(match kind {
            ContextKind::SuggestedSubcommand => format!("`{path} {suggested}` is a verb with a similar name"),
            ContextKind::SuggestedArg => format!("{suggested} is an option with a similar name"),
            _ => format!("`{suggested}` is similar"),
        });
    }
    None
}

/// Which of the options a word begins, and how many words the option has with its value.
pub fn option_words<'a>(word: &OsStr, options: &[&'a str]) -> Option<(&'a str, usize)> {
    let word = word.to_str()?;
    options.iter().find_map(|option| match word.strip_prefix(option)? {
        "" => Some((*option, 2)),
        value if value.starts_with('=') => Some((*option, 1)),
        _ => None,
    })
}

/// How to find out what to give, if arguments are missing.
fn missing_argument(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    (is_missing && missing.iter().any(|argument| argument.starts_with("<--procs")))
        .then_some("`pliant trace info FILE` shows how many processors the machine of a log had")
}

/// The option of a verb that does what an option which it does not have means.
pub fn equivalent_option(verb: &Command, given: &str) -> Option<&'static str> {
    let has = |option: &str| {
        let long = option.split(' ').next().and_then(|option| option.strip_prefix("--"));
        long == Some("format") || verb.get_arguments().any(|known| known.get_long() == long)
    };
    EQUIVALENT_OPTIONS.iter().find(|(name, option)| *name == given && has(option)).map(|(_, option)| *option)
}
