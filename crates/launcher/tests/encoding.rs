//! What the launcher reads: any request comes back from its bytes, and no bytes do harm.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

#[path = "support/invariants.rs"]
mod invariants;
#[path = "support/mutation.rs"]
mod mutation;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use mutation::Random;
use pliant_launcher::{Action, MAX_REQUEST_BYTES, Request, Signal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A text of the system's: no zero byte.
fn os(least: usize) -> impl Strategy<Value = OsString> {
    vec(1..=255u8, least..20).prop_map(OsString::from_vec)
}

fn variable() -> impl Strategy<Value = (OsString, OsString)> {
    let name = vec(any::<u8>().prop_filter("a name", |byte| !matches!(byte, 0 | b'=')), 1..10);
    (name.prop_map(OsString::from_vec), os(0))
}

fn request() -> impl Strategy<Value = Request> {
    let folder = || os(0).prop_map(Into::into);
    let action = prop_oneof![
        Just(Action::Check),
        folder().prop_map(|folder| Action::MakeFolder { folder }),
        (vec(os(0), 0..5), vec(variable(), 0..5), folder(), any::<Option<u64>>()).prop_map(
            |(program, environment, folder, processes_max)| Action::Run {
                program,
                environment,
                folder,
                processes_max
            }
        ),
        (vec(os(0), 0..5), folder())
            .prop_map(|(program, folder)| Action::RunWithSubordinates { program, folder }),
        (select(Signal::ALL.to_vec()), vec(any::<i32>(), 0..5))
            .prop_map(|(signal, processes)| Action::Signal { signal, processes }),
    ];
    (any::<String>(), action).prop_map(|(account, action)| Request { account, action })
}

proptest! {
    #[test]
    fn a_request_comes_back_and_leaves_what_follows(request in request(), rest in vec(any::<u8>(), 0..9)) {
        let bytes = [request.encode(), rest.clone()].concat();
        let mut input = bytes.as_slice();
        prop_assert_eq!(Request::read(&mut input).unwrap(), request);
        prop_assert_eq!(input, rest);
    }

    #[test]
    fn a_request_that_ends_early_is_none(request in request(), cut in any::<prop::sample::Index>()) {
        let bytes = request.encode();
        prop_assert!(Request::read(&bytes[..cut.index(bytes.len())]).is_err());
        prop_assert!(Request::decode(&[&bytes[4..], &[0]].concat()).is_err());
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300), text in "[a-z_]{0,9} ?= ?[\\[\\]'\",#0-9a-z/.\n ]{0,60}") {
        invariants::hold(&bytes);
        invariants::hold(text.as_bytes());
    }
}

#[test]
fn mutated_requests_and_files() {
    let (corpus, mut random) = (mutation::corpus(), Random(7));
    corpus.iter().for_each(|bytes| invariants::hold(bytes));
    for _ in 0..20_000 {
        invariants::hold(&mutation::mutated(&corpus, &mut random));
    }
}

#[test]
fn what_is_no_request() {
    fn fields(fields: &[&[u8]]) -> Vec<u8> {
        let field = |field: &&[u8]| [&u32::try_from(field.len()).unwrap().to_le_bytes(), *field].concat();
        fields.iter().flat_map(field).collect()
    }
    let check = |bytes: &[u8], expected: &str| {
        assert_eq!(Request::decode(bytes).unwrap_err(), expected);
    };
    let wrong = |field: &str| format!("the field `{field}` has a value that it cannot have");
    let missing = |field: &str| format!("the field `{field}` is missing");
    let (truncated, excess) = ("the request ends within a field", "there is more behind the last field");
    let run = |program: &[&[u8]], environment: &[&[u8]], processes_max: &[u8]| {
        fields(&[b"run", b"alice", b"/", &fields(program), &fields(environment), processes_max])
    };
    assert!(Request::decode(&run(&[b"/bin/true"], &[b"A", b""], b"1")).is_ok());
    check(b"", &missing("verb"));
    check(b"\x01\0\0", truncated);
    check(b"\x05\0\0\0abcd", truncated);
    check(b"\xff\xff\xff\xffabcd", truncated);
    check(&fields(&[b"run"]), &missing("account"));
    check(&fields(&[b"Run", b"alice"]), &wrong("verb"));
    check(&fields(&[b"run", b"\xff"]), &wrong("account"));
    check(&fields(&[b"check", b"alice", b""]), excess);
    check(&fields(&[b"make-folder", b"alice"]), &missing("folder"));
    check(&fields(&[b"make-folder", b"alice", b"/a\0b"]), &wrong("folder"));
    check(&fields(&[b"make-folder", b"alice", b"/a", b""]), excess);
    check(&fields(&[b"run", b"alice", b"/", b"", b""]), &missing("processes_max"));
    check(&run(&[b"/bin/sh\0"], &[], b""), &wrong("program"));
    check(&run(&[], &[b"A"], b""), &wrong("environment"));
    check(&run(&[], &[b"", b"x"], b""), &wrong("environment"));
    check(&run(&[], &[b"A=B", b"x"], b""), &wrong("environment"));
    check(&run(&[], &[b"A", b"x\0y"], b""), &wrong("environment"));
    check(&run(&[], &[], b"-1"), &wrong("processes_max"));
    check(&run(&[], &[], b" "), &wrong("processes_max"));
    check(&fields(&[b"signal", b"alice", b"hup", b""]), &wrong("signal"));
    check(&fields(&[b"signal", b"alice", b"kill", &fields(&[b"2147483648"])]), &wrong("processes"));

    let long = u32::try_from(MAX_REQUEST_BYTES + 1).unwrap().to_le_bytes();
    let error = Request::read(long.as_slice()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("expected at most {MAX_REQUEST_BYTES} bytes, found {}", MAX_REQUEST_BYTES + 1)
    );
}
