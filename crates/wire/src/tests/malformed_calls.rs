//! Requests and replies that do not say what they should, each with the field and the message of its error.

use pliant_control::environment::VARIABLE_NAME;
use pliant_control::explain::Explanation;

use super::super::proto::{self, download_request, submit_request, upload_request};
use super::super::{
    AccuracyQuery, Download, JobResults, JobsPage, JobsQuery, LocatedJob, Offer, Submission,
    SubmissionRefusal, SubmitAnswer, Upload, UploadAnswer, accuracies, bounds, handle_of,
};
use super::samples::{
    A_SERVICE_OR_SCRIPT, AN_ARGUMENT, AN_ESTIMATE, EMPTY, FIRST_LINE, HANDLE, KEY, NAME, NO_DOTS, NOTHING,
    PRINTABLE, PROCS, STATE, TIME, USER, amdahl, check, estimate, file, job, script, submit, work,
};

#[test]
fn batches() {
    type Damage = fn(&mut proto::InstanceBatch);
    fn of_script(batch: &mut proto::InstanceBatch) -> &mut proto::ParameterScript {
        let script = proto::ParameterScript {
            name: "fit.sh".to_owned(),
            text: b"#!/bin/sh\n".to_vec(),
            work: Some(work()),
            ..proto::ParameterScript::default()
        };
        batch.service.clear();
        batch.script.insert(script)
    }
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|batch| batch.service.clear(), "batch.service", A_SERVICE_OR_SCRIPT, EMPTY),
        (
            |batch| {
                of_script(batch);
                batch.service = "fit".to_owned();
            },
            "batch.service",
            "no service in addition to a script",
            "`fit`",
        ),
        (|batch| of_script(batch).name.clear(), "batch.script.name", "the name of a script", EMPTY),
        (|batch| of_script(batch).text = b"echo".to_vec(), "batch.script.text", FIRST_LINE, "`echo`"),
        (|batch| of_script(batch).work = None, "batch.script.work", "the work", NOTHING),
        (
            |batch| drop(of_script(batch).environment.insert("PLIANT_JOB".to_owned(), "1".to_owned())),
            "batch.script.environment",
            VARIABLE_NAME,
            "`PLIANT_JOB`",
        ),
        (|batch| batch.instances.clear(), "batch.instances", "at least one instance", NOTHING),
        (|batch| batch.varied[0].clear(), "batch.varied[0]", AN_ARGUMENT, EMPTY),
        (|batch| batch.inputs_key.truncate(15), "batch.inputs_key", KEY, "15 bytes"),
        (
            |batch| drop(batch.instances[1].values.pop()),
            "batch.instances[1].values",
            "1 values, one for each name in `varied`",
            "0",
        ),
        (
            |batch| batch.instances[0].values[0].push('\n'),
            "batch.instances[0].values[0]",
            PRINTABLE,
            "`7\\n`",
        ),
    ];
    let instance = |number| proto::instance_batch::Instance { number, values: vec!["7".to_owned()] };
    let batch = proto::InstanceBatch {
        service: "fit".to_owned(),
        script: None,
        arguments: Default::default(),
        varied: vec!["x".to_owned()],
        instances: vec![instance(1), instance(2)],
        inputs_key: vec![9; 16],
    };
    let what = Some(submit_request::What::Batch(batch));
    let request = proto::SubmitRequest { what, ..submit(script()) };
    for (damage, field, expected, found) in cases {
        let damage = |request: &mut proto::SubmitRequest| match &mut request.what {
            Some(submit_request::What::Batch(batch)) => damage(batch),
            other => panic!("a batch, not {other:?}"),
        };
        check::<_, Submission>(request.clone(), damage, field, expected, found);
    }
}

fn typed_call() -> proto::TypedCall {
    proto::TypedCall { service: "f".into(), ..Default::default() }
}

#[test]
fn submissions() {
    type Damage = fn(&mut proto::SubmitRequest);
    fn of_script(request: &mut proto::SubmitRequest) -> &mut proto::Script {
        match &mut request.what {
            Some(submit_request::What::Script(script)) => script,
            other => panic!("a script, not {other:?}"),
        }
    }
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|request| request.key = vec![0; 15], "key", KEY, "15 bytes"),
        (|request| request.what = None, "", "service, script, batch or call", NOTHING),
        (
            |request| {
                let call = proto::TypedCall { values: vec![0; (256 << 10) + 1], ..typed_call() };
                request.what = Some(submit_request::What::Call(call));
            },
            "call.values",
            "at most 262144 bytes",
            "262145 bytes",
        ),
        (
            |request| {
                let call = proto::TypedCall { service: String::new(), ..typed_call() };
                request.what = Some(submit_request::What::Call(call));
            },
            "call.service",
            "the name of a service",
            EMPTY,
        ),
        (|request| of_script(request).name.clear(), "script.name", "the name of a script", EMPTY),
        (|request| of_script(request).text.clear(), "script.text", FIRST_LINE, EMPTY),
        (
            |request| of_script(request).text = b"\x7fELF\n".to_vec(),
            "script.text",
            FIRST_LINE,
            "`\\u{7f}ELF`",
        ),
        (
            |request| of_script(request).text = vec![b'#'; (1 << 20) + 1],
            "script.text",
            "at most 1048576 bytes",
            "1048577 bytes",
        ),
        (|request| of_script(request).work = None, "script.work", "the work", NOTHING),
        (
            |request| of_script(request).work.as_mut().unwrap().speedup = Some(amdahl(-0.5, 1)),
            "script.work.speedup.amdahl.parallel",
            "a fraction from 0 to 1",
            "-0.5",
        ),
        (
            |request| of_script(request).arguments.push("a\rb".into()),
            "script.arguments[1]",
            PRINTABLE,
            "`a\\rb`",
        ),
        (
            |request| of_script(request).arguments = vec![String::new(); 101],
            "script.arguments",
            "at most 100 items",
            "101",
        ),
        (
            |request| _ = of_script(request).environment.insert("LD_PRELOAD".into(), "x.so".into()),
            "script.environment",
            VARIABLE_NAME,
            "`LD_PRELOAD`",
        ),
        (
            |request| _ = of_script(request).environment.insert("A".into(), "a\nb".into()),
            "script.environment[A]",
            PRINTABLE,
            "`a\\nb`",
        ),
        (|request| request.latest = Some(i64::MIN), "latest", TIME, "-9223372036854775808"),
        (|request| request.inputs = vec![file("a"); 10_001], "inputs", "at most 10000 items", "10001"),
        (|request| request.inputs.push(file("../a")), "inputs[1].name", NO_DOTS, "`../a`"),
        (
            |request| request.inputs[0].sha256.clear(),
            "inputs[0].sha256",
            "a SHA-256 checksum of 32 bytes",
            "0 bytes",
        ),
        (
            |request| request.compared = vec![request.compared[0].clone(); 65],
            "compared",
            "at most 64 items",
            "65",
        ),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, Submission>(submit(script()), damage, field, expected, found);
    }
}

#[test]
fn answers_to_submissions() {
    let refused =
        proto::Refused { word: "stale".into(), why: "later".into(), now: Some(estimate()), cause: 6 };
    check::<_, SubmissionRefusal>(refused.clone(), |refused| refused.now = None, "now", AN_ESTIMATE, NOTHING);
    check::<_, SubmissionRefusal>(
        refused,
        |refused| refused.word.clear(),
        "word",
        "a word like `too-large`",
        EMPTY,
    );
    let accepted = proto::SubmitReply { answer: Some(proto::submit_reply::Answer::Accepted(job())) };
    check::<_, SubmitAnswer>(
        accepted.clone(),
        |reply| reply.answer = None,
        "",
        "accepted or refused",
        NOTHING,
    );
    let ownerless = proto::Job { owner: String::new(), ..job() };
    let damage = |reply: &mut proto::SubmitReply| {
        reply.answer = Some(proto::submit_reply::Answer::Accepted(ownerless));
    };
    check::<_, SubmitAnswer>(accepted, damage, "accepted.owner", USER, EMPTY);
}

#[test]
fn explanations() {
    type Damage = fn(&mut proto::explain_reply::Wait);
    let release = proto::explain_reply::Release { handle: String::new(), end: 5, procs: 2 };
    let wait = proto::explain_reply::Wait {
        ahead: 1,
        plan: Some(estimate()),
        free: 0,
        until: vec![release],
        siblings: Vec::new(),
        priority: None,
        operator_priority: 5,
        shortages: Vec::new(),
    };
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|wait| wait.plan = None, "waits.plan", AN_ESTIMATE, NOTHING),
        (
            |wait| wait.shortages = vec![proto::explain_reply::Shortage::default(); 1_001],
            "waits.shortages",
            "at most 1000 items",
            "1001",
        ),
        (|wait| wait.until[0].procs = 0, "waits.until[0].procs", PROCS, "0"),
        (|wait| wait.until[0].end = i64::MAX, "waits.until[0].end", TIME, "9223372036854775807"),
        (|wait| wait.until[0].handle = "x".into(), "waits.until[0].handle", HANDLE, "`x`"),
        (
            |wait| wait.until = vec![wait.until[0].clone(); 10_001],
            "waits.until",
            "at most 10000 items",
            "10001",
        ),
    ];
    for (damage, field, expected, found) in cases {
        let reply =
            proto::ExplainReply { job: Some(job()), at: 1, waits: Some(wait.clone()), unplanned: None };
        let within = |reply: &mut proto::ExplainReply| damage(reply.waits.as_mut().unwrap());
        check::<_, Explanation>(reply, within, field, expected, found);
    }
}

#[test]
fn files() {
    let begin = upload_request::Begin { key: vec![1; 16], file: Some(file("a")), claim: None };
    let upload = |message| proto::UploadRequest { message };
    let begins = |begin| upload(Some(upload_request::Message::Begin(begin)));
    let data = |size| upload(Some(upload_request::Message::Data(vec![0; size])));
    let cases = [
        (upload(None), "", "begin or data", NOTHING),
        (begins(upload_request::Begin { key: vec![], ..begin.clone() }), "begin.key", KEY, "0 bytes"),
        (begins(upload_request::Begin { file: None, ..begin.clone() }), "begin.file", "a file", NOTHING),
        (
            begins(upload_request::Begin { file: Some(file("/etc/passwd")), ..begin.clone() }),
            "begin.file.name",
            "a file name relative to the job's folder, without a leading `/`",
            "`/etc/passwd`",
        ),
        (data((1 << 20) + 1), "data", "at most 1048576 bytes", "1048577 bytes"),
    ];
    for (damaged, field, expected, found) in cases {
        check::<_, Upload>(data(1 << 20), |message| *message = damaged, field, expected, found);
    }
    let reply = proto::UploadReply { message: Some(proto::upload_reply::Message::Complete(true)) };
    let incomplete = Some(proto::upload_reply::Message::Complete(false));
    check::<_, UploadAnswer>(reply, |reply| reply.message = incomplete, "complete", "true", "false");

    let download = |which| proto::DownloadRequest {
        handle: "lyon.1".into(),
        which,
        offset: 0,
        follow: false,
        run: None,
    };
    let result = |name: &str| download(Some(download_request::Which::Result(name.to_owned())));
    let cases = [
        (download(None), "", "result or stream", NOTHING),
        (download(Some(download_request::Which::Stream(0))), "stream", "1 (stdout) or 2 (stderr)", "0"),
        (result("work/../secret"), "result", NO_DOTS, "`work/../secret`"),
    ];
    for (damaged, field, expected, found) in cases {
        check::<_, Download>(result("work/out.txt"), |message| *message = damaged, field, expected, found);
    }
    let result = proto::ResultFile { name: "work/../../x".into(), size: 1, sha256: vec![0; 32] };
    let reply = || proto::ResultsReply::default();
    let error = JobResults::try_from(proto::ResultsReply { files: vec![result], ..reply() }).unwrap_err();
    assert_eq!((error.field.as_str(), error.expected.as_str()), ("files[0].name", NO_DOTS));
    let left = proto::LeftOut { name: "a\u{1b}[2J".into(), word: "name".into(), why: String::new() };
    let one = proto::ResultsReply { left_out: vec![left.clone()], ..reply() };
    let error = JobResults::try_from(one).unwrap_err();
    assert_eq!((error.field.as_str(), error.expected.as_str()), ("left_out[0].name", PRINTABLE));
    let many = proto::ResultsReply { left_out: vec![left; bounds::LEFT_OUT_MAX + 1], ..reply() };
    assert_eq!(JobResults::try_from(many).unwrap_err().field, "left_out");
}

#[test]
fn listings() {
    type Damage = fn(&mut proto::JobsRequest);
    fn position(submitted: i64) -> proto::JobPosition {
        proto::JobPosition { submitted, server: "lyon".into(), number: 1 }
    }
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|query| query.owner = "a b".into(), "owner", USER, "`a b`"),
        (|query| query.server = "a b".into(), "server", NAME, "`a b`"),
        (|query| query.states = vec![1, 99], "states[1]", STATE, "99"),
        (|query| query.states = vec![1; 7], "states", "at most 6 items", "7"),
        (|query| query.limit = 1001, "limit", "a number of jobs from 1 to 1000", "1001"),
        (|query| query.before = Some(position(1 << 50)), "before.submitted", TIME, "1125899906842624"),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, JobsQuery>(proto::JobsRequest::default(), damage, field, expected, found);
    }
    let page = proto::JobsReply { jobs: vec![job()], next: Some(position(7)), ..Default::default() };
    check::<_, JobsPage>(
        page.clone(),
        |page| page.next = Some(position(-1 << 50)),
        "next.submitted",
        TIME,
        "-1125899906842624",
    );
    check::<_, JobsPage>(page.clone(), |page| page.jobs[0].state = -1, "jobs[0].state", STATE, "-1");
    check::<_, JobsPage>(page, |page| page.jobs = vec![job(); 1001], "jobs", "at most 1000 items", "1001");
    let located = proto::FindJobReply { job: Some(job()), address: String::new(), attached: false };
    check::<_, LocatedJob>(located, |located| located.job = None, "job", "a job", NOTHING);
    let query = AccuracyQuery::try_from(proto::AccuracyRequest { last: u32::MAX, days: 0 }).unwrap_err();
    assert_eq!(query.to_string(), "last: expected a number of jobs from 1 to 10000, found 4294967295");
    let query = AccuracyQuery::try_from(proto::AccuracyRequest { last: 0, days: 61 }).unwrap_err();
    assert_eq!(query.to_string(), "days: expected a number of days from 0 to 60, found 61");
    let short =
        proto::ServerAccuracy { server: "lyon".into(), start_error_s: vec![1, 2], ..Default::default() };
    let short = accuracies(proto::AccuracyReply { servers: vec![short] }).unwrap_err();
    assert_eq!(short.to_string(), "servers[0].start_error_s: expected 5 quantiles or none, found 2");
    assert_eq!(
        handle_of("lyon").unwrap_err().to_string(),
        "handle: expected a job ID like `lyon.17`, found `lyon`"
    );
}

#[test]
fn offers() {
    let service = proto::ServiceDescription { name: "pi".into(), ..Default::default() };
    let offer = proto::ServicesReply { services: vec![service.clone()], scripts: true, hidden: 0 };
    let many = vec![service; bounds::SERVICES_MAX + 1];
    check::<_, Offer>(offer.clone(), |offer| offer.services = many, "services", "at most 1000 items", "1001");
    let nameless = |offer: &mut proto::ServicesReply| {
        offer.services[0].arguments.push(proto::service_description::Argument::default());
    };
    let field = "services[0].arguments[0].name";
    check::<_, Offer>(offer.clone(), nameless, field, AN_ARGUMENT, EMPTY);
    let lined = |offer: &mut proto::ServicesReply| offer.services[0].resources = "4G\n".to_owned();
    check::<_, Offer>(offer, lined, "services[0].resources", PRINTABLE, "`4G\\n`");
}
