//! One user asks without end; how long do another user's submissions and listings take meanwhile?
//!
//! The agent has a long past and the limits of its defaults. The questions are those that look at most: pages of the asker's
//! jobs, single ended jobs, and how good the estimates of the newest jobs were.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pliant_client::{Client, ClientError};
use pliant_control::names::Handle;
use pliant_transport::Role;
use pliant_wire::JobsQuery;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::Outcome;
use crate::archive::{self, server_name};
use crate::federation::{Daemons, Federation, attached};
use crate::figures::{Cost, Times};
use crate::submits::{Fillers, PROCS, fill, submit_for};

const ENDED: u32 = 600_000;
const SERVER: &str = "lyon";
const QUESTIONS_PER_SECOND: u64 = 2_000;
/// Questions that are under way at a time; more are not asked, which is printed.
const OPEN: usize = 4_000;
/// The newest jobs whose estimates are looked at.
const LAST: u32 = 10_000;

pub(crate) async fn measure(dir: &Path, time: Duration) -> Outcome<()> {
    let federation = Federation::with_default_limits(dir)?;
    let fillers = Fillers(vec![federation.path(SERVER)]);
    let file = federation.agent("master", None)?;
    let folder = file.parent().ok_or("expected a folder")?.join("state");
    archive::write_ended(&mut *pliant_journal::open_sqlite(&folder)?, ENDED)?;
    let agent = Daemons::start(std::slice::from_ref(&file))?;
    let address = agent.addresses[0].clone();
    let server = Daemons::start(&[federation.server(SERVER, &address, &format!("procs = {PROCS}"))?])?;
    let operator = federation.client(Role::Operator, "operator", &address)?;
    attached(&operator, 1).await?;
    fill(&operator, &[SERVER]).await?;

    // Two of those who have ended jobs.
    let victim = federation.client(Role::User, "user1", &address)?;
    println!(
        "flood: an agent with {ENDED} ended jobs, a server; one user submits and lists 100 jobs, one at a time"
    );
    others(&victim, time, "no flood").await?;
    let asker = federation.client(Role::User, "user2", &address)?;
    for kind in [Kind::Pages, Kind::Ended, Kind::Accuracy, Kind::All] {
        let before = agent.cost()?.cpu;
        let flood = Flood::start(asker.clone(), kind);
        others(&victim, time, &format!("flood of {}", kind.text())).await?;
        println!("    {}", flood.end().await?);
        let used = (agent.cost()?.cpu - before).as_secs_f64() / (2.0 * time.as_secs_f64());
        println!("    agent: {used:.2} cores, {} MB", Cost::of(agent.id())?.resident_mb.0);
    }
    drop((server, agent, fillers));
    Ok(())
}

/// Submits, then lists, each for that time.
async fn others(victim: &Client, time: Duration, when: &str) -> Outcome<()> {
    let (mut times, failed) = submit_for(std::slice::from_ref(victim), 1, time).await?;
    println!("  {when}: {} submissions, {failed} failed: {}", times.len(), times.text());
    let mut times = Times::default();
    let until = Instant::now() + time;
    while Instant::now() < until {
        let begun = Instant::now();
        victim.jobs(&own_jobs()).await?;
        times.add(begun.elapsed());
    }
    println!("  {when}: {} listings: {}", times.len(), times.text());
    Ok(())
}

fn own_jobs() -> JobsQuery {
    JobsQuery { owner: None, all: false, server: None, states: Vec::new(), limit: 100, before: None }
}

/// What is asked.
#[derive(Clone, Copy)]
enum Kind {
    Pages,
    Ended,
    Accuracy,
    All,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Pages => "pages of 100 own jobs",
            Kind::Ended => "single ended jobs",
            Kind::Accuracy => "estimates of the newest jobs",
            Kind::All => "all three in turn",
        }
    }

    async fn ask(self, client: &Client, number: u64) -> Result<(), ClientError> {
        match (self, number % 3) {
            (Kind::Pages, _) | (Kind::All, 0) => client.jobs(&own_jobs()).await.map(drop),
            (Kind::Ended, _) | (Kind::All, 1) => {
                // `user2` owns every job whose number is 2 more than a multiple of the users.
                let index = number.wrapping_mul(2_654_435_761) % u64::from(ENDED / archive::USERS);
                let number = index as u32 * archive::USERS + 2;
                client.find(&Handle { server: server_name(number), number }).await.map(drop)
            }
            (Kind::Accuracy | Kind::All, _) => {
                client.accuracy(pliant_wire::AccuracyQuery { last: LAST, days: 0 }).await.map(drop)
            }
        }
    }
}

/// Questions that are asked at a steady rate until they end.
struct Flood {
    begun: Instant,
    counts: Arc<Counts>,
    asking: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
    left_out: AtomicU64,
}

impl Flood {
    fn start(client: Client, kind: Kind) -> Flood {
        let counts = Arc::<Counts>::default();
        let asking = tokio::spawn(ask(client, kind, counts.clone()));
        Flood { begun: Instant::now(), counts, asking }
    }

    /// Ends it. Returns what became of its questions.
    async fn end(self) -> Outcome<String> {
        let lasted = self.begun.elapsed().as_secs_f64();
        self.asking.abort();
        let rate = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / lasted;
        let Counts { answered, refused, left_out } = &*self.counts;
        let (answered, refused, left_out) = (rate(answered), rate(refused), rate(left_out));
        // What is still under way ends before the next measurement.
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(format!(
            "a second: {answered:.0} answered, {refused:.0} refused, {left_out:.0} not asked ({OPEN} were open)"
        ))
    }
}

async fn ask(client: Client, kind: Kind, counts: Arc<Counts>) {
    let open = Arc::new(Semaphore::new(OPEN));
    let begun = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_millis(2));
    let mut number = 0;
    loop {
        tick.tick().await;
        let due = begun.elapsed().as_micros() as u64 * QUESTIONS_PER_SECOND / 1_000_000;
        while number < due {
            number += 1;
            let Ok(place) = open.clone().try_acquire_owned() else {
                counts.left_out.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let (client, counts) = (client.clone(), counts.clone());
            tokio::spawn(async move {
                let count = match kind.ask(&client, number).await {
                    Ok(()) => &counts.answered,
                    Err(_) => &counts.refused,
                };
                count.fetch_add(1, Ordering::Relaxed);
                drop(place);
            });
        }
    }
}
