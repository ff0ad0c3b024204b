//! Paper 004, section 5.2: 138 servers, 100 users at once with requests of a second, until a deadline of 100 s.
//!
//! Requests are pauses, so that two processors can stand for 138. Every server has its own threads, journals and TLS
//! connections, but all share a process; so do the users, each with a certificate and connections of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use pliant_control::names::Name;
use pliant_live::client::{Client, Explored, Explorer, Sweep, Wanted};
use pliant_live::config::AgentAddress;
use pliant_live::identity::Role;
use pliant_model::{Capacity, Exploration, ExplorationRun, SpanMs, TimeMs};
use pliant_report::summarize_exploration;
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
const DEADLINE: SpanMs = SpanMs(100_000);
/// How often the use of processors is looked at.
const LOOK: Duration = Duration::from_secs(5);

pub(crate) async fn measure(dir: &Path) -> Outcome<()> {
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
    let costs = tokio::spawn(watch_costs([std::process::id(), master.id(), servers.id()], looking));
    let begun = Instant::now();
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
    let lines = costs.await??;
    let consumed = consumed(&operator, &servers.addresses, &user).await?;
    let exploration = |(explored, consumed): (Option<Explored>, SpanMs)| {
        let explored = explored.ok_or("expected every user to be done")?;
        Outcome::Ok(Exploration {
            arrival: TimeMs::ZERO,
            deadline: TimeMs::ZERO + DEADLINE,
            weight: 1,
            mandatory: MANDATORY,
            mandatory_done: explored.mandatory_done.map(|done| TimeMs::ZERO + done),
            completed: explored.progress.mandatory + explored.progress.optional,
            consumed,
            useful: SpanMs::ZERO,
            killed: 0,
            left: TimeMs::ZERO + DEADLINE,
        })
    };
    let explorations = explored.into_iter().zip(consumed).map(exploration).collect::<Outcome<Vec<_>>>()?;
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
    println!("  CPU by {} s, of a processor: clients, agent, servers", LOOK.as_secs());
    lines.iter().for_each(|line| println!("  {line}"));
    Ok(())
}

/// Explores; with how long it took until a request was at every server.
async fn explore(client: Client) -> Outcome<(Explored, Duration)> {
    let wanted = Wanted {
        service: "pause".to_owned(),
        sweep: Sweep { fixed: [("ms".to_owned(), RUNTIME_MS.to_string())].into(), varied: Vec::new() },
        mandatory: MANDATORY,
        most: MOST,
        deadline: DEADLINE,
        legacy: None,
        patience: Duration::from_secs(60),
    };
    let begun = Instant::now();
    let mut setup = None;
    let explored = Explorer::new(&client, &wanted, None)?.run(std::future::pending(), |explored| {
        if explored.servers >= SERVERS {
            setup.get_or_insert(begun.elapsed());
        }
    });
    let explored = explored.await?;
    Ok((explored, setup.ok_or("expected every server to take requests")?))
}

/// What each user has had of all servers.
async fn consumed(
    operator: &Client,
    servers: &[AgentAddress],
    user: &impl Fn(usize) -> String,
) -> Outcome<Vec<SpanMs>> {
    let mut consumed = vec![SpanMs::ZERO; USERS];
    for AgentAddress { name, address } in servers {
        let name: &Name = name;
        let shares = operator.users(name, address).await?;
        for (number, consumed) in consumed.iter_mut().enumerate() {
            let own = shares.users.iter().find(|share| share.user.as_str() == user(number));
            *consumed = *consumed + own.map_or(SpanMs::ZERO, |share| share.share.consumed);
        }
    }
    Ok(consumed)
}

/// How much of a processor each process used, from time to time.
async fn watch_costs(processes: [u32; 3], mut over: watch::Receiver<bool>) -> Outcome<Vec<String>> {
    let mut lines = Vec::new();
    let cpu = || processes.iter().map(|process| Ok(Cost::of(*process)?.cpu)).collect::<Outcome<Vec<_>>>();
    let begun = Instant::now();
    let mut before = cpu()?;
    loop {
        let last = tokio::select! {
            _ = over.wait_for(|over| *over) => true,
            () = tokio::time::sleep(LOOK) => false,
        };
        let now = cpu()?;
        let used =
            now.iter().zip(&before).map(|(now, before)| (*now - *before).as_secs_f64() / LOOK.as_secs_f64());
        let used: Vec<String> = used.map(|share| format!("{share:.2}")).collect();
        lines.push(format!("{:3.0} s: {}", begun.elapsed().as_secs_f64(), used.join(" ")));
        if last {
            return Ok(lines);
        }
        before = now;
    }
}
