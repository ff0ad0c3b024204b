//! Scripts that were typed into a page of `pliant web`, read as `pliant submit` reads the file of a script.

use pliant_web::{Problem, ReadScript, TypedScript};

use crate::failure::Failure;
use crate::job_files::typed_script;
use crate::script_directives;

/// The script with everything that its options and its lines say.
pub(crate) fn read(typed: &TypedScript) -> Result<ReadScript, Problem> {
    script(typed).map_err(|failure| {
        let problem = Problem::unprocessable(failure.message());
        match failure.hint_text() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    })
}

fn script(typed: &TypedScript) -> Result<ReadScript, Failure> {
    let TypedScript { name, text, options, arguments } = typed;
    let text = typed_script(name, text)?;
    let given = script_directives::parsed(options.clone())?;
    let directives = script_directives::read(name, text.as_bytes(), &given)?;
    let options = given.over(directives.options);
    if let Some(option) = options.of_this_machine() {
        let problem = format!("expected options that a page has, found {option}");
        return Err(Failure::input(problem).hint("`pliant submit` takes it on the command line"));
    }
    let (server, timeout) = (options.server.clone(), options.timeout());
    Ok(ReadScript { script: options.script(name.clone(), text, arguments.clone())?, server, timeout })
}

#[cfg(test)]
mod tests {
    use pliant_model::{Procs, Span};

    use super::*;

    fn typed(text: &str, options: &str) -> TypedScript {
        TypedScript {
            name: "job.sh".to_owned(),
            text: text.to_owned(),
            options: options.split_whitespace().map(str::to_owned).collect(),
            arguments: vec!["a b".to_owned()],
        }
    }

    #[test]
    fn options_and_lines_mean_what_they_mean_on_the_command_line() {
        let found = read(&typed("#!/bin/sh\n#PLIANT --time 2h --server lyon\ntrue\n", "--rigid 4 --time 1h"))
            .unwrap();
        assert_eq!((found.script.work.procs, found.script.work.walltime), (Procs(4), Span(3600)));
        assert!(found.script.work.fixed_time);
        assert_eq!(found.server.unwrap().as_str(), "lyon");
        assert_eq!((found.script.name.as_str(), found.script.arguments), ("job.sh", vec!["a b".to_owned()]));
    }

    #[test]
    fn what_a_page_cannot_do_is_refused() {
        let check = |text: &str, options: &str, expected: &str| {
            let failure = script(&typed(text, options)).unwrap_err();
            assert!(failure.message().contains(expected), "{options}: {failure:?}");
        };
        let script_text = "#!/bin/sh\n";
        check(script_text, "", "--time");
        check(script_text, "--time 1h --in /etc/passwd", "--in");
        check(script_text, "--time 1h --chdir /", "--chdir");
        check("#!/bin/sh\n#PLIANT --stdin /etc/passwd\n", "--time 1h", "--stdin");
        check(script_text, "--time 1h --out x", "--out");
        check(script_text, "--time 1h --array 1-3", "--array");
        check("true\n", "--time 1h", "interpreter");
        check(script_text, "--time 1h --nonsense", "--nonsense");
        let mut named = typed(script_text, "--time 1h");
        named.name = "../x".to_owned();
        assert!(script(&named).is_err());
    }
}
