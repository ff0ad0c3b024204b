//! The speed of the pages with 100,000 jobs at the agent. A measurement, run by hand (docs/development/web-figures.md); with
//! `PLIANT_FIGURES_PROGRAM=FILE` the agent and the pages are of that build of `pliant`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_control::agent::{Agent, AgentConfig, ChildKind, Event};
use pliant_control::job::{Exit, JobRecord, Work};
use pliant_control::names::{Handle, Key};
use pliant_control::reason::DiscoverySummary;
use pliant_control::replay::Machine;
use pliant_control::server_info::ServerInfo;
use pliant_journal::{Batch, Entry, JobRow, SnapshotPart};
use pliant_model::{Estimate, Procs, Span, Speed, Speedup};
use pliant_testing::browser::find;
use pliant_wire::proto::agent_client::AgentClient;
use pliant_wire::{FromChild, FromParent};
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;

use super::chromium::Browser;
use super::*;

const SERVER: &str = "lyon";
const ENDED: u32 = 90_000;
const WAITING: u32 = 10_000;
/// Calls a second, and for how long.
const CALLS_PER_S: u32 = 200;
const CALLING_S: u32 = 10;

/// A server that exists only as its connection to the agent.
struct Reporter {
    sender: mpsc::Sender<FromChild>,
    /// The last status update that the agent has journaled.
    kept: watch::Receiver<u64>,
    sequence: u64,
}

fn record(number: u32, state: JobState) -> JobRecord {
    let (procs, walltime) = (Procs(1 + number % 32), Span(600 + i64::from(number % 7_000)));
    let submitted = now() - Span(i64::from(ENDED + WAITING) - i64::from(number));
    let start = submitted + Span(i64::from(number % 900));
    let (has_run, is_final) = (!matches!(state, JobState::New | JobState::Queued), state.is_final());
    JobRecord {
        handle: Handle { server: SERVER.parse().unwrap(), number },
        // Differs in what the keys of a sweep have in common.
        key: Key((u128::from(number) << 64).to_be_bytes()),
        owner: format!("user{}", number % 50).parse().unwrap(),
        name: "pi".to_owned(),
        work: Work::new(procs, walltime, Speedup::Rigid),
        state,
        submitted,
        expected: Estimate { procs, walltime, start },
        procs,
        walltime,
        started: has_run.then_some(start),
        ended: is_final.then_some(start + Span(walltime.0 * 2 / 3)),
        exit: is_final.then_some(Exit::Code(0)),
        requeues: 0,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: None,
    }
}

fn info() -> ServerInfo {
    ServerInfo {
        name: SERVER.parse().unwrap(),
        address: "127.0.0.1:9".to_owned(),
        rank: 0,
        procs: Procs(1024),
        speed: Speed::REFERENCE,
        policy: "cbf".to_owned(),
        services: Vec::new(),
        scripts: true,
        optional_cores: 0,
        optional_per_core: 0,
    }
}

fn row(record: &JobRecord) -> JobRow {
    JobRow {
        server: record.handle.server.to_string(),
        number: record.handle.number,
        key: Some(record.key.0),
        owner: record.owner.to_string(),
        name: record.name.clone(),
        state: record.state.word().to_owned(),
        submitted: record.submitted.0,
        started: record.started.map(|at| at.0),
        ended: record.ended.unwrap_or(record.submitted).0,
        expected_start: Some(record.expected.start.0),
        expected_completion: Some(record.expected.completion().0),
        record: serde_json::to_string(record).unwrap(),
        last_server: record.server().to_string(),
    }
}

/// Writes the journal of an agent that knows all these jobs: agents take unknown jobs with signatures only.
fn write_journal(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let mut journal = pliant_journal::open_sqlite(folder).unwrap();
    for chunk in 0..ENDED / 10_000 {
        let numbers = chunk * 10_000 + 1..=(chunk + 1) * 10_000;
        let ended = numbers.map(|number| row(&record(number, JobState::Completed))).collect();
        journal.commit(&Batch { ended, ..Batch::default() }).unwrap();
    }
    let config =
        AgentConfig { name: MASTER.parse().unwrap(), root: true, timeout: Span(3), reallocation: None };
    let (mut agent, at, child) = (Agent::new(config), now(), SERVER.parse().unwrap());
    let kind = ChildKind::Server;
    agent.on(at, Event::Attached { child, kind, journal: 99, servers: vec![info()] }, &mut Vec::new());
    for number in 1..=WAITING {
        let record = Box::new(record(ENDED + number, JobState::Queued));
        let (child, sequence) = (SERVER.parse().unwrap(), number.into());
        agent.on(at, Event::StatusUpdate { child, sequence, record }, &mut Vec::new());
    }
    let detached = Event::Detached { child: SERVER.parse().unwrap() };
    // The last entry that the snapshot holds; those before it need not be there.
    let entry = Entry { seq: 1, at: at.0, event: serde_json::to_string(&detached).unwrap(), commands: 0 };
    journal.commit(&Batch { entries: vec![entry], ..Batch::default() }).unwrap();
    agent.on(at, detached, &mut Vec::new());
    let bytes = serde_json::to_vec(&agent.dump(at)).unwrap();
    let last = bytes.len().div_ceil(1 << 20) - 1;
    for (number, piece) in bytes.chunks(1 << 20).enumerate() {
        let (part, is_last) = (number as u32, number == last);
        let part = SnapshotPart { seq: 1, at: at.0, part, bytes: piece.to_vec(), is_last };
        journal.commit(&Batch { snapshot_part: Some(part), ..Batch::default() }).unwrap();
    }
}

impl Reporter {
    async fn attach(federation: &Federation) -> Reporter {
        let credentials = federation.credentials(Role::Server, SERVER);
        let channel = federation.channel(&credentials, Role::Agent, MASTER);
        let (sender, mut messages) = mpsc::channel::<FromChild>(1024);
        let (wire, receiver) = mpsc::channel(1024);
        let (name, kind) = (SERVER.parse().unwrap(), ChildKind::Server);
        let hello = FromChild::Hello { name, kind, journal: 99, servers: vec![info()] };
        wire.send((&hello).into()).await.unwrap();
        let mut down =
            AgentClient::new(channel).attach(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        let (kept_sender, kept) = watch::channel(0);
        tokio::spawn(async move {
            let mut beat = tokio::time::interval(Duration::from_secs(2));
            loop {
                let message = tokio::select! {
                    _ = beat.tick() => FromChild::Heartbeat {
                        now: None, free: Vec::new(), certificate: None, certificates: Vec::new(), drained: Vec::new(),
                    },
                    message = messages.recv() => match message {
                        Some(message) => message,
                        None => return,
                    },
                };
                if wire.send((&message).into()).await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(async move {
            while let Ok(Some(message)) = down.message().await {
                if let Ok(FromParent::Acknowledge { sequence }) = FromParent::try_from(message) {
                    kept_sender.send_replace(sequence);
                }
            }
        });
        Reporter { sender, kept, sequence: WAITING.into() }
    }

    async fn report(&mut self, record: JobRecord) {
        self.sequence += 1;
        let update = FromChild::StatusUpdate { sequence: self.sequence, record: Box::new(record) };
        self.sender.send(update).await.unwrap();
    }

    async fn all_kept(&mut self) {
        let last = self.sequence;
        self.kept.wait_for(|kept| *kept >= last).await.unwrap();
    }
}

/// The value below which that share of the values is.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

/// Calls at a fixed rate, whatever the answers take; the times from when each was due, in milliseconds: without end for one that has no
/// answer, because too many are open.
async fn calls(pages: &Arc<Pages>) -> Vec<f64> {
    let paths = [
        "/api/v1/jobs?per_page=100&sort=start",
        "/api/v1/clusters",
        "/api/v1/health",
        "/api/v1/jobs?state=QUEUED",
        "/api/v1/session",
    ];
    let begun = Instant::now();
    let mut open = tokio::task::JoinSet::new();
    for number in 0..CALLS_PER_S * CALLING_S {
        let due = begun + Duration::from_secs(1) * number / CALLS_PER_S;
        tokio::time::sleep_until(due.into()).await;
        let (pages, path) = (pages.clone(), paths[number as usize % paths.len()]);
        open.spawn_blocking(move || {
            match pages.try_ask("GET", path, &[], "") {
                Some(answer) => assert_eq!(answer.status, 200, "{path}"),
                None => return f64::INFINITY,
            }
            due.elapsed().as_secs_f64() * 1e3
        });
    }
    open.join_all().await
}

/// Counts frames and their lengths until `window.frames.stop` is set.
const FRAMES: &str = "(() => { const at = { times: [], last: performance.now(), stop: false }; window.frameTimes = at; \
    const frame = (now) => { at.times.push(now - at.last); at.last = now; if (!at.stop) requestAnimationFrame(frame); }; requestAnimationFrame(frame); })()";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, run by hand"]
async fn with_a_hundred_thousand_jobs() {
    let program = find().expect("the measurement needs chromium");
    let build = std::env::var_os("PLIANT_FIGURES_PROGRAM").map(PathBuf::from);
    let mut federation = Federation::without_daemons();
    federation.build = build.clone();
    write_journal(&federation.folder(MASTER).join("state"));
    federation.add_agent(MASTER, None, "");
    let mut reporter = Reporter::attach(&federation).await;

    let mut command = pliant(&federation.client_file(Role::Operator, "root"), &["web", "--no-open"]);
    if let Some(build) = &build {
        let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        command = std::process::Command::new(build);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    }
    let pages = Pages::started(command, &federation);
    let site = format!("http://{}", pages.address);
    let mut browser = Browser::start(&program);
    browser.show(1280, 900, false);
    browser.open(&format!("{site}{}", pages.link));
    browser.until("document.body.dataset.rendered");
    let cookie = browser.cookies(&site);
    // The command ends when these pages are dropped.
    let pages = Arc::new(pages.with_cookie(&cookie));
    let begun = Instant::now();
    until("every job is read", async || (pages.json("/api/v1/jobs")["complete"] == true).then_some(())).await;
    let all = &pages.json("/api/v1/jobs")["matching"];
    println!("{all} jobs read {:.1} s after the first page", begun.elapsed().as_secs_f64());
    assert_eq!(*all, ENDED + WAITING);

    let (mut paints, mut charts) = (Vec::new(), Vec::new());
    browser.without_cache();
    for _ in 0..11 {
        browser.open(&format!("{site}/"));
        browser.until("document.body.dataset.rendered && performance.getEntriesByName('first-contentful-paint').length > 0");
        paints.push(
            browser
                .evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
                .as_f64()
                .unwrap(),
        );
        charts.push(browser.evaluate("window.renderedAt ?? performance.now()").as_f64().unwrap());
    }
    println!(
        "first paint of the overview: median {:.0} ms, most {:.0} ms; chart drawn: at most {:.0} ms (median)",
        quantile(&mut paints, 0.5),
        quantile(&mut paints, 1.0),
        quantile(&mut charts, 0.5)
    );

    // A page that asks for nothing.
    browser.open(&format!("{site}/assets/web.css"));
    let mut times = calls(&pages).await;
    let unanswered = times.iter().filter(|time| time.is_infinite()).count();
    println!(
        "{CALLS_PER_S} calls a second for {CALLING_S} s: median {:.1} ms, 99 % {:.1} ms, most {:.1} ms, {unanswered} without an answer",
        quantile(&mut times, 0.5),
        quantile(&mut times, 0.99),
        quantile(&mut times, 1.0)
    );

    browser.open(&format!("{site}/jobs?state=QUEUED&per_page=1000"));
    browser.until("document.body.dataset.rendered === 'jobs:1000'");
    for (what, changes) in [("without changes", 0_u32), ("with 50 changes a second", 500)] {
        browser.evaluate(FRAMES);
        for number in 0..changes.max(1) {
            if changes > 0 {
                reporter.report(record(ENDED + WAITING - number, JobState::Active)).await;
            }
            tokio::time::sleep(Duration::from_secs(10) / changes.max(1)).await;
        }
        let frames = browser.evaluate("(window.frameTimes.stop = true, window.frameTimes.times)");
        let mut frames: Vec<f64> = frames.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        println!(
            "frames of a page with 1,000 of 10,000 waiting jobs, {what}: {} in 10 s, median {:.1} ms, 99 % {:.1} ms, most {:.1} ms",
            frames.len(),
            quantile(&mut frames, 0.5),
            quantile(&mut frames, 0.99),
            quantile(&mut frames, 1.0)
        );
    }

    browser.open(&format!("{site}/jobs?state=ACTIVE&sort=id&ascending=true&per_page=1000"));
    browser.until("document.body.dataset.rendered === 'jobs:500'");
    let mut delays = Vec::new();
    for number in 1..=20 {
        let job = record(ENDED + number, JobState::Active);
        let id = job.handle.to_string();
        let begun = Instant::now();
        reporter.report(job).await;
        browser.until(&format!("document.getElementById('jobs').textContent.includes('{id}')"));
        delays.push(begun.elapsed().as_secs_f64());
        // At different points between two polls.
        tokio::time::sleep(Duration::from_millis(137 * u64::from(number % 7))).await;
    }
    reporter.all_kept().await;
    println!(
        "from a status update to the page: median {:.2} s, 95 % {:.2} s, most {:.2} s",
        quantile(&mut delays, 0.5),
        quantile(&mut delays, 0.95),
        quantile(&mut delays, 1.0)
    );
}
