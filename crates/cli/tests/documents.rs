//! The JSON documents of the command are as their schemas in `schemas/` say, and every document has a schema.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use support::schemas::{OF_FEDERATIONS, OF_LOCAL_VERBS, Seen, folder as schemas, schema, validator};
use support::{call, folder, go};

const CAMPAIGN: &str = r#"name = "tiny"
seeds = { from = 1, count = 2 }
platforms = ["three.toml"]

[[workload]]
name = "log"
file = "log.swf"

[[policy]]
name = "reference"
realloc = "none"

[[policy]]
name = "MCT-can"
realloc = "all-cancellation"
heuristic = "mct"
"#;

/// The names of documents that have a schema.
fn with_schema() -> BTreeSet<String> {
    let files =
        fs::read_dir(schemas()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = |file: String| {
        file.strip_suffix(".schema.json").unwrap_or_else(|| panic!("{file} is no schema")).to_owned()
    };
    files.map(name).filter(|name| name != "definitions").collect()
}

/// The names that the verbs print documents under.
fn printed(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            printed(&path, names);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let calls = ["output.print(", "Output::Text.print(", "finish(output, "];
            let calls = calls.iter().flat_map(|call| text.split(call).skip(1));
            // Others take the name from their caller.
            let literals = calls.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
            names.extend(literals.map(str::to_owned));
        }
    }
}

#[test]
fn every_document_has_a_schema_and_a_test() {
    let tested: BTreeSet<String> =
        OF_FEDERATIONS.iter().chain(&OF_LOCAL_VERBS).map(|name| (*name).to_owned()).collect();
    assert_eq!(with_schema(), tested, "files of schemas/, and the documents that tests validate");
    let mut names = BTreeSet::new();
    printed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
    // A file, which is not printed.
    names.insert("results".to_owned());
    assert_eq!(names, tested, "the documents that verbs print, and those that tests validate");
}

/// Asserts that each key has a description, and that objects take no other keys.
fn described(at: &str, schema: &Value) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (key, value) in properties {
            let words = ["description", "$ref", "const"].iter().any(|word| value.get(word).is_some());
            assert!(words || value["anyOf"][0].get("$ref").is_some(), "{at}.{key} has no description");
        }
    }
    let (open, extended) = (schema.get("type") == Some(&"object".into()), at.ends_with("_keys"));
    let closed =
        ["additionalProperties", "unevaluatedProperties"].iter().any(|word| schema.get(word).is_some());
    assert!(!open || closed || extended, "{at} takes any key");
    match schema {
        Value::Object(keys) => keys.iter().for_each(|(key, value)| described(&format!("{at}.{key}"), value)),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(place, value)| described(&format!("{at}[{place}]"), value));
        }
        _ => {}
    }
}

#[test]
fn schemas_are_valid_and_describe_every_key() {
    for name in with_schema() {
        // It is checked against the schema of schemas.
        validator(&name);
        let schema = schema(&name);
        assert_eq!(schema["properties"]["schema"]["const"], format!("pliant.{name}/1"));
        described(&name, &schema);
    }
    let definitions = schema("definitions");
    jsonschema::meta::validate(&definitions).unwrap_or_else(|error| panic!("{error}"));
    described("definitions", &definitions);
}

/// The folder of a test, in which no federation runs any more at its end.
struct Folder(tempfile::TempDir);

impl Drop for Folder {
    fn drop(&mut self) {
        call(self.0.path(), "down --dir federation");
    }
}

#[test]
fn every_document_of_a_local_verb_is_as_its_schema_says() {
    let folder = Folder(folder());
    let dir = folder.0.path();
    fs::write(dir.join("tiny.toml"), CAMPAIGN).unwrap();
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns/paper-003");
    let paper = paper.display();
    let mapping = format!("map {paper}/render.toml --platform {paper}/testbed.toml");
    let mut seen = Seen::default();
    for line in [
        "policies",
        "simulate --workload log.swf --procs 32 --out one",
        "simulate --workload log.swf --platform three.toml --moldable paper --realloc regular",
        "report one --out page.html",
        "trace info log.swf",
        "trace convert log.swf log.gwf",
        "trace generate lublin --jobs 50 --out made.swf",
        "campaign run tiny.toml --out part-1 --shard 1/2",
        "campaign merge --out whole part-1",
        "campaign run tiny.toml --out whole",
        "campaign show whole",
        "report whole",
        &mapping,
        &format!("{mapping} --bound --clusters 5 --report map.html"),
        "demo --simulate --out demo",
        "ca init ca",
        "ca issue user ann --ca ca --out ann --days 1",
        "ca revoke ann --ca ca",
        "ca list --ca ca",
        "ca request user bo --out bo",
        "ca sign bo/request.pem user bo --ca ca",
        "ca install bo/user-bo.pem --dir bo --authority ca/ca.pem",
        "ca rollover --ca ca",
        "ca rollover begin --ca ca",
        "up --dir federation --user ann",
        "up --dir federation",
        "down --dir federation",
        "work pi --samples 1000 --out pi.json",
        "work matrix --size 10 --out matrix.json",
    ] {
        seen.note(&go(dir, &format!("--format json {line}")).json());
    }
    seen.are(&OF_LOCAL_VERBS);
}
