//! The launcher's file in the documentation and in the packages is what the launcher reads.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::path::Path;

use pliant_launcher::Config;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The files in a page.
fn files(page: &str) -> Vec<String> {
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.filter(|block| block.lines().next().unwrap().contains("launcher.toml")).collect()
}

#[test]
fn every_file_in_the_documentation_is_understood() {
    for page in ["docs/reference/files/launcher.md", "docs/guides/security.md"] {
        let files = files(&read(page));
        assert!(!files.is_empty(), "{page}");
        for file in files {
            Config::parse(&file).unwrap_or_else(|error| panic!("{page}: {error}\n{file}"));
        }
    }
}

#[test]
fn every_key_is_documented() {
    let page = read("docs/reference/files/launcher.md");
    let message = Config::parse("x = 1").unwrap_err().message;
    let keys = message.split_once("expected ").unwrap().1.replace(" or ", ", ");
    assert_eq!(keys.split(", ").count(), 9);
    for key in keys.split(", ") {
        assert!(page.contains(&format!("\n| `{key}` |")), "{key}");
    }
}

#[test]
fn the_file_of_the_packages_allows_nobody() {
    let config = Config::parse(&read("deploy/launcher.toml")).unwrap();
    assert_eq!((config.caller.as_str(), config.uid_min, config.allow), ("pliant", 1000, Some(Vec::new())));
}
