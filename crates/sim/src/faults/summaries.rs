//! The summaries that daemons report to their agents, with their faults: reports that come late or never, and daemons whose summaries are
//! wrong.

use std::collections::BTreeMap;

use pliant_control::agent::DiscoveryResult;
use pliant_model::rng::stream_seed;
use pliant_model::{Procs, Span, Speed, Time};
use pliant_policy::discovery::{ClusterBounds, ReportRule, ServiceSet, Summary, SummaryReports};
use pliant_policy::profile::{FreePlan, FreeStep};
use pliant_policy::tuning::SlackSizing;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::connections::UpMessage;
use super::daemon::ORIGIN;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

/// From this seed on daemons report summaries.
const SUMMARIES_FROM: u64 = 611_000_000;

/// How daemons of a schedule report their summaries.
struct SummaryPlan {
    rule: ReportRule,
    /// The percentages of reports that are lost and of daemons whose summaries are wrong.
    lost: u32,
    wrong: u32,
}

/// The summaries of a schedule.
pub(super) struct Summaries {
    plan: Option<SummaryPlan>,
    rng: ChaCha8Rng,
    daemons: BTreeMap<Peer, Reporter>,
}

/// A daemon that reports its summary.
#[derive(Default)]
struct Reporter {
    reports: SummaryReports,
    /// The next one is scheduled.
    is_planned: bool,
    /// Its summaries are wrong; none until that is drawn.
    is_wrong: Option<bool>,
}

impl Summaries {
    pub(super) fn draw(seed: u64) -> Summaries {
        let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "summaries"));
        let plan = (seed >= SUMMARIES_FROM && rng.random_bool(0.9)).then(|| {
            let mut share = |most: u32| if rng.random_bool(0.5) { 0 } else { rng.random_range(1..=most) };
            let (lost, wrong) = (share(60), share(100));
            let every = Span([0, 1, 5, 60][rng.random_range(0..4)]);
            let least_change = Span([0, 10, 60][rng.random_range(0..3)]);
            SummaryPlan { rule: ReportRule { every, least_change }, lost, wrong }
        });
        Summaries { plan, rng, daemons: BTreeMap::new() }
    }
}

impl World {
    /// Plans the next report of a daemon whose summary may have changed.
    pub(super) fn summary_changed(&mut self, peer: Peer) {
        let now = self.summary_time();
        let Summaries { plan: Some(plan), daemons, .. } = &mut self.summaries else { return };
        let reporter = daemons.entry(peer).or_default();
        reporter.reports.note_change();
        if reporter.is_planned {
            return;
        }
        let Some(due) = reporter.reports.due(now, plan.rule) else { return };
        reporter.is_planned = true;
        let pause = (due.max(now) - now).0.unsigned_abs() * 1_000;
        self.after(pause, WorldEvent::Summary(peer));
    }

    /// Reports the summary of a daemon from its beginning, over a new connection.
    pub(super) fn restart_summary(&mut self, peer: Peer) {
        let Summaries { plan: Some(_), daemons, .. } = &mut self.summaries else { return };
        daemons.entry(peer).or_default().reports.restart();
        self.summary_changed(peer);
    }

    /// Reports the summary of a daemon if it is connected.
    pub(super) fn report_summary(&mut self, peer: Peer) {
        let (at, now) = (self.queue.now(), self.summary_time());
        if let Some(reporter) = self.summaries.daemons.get_mut(&peer) {
            reporter.is_planned = false;
        }
        if !self.is_up(peer) || !self.is_attached(peer) {
            return;
        }
        let present = match peer {
            Peer::Agent(index) => self.agents[index].daemon.node.machine.summary(),
            Peer::Server(index) => {
                let daemon = &mut self.servers[index].daemon;
                let now = daemon.clock.now(at);
                daemon.node.machine.summary(now)
            }
            Peer::Client(_) => return,
        };
        let has_faults = self.has_faults();
        let Summaries { plan: Some(plan), rng, daemons } = &mut self.summaries else { return };
        let reporter = daemons.entry(peer).or_default();
        let Some(mut summary) = reporter.reports.report(now, present, plan.rule) else { return };
        let is_wrong = *reporter.is_wrong.get_or_insert_with(|| rng.random_range(0..100) < plan.wrong);
        if is_wrong {
            summary = wrong(rng);
        }
        let is_lost = has_faults && rng.random_range(0..100) < plan.lost;
        if !is_lost {
            self.send_up(peer, UpMessage::Summary(summary));
        }
    }

    /// Checks the answer to a client: a discovery that has found no server has asked every server, unless one is silent. Then its client
    /// discovers again.
    pub(super) fn check_asked(&mut self, found: &DiscoveryResult) {
        let is_silent = !found.silent.is_empty() || found.more > 0;
        if found.vectors.is_empty() && found.not_asked > 0 && !is_silent {
            let what = format!("a discovery found no server and has not asked {}", found.not_asked);
            self.report_violation("asked", what);
        }
    }

    fn summary_time(&self) -> Time {
        Time(ORIGIN.0 + (self.queue.now() / 1_000) as i64)
    }
}

/// A summary that has nothing to do with the daemon.
fn wrong(rng: &mut ChaCha8Rng) -> Summary {
    let cluster = |rng: &mut ChaCha8Rng| {
        let at = Time(ORIGIN.0 + rng.random_range(-10_000..1_000_000));
        let most = wrong_line(rng);
        let least = rng.random_bool(0.5).then(|| wrong_line(rng));
        let mut speed = || Speed::new(rng.random_range(0.01..100.0)).expect("it is positive");
        let (speed, slowest) = (speed(), speed());
        let mut procs = || Procs(rng.random_range(0..64));
        let (largest, floor_least, floor_most) = (procs(), procs(), procs());
        let slack_thousandths = rng.random_range(0..100_000);
        ClusterBounds {
            speed,
            slowest,
            procs: largest,
            counts_resources: rng.random_bool(0.5),
            plan: FreePlan::from_lines(at, most, least).filter(|_| rng.random_bool(0.8)),
            sizing: Some(SlackSizing { slack_thousandths, floor_least, floor_most })
                .filter(|_| rng.random_bool(0.5)),
        }
    };
    let groups = (0..rng.random_range(0..3)).map(|_| cluster(rng)).collect();
    Summary { groups, services: ServiceSet::from_hashes([]).filter(|_| rng.random_bool(0.5)) }
}

/// Any free processors at any times.
fn wrong_line(rng: &mut ChaCha8Rng) -> Vec<FreeStep> {
    let (mut after_s, steps) = (0, rng.random_range(1..FreePlan::STEPS_MAX));
    let step = |number| {
        after_s = if number == 0 { 0 } else { after_s + rng.random_range(1..20_000) };
        let procs = if rng.random_bool(0.1) { u32::MAX } else { rng.random_range(0..64) };
        FreeStep { after_s, procs }
    };
    (0..steps).map(step).collect()
}
