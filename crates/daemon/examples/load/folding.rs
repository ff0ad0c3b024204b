//! Task folding for real (paper 001, section 3): a job made for two cores, on both and folded onto one.
//!
//! A server with two cores of this host, bound to them, under H1. The job starts one process per processor that it was
//! made for, each with the same arithmetic to do. Folded, its processes share the core that a sleeping job leaves free.

use std::path::Path;
use std::time::Duration;

use pliant_client::{Client, SubmitOrder};
use pliant_control::job::{JobState, Work};
use pliant_control::names::{Handle, Key};
use pliant_model::{Procs, Span, Speedup};
use pliant_staging::ResultName;
use pliant_transport::Role;
use pliant_wire::{Download, Script, SubmittedWork};

use crate::Outcome;
use crate::federation::{Daemons, Federation, attached};
use crate::figures::{POLL_INTERVAL, Times};

const CLUSTER: &str = "procs = 2\nbatch = \"h1\"\npin = true";
const ROUNDS: u128 = 5;

/// Says what it was made for, what it got, and how many nanoseconds it took.
const JOB: &str = r#"#!/bin/sh
begun=$(date +%s%N)
for part in $(seq $PLIANT_PROCS); do
    awk 'BEGIN { for (i = 0; i < 20000000; i++) sum += i % 7; print sum }' > part.$part &
done
wait
echo $PLIANT_PROCS $PLIANT_CORES $(($(date +%s%N) - begun))
"#;

pub(crate) async fn measure(dir: &Path) -> Outcome<()> {
    if std::thread::available_parallelism()?.get() < 2 {
        return Err("expected a host of two cores or more to fold a job onto one of them".into());
    }
    let federation = Federation::new(dir)?;
    let agent = Daemons::start(&[federation.agent("master", None)?])?;
    let address = agent.addresses[0].clone();
    let _server = Daemons::start(&[federation.server("host", &address, CLUSTER)?])?;
    let user = federation.client(Role::User, "user", &address)?;
    attached(&user, 1).await?;
    let (mut whole, mut folded) = (Times::default(), Times::default());
    for round in 0..ROUNDS {
        let job = |number: u128| {
            SubmitOrder::new(Key((10 * round + number).to_be_bytes()), script(JOB, 2, Span(60)))
        };
        whole.add(run(&user, &job(0), "2 2").await?);
        let sleeps = SubmitOrder::new(
            Key((10 * round + 1).to_be_bytes()),
            script("#!/bin/sh\nexec sleep 600\n", 1, Span(650)),
        );
        let holder = user.submit(&sleeps, |_| Ok(())).await?.handle;
        while user.job(&holder).await?.state != JobState::Active {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let ran = run(&user, &job(2), "2 1").await;
        user.cancel(&holder).await?;
        user.wait(&holder, |_| {}).await?;
        folded.add(ran?);
    }
    println!("folding, a job made for 2 cores, {ROUNDS} times each");
    println!("  on 2 cores: {}", whole.text());
    println!("  on 1 core:  {}", folded.text());
    println!("  ratio of the medians: {:.3}", folded.median() / whole.median());
    Ok(())
}

fn script(text: &str, procs: u32, walltime: Span) -> SubmittedWork {
    let work = Work::new(Procs(procs), walltime, Speedup::Rigid);
    SubmittedWork::Script(Script::new("job.sh".to_owned(), text.into(), work))
}

/// Runs a job to its end. Returns what it measured, if it was made for and got what was expected.
async fn run(user: &Client, order: &SubmitOrder, expected: &str) -> Outcome<Duration> {
    let handle: Handle = user.submit(order, |_| Ok(())).await?.handle;
    let ended = user.wait(&handle, |_| {}).await?;
    let wanted = Download { handle, name: ResultName::Stdout, offset: 0, follow: false, run: None };
    let mut said = Vec::new();
    let piece = |piece: &[u8]| {
        said.extend_from_slice(piece);
        Ok(())
    };
    user.output(&wanted, piece).await?;
    let said = String::from_utf8(said)?;
    let nanoseconds = said.trim().strip_prefix(expected).map(str::trim);
    let nanoseconds = nanoseconds
        .ok_or_else(|| format!("expected `{expected}` first, found `{said}` ({})", ended.state))?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}
