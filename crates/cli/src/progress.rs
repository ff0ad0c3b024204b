//! Progress on standard error: a bar on a terminal; otherwise nothing, or a line from time to time.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use pliant_model::Time;
use pliant_sim::{Observer, campaign};

use crate::table::{counted, grouped};

const TEMPLATE: &str = "{msg} [{wide_bar}] {human_pos}/{human_len}, {eta} left";

/// A bar; invisible where standard error is no terminal.
pub(crate) fn bar(total: u64, message: &str) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(message.to_owned());
    let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("=> "));
    bar
}

/// A status line; invisible where standard error is no terminal.
pub(crate) fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// One simulation on a bar of jobs, which other simulations may share.
pub(crate) struct JobProgress<'a> {
    bar: &'a ProgressBar,
    reported: u64,
}

impl<'a> JobProgress<'a> {
    pub(crate) fn new(bar: &'a ProgressBar) -> JobProgress<'a> {
        JobProgress { bar, reported: 0 }
    }
}

impl Observer for JobProgress<'_> {
    fn progress(&mut self, done: usize, _total: usize, _now: Time) -> bool {
        let done = done as u64;
        self.bar.inc(done.saturating_sub(self.reported));
        self.reported = done;
        true
    }
}

/// A campaign's runs: a bar on a terminal, otherwise a line for every tenth.
pub(crate) struct CampaignProgress {
    quiet: bool,
    bar: ProgressBar,
    total: AtomicUsize,
    kept: AtomicUsize,
    done: AtomicUsize,
    begun: Instant,
}

impl CampaignProgress {
    pub(crate) fn new(quiet: bool) -> CampaignProgress {
        let bar = if quiet { ProgressBar::hidden() } else { bar(0, "runs") };
        let [total, kept, done] = [0; 3].map(AtomicUsize::new);
        CampaignProgress { quiet, bar, total, kept, done, begun: Instant::now() }
    }

    /// The bar.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn lines(&self) -> bool {
        !self.quiet && !std::io::stderr().is_terminal()
    }
}

impl campaign::Progress for CampaignProgress {
    fn planned(&self, total: usize, kept: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(kept as u64);
        // Kept runs say nothing about the time of the others.
        self.bar.reset_eta();
        self.total.store(total, Ordering::Relaxed);
        self.kept.store(kept, Ordering::Relaxed);
        self.done.store(kept, Ordering::Relaxed);
        if self.lines() {
            let already =
                if kept > 0 { format!(", {} there already", grouped(kept as u64)) } else { String::new() };
            stderr_line!("{}{already}", counted(total as u64, "run"));
        }
    }

    fn finished(&self, _key: &str) {
        self.bar.inc(1);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let total = self.total.load(Ordering::Relaxed).max(1);
        if self.lines() && done * 10 / total > (done - 1) * 10 / total {
            let (now, rest) = (done - self.kept.load(Ordering::Relaxed), total.saturating_sub(done));
            let left = HumanDuration(self.begun.elapsed().mul_f64(rest as f64 / now.max(1) as f64));
            let left = if rest > 0 { format!(", about {left} left") } else { String::new() };
            stderr_line!("{} of {}{left}", grouped(done as u64), counted(total as u64, "run"));
        }
    }
}
