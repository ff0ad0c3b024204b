//! The options of `pliant submit` about when a job may run.

use clap::Args;
use pliant_control::job::Work;
use pliant_model::Time;

use crate::instants::instant;

/// Options about when a script runs, on the command line or in a `#PLIANT` line.
#[derive(Args, Clone, PartialEq, Default, Debug)]
pub(crate) struct ScheduleOptions {
    /// The script does not start before this instant, such as now+1h, 16:00 or 2026-12-01T08:00, in local time.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    begin: Option<Time>,
}

impl ScheduleOptions {
    /// These options, with those of `weaker` where these say nothing.
    pub(crate) fn over(self, weaker: ScheduleOptions) -> ScheduleOptions {
        ScheduleOptions { begin: self.begin.or(weaker.begin) }
    }

    /// The first of these options that is given.
    pub(crate) fn first(&self) -> Option<&'static str> {
        self.begin.map(|_| "--begin")
    }

    /// The same work with these options.
    pub(crate) fn applied(&self, work: Work) -> Work {
        Work { begin: self.begin, ..work }
    }
}
