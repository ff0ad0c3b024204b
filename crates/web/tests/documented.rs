//! The portal's file of the documentation is read by the reader that the portal uses, and its page names every key.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::path::Path;

use pliant_config::ConfigError;
use pliant_web::PortalFile;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/files/portal.md");
    fs::read_to_string(path).unwrap()
}

fn examples(page: &str) -> Vec<&str> {
    page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

fn read(text: &str) -> Result<(), ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("portal.toml");
    fs::write(&path, text).unwrap();
    PortalFile::read(&path).map(drop)
}

#[test]
fn the_examples_of_the_page_are_read() {
    let page = page();
    let examples = examples(&page);
    assert_eq!(examples.len(), 2);
    for text in examples {
        read(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}

#[test]
fn every_key_is_on_the_page() {
    let page = page();
    let sections = ["tls", "login", "session", "tokens"];
    let all = sections.map(|name| (format!("[{name}]\n"), format!("{name}.")));
    for (section, prefix) in std::iter::once((String::new(), String::new())).chain(all) {
        let error = read(&format!("{section}nonsense = 1\n")).unwrap_err().to_string();
        let list = error.split("expected").nth(1).unwrap_or_else(|| panic!("{error}"));
        let keys: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        assert!(keys.len() >= 2, "{error}");
        for key in keys.into_iter().filter(|key| *key != "agent" && !sections.contains(key)) {
            assert!(page.contains(&format!("`{prefix}{key}`")), "{prefix}{key} is not on the page");
        }
    }
}
