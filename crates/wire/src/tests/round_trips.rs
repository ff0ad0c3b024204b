//! Values go over the wire and come back the same, or as near to it as the protocol allows.

use std::sync::Arc;

use pliant_control::access::Caller;
use pliant_control::agent::DiscoveryQuery;
use pliant_control::names::Name;
use pliant_control::reason::{Cause, Reason};
use pliant_control::server::AdmissionRefusal;
use pliant_model::{Procs, Span, Time};
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use prost::Message;

use super::super::field::{FieldType, NAME, USER, is_unprintable, seconds, shortened};
use super::{drawn, received, sent};
use crate::any_bytes::*;

macro_rules! come_back_the_same {
    ($($test:ident: $type:ty;)*) => {
        proptest! {$(
            #[test]
            fn $test(value in drawn::<$type>()) {
                prop_assert_eq!(received::<<$type as HasMessage>::Message, _>(&value), Ok(value));
            }
        )*}
    };
}

for_each_message!(come_back_the_same);

/// Questions of agents are not accepted from clients.
#[test]
fn clients_give_no_orders_and_see_no_queues() {
    let order = one(drawn::<MoveProposal>());
    for what in [DiscoverySubject::Snapshots, DiscoverySubject::Move(Box::new(order))] {
        let caller = Caller { user: "root".parse().unwrap(), operator: true };
        let refused = asked(discover(&what, 1, None), caller, None).unwrap_err();
        assert!(refused.to_string().contains("only agents"), "{refused}");
        assert_eq!(received::<proto::DiscoverySubject, _>(&what), Ok(what));
    }
}

proptest! {
    #[test]
    fn questions_of_clients_get_their_caller_from_outside(ask in asks()) {
        let message = sent(&discover(&ask.subject, ask.best, ask.only.as_ref()));
        prop_assert_eq!(asked(message, ask.caller.clone(), ask.timeout), Ok(ask));
    }

    #[test]
    fn answers_to_launches(
        record in drawn::<LaunchRecord>(),
        why in "[ -~]{0,20}",
        machines in prop::collection::vec(drawn::<Machine>(), 0..4),
    ) {
        for answer in [Ok(record.clone()), Err(why)] {
            prop_assert_eq!(launch_answer(sent(&launch_reply(&answer))), Ok(answer));
        }
        prop_assert_eq!(listed_machines(sent(&machines_reply(&machines))), Ok(machines));
    }

    #[test]
    fn refusals_keep_their_word_and_reason(refused in refusals()) {
        let declined = SubmissionRefusal::from(&refused);
        prop_assert_eq!(received::<proto::Refused, _>(&declined), Ok(declined.clone()));
        prop_assert_eq!(&declined.word, refused.word());
        prop_assert_eq!(declined.to_string(), refused.to_string());
        prop_assert_eq!(declined.is_stale(), refused.word() == "stale");
    }

    #[test]
    fn lists(servers in prop::collection::vec(drawn::<Accuracy>(), 0..4)) {
        prop_assert_eq!(accuracies(sent(&accuracy_reply(&servers))), Ok(servers));
    }

    #[test]
    fn a_job_with_any_numbers_and_texts_is_understood(
        record in drawn::<JobRecord>(),
        numbers: (u32, i64, i64, i64),
        text in any::<String>(),
    ) {
        let (count, span, start, ended) = numbers;
        let estimate = Estimate { procs: Procs(count), walltime: Span(span), start: Time(start) };
        let record = JobRecord {
            work: Work { procs: Procs(count), walltime: Span(span), ..record.work.clone() },
            name: text.clone(),
            submitted: Time(start),
            expected: estimate,
            procs: Procs(count),
            walltime: Span(span),
            started: Some(Time(start)),
            ended: Some(Time(ended)),
            exit: Some(Exit::Lost(text.repeat(100))),
            requeues: 1,
            compared: vec![ComparedEstimate { server: record.handle.server.clone(), estimate }; 100],
            ..record
        };
        let read = received::<proto::Job, _>(&record);
        prop_assert!(read.is_ok(), "{read:?}");
        let read = read.unwrap();
        prop_assert_eq!(&read.handle, &record.handle);
        prop_assert_eq!(read.compared.len(), bounds::COMPARED_MAX);
        // Once within bounds, nothing changes any more.
        prop_assert_eq!(received::<proto::Job, _>(&read), Ok(read));
    }

    #[test]
    fn written_texts_are_short_and_printable(text in any::<String>(), most in 3..40usize) {
        let written = shortened(&text, most);
        prop_assert!(written.len() <= most, "{written:?}");
        prop_assert!(!written.contains(char::is_control), "{written:?}");
        if text.len() <= most && !text.contains(is_unprintable) {
            prop_assert_eq!(written, text);
        }
    }
}

/// What clients ask.
fn asks() -> impl Strategy<Value = DiscoveryQuery> {
    let what = drawn::<DiscoverySubject>().prop_filter("agents ask it", |what| {
        matches!(what, DiscoverySubject::Work(_) | DiscoverySubject::Service { .. })
    });
    let timeout = option::of(seconds(bounds::TIMEOUT_S).strategy());
    let drawn = (what, USER.strategy(), any::<bool>(), bounds::BEST, option::of(NAME.strategy()), timeout);
    drawn.prop_map(|(what, user, operator, best, only, timeout)| {
        let caller = Caller { user, operator };
        DiscoveryQuery { subject: what, caller, best, only, timeout, latest: None }
    })
}

/// Why servers refuse.
fn refusals() -> impl Strategy<Value = AdmissionRefusal> {
    let procs = || bounds::PROCS.prop_map(Procs);
    let span = || any::<u32>().prop_map(|span| Span(span.into()));
    // A stale one has its estimate.
    let others = drawn::<(Name, Reason)>().prop_filter("not stale", |(_, why)| why.cause != Cause::Stale);
    prop_oneof![
        drawn::<Estimate>().prop_map(|now| AdmissionRefusal::Stale { now }),
        (procs(), procs()).prop_map(|(needed, available)| AdmissionRefusal::TooLarge { needed, available }),
        (span(), span()).prop_map(|(walltime, most)| AdmissionRefusal::TooLong { walltime, most }),
        any::<u32>().prop_map(|limit| AdmissionRefusal::TooMany { limit }),
        any::<(u64, u64)>().prop_map(|(needed, limit)| AdmissionRefusal::TooManyBytes { needed, limit }),
        any::<(u64, u64)>().prop_map(|(needed, limit)| AdmissionRefusal::QueueFull { needed, limit }),
        Just(AdmissionRefusal::KeyTaken),
        Just(AdmissionRefusal::NoNumbersLeft),
        others.prop_map(|(_, why)| AdmissionRefusal::Other(why)),
    ]
}

/// One value of a strategy.
fn one<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> T {
    strategy.new_tree(&mut TestRunner::deterministic()).unwrap().current()
}

#[test]
fn a_message_of_a_later_version_is_a_sign_of_life() {
    assert_eq!(
        FromChild::try_from(proto::Up { message: None }),
        Ok(FromChild::Heartbeat {
            now: None,
            free: Vec::new(),
            certificate: None,
            certificates: Vec::new(),
            drained: Vec::new()
        })
    );
    assert_eq!(FromParent::try_from(proto::Down { message: None }), Ok(FromParent::Heartbeat));
    // A field that this version does not know: number 99, a varint.
    let unknown = [0x98, 0x06, 0x01];
    assert_eq!(proto::Up::decode(&unknown[..]), Ok(proto::Up { message: None }));
}

#[test]
fn the_handle_of_a_question_about_a_job_comes_back() {
    let handle = "lyon.17".parse().unwrap();
    assert_eq!(handle_of(&sent(&job_request(&handle)).handle), Ok(handle));
}

#[test]
fn walltimes_that_saturate_become_the_longest_of_the_protocol() {
    let endless = Estimate { procs: Procs(1), walltime: Span::MAX, start: Time::MAX };
    let read = received::<proto::Estimate, _>(&endless).unwrap();
    assert_eq!((read.walltime, read.start), (Span(1 << 40), Time(1 << 40)));
    assert_eq!(read.completion(), Time(1 << 41), "far from the limits of integers");
}

#[test]
fn long_lists_keep_what_matters_most() {
    let vector = |rank| EstimationVector { rank, ..one(drawn::<EstimationVector>()) };
    let many = DiscoveryResult { vectors: (0..2000).map(vector).collect(), ..DiscoveryResult::default() };
    let read = received::<proto::DiscoveryResult, _>(&many).unwrap();
    assert_eq!(read.vectors, many.vectors[..bounds::VECTORS_MAX], "the best ones");

    let mut waits = one(drawn::<Explanation>().prop_filter("waits", |explanation| {
        explanation.waits.as_ref().is_some_and(|wait| !wait.until.is_empty())
    }));
    let until = &mut waits.waits.as_mut().unwrap().until;
    let release = until[0].clone();
    until.resize(bounds::RELEASES_MAX + 1, release);
    until.last_mut().unwrap().end = Time(4711);
    let read: Explanation = received::<proto::ExplainReply, _>(&waits).unwrap();
    let read = read.waits.unwrap().until;
    assert_eq!((read.len(), read.last().unwrap().end), (bounds::RELEASES_MAX, Time(4711)), "the last ones");

    let table: Arc<[(Procs, f64)]> = (1..=9000).map(|procs| (Procs(procs), 1.0)).collect();
    let Ok(Speedup::Table(read)) = received::<proto::Speedup, _>(&Speedup::Table(table.clone())) else {
        panic!("a long table is read as a table");
    };
    assert_eq!(read[..], table[..bounds::POINTS_MAX]);
}

#[test]
fn a_server_of_another_version_is_understood_by_its_word() {
    let refused = |word: &str, cause| {
        let now = Some((&one(drawn::<Estimate>())).into());
        let message = proto::Refused { word: word.to_owned(), why: "why".to_owned(), now, cause };
        SubmissionRefusal::try_from(message).unwrap().cause
    };
    assert_eq!(refused("too-many", 0), Cause::TooMany, "an earlier one says no cause");
    assert_eq!(refused("eclipse", 0), Cause::Unknown);
    assert_eq!(refused("eclipse", 99), Cause::Unknown, "a later one has more of them");
    assert_eq!(refused("eclipse", 5), Cause::TooMany);
}

#[test]
fn missing_values_have_defaults() {
    let query =
        |last| AccuracyQuery::try_from(proto::AccuracyRequest { last, days: 0 }).map(|query| query.last);
    assert_eq!((query(0), query(7)), (Ok(bounds::ACCURACY_JOBS_DEFAULT), Ok(7)));
    let query = JobsQuery::try_from(proto::JobsRequest::default()).unwrap();
    assert_eq!((query.limit, query.owner, query.server), (bounds::JOBS_DEFAULT, None, None));
    let ask = one(asks());
    let request = proto::DiscoverRequest { best: 0, ..discover(&ask.subject, 1, None) };
    assert_eq!(asked(request, ask.caller, None).unwrap().best, 1);
    let nothing = Accuracy { start_error: None, completion_error: None, ..one(drawn::<Accuracy>()) };
    assert_eq!(proto::ServerAccuracy::from(&nothing).start_error_s, Vec::<i64>::new());
}

#[test]
fn waiting_jobs_are_moved_by_the_agents_own_policy_alone() {
    let moving = one(drawn::<ReallocationConfig>());
    let request = |dry_run, policy: Option<&ReallocationConfig>| {
        reallocate_request(proto::ReallocateRequest { dry_run, policy: policy.map(Into::into) })
    };
    assert_eq!(request(true, Some(&moving)).unwrap(), (true, Some(moving.policy)));
    assert_eq!(request(true, None).unwrap(), (true, None));
    assert_eq!(request(false, None).unwrap(), (false, None));
    assert_eq!(request(false, Some(&moving)).unwrap_err().field, "policy");
}
