//! Options of a job, and scripts with them.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: JobOptions,
}

fn options(line: &str) -> JobOptions {
    let words = std::iter::once("submit").chain(line.split_whitespace());
    Line::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).options
}

#[test]
fn options_win_over_weaker_ones() {
    let check = |stronger: &str, weaker: &str, expected: &str| {
        assert_eq!(options(stronger).over(options(weaker)), options(expected), "{stronger} over {weaker}");
    };
    check("", "--time 1h --rigid 2 --wait", "--time 1h --rigid 2 --wait");
    check("--time 2h", "--time 1h --out o", "--time 2h --out o");
    check("--speedup folding:4", "--rigid 2", "--speedup folding:4");
    check("--rigid 2", "--speedup folding:4 --server a", "--rigid 2 --server a");
    check("--in b", "--in a --job-name n", "--in a --in b --job-name n");
    check("--job-name m --chdir x", "--job-name n --chdir y", "--job-name m --chdir x");
    check(
        "--server-timeout 1s",
        "--server-timeout 2s --ignore-sbatch",
        "--server-timeout 1s --ignore-sbatch",
    );
}

#[test]
fn names_of_jobs_are_names_of_files() {
    for name in ["fit", "fit 3, second run", "é"] {
        assert_eq!(job_name(name), Ok(name.to_owned()));
    }
    for name in ["", "..", "a/b", "a\nb", &"x".repeat(bounds::NAME_BYTES_MAX + 1)] {
        assert!(job_name(name).is_err_and(|error| error.starts_with("expected a name")), "{name}");
    }
}

#[test]
fn variables_have_a_name_and_a_value_on_one_line() {
    let check = |text: &str, expected: Result<(&str, &str), &str>| match (variable(text), expected) {
        (Ok((name, value)), Ok(expected)) => assert_eq!((&*name, &*value), expected, "{text}"),
        (Err(found), Err(start)) => assert!(found.starts_with(start), "{text}: {found}"),
        (found, _) => panic!("{text}: {found:?}"),
    };
    check("OMP_NUM_THREADS=4", Ok(("OMP_NUM_THREADS", "4")));
    check("A=b=c d", Ok(("A", "b=c d")));
    check("A=", Ok(("A", "")));
    check("A", Err("expected NAME=VALUE, found `A`"));
    for text in ["=b", "1A=b", "A B=c", "PLIANT_JOB=1", "SLURM_JOB_ID=1", "LD_PRELOAD=x", "IFS=x"] {
        check(text, Err("expected a variable of letters"));
    }
    check("A=b\nc", Err("expected a value on one line"));
    check(&format!("A={}", "x".repeat(bounds::ARGUMENT_BYTES_MAX + 1)), Err("expected a value on one line"));
}

#[test]
fn the_last_value_of_a_variable_counts_and_they_are_bounded() {
    let script =
        |options: JobOptions| options.script("job.sh".to_owned(), b"#!/bin/sh\n".to_vec().into(), Vec::new());
    let given = options("--env A=3 --env A=4").over(options("--time 1h --env A=1 --env B=2"));
    let environment = script(given).unwrap().environment;
    assert_eq!(environment, [("A", "4"), ("B", "2")].map(|(name, value)| (name.into(), value.into())).into());
    let many: String = (0..=bounds::ARGUMENTS_MAX).map(|number| format!(" --env A{number}=1")).collect();
    let failure = script(options(&format!("--time 1h{many}"))).unwrap_err();
    assert_eq!(failure.message(), "--env: expected at most 100 variables, found 101");
}

#[test]
fn standard_input_is_sent_unless_it_is_in_the_folder_of_the_user() {
    let check = |line: &str, expected: Result<(&str, &[&str]), &str>| {
        let given = options(&format!("--time 1h {line}"));
        let files = given.files();
        let files: Vec<&str> = files.iter().map(|file| file.name().as_str()).collect();
        let script = given.script("job.sh".to_owned(), b"#!/bin/sh\n".to_vec().into(), Vec::new());
        match (script, expected) {
            (Ok(script), Ok((name, sent))) => {
                assert_eq!(script.stdin.as_ref().map(FileName::as_str), Some(name), "{line}");
                assert_eq!(files, sent, "{line}");
            }
            (Err(failure), Err(start)) => assert!(failure.message().starts_with(start), "{line}"),
            (found, _) => panic!("{line}: {found:?}"),
        }
    };
    check("--stdin ../far/data", Ok(("data", &["data"])));
    check("--stdin in/a=data --in b", Ok(("in/a", &["b", "in/a"])));
    check("--stdin data --in data", Ok(("data", &["data"])));
    check("--stdin in/data --chdir /home/alice", Ok(("in/data", &[])));
    check("--stdin ../data --chdir /home/alice", Err("--stdin: with --chdir expected a path from that"));
    check("--stdin /tmp/data --chdir /home/alice", Err("--stdin: with --chdir expected a path from that"));
}

#[test]
fn a_folder_of_the_user_is_for_no_input_files() {
    let both = options("--chdir a").over(options("--in b --time 1h"));
    let failure = both.script("job.sh".to_owned(), b"#!/bin/sh\n".to_vec().into(), Vec::new());
    assert_eq!(failure.unwrap_err().message(), "expected --chdir or --in, found both");
}
