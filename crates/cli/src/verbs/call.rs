//! `pliant call`: calls a typed service with values, and prints the values that come back.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use pliant_calls::{ParameterType, Signature, Value};
use pliant_client::calls::{CallEnd, CallError, CallOrder, StartedCall, TypedService};
use pliant_control::names::{Handle, Key, Name};
use pliant_request::service_arguments::{argument, once_each};
use pliant_request::submit::drawn;
use serde_json::json;

use crate::failure::Failure;
use crate::federation::{Access, Session, failed, inform, interrupted, timeout};
use crate::job::{NOT_COMPLETED, described, promise};
use crate::output::Output;
use crate::time_text::now;
use crate::verbs::submit::submit;

const USAGE: &str = "pliant call [OPTIONS] SERVICE [NAME=VALUE]...
       pliant call --job JOB";

#[derive(Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The typed service.
    #[arg(value_name = "SERVICE", required_unless_present = "job", conflicts_with = "job")]
    service: Option<String>,
    /// The values of its parameters: a number, a text, the elements of a vector or a matrix row by row, `@FILE` for a text file with
    /// these elements, or the path of a file that is sent or written.
    #[arg(value_name = "NAME=VALUE", value_parser = argument, conflicts_with = "job")]
    values: Vec<(String, String)>,
    /// Calls the service at this server only [default: the one that completes the call first].
    #[arg(long, value_name = "NAME", conflicts_with = "job")]
    server: Option<Name>,
    /// How long to try until a server takes the call [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = timeout, conflicts_with = "job")]
    server_timeout: Option<std::time::Duration>,
    /// Makes the call unique: 32 hexadecimal digits. The same key again gives the same call [default: a new key].
    #[arg(long, value_name = "KEY", conflicts_with = "job")]
    key: Option<Key>,
    /// Prints the job ID of the call and does not wait for its end.
    #[arg(long, conflicts_with = "job")]
    detach: bool,
    /// Waits for the end of an earlier call, by its job ID, and prints its values.
    #[arg(long, value_name = "JOB")]
    job: Option<Handle>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let given = once_each(&arguments.values)?;
    let session = arguments.access.open()?;
    if let Some(job) = &arguments.job {
        let earlier = session.run(session.client.call_of_job(job)).map_err(of_call)?;
        return finish(output, &session, &earlier.service, &earlier.call, &BTreeMap::new());
    }
    let name = arguments.service.as_deref().unwrap_or_default();
    let service = session.run(session.client.typed_service(name, arguments.server.as_ref()));
    let order = order(service.map_err(of_call)?, given, arguments)?;
    let key = arguments.key.unwrap_or_else(drawn);
    let submission = session.run(order.submission(key)).map_err(of_call)?;
    let accepted = submit(&session, &submission.order, None)?;
    inform(|| promise(&accepted, now()));
    if arguments.detach {
        let value = json!({ "job": described(&accepted), "service": order.service.name });
        return output.print("call", || format!("{}\n", accepted.handle), value);
    }
    let call = order.started(accepted.handle.clone());
    finish(output, &session, &order.service, &call, &order.files)
}

/// The order of a call with these values.
fn order(
    service: TypedService,
    mut given: BTreeMap<String, String>,
    arguments: &Arguments,
) -> Result<CallOrder, Failure> {
    let mut files = BTreeMap::new();
    for (at, parameter) in service.signature.parameters().iter().enumerate() {
        let Some(text) = given.get(&parameter.name) else { continue };
        match &parameter.kind {
            ParameterType::File => {
                files.insert(at, PathBuf::from(text));
                given.remove(&parameter.name);
            }
            ParameterType::Vector { .. } | ParameterType::Matrix { .. } => {
                if let Some(path) = text.strip_prefix('@').map(PathBuf::from) {
                    let read = std::fs::read_to_string(&path);
                    let read = read.map_err(|error| Failure::io(&path, "read it", &error))?;
                    given.insert(parameter.name.clone(), read);
                }
            }
            ParameterType::Scalar(_) | ParameterType::String { .. } => {}
        }
    }
    let values = service.signature.parse_arguments(&given);
    let signature = service.signature.to_string();
    let values =
        values.map_err(|error| Failure::input(error).hint(format!("{}: {signature}", service.name)))?;
    let mut order = CallOrder { server: arguments.server.clone(), files, ..CallOrder::new(service, values) };
    if let Some(timeout) = arguments.server_timeout {
        order.timeout = timeout;
    }
    Ok(order)
}

/// Waits for the end of a call, and prints what came back.
fn finish(
    output: Output,
    session: &Session,
    service: &TypedService,
    call: &StartedCall,
    files: &BTreeMap<usize, PathBuf>,
) -> Result<(), Failure> {
    let job = &call.job;
    let Some(end) = session.run_until_interrupted(session.client.wait_call(call)) else {
        let hint = format!("`pliant call --job {job}` waits for it again, `pliant cancel {job}` ends it");
        return Err(interrupted(format!("interrupted; the call continues as job {job}"), hint));
    };
    let failure = |message: String| Failure::system(message).code(NOT_COMPLETED);
    let values = match end.map_err(of_call)? {
        CallEnd::Completed(values) => values,
        CallEnd::Failed { reason, .. } => return Err(failure(format!("{job} failed: {reason}"))),
        CallEnd::Cancelled => return Err(failure(format!("{job} was cancelled"))),
    };
    let record = session.run(session.client.job(job))?;
    let document = json!({
        "job": described(&record),
        "service": service.name,
        "values": documents(&service.signature, &values, files),
    });
    output.print("call", || text(&service.signature, &values, files), document)
}

/// The local path of a file that came back, or what fetches it.
fn file_text(name: &str, path: Option<&PathBuf>) -> String {
    path.map_or_else(|| format!("{name}, a file of the job"), |path| path.display().to_string())
}

/// The values that came back, a line for each, and lines for the elements of vectors and matrices.
fn text(signature: &Signature, values: &[Option<Value>], files: &BTreeMap<usize, PathBuf>) -> String {
    let mut all = String::new();
    for (at, (parameter, value)) in signature.parameters().iter().zip(values).enumerate() {
        let name = &parameter.name;
        // Writing to a string does not fail.
        let _ = match value {
            None => Ok(()),
            Some(Value::File(file)) => writeln!(all, "{name} = {}", file_text(file, files.get(&at))),
            Some(value @ (Value::Vector(_) | Value::Matrix { .. })) => {
                let lines: String = value.to_text().lines().map(|line| format!("  {line}\n")).collect();
                write!(all, "{name} =\n{lines}")
            }
            Some(value) => writeln!(all, "{name} = {}", value.to_text()),
        };
    }
    all
}

/// The values that came back, by name, each with its type.
fn documents(
    signature: &Signature,
    values: &[Option<Value>],
    files: &BTreeMap<usize, PathBuf>,
) -> serde_json::Value {
    let named = signature.parameters().iter().zip(values).enumerate();
    let document = |(at, (parameter, value)): (usize, (&pliant_calls::Parameter, &Option<Value>))| {
        let value = value.as_ref()?;
        let mut document = json!({ "type": value.describe() });
        match value {
            Value::File(file) => {
                document["file"] = json!(file);
                document["path"] = json!(files.get(&at));
            }
            value => document["text"] = json!(value.to_text()),
        }
        Some((parameter.name.clone(), document))
    };
    named.filter_map(document).collect::<serde_json::Map<_, _>>().into()
}

/// The failure of a call that was not made, or whose outcome is not known.
fn of_call(error: CallError) -> Failure {
    let hint = error.hint().map(str::to_owned);
    let failure = match error {
        CallError::Refused(error) | CallError::Unavailable(error) | CallError::Other(error) => {
            return failed(error);
        }
        error @ CallError::File { .. } => Failure::system(error),
        error => Failure::input(error),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use pliant_calls::Array;

    use super::*;

    #[test]
    fn values_that_came_back_are_lines() {
        let signature: Signature =
            "in int n, out int m, out double v[2], out long t[2][2], out string s[80], out file f, inout file g"
                .parse()
                .unwrap();
        let values = [
            None,
            Some(Value::Int(42)),
            Some(Value::Vector(Array::Double(vec![0.5, -1.0]))),
            Some(Value::Matrix { rows: 2, columns: 2, elements: Array::Long(vec![1, 2, 3, 4]) }),
            Some(Value::String("one of 2".to_owned())),
            Some(Value::File("f".to_owned())),
            Some(Value::File("g".to_owned())),
        ];
        let files = BTreeMap::from([(6, PathBuf::from("out/g.dat"))]);
        let expected = "m = 42\nv =\n  0.5\n  -1\nt =\n  1 2\n  3 4\ns = one of 2\nf = f, a file of the job\ng = out/g.dat\n";
        assert_eq!(text(&signature, &values, &files), expected);
        let document = documents(&signature, &values, &files);
        assert_eq!(document["t"], json!({ "type": "long[2][2]", "text": "1 2\n3 4\n" }));
        assert_eq!(document["g"], json!({ "type": "file", "file": "g", "path": "out/g.dat" }));
        assert!(document.get("n").is_none());
    }
}
