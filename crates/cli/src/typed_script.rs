//! Scripts that were typed into a page of `pliant web`, read as `pliant submit` reads the file of a script; and scripts that were
//! submitted before, as a page would have them typed.

use pliant_staging::FileName;
use pliant_web::{Problem, ReadScript, ScriptReader, TypedScript};
use pliant_wire::Script;

use crate::failure::Failure;
use crate::job_files::typed_script;
use crate::script_directives;
use crate::script_words::all_words;

/// How the pages read and write scripts.
pub(crate) fn reader() -> ScriptReader {
    ScriptReader::new(read, typed)
}

/// The script with everything that its options and its lines say.
fn read(typed: &TypedScript) -> Result<ReadScript, Problem> {
    script(typed).map_err(problem)
}

fn problem(failure: Failure) -> Problem {
    let problem = Problem::unprocessable(failure.message());
    match failure.hint_text() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// A script as it has to be typed to be the same, with as few options as that takes. `inputs` are the files that are sent along.
fn typed(submitted: &Script, inputs: &[FileName]) -> Result<TypedScript, Problem> {
    let refused =
        |why: &str| Failure::input(format!("expected a script that fits into the form, found one {why}"));
    if submitted.folder.is_some() {
        return Err(problem(refused("that runs in a folder of its user's")));
    }
    let text = std::str::from_utf8(submitted.text.as_bytes());
    let text = text.map_err(|_| problem(refused("that is not UTF-8")))?;
    let typed = |groups: &[Vec<String>]| TypedScript {
        name: submitted.name.clone(),
        text: text.to_owned(),
        options: groups.concat(),
        arguments: submitted.arguments.clone(),
        inputs: inputs.to_vec(),
    };
    let is_same =
        |groups: &[Vec<String>]| script(&typed(groups)).is_ok_and(|found| found.script == *submitted);
    let mut groups = all_words(submitted);
    if !is_same(&groups) {
        return Err(problem(refused("with options or lines that the form does not take")));
    }
    // What the lines of the script say need not be said again.
    let mut index = 0;
    while index < groups.len() {
        let group = groups.remove(index);
        if !is_same(&groups) {
            groups.insert(index, group);
            index += 1;
        }
    }
    Ok(typed(&groups))
}

fn script(typed: &TypedScript) -> Result<ReadScript, Failure> {
    let TypedScript { name, text, options, arguments, inputs } = typed;
    let text = typed_script(name, text)?;
    let given = script_directives::parsed(options.clone())?;
    let directives = script_directives::read(name, text.as_bytes(), &given)?;
    let options = given.over(directives.options);
    if let Some(option) = options.of_this_machine(inputs) {
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
            inputs: Vec::new(),
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

    /// The script of a text with options, typed again.
    fn typed_again(text: &str, options: &str, inputs: &[&str]) -> TypedScript {
        let inputs: Vec<FileName> = inputs.iter().map(|name| name.parse().unwrap()).collect();
        let given = TypedScript { inputs: inputs.clone(), ..typed(text, options) };
        let submitted = read(&given).unwrap().script;
        let again = super::typed(&submitted, &inputs).unwrap();
        assert_eq!(read(&again).unwrap().script, submitted, "{options}");
        again
    }

    #[test]
    fn a_script_is_typed_again_with_the_options_that_it_needs() {
        let check = |text: &str, options: &str, expected: &str| {
            assert_eq!(typed_again(text, options, &[]).options.join(" "), expected, "{text:?} {options}");
        };
        let plain = "#!/bin/sh\n";
        check(plain, "--time 90m", "--time 1h30m");
        check(plain, "--time 1h --rigid 4 --merge-output", "--time 1h --rigid 4 --merge-output");
        check(plain, "--time 1h --speedup amdahl:0.95,64", "--time 1h --speedup amdahl:0.95,64");
        check(plain, "--time 1h --speedup folding:8 --nice 3", "--time 1h --speedup folding:8 --nice 3");
        check(
            plain,
            "--time 1h --rigid 8 --mem 64G --gpus a100:2 --nodes 2 --procs-per-node 4 --exclusive --constraint a&b",
            "--time 1h --rigid 8 --mem 64G --gpus a100:2 --nodes 2 --procs-per-node 4 --exclusive --constraint a&b",
        );
        check(
            plain,
            "--time 1h --mem-per-proc 512M --gpus-per-proc 1 --scratch 1T --licenses ansys,matlab:2 --qos high",
            "--time 1h --mem-per-proc 512M --gpus-per-proc 1 --scratch 1T --licenses ansys:1,matlab:2 --qos high",
        );
        check(plain, "--time 1h --partition a,b --account p", "--time 1h --partition a,b --account p");
        check(plain, "--time 1h --env A=-x --requeue 2", "--time 1h --requeue 2 --env A=-x");
        check(
            plain,
            "--time 1h --deadline 2030-01-02T03:04:05Z",
            "--time 1h --deadline 2030-01-02 03:04:05Z",
        );
        let lines = "#!/bin/sh\n#PLIANT --time 1h --rigid 4 --job-name fit --nice 2\n#SBATCH --mem=4G\n";
        check(lines, "", "");
        check(lines, "--rigid 2 --nice 0 --job-name other", "--job-name other --rigid 2 --nice 0");
        check(lines, "--ignore-sbatch", "--ignore-sbatch");
        check(lines, "--mem 8G", "--mem 8G");
    }

    #[test]
    fn inputs_that_are_sent_along_are_no_files_of_this_machine() {
        let text = "#!/bin/sh\n#PLIANT --in data.csv --stdin in/a=a\n";
        let inputs = ["data.csv", "in/a"];
        assert_eq!(typed_again(text, "--time 1h", &inputs).options.join(" "), "--time 1h");
        let options = typed_again("#!/bin/sh\n", "--time 1h --stdin in/a=x", &inputs).options;
        assert_eq!(options.join(" "), "--time 1h --stdin in/a=in/a");
        let other = TypedScript { inputs: vec!["other".parse().unwrap()], ..typed(text, "--time 1h") };
        assert!(script(&other).unwrap_err().message().contains("--in"));
    }

    #[test]
    fn what_a_form_cannot_hold_is_said() {
        let submitted = read(&typed("#!/bin/sh\n", "--time 1h")).unwrap().script;
        let latin = Script { text: b"#!/bin/sh\n\xe9\n".to_vec().into(), ..submitted.clone() };
        let waiting = Script { text: b"#!/bin/sh\n#PLIANT --wait\n".to_vec().into(), ..submitted };
        for (script, expected) in [(latin, "not UTF-8"), (waiting, "lines that the form does not take")] {
            let problem = super::typed(&script, &[]).unwrap_err();
            assert!(format!("{problem:?}").contains(expected), "{problem:?}");
        }
    }
}
