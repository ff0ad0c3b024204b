//! Values of every type that goes over the wire, within the bounds of the protocol.

use pliant_control::access::Caller;
use pliant_control::agent::{Ask, ChildKind, Found, ServerInfo, What};
use pliant_control::explain::{Explanation, Release, Wait};
use pliant_control::job::{Compared, Exit, JobRecord, JobState, Work};
use pliant_control::names::{Handle, Key, Name, User};
use pliant_control::reason::{Cause, Reason, Survey};
use pliant_control::server::Refused;
use pliant_control::vector::Vector;
use pliant_model::{Estimate, Procs, Span, SpanMs, Speed, Speedup, Time};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::bounds;
use super::super::{
    Accuracy, AgentStatus, Declined, Download, Federation, Fetchable, FromChild, FromParent, JobResults,
    JobsPage, JobsQuery, LocatedJob, Offer, OfferedArgument, OfferedService, Script, ServerStatus,
    Submission, SubmitAnswer, Submitted, Upload, UploadAnswer, Withheld,
};
use crate::staging::{Checksum, FileName, FileSpec, ResultName};

mod exploration;
mod history;
mod launch;
mod link;
mod moves;
mod multi_job;
mod runtimes;

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
    (procs(), bounds::WALLTIME_S, speedup()).prop_map(|(procs, walltime, speedup)| Work {
        procs,
        walltime: Span(walltime),
        speedup,
    })
}

pub(super) fn estimate() -> impl Strategy<Value = Estimate> {
    (procs(), scaled_walltime(), time()).prop_map(|(procs, walltime, start)| Estimate {
        procs,
        walltime,
        start,
    })
}

pub(super) fn vector() -> impl Strategy<Value = Vector> {
    let load = (procs(), 0..=*bounds::PROCS.end(), any::<u32>());
    (name(), address(), any::<u32>(), estimate(), speed(), load).prop_map(
        |(server, address, rank, estimate, speed, (procs, free, queue_length))| Vector {
            server,
            address,
            rank,
            estimate,
            speed,
            procs,
            free: Procs(free),
            queue_length,
        },
    )
}

pub(super) fn compared() -> impl Strategy<Value = Compared> {
    (name(), estimate()).prop_map(|(server, estimate)| Compared { server, estimate })
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
    let moves = (any::<bool>(), vec(hop(), 0..3), option::of(span_ms()));
    (who, shape, course, vec(compared(), 0..3), survey(), moves).prop_map(
        |(who, shape, course, compared, survey, (pinned, hops, taught))| {
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
            }
        },
    )
}

pub(super) fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        work().prop_map(What::Work),
        (word(), btree_map(word(), text(), 0..4))
            .prop_map(|(name, arguments)| What::Service { name, arguments }),
    ]
}

pub(super) fn ask() -> impl Strategy<Value = Ask> {
    let patience = option::of(bounds::PATIENCE_S.prop_map(Span));
    (what(), user(), any::<bool>(), bounds::BEST, option::of(name()), patience).prop_map(
        |(what, user, operator, best, only, patience)| Ask {
            what,
            caller: Caller { user, operator },
            best,
            only,
            patience,
        },
    )
}

pub(super) fn found() -> impl Strategy<Value = Found> {
    let refusals = vec((name(), reason()), 0..4);
    let missing = (vec(name(), 0..4), any::<u32>(), vec(name(), 0..4));
    let of_moves = (vec(picture(), 0..3), option::of(outcome()));
    (vec(vector(), 0..4), refusals, missing, any::<u32>(), any::<u32>(), of_moves).prop_map(
        |(vectors, refusals, (silent, more, absent), servers, answered, (pictures, outcome))| Found {
            vectors,
            refusals,
            silent,
            more,
            absent,
            servers,
            answered,
            pictures,
            outcome,
        },
    )
}

fn reason() -> impl Strategy<Value = Reason> {
    (select(&Cause::ALL[..]), text()).prop_map(|(cause, why)| Reason { cause, why })
}

pub(super) fn survey() -> impl Strategy<Value = Survey> {
    let passed = vec((name(), select(&Cause::ALL[..])), 0..4);
    (any::<u32>(), any::<u32>(), passed).prop_map(|(servers, answered, passed)| Survey {
        servers,
        answered,
        passed,
    })
}

pub(super) fn server_info() -> impl Strategy<Value = ServerInfo> {
    let services = vec((word(), text()), 0..4);
    let cores = 0_u32..=10_000_000;
    (name(), address(), any::<u32>(), procs(), speed(), text(), services, any::<bool>(), cores).prop_map(
        |(name, address, rank, procs, speed, policy, services, scripts, optional_cores)| ServerInfo {
            name,
            address,
            rank,
            procs,
            speed,
            policy,
            services,
            scripts,
            optional_cores,
        },
    )
}

pub(super) fn from_child() -> impl Strategy<Value = FromChild> {
    let servers = || vec(server_info(), 0..3);
    let kind = select(vec![ChildKind::Server, ChildKind::Agent]);
    prop_oneof![
        (name(), kind, any::<u64>(), servers()).prop_map(|(name, kind, journal, servers)| FromChild::Hello {
            name,
            kind,
            journal,
            servers
        }),
        servers().prop_map(FromChild::Servers),
        (any::<u64>(), found()).prop_map(|(discovery, found)| FromChild::Answer { discovery, found }),
        (any::<u64>(), vec(any::<u8>(), 0..9), any::<bool>())
            .prop_map(|(discovery, bytes, last)| FromChild::Piece { discovery, bytes, last }),
        (any::<u64>(), job()).prop_map(|(sequence, job)| FromChild::News { sequence, record: Box::new(job) }),
        option::of(time()).prop_map(|now| FromChild::Heartbeat { now }),
        name().prop_map(|server| FromChild::Unnumbered { server }),
        Just(FromChild::Freed),
    ]
}

pub(super) fn from_parent() -> impl Strategy<Value = FromParent> {
    prop_oneof![
        (any::<u64>(), ask(), option::of(any::<u64>()), any::<bool>()).prop_map(
            |(discovery, ask, request, pieces)| {
                let request = request.map(|number| format!("{number:016x}").parse().unwrap());
                FromParent::Question { discovery, ask: Box::new(ask), request, pieces }
            }
        ),
        (any::<u64>(), any::<bool>())
            .prop_map(|(sequence, numbers)| FromParent::Acknowledge { sequence, numbers }),
        (name(), any::<u32>()).prop_map(|(server, highest)| FromParent::Numbered { server, highest }),
        Just(FromParent::Heartbeat),
    ]
}

pub(super) fn federation() -> impl Strategy<Value = Federation> {
    let ahead = || option::of(time().prop_map(|time| Span(time.0)));
    let server = (server_info(), name(), any::<bool>(), any::<u32>(), any::<u32>(), ahead()).prop_map(
        |(info, via, attached, queued, active, clock_ahead)| ServerStatus {
            info,
            via,
            attached,
            queued,
            active,
            clock_ahead,
        },
    );
    let agent = (name(), any::<bool>(), time(), ahead())
        .prop_map(|(name, attached, since, clock_ahead)| AgentStatus { name, attached, since, clock_ahead });
    (vec(server, 0..3), vec(agent, 0..3), option::of(time())).prop_map(|(servers, agents, now)| Federation {
        servers,
        agents,
        now,
    })
}

pub(super) fn jobs_query() -> impl Strategy<Value = JobsQuery> {
    let states = vec(select(&JobState::ALL[..]), 0..=6);
    let limit = 1..=bounds::JOBS_MAX as u32;
    (option::of(user()), any::<bool>(), option::of(name()), states, limit, option::of(time())).prop_map(
        |(owner, all, server, states, limit, ended_after)| JobsQuery {
            owner,
            all,
            server,
            states,
            limit,
            ended_after,
        },
    )
}

pub(super) fn jobs_page() -> impl Strategy<Value = JobsPage> {
    (vec(job(), 0..3), any::<bool>()).prop_map(|(jobs, more)| JobsPage { jobs, more })
}

pub(super) fn located_job() -> impl Strategy<Value = LocatedJob> {
    (job(), option::of(address()), any::<bool>()).prop_map(|(record, address, attached)| LocatedJob {
        record,
        address,
        attached,
    })
}

pub(super) fn accuracy() -> impl Strategy<Value = Accuracy> {
    let error = || option::of([(); 5].map(|()| bounds::TIME_S.prop_map(Span)));
    (name(), any::<u32>(), error(), error()).prop_map(|(server, jobs, start_error, completion_error)| {
        Accuracy { server, jobs, start_error, completion_error }
    })
}

pub(super) fn file() -> impl Strategy<Value = FileSpec> {
    (file_name(), any::<u64>(), checksum()).prop_map(|(name, size, sha256)| FileSpec { name, size, sha256 })
}

pub(super) fn submission() -> impl Strategy<Value = Submission> {
    let script = (word(), vec(any::<u8>(), 0..40), work(), vec(text(), 0..4)).prop_map(
        |(name, rest, work, arguments)| Script { name, text: [b"#!", &rest[..]].concat(), work, arguments },
    );
    let what = prop_oneof![
        script.prop_map(Submitted::Script),
        pack().prop_map(Submitted::Pack),
        (word(), btree_map(word(), text(), 0..4))
            .prop_map(|(name, arguments)| Submitted::Service { name, arguments }),
    ];
    let asked = (vec(compared(), 0..3), survey(), any::<bool>());
    (key(), what, vec(file(), 0..3), option::of(time()), asked).prop_map(
        |(key, what, inputs, latest, (compared, survey, pinned))| Submission {
            key,
            what,
            inputs,
            latest,
            compared,
            survey,
            pinned,
        },
    )
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
    let release = (option::of(handle()), time(), procs()).prop_map(|(handle, end, procs)| Release {
        handle,
        end,
        procs,
    });
    let wait =
        (any::<u32>(), estimate(), 0..=*bounds::PROCS.end(), vec(release, 0..4), vec(name(), 0..3)).prop_map(
            |(ahead, plan, free, until, copies)| Wait { ahead, plan, free: Procs(free), until, copies },
        );
    (job(), time(), option::of(wait), option::of("[ -~]{0,9}"))
        .prop_map(|(record, at, waits, unplanned)| Explanation { record, at, waits, unplanned })
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
    (handle(), result_name(), any::<u64>(), any::<bool>())
        .prop_map(|(handle, name, offset, follow)| Download { handle, name, offset, follow })
}

pub(super) fn fetchable() -> impl Strategy<Value = Fetchable> {
    (result_name(), any::<u64>(), checksum()).prop_map(|(name, size, sha256)| Fetchable {
        name,
        size,
        sha256,
    })
}

pub(super) fn job_results() -> impl Strategy<Value = JobResults> {
    let withheld = (text(), word(), text()).prop_map(|(name, word, why)| Withheld { name, word, why });
    let cut = (any::<bool>(), any::<bool>());
    (vec(fetchable(), 0..4), vec(withheld, 0..4), any::<u64>(), cut).prop_map(
        |(files, left_out, left_out_count, (stdout_cut, stderr_cut))| JobResults {
            files,
            left_out,
            left_out_count,
            stdout_cut,
            stderr_cut,
        },
    )
}

pub(super) fn offer() -> impl Strategy<Value = Offer> {
    let argument = (word(), text(), any::<bool>(), text())
        .prop_map(|(name, takes, required, default)| OfferedArgument { name, takes, required, default });
    let service = (word(), text(), text(), vec(argument, 0..3), any::<bool>()).prop_map(
        |(name, summary, speedup, arguments, for_others)| OfferedService {
            name,
            summary,
            speedup,
            arguments,
            for_others,
        },
    );
    (vec(service, 0..3), any::<bool>(), any::<u32>()).prop_map(|(services, scripts, hidden)| Offer {
        services,
        scripts,
        hidden,
    })
}
