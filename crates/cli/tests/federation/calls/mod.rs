//! Calls of typed services: values of each type, by commands and by a resident process that dies, is killed and is cancelled.

mod data;
mod file_names;
mod latency;
mod resident;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pliant_calls::{Array, Value};
use pliant_client::Client;
use pliant_client::calls::{CallEnd, CallError, CallOrder, TypedService};
use pliant_control::job::Exit;
use pliant_wire::{SubmittedWork, TypedCall};

use crate::harness::*;

/// Services whose calls start a command.
const COMMANDS: &str = r#"
[[service]]
name = "succ"
signature = ["in int n", "out int m"]
command = ["/bin/sh", "-c", "if [ $1 -ge 1000 ]; then echo too large >&2; exit 3; fi; echo $(( $1 + 1 ))", "succ", "{n}"]
speedup = "rigid:1"
runtime = "1s"

[service.parameters.m]
output = "stdout"

[service.parameters.n]
min = 0

[[service]]
name = "kinds"
signature = ["in int n", "in double v[n]", "in long l[n][2]", "in file data", "in string word", "out double w[n]",
             "out long t[n][2]", "out string s[80]", "out file copy", "out float half", "inout char bytes[3]"]
command = ["/bin/sh", "-c", "cp v w; mkdir out; cat {l} > out/t; cp {data} {copy}; echo 0.5 > half; printf xyz > bytes; echo $1 of {n}", "kinds", "{word}"]
speedup = "rigid:1"
runtime = "1s"

[service.parameters.l]
format = "text"

[service.parameters.t]
format = "text"
output = "out/t"

[service.parameters.s]
output = "stdout"
"#;

/// A federation of one server with these services, and a client.
async fn started(services: &str) -> (Federation, Client) {
    let cluster = Cluster::new("lyon", 4, 1.0);
    let tables = format!("{services}\n{}", cluster.tables);
    let federation = Federation::start(&[Cluster { tables, ..cluster }]).await;
    let client = federation.client("alice");
    (federation, client)
}

fn int(number: i32) -> Option<Value> {
    Some(Value::Int(number))
}

fn text(text: &str) -> Option<Value> {
    Some(Value::String(text.to_owned()))
}

fn doubles(elements: &[f64]) -> Option<Value> {
    Some(Value::Vector(Array::Double(elements.to_vec())))
}

/// The results of a call that completes.
async fn completed(client: &Client, order: &CallOrder) -> Vec<Option<Value>> {
    match client.call(order).await.unwrap() {
        CallEnd::Completed(results) => results,
        end => panic!("{end:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_gets_values_and_leaves_results_of_each_type() {
    let (federation, client) = started(COMMANDS).await;
    let succ = client.typed_service("succ", None).await.unwrap();
    assert_eq!((succ.signature.to_string().as_str(), succ.servers.len()), ("in int n, out int m", 1));
    let order = |n| CallOrder::new(succ.clone(), vec![int(n), None]);
    assert_eq!(completed(&client, &order(41)).await, [None, int(42)]);
    let failed = client.call(&order(1000)).await.unwrap();
    let CallEnd::Failed { exit: Exit::Code(3), reason } = failed else { panic!("{failed:?}") };
    assert_eq!(reason, "the command ended with exit code 3: too large");
    // Numbers are checked before anything is accepted, and the client checks the types itself.
    let refused = client.call(&order(-1)).await.unwrap_err();
    assert!(matches!(&refused, CallError::Refused(_)), "{refused:?}");
    assert!(
        refused.to_string().contains("`n`: expected a whole number of 0 to 2147483647, found `-1`"),
        "{refused}"
    );
    let wrong = client.call(&CallOrder::new(succ.clone(), vec![doubles(&[1.0]), None])).await.unwrap_err();
    assert_eq!(wrong.to_string(), "`n`: expected int, found double[1]");

    let kinds = client.typed_service("kinds", Some(&"lyon".parse().unwrap())).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    fs::write(&data, "content").unwrap();
    let longs = Some(Value::Matrix { rows: 2, columns: 2, elements: Array::Long(vec![1, -2, 3, i64::MAX]) });
    let bytes = |bytes: &[u8]| Some(Value::Vector(Array::Char(bytes.to_vec())));
    let mut order = CallOrder::new(
        kinds,
        vec![
            int(2),
            doubles(&[0.1, -2e300]),
            longs.clone(),
            None,
            text("two"),
            None,
            None,
            None,
            None,
            None,
            bytes(b"abc"),
        ],
    );
    order.files = [(3, data), (8, copy.clone())].into();
    order.server = Some("lyon".parse().unwrap());
    let results = completed(&client, &order).await;
    let file = Some(Value::File("copy".to_owned()));
    let expected = [
        None,
        None,
        None,
        None,
        None,
        doubles(&[0.1, -2e300]),
        longs,
        text("two of 2"),
        file,
        Some(Value::Float(0.5)),
        bytes(b"xyz"),
    ];
    assert_eq!(results, expected);
    assert_eq!(fs::read_to_string(&copy).unwrap(), "content");
    drop(federation);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_call_of_a_typed_service_is_refused() {
    let (federation, client) = started(COMMANDS).await;
    let error = async |name: &str, server: Option<&str>| {
        let server = server.map(|name| name.parse().unwrap());
        client.typed_service(name, server.as_ref()).await.unwrap_err()
    };
    assert!(matches!(error("succ", Some("paris")).await, CallError::NoSuchServer(_)));
    assert!(matches!(error("nothing", None).await, CallError::NoSuchService(_)));
    assert!(matches!(error("say", None).await, CallError::NotTyped(_)));
    // The server checks what a client sends, whatever the client has checked.
    let refused =
        async |work: SubmittedWork| client.submit(&order(work), |_| Ok(())).await.unwrap_err().to_string();
    let call = |service: &str, values: Vec<u8>| {
        SubmittedWork::Call(TypedCall {
            service: service.into(),
            arguments: [("n".into(), "1".into())].into(),
            values: values.into(),
            stored: Vec::new(),
            kept: Vec::new(),
        })
    };
    let found = refused(call("succ", b"PLV\x01\x01\x00\x02\x01\0\0".to_vec())).await;
    assert!(found.contains("call of `succ`: expected 4 more bytes at byte 7, found 3"), "{found}");
    let values = pliant_calls::encode(&[Some(Value::Double(1.0)), None]).unwrap();
    let found = refused(call("succ", values.clone())).await;
    assert!(found.contains("call of `succ`: `n`: expected int, found double"), "{found}");
    let found = refused(SubmittedWork::Call(TypedCall {
        service: "say".into(),
        arguments: [("text".into(), "a".into())].into(),
        values: values.into(),
        stored: Vec::new(),
        kept: Vec::new(),
    }))
    .await;
    assert!(found.contains("expected a service with a signature, found `say`"), "{found}");
    let found = refused(service("succ", &[("n", "1")])).await;
    assert!(found.contains("expected a call, since `succ` is a typed service"), "{found}");
    drop(federation);
}

/// A program of C that speaks to a supervisor.
fn compiled(source: &Path, folder: &Path) -> PathBuf {
    let program = folder.join("service");
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/resident-service");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(header);
    let output = cc.arg("-o").arg(&program).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/federation/calls").join(name)
}

/// A call of the resident service of the tests.
fn resident_order(service: &TypedService, mode: i32, folder: &Path) -> CallOrder {
    let matrix = Value::Matrix { rows: 2, columns: 2, elements: Array::Double(vec![1.0, 2.0, 3.0, 4.0]) };
    let gate = folder.join("gate").to_string_lossy().into_owned();
    let values =
        vec![int(mode), int(2), Some(matrix), doubles(&[1.0, 10.0]), None, None, None, None, text(&gate)];
    let data = folder.join("data");
    fs::write(&data, "content").unwrap();
    CallOrder {
        files: [(4, data), (7, folder.join("copy"))].into(),
        ..CallOrder::new(service.clone(), values)
    }
}
