//! `pliant submit`: submits work to the federation, which chooses the cluster, the processors and the walltime.

use std::path::{Path, PathBuf};

use clap::Args;
use pliant_client::{SubmissionStep, SubmitOrder};
use pliant_control::job::JobRecord;
use pliant_control::names::Key;
use pliant_wire::SubmittedWork;
use rand_chacha::rand_core::{OsRng, TryRngCore};
use serde_json::json;

use crate::executable_options::{self, is_path};
use crate::failure::Failure;
use crate::federation::{Access, Session, inform, interrupted, none_failed};
use crate::job::{all_completed, described, promise};
use crate::job_files::announced;
use crate::output::Output;
use crate::service_arguments::{argument, once_each};
use crate::submission_note::SubmissionNote;
use crate::submit_options::JobOptions;
use crate::table::counted;
use crate::time_text::now;
use crate::verbs::fetch;
use crate::verbs::submit_array;
use crate::verbs::submit_dry_run;
use crate::verbs::submit_refused::{answers as answered, check_service, refused};
use crate::verbs::wait::{self, WaitResult};

const USAGE: &str = "pliant submit [OPTIONS] SERVICE [KEY=VALUE]...
       pliant submit [OPTIONS] --time TIME --script FILE [-- ARGUMENT...]
       pliant submit [OPTIONS] --time TIME ./FILE [-- ARGUMENT...]";

#[derive(Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Arguments {
    /// A service of the federation, which `pliant servers --services` lists; or with a slash in it the path of a script, as
    /// with --script.
    #[arg(value_name = "SERVICE", required_unless_present = "script")]
    service: Option<String>,
    /// The arguments of the service.
    #[arg(value_name = "KEY=VALUE", value_parser = argument)]
    arguments: Vec<(String, String)>,
    /// A script to run instead of a service; its first line names the interpreter (#!). - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "service")]
    script: Option<PathBuf>,
    /// The arguments of the script.
    #[arg(last = true, value_name = "ARGUMENT")]
    script_arguments: Vec<String>,
    /// The unique key of the submission, 32 hexadecimal digits: the same command with the same key gives the same
    /// job, never a second one.
    #[arg(long, value_name = "HEX")]
    key: Option<Key>,
    /// Shows the estimates and refusals of all servers, and submits nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: JobOptions,
    #[command(flatten)]
    access: Access,
}

/// What is submitted: its program, and all of its options.
struct Request {
    what: SubmittedWork,
    options: JobOptions,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let request = arguments.request()?;
    if let (SubmittedWork::Script(script), Some(indices)) = (&request.what, &request.options.array) {
        let mut array = submit_array::spec(script, indices, &request.options)?;
        if arguments.key.is_some() {
            let problem = "expected --key or --array, found both";
            let hint = "leave --key out, and name a folder with --out: the same command with that folder continues the array, and runs no task twice";
            return Err(Failure::input(problem).hint(hint));
        }
        let session = arguments.access.open()?;
        submit_array::in_folder(&mut array, request.options.folder(&session.shared)?);
        return submit_array::run(
            output,
            &session,
            &array,
            arguments.dry_run,
            request.options.out.as_deref(),
        );
    }
    let options = request.options.clone();
    if let Some(out) = &options.out {
        fetch::is_folder(out)?;
    }
    let session = arguments.access.open()?;
    let mut order = request.order(arguments.key)?;
    if let SubmittedWork::Script(script) = &mut order.what {
        script.folder = options.folder(&session.shared)?;
    }
    if arguments.dry_run {
        return submit_dry_run::show(output, &session, &order);
    }
    let mut sent = arguments.key.map(|_| SubmissionNote::open(&order)).transpose()?;
    order.sent_to = sent.as_mut().map(SubmissionNote::server).transpose()?.flatten();
    let accepted = submit(&session, &order, sent.as_mut())?;
    same_name(&order.what, &accepted)?;
    // Another command with the same key may continue.
    drop(sent);
    inform(|| promise(&accepted, now()));
    let waits = options.waits();
    let handle = accepted.handle.clone();
    let document = |record: &JobRecord| {
        let mut value = described(record);
        value["key"] = json!(order.key);
        value
    };
    if !waits || output == Output::Text {
        // At once: a later failure must not hide the job ID.
        output.print("submit", || format!("{handle}\n"), document(&accepted))?;
    }
    if !waits {
        return Ok(());
    }
    let WaitResult { ended, errors, .. } = wait::until_ended(&session, std::slice::from_ref(&handle), None)?;
    none_failed(errors)?;
    let mut value = document(ended.first().unwrap_or(&accepted));
    if let Some(out) = &options.out {
        let results = fetch::into(&session, &handle, out)?;
        inform(|| format!("{} in {}", counted(results.files.len() as u64, "file"), out.display()));
        fetch::describe(&results, &mut value);
    }
    if output == Output::Json {
        output.print("submit", String::new, value)?;
    }
    all_completed(&ended)
}

/// Submits until the job is accepted or the submission is given up.
fn submit(
    session: &Session,
    order: &SubmitOrder,
    mut sent: Option<&mut SubmissionNote>,
) -> Result<Box<JobRecord>, Failure> {
    let again =
        format!("submit again with --key {}, which gives the same job, never a second one", order.key);
    let (mut answers, mut last) = (None, None);
    let step = |step: SubmissionStep<'_>| {
        if let SubmissionStep::Compared(found) = &step {
            answers = Some(answered(found));
        }
        inform(|| step_text(&step, order));
        if let SubmissionStep::Submitting(server) = step {
            last = Some(server.clone());
            sent.as_mut().map_or(Ok(()), |sent| sent.record(server))?;
        }
        Ok(())
    };
    let error = match session.run_until_interrupted(session.client.submit(order, step)) {
        Some(Ok(record)) => return Ok(record),
        Some(Err(error)) if error.is_input() || error.may_pass() => error,
        // The job may have been accepted: only its key can show that.
        other => {
            let Some(server) = last else {
                return Err(other.and_then(Result::err).map_or_else(nothing_sent, Failure::from));
            };
            if sent.is_none() {
                let noted = SubmissionNote::open(order)?.record(&server);
                noted.map_err(|error| Failure::system(error).hint(format!("{server} may have the job")))?;
            }
            return Err(match other {
                Some(Err(error)) => Failure::system(error).hint(again),
                _ => interrupted("interrupted; a server may have accepted the job", again),
            });
        }
    };
    if let Some(server) = &order.sent_to {
        let problem = format!("the submission with this key was sent to {server} before; {error}");
        return Err(
            Failure::input(problem).hint("with another key it may go to another server, as another job")
        );
    }
    if let Some(sent) = sent {
        sent.clear()?;
    }
    Err(refused(session, order, error, answers))
}

/// An error if the server has another job with this key: then it was submitted from another machine, whose note is not here.
fn same_name(what: &SubmittedWork, accepted: &JobRecord) -> Result<(), Failure> {
    let asked = match what {
        SubmittedWork::Service { name, .. } => name.as_str(),
        SubmittedWork::Script(script) => script.name.rsplit('/').next().unwrap_or_default(),
        SubmittedWork::Batch(batch) => batch.executable.name(),
    };
    if accepted.name == asked {
        return Ok(());
    }
    let JobRecord { handle, name, .. } = accepted;
    let problem = format!("--key: expected a key for `{asked}`, found that of {handle}, which runs `{name}`");
    Err(Failure::input(problem).hint("use another key"))
}

fn nothing_sent() -> Failure {
    interrupted("interrupted; nothing was submitted", "run the same command to submit")
}

/// The progress of a submission.
fn step_text(step: &SubmissionStep<'_>, order: &SubmitOrder) -> String {
    match step {
        SubmissionStep::Compared(found) => {
            let count = counted(found.vectors.len() as u64, "server");
            match found.vectors.first() {
                Some(best) => format!("{count} can run it, {} completes it first", best.server),
                None => "no server accepts it at the moment".to_owned(),
            }
        }
        SubmissionStep::Submitting(server) if order.inputs.is_empty() => format!("submitting to {server}"),
        SubmissionStep::Submitting(server) => {
            format!("sending {} to {server}", counted(order.inputs.len() as u64, "file"))
        }
        SubmissionStep::Waiting(why) => format!("trying again soon: {why}"),
    }
}

impl Request {
    fn order(self, key: Option<Key>) -> Result<SubmitOrder, Failure> {
        let Request { what, options } = self;
        Ok(SubmitOrder {
            inputs: announced("--in", &options.files())?,
            timeout: options.timeout(),
            only: options.server,
            ..SubmitOrder::new(key.map_or_else(drawn, Ok)?, what)
        })
    }
}

impl Arguments {
    /// What is submitted, with the options in its script.
    fn request(&self) -> Result<Request, Failure> {
        let Some(path) = self.script_path() else {
            let name = self.service.clone().unwrap_or_default();
            self.without_script_options(&name)?;
            check_service(&name)?;
            let what = SubmittedWork::Service { name, arguments: once_each(&self.arguments)? };
            return Ok(Request { what, options: self.options.clone() });
        };
        if let Some((key, value)) = self.arguments.first() {
            let problem = format!("expected arguments of a script after --, found `{key}={value}`");
            return Err(Failure::input(problem).hint(format!("pliant submit ... -- {key}={value}")));
        }
        let (script, options) =
            executable_options::read(path, self.options.clone(), self.script_arguments.clone())?;
        Ok(Request { what: SubmittedWork::Script(script), options })
    }

    /// The script: of `--script`, or a service that is a path.
    fn script_path(&self) -> Option<&Path> {
        let path = self.service.as_deref().filter(|service| is_path(service)).map(Path::new);
        self.script.as_deref().or(path)
    }

    /// Refuses options of scripts for a service.
    fn without_script_options(&self, service: &str) -> Result<(), Failure> {
        let arguments = (!self.script_arguments.is_empty()).then_some("arguments after --");
        let Some(option) = self.options.of_scripts().or(arguments) else { return Ok(()) };
        let problem = format!("expected {option} with a script, found it with the service `{service}`");
        let hint = match Path::new(service).is_file() {
            true => format!("`pliant submit ./{service} ...` submits the script of that name"),
            false => {
                "the server's file describes its services; `pliant servers --services` lists what they take and need"
                    .to_owned()
            }
        };
        Err(Failure::input(problem).hint(hint))
    }
}

/// A random key.
pub(super) fn drawn() -> Result<Key, Failure> {
    let mut bytes = [0; 16];
    let filled = OsRng.try_fill_bytes(&mut bytes);
    filled.map_err(|error| {
        Failure::system(format!("cannot draw a key: {error}")).hint("choose one with --key")
    })?;
    Ok(Key(bytes))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pliant_control::job::Work;
    use pliant_model::{Procs, Span, Speedup};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(line: &str) -> Result<Arguments, String> {
        let words = std::iter::once("submit").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.arguments).map_err(|error| error.to_string())
    }

    impl Arguments {
        fn order(&self) -> Result<SubmitOrder, Failure> {
            self.request()?.order(self.key)
        }
    }

    #[test]
    fn arguments_of_services() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
            assert_eq!(argument(text).ok(), expected, "{text}");
        };
        check("size=12", Some(("size", "12")));
        check("text=a=b c", Some(("text", "a=b c")));
        check("empty=", Some(("empty", "")));
        check("=12", None);
        check("size", None);
        let twice = parsed("matrix size=1 size=2").unwrap().order().unwrap_err();
        assert_eq!(twice.code, 2);
    }

    #[test]
    fn a_service_or_a_script() {
        let check = |line: &str, problem: &str| match parsed(line) {
            Ok(_) => assert_eq!(problem, "", "{line}"),
            Err(message) => {
                assert!(!problem.is_empty() && message.contains(problem), "{line}: {message}");
            }
        };
        check("pi samples=3 --in a --in b=c --out d", "");
        check("--script a --time 30m -- x --y", "");
        check("--script a --time 30m --speedup amdahl:0.95,64", "");
        check("", "SERVICE");
        check("pi samples", "expected KEY=VALUE, found `samples`");
        check("pi --script a --time 1h", "cannot be used with");
        check("--time 1h", "SERVICE");
        check("./job.sh --time 1h", "");
        check("--script a --time 90", "with its unit");
        check("--script a --time 1h --rigid 2 --speedup folding:2", "cannot be used with");
        check("--script a --time 1h --rigid 0", "from 1 to");
        check("--script a --time 1h --speedup linear:4", "expected a speedup model");
        check("pi --key 12", "32 hexadecimal digits");
        check("pi --server-timeout 0s", "length of time");
    }

    #[test]
    fn options_of_scripts_are_refused_for_services() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.sh");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        for (line, expected) in [
            ("pi --time 1h", "--time"),
            ("pi --rigid 2", "--rigid"),
            ("pi -- x", "arguments after --"),
            ("--script FILE", "--time"),
            ("FILE", "--time"),
            ("./none.sh x=1 --time 1h", "after --"),
        ] {
            let given = line.replace("FILE", &path.to_string_lossy());
            let failure = parsed(&given).unwrap().order().unwrap_err();
            assert_eq!(failure.code, 2, "{line}");
            assert!(format!("{failure:?}").contains(expected), "{line}: {failure:?}");
        }
    }

    #[test]
    fn a_script_is_ordered_with_its_work() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.sh");
        let order = |text: &str, more: &str| {
            std::fs::write(&path, text).unwrap();
            let line = format!("--script {} --time 1h {more}", path.display());
            parsed(&line).unwrap().order()
        };
        let check = |more: &str, expected: Work, arguments: &[&str]| {
            let SubmittedWork::Script(script) = order("#!/bin/sh\n", more).unwrap().what else {
                panic!("{more}")
            };
            assert_eq!((script.name.as_str(), &script.work), ("job.sh", &expected), "{more}");
            assert_eq!(script.arguments, arguments);
        };
        // Its time is the same on every cluster, unless a speedup says how it depends on processors.
        let work = |procs, speedup| Work {
            fixed_time: matches!(speedup, Speedup::Rigid),
            ..Work::new(Procs(procs), Span(3600), speedup)
        };
        check("", work(1, Speedup::Rigid), &[]);
        check("--rigid 8 -- -v a=b", work(8, Speedup::Rigid), &["-v", "a=b"]);
        check("--speedup amdahl:0.5,4", work(1, Speedup::Amdahl { parallel: 0.5, limit: Procs(4) }), &[]);
        let SubmittedWork::Script(script) =
            order("#!/bin/sh\n#PLIANT --rigid 3 --time 5m\n", "--job-name fit").unwrap().what
        else {
            panic!("a script")
        };
        assert_eq!((script.name.as_str(), &script.work), ("fit", &work(3, Speedup::Rigid)), "the hour wins");
        assert_eq!(order("echo\n", "").unwrap_err().code, 2);
        assert_eq!(order(&format!("#!{}", "x".repeat(1 << 20)), "").unwrap_err().code, 2);
        std::fs::write(&path, b"#!/bin/sh\necho \xe9\n").unwrap();
        let line = format!("--script {} --time 1h", path.display());
        let SubmittedWork::Script(script) = parsed(&line).unwrap().order().unwrap().what else {
            panic!("{line}")
        };
        assert_eq!(script.text.as_bytes(), b"#!/bin/sh\necho \xe9\n", "not all scripts are UTF-8");
    }

    #[test]
    fn inputs_are_announced_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let line = format!("pi --in {0} --in other={0}", path.display());
        let order = parsed(&line).unwrap().order().unwrap();
        let announced: Vec<(&str, u64)> =
            order.inputs.iter().map(|(spec, _)| (spec.name.as_str(), spec.size)).collect();
        assert_eq!(announced, [("abc", 3), ("other", 3)]);
        assert_eq!(order.inputs[0].0.sha256, pliant_staging::Checksum::of(b"abc"));
        let refused = |more: &str| parsed(&format!("{line} {more}")).unwrap().order().unwrap_err().code;
        assert_eq!(refused(&format!("--in abc={}", path.display())), 2, "a name twice");
        assert_eq!(refused(&format!("--in d={}", dir.path().display())), 2, "a folder");
        assert_eq!(refused("--in none"), 1, "not there");
    }

    #[test]
    fn keys_are_drawn_anew() {
        assert_ne!(drawn().unwrap(), drawn().unwrap());
        let key = "000102030405060708090a0b0c0d0e0f";
        assert_eq!(parsed(&format!("pi --key {key}")).unwrap().order().unwrap().key.to_string(), key);
    }
}
