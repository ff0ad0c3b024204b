//! `pliant submit` with several scripts: each is a job of its own, and those that are under way together go in
//! one message to each daemon.

use std::path::PathBuf;
use std::sync::Arc;

use pliant_client::{Client, SubmitOrder};
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_request::sending::{self, SubmissionError};
use pliant_request::submission_note::SubmissionNote;
use pliant_request::submit::SubmitOptions;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::failure::Failure;
use crate::federation::{Access, Session, ctrl_c, inform, none_failed};
use crate::job::all_completed;
use crate::output::Output;
use crate::table::counted;
use crate::verbs::submit::{document, failure};
use crate::verbs::wait::{self, WaitResult};

/// How many of the scripts that were not submitted are listed.
const LISTED: usize = 10;
/// The exit code of wrong input.
const INPUT: u8 = 2;

/// A script and what is submitted for it.
struct ScriptOrder {
    path: PathBuf,
    order: Arc<SubmitOrder>,
    /// The user gave a key, so that where the submission goes is noted.
    has_key: bool,
}

/// A job and the order that it was submitted for.
type Accepted<'a> = (&'a ScriptOrder, JobRecord);
/// A script without a job, and why.
type Rejected<'a> = (&'a ScriptOrder, Failure);

/// Submits each script, once all of them are read; prints the job IDs in the order of the scripts.
pub(super) fn run(
    output: Output,
    access: &Access,
    scripts: &[(PathBuf, SubmitOptions)],
    dry_run: bool,
) -> Result<(), Failure> {
    if dry_run {
        return Err(one_script_only("--dry-run", scripts.len()));
    }
    let session = access.open()?;
    let (mut orders, mut waits) = (Vec::with_capacity(scripts.len()), false);
    for (path, options) in scripts {
        let request = options.request(&mut |note| inform(|| format!("{}: {note}", path.display())))?;
        if let Some(option) = request.options.of_one_script() {
            return Err(one_script_only(option, scripts.len()));
        }
        waits |= request.options.waits();
        let order = Arc::new(request.order(options.key, &session.shared)?);
        orders.push(ScriptOrder { path: path.clone(), order, has_key: options.key.is_some() });
    }
    let (mut accepted, failures) = submitted(output, &session, &orders)?;
    inform(|| format!("{} of {} submitted", accepted.len(), counted(orders.len() as u64, "script")));
    let mut errors = Vec::new();
    if waits {
        let handles: Vec<Handle> = accepted.iter().map(|(_, record)| record.handle.clone()).collect();
        let WaitResult { ended, errors: unknown, .. } = wait::until_ended(&session, &handles, None)?;
        errors = unknown;
        for record in ended {
            let of_job = accepted.iter_mut().find(|(_, one)| one.handle == record.handle);
            if let Some((_, before)) = of_job {
                *before = record;
            }
        }
    }
    if output == Output::Json {
        output.print("submissions", String::new, described(&accepted, &failures))?;
    }
    not_submitted(&failures, orders.len())?;
    none_failed(errors)?;
    let records: Vec<JobRecord> = accepted.into_iter().map(|(_, record)| record).collect();
    if waits { all_completed(&records) } else { Ok(()) }
}

/// Submits the scripts: the jobs, and the failures of the others, both in the order of the scripts.
fn submitted<'a>(
    output: Output,
    session: &Session,
    orders: &'a [ScriptOrder],
) -> Result<(Vec<Accepted<'a>>, Vec<Rejected<'a>>), Failure> {
    let (interrupt, interrupted) = watch::channel(false);
    let ask = |client: Client, one: &ScriptOrder| {
        let (order, has_key, mut interrupted) = (one.order.clone(), one.has_key, interrupted.clone());
        async move {
            let ends = async move {
                // An error means that the command ends.
                let _ = interrupted.wait_for(|is_interrupted| *is_interrupted).await;
            };
            submit(&client, &order, has_key, ends).await
        }
    };
    let mut answers: Vec<Option<Result<Box<JobRecord>, SubmissionError>>> = Vec::new();
    answers.resize_with(orders.len(), || None);
    let (mut next, mut printed) = (0, Ok(()));
    let each = session.submit_each(orders, ask, |index, answer| {
        answers[index] = Some(answer);
        while let Some(Some(answer)) = answers.get(next) {
            if let Ok(record) = answer
                && output == Output::Text
                && printed.is_ok()
            {
                // At once: a later failure must not hide the job ID.
                printed = output.print("submissions", || format!("{}\n", record.handle), ());
            }
            next += 1;
        }
    });
    session.run(async {
        tokio::pin!(each);
        tokio::select! {
            () = &mut each => return,
            () = ctrl_c() => {}
        }
        // Those that are under way end, and say what became known of them.
        interrupt.send_replace(true);
        each.await;
    });
    printed?;
    let (mut accepted, mut failures) = (Vec::new(), Vec::new());
    for (one, answer) in orders.iter().zip(answers.into_iter().flatten()) {
        match answer {
            Ok(record) => accepted.push((one, *record)),
            Err(error) => failures.push((one, failure(session, &one.order, error))),
        }
    }
    Ok((accepted, failures))
}

/// Submits one of them.
async fn submit(
    client: &Client,
    order: &SubmitOrder,
    has_key: bool,
    interrupted: impl Future<Output = ()>,
) -> Result<Box<JobRecord>, SubmissionError> {
    if !has_key {
        return sending::submit(client, order, None, interrupted, |_| {}).await;
    }
    let open = || SubmissionNote::open(order, || {});
    let mut note = open().map_err(SubmissionError::Key)?;
    let sent_to = note.server().map_err(SubmissionError::Key)?;
    let order = SubmitOrder { sent_to, ..order.clone() };
    sending::submit(client, &order, Some(&mut note), interrupted, |_| {}).await
}

fn one_script_only(option: &str, scripts: usize) -> Failure {
    Failure::input(format!("expected {option} with one script, found {scripts}"))
        .hint("submit that script with a command of its own")
}

fn described(accepted: &[Accepted<'_>], failures: &[Rejected<'_>]) -> Value {
    let jobs = accepted.iter().map(|(one, record)| {
        let mut value = document(record, one.order.key);
        value["script"] = json!(one.path);
        value
    });
    let others = failures.iter().map(
        |(one, failure)| json!({ "script": one.path, "key": one.order.key, "problem": failure.message() }),
    );
    json!({ "jobs": jobs.collect::<Vec<Value>>(), "not_submitted": others.collect::<Vec<Value>>() })
}

/// A failure if some scripts were not submitted, with the first of them.
fn not_submitted(failures: &[Rejected<'_>], scripts: usize) -> Result<(), Failure> {
    let Some((_, first)) = failures.first() else { return Ok(()) };
    let mut text = format!("{} of {} not submitted:", failures.len(), counted(scripts as u64, "script"));
    for (one, failure) in failures.iter().take(LISTED) {
        text.push_str(&format!("\n  {}: {}", one.path.display(), failure.message()));
        if let Some(hint) = failure.hint_text() {
            text.push_str(&format!("\n    hint: {hint}"));
        }
    }
    if failures.len() > LISTED {
        text.push_str(&format!("\n  and {} more", failures.len() - LISTED));
    }
    // What no repetition mends counts as wrong input only if that is so for all.
    let other = failures.iter().find(|(_, failure)| failure.code != INPUT);
    Err(Failure::system(text).code(other.map_or(first.code, |(_, failure)| failure.code)))
}
