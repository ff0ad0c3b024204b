//! The C library of GridRPC, used by programs in C, C++ and Fortran.

mod programs;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pliant_transport::Role;

use crate::harness::*;
use programs::{Linked, Programs, file, run, run_checked, workspace};

/// The services of the interoperability test, which calls them by names in capitals.
const SERVICES: &str = r#"
[[service]]
name = "succ"
signature = ["in int n", "out int m"]
command = ["/bin/sh", "-c", "echo $(($1 + 1))", "succ", "{n}"]
speedup = "rigid:1"
runtime = "60s"

[service.parameters.m]
output = "stdout"

[[service]]
name = "sleep"
signature = ["in int seconds"]
command = ["sleep", "{seconds}"]
speedup = "rigid:1"
runtime = "60s"

[[service]]
name = "loop"
signature = ["in int n"]
command = ["/bin/sh", "-c", "while true; do sleep 1; done", "loop", "{n}"]
speedup = "rigid:1"
runtime = "1h"

[[service]]
name = "exit"
signature = ["in int code"]
command = ["/bin/sh", "-c", "exit $1", "exit", "{code}"]
speedup = "rigid:1"
runtime = "60s"
"#;

/// The first of them in a process that takes all calls.
const RESIDENT: &str = r#"
[[service]]
name = "succ"
signature = ["in int n", "out int m"]
library = "/opt/mmul/libmmul.so"
function = "succ"
speedup = "rigid:1"
runtime = "60s"
"#;

/// A service with strings, files and an array that changes.
const EVERYTHING: &str = r#"
[[service]]
name = "everything"
signature = ["in int n", "inout long v[n]", "in string word", "out string shouted[32]", "in file source", "out file copy", "out float half"]
command = ["/bin/sh", "-c", '''
printf %s "$2" | tr a-z A-Z > shouted
cp source copy
awk '{{ for (i = 1; i <= NF; i++) printf "%.0f\n", 2 * $i }}' v > doubled && mv doubled v
echo "$1" | awk '{{ print $1 / 2 }}'
''', "everything", "{n}", "{word}"]
speedup = "rigid:1"
runtime = "60s"

[service.parameters.v]
format = "text"

[service.parameters.half]
output = "stdout"
"#;

/// A service with numbers and matrices of every type.
const TRANSPOSE: &str = r#"
[[service]]
name = "transpose"
signature = ["in int n", "in char letter", "in float f", "in long large", "in float a[2][n]", "in double matrix[2][n]",
             "inout char letters[n]", "out char next", "out float twice", "out long larger", "out float b[n][2]", "out double transposed[n][2]"]
library = "/opt/mmul/libmmul.so"
speedup = "rigid:1"
runtime = "60s"
"#;

/// Makes the first of [`SERVICES`] refuse negative numbers.
const NATURAL: &str = "[service.parameters.n]\nmin = 0\n\n[service.parameters.m]";

/// How many calls the stress makes, if it is not the short form.
const CALLS: &str = "PLIANT_GRIDRPC_CALLS";

/// How many sessions are cancelled, if it is not the short form.
const SESSIONS: &str = "PLIANT_GRIDRPC_SESSIONS";

async fn federation(services: &str) -> Federation {
    Federation::start(&[cluster("lyon", services)]).await
}

fn cluster(name: &'static str, services: &str) -> Cluster {
    Cluster { tables: services.to_owned(), ..Cluster::new(name, 8, 1.0) }
}

/// Runs a program that prints a word where it waits for something to be done, and reads a line once that is done: what it prints.
fn run_with(program: &Path, arguments: &[&str], word: &str, mut act: impl FnMut()) -> String {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut printed = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        printed.push_str(&format!("{line}\n"));
        if line == word {
            act();
            input.write_all(b"go on\n").unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {printed}");
    printed
}

/// Services of a page or an example, with the library where it is here.
fn with_library(services: &str, library: &Path) -> String {
    const INSTALLED: &str = "/opt/mmul/libmmul.so";
    assert!(services.contains(INSTALLED), "{services}");
    services.replace(INSTALLED, library.to_str().unwrap())
}

fn client_file(federation: &Federation) -> PathBuf {
    federation.client_file(Role::User, "alice")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fifty_cases_of_the_interoperability_test_pass() {
    let federation = federation(SERVICES).await;
    let (programs, config) = (Programs::new(), client_file(&federation));
    let cases = programs.test_program("cases.c");
    let arguments = [config.to_str().unwrap(), "lyon"];
    let check = |printed: &str| assert!(printed.contains("50 of 50 passed, 0 failed"), "{printed}");
    check(&run(&cases, &arguments));
    if let Some(printed) = run_checked(&cases, &arguments) {
        check(&printed);
    }
    let source = workspace().join("crates/gridrpc/tests/c/cases.c");
    check(&run(&programs.compile("cc", &source, Linked::Statically).unwrap(), &arguments));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fifty_cases_pass_while_the_server_is_killed_and_started_again() {
    let mut federation = federation(SERVICES).await;
    let (programs, config) = (Programs::new(), client_file(&federation));
    let runtime = tokio::runtime::Handle::current();
    let mut kills = 0;
    let cases = programs.test_program("cases.c");
    let printed = tokio::task::block_in_place(|| {
        run_with(&cases, &[config.to_str().unwrap(), "lyon", "disturb"], "disturb", || {
            federation.kill("lyon");
            federation.revive("lyon");
            runtime.block_on(federation.attached(1));
            kills += 1;
        })
    });
    assert!(printed.contains("50 of 50 passed, 0 failed"), "{printed}");
    assert!(kills >= 10, "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn asynchronous_calls_of_eight_threads_have_their_outputs() {
    let programs = Programs::new();
    let succ = programs.shared(&workspace().join("crates/gridrpc/tests/c/succ.c"));
    let federation = federation(&with_library(RESIDENT, &succ)).await;
    let config = client_file(&federation);
    let calls = std::env::var(CALLS).unwrap_or("800".to_owned());
    let printed = run(&programs.test_program("stress.c"), &[config.to_str().unwrap(), "8", &calls]);
    assert_eq!(printed, format!("{calls} calls, 0 wrong, finalized with GRPC_NO_ERROR\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_use_gives_codes() {
    let federation = federation(SERVICES).await;
    let (programs, config) = (Programs::new(), client_file(&federation));
    let broken = programs.path().join("broken.toml");
    fs::write(&broken, "agent = 5\n").unwrap();
    let hostile = programs.test_program("hostile.c");
    let arguments = [&config, &broken];
    assert!(run(&hostile, &arguments).contains("0 wrong"));
    if let Some(printed) = run_checked(&hostile, &arguments) {
        assert!(printed.contains("0 wrong"), "{printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strings_files_and_arrays_go_and_come_back() {
    let federation = federation(EVERYTHING).await;
    let (programs, config) = (Programs::new(), client_file(&federation));
    let types = programs.test_program("types.c");
    assert_eq!(run(&types, &[&config]), "right\n");
    if let Some(printed) = run_checked(&types, &[&config]) {
        assert_eq!(printed, "right\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_matrices_of_every_type_go_and_come_back() {
    let programs = Programs::new();
    let transpose = programs.shared(&workspace().join("crates/gridrpc/tests/c/transpose.c"));
    let federation = federation(&with_library(TRANSPOSE, &transpose)).await;
    let (numbers, config) = (programs.test_program("numbers.c"), client_file(&federation));
    assert_eq!(run(&numbers, &[&config]), "right\n");
    if let Some(printed) = run_checked(&numbers, &[&config]) {
        assert_eq!(printed, "right\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_call_is_noticed_and_all_are_cancelled_while_many_run() {
    let federation = Federation::start(&[cluster("lyon", SERVICES), cluster("nancy", SERVICES)]).await;
    let (programs, config) = (Programs::new(), client_file(&federation));
    let sessions = std::env::var(SESSIONS).unwrap_or("200".to_owned());
    let printed =
        run(&programs.test_program("many.c"), &[config.to_str().unwrap(), "lyon", "nancy", &sessions]);
    assert_eq!(printed, format!("{sessions} sessions, 0 wrong\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forked_child_does_not_have_the_library_until_it_initializes_it() {
    let federation = federation(SERVICES).await;
    let (programs, config) = (Programs::new(), client_file(&federation));
    assert_eq!(run(&programs.test_program("fork.c"), &[&config]), "0 wrong\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_daemons_that_are_down_have_their_codes() {
    let services = SERVICES.replace("[service.parameters.m]", NATURAL);
    assert_ne!(services, SERVICES);
    let mut federation = federation(&services).await;
    let (programs, config) = (Programs::new(), client_file(&federation));
    let refusals = programs.test_program("refusals.c");
    let printed = run_with(&refusals, &[config.to_str().unwrap()], "kill", || {
        federation.kill("lyon");
        federation.kill(MASTER);
    });
    assert_eq!(printed, "kill\n0 wrong\n");
}

/// The inputs of a profile of DIET come first, then what goes both ways.
const EVERYTHING_OF_DIET: &str = r#"["in int n", "in string word", "in file source", "inout long v[n]", "out string shouted[32]", "out file copy", "out float half"]"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_the_functions_of_diet_runs() {
    let programs = Programs::new();
    let transpose = programs.shared(&workspace().join("crates/gridrpc/tests/c/transpose.c"));
    let signature = |line: &str| match line.strip_prefix("signature = ") {
        Some(_) => format!("signature = {EVERYTHING_OF_DIET}"),
        None => line.to_owned(),
    };
    let everything: Vec<String> = EVERYTHING.lines().map(signature).collect();
    let services = [&with_library(TRANSPOSE, &transpose), SERVICES, &everything.join("\n")].join("\n");
    let federation = federation(&services).await;
    let (diet, config) = (programs.test_program("diet.c"), client_file(&federation));
    assert_eq!(run(&diet, &[&config]), "right\n");
    if let Some(printed) = run_checked(&diet, &[&config]) {
        assert_eq!(printed, "right\n");
    }
}

/// How long calls from C take: `cargo test --release -p pliant --test federation -- --ignored --nocapture calls_from_c`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn calls_from_c_in_a_second() {
    let programs = Programs::new();
    let mmul = programs.shared(&workspace().join("examples/gridrpc/mmul.c"));
    let services = with_library(&file("examples/gridrpc/services.toml"), &mmul);
    let limits = "[limits]\nrequests_per_second = 100000.0\nburst = 1000000\n";
    let federation = Federation::start(&[cluster("lyon", &format!("{limits}{services}"))]).await;
    let config = client_file(&federation);
    let arguments = [config.to_str().unwrap(), "lyon", "500", "3000", "32"];
    println!("{}", run(&programs.test_program("latency.c"), &arguments));
}

/// The bounds of a user's data at each server are so small that a fourth matrix does not fit.
#[tokio::test(flavor = "multi_thread")]
async fn data_stay_at_a_server_between_calls_from_c() {
    let programs = Programs::new();
    let mmul = programs.shared(&workspace().join("examples/gridrpc/mmul.c"));
    let services = with_library(&file("examples/gridrpc/services.toml"), &mmul);
    let services = format!("[stored_data]\ncount_per_user = 4\n{services}");
    let federation = Federation::start(&[cluster("lyon", &services), cluster("nancy", &services)]).await;
    let (data, config) = (programs.test_program("data.c"), client_file(&federation));
    assert_eq!(run(&data, &[&config]), "right\n");
    if let Some(printed) = run_checked(&data, &[&config]) {
        assert_eq!(printed, "right\n");
    }
}

/// A program may have functions of any other name.
#[test]
fn the_library_exports_the_functions_of_its_headers_only() {
    let header = |path: &str, of: &str| -> Vec<String> {
        let name = |line: &str| {
            let (before, _) = line.split_once('(')?;
            let name = before.rsplit([' ', '*']).next()?;
            let is_one = !line.starts_with([' ', '/', '#']) && name.contains(of);
            is_one.then(|| name.to_owned())
        };
        file(path).lines().filter_map(name).collect()
    };
    let mut declared = header("crates/gridrpc/include/grpc.h", "grpc_");
    assert_eq!(declared.len(), 28, "{declared:?}");
    let of_diet = header("crates/gridrpc/include/diet/DIET_client.h", "diet_");
    assert_eq!(of_diet.len(), 32, "{of_diet:?}");
    declared.extend(of_diet);
    declared.sort();
    assert_eq!(Programs::new().exported(), declared);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_run() {
    let programs = Programs::new();
    let examples = workspace().join("examples/gridrpc");
    let mmul = programs.shared(&examples.join("mmul.c"));
    let services = with_library(&file("examples/gridrpc/services.toml"), &mmul);
    let federation = federation(&format!("{services}\n[optional]\ncores = 2\n")).await;
    let config = client_file(&federation);
    let check = |compiler: &str, source: &str, expected: &str| {
        if let Some(program) = programs.compile(compiler, &examples.join(source), Linked::Shared) {
            assert_eq!(run(&program, &[&config]), expected, "{source}");
        }
    };
    check("cc", "matrix_product.c", "27 calls, largest error 0\n");
    let largest = "largest amplitude 5.00 at frequency 1.00\n";
    check("cc", "parameter_study.c", largest);
    check("c++", "parameter_study.cpp", largest);
    check("gfortran", "parameter_study.f90", largest);
    let folder = programs.path().join("explored");
    let exploration = programs.compile("cc", &examples.join("exploration.c"), Linked::Shared).unwrap();
    // The largest one is at the frequency 0.99 or 1.00; the latter is mandatory.
    let printed = run(&exploration, &[&folder, &config]);
    assert!(printed.starts_with("20 mandatory points, largest amplitude 5.0"), "{printed}");
    // It is over, and gives its results again.
    assert_eq!(run(&exploration, &[&folder, &config]), printed);
}

/// The service and the clients of the guides, as they are written there.
#[tokio::test(flavor = "multi_thread")]
async fn the_programs_of_the_guides_run() {
    let programs = Programs::new();
    let guide = file("docs/guides/gridrpc.md");
    let block = |name: &str| {
        let begin = guide.find(&format!("`{name}`:\n")).unwrap_or_else(|| panic!("no {name} in the guide"));
        let code = guide[begin..].split("```").nth(1).unwrap();
        let (_, text) = code.split_once('\n').unwrap();
        let path = programs.path().join(name);
        fs::write(&path, text).unwrap();
        (path, text.to_owned())
    };
    let compiled = |source: &Path| programs.compile("cc", source, Linked::Shared).unwrap();
    let ((mmul, service), (client, text)) = (block("mmul.c"), block("client.c"));
    let services = block("services.toml").1;
    let lines = [&service, &text, &services].iter().map(|text| text.lines().count()).sum::<usize>();
    assert!(lines <= 50, "the guide promises fifty lines, and has {lines}");
    let federation = federation(&with_library(&services, &programs.shared(&mmul))).await;
    let config = client_file(&federation);
    assert_eq!(run(&compiled(&client), &[&config]), "19 22\n43 50\n");

    // The same with the functions of DIET, as on their page.
    let page = file("docs/guides/gridrpc-diet.md");
    let code = page.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let client = programs.path().join("diet-client.c");
    fs::write(&client, code).unwrap();
    assert_eq!(run(&compiled(&client), &[&config]), "19 22\n43 50\n");
}
