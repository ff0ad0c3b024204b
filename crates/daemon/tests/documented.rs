//! The configurations of the documentation are read by the readers that daemons and clients use, and the page about
//! them names every key.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::path::{Path, PathBuf};

use pliant_client::ClientFile;
use pliant_config::ConfigError;
use pliant_daemon::config::{AgentFile, ServerFile};

/// A server to which a part of a file can be added.
const SERVER: &str = "name = \"rennes\"\nlisten = \"127.0.0.1:0\"\nstate = \"state\"\n\
                      parent = [{ name = \"master\", address = \"localhost:7700\" }]\n\
                      cluster = { procs = 4 }\n\
                      tls = { ca = \"ca.pem\", cert = \"cert.pem\", key = \"key.pem\" }\n";

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// The TOML examples of a page.
fn examples(page: &str) -> Vec<&str> {
    page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

fn written(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("file.toml");
    fs::write(&path, text).unwrap();
    path
}

/// Reads a file of the kind that an example's first line names.
fn read(dir: &Path, kind: &str, text: &str) -> Result<(), ConfigError> {
    match kind {
        "agent.toml" => AgentFile::read(&written(dir, text)).map(drop),
        "server.toml" => ServerFile::read(&written(dir, text)).map(drop),
        "part of server.toml" => ServerFile::read(&written(dir, &format!("{SERVER}{text}"))).map(drop),
        "client.toml" => ClientFile::read(&written(dir, text)).map(drop),
        other => panic!("expected an example to begin with the file that it is, found {other}"),
    }
}

#[test]
fn every_example_is_read() {
    let dir = tempfile::tempdir().unwrap();
    for (name, least) in [("docs/live.md", 6), ("deploy/README.md", 5)] {
        let page = page(name);
        let examples = examples(&page);
        assert!(examples.len() >= least, "{name} has lost its examples");
        for text in examples {
            let kind = text.lines().next().unwrap().trim_start_matches("# ");
            if let Err(error) = read(dir.path(), kind, text) {
                panic!("{name}: {error}\n{text}");
            }
        }
    }
}

/// The keys that a reader names when it meets one that it does not know.
fn keys(error: &ConfigError) -> Vec<String> {
    let ConfigError::Content(error) = error else { panic!("expected an unknown key, found {error}") };
    let message = error.to_string();
    let list = message.split("expected").nth(1).unwrap_or_else(|| panic!("{message}"));
    let keys: Vec<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(!keys.is_empty(), "{message}");
    keys
}

#[test]
fn every_key_is_on_the_page() {
    let (dir, page) = (tempfile::tempdir().unwrap(), page("docs/live.md"));
    let examples = examples(&page).concat();
    let service = "[[service]]\nname = \"a\"\ncommand = [\"a\"]\nspeedup = \"rigid:1\"\nruntime = \"1s\"\n";
    let argument = format!("{service}[service.arguments.a]\ntype = \"string\"\n");
    let scaling = format!("{service}[service.runtime_per]\n");
    let agent = "name = \"a\"\nlisten = \"127.0.0.1:0\"\n";
    for (kind, head) in [
        ("agent.toml", ""),
        ("agent.toml", "[tls]\n"),
        ("agent.toml", "[http]\n"),
        ("agent.toml", "[[parent]]\n"),
        ("agent.toml", &format!("{agent}[limits]\n")),
        ("agent.toml", &format!("{agent}[probes]\n")),
        ("server.toml", ""),
        ("server.toml", "[cluster]\n"),
        ("server.toml", "[cluster.slurm]\n"),
        ("server.toml", "[optional]\n"),
        ("part of server.toml", service),
        ("part of server.toml", &argument),
        ("part of server.toml", &scaling),
        ("client.toml", ""),
    ] {
        let error = read(dir.path(), kind, &format!("{head}nonsense = 1\n")).unwrap_err();
        for key in keys(&error) {
            let set = |line: &str| {
                let line = line.trim_start_matches("# ");
                line.starts_with(&format!("{key} = ")) || line.starts_with(&format!("[{key}]"))
            };
            let inside = |text: &str| {
                examples.contains(&format!("[[{text}]]"))
                    || examples.contains(&format!("[service.{text}"))
                    || examples.contains(&format!("{{ {text} = "))
                    || examples.contains(&format!(", {text} = "))
                    || page.contains(&format!("`{text}`"))
            };
            assert!(
                examples.lines().any(set) || inside(&key),
                "{key} of {kind} ({head:?}) is not in docs/live.md"
            );
        }
    }
}
