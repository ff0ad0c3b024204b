//! Paper 004, section 5.2: 138 servers, 100 users at once with requests of a second, until a deadline of 100 s.
//!
//! Requests are pauses, so that two processors can stand for 138. Every server has its own threads, journals and TLS
//! connections, but all share a process; so do the users, each with a certificate and connections of its own. What the
//! processes use is drawn over time, as in Figure 9.

use std::path::Path;
use std::time::{Duration, Instant};

use pliant_client::{
    Client, ExplorationSpec, ExplorationStatus, ExplorationUpdate, Explorer, ParameterSpace,
};
use pliant_control::names::Name;
use pliant_model::{Capacity, Exploration, ExplorationRun, SpanMs, TimeMs};
use pliant_policy::optional::Share;
use pliant_report::plot::{Axis, Curve, Plot, Scale};
use pliant_report::summarize_exploration;
use pliant_transport::AgentAddress;
use pliant_transport::Role;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::federation::{Daemons, Federation, attached};
use crate::figures::Cost;

const SERVERS: usize = 138;
const USERS: usize = 100;
const MANDATORY: u32 = 3;
const MOST: u32 = 10_000;
const RUNTIME_MS: u32 = 1_000;
/// Of 13,800: 99 %; 13,662 can be expected (docs/research/performance-live.md).
const COMPLETED: u64 = 13_660;
const DEADLINE: SpanMs = SpanMs(100_000);
/// How often the use of processors is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Whose use it is.
const PROCESSES: [&str; 3] = ["users", "agent", "servers"];

/// What the processes used in the second up to a moment, in processors.
type Usage = Vec<(f64, [f64; PROCESSES.len()])>;

pub(crate) async fn measure(dir: &Path, figures: Option<&Path>) -> Outcome<()> {
    let federation = Federation::new(dir)?;
    let master = Daemons::start(&[federation.agent("master", None)?])?;
    let address = master.addresses[0].clone();
    let name = |server: usize| format!("server-{server}");
    let files = (0..SERVERS)
        .map(|server| federation.exploring_server(&name(server), &address))
        .collect::<Outcome<Vec<_>>>()?;
    let servers = Daemons::start(&files)?;
    let operator = federation.client(Role::Operator, "root", &address)?;
    attached(&operator, SERVERS).await?;
    let user = |user: usize| format!("user-{user}");
    let clients = (0..USERS)
        .map(|number| federation.client(Role::User, &user(number), &address))
        .collect::<Outcome<Vec<_>>>()?;

    let (over, looking) = watch::channel(false);
    let begun = Instant::now();
    let usage = tokio::spawn(watch_usage([std::process::id(), master.id(), servers.id()], looking));
    let mut tasks = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        tasks.spawn(async move { explore(client).await.map(|explored| (number, explored)) });
    }
    let mut explored = vec![None; USERS];
    let mut setup = Duration::ZERO;
    while let Some(task) = tasks.join_next().await {
        let (number, (done, used)) = task??;
        setup = setup.max(used);
        explored[number] = Some(done);
    }
    let all = begun.elapsed();
    over.send_replace(true);
    let usage = usage.await??;
    let shares = shares(&operator, &servers.addresses, &user).await?;
    let exploration = |(explored, share): (Option<ExplorationStatus>, Share)| {
        let explored = explored.ok_or("expected every user to be done")?;
        Outcome::Ok(Exploration {
            arrival: TimeMs::ZERO,
            deadline: TimeMs::ZERO + DEADLINE,
            weight: 1,
            mandatory: MANDATORY,
            mandatory_done: explored.mandatory_done.map(|done| TimeMs::ZERO + done),
            completed: explored.progress.mandatory + explored.progress.optional,
            usage: share.usage,
            useful: share.useful,
            killed: share.killed,
            left: TimeMs::ZERO + DEADLINE,
        })
    };
    let explorations = explored.into_iter().zip(shares).map(exploration).collect::<Outcome<Vec<_>>>()?;
    let capacity = vec![Capacity { since: TimeMs::ZERO, resources: SERVERS as f64 }];
    let run = ExplorationRun { capacity, explorations, stored_most: 0, submissions: 0 };
    let summary = summarize_exploration(&run);
    let most = SERVERS as i64 * DEADLINE.0 / i64::from(RUNTIME_MS);
    println!(
        "explorations of {USERS} users on {SERVERS} servers: {} unhappy, unfairness {:.2}, {} of {most} completed \
         ({:.1} %), setup {:.1} s, mandatory requests done after {:.1} s at most, all over after {:.1} s",
        summary.unhappy_users,
        summary.unfairness,
        summary.completed_requests,
        100.0 * summary.completed_requests as f64 / most as f64,
        setup.as_secs_f64(),
        summary.max_mandatory_s,
        all.as_secs_f64(),
    );
    let of = |from: f64, to: f64| {
        let of_process = |process: usize| {
            let seconds = usage.iter().filter(|(at, _)| (from..=to).contains(at));
            let used: Vec<f64> = seconds.map(|(_, used)| used[process]).collect();
            format!("{} {:.2}", PROCESSES[process], used.iter().sum::<f64>() / used.len().max(1) as f64)
        };
        (0..PROCESSES.len()).map(of_process).collect::<Vec<_>>().join(", ")
    };
    let (set_up, deadline) = (setup.as_secs_f64().ceil(), DEADLINE.0 as f64 / 1e3);
    println!("  processors used: setup: {}", of(0.5, set_up));
    println!("    monitoring: {}", of(set_up + 0.5, deadline));
    println!("    cleanup: {}", of(deadline + 0.5, f64::INFINITY));
    if let Some(figures) = figures {
        std::fs::create_dir_all(figures)?;
        std::fs::write(figures.join("explorations.svg"), figure(&usage).svg())?;
    }
    let met = [
        ("no unhappy user", summary.unhappy_users == 0),
        ("an unfairness of at most 0.20", summary.unfairness <= 0.20),
        ("99 % completed", summary.completed_requests as u64 >= COMPLETED),
        ("a setup of less than 10 s", setup < Duration::from_secs(10)),
    ];
    let missed: Vec<&str> = met.iter().filter(|(_, is_met)| !is_met).map(|(what, _)| *what).collect();
    if missed.is_empty() { Ok(()) } else { Err(format!("targets missed: {}", missed.join(", ")).into()) }
}

/// The use of processors over time.
fn figure(usage: &Usage) -> Plot {
    let curve = |(process, name): (usize, &&str)| Curve {
        name: (*name).to_owned(),
        points: usage.iter().map(|(at, used)| (*at, used[process])).collect(),
        is_line: true,
    };
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Linear };
    Plot {
        title: format!("{USERS} users on {SERVERS} servers"),
        x: axis("seconds"),
        y: axis("processors used"),
        curves: PROCESSES.iter().enumerate().map(curve).collect(),
    }
}

/// Explores; with how long it took until a request was at every server.
async fn explore(client: Client) -> Outcome<(ExplorationStatus, Duration)> {
    let spec = ExplorationSpec {
        executable: "pause".into(),
        parameters: ParameterSpace {
            fixed: [("ms".to_owned(), RUNTIME_MS.to_string())].into(),
            ..ParameterSpace::default()
        },
        inputs: Vec::new(),
        mandatory: MANDATORY,
        most: MOST,
        deadline: DEADLINE,
        legacy: None,
        reallocation: None,
        timeout: Duration::from_secs(60),
    };
    let begun = Instant::now();
    let mut setup = None;
    let explored = Explorer::new(&client, &spec, None)?.run(std::future::pending(), |update| {
        if let ExplorationUpdate::Progress(explored) = update
            && explored.servers >= SERVERS
        {
            setup.get_or_insert(begun.elapsed());
        }
    });
    let explored = explored.await?;
    Ok((explored, setup.ok_or("expected every server to take requests")?))
}

/// The share of each user over all servers.
async fn shares(
    operator: &Client,
    servers: &[AgentAddress],
    user: &impl Fn(usize) -> String,
) -> Outcome<Vec<Share>> {
    let mut sums = vec![Share::default(); USERS];
    for AgentAddress { name, address } in servers {
        let name: &Name = name;
        let shares = operator.users(name, address).await?;
        for (number, sum) in sums.iter_mut().enumerate() {
            let own = shares.users.iter().find(|share| share.user.as_str() == user(number));
            *sum = *sum + own.map(|share| share.share).unwrap_or_default();
        }
    }
    Ok(sums)
}

/// How much each process uses, second by second from now on.
async fn watch_usage(processes: [u32; PROCESSES.len()], mut over: watch::Receiver<bool>) -> Outcome<Usage> {
    let mut usage = Usage::new();
    let cpu = || -> Outcome<[Duration; PROCESSES.len()]> {
        let mut cpu = [Duration::ZERO; PROCESSES.len()];
        for (cpu, process) in cpu.iter_mut().zip(processes) {
            *cpu = Cost::of(process)?.cpu;
        }
        Ok(cpu)
    };
    let begun = Instant::now();
    let (mut looked, mut before) = (begun, cpu()?);
    loop {
        let last = tokio::select! {
            _ = over.wait_for(|over| *over) => true,
            () = tokio::time::sleep(POLL_INTERVAL) => false,
        };
        let (present, now) = (Instant::now(), cpu()?);
        let passed = (present - looked).as_secs_f64();
        let mut used = [0.0; PROCESSES.len()];
        for (process, used) in used.iter_mut().enumerate() {
            *used = (now[process] - before[process]).as_secs_f64() / passed;
        }
        usage.push(((present - begun).as_secs_f64(), used));
        if last {
            return Ok(usage);
        }
        (looked, before) = (present, now);
    }
}
