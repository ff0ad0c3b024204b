//! The configurations of the documentation are read by the readers that daemons and clients use, and the page about
//! each file names every key of it.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::path::{Path, PathBuf};

use pliant_client::ClientFile;
use pliant_config::ConfigError;
use pliant_daemon::config::{AgentFile, ServerFile};

/// The table of the cluster in [`SERVER`].
const CLUSTER: &str = "cluster = { procs = 4 }\n";

/// A server to which a part of a file can be added.
const SERVER: &str = "name = \"rennes\"\nlisten = \"127.0.0.1:0\"\nstate = \"state\"\n\
                      accounts = { map = \"shared\" }\n\
                      parent = [{ name = \"master\", address = \"localhost:7700\" }]\n\
                      cluster = { procs = 4 }\n\
                      tls = { ca = \"ca.pem\", cert = \"cert.pem\", key = \"key.pem\" }\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs/reference/files").join(name)).unwrap()
}

/// Every page below a folder.
fn pages(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.chain(folders.iter().flat_map(|folder| pages(folder))).collect()
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

/// The files that examples are, as their first lines say.
const KINDS: [&str; 4] = ["agent.toml", "server.toml", "part of server.toml", "client.toml"];

/// The kind that an example's first line names; none if it is no file of a daemon or a client.
fn kind(example: &str) -> Option<&str> {
    let line = example.lines().next().unwrap().strip_prefix("# ")?;
    let named = KINDS.iter().any(|kind| line.contains(kind));
    assert!(!named || KINDS.contains(&line), "expected one of {KINDS:?} on the first line, found {line}");
    named.then_some(line)
}

/// Reads a file of a kind.
fn read(dir: &Path, kind: &str, text: &str) -> Result<(), ConfigError> {
    match kind {
        "agent.toml" => AgentFile::read(&written(dir, text)).map(drop),
        "server.toml" => ServerFile::read(&written(dir, text)).map(drop),
        "part of server.toml" => {
            let rest =
                if text.contains("[cluster]") { SERVER.replace(CLUSTER, "") } else { SERVER.to_owned() };
            ServerFile::read(&written(dir, &format!("{rest}{text}"))).map(drop)
        }
        "client.toml" => ClientFile::read(&written(dir, text)).map(drop),
        other => panic!("expected a kind of file, found {other}"),
    }
}

#[test]
fn every_example_is_read() {
    let dir = tempfile::tempdir().unwrap();
    for path in pages(&root().join("docs")) {
        let page = fs::read_to_string(&path).unwrap();
        for text in examples(&page) {
            let Some(kind) = kind(text) else { continue };
            if let Err(error) = read(dir.path(), kind, text) {
                panic!("{}: {error}\n{text}", path.display());
            }
        }
    }
    for (name, least) in [
        ("agent.md", 3),
        ("server.md", 3),
        ("slurm.md", 1),
        ("oar.md", 1),
        ("services.md", 3),
        ("client.md", 1),
    ] {
        let page = page(name);
        let read = examples(&page).into_iter().filter_map(kind).count();
        assert!(read >= least, "{name} has lost its examples: expected {least}, found {read}");
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
fn every_key_is_on_its_page() {
    let dir = tempfile::tempdir().unwrap();
    let service = "[[service]]\nname = \"a\"\ncommand = [\"a\"]\nspeedup = \"rigid:1\"\nruntime = \"1s\"\n";
    let argument = format!("{service}[service.arguments.a]\ntype = \"string\"\n");
    let scaling = format!("{service}[service.runtime_per]\n");
    let resources = format!("{service}[service.resources]\n");
    let parameter = format!("{service}signature = [\"in int n\"]\n[service.parameters.n]\n");
    let agent = "name = \"a\"\nlisten = \"127.0.0.1:0\"\n";
    for (name, kind, head) in [
        ("agent.md", "agent.toml", ""),
        ("agent.md", "agent.toml", "[tls]\n"),
        ("agent.md", "agent.toml", "[http]\n"),
        ("agent.md", "agent.toml", "[[parent]]\n"),
        ("agent.md", "agent.toml", &format!("{agent}[limits]\n")),
        ("agent.md", "agent.toml", &format!("{agent}[probes]\n")),
        ("agent.md", "agent.toml", &format!("{agent}[reallocation]\n")),
        ("agent.md", "agent.toml", &format!("{agent}[summaries]\n")),
        ("server.md", "server.toml", ""),
        ("server.md", "server.toml", "[cluster]\n"),
        ("node.md", "server.toml", "[cluster.node]\n"),
        ("slurm.md", "server.toml", "[cluster.slurm]\n"),
        ("oar.md", "server.toml", "[cluster.oar]\n"),
        ("oar.md", "server.toml", "[cluster.oar.node]\n"),
        ("server.md", "server.toml", "[optional]\n"),
        ("accounts.md", "server.toml", "[accounts]\n"),
        ("services.md", "part of server.toml", service),
        ("services.md", "part of server.toml", &argument),
        ("services.md", "part of server.toml", &scaling),
        ("services.md", "part of server.toml", &resources),
        ("services.md", "part of server.toml", &parameter),
        ("services.md", "part of server.toml", "[stored_data]\n"),
        ("client.md", "client.toml", ""),
        ("client.md", "client.toml", "[tls]\n"),
    ] {
        let page = page(name);
        let examples = examples(&page).concat();
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
                "{key} of {kind} ({head:?}) is not in docs/reference/files/{name}"
            );
        }
    }
}
