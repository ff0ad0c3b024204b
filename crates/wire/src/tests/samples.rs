//! Messages that are right, to be broken.

use super::super::Malformed;
use super::super::proto::{self, speedup, submit_request};

pub(super) const NAME: &str = "a name of 1 to 63 lower-case letters, digits and hyphens";
pub(super) const TIME: &str = "seconds since the Unix epoch from -1099511627776 to 1099511627776";
pub(super) const USER: &str = "a user name of 1 to 64 letters, digits and `. _ - @`";
pub(super) const HANDLE: &str = "a job ID like `lyon.17`";
pub(super) const KEY: &str = "a key of 16 bytes";
pub(super) const ADDRESS: &str = "an address like `lyon.example.org:7450`";
pub(super) const WALLTIME: &str = "a walltime in seconds from 1 to 315360000";
pub(super) const PRINTABLE: &str = "printable characters on one line";
pub(super) const AN_ESTIMATE: &str = "an estimate";
pub(super) const A_SERVICE: &str = "the name of a service";
pub(super) const A_SERVICE_OR_SCRIPT: &str = "the name of a service, or a script";
pub(super) const AN_ARGUMENT: &str = "the name of an argument";
pub(super) const FIRST_LINE: &str = "a first line that says what runs it, like `#!/bin/sh`";
pub(super) const EMPTY: &str = "an empty text";
pub(super) const NOTHING: &str = "nothing";
pub(super) const STATE: &str = "a job state from 1 to 6";
pub(super) const NO_DOTS: &str = "a file name without `.` and `..`";
pub(super) const PROCS: &str = "a number of processors from 1 to 10000000";

pub(super) fn estimate() -> proto::Estimate {
    proto::Estimate { procs: 4, walltime_s: 60, start: 1_000 }
}

pub(super) fn amdahl(parallel: f64, limit: u32) -> proto::Speedup {
    proto::Speedup { model: Some(speedup::Model::Amdahl(speedup::Amdahl { parallel, limit })) }
}

pub(super) fn table(points: &[(u32, f64)]) -> proto::Speedup {
    let points = points.iter().map(|(procs, time)| speedup::Point { procs: *procs, time: *time }).collect();
    proto::Speedup { model: Some(speedup::Model::Table(speedup::Table { points })) }
}

pub(super) fn gpu_table(points: &[(u32, u32, f64)]) -> proto::Speedup {
    let point = |&(procs, gpus, time): &(u32, u32, f64)| speedup::GpuPoint { procs, gpus, time };
    let points = points.iter().map(point).collect();
    proto::Speedup { model: Some(speedup::Model::GpuTable(speedup::GpuTable { points })) }
}

pub(super) fn work() -> proto::Work {
    proto::Work {
        procs: 8,
        walltime_s: 3600,
        fixed_time: false,
        speedup: Some(amdahl(0.9, 64)),
        resources: None,
        begin: None,
        deadline: None,
        nice: 0,
        requeue: 2,
    }
}

pub(super) fn vector() -> proto::EstimationVector {
    proto::EstimationVector {
        server: "lyon".to_owned(),
        address: "lyon.example.org:7450".to_owned(),
        rank: 0,
        estimate: Some(estimate()),
        speed: 1.0,
        procs: 64,
        free: 0,
        queue_length: 3,
        partition: String::new(),
    }
}

pub(super) fn job() -> proto::Job {
    proto::Job {
        handle: "lyon.17".to_owned(),
        key: vec![7; 16],
        owner: "alice".to_owned(),
        name: "pi".to_owned(),
        work: Some(work()),
        state: 2,
        submitted: 1_000,
        expected: Some(estimate()),
        procs: 4,
        walltime_s: 60,
        ..proto::Job::default()
    }
}

pub(super) fn server_info() -> proto::ServerInfo {
    proto::ServerInfo {
        name: "lyon".to_owned(),
        address: "10.0.0.1:7450".to_owned(),
        procs: 64,
        speed: 1.5,
        policy: "cbf".to_owned(),
        ..proto::ServerInfo::default()
    }
}

pub(super) fn call(arguments: &[(&str, &str)]) -> proto::ServiceCall {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    proto::ServiceCall { name: "pi".to_owned(), arguments: arguments.iter().map(owned).collect() }
}

pub(super) fn script() -> proto::Script {
    proto::Script {
        name: "job.sh".to_owned(),
        text: b"#!/bin/sh\ntrue\n".to_vec(),
        work: Some(work()),
        arguments: vec!["one".to_owned()],
        folder: "site-a:alice/run".to_owned(),
        environment: [("OMP_PLACES".to_owned(), "cores".to_owned())].into(),
        stdin: "a.txt".to_owned(),
        merge_output: true,
    }
}

pub(super) fn file(name: &str) -> proto::InputFile {
    proto::InputFile { name: name.to_owned(), size: 5, sha256: vec![1; 32] }
}

pub(super) fn submit(script: proto::Script) -> proto::SubmitRequest {
    proto::SubmitRequest {
        key: vec![9; 16],
        what: Some(submit_request::What::Script(script)),
        inputs: vec![file("a.txt")],
        latest: None,
        compared: vec![proto::ComparedEstimate { server: "lyon".to_owned(), estimate: Some(estimate()) }],
        discovery: None,
        pinned: false,
        claim: Some(claim()),
    }
}

pub(super) fn claim() -> proto::SignedClaim {
    proto::SignedClaim {
        owner: "alice".to_owned(),
        key: vec![9; 16],
        digest: vec![3; 32],
        audience: "lyon".to_owned(),
        made: 1_000,
        lifetime_s: 3_600,
        signature: Some(proto::Signature { bytes: vec![4; 72], certificate: vec![5; 500] }),
    }
}

pub(super) fn signed_tasks() -> proto::SignedTasks {
    proto::SignedTasks { claim: Some(claim()), tasks: vec![vec![6; 32]] }
}

pub(super) fn question() -> proto::Question {
    let what = Some(proto::DiscoverySubject { what: Some(proto::discovery_subject::What::Work(work())) });
    proto::Question { discovery: 1, what, user: "alice".to_owned(), best: 3, ..proto::Question::default() }
}

/// Breaks a field of a valid message, and expects an error of it.
pub(super) fn check<M, T>(
    mut message: M,
    damage: impl FnOnce(&mut M),
    field: &str,
    expected: &str,
    found: &str,
) where
    M: Clone,
    T: TryFrom<M, Error = Malformed> + std::fmt::Debug,
{
    let whole = T::try_from(message.clone());
    assert!(whole.is_ok(), "the message is right before it is broken: {whole:?}");
    damage(&mut message);
    let malformed = T::try_from(message).expect_err(field);
    let wanted = (field, expected, found);
    assert_eq!((malformed.field.as_str(), malformed.expected.as_str(), malformed.found.as_str()), wanted);
}
