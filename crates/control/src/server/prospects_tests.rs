//! The prospects of multi-job instances on a server, and the runtimes that it learns.

use crate::access::Caller;
use crate::payload::Payload;
use pliant_model::{Span, SpanMs, Speedup};
use pliant_policy::runtimes::Level;

use super::prospects::Instance;
use super::*;
use crate::multi_job::{Expectation, FreeSlots, InstanceProspects, RuntimeSource};
use crate::names::Token;
use crate::names::User;
use crate::reason::Cause;
use crate::replay::Machine;
use crate::runtime_sample::RuntimeSample;

fn server(procs: u32, speed: f64) -> Server {
    let config = ServerConfig {
        address: String::new(),
        name: "lyon".parse().unwrap(),
        procs: Procs(procs),
        speed: Speed::new(speed).unwrap(),
        policy: "cbf".to_owned(),
        tuner: Tuner::Exact,
        waiting: WaitingLimits::of_jobs(100),
        host: None,
    };
    Server::new(config, Time(0)).unwrap()
}

fn alice() -> User {
    "alice".parse().unwrap()
}

/// A job of a service that takes `scale` times as long as the service does.
fn submit(key: u8, service: &str, procs: u32, walltime: i64, scale: f64) -> Submit {
    Submit {
        key: Key([key; 16]),
        owner: alice(),
        name: service.to_owned(),
        work: Work::new(Procs(procs), Span(walltime), Speedup::Rigid),
        own_time: false,
        pinned: false,
        latest: None,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        payload: Payload::default(),
        sample: Some(RuntimeSample {
            category: service.to_owned(),
            scale,
            promises: false,
            instances: 1,
            is_batch: false,
        }),
        claim: None,
    }
}

fn at(server: &mut Server, now: i64) {
    while server.next_due().is_some_and(|due| due <= Time(now)) {
        server.on(Time(now), Event::Due, &mut Vec::new());
    }
}

fn accept(server: &mut Server, now: i64, submit: Submit) {
    let event = Event::Submit { reply: Token(1), submit: Box::new(submit) };
    server.on(Time(now), event, &mut Vec::new());
    at(server, now);
}

fn end(server: &mut Server, now: i64, number: u32, exit: Exit, elapsed_ms: u64) {
    let event = batch::Event::Ended { job: JobId(number), exit, elapsed_ms: Some(elapsed_ms) };
    server.on(Time(now), Event::Batch(event), &mut Vec::new());
    at(server, now);
}

fn instance(service: &str, procs: u32, walltime: i64, scale: f64) -> Instance {
    let work = Work::new(Procs(procs), Span(walltime), Speedup::Rigid);
    Instance { service: service.to_owned(), scale, work, spare: Span::ZERO, elsewhere: None }
}

fn prospects(server: &mut Server, now: i64, instance: &Instance) -> InstanceProspects {
    server.prospects(Time(now), &alice(), instance, &[]).unwrap()
}

fn free(prospects: &InstanceProspects) -> Vec<(i64, u32)> {
    prospects.free.iter().map(|FreeSlots { at, slots }| (at.0, *slots)).collect()
}

#[test]
fn without_statistics_the_walltime_is_expected() {
    let mut server = server(4, 2.0);
    accept(&mut server, 0, submit(1, "long", 3, 100, 1.0));
    accept(&mut server, 0, submit(2, "long", 2, 60, 1.0));
    let found = prospects(&mut server, 10, &instance("short", 1, 8, 1.0));
    assert_eq!((found.instance, found.source), (SpanMs(4_000), RuntimeSource::Walltime));
    // 40 s of the 50 s on three processors are left; then two processors are busy for 30 s.
    assert_eq!((free(&found), found.jobs), (vec![(40_000, 2), (70_000, 2)], 2));
    // An instance of two processors takes two.
    assert_eq!(free(&prospects(&mut server, 10, &instance("wide", 2, 8, 1.0))), [(40_000, 1), (70_000, 1)]);
    let refused = server.prospects(Time(10), &alice(), &instance("wider", 5, 8, 1.0), &[]);
    assert!(matches!(refused, Err(AdmissionRefusal::TooLarge { .. })), "{refused:?}");
}

#[test]
fn slots_that_are_free_too_late_for_a_deadline_do_not_count() {
    let mut server = server(4, 1.0);
    accept(&mut server, 0, submit(1, "long", 3, 100, 1.0));
    accept(&mut server, 0, submit(2, "long", 4, 50, 1.0));
    let by = |deadline: i64, walltime: i64| {
        let mut one = instance("short", 1, walltime, 1.0);
        one.work.deadline = Some(Time(deadline));
        Instance { spare: Span(2), ..one }
    };
    // All four are free once both have ended; a batch of one takes 12 s, of three 32 s.
    let found = prospects(&mut server, 0, &by(185, 10));
    assert_eq!((free(&found), found.batch_most), (vec![(150_000, 4)], Some(18)));
    // Before the second one starts there is the time for one on the free processor.
    assert_eq!(free(&prospects(&mut server, 0, &by(160, 10))), [(0, 1)]);
    let refused = server.prospects(Time(0), &alice(), &by(160, 110), &[]).unwrap_err();
    assert_eq!(refused.cause(), Cause::Deadline);
    assert!(
        refused.to_string().starts_with("would complete at 1970-01-01 00:04:22Z, after its"),
        "{refused}"
    );
    // Without a deadline nothing changes.
    assert_eq!(free(&prospects(&mut server, 0, &instance("short", 1, 110, 1.0))), [(150_000, 4)]);
    // One that may not start yet has the less time.
    let mut later = by(185, 10);
    later.work.begin = Some(Time(100));
    assert_eq!(prospects(&mut server, 0, &later).batch_most, Some(8));
}

fn limit(server: &mut Server, changes: &[(LimitKey, Option<u64>)]) {
    let changes = changes.iter().map(|(key, value)| LimitChange { key: *key, value: *value }).collect();
    let (by, why) = ("root".parse().unwrap(), String::new());
    server.on(Time(0), Event::Limit { reply: Token(1), user: alice(), changes, by, why }, &mut Vec::new());
}

#[test]
fn limits_of_the_user_bound_the_free_slots() {
    let mut server = server(10, 1.0);
    accept(&mut server, 0, submit(1, "long", 2, 100, 1.0));
    let (short, wide) = (instance("short", 1, 8, 1.0), instance("wide", 2, 8, 1.0));
    assert_eq!(free(&prospects(&mut server, 0, &short)), [(0, 8), (100_000, 2)]);
    limit(&mut server, &[(LimitKey::RunningJobs, Some(2))]);
    assert_eq!(free(&prospects(&mut server, 0, &short)), [(0, 1), (100_000, 1)]);
    limit(&mut server, &[(LimitKey::RunningJobs, None), (LimitKey::Processors, Some(5))]);
    assert_eq!(free(&prospects(&mut server, 0, &short)), [(0, 3), (100_000, 2)]);
    assert_eq!(free(&prospects(&mut server, 0, &wide)), [(0, 1), (100_000, 1)]);
    limit(&mut server, &[(LimitKey::RunningJobs, Some(1))]);
    // It is kept back until the first one ends.
    accept(&mut server, 0, submit(2, "long", 3, 50, 1.0));
    let found = prospects(&mut server, 0, &short);
    assert_eq!((free(&found), found.jobs), (vec![(150_000, 1)], 2));
    let found = server.prospects(Time(0), &alice(), &short, &[2]).unwrap();
    assert_eq!((free(&found), found.waiting), (vec![(100_000, 1)], vec![2]));
    let found = server.prospects(Time(0), &"bob".parse().unwrap(), &short, &[]).unwrap();
    assert_eq!(free(&found), [(0, 8), (100_000, 2)]);
    limit(&mut server, &[(LimitKey::RunningJobs, Some(0))]);
    let refused = server.prospects(Time(0), &alice(), &short, &[]);
    assert!(matches!(refused, Err(AdmissionRefusal::Other(_))), "{refused:?}");
}

#[test]
fn waiting_jobs_can_be_left_out_and_withdrawn() {
    let mut server = server(2, 2.0);
    let is_queued = |server: &Server, number| server.job(number).unwrap().state == JobState::Queued;
    for key in 1..=4 {
        accept(&mut server, 0, submit(key, "long", 1, 100, 1.0));
    }
    let short = instance("short", 1, 8, 1.0);
    assert_eq!(free(&prospects(&mut server, 0, &short)), [(100_000, 2)]);
    // Running jobs and other users' jobs still count.
    let query = |server: &mut Server, user: &str, without: &[u32]| {
        server.prospects(Time(0), &user.parse().unwrap(), &short, without).unwrap()
    };
    let found = query(&mut server, "alice", &[1, 3, 4, 77]);
    assert_eq!((free(&found), found.waiting, found.jobs), (vec![(50_000, 2)], vec![3, 4], 2));
    let found = query(&mut server, "bob", &[3, 4]);
    assert_eq!((free(&found), found.waiting), (vec![(100_000, 2)], vec![]));

    let withdraw = |server: &mut Server, number, user: &str| {
        let caller = Caller { user: user.parse().unwrap(), operator: false };
        let mut commands = Vec::new();
        server.on(Time(1), Event::Withdraw { reply: Token(2), number, caller }, &mut commands);
        commands.into_iter().find_map(|command| match command {
            Command::Reply { to: Token(2), answer } => Some(answer),
            _ => None,
        })
    };
    assert_eq!(withdraw(&mut server, 4, "bob"), Some(Answer::NoSuchJob));
    assert!(is_queued(&server, 4));
    assert!(matches!(withdraw(&mut server, 4, "alice"), Some(Answer::Cancelling(_))));
    let record = server.job(4).unwrap();
    assert_eq!(
        (record.state, record.started, &record.exit),
        (JobState::Canceled, None, &Some(Exit::Cancelled))
    );
    // A running job goes on.
    assert!(matches!(withdraw(&mut server, 1, "alice"), Some(Answer::Cancelling(_))));
    assert_eq!(server.job(1).unwrap().state, JobState::Active);
    assert!(is_queued(&server, 3));
}

#[test]
fn runtimes_are_learned_for_later_jobs_and_survive_a_restart() {
    let mut server = server(2, 2.0);
    for (key, elapsed_ms) in [(1, 900), (2, 1_000), (3, 1_100)] {
        // A batch of ten.
        accept(&mut server, 2 * i64::from(key), submit(key, "fit", 1, 200, 10.0));
        end(&mut server, 2 * i64::from(key) + 1, key.into(), Exit::Code(0), elapsed_ms);
    }
    // Failed jobs are counted, and no runtime is learned from them.
    accept(&mut server, 8, submit(4, "fit", 1, 200, 10.0));
    end(&mut server, 60, 4, Exit::Code(1), 50_000);
    // The agents get the same runtimes.
    let unit_runtime = |number| server.job(number).unwrap().unit_runtime;
    assert_eq!(
        [1, 2, 3, 4].map(unit_runtime),
        [Some(SpanMs(180)), Some(SpanMs(200)), Some(SpanMs(220)), None]
    );
    let check = |server: &mut Server| {
        let found = prospects(server, 60, &instance("fit", 1, 20, 3.0));
        assert_eq!((found.instance, found.source), (SpanMs(300), RuntimeSource::Statistics { jobs: 3 }));
        assert_eq!((found.failures, found.jobs), (1, 0));
        // This service has not run here. Runtimes from elsewhere are for speed 1, and the walltime is the upper bound.
        let other = instance("other", 1, 20, 3.0);
        assert_eq!(prospects(server, 60, &other).source, RuntimeSource::Walltime);
        let elsewhere = |ms, level| Some(Expectation { runtime: SpanMs(ms), level, jobs: 7 });
        let with_elsewhere = |ms, level| Instance { elsewhere: elsewhere(ms, level), ..other.clone() };
        let found = prospects(server, 60, &with_elsewhere(500, Level::User));
        let by = |level| RuntimeSource::Federation { level, jobs: 7 };
        // The scale of a service's arguments does not apply to other services.
        assert_eq!((found.instance, found.source), (SpanMs(250), by(Level::User)));
        let found = prospects(server, 60, &with_elsewhere(500, Level::Executable));
        assert_eq!((found.instance, found.source), (SpanMs(750), by(Level::Executable)));
        let found = prospects(server, 60, &with_elsewhere(50_000, Level::All));
        assert_eq!((found.instance, found.source), (SpanMs(10_000), RuntimeSource::Walltime));
        // The server's own statistics take precedence.
        let known = Instance { elsewhere: elsewhere(9, Level::Executable), ..instance("fit", 1, 20, 3.0) };
        assert_eq!(prospects(server, 60, &known).source, RuntimeSource::Statistics { jobs: 3 });
    };
    check(&mut server);
    // A running job is expected to take as long as its service did, not its walltime.
    accept(&mut server, 60, submit(5, "fit", 2, 200, 40.0));
    let found = prospects(&mut server, 60, &instance("fit", 1, 20, 1.0));
    assert_eq!(free(&found), [(4_000, 2)]);
    end(&mut server, 60, 5, Exit::Cancelled, 500);

    let text = serde_json::to_string(&server.dump(Time(60))).unwrap();
    let state: ServerState = serde_json::from_str(&text).unwrap();
    check(&mut Server::from_state(server.config().clone(), state).unwrap());
}

#[test]
fn a_job_that_outlives_most_is_expected_to_run_like_those_that_did() {
    let mut server = server(1, 2.0);
    for (key, took) in [(1, 1), (2, 1), (3, 1), (4, 9)] {
        let start = 10 * i64::from(key);
        accept(&mut server, start, submit(key, "fit", 1, 200, 1.0));
        end(&mut server, start + took, key.into(), Exit::Code(0), took as u64 * 1_000);
    }
    accept(&mut server, 100, submit(5, "fit", 1, 200, 1.0));
    let left = |server: &mut Server, at| free(&prospects(server, at, &instance("fit", 1, 20, 1.0)));
    // 3 s in the mean; a job that takes longer than 1 s takes 9 s.
    assert_eq!(left(&mut server, 100), [(3_000, 1)]);
    assert_eq!(left(&mut server, 104), [(5_000, 1)]);
    // No job took as long: as long again.
    assert_eq!(left(&mut server, 109), [(9_000, 1)]);
    assert_eq!(left(&mut server, 130), [(30_000, 1)]);
    // At most until its walltime.
    assert_eq!(left(&mut server, 190), [(10_000, 1)]);
}

/// A script of a user.
fn script(key: u8, owner: &str, name: &str, walltime: i64) -> Submit {
    let owner = owner.parse().unwrap();
    Submit { owner, sample: None, ..submit(key, name, 1, walltime, 1.0) }
}

#[test]
fn a_server_full_of_unknown_jobs_is_not_expected_to_become_free_soon() {
    let mut server = server(4, 1.0);
    let short = |server: &mut Server, key: u8| {
        accept(server, 10 * i64::from(key), submit(key, "other", 1, 60, 1.0));
        end(server, 10 * i64::from(key) + 1, key.into(), Exit::Code(0), 1_000);
    };
    (1..=2).for_each(|key| short(&mut server, key));
    let fills = |server: &mut Server, now, first: u8| {
        (first..first + 4).for_each(|key| accept(server, now, script(key, "bob", "job.sh", 600)));
    };
    fills(&mut server, 30, 3);
    let free_at = |server: &mut Server, now| free(&prospects(server, now, &instance("fit", 1, 20, 1.0)));
    // Two jobs of another user are too few for statistics.
    assert_eq!(free_at(&mut server, 35), [(595_000, 4)]);
    (3..=6).for_each(|number| end(&mut server, 40, number, Exit::Cancelled, 10_000));

    short(&mut server, 7);
    let found = prospects(&mut server, 75, &instance("other", 1, 20, 1.0)).source;
    assert_eq!(found, RuntimeSource::Statistics { jobs: 3 });
    fills(&mut server, 100, 8);
    assert_eq!(free_at(&mut server, 100), [(1_000, 4)]);
    // Scripts of another user do not follow these statistics, whenever that is asked.
    assert_eq!(free_at(&mut server, 105), [(5_000, 4)]);
    assert_eq!(free_at(&mut server, 300), [(200_000, 4)]);
    assert_eq!(free_at(&mut server, 500), [(200_000, 4)]);
}

#[test]
fn a_script_named_like_a_service_is_not_counted_for_it() {
    let mut server = server(1, 1.0);
    for key in 1..=3 {
        let start = 10 * i64::from(key);
        accept(&mut server, start, script(key, "bob", "fit", 100));
        end(&mut server, start + 9, key.into(), Exit::Code(0), 9_000);
    }
    let record = server.job(3).unwrap();
    assert_eq!((record.unit_runtime, record.runtime), (None, Some(SpanMs(9_000))));
    let fit = instance("fit", 1, 20, 1.0);
    assert_eq!(prospects(&mut server, 40, &fit).source, RuntimeSource::Walltime);
    // A script is expected to take as long as others with its name and its owner.
    for key in 4..=6 {
        let start = 10 * i64::from(key);
        accept(&mut server, start, script(key, "carol", "fit", 100));
        end(&mut server, start + 3, key.into(), Exit::Code(0), 3_000);
    }
    for (key, owner, expected) in [(7, "bob", 9_000), (8, "carol", 3_000), (9, "dave", 6_000)] {
        let now = 20 * i64::from(key);
        accept(&mut server, now, script(key, owner, "fit", 100));
        assert_eq!(free(&prospects(&mut server, now, &fit)), [(expected, 1)], "{owner}");
        end(&mut server, now, key.into(), Exit::Cancelled, 100);
    }
}

#[test]
fn statistics_of_users_count_runtimes_without_scales() {
    let mut server = server(1, 2.0);
    // The service is declared for each of a thousand units.
    for key in 1..=6 {
        let start = 10 * i64::from(key);
        accept(&mut server, start, submit(key, "each", 1, 100, 1_000.0));
        end(&mut server, start + 1, key.into(), Exit::Code(0), 500);
    }
    let record = server.job(6).unwrap();
    assert_eq!((record.unit_runtime, record.runtime), (Some(SpanMs(1)), Some(SpanMs(1_000))));
    // Statistics of a user apply to all services, whatever their scales.
    accept(&mut server, 100, submit(7, "other", 1, 100, 40.0));
    let each = instance("each", 1, 20, 1_000.0);
    assert_eq!(free(&prospects(&mut server, 100, &each)), [(500, 1)]);
    end(&mut server, 100, 7, Exit::Cancelled, 100);
    // A batch counts as the mean of its instances.
    let sample = Some(RuntimeSample {
        category: "batch".to_owned(),
        scale: 40.0,
        promises: false,
        instances: 10,
        is_batch: true,
    });
    accept(&mut server, 110, Submit { sample: sample.clone(), ..submit(8, "batch", 1, 100, 1.0) });
    end(&mut server, 120, 8, Exit::Code(0), 10_000);
    let record = server.job(8).unwrap();
    assert_eq!((record.unit_runtime, record.runtime), (Some(SpanMs(500)), Some(SpanMs(2_000))));
    // 8 s in all by her 7 jobs, and this one has ten instances.
    accept(&mut server, 130, Submit { sample, ..submit(9, "batch", 1, 100, 1.0) });
    assert_eq!(free(&prospects(&mut server, 130, &each)), [(5_715, 1)]);
}
