//! The protocol is compatible with the recorded one, `tests/fixtures/protocol-v1.txt`.
//!
//! The record is that of a version that others may run. docs/development/testing.md, "Recorded formats", says how a release
//! adds to it.

mod compatibility;
mod descriptor;

use compatibility::incompatible;

const RECORDED: &str = include_str!("../fixtures/protocol-v1.txt");

#[test]
fn the_protocol_is_compatible_with_the_recorded_one() {
    let found = incompatible(RECORDED, &descriptor::current());
    assert!(
        found.is_empty(),
        "the protocol has changed incompatibly (docs/development/testing.md, \"Recorded formats\"):\n{}",
        found.join("\n")
    );
}

/// A protocol with one of everything.
const BEFORE: &str = "\
field p.Job 1 name string
field p.Job 2 owner optional p.User
reserved p.Job 4
field p.User 1 name string
value p.State 0 STATE_UNSPECIFIED
value p.State 1 STATE_QUEUED
rpc p.Server.Submit p.Job -> stream p.User
";

/// Replaces lines of [`BEFORE`], and checks what is reported.
fn check(changes: &[(&str, &str)], expected: &[&str]) {
    let mut after = BEFORE.to_owned();
    for (line, instead) in changes {
        assert!(after.contains(line), "{line}");
        after = after.replace(line, instead);
    }
    assert_eq!(incompatible(BEFORE, &after), expected, "{changes:?}");
}

#[test]
fn additions_are_compatible() {
    check(&[], &[]);
    check(&[("field p.Job 1 name string\n", "field p.Job 1 name string\nfield p.Job 3 size uint32\n")], &[]);
    check(&[("value p.State 1", "value p.State 2 STATE_ENDED\nvalue p.State 1")], &[]);
    check(&[("rpc p", "rpc p.Server.Cancel p.Job -> p.Job\nrpc p")], &[]);
}

#[test]
fn a_removed_number_is_reserved() {
    check(&[("field p.Job 2 owner optional p.User", "reserved p.Job 2")], &[]);
    check(
        &[("field p.Job 2 owner optional p.User\n", "")],
        &["p.Job, number 2: `owner optional p.User` is removed; expected `reserved 2`"],
    );
    check(
        &[("value p.State 1 STATE_QUEUED\n", "")],
        &["p.State, number 1: `STATE_QUEUED` is removed; expected `reserved 1`"],
    );
    check(&[("reserved p.Job 4\n", "")], &["p.Job, number 4: expected it to stay reserved"]);
    check(
        &[("reserved p.Job 4", "field p.Job 4 size uint32")],
        &["p.Job, number 4: expected it to stay reserved"],
    );
}

#[test]
fn a_number_keeps_its_name_and_type() {
    check(
        &[("1 name string\nfield p.Job 2", "1 name bytes\nfield p.Job 2")],
        &["p.Job, number 1: expected `name string`, found `name bytes`"],
    );
    check(
        &[("2 owner optional p.User", "2 user optional p.User")],
        &["p.Job, number 2: expected `owner optional p.User`, found `user optional p.User`"],
    );
    check(
        &[("STATE_QUEUED", "STATE_WAITING")],
        &["p.State, number 1: expected `STATE_QUEUED`, found `STATE_WAITING`"],
    );
}

#[test]
fn a_method_stays() {
    check(&[("rpc p.Server.Submit p.Job -> stream p.User\n", "")], &["rpc p.Server.Submit: is removed"]);
    check(
        &[("-> stream p.User", "-> p.User")],
        &["rpc p.Server.Submit: expected `p.Job -> stream p.User`, found `p.Job -> p.User`"],
    );
}

#[test]
fn a_message_goes_when_no_field_and_no_method_names_it() {
    let is_without = ("field p.User 1 name string\n", "");
    let reserved = ("field p.Job 2 owner optional p.User", "reserved p.Job 2");
    check(
        &[is_without, reserved, ("stream p.User", "p.Job")],
        &["rpc p.Server.Submit: expected `p.Job -> stream p.User`, found `p.Job -> p.Job`"],
    );
}
