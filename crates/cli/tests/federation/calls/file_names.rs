//! Names of files in calls, made by a hostile client: none leads a service to another file than an input of its job.

use std::fs;
use std::path::Path;
use std::process::Command;

use pliant_calls::{Array, Value, encode};
use pliant_client::Client;
use pliant_control::names::Handle;
use pliant_wire::{CALL_ARGUMENTS, CALL_OUTCOME, SubmittedWork, TypedCall};

use super::{compiled, int, source, started, text};
use crate::harness::*;

/// Where the server's key is, seen from the work folder of a job.
const KEY: &str = "../../../../key.pem";

const LIBRARY: &str = r#"
#include <stdio.h>
int content(const char *data, char *text) {
    FILE *in = fopen(data, "rb");
    if (!in) return 1;
    text[fread(text, 1, 60000, in)] = 0;
    return 0;
}
int overwrite(const char *data) {
    FILE *out = fopen(data, "wb");
    return !out || fputs("overwritten", out) < 0 || fclose(out);
}
"#;

fn services(folder: &Path) -> String {
    let (code, library) = (folder.join("l.c"), folder.join("libl.so"));
    fs::write(&code, LIBRARY).unwrap();
    let mut cc = Command::new("cc");
    let output = cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (library, solve) = (library.display(), compiled(&source("service.c"), folder));
    let service = |name: &str, signature: &str, keys: &str| {
        format!(
            "[[service]]\nname = \"{name}\"\nsignature = [{signature}]\nspeedup = \"rigid:1\"\nruntime = \"10s\"\n{keys}\n"
        )
    };
    let content = r#""in file data", "out string text[65000]""#;
    let solve = format!("resident = true\ncommand = [\"{}\"]", solve.display());
    [
        service(
            "content",
            content,
            "command = [\"/bin/sh\", \"-c\", \"head -c 60000 \\\"$0\\\"\", \"{data}\"]\n\
             [service.parameters.text]\noutput = \"stdout\"",
        ),
        service("library-content", content, &format!("library = \"{library}\"\nfunction = \"content\"")),
        service(
            "overwrite",
            r#""inout file data""#,
            "command = [\"/bin/sh\", \"-c\", \"echo overwritten > \\\"$0\\\"\", \"{data}\"]",
        ),
        service(
            "library-overwrite",
            r#""inout file data""#,
            &format!("library = \"{library}\"\nfunction = \"overwrite\""),
        ),
        service(
            "solve",
            r#""in int mode", "in int n", "in double a[n][n]", "inout double b[n]", "in file data", "out int pid",
               "out string text[64]", "out file copy", "in string gate""#,
            &solve,
        ),
    ]
    .concat()
}

/// The values of a call of that service.
fn values(service: &str, name: &str) -> Vec<Option<Value>> {
    let file = Some(Value::File(name.to_owned()));
    match service {
        "solve" => {
            let elements = Array::Double(vec![1.0]);
            let matrix = Value::Matrix { rows: 1, columns: 1, elements: elements.clone() };
            let vector = Some(Value::Vector(elements));
            vec![int(0), int(1), Some(matrix), vector, file, None, None, None, text("gate")]
        }
        "overwrite" | "library-overwrite" => vec![file],
        _ => vec![file, None],
    }
}

/// A call of a service with a file of that name, as a client makes it that checks nothing: with its arguments in an input file, or in
/// the submission. The input file `data` goes with it.
async fn call(client: &Client, service: &str, name: &str, in_file: bool) -> Result<Handle, String> {
    let folder = tempfile::tempdir().unwrap();
    let (arguments, data) = (folder.path().join("arguments"), folder.path().join("data"));
    let values = encode(&values(service, name)).unwrap();
    fs::write(&arguments, &values).unwrap();
    fs::write(&data, "content").unwrap();
    let mut inputs = vec![input("data", &data)];
    let numbers = if service == "solve" { vec![("mode", "0"), ("n", "1")] } else { Vec::new() };
    let mut submitted = TypedCall {
        service: service.to_owned(),
        arguments: numbers.iter().map(|(name, number)| (name.to_string(), number.to_string())).collect(),
        values: Default::default(),
        stored: Vec::new(),
        kept: Vec::new(),
    };
    match in_file {
        true => inputs.push(input(CALL_ARGUMENTS, &arguments)),
        false => submitted.values = values.into(),
    }
    let order = pliant_client::SubmitOrder { inputs, ..order_to("lyon", SubmittedWork::Call(submitted)) };
    let accepted = client.submit(&order, |_| Ok(())).await.map_err(|error| error.to_string())?;
    client.wait(&accepted.handle, |_| {}).await.unwrap();
    Ok(accepted.handle)
}

#[tokio::test(flavor = "multi_thread")]
async fn file_names_of_calls_lead_to_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let (federation, client) = started(&services(folder.path())).await;
    let outcome = |job: &Handle| {
        let outcome = fs::read(federation.job_folder(job).join("work").join(CALL_OUTCOME)).unwrap();
        String::from_utf8_lossy(&outcome).into_owned()
    };
    let key_path = federation.folder("lyon").join("key.pem");
    let key = fs::read_to_string(&key_path).unwrap();
    for service in ["content", "library-content", "overwrite", "library-overwrite", "solve"] {
        let honest = call(&client, service, "data", true).await.unwrap();
        let work = federation.job_folder(&honest).join("work");
        assert_eq!(fs::read_to_string(work.join(KEY)).unwrap(), key, "the hostile name would lead there");
        let found = outcome(&honest);
        match service {
            "content" | "library-content" => assert!(found.contains("content"), "{service}: {found}"),
            "solve" => assert_eq!(fs::read_to_string(work.join("copy")).unwrap(), "content", "{found}"),
            _ => {
                assert!(fs::read_to_string(work.join("data")).unwrap().starts_with("overwritten"), "{found}")
            }
        }
        for name in [KEY, key_path.to_str().unwrap(), "absent"] {
            let hostile = call(&client, service, name, true).await.unwrap();
            let found = outcome(&hostile);
            assert!(found.contains("`data`: expected a") && found.contains(name), "{service}: {found}");
            let copy = federation.job_folder(&hostile).join("work/copy");
            assert!(!found.contains("PRIVATE KEY") && !copy.exists(), "{service}: {found}");
            let refused = call(&client, service, name, false).await.unwrap_err();
            assert!(refused.contains(name), "{service}: {refused}");
        }
    }
    assert_eq!(fs::read_to_string(&key_path).unwrap(), key, "no service wrote there");
    drop(federation);
}
