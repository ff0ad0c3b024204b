//! A part of `cargo xtask lint`: what the client library and the web pages may depend on, that no modules of a crate import each other in a circle,
//! what crates leave to others ([`crate::decisions`]), and what the Python package shares with other builds ([`crate::shared_builds`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::decisions;
use crate::shared_builds;
use crate::source::{Sources, folders, sources};
use crate::step::{Failure, Step, workspace_root};

/// Crates that a program which uses the client library must not have to build.
const NOT_IN_CLIENT: [&str; 8] = [
    "axum",
    "metrics-exporter-prometheus",
    "pliant-daemon",
    "pliant-journal",
    "pliant-site",
    "protox",
    "rusqlite",
    "tokio-postgres",
];

/// Crates that the web pages must not build on: they are a face of the client library.
const NOT_IN_WEB: [&str; 7] = [
    "pliant-daemon",
    "pliant-journal",
    "pliant-sim",
    "pliant-site",
    "pliant-trace",
    "rusqlite",
    "tokio-postgres",
];

/// Per module of a crate, the modules that it imports, each with a file that does.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// Checks all of it, and prints every finding.
pub(crate) fn run() -> Result<(), Failure> {
    let mut findings = too_heavy("pliant-client", &tree("pliant-client")?, &NOT_IN_CLIENT);
    findings.extend(too_heavy("pliant-web", &tree("pliant-web")?, &NOT_IN_WEB));
    findings.extend(shared_builds::findings()?);
    let crates = workspace_root().join("crates");
    for name in folders(&crates) {
        let sources = sources(&crates.join(&name).join("src"));
        findings.extend(circles(&imports(&sources)).iter().map(|circle| format!("crates/{name}: {circle}")));
        findings.extend(decisions::findings(&name, &sources));
    }
    for finding in &findings {
        eprintln!("xtask: {finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(Failure::Structure { findings: count }),
    }
}

/// Everything that a crate depends on, as `cargo tree` lists it.
fn tree(package: &str) -> Result<String, Failure> {
    let tree = ["tree", "-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}"];
    Step::cargo(&tree).output().ok_or_else(|| Failure::NotStarted {
        step: format!("cargo tree -p {package}"),
        cause: "it failed".to_owned(),
    })
}

/// What a crate depends on and must not, from the output of `cargo tree`.
fn too_heavy(package: &str, tree: &str, unwanted: &[&str]) -> Vec<String> {
    let packages: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let found = unwanted.iter().filter(|name| packages.contains(*name));
    found.map(|name| format!("expected {package} without {name}, found that it depends on it")).collect()
}

/// Which top-level modules of a crate import which others.
fn imports(sources: &Sources) -> Imports {
    let root = sources.get("lib.rs").or_else(|| sources.get("main.rs")).map_or("", String::as_str);
    let modules: BTreeSet<&str> = root
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.split_once("mod ").map(|(_, name)| name))
        .collect();
    let reexported = reexported(root, &modules);
    let mut imports = Imports::new();
    for (path, text) in sources {
        let parts: Vec<&str> = path.trim_end_matches(".rs").trim_end_matches("/mod").split('/').collect();
        let Some(own) = modules.get(parts[0]) else { continue };
        let up = vec!["super"; parts.len()].join("::");
        for name in named_below(text, "crate").chain(named_below(text, &up)) {
            let module = modules.get(name).copied().or_else(|| reexported.get(name).copied());
            if let Some(module) = module.filter(|module| module != own) {
                imports.entry((*own).to_owned()).or_default().insert(module.to_owned(), path.clone());
            }
        }
    }
    imports
}

/// The module behind each name that the root of a crate exports.
fn reexported<'a>(root: &'a str, modules: &BTreeSet<&'a str>) -> BTreeMap<&'a str, &'a str> {
    let mut found = BTreeMap::new();
    for statement in root.split(';').filter_map(|statement| statement.split_once("use ")) {
        let Some((module, names)) = statement.1.split_once("::") else { continue };
        if let Some(module) = modules.get(module) {
            for name in names.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
                found.insert(name, *module);
            }
        }
    }
    found
}

/// The names that stand right below a path, such as `a` and `b` in `crate::a` and `crate::{b::c, a}`.
fn named_below<'a>(text: &'a str, path: &str) -> impl Iterator<Item = &'a str> {
    let ends: Vec<usize> = text
        .match_indices(&format!("{path}::"))
        .filter(|(at, _)| {
            !text[..*at].ends_with(|letter: char| letter.is_alphanumeric() || "_:".contains(letter))
        })
        .map(|(at, found)| at + found.len())
        .collect();
    ends.into_iter().flat_map(|end| {
        let rest = &text[end..];
        match rest.strip_prefix('{') {
            Some(group) => top_level(group),
            None => vec![first_word(rest)],
        }
    })
}

/// The first word of each item of a group of imports, up to its closing brace.
fn top_level(group: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(first_word(&group[begin..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(first_word(&group[begin..at]));
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    &text[..end]
}

/// Each import by which a module reaches itself, for people.
fn circles(imports: &Imports) -> Vec<String> {
    let reached_from = |start: &str| {
        let (mut reached, mut pending) = (BTreeSet::new(), vec![start]);
        while let Some(module) = pending.pop() {
            for next in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(next.as_str()) {
                    pending.push(next);
                }
            }
        }
        reached
    };
    let mut found = Vec::new();
    for (module, imported) in imports {
        for (other, file) in imported {
            if reached_from(other).contains(module.as_str()) {
                found.push(format!("{file} imports `{other}`, which imports `{module}` in turn"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::code;

    fn crate_of(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files.iter().map(|(path, text)| ((*path).to_owned(), code(text))).collect();
        circles(&imports(&sources))
    }

    #[test]
    fn a_circle_over_groups_parents_and_exports_is_found() {
        let root = ("lib.rs", "pub mod a;\nmod b;\nmod c;\npub use c::{Cee, cees};");
        let b = ("b/deep.rs", "use super::super::a::A;");
        assert_eq!(crate_of(&[root, ("a.rs", "use crate::c::Cee;"), b]), Vec::<String>::new());
        let found = crate_of(&[root, ("a.rs", "use crate::{\n    b::{self, B},\n    c::Cee,\n};"), b]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "a.rs imports `b`, which imports `a` in turn");
        let over_export = [root, ("a.rs", "use super::Cee;"), ("c/mod.rs", "fn c() { crate::a::go() }")];
        assert_eq!(crate_of(&over_export).len(), 2);
    }

    #[test]
    fn comments_tests_and_other_crates_do_not_count() {
        let root = ("lib.rs", "mod a;\nmod b;");
        let a =
            ("a.rs", "//! [`crate::b`]\nuse other_crate::b;\n#[cfg(test)]\nmod tests {\nuse crate::b::B;\n}");
        assert_eq!(crate_of(&[root, a, ("b.rs", "use crate::a::A;")]), Vec::<String>::new());
    }

    #[test]
    fn a_heavy_dependency_is_found() {
        let heavy = |tree: &str| too_heavy("pliant-client", tree, &NOT_IN_CLIENT).len();
        assert_eq!(heavy("pliant-client v0.1.0 (/src)\ntonic v0.14.0\n"), 0);
        assert_eq!(heavy("axum v0.8.0\n"), 1);
        assert_eq!(too_heavy("pliant-web", "axum v0.8.0\npliant-site v0.1.0\n", &NOT_IN_WEB).len(), 1);
    }
}
