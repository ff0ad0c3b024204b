//! What users sign: the digests of submissions and tasks, and signatures that are none.

use std::collections::{BTreeMap, BTreeSet};

use pliant_control::coallocation::TaskSpec;
use pliant_control::job::Work;
use pliant_control::names::Key;
use pliant_control::payload::Payload;
use pliant_control::signed::{Digest, SignedClaim};
use pliant_model::{Procs, Resources, Span, Speedup};
use pliant_staging::{Checksum, FileSpec};
use proptest::prelude::*;

use super::super::field::HasMessage;
use super::super::{
    Executable, InstanceBatch, InstanceCall, KeptParameter, ParameterScript, Program, Script, StoredArgument,
    Submission, SubmittedWork, TaskArray, TaskProgram, TypedCall, proto, submission_digest, task_digest,
    tasks_digest,
};
use super::samples::*;

#[test]
fn claims() {
    type Damage = fn(&mut proto::SubmitRequest);
    fn of_claim(request: &mut proto::SubmitRequest) -> &mut proto::SignedClaim {
        request.claim.as_mut().expect("it was made with one")
    }
    fn of_signature(request: &mut proto::SubmitRequest) -> &mut proto::Signature {
        of_claim(request).signature.as_mut().expect("it was made with one")
    }
    let script = proto::Script {
        name: "one".to_owned(),
        text: b"#!/bin/sh\n".to_vec(),
        work: Some(work()),
        ..proto::Script::default()
    };
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|one| one.claim = None, "claim", "the user's signature", NOTHING),
        (|one| of_claim(one).owner.clear(), "claim.owner", USER, EMPTY),
        (|one| of_claim(one).key = vec![1; 15], "claim.key", KEY, "15 bytes"),
        (
            |one| of_claim(one).digest = vec![1; 31],
            "claim.digest",
            "a SHA-256 digest of 32 bytes",
            "31 bytes",
        ),
        (|one| of_claim(one).audience.push('.'), "claim.audience", NAME, "`lyon.`"),
        (|one| of_claim(one).made = 1 << 41, "claim.made", TIME, "2199023255552"),
        (|one| of_claim(one).signature = None, "claim.signature", "a signature", NOTHING),
        (
            |one| of_signature(one).bytes = vec![0; 1025],
            "claim.signature.bytes",
            "at most 1024 bytes",
            "1025 bytes",
        ),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, Submission>(submit(script.clone()), damage, field, expected, found);
    }
}

fn script() -> Script {
    let work = Work::new(Procs(2), Span(60), Speedup::Rigid);
    let script = Script::new("one".to_owned(), "#!/bin/sh\n".into(), work);
    Script { arguments: vec!["a".to_owned()], ..script }
}

fn file(name: &str, content: &[u8]) -> FileSpec {
    FileSpec { name: name.parse().unwrap(), size: content.len() as u64, sha256: Checksum::of(content) }
}

/// No two of these submissions have the same digest.
#[test]
fn whatever_is_changed_of_a_submission_changes_its_digest() {
    let service = |name: &str, arguments: &[(&str, &str)]| SubmittedWork::Service {
        name: name.to_owned(),
        arguments: arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    let call = |service: &str, values: &[u8], arguments: &[(&str, &str)]| {
        SubmittedWork::Call(TypedCall {
            service: service.to_owned(),
            arguments: arguments
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            values: values.to_vec().into(),
            stored: Vec::new(),
            kept: Vec::new(),
        })
    };
    let with_data = |key: u8, kept: Option<bool>| {
        let (parameter, data) = ("a".to_owned(), Key([key; 16]));
        let kept = kept.map(|returned| KeptParameter { parameter: parameter.clone(), data, returned });
        let stored = if kept.is_none() { vec![StoredArgument { parameter, data }] } else { Vec::new() };
        let (arguments, values) = (BTreeMap::new(), b"1".to_vec().into());
        let call = TypedCall {
            service: "one".to_owned(),
            arguments,
            values,
            stored,
            kept: kept.into_iter().collect(),
        };
        SubmittedWork::Call(call)
    };
    let changed = |change: fn(&mut Script)| {
        let mut script = script();
        change(&mut script);
        SubmittedWork::Script(script)
    };
    let batch = |executable| {
        let instances = vec![InstanceCall { number: 0, values: Vec::new() }];
        let (arguments, varied) = (BTreeMap::new(), Vec::new());
        SubmittedWork::Batch(InstanceBatch { executable, arguments, varied, instances, inputs_key: None })
    };
    let swept = |change: fn(&mut ParameterScript)| {
        let Script { name, text, work, arguments, environment, .. } = script();
        let (array, folder, stdin, merge_output) = (None, None, None, false);
        let mut script =
            ParameterScript { name, text, work, arguments, environment, array, folder, stdin, merge_output };
        change(&mut script);
        batch(Executable::Script(Box::new(script)))
    };
    let works = [
        batch("one".into()),
        batch("two".into()),
        swept(|_| {}),
        swept(|script| script.name = "two".to_owned()),
        swept(|script| script.text = "#!/bin/sh\nrm -r .\n".into()),
        swept(|script| script.arguments[0].push('b')),
        swept(|script| _ = script.environment.insert("A".to_owned(), "1".to_owned())),
        swept(|script| script.work.walltime = Span(61)),
        swept(|script| script.array = Some(TaskArray { first: 1, last: 9, count: 9, step: 1 })),
        swept(|script| script.array = Some(TaskArray { first: 1, last: 9, count: 5, step: 2 })),
        swept(|script| script.folder = Some("site-a:alice".parse().unwrap())),
        swept(|script| script.stdin = Some("a".parse().unwrap())),
        swept(|script| script.merge_output = true),
        changed(|_| {}),
        changed(|script| script.name.push('2')),
        changed(|script| script.text = "#!/bin/sh\nrm -r .\n".into()),
        changed(|script| script.text = b"#!/bin/sh\n\xff".to_vec().into()),
        changed(|script| script.text = b"#!/bin/sh\n\xfe".to_vec().into()),
        changed(|script| script.text = "#!/bin/sh\n\u{fffd}".into()),
        changed(|script| script.arguments.push(String::new())),
        changed(|script| script.arguments[0].push('b')),
        changed(|script| script.folder = Some("site-a:alice".parse().unwrap())),
        changed(|script| script.folder = Some("site-a:alice/run".parse().unwrap())),
        changed(|script| script.folder = Some("site-b:alice".parse().unwrap())),
        changed(|script| _ = script.environment.insert("A".to_owned(), "1".to_owned())),
        changed(|script| _ = script.environment.insert("A".to_owned(), "2".to_owned())),
        changed(|script| _ = script.environment.insert("B".to_owned(), "1".to_owned())),
        changed(|script| script.stdin = Some("a".parse().unwrap())),
        changed(|script| script.stdin = Some("b".parse().unwrap())),
        changed(|script| script.merge_output = true),
        changed(|script| script.work.procs = Procs(3)),
        changed(|script| script.work.walltime = Span(61)),
        changed(|script| script.work.speedup = Speedup::Amdahl { parallel: 0.9, limit: Procs(4) }),
        changed(|script| script.work.speedup = Speedup::Amdahl { parallel: 0.91, limit: Procs(4) }),
        changed(|script| script.work.fixed_time = true),
        changed(|script| script.work.resources = Some(Resources::default().into())),
        changed(|script| {
            script.work.resources = Some(Resources { nodes: Some(1), ..Resources::default() }.into())
        }),
        changed(|script| {
            script.work.resources = Some(Resources { nodes: Some(2), ..Resources::default() }.into())
        }),
        service("pi", &[]),
        service("pj", &[]),
        service("pi", &[("n", "1")]),
        service("pi", &[("n", "2")]),
        service("pi", &[("n", "1"), ("m", "")]),
        call("pi", b"", &[]),
        call("pj", b"", &[]),
        call("pi", b"PLV", &[]),
        call("pi", b"PLW", &[]),
        call("pi", b"", &[("n", "1")]),
        with_data(1, None),
        with_data(2, None),
        with_data(1, Some(false)),
        with_data(1, Some(true)),
    ];
    let inputs = [
        vec![],
        vec![file("a", b"1")],
        vec![file("b", b"1")],
        vec![file("a", b"2")],
        vec![file("a", b"1"), file("b", b"1")],
        vec![file("b", b"1"), file("a", b"1")],
    ];
    let mut digests = BTreeSet::new();
    for work in &works {
        for inputs in &inputs {
            for pinned in [false, true] {
                assert!(
                    digests.insert(submission_digest(work, inputs, pinned)),
                    "{work:?} {inputs:?} {pinned}"
                );
            }
        }
    }
    assert_eq!(digests.len(), works.len() * inputs.len() * 2);
}

#[test]
fn whatever_is_changed_of_a_task_changes_its_digest() {
    let task = |name: &str, program: &str, inputs: &[FileSpec]| {
        let program = Program::Service { name: program.to_owned(), arguments: BTreeMap::new() };
        let payload = Payload::of(&TaskProgram { program, inputs: inputs.to_vec() });
        task_digest(&TaskSpec { name: name.to_owned(), rcr: 1.0, payload })
    };
    let one = task("a", "pi", &[]);
    let tasks = [one, task("b", "pi", &[]), task("a", "pj", &[]), task("a", "pi", &[file("a", b"1")])];
    assert_eq!(tasks.iter().collect::<BTreeSet<&Digest>>().len(), tasks.len());
    assert_ne!(tasks_digest(&tasks), tasks_digest(&tasks[..3]));
    assert_ne!(tasks_digest(&[tasks[1], tasks[0]]), tasks_digest(&[tasks[0], tasks[1]]));
}

proptest! {
    /// A server computes the digest of what it has received, and its journal keeps it.
    #[test]
    fn a_submission_has_the_same_digest_wherever_it_is(submission in Submission::strategy()) {
        let digest = |what: &SubmittedWork, one: &Submission| submission_digest(what, &one.inputs, one.pinned);
        let sent = digest(&submission.what, &submission);
        let received = Submission::try_from(proto::SubmitRequest::from(&submission)).unwrap();
        prop_assert_eq!(digest(&received.what, &received), sent);
        let journaled: SubmittedWork = Payload::of(&received.what).read().unwrap();
        prop_assert_eq!(digest(&journaled, &received), sent);
        let claim: SignedClaim = Payload::of(&submission.claim).read().unwrap();
        prop_assert_eq!(claim, submission.claim);
    }
}
