//! A part of `cargo xtask lint`: the Python package asks the same features of shared dependencies as the command, and as the tests of the
//! workspace, so that a wheel builds nothing again that these have built.

use std::collections::BTreeSet;

use crate::step::{Failure, Step};

/// A package with its features, as `cargo tree` lists it.
type Packages = BTreeSet<String>;

/// The package that is the native part of the Python package.
const LIBRARY: &str = "pliant-python";

/// What a wheel is built after, as arguments of `cargo tree`, and the feature of the library that is for it (`crates/python/Cargo.toml`).
const BUILDS: [(&str, &[&str]); 2] = [
    ("built-with-command", &["-e", "normal", "-p", "pliant", "-p", LIBRARY, "--features", "pliant/parquet"]),
    ("built-with-tests", &["-e", "normal,dev", "--workspace"]),
];

/// What is wrong with the features of the package.
pub(crate) fn findings() -> Result<Vec<String>, Failure> {
    let mut findings = Vec::new();
    for (feature, before) in BUILDS {
        let library = packages(&["-e", "normal", "-p", LIBRARY, "--features", feature])?;
        findings.extend(built_again(feature, &library, &packages(before)?));
    }
    Ok(findings)
}

/// The dependencies of the library that a build before it has not built with the same features.
fn built_again(feature: &str, library: &Packages, before: &Packages) -> Vec<String> {
    let name = |package: &str| package.split_whitespace().next().map(str::to_owned);
    let others = library.difference(before).filter(|package| name(package).as_deref() != Some(LIBRARY));
    let shown = |package: &String| {
        let same: Vec<&str> =
            before.iter().filter(|other| name(other) == name(package)).map(String::as_str).collect();
        let found = if same.is_empty() { "none of it".to_owned() } else { same.join("; ") };
        format!(
            "crates/python: expected {feature} to build `{package}` as before it, found {found}; hint: an optional dependency of \
             crates/python with its missing features, in {feature}"
        )
    };
    others.map(shown).collect()
}

/// The packages of a tree of dependencies.
fn packages(arguments: &[&str]) -> Result<Packages, Failure> {
    let all = [&["tree", "--prefix", "none", "--format", "{p} {f}"], arguments].concat();
    let tree = Step::cargo(&all).output().ok_or_else(|| Failure::NotStarted {
        step: format!("cargo {}", all.join(" ")),
        cause: "it failed".to_owned(),
    })?;
    Ok(parsed(&tree))
}

/// The lines of a tree. A package that was there before is marked.
fn parsed(tree: &str) -> Packages {
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)").trim_end());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_features_have_built_is_found() {
        let library =
            parsed("pliant-python v0 (/x) of-tests\ntonic v1 channel\nserde v1 std (*)\nbytes v1 \n");
        let found = |before: &str| built_again("of-tests", &library, &parsed(before));
        assert!(found("serde v1 std\ntonic v1 channel\nbytes v1\npliant-python v0 (/x)").is_empty());
        let twice = found("tonic v1 channel,router\ntonic v0 channel\nserde v1 std");
        let expected = [
            "`bytes v1` as before it, found none of it",
            "`tonic v1 channel` as before it, found tonic v0 channel; tonic v1 channel,router",
        ];
        assert_eq!(twice.len(), expected.len());
        for (finding, words) in twice.iter().zip(expected) {
            assert!(finding.contains(words), "{finding}");
        }
    }
}
