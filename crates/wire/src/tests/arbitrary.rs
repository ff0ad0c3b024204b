//! Values of every type that goes over the wire, within the bounds of the protocol.

use pliant_control::explain::{Explanation, Release, Wait};
use pliant_control::job::{Compared, Exit, JobRecord, JobState, SizeChoice, Work};
use pliant_control::names::{Handle, Key, Name, User};
use pliant_control::reason::Cause;
use pliant_control::server::Refused;
use pliant_model::{Estimate, Procs, Span, SpanMs, Speed, Speedup, Time};
use pliant_staging::{Checksum, FileName, FileSpec, ResultName};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::bounds;
use super::super::{
    Accuracy, Declined, Download, Fetchable, JobResults, JobsPage, JobsQuery, LocatedJob, Offer,
    OfferedArgument, OfferedService, Script, Submission, SubmitAnswer, Submitted, Upload, UploadAnswer,
    Withheld,
};

/// Values of a type with fields, each field by a strategy of its own; at most twelve, which is what proptest has tuples for.
macro_rules! of {
    ($($type:ident)::+ { $($field:ident: $strategy:expr),+ $(,)? }) => {
        ($($strategy,)+).prop_map(|($($field,)+)| $($type)::+ { $($field),+ })
    };
}

mod discovery;
mod exploration;
mod history;
mod launch;
mod link;
mod moves;
mod multi_job;
mod runtimes;

pub(super) use discovery::*;
pub(super) use exploration::*;
pub(super) use history::*;
pub(super) use launch::*;
pub(super) use link::*;
pub(super) use moves::*;
pub(super) use multi_job::*;
pub(super) use runtimes::*;

pub(super) fn name() -> impl Strategy<Value = Name> {
    "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?".prop_map(|text| text.parse().unwrap())
}

fn user() -> impl Strategy<Value = User> {
    "[A-Za-z0-9][A-Za-z0-9._@-]{0,20}".prop_map(|text| text.parse().unwrap())
}

fn handle() -> impl Strategy<Value = Handle> {
    (name(), any::<u32>()).prop_map(|(server, number)| Handle { server, number })
}

fn key() -> impl Strategy<Value = Key> {
    any::<[u8; 16]>().prop_map(Key)
}

fn checksum() -> impl Strategy<Value = Checksum> {
    any::<[u8; 32]>().prop_map(Checksum)
}

fn file_name() -> impl Strategy<Value = FileName> {
    "[a-zé][a-z0-9._ -]{0,8}(/[a-z][a-z0-9]{0,8}){0,3}".prop_map(|text| text.parse().unwrap())
}

fn result_name() -> impl Strategy<Value = ResultName> {
    prop_oneof![Just(ResultName::Stdout), Just(ResultName::Stderr), file_name().prop_map(ResultName::File)]
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9.-]{1,30}:[1-9][0-9]{0,3}", Just("[::1]:65535".to_owned())]
}

/// A printable text, perhaps empty.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{0,20}", "[a-zéß文🦀'\"`;$]{0,10}"]
}

/// A name of something ours: a service, a job, an argument.
fn word() -> impl Strategy<Value = String> {
    "[a-z][a-zA-Z0-9 ._é-]{0,20}"
}

fn procs() -> impl Strategy<Value = Procs> {
    prop_oneof![1..100u32, bounds::PROCS].prop_map(Procs)
}

/// Processors, or none.
fn free() -> impl Strategy<Value = Procs> {
    (0..=*bounds::PROCS.end()).prop_map(Procs)
}

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![Just(*bounds::TIME_S.start()), Just(*bounds::TIME_S.end()), bounds::TIME_S].prop_map(Time)
}

fn scaled_walltime() -> impl Strategy<Value = Span> {
    prop_oneof![1..100i64, bounds::SCALED_WALLTIME_S].prop_map(Span)
}

fn speed() -> impl Strategy<Value = Speed> {
    Speed::RANGE.prop_map(|speed| Speed::new(speed).unwrap())
}

pub(super) fn speedup() -> impl Strategy<Value = Speedup> {
    let table = btree_set(1..1000u32, 1..6).prop_flat_map(|sizes| {
        let times = vec(0.001..1e6f64, sizes.len());
        (Just(sizes), times).prop_map(|(sizes, times)| sizes.into_iter().map(Procs).zip(times).collect())
    });
    prop_oneof![
        Just(Speedup::Rigid),
        Just(Speedup::Folding),
        (0.0..=1.0f64, 1..=u32::MAX)
            .prop_map(|(parallel, limit)| Speedup::Amdahl { parallel, limit: Procs(limit) }),
        (1.0..1e6f64, 0.0..1e6f64)
            .prop_map(|(average_parallelism, sigma)| Speedup::Downey { average_parallelism, sigma }),
        table.prop_map(Speedup::Table),
    ]
}

pub(super) fn work() -> impl Strategy<Value = Work> {
    of!(Work { procs: procs(), walltime: bounds::WALLTIME_S.prop_map(Span), speedup: speedup() })
}

pub(super) fn estimate() -> impl Strategy<Value = Estimate> {
    of!(Estimate { procs: procs(), walltime: scaled_walltime(), start: time() })
}

pub(super) fn compared() -> impl Strategy<Value = Compared> {
    of!(Compared { server: name(), estimate: estimate() })
}

pub(super) fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        any::<i32>().prop_map(Exit::Code),
        any::<i32>().prop_map(Exit::Signal),
        Just(Exit::OverWalltime),
        Just(Exit::Cancelled),
        text().prop_map(Exit::NotStarted),
        text().prop_map(Exit::Lost),
    ]
}

fn span_ms() -> impl Strategy<Value = SpanMs> {
    (0..=*bounds::TIME_MS.end()).prop_map(SpanMs)
}

pub(super) fn job() -> impl Strategy<Value = JobRecord> {
    let who = (handle(), key(), user(), text());
    let shape = (work(), estimate(), procs(), scaled_walltime());
    let course =
        (select(&JobState::ALL[..]), time(), option::of(time()), option::of(time()), option::of(exit()));
    let moves = (any::<bool>(), vec(hop(), 0..3), option::of(span_ms()), option::of(span_ms()));
    let choice =
        (estimate(), any::<u32>()).prop_map(|(earliest, other_jobs)| SizeChoice { earliest, other_jobs });
    (who, shape, course, vec(compared(), 0..3), survey(), moves, option::of(choice)).prop_map(
        |(who, shape, course, compared, survey, (pinned, hops, taught, ran), size_choice)| {
            let (handle, key, owner, name) = who;
            let (work, expected, procs, walltime) = shape;
            let (state, submitted, started, ended, exit) = course;
            JobRecord {
                handle,
                key,
                owner,
                name,
                work,
                state,
                submitted,
                expected,
                procs,
                walltime,
                started,
                ended,
                exit,
                compared,
                survey,
                pinned,
                hops,
                taught,
                ran,
                size_choice,
            }
        },
    )
}

pub(super) fn jobs_query() -> impl Strategy<Value = JobsQuery> {
    of!(JobsQuery {
        owner: option::of(user()),
        all: any::<bool>(),
        server: option::of(name()),
        states: vec(select(&JobState::ALL[..]), 0..=6),
        limit: 1..=bounds::JOBS_MAX as u32,
        ended_after: option::of(time()),
    })
}

pub(super) fn jobs_page() -> impl Strategy<Value = JobsPage> {
    of!(JobsPage { jobs: vec(job(), 0..3), more: any::<bool>() })
}

pub(super) fn located_job() -> impl Strategy<Value = LocatedJob> {
    of!(LocatedJob { record: job(), address: option::of(address()), attached: any::<bool>() })
}

pub(super) fn accuracy() -> impl Strategy<Value = Accuracy> {
    let error = || option::of([(); 5].map(|()| bounds::TIME_S.prop_map(Span)));
    of!(Accuracy { server: name(), jobs: any::<u32>(), start_error: error(), completion_error: error() })
}

pub(super) fn file() -> impl Strategy<Value = FileSpec> {
    of!(FileSpec { name: file_name(), size: any::<u64>(), sha256: checksum() })
}

pub(super) fn submission() -> impl Strategy<Value = Submission> {
    let text_of_script = vec(any::<u8>(), 0..40).prop_map(|rest| [b"#!", &rest[..]].concat());
    let script =
        of!(Script { name: word(), text: text_of_script, work: work(), arguments: vec(text(), 0..4) });
    let what = prop_oneof![
        script.prop_map(Submitted::Script),
        pack().prop_map(Submitted::Pack),
        of!(Submitted::Service { name: word(), arguments: btree_map(word(), text(), 0..4) }),
    ];
    of!(Submission {
        key: key(),
        what: what,
        inputs: vec(file(), 0..3),
        latest: option::of(time()),
        compared: vec(compared(), 0..3),
        survey: survey(),
        pinned: any::<bool>(),
    })
}

pub(super) fn refused() -> impl Strategy<Value = Refused> {
    prop_oneof![
        estimate().prop_map(|now| Refused::Stale { now }),
        (procs(), procs()).prop_map(|(needed, available)| Refused::TooLarge { needed, available }),
        (any::<u32>(), any::<u32>()).prop_map(|(walltime, most)| Refused::TooLong {
            walltime: Span(walltime.into()),
            most: Span(most.into()),
        }),
        any::<u32>().prop_map(|limit| Refused::TooMany { limit }),
        Just(Refused::KeyTaken),
        Just(Refused::NoNumbersLeft),
        // A stale one is told with its estimate.
        reason().prop_filter("not stale", |reason| reason.cause != Cause::Stale).prop_map(Refused::Other),
    ]
}

pub(super) fn submit_answer() -> impl Strategy<Value = SubmitAnswer> {
    let declined = refused().prop_map(|refused| Declined::from(&refused));
    let later = (word(), text()).prop_map(|(word, why)| Declined {
        word: format!("new-{word}"),
        cause: Cause::Unknown,
        why,
        now: None,
    });
    prop_oneof![
        job().prop_map(|record| SubmitAnswer::Accepted(Box::new(record))),
        prop_oneof![declined, later].prop_map(SubmitAnswer::Declined),
    ]
}

pub(super) fn explanation() -> impl Strategy<Value = Explanation> {
    let release = of!(Release { handle: option::of(handle()), end: time(), procs: procs() });
    let wait = of!(Wait {
        ahead: any::<u32>(),
        plan: estimate(),
        free: free(),
        until: vec(release, 0..4),
        copies: vec(name(), 0..3),
    });
    of!(Explanation {
        record: job(),
        at: time(),
        waits: option::of(wait),
        unplanned: option::of("[ -~]{0,9}"),
    })
}

pub(super) fn upload() -> impl Strategy<Value = Upload> {
    prop_oneof![
        (key(), file(), option::of(user())).prop_map(|(key, file, owner)| Upload::Begin { key, file, owner }),
        vec(any::<u8>(), 0..40).prop_map(Upload::Data),
    ]
}

pub(super) fn upload_answer() -> impl Strategy<Value = UploadAnswer> {
    prop_oneof![any::<u64>().prop_map(UploadAnswer::Offset), Just(UploadAnswer::Complete)]
}

pub(super) fn download() -> impl Strategy<Value = Download> {
    of!(Download { handle: handle(), name: result_name(), offset: any::<u64>(), follow: any::<bool>() })
}

pub(super) fn fetchable() -> impl Strategy<Value = Fetchable> {
    of!(Fetchable { name: result_name(), size: any::<u64>(), sha256: checksum() })
}

pub(super) fn job_results() -> impl Strategy<Value = JobResults> {
    let withheld = || of!(Withheld { name: text(), word: word(), why: text() });
    of!(JobResults {
        files: vec(fetchable(), 0..4),
        left_out: vec(withheld(), 0..4),
        left_out_count: any::<u64>(),
        stdout_cut: any::<bool>(),
        stderr_cut: any::<bool>(),
    })
}

pub(super) fn offer() -> impl Strategy<Value = Offer> {
    let argument =
        of!(OfferedArgument { name: word(), takes: text(), required: any::<bool>(), default: text() });
    let service = of!(OfferedService {
        name: word(),
        summary: text(),
        speedup: text(),
        arguments: vec(argument, 0..3),
        for_others: any::<bool>(),
    });
    of!(Offer { services: vec(service, 0..3), scripts: any::<bool>(), hidden: any::<u32>() })
}
