//! Errors of the command line in the form of all errors: one message, and a hint. `--config` before a verb is understood.

use std::error::Error;
use std::ffi::{OsStr, OsString};

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;
use crate::hints::{equivalent_option, missing_argument};

/// The option that all verbs of a federation have, and that may also precede the verb.
const CONFIG: &str = "--config";
/// The option that may precede any verb.
const FORMAT: &str = "--format";

/// The arguments with `--config FILE` behind the verb, if it was before the verb.
pub(crate) fn with_config_behind_verbs(
    command: &Command,
    arguments: impl Iterator<Item = OsString>,
) -> Vec<OsString> {
    let mut rest: Vec<OsString> = arguments.collect();
    rest.reverse();
    let mut ordered: Vec<OsString> = rest.pop().into_iter().collect();
    let mut config: Vec<OsString> = Vec::new();
    let mut verb = command;
    while let Some(next) = rest.last() {
        if let Some(found) = verb.find_subcommand(next) {
            ordered.extend(rest.pop());
            verb = found;
            continue;
        }
        match option_words(next, &[CONFIG, FORMAT]) {
            Some((CONFIG, words)) if config.is_empty() => {
                config.extend((0..words).map_while(|_| rest.pop()));
            }
            Some((FORMAT, words)) => ordered.extend((0..words).map_while(|_| rest.pop())),
            _ => break,
        }
    }
    ordered.append(&mut config);
    ordered.extend(rest.into_iter().rev());
    ordered
}

/// Which of the options a word begins, and how many words the option has with its value.
fn option_words<'a>(word: &OsStr, options: &[&'a str]) -> Option<(&'a str, usize)> {
    let word = word.to_str()?;
    options.iter().find_map(|option| match word.strip_prefix(option)? {
        "" => Some((*option, 2)),
        value if value.starts_with('=') => Some((*option, 1)),
        _ => None,
    })
}

/// The failure that an error of clap means. None for help and the version, which clap prints.
pub(crate) fn usage_failure(
    command: &Command,
    arguments: &[OsString],
    error: &clap::Error,
) -> Option<Failure> {
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
    let missing = || missing_argument(error).map(str::to_owned);
    let help = || match error.kind() {
        ErrorKind::InvalidSubcommand | ErrorKind::MissingSubcommand => {
            format!("`{path} --help` lists the verbs")
        }
        _ => format!("`{path} --help` describes the options"),
    };
    let hint = misplaced.or_else(other).or_else(missing).or_else(|| suggestion(error, &path));
    let hint = hint.unwrap_or_else(help);
    Some(Failure::input(message(error, &path)).hint(hint))
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
            Some(ContextValue::Strings(words)) => words.first()?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::command;

    #[test]
    fn a_wrong_command_line_is_an_error_with_a_hint() {
        let check = |line: &str, message: &str, hint: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = command().try_get_matches_from(&arguments).unwrap_err();
            let failure = usage_failure(&command(), &arguments, &error).expect(line);
            assert_eq!((failure.message(), failure.hint_text()), (message, Some(hint)), "{line}");
            assert_eq!(failure.code, 2, "{line}");
        };
        check(
            "pliant subit",
            "expected a verb of pliant, found `subit`",
            "`pliant submit` is a verb with a similar name",
        );
        check("pliant xyz", "expected a verb of pliant, found `xyz`", "`pliant --help` lists the verbs");
        check(
            "pliant campaign xyz",
            "expected a verb of pliant campaign, found `xyz`",
            "`pliant campaign --help` lists the verbs",
        );
        check(
            "pliant submit pi --tim 5m",
            "unexpected argument '--tim' found",
            "--time is an option with a similar name",
        );
        check(
            "pliant launch app.toml --threshold 0.5",
            "unexpected argument '--threshold' found",
            "`--similarity` does that; `pliant launch --help` describes the options",
        );
        check(
            "pliant launch app.toml --walltime 1h",
            "unexpected argument '--walltime' found",
            "`--time` does that; `pliant launch --help` describes the options",
        );
        check(
            "pliant simulate --workload log.swf",
            "the following required arguments were not provided:\n  <--procs <N>|--platform <FILE.toml>>",
            "`pliant trace info FILE` shows how many processors the machine of a log had",
        );
        check(
            "pliant submit pi --threshold 5",
            "unexpected argument '--threshold' found",
            "`pliant submit --help` describes the options",
        );
        check(
            "pliant queue --json",
            "unexpected argument '--json' found",
            "`--format json` does that; `pliant queue --help` describes the options",
        );
        check(
            "pliant submit --script x --time 5",
            "--time: expected a length of time with its unit, such as 90s, 15m or 2h, found `5`",
            "`pliant submit --help` describes the options",
        );
        check(
            "pliant status lyon",
            "JOB: expected a job ID like `lyon.17`, found `lyon`",
            "`pliant status --help` describes the options",
        );
        check(
            "pliant --format yaml queue",
            "--format: expected one of text, json, found `yaml`",
            "`pliant queue --help` describes the options",
        );
        check(
            "pliant submit --script",
            "a value is required for '--script <FILE>' but none was supplied",
            "`pliant submit --help` describes the options",
        );
        check(
            "pliant map",
            "the following required arguments were not provided:\n  --platform <GRID>\n  <APP>",
            "`pliant map --help` describes the options",
        );
        check(
            "pliant --services servers",
            "unexpected argument '--services' found",
            "options follow the verb: `pliant servers --services ...`",
        );
        check(
            "pliant launch --last 5 list",
            "unexpected argument '--last' found",
            "options follow the verb: `pliant launch list --last ...`",
        );
    }

    #[test]
    fn help_and_the_version_are_no_errors() {
        for line in ["pliant --help", "pliant --version", "pliant", "pliant campaign"] {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let shown = command().try_get_matches_from(&arguments).unwrap_err();
            assert!(usage_failure(&command(), &arguments, &shown).is_none(), "{line}");
        }
    }

    #[test]
    fn the_client_file_may_precede_the_verb() {
        let check = |line: &str, expected: &str| {
            let words = line.split(' ').map(OsString::from);
            let expected: Vec<OsString> = expected.split(' ').map(OsString::from).collect();
            assert_eq!(with_config_behind_verbs(&command(), words), expected, "{line}");
        };
        check("pliant --config F servers --services", "pliant servers --config F --services");
        check("pliant --config=F --format json jobs", "pliant --format json jobs --config=F");
        check("pliant launch --config F list --all", "pliant launch list --config F --all");
        check("pliant --config F launch list", "pliant launch list --config F");
        check("pliant launch --config F app.toml", "pliant launch --config F app.toml");
        check("pliant submit --config F pi", "pliant submit --config F pi");
        check("pliant submit --in a --config F pi", "pliant submit --in a --config F pi");
        check("pliant --config", "pliant --config");
        check("pliant", "pliant");
    }
}
