//! What a server declares: read with clear errors, filled in without a shell.

#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::collections::BTreeMap;
use std::path::Path;

use pliant_config::{ContentError, Source};
use pliant_control::names::User;
use pliant_model::{Procs, Span, Speedup};
use pliant_site::processes::Streams;
use pliant_site::services::{Catalogue, Prepared, Refusal, Script, ScriptProblem, ServiceDescription};
use pliant_staging::{Checksum, FileName, FileSpec};
use proptest::prelude::*;

const MATRIX: &str = r#"
name = "lyon"

[[service]]
name = "matrix"
summary = "multiplies matrices"
command = ["{pliant}", "work", "matrix", "--size={size}", "--mode", "{mode}", "--seed={seed}", "{label}", "{data}"]
speedup = "amdahl:0.95,64"
runtime = "90s"
runtime_per = { argument = "size", exponent = 3.0, at = 1000 }
max_walltime = "2h"
max_procs = 32
max_input_bytes = 1_000
users = ["alice"]

[service.arguments.size]
type = "integer"
min = 1
max = 20_000
default = 1000

[service.arguments.mode]
type = "choice"
choices = ["lu", "-qr"]
default = "lu"

[service.arguments.seed]
type = "integer"
required = false

[service.arguments.label]
type = "string"
max_length = 20

[service.arguments.data]
type = "file"
required = false

[service.environment]
OMP_NUM_THREADS = "{procs}"
LABEL = "{label}"
"#;

fn read(text: &str) -> Result<Catalogue, ContentError> {
    Catalogue::from_toml(&Source::new(Path::new("server.toml"), text.to_owned()))
}

fn alice() -> User {
    "alice".parse().unwrap()
}

fn prepare(given: &[(&str, &str)]) -> Result<Prepared, Refusal> {
    let given: BTreeMap<_, _> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    read(MATRIX).unwrap().find("matrix", &alice())?.prepare(&given, "/opt/bin/pliant", None)
}

#[test]
fn a_batch_is_on_the_fewest_processors_and_as_long_as_its_instances() {
    const FIT: &str = r#"
        [[service]]
        name = "fit"
        command = ["fit", "--x={x}", "--procs", "{procs}", "{mode}"]
        speedup = "amdahl:0.5,8@2"
        runtime = "30s"
        runtime_per = { argument = "x", exponent = 1.0, at = 1 }
        walltime_factor = 1.0
        max_walltime = "10m"

        [service.arguments.x]
        type = "number"
        min = 1

        [service.arguments.mode]
        type = "choice"
        choices = ["draft", "final"]
        default = "draft"
    "#;
    let catalogue = read(FIT).unwrap();
    let service = catalogue.find("fit", &alice()).unwrap();
    let varied = ["x".to_owned()];
    let batch = |values: &[&str]| {
        let calls = (5..).zip(values).map(|(number, value)| (number, vec![value.to_string()]));
        service.prepare_batch(&BTreeMap::new(), &varied, calls, "/opt/bin/pliant", None)
    };
    let (job, _) = batch(&["1", "3"]).unwrap();
    assert_eq!(job.argv(Procs(1), Span(60)), ["/opt/bin/pliant", "run-tasks", "../tasks.json"]);
    // 30 s on two processors are 40 s on one.
    assert_eq!((job.work.procs, job.work.walltime, job.work.speedup), (Procs(1), Span(160), Speedup::Rigid));
    assert_eq!(job.scale, 4.0);
    assert!(matches!(batch(&["1", "0"]).unwrap_err(), Refusal::Value { argument, .. } if argument == "x"));
    assert!(matches!(batch(&["30"]).unwrap_err(), Refusal::TooLong { .. }));
}

#[test]
fn a_request_is_filled_in() {
    let request = prepare(&[("label", "a b"), ("size", "2000"), ("data", "in/a.dat")]).unwrap();
    let argv = request.argv(Procs(4), Span(60));
    let command = ["/opt/bin/pliant", "work", "matrix", "--size=2000", "--mode", "lu", "a b", "in/a.dat"];
    assert_eq!(argv, command, "the word of the seed, which has no value, is left out");
    let variables = request.variables(Procs(4), Span(60));
    let expected =
        [("LABEL", "a b"), ("OMP_NUM_THREADS", "4"), ("PLIANT_PROCS", "4"), ("PLIANT_WALLTIME_S", "60")];
    let expected: BTreeMap<_, _> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(variables, expected);
    assert_eq!(
        (request.work.procs, request.work.walltime, request.scale),
        (Procs(1), Span(90 * 8 * 3 / 2), 8.0)
    );
    assert_eq!(
        request.work.speedup,
        Speedup::Amdahl { parallel: 0.95, limit: Procs(32) },
        "within max_procs"
    );
    let journaled = serde_json::to_string(&request).unwrap();
    assert_eq!(serde_json::from_str::<Prepared>(&journaled).unwrap(), request);

    let file = |name: &str, size| FileSpec { name: name.parse().unwrap(), size, sha256: Checksum::of(b"") };
    let refused = |files: &[FileSpec]| request.check_inputs(files).map_err(|refusal| refusal.to_string());
    let missing = "expected the input file in/a.dat, found none";
    assert_eq!(refused(&[file("a.dat", 1)]), Err(missing.to_owned()));
    assert_eq!(refused(&[file("in/a.dat", 600), file("b", 400)]), Ok(()));
    let large = "expected at most 1000 bytes of input, found 1001";
    assert_eq!(refused(&[file("in/a.dat", 601), file("b", 400)]), Err(large.to_owned()));
}

#[test]
fn a_walltime_is_cut_and_a_runtime_is_not() {
    // 90 s * 4.2^3 = 6668 s: within two hours, its walltime would not be.
    let request = prepare(&[("label", "x"), ("size", "4200")]).unwrap();
    assert_eq!(request.work.walltime, Span(7200));
    let refused = prepare(&[("label", "x"), ("size", "20000")]).unwrap_err();
    assert_eq!(refused, Refusal::TooLong { allowed: Span(7200), found: Span(720_000) });
}

#[test]
fn values_that_are_refused() {
    let check = |given: &[(&str, &str)], expected: &str| {
        let error = prepare(given).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!error.hint().is_empty());
    };
    let text = "printable text of at most 20 bytes on one line";
    check(&[], &format!("`label`: expected {text}, found nothing"));
    let known = "expected an argument of the service (data, label, mode, seed, size)";
    check(&[("label", "x"), ("n", "1")], &format!("{known}, found `n`"));
    check(&[("label", "a\nb")], &format!("`label`: expected {text}, found `a\\nb`"));
    check(&[("label", "a\0")], &format!("`label`: expected {text}, found `a\\0`"));
    check(&[("label", "\u{1b}[2J")], &format!("`label`: expected {text}, found `\\u{{1b}}[2J`"));
    check(
        &[("label", "123456789012345678901")],
        &format!("`label`: expected {text}, found `123456789012345678901`"),
    );
    check(&[("label", "--help")], "`label`: expected no leading `-`, found `--help`");
    check(&[("label", "-")], "`label`: expected no leading `-`, found `-`");
    check(&[("label", "x"), ("data", "-rf")], "`data`: expected no leading `-`, found `-rf`");
    for bad in ["../../etc/passwd", "/etc/passwd", "a/.."] {
        check(
            &[("label", "x"), ("data", bad)],
            &format!("`data`: expected the name of an input file, found `{bad}`"),
        );
    }
    for bad in ["0", "20001", "1e3", "", "12; id", "$(id)"] {
        let expected = format!("`size`: expected a whole number of 1 to 20000, found `{bad}`");
        check(&[("label", "x"), ("size", bad)], &expected);
    }
    check(&[("label", "x"), ("mode", "svd")], "`mode`: expected one of lu, -qr, found `svd`");
    assert!(prepare(&[("label", "x"), ("mode", "-qr")]).is_ok(), "the operator's own choice");
}

#[test]
fn only_named_users_see_a_service() {
    let catalogue = read(MATRIX).unwrap();
    let bob: User = "bob".parse().unwrap();
    let refused = catalogue.find("matrix", &bob).unwrap_err();
    assert_eq!(refused, catalogue.find("matrix", &bob).map(drop).unwrap_err());
    assert_eq!(refused.to_string(), "expected a service, found `matrix` on a server that offers none");
    assert_eq!(
        catalogue.find("x\ny", &alice()).unwrap_err().to_string(),
        "expected a service (matrix), found `x\\ny`"
    );
    assert_eq!((catalogue.describe(&bob).len(), catalogue.describe(&alice()).len()), (0, 1));
    let usable =
        |user: &User| catalogue.describe_all(user).iter().map(|(_, usable)| *usable).collect::<Vec<_>>();
    assert_eq!((usable(&bob), usable(&alice())), (vec![false], vec![true]), "operators see it");
}

#[test]
fn a_description_shows_clients_the_arguments_and_not_the_command() {
    let described = read(MATRIX).unwrap().describe(&alice());
    let text = serde_json::to_string(&described).unwrap();
    assert!(
        text.contains(r#""speedup":"amdahl:0.95,32""#) && text.contains(r#""runtime":"1m30s""#),
        "{text}"
    );
    assert!(
        text.contains("a whole number of 1 to 20000") && text.contains(r#""choices":["lu","-qr"]"#),
        "{text}"
    );
    assert!(
        !text.contains("OMP_NUM_THREADS") && !text.contains("alice") && !text.contains("--size"),
        "{text}"
    );
    let read: Vec<ServiceDescription> = serde_json::from_str(&text).unwrap();
    assert_eq!(read, described);
}

/// A service with `more` keys and the arguments in `tables`.
fn service(command: &str, more: &str, tables: &str) -> String {
    format!(
        "[[service]]\nname = \"s\"\ncommand = {command}\nspeedup = \"rigid:2\"\nruntime = \"10s\"\n{more}\n{tables}\n"
    )
}

#[test]
fn a_learned_runtime_counts_from_the_least_that_is_declared_on() {
    let walltimes = |more: &str| {
        let text = service("[\"a\"]", &format!("first = \"10m\"\nwalltime_factor = 2.0\n{more}"), "");
        let catalogue = read(&text.replace("10s", "history")).unwrap();
        [None, Some(7), Some(400), Some(900), Some(i64::MAX / 8)].map(|learned| {
            let service = catalogue.find("s", &alice()).unwrap();
            service.prepare(&BTreeMap::new(), "", learned.map(Span)).unwrap().work.walltime.0
        })
    };
    assert_eq!(walltimes("max_walltime = \"1h\""), [1_200, 1_200, 1_200, 1_800, 3_600]);
    assert_eq!(walltimes("min_runtime = \"30s\"\nmax_walltime = \"1h\""), [1_200, 60, 800, 1_800, 3_600]);
    // What users' runs teach refuses nothing, even where the walltime is cut.
    assert_eq!(walltimes("min_runtime = \"30s\"\nmax_walltime = \"1m\""), [60; 5]);
}

#[test]
fn declarations_that_are_refused() {
    let check = |text: &str, expected: &str| {
        let error = read(text).expect_err(text);
        assert_eq!(error.to_string(), format!("server.toml:{expected}"), "{text}");
        assert!(!error.hint.is_empty());
    };
    let a = "[service.arguments.a]\ntype = ";
    let command = |word: &str| service(&format!("[\"run\", \"{word}\"]"), "", "");
    check(&command("{size}"), "3:19: `command`: expected a known placeholder, found `{size}`");
    check(&command("{size"), "3:19: `command`: expected each brace to have its other, found `{` alone");
    check(&service("[]", "", ""), "3:11: `command`: expected a program, found an empty list");
    check(&service("[\"\"]", "", ""), "3:12: `command`: expected a program, found an empty word");
    check(&service("\"rm -rf {a}\"", "", ""), "3:11: `command`: expected a list, found \"rm -rf {a}\"");
    check(
        &service("[\"{a}\"]", "", &format!("{a}\"string\"")),
        "3:12: `command`: expected a program, found one that `a` chooses",
    );
    check(
        &service("[\"run\"]", "", &format!("{a}\"string\"")),
        "7:20: `a`: expected each argument to be used, found one that is not",
    );
    let with = |lines: &str| service("[\"run\", \"{a}\"]", "", &format!("{a}{lines}"));
    check(
        &with("\"text\""),
        "8:8: `type`: expected a type (integer, number, string, choice, bool, file), found `text`",
    );
    check(&with("\"choice\""), "8:8: missing key `choices`");
    check(
        &with("\"choice\"\nchoices = []"),
        "9:11: `choices`: expected printable words, found none, or something else",
    );
    check(&with("\"bool\"\nmin = 1"), "9:7: `min`: expected no such key on type bool, found it");
    check(
        &with("\"integer\"\nallow_dash = true"),
        "9:14: `allow_dash`: expected no such key on type integer, found it",
    );
    check(&with("\"integer\"\nmin = 0.5"), "9:7: `min`: expected a number of the argument's type, found 0.5");
    check(
        &with("\"integer\"\nmin = 5\nmax = 4"),
        "10:7: `max`: expected at least `min`, found a whole number of 5 to 4",
    );
    check(
        &with("\"integer\"\nmax = 4\ndefault = 5"),
        "10:11: `default`: expected a whole number of at most 4, found 5",
    );
    check(
        &with("\"integer\"\ndefault = 5\nrequired = true"),
        "10:12: `required`: expected false or no default, found both",
    );
    check(
        &with("\"string\"\npattern = \"x\""),
        "9:1: unknown key `pattern`, expected one of `type`, `summary`, `min`, `max`, `choices`, `max_length`, `default`, `required`, `allow_dash`",
    );
    for bad in ["procs", "A", "1a"] {
        check(
            &service("[\"run\"]", "", &format!("[service.arguments.{bad}]\ntype = \"bool\"")),
            &format!("7:20: `arguments`: expected the name of an argument, found `{bad}`"),
        );
    }
    let more = |line: &str| service("[\"run\"]", line, "");
    check(
        &more("max_walltime = \"2\""),
        "6:16: `max_walltime`: expected a length of time with its unit, such as 90s, 15m or 2h, found `2`",
    );
    check(&more("max_procs = 1"), "4:11: `speedup`: expected at most 1 processors, found 2");
    check(&more("max_procs = 0"), "6:13: `max_procs`: expected a whole number of 1 to 4294967295, found 0");
    check(
        &more("walltime_factor = 0.5"),
        "6:19: `walltime_factor`: expected a number of 1 to 1e9, found 0.5",
    );
    check(
        &more("first = \"1m\""),
        "6:9: `first`: expected it with runtime = \"history\" only, found it with a duration",
    );
    check(
        &more("min_runtime = \"1m\""),
        "6:15: `min_runtime`: expected it with runtime = \"history\" only, found it with a duration",
    );
    check(
        &more("first = \"1m\"\nmin_runtime = \"2m\"").replace("10s", "history"),
        "7:15: `min_runtime`: expected at most `first`, found `2m`",
    );
    check(
        &more("users = [\"a b\"]"),
        "6:10: `users`: expected a user name of 1 to 64 letters, digits and `. _ - @`, found `a b`",
    );
    for bad in ["PLIANT_PROCS", "1A", "A-B"] {
        check(
            &service("[\"run\"]", "", &format!("[service.environment]\n{bad} = \"1\"")),
            &format!("8:1: `environment`: expected a variable, found `{bad}`"),
        );
    }
    check(&more("").replace("10s", "history"), "5:11: missing key `first`");
    check(
        &more("").replace("rigid:2", "linear"),
        "4:11: `speedup`: expected a speedup model (rigid, folding, amdahl, downey, table), found `linear`",
    );
    check(
        &more("").replace("\"s\"", "\"S 1\""),
        "2:8: `name`: expected a name of 1 to 63 lower-case letters, digits and hyphens, found `S 1`",
    );
    check(&(more("") + &more("")), "9:8: `name`: expected unique service names, found `s` twice");
    let scaled = |argument: &str| {
        service(
            "[\"run\", \"{a}\"]",
            "runtime_per = { argument = \"a\", exponent = 2.0, at = 10 }",
            &format!("{a}{argument}"),
        )
    };
    for bad in ["\"string\"", "\"integer\"\nmin = 0", "\"integer\"\nmin = 1\nrequired = false"] {
        check(&scaled(bad), "6:28: `argument`: expected an integer or number above 0, found `a`");
    }
    assert!(read(&scaled("\"integer\"\nmin = 1")).is_ok());
}

static NO_VARIABLES: BTreeMap<String, String> = BTreeMap::new();

fn script<'a>(name: &'a FileName, content: &'a [u8], arguments: &'a [String]) -> Script<'a> {
    Script {
        name,
        content,
        arguments,
        speedup: "amdahl:0.9,64".parse().unwrap(),
        walltime: Span(1800),
        folder: None,
        environment: &NO_VARIABLES,
        streams: Streams::default(),
    }
}

#[test]
fn a_script_runs_by_its_first_line() {
    let (name, arguments) = ("dir/job.py".parse().unwrap(), ["-x".to_owned(), "{procs} $(id)".to_owned()]);
    let catalogue = read("").unwrap();
    let script = script(&name, b"#!/usr/bin/env python3\nprint(1)\n", &arguments);
    let prepared = catalogue.prepare_script(&script, Some(Procs(16)), None).unwrap();
    assert_eq!(prepared.argv(Procs(3), Span(5)), ["../script", "-x", "{procs} $(id)"]);
    assert_eq!(prepared.name, "job.py");
    assert_eq!((prepared.work.procs, prepared.work.walltime), (Procs(1), Span(1800)));
    assert_eq!(prepared.work.speedup, Speedup::Amdahl { parallel: 0.9, limit: Procs(16) });
    let refused = catalogue.prepare_script(&script, None, Some(Span(1799))).unwrap_err();
    assert_eq!(refused, Refusal::TooLong { allowed: Span(1799), found: Span(1800) });
    let rigid = Script { speedup: "rigid:17".parse().unwrap(), ..script.clone() };
    assert!(matches!(catalogue.prepare_script(&rigid, Some(Procs(16)), None), Err(Refusal::Speedup(_))));
    let environment = [("A".to_owned(), "{procs} $(id)".to_owned())].into();
    let given = Script { environment: &environment, ..script.clone() };
    let prepared = catalogue.prepare_script(&given, None, None).unwrap();
    let variables = prepared.variables(Procs(3), Span(5));
    assert_eq!((&*variables["A"], &*variables["PLIANT_PROCS"]), ("{procs} $(id)", "3"));
    for (name, value) in [("LD_PRELOAD", "x"), ("A-B", "x"), ("A", "\0"), ("A", &*"x".repeat(1 << 16))] {
        let environment = [(name.to_owned(), value.to_owned())].into();
        let refused =
            catalogue.prepare_script(&Script { environment: &environment, ..script.clone() }, None, None);
        assert_eq!(refused, Err(Refusal::Script(ScriptProblem::Environment)), "{name}");
    }
    let streams = Streams { stdin: Some("in/data".parse().unwrap()), merge_output: true };
    let reading = Script { streams: streams.clone(), ..script.clone() };
    let prepared = catalogue.prepare_script(&reading, None, None).unwrap();
    assert_eq!((&prepared.streams, prepared.inputs.len()), (&streams, 1), "it must be sent");
    let in_place = Script { folder: Some("/home/alice".into()), ..reading };
    assert!(catalogue.prepare_script(&in_place, None, None).unwrap().inputs.is_empty(), "it is there");
    let forbidden = read("scripts = false").unwrap();
    assert_eq!(forbidden.prepare_script(&script, None, None), Err(Refusal::NoScripts));
}

#[test]
fn scripts_that_are_refused() {
    let check = |content: &[u8], arguments: &[String], expected| {
        let name = "job.sh".parse().unwrap();
        let refused = read("").unwrap().prepare_script(&script(&name, content, arguments), None, None);
        assert_eq!(refused, Err(Refusal::Script(expected)), "{}", String::from_utf8_lossy(content));
        assert!(!expected.hint().is_empty());
    };
    check(b"", &[], ScriptProblem::Empty);
    check(b"echo 1\n", &[], ScriptProblem::NoInterpreter);
    check(b"\xef\xbb\xbf#!/bin/sh\n", &[], ScriptProblem::NoInterpreter);
    check(b"#!/bin/sh\r\necho 1\r\n", &[], ScriptProblem::CarriageReturn);
    for bad in [&b"#!\n"[..], b"#!sh\n", b"#! ./x\n", b"#!/bin/\0sh\n"] {
        check(bad, &[], ScriptProblem::Interpreter);
    }
    check(format!("#!/{}\n", "x".repeat(200)).as_bytes(), &[], ScriptProblem::InterpreterLength);
    check(&[&b"#!/bin/sh\n"[..], &vec![b' '; 1 << 20]].concat(), &[], ScriptProblem::Length);
    check(b"#!/bin/sh\n", &["a\0".to_owned()], ScriptProblem::Arguments);
    check(b"#!/bin/sh\n", &["a".repeat(70_000)], ScriptProblem::Arguments);
}

proptest! {
    /// Whatever a user writes: it is refused, or it arrives as it is, in one word, which is no option.
    #[test]
    fn a_value_stays_one_word(label in prop_oneof!["\\PC{0,12}", ".{0,6}", "[-{}$;`'\" a-z]{0,8}"]) {
        if let Ok(request) = prepare(&[("label", &label)]) {
            let argv = request.argv(Procs(1), Span(1));
            prop_assert_eq!(argv.len(), 7);
            prop_assert_eq!(&argv[6], &label);
            prop_assert!(!label.starts_with('-') && !label.contains(['\n', '\r', '\0']));
        } else {
            let refusable = label.starts_with('-') || label.len() > 20 || label.chars().any(|letter| !letter.is_ascii_graphic() && letter != ' ');
            prop_assert!(refusable, "{:?}", label);
        }
    }
}
