//! Messages about jobs and servers that do not say what they should, each with the field and the message of its
//! error.

use pliant_control::access::Caller;
use pliant_control::agent::{DiscoveryResult, DiscoverySubject};
use pliant_control::estimation_vector::EstimationVector;
use pliant_control::job::JobRecord;
use pliant_control::server_info::ServerInfo;
use proptest::prelude::*;
use tonic::{Code, Status};

use super::super::proto::{self, down, speedup, up};
use super::super::{Federation, FromChild, FromParent, asked, bounds, handle_of};
use super::samples::{
    A_SERVICE, ADDRESS, AN_ARGUMENT, AN_ESTIMATE, EMPTY, HANDLE, KEY, NAME, NOTHING, PRINTABLE, PROCS, STATE,
    TIME, USER, WALLTIME, amdahl, call, check, estimate, gpu_table, job, question, server_info, table,
    vector, work,
};

#[test]
fn jobs() {
    type Damage = fn(&mut proto::Job);
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|job| job.handle.clear(), "handle", HANDLE, EMPTY),
        (|job| job.handle = "lyon.017".into(), "handle", HANDLE, "`lyon.017`"),
        (|job| job.key.clear(), "key", KEY, "0 bytes"),
        (|job| job.key.push(0), "key", KEY, "17 bytes"),
        (|job| job.owner = "$(id)".into(), "owner", USER, "`$(id)`"),
        (|job| job.name = "a\u{1b}[31m".into(), "name", PRINTABLE, "`a\\u{1b}[31m`"),
        (|job| job.name = "x".repeat(129), "name", "at most 128 bytes", "129 bytes"),
        (|job| job.work = None, "work", "the work", NOTHING),
        (|job| job.work.as_mut().unwrap().procs = 0, "work.procs", PROCS, "0"),
        (|job| job.work.as_mut().unwrap().procs = 10_000_001, "work.procs", PROCS, "10000001"),
        (|job| job.work.as_mut().unwrap().walltime_s = 0, "work.walltime_s", WALLTIME, "0"),
        (|job| job.work.as_mut().unwrap().walltime_s = 315_360_001, "work.walltime_s", WALLTIME, "315360001"),
        (|job| job.state = 0, "state", STATE, "0"),
        (|job| job.state = 7, "state", STATE, "7"),
        (|job| job.submitted = i64::MAX, "submitted", TIME, "9223372036854775807"),
        (|job| job.expected = None, "expected", AN_ESTIMATE, NOTHING),
        (
            |job| job.expected.as_mut().unwrap().start = i64::MIN,
            "expected.start",
            TIME,
            "-9223372036854775808",
        ),
        (
            |job| job.expected.as_mut().unwrap().walltime_s = -1,
            "expected.walltime_s",
            "a walltime in seconds from 1 to 1099511627776",
            "-1",
        ),
        (|job| job.procs = 0, "procs", PROCS, "0"),
        (|job| job.started = Some(1 << 41), "started", TIME, "2199023255552"),
        (|job| job.ended = Some(-(1 << 41)), "ended", TIME, "-2199023255552"),
        (
            |job| job.exit = Some(proto::Exit { how: None }),
            "exit",
            "code, signal, over_walltime, over_limit, cancelled, not_started or lost",
            NOTHING,
        ),
        (
            |job| job.exit = Some(proto::Exit { how: Some(proto::exit::How::Cancelled(false)) }),
            "exit.cancelled",
            "true",
            "false",
        ),
        (
            |job| job.exit = Some(proto::Exit { how: Some(proto::exit::How::Lost("a\nb".into())) }),
            "exit.lost",
            PRINTABLE,
            "`a\\nb`",
        ),
        (
            |job| job.compared = vec![proto::ComparedEstimate::default(); 65],
            "compared",
            "at most 64 items",
            "65",
        ),
        (
            |job| {
                let good = proto::ComparedEstimate { server: "lyon".into(), estimate: Some(estimate()) };
                job.compared = vec![good.clone(), proto::ComparedEstimate { estimate: None, ..good }];
            },
            "compared[1].estimate",
            AN_ESTIMATE,
            NOTHING,
        ),
        (
            |job| {
                let passed = vec![proto::discovery_summary::Passed::default(); 65];
                job.discovery =
                    Some(proto::DiscoverySummary { passed, ..proto::DiscoverySummary::default() });
            },
            "discovery.passed",
            "at most 64 items",
            "65",
        ),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, JobRecord>(job(), damage, field, expected, found);
    }
}

#[test]
fn speedups() {
    const POINTS: &str = "increasing numbers of processors and positive times";
    const GPU_POINTS: &str = "points by increasing numbers of processors and then of GPUs, one at least with GPUs, with positive times";
    const DOWNEY: &str = "an average parallelism of at least 1 and a sigma of at least 0";
    let downey = |average_parallelism, sigma| proto::Speedup {
        model: Some(speedup::Model::Downey(speedup::Downey { average_parallelism, sigma })),
    };
    let many: Vec<(u32, f64)> = (1..=4097).map(|procs| (procs, 1.0)).collect();
    let many_with_gpus: Vec<(u32, u32, f64)> = (1..=4097).map(|procs| (procs, 1, 1.0)).collect();
    let cases = [
        (proto::Speedup { model: None }, "", "rigid, amdahl, folding, downey, table or gpu_table", NOTHING),
        (amdahl(1.5, 8), ".amdahl.parallel", "a fraction from 0 to 1", "1.5"),
        (amdahl(f64::NAN, 8), ".amdahl.parallel", "a fraction from 0 to 1", "NaN"),
        (amdahl(0.5, 0), ".amdahl.limit", "at least 1 processor", "0"),
        (downey(0.5, 1.0), ".downey", DOWNEY, "0.5 and 1"),
        (downey(f64::INFINITY, -1.0), ".downey", DOWNEY, "inf and -1"),
        (table(&[]), ".table.points", POINTS, "no points"),
        (table(&[(1, 2.0), (1, 1.0)]), ".table.points[1]", POINTS, "1 with 1"),
        (table(&[(1, 2.0), (2, f64::NAN)]), ".table.points[1]", POINTS, "2 with NaN"),
        (table(&[(0, 2.0)]), ".table.points[0]", POINTS, "0 with 2"),
        (table(&many), ".table.points", "at most 4096 items", "4097"),
        (gpu_table(&[]), ".gpu_table.points", GPU_POINTS, "others"),
        (gpu_table(&[(1, 0, 2.0), (2, 0, 1.0)]), ".gpu_table.points", GPU_POINTS, "others"),
        (gpu_table(&[(1, 1, 2.0), (1, 1, 1.0)]), ".gpu_table.points", GPU_POINTS, "others"),
        (gpu_table(&[(2, 1, 2.0), (1, 2, 1.0)]), ".gpu_table.points", GPU_POINTS, "others"),
        (gpu_table(&[(0, 1, 2.0)]), ".gpu_table.points", GPU_POINTS, "others"),
        (gpu_table(&[(1, 1, f64::NAN)]), ".gpu_table.points", GPU_POINTS, "others"),
        (gpu_table(&[(1, 1, -1.0)]), ".gpu_table.points", GPU_POINTS, "others"),
        (gpu_table(&many_with_gpus), ".gpu_table.points", "at most 4096 items", "4097"),
    ];
    for (model, field, expected, found) in cases {
        let damage = |down: &mut proto::Down| {
            let work = proto::Work { speedup: Some(model), ..work() };
            of_question(down).what =
                Some(proto::DiscoverySubject { what: Some(proto::discovery_subject::What::Work(work)) });
        };
        let field = format!("question.what.work.speedup{field}");
        check::<_, FromParent>(asks(), damage, &field, expected, found);
    }
}

fn asks() -> proto::Down {
    proto::Down { message: Some(down::Message::Question(question())) }
}

fn of_question(down: &mut proto::Down) -> &mut proto::Question {
    match &mut down.message {
        Some(down::Message::Question(question)) => question,
        other => panic!("a question, not {other:?}"),
    }
}

fn hello() -> proto::Hello {
    proto::Hello { name: "lyon".into(), kind: 1, journal: 1, servers: vec![server_info()], protocol: 1 }
}

fn greets(hello: proto::Hello) -> proto::Up {
    proto::Up { message: Some(up::Message::Hello(hello)) }
}

#[test]
fn questions() {
    type Damage = fn(&mut proto::Question);
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|question| question.what = None, "what", "work or service", NOTHING),
        (
            |question| question.what = Some(proto::DiscoverySubject { what: None }),
            "what",
            "work or service",
            NOTHING,
        ),
        (|question| question.user.clear(), "user", USER, EMPTY),
        (|question| question.best = 65, "best", "a number of answers from 1 to 64", "65"),
        (|question| question.only = "Lyon".into(), "only", NAME, "`Lyon`"),
        (|question| question.timeout_s = -1, "timeout_s", "seconds from 1 to 3600", "-1"),
        (|question| question.timeout_s = 3601, "timeout_s", "seconds from 1 to 3600", "3601"),
    ];
    for (damage, field, expected, found) in cases {
        let field = format!("question.{field}");
        check::<_, FromParent>(asks(), |down| damage(of_question(down)), &field, expected, found);
    }
    let mut odd = asks();
    of_question(&mut odd).request = "request=evil".to_owned();
    let read = FromParent::try_from(odd);
    assert!(
        matches!(read, Ok(FromParent::Question { request: None, .. })),
        "an id is for log lines: {read:?}"
    );
    let caller = Caller { user: "alice".parse().unwrap(), operator: false };
    let request = proto::DiscoverRequest { best: 65, what: question().what, only: String::new() };
    assert_eq!(asked(request, caller, None).unwrap_err().field, "best");
}

#[test]
fn calls_of_services() {
    let long = "x".repeat(4097);
    let cases = [
        (proto::ServiceCall::default(), "service.name", A_SERVICE, EMPTY),
        (call(&[("", "1")]), "service.arguments", AN_ARGUMENT, EMPTY),
        (call(&[("n", "1\n2")]), "service.arguments[n]", PRINTABLE, "`1\\n2`"),
        (call(&[("n\0", "1")]), "service.arguments", PRINTABLE, "`n\\0`"),
        (call(&[("n", &long)]), "service.arguments[n]", "at most 4096 bytes", "4097 bytes"),
    ];
    for (damaged, field, expected, found) in cases {
        let message = proto::DiscoverySubject {
            what: Some(proto::discovery_subject::What::Service(call(&[("n", "100")]))),
        };
        let damage = |what: &mut proto::DiscoverySubject| {
            what.what = Some(proto::discovery_subject::What::Service(damaged))
        };
        check::<_, DiscoverySubject>(message, damage, field, expected, found);
    }
    let many = (0..101).map(|number| (number.to_string(), String::new())).collect();
    let many = proto::ServiceCall { name: "pi".to_owned(), arguments: many };
    let many = DiscoverySubject::try_from(proto::DiscoverySubject {
        what: Some(proto::discovery_subject::What::Service(many)),
    })
    .unwrap_err();
    assert_eq!(many.to_string(), "service.arguments: expected at most 100 items, found 101");
}

#[test]
fn vectors_and_answers() {
    type Damage = fn(&mut proto::EstimationVector);
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|vector| vector.server = "a/b".into(), "server", NAME, "`a/b`"),
        (|vector| vector.address.clear(), "address", ADDRESS, EMPTY),
        (|vector| vector.address = "lyon".into(), "address", ADDRESS, "`lyon`"),
        (|vector| vector.address = ":7450".into(), "address", ADDRESS, "`:7450`"),
        (|vector| vector.address = "lyon:+7".into(), "address", ADDRESS, "`lyon:+7`"),
        (|vector| vector.address = "lyon:70000".into(), "address", ADDRESS, "`lyon:70000`"),
        (|vector| vector.address = "me@lyon/x:7".into(), "address", ADDRESS, "`me@lyon/x:7`"),
        (|vector| vector.estimate = None, "estimate", AN_ESTIMATE, NOTHING),
        (|vector| vector.speed = 0.0, "speed", "a speed from 0.001 to 1000", "0"),
        (|vector| vector.speed = f64::NAN, "speed", "a speed from 0.001 to 1000", "NaN"),
        (|vector| vector.procs = 0, "procs", PROCS, "0"),
        (|vector| vector.free = u32::MAX, "free", "a number of processors from 0 to 10000000", "4294967295"),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, EstimationVector>(vector(), damage, field, expected, found);
        let message =
            proto::DiscoveryResult { vectors: vec![vector(), vector()], ..proto::DiscoveryResult::default() };
        let within = |found: &mut proto::DiscoveryResult| damage(&mut found.vectors[1]);
        check::<_, DiscoveryResult>(message, within, &format!("vectors[1].{field}"), expected, found);
    }
    let refusal =
        |server: &str, why: &str| proto::Refusal { server: server.to_owned(), why: why.to_owned(), cause: 0 };
    let none = proto::DiscoveryResult::default;
    let many = |found: &mut proto::DiscoveryResult| found.vectors = vec![vector(); 1025];
    check::<_, DiscoveryResult>(none(), many, "vectors", "at most 1024 items", "1025");
    let many = |found: &mut proto::DiscoveryResult| found.silent = vec![String::new(); 100_001];
    check::<_, DiscoveryResult>(none(), many, "silent", "at most 100000 items", "100001");
    let nameless = |found: &mut proto::DiscoveryResult| found.silent = vec!["lyon".into(), String::new()];
    check::<_, DiscoveryResult>(none(), nameless, "silent[1]", NAME, EMPTY);
    let nameless = |found: &mut proto::DiscoveryResult| found.refusals = vec![refusal("", "too busy")];
    check::<_, DiscoveryResult>(none(), nameless, "refusals[0].server", NAME, EMPTY);
    let long = |found: &mut proto::DiscoveryResult| found.refusals = vec![refusal("lyon", &"x".repeat(1025))];
    check::<_, DiscoveryResult>(none(), long, "refusals[0].why", "at most 1024 bytes", "1025 bytes");
}

#[test]
fn servers() {
    type Damage = fn(&mut proto::ServerInfo);
    let cases: &[(Damage, &str, &str, &str)] = &[
        (|info| info.name.clear(), "name", NAME, EMPTY),
        (|info| info.speed = 1e9, "speed", "a speed from 0.001 to 1000", "1000000000"),
        (|info| info.procs = u32::MAX, "procs", "a number of processors from 0 to 10000000", "4294967295"),
        (|info| info.policy = "c\u{202e}bf".into(), "policy", PRINTABLE, "`c\\u{202e}bf`"),
        (
            |info| info.services = vec![proto::ServiceInfo::default(); 1001],
            "services",
            "at most 1000 items",
            "1001",
        ),
        (|info| info.services = vec![proto::ServiceInfo::default()], "services[0].name", A_SERVICE, EMPTY),
    ];
    for (damage, field, expected, found) in cases {
        check::<_, ServerInfo>(server_info(), damage, field, expected, found);
        let mut broken = server_info();
        damage(&mut broken);
        let message =
            proto::Up { message: Some(up::Message::Servers(proto::Servers { servers: vec![broken] })) };
        let field = format!("servers.servers[0].{field}");
        check::<_, FromChild>(greets(hello()), |up| *up = message, &field, expected, found);
    }
    let status = proto::ServerStatus { info: Some(server_info()), via: "lyon".into(), ..Default::default() };
    let all = proto::ServersReply { servers: vec![status], ..proto::ServersReply::default() };
    check::<_, Federation>(all.clone(), |all| all.servers[0].via.clear(), "servers[0].via", NAME, EMPTY);
    check::<_, Federation>(all, |all| all.servers[0].info = None, "servers[0].info", "a server", NOTHING);
}

#[test]
fn messages_of_children() {
    let answer = |found| up::Message::Answer(proto::Answer { discovery: 1, found });
    let update = |job| up::Message::StatusUpdate(proto::StatusUpdate { sequence: 1, job });
    let nameless =
        proto::DiscoveryResult { silent: vec![String::new()], ..proto::DiscoveryResult::default() };
    let many = vec![server_info(); bounds::SERVERS_MAX + 1];
    let cases = [
        (
            up::Message::Hello(proto::Hello { protocol: 2, ..hello() }),
            "hello.protocol",
            "version 1 of the protocol",
            "2",
        ),
        (
            up::Message::Hello(proto::Hello { kind: 0, ..hello() }),
            "hello.kind",
            "1 (server) or 2 (agent)",
            "0",
        ),
        (up::Message::Hello(proto::Hello { name: "a.b".into(), ..hello() }), "hello.name", NAME, "`a.b`"),
        (
            up::Message::Hello(proto::Hello { servers: many, ..hello() }),
            "hello.servers",
            "at most 100000 items",
            "100001",
        ),
        (answer(None), "answer.found", "what was found", NOTHING),
        (answer(Some(nameless)), "answer.found.silent[0]", NAME, EMPTY),
        (update(None), "status_update.job", "a job", NOTHING),
        (update(Some(proto::Job { procs: 0, ..job() })), "status_update.job.procs", PROCS, "0"),
        (
            up::Message::Heartbeat(proto::Heartbeat { now: Some(i64::MAX), ..Default::default() }),
            "heartbeat.now",
            TIME,
            "9223372036854775807",
        ),
        (
            up::Message::Unnumbered(proto::Unnumbered { server: "a.b".into() }),
            "unnumbered.server",
            NAME,
            "`a.b`",
        ),
        (
            up::Message::Restored(proto::Restored { jobs: vec!["lyon.1".into(); 65], later_than: None }),
            "restored.jobs",
            "at most 64 items",
            "65",
        ),
    ];
    for (message, field, expected, found) in cases {
        check::<_, FromChild>(greets(hello()), |up| up.message = Some(message), field, expected, found);
    }
}

#[test]
fn a_malformed_message_is_an_invalid_argument_with_its_field() {
    let malformed =
        DiscoverySubject::try_from(proto::DiscoverySubject { what: None }).unwrap_err().under("what");
    let status = Status::from(malformed);
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "what: expected work or service, found nothing");
}

proptest! {
    #[test]
    fn what_was_found_is_shown_escaped_and_cut(text in ".{0,300}\n.{0,300}") {
        let malformed = handle_of(&text).unwrap_err();
        prop_assert!(!malformed.found.contains(char::is_control), "{malformed}");
        // An escaped character is at most ten long.
        prop_assert!(malformed.found.chars().count() <= 80 * 10 + 5, "{malformed}");
    }
}
