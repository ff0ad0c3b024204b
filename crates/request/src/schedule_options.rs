//! The options of `pliant submit` about when a job may run.

use clap::Args;
use pliant_control::job::Work;
use pliant_model::Time;
use pliant_wire::bounds;

use crate::instants::instant;
use crate::numbers::whole;

/// Options about when a script runs, on the command line or in a `#PLIANT` line.
#[derive(Args, Clone, PartialEq, Default, Debug)]
pub struct ScheduleOptions {
    /// The script does not start before this instant, such as now+1h, 16:00 or 2026-12-01T08:00, in local time.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    begin: Option<Time>,
    /// The script completes by this instant, or does not run.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    deadline: Option<Time>,
    /// How far the script stands back behind other scripts of yours at its server: those with a lower number go first [default: 0].
    #[arg(long, value_name = "N", value_parser = whole(bounds::NICE))]
    nice: Option<u32>,
    /// How often the script runs again, from its beginning, if a node fails under it [default: 0].
    #[arg(long, value_name = "N", value_parser = whole(bounds::REQUEUE))]
    requeue: Option<u32>,
}

impl ScheduleOptions {
    /// These options, with those of `weaker` where these say nothing.
    pub fn over(self, weaker: ScheduleOptions) -> ScheduleOptions {
        ScheduleOptions {
            begin: self.begin.or(weaker.begin),
            deadline: self.deadline.or(weaker.deadline),
            nice: self.nice.or(weaker.nice),
            requeue: self.requeue.or(weaker.requeue),
        }
    }

    /// The first of these options that is given and changes something.
    pub fn first(&self) -> Option<&'static str> {
        let options = [
            ("--begin", self.begin.is_some()),
            ("--deadline", self.deadline.is_some()),
            ("--nice", self.nice.is_some_and(|nice| nice > 0)),
            ("--requeue", self.requeue.is_some_and(|requeue| requeue > 0)),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// How often it may run again after its node failed, if that is given.
    pub fn requeues(&self) -> Option<u32> {
        self.requeue
    }

    /// The same work with these options.
    pub fn applied(&self, work: Work) -> Work {
        let ScheduleOptions { begin, deadline, nice, requeue } = *self;
        Work { begin, deadline, nice: nice.unwrap_or(0), requeue: requeue.unwrap_or(0), ..work }
    }
}
