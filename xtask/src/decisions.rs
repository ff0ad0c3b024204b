//! A part of `cargo xtask lint`: completions are compared in `policy` alone, and the simulator reads no environment.
//!
//! The check reads statements, not types. A completion is what a statement calls `completion`, or a variable that a `let` of the
//! same file binds to such an expression.

use std::collections::BTreeSet;

use crate::source::Sources;

/// Crates that ask `policy` which completion is preferred or late.
const ASKING: [&str; 3] = ["cli", "client", "control"];
/// What compares two values.
const COMPARISONS: [&str; 13] = [
    " < ", " > ", " <= ", " >= ", ".cmp(", ".lt(", ".le(", ".gt(", ".ge(", ".min(", ".max(", "min_by",
    "max_by",
];
/// What sorts a list by a key.
const SORTS: [&str; 2] = [".sort", "_sort"];
/// How the environment is read.
const ENVIRONMENT: [&str; 2] = ["std::env", "env::var"];

/// Every statement of a crate that decides what `policy` has to, for people.
pub(crate) fn findings(name: &str, sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources {
        let place = |statement: &str| format!("crates/{name}/src/{path}: `{statement}`");
        if ASKING.contains(&name) {
            let compared = compared(text);
            found.extend(compared.iter().map(|one| {
                format!("expected completions compared by pliant_policy::completion, found {}", place(one))
            }));
        }
        if name == "sim" {
            let reading = statements(text).filter(|one| ENVIRONMENT.iter().any(|word| one.contains(word)));
            found.extend(
                reading.map(|one| format!("expected the environment as an argument, found {}", place(&one))),
            );
        }
    }
    found
}

/// The statements that compare completions.
fn compared(text: &str) -> Vec<String> {
    let names_completion = |part: &str| words(part).any(|word| word == "completion");
    let mut bound = BTreeSet::new();
    for statement in statements(text) {
        let found = statement.split_once("let ").and_then(|(_, rest)| rest.split_once(" = "));
        if let Some((name, value)) = found
            && names_completion(value)
            && words(name).count() == 1
        {
            bound.extend(words(name).map(str::to_owned));
        }
    }
    let compares = |part: &str| COMPARISONS.iter().chain(&SORTS).any(|comparison| part.contains(comparison));
    // A variable may be a field of a literal that compares something else in another one.
    let compares_bound = |part: &str| compares(part) && words(part).any(|word| bound.contains(word));
    let is_compared = |statement: &String| {
        (compares(statement) && names_completion(statement)) || statement.split(',').any(compares_bound)
    };
    statements(text).filter(is_compared).collect()
}

/// The statements and conditions of a text, each on one line.
fn statements(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split([';', '{', '}']);
    parts.map(|part| part.split_whitespace().collect::<Vec<&str>>().join(" "))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{code, sources};
    use crate::step::workspace_root;

    fn check(name: &str, text: &str, expected: usize) {
        let sources = Sources::from([("a.rs".to_owned(), code(text))]);
        let found = findings(name, &sources);
        assert_eq!(found.len(), expected, "{text}: {found:?}");
    }

    #[test]
    fn a_comparison_of_completions_is_found_in_any_form() {
        for planted in [
            "if estimate.completion() > latest { return }",
            "offers.sort_by_key(|one| one.estimate.completion());",
            "offers.sort_by(|a, b| {\n    a.completion()\n        .cmp(&b.completion())\n});",
            "let best = offers.iter().min_by_key(|one| (one.completion(), one.rank));",
            "let end = one.completion().min(other);",
            "let before = plan.completion();\nlet order = 1;\nif start\n    <= before {}",
        ] {
            check("control", planted, 1);
            check("client", planted, 1);
            check("cli", planted, 1);
            check("policy", planted, 0);
        }
    }

    #[test]
    fn what_is_no_comparison_of_completions_is_left_alone() {
        for fine in [
            "/// sorted by completion\nlet error = ended - expected.completion();",
            "if is_late(&estimate, latest) { refuse(estimate.completion()) }",
            "let end = record.completion();\nif start < other {}",
            "let end = record.completion();\nlet row = Row { end, until: now.max(start) };",
            "fn completion(plan: Option<Estimate>) -> Time { plan.completion() }",
            "#[cfg(test)]\nmod tests {\nassert!(a.completion() < b.completion());\n}",
        ] {
            check("control", fine, 0);
        }
    }

    #[test]
    fn the_workspace_is_as_it_is_to_be() {
        for (name, root) in
            [("cli", "main.rs"), ("client", "lib.rs"), ("control", "lib.rs"), ("sim", "lib.rs")]
        {
            let sources = sources(&workspace_root().join("crates").join(name).join("src"));
            assert!(sources.contains_key(root), "{name}");
            assert_eq!(findings(name, &sources), Vec::<String>::new());
        }
    }

    #[test]
    fn the_simulator_reads_no_environment() {
        check("sim", "let folder = std::env::var_os(\"PLIANT_TRACES\");", 1);
        check("sim", "use std::env;\nfn f() { env::var(\"A\") }", 2);
        check("sim", "let environment = options.folder;", 0);
        check("cli", "let folder = std::env::var_os(\"PLIANT_TRACES\");", 0);
    }
}
