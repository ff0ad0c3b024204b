//! The JSON documents of the command, checked against their schemas in `schemas/`.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{Registry, Validator};
use serde_json::Value;

/// The documents of verbs that talk to a federation, and the file `results.json` of explorations: one test on a live
/// federation validates each of them.
pub(crate) const OF_FEDERATIONS: [&str; 35] = [
    "admin",
    "admin-backup",
    "admin-forget",
    "admin-jobs",
    "admin-bans",
    "admin-limits",
    "admin-log",
    "admin-users",
    "call",
    "cancel",
    "check",
    "estimates",
    "explain",
    "explore",
    "fetch",
    "launch",
    "launch-list",
    "launch-spawn",
    "launch-subjobs",
    "logs",
    "moves",
    "queue",
    "reallocate",
    "results",
    "servers",
    "status",
    "submissions",
    "submit",
    "sweep",
    "token-create",
    "token-revoke",
    "users",
    "wait",
    "web",
    "what-if",
];

/// The documents of the other verbs: one test validates each of them.
pub(crate) const OF_LOCAL_VERBS: [&str; 23] = [
    "ca-init",
    "ca-install",
    "ca-issue",
    "ca-list",
    "ca-request",
    "ca-revoke",
    "ca-rollover",
    "ca-sign",
    "campaign-merge",
    "campaign-run",
    "campaign-show",
    "demo",
    "down",
    "map",
    "policies",
    "report",
    "simulate",
    "trace-convert",
    "trace-generate",
    "trace-info",
    "up",
    "work-matrix",
    "work-pi",
];

/// The folder of the schemas.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

/// The schema of that name.
pub(crate) fn schema(name: &str) -> Value {
    let path = folder().join(format!("{name}.schema.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a document, and checks it against the schema that it names.
pub(crate) fn document(text: impl AsRef<[u8]>) -> Value {
    let text = text.as_ref();
    let document: Value = serde_json::from_slice(text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)));
    let name = name(&document);
    let validator = validator(name);
    let error = |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
    let errors: Vec<String> = validator.iter_errors(&document).map(error).collect();
    assert!(errors.is_empty(), "not as schemas/{name}.schema.json says: {errors:#?}\n{document:#}");
    document
}

/// The name of a document without its version.
fn name(document: &Value) -> &str {
    let schema = document["schema"].as_str().unwrap_or_else(|| panic!("no schema: {document:#}"));
    let name = schema.strip_prefix("pliant.").and_then(|name| name.strip_suffix("/1"));
    name.unwrap_or_else(|| panic!("expected a schema pliant.NAME/1, found {schema}"))
}

/// The validator of a schema, made once.
pub(crate) fn validator(name: &str) -> Arc<Validator> {
    static MADE: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(validator) = made.get(name) {
        return validator.clone();
    }
    let uri = |name: &str| format!("json-schema:///{name}.schema.json");
    let registry = Registry::new().add(uri("definitions"), schema("definitions")).unwrap();
    let registry = registry.prepare().unwrap();
    let options = jsonschema::options().with_base_uri(uri(name)).with_registry(&registry);
    let built = options.build(&schema(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    made.entry(name.to_owned()).or_insert(Arc::new(built)).clone()
}

/// The names of the documents that a test has seen.
#[derive(Default)]
pub(crate) struct Seen(BTreeSet<String>);

impl Seen {
    /// Notes a document.
    pub(crate) fn note(&mut self, document: &Value) {
        self.0.insert(name(document).to_owned());
    }

    /// Asserts that exactly these documents were seen.
    pub(crate) fn are(&self, expected: &[&str]) {
        assert_eq!(self.0, expected.iter().map(|name| (*name).to_owned()).collect(), "documents seen");
    }
}
