//! Everything together: three real Slurm clusters that local users load directly, moldable jobs that come through an
//! agent which moves them while they wait, and daemons that are killed in the middle of rounds that move some. `moves.rs` kills them
//! at random moments of single handoffs.

mod benchmark;
mod site;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pliant_control::agent::{ProposedMove, ReallocationConfig};
use pliant_control::job::{Exit, JobState};
use pliant_model::Span;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_testing::slurm::{SlurmClusters, Wanted};
use pliant_wire::MovingChange;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use site::{SERVERS, Site};
use workload::{Amount, Scaling, Workload};

use crate::harness::*;

/// While daemons are killed in each cycle, no cycle starts by itself: nothing would be left to move.
const MOVING: &str =
    "[reallocation]\nalgorithm = \"regular\"\nperiod_s = 86400\nthreshold_s = 5\nearly_s = 0\n";
const AMOUNT: Amount =
    Amount { clusters: SERVERS.len(), locals: 6, moldable: 60, seconds: 40, scaling: Scaling::Narrow };

/// Who is killed in the middle of a round, as seen from the first move that it proposes.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Agent,
    Source,
    Target,
}

impl Victim {
    fn of(self, proposal: &ProposedMove) -> String {
        match self {
            Victim::Agent => MASTER.to_owned(),
            Victim::Source => proposal.from.to_string(),
            Victim::Target => proposal.to.to_string(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_jobs_move_between_loaded_clusters_and_run_once_while_daemons_are_killed() {
    let wanted = Wanted { clusters: SERVERS.len() as u32, nodes: 4, cpus: 4, ..Wanted::default() };
    let Some(slurm) = SlurmClusters::start(wanted) else { return };
    let mut site = Site::start(slurm.clusters(), MOVING).await;
    let work = Workload::draw(60, AMOUNT);
    let playing = site.play(&work);
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let operator = site.federation.operator();
    let mut killed_in_rounds: BTreeSet<String> = BTreeSet::new();
    let has_met_both = |killed: &BTreeSet<String>| killed.contains(MASTER) && killed.len() > 1;
    // At least five, and more if rounds were over before a daemon was killed.
    for (number, victim) in [Victim::Agent, Victim::Source, Victim::Target].into_iter().cycle().enumerate() {
        if number >= 5 && has_met_both(&killed_in_rounds) || number >= 15 {
            break;
        }
        let proposal = until("a job to have an earlier completion elsewhere", async || {
            let planned = operator.reallocate(true).await.ok()?;
            let is_over = playing.is_finished() && site.left().is_empty();
            planned.proposals.into_iter().next().map(Some).or(is_over.then_some(None))
        })
        .await;
        let Some(proposal) = proposal else { break };
        let victim = victim.of(&proposal);
        let asked = site.federation.operator();
        let round = tokio::spawn(async move { asked.reallocate(false).await });
        tokio::time::sleep(Duration::from_millis(u64::from(random.next_u32() % 60))).await;
        if !round.is_finished() {
            killed_in_rounds.insert(victim.clone());
        }
        site.federation.kill(&victim);
        // Whatever was answered, if anything was.
        let _ = round.await.unwrap();
        site.federation.revive(&victim);
        site.federation.attached(SERVERS.len()).await;
    }
    let policy = Reallocation::new(Algorithm::Regular, Heuristic::Mct);
    let policy = Reallocation { period: Span(10), threshold: Span(5), ..policy };
    operator
        .change_moving(&MovingChange::Set(ReallocationConfig { policy, early: Some(Span(5)) }))
        .await
        .unwrap();
    let accepted = playing.await.unwrap();
    let alice = site.federation.client("alice");
    let ended = site.ended(&alice, &accepted).await;
    let mut expected = BTreeMap::new();
    for job in &ended {
        assert_eq!((job.state, &job.exit), (JobState::Completed, &Some(Exit::Code(0))), "{job:?}");
        let stdout = &fetched(&alice, &job.handle).await["stdout"];
        assert_eq!(*stdout, format!("I am {}\n", job.handle).into_bytes());
        expected.insert(job.handle.to_string(), 1);
    }
    assert_eq!(expected.len(), AMOUNT.moldable);
    assert_eq!(runs(&site.lines()), expected, "each ran once");
    until("nothing to be left in any queue", async || site.left().is_empty().then_some(())).await;
    assert_eq!(
        site.local_runs(),
        (0..work.locals.len() as u32).collect::<Vec<_>>(),
        "local jobs were left alone"
    );
    let moves: usize = ended.iter().map(|job| job.hops.len()).sum();
    assert!(moves > 0, "nothing has moved");
    assert!(
        has_met_both(&killed_in_rounds),
        "the agent and a server are killed in the middle of a round, not {killed_in_rounds:?}"
    );
    let last = ended.iter().filter_map(|job| job.ended).max().unwrap();
    let first = ended.iter().map(|job| job.submitted).min().unwrap();
    eprintln!(
        "{} jobs in {}: {moves} moves, {killed_in_rounds:?} killed in rounds",
        ended.len(),
        last - first
    );
}
