//! `--config` before a verb is understood. Tests of the errors of the command line.

use std::ffi::OsString;

use clap::Command;
use pliant_request::usage_error::{CONFIG, FORMAT, option_words};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::command;
    use pliant_request::usage_error::usage_failure;

    #[test]
    fn a_wrong_command_line_is_an_error_with_a_hint() {
        let check = |line: &str, message: &str, hint: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = command().try_get_matches_from(&arguments).unwrap_err();
            let failure = usage_failure(&command(), &arguments, &error).expect(line);
            assert_eq!((failure.message(), failure.hint_text()), (message, Some(hint)), "{line}");
            assert!(failure.is_input(), "{line}");
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
