//! Messages about explorations that do not say what they should.

use pliant_control::agent::ExplorationServer;

use super::super::proto::{self, explore_reply, explore_request};
use super::super::{ExplorationReply, ExplorationRequest, OffersQuery, Shares, bounds, offers, offers_reply};
use super::samples::{A_SERVICE_OR_SCRIPT, AN_ARGUMENT, EMPTY, KEY, NAME, NOTHING, USER, check};
use super::sent;

#[test]
fn questions() {
    use explore_request::Message;
    let begin = |exploration: usize, service: &str, deadline| {
        let (exploration, service) = (vec![1; exploration], service.to_owned());
        let (deadline_ms, inputs, shares_every_s) = (deadline, Vec::new(), 5);
        Message::Begin(explore_request::Begin {
            exploration,
            service,
            deadline_ms,
            inputs,
            shares_every_s,
            script: None,
        })
    };
    let with_input = |sha256: usize| {
        let input = proto::InputFile { name: "data".to_owned(), size: 1, sha256: vec![0; sha256] };
        let (exploration, service) = (vec![1; 16], "pi".to_owned());
        let inputs = vec![input];
        Message::Begin(explore_request::Begin { exploration, service, inputs, ..Default::default() })
    };
    let call = |name: &str| {
        let arguments = [(name.to_owned(), "1".to_owned())].into();
        Message::Submit(explore_request::Call { number: 1, optional: true, attempt: 0, arguments })
    };
    let far = "milliseconds since the Unix epoch from -1125899906842624 to 1125899906842624";
    let cases = [
        (None, "", "begin, submit, cancel, cancel_all, expect or withdraw", NOTHING),
        (Some(begin(15, "pi", None)), "begin.exploration", KEY, "15 bytes"),
        (Some(begin(16, "", None)), "begin.service", A_SERVICE_OR_SCRIPT, EMPTY),
        (Some(begin(16, "pi", Some(i64::MAX))), "begin.deadline_ms", far, "9223372036854775807"),
        (Some(with_input(31)), "begin.inputs[0].sha256", "a SHA-256 checksum of 32 bytes", "31 bytes"),
        (Some(call("")), "submit.arguments", AN_ARGUMENT, EMPTY),
    ];
    for (message, field, expected, found) in cases {
        let right = proto::ExploreRequest { message: Some(begin(16, "pi", None)), attempt: 0 };
        check::<_, ExplorationRequest>(right, |asked| asked.message = message, field, expected, found);
    }
}

#[test]
fn answers() {
    use explore_reply::Message;
    let status = |state: i32, length: usize| {
        Message::Status(explore_reply::RequestStatus {
            number: 1,
            attempt: 0,
            state,
            output: vec![0; length],
        })
    };
    let long = bounds::OUTPUT_BYTES_MAX + 1;
    let cases = [
        (None, "", "status, refused, all_cancelled, prospects or shared", NOTHING),
        (Some(status(0, 0)), "status.state", "the state of a request, from 1 to 5", "0"),
        (Some(status(6, 0)), "status.state", "the state of a request, from 1 to 5", "6"),
        (Some(status(3, long)), "status.output", "at most 262144 bytes", "262145 bytes"),
    ];
    for (message, field, expected, found) in cases {
        let right = proto::ExploreReply { message: Some(status(3, 1)), share: None };
        check::<_, ExplorationReply>(right, |reply| reply.message = message, field, expected, found);
    }
}

#[test]
fn shares() {
    let share = proto::UserShare { user: "alice".to_owned(), ..proto::UserShare::default() };
    let right = proto::UsersReply { users: vec![share], cores: 1, at_ms: 1 };
    let never = "milliseconds from 0 to 1125899906842624";
    check::<_, Shares>(
        right.clone(),
        |reply| reply.users[0].fair_share_ms = -1,
        "users[0].fair_share_ms",
        never,
        "-1",
    );
    check::<_, Shares>(right, |reply| reply.users[0].user = "-rf".into(), "users[0].user", USER, "`-rf`");
}

#[test]
fn servers_with_cores() {
    let query =
        proto::OffersRequest { service: "pi".to_owned(), most: 3, exploration: vec![1; 16], scripts: false };
    check::<_, OffersQuery>(
        query,
        |query| query.most = 0,
        "most",
        "a number of servers from 1 to 10000",
        "0",
    );
    let (server, address) = ("lyon".parse().unwrap(), "lyon.example.org:1".to_owned());
    let offering = ExplorationServer { server, address, cores: 4, per_core: 2 };
    let reply = offers_reply(std::slice::from_ref(&offering));
    assert_eq!(offers(sent(&reply)), Ok(vec![offering]));
    let mut wrong = reply;
    wrong.servers[0].server = "Lyon".to_owned();
    assert_eq!(
        offers(wrong).unwrap_err().to_string(),
        format!("servers[0].server: expected {NAME}, found `Lyon`")
    );
}
