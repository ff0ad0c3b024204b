//! The options of `pliant submit` about when a job may run.

use clap::Args;
use pliant_control::job::Work;
use pliant_model::{Span, Time};
use pliant_wire::bounds;

use crate::RequestError;
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

    /// True if these options say what an option of `sbatch` says as well.
    pub fn replaces(&self, long: &str) -> bool {
        match long {
            "begin" => self.begin.is_some(),
            "deadline" => self.deadline.is_some(),
            "nice" => self.nice.is_some(),
            "requeue" | "no-requeue" => self.requeue.is_some(),
            _ => false,
        }
    }

    /// How often it may run again after its node failed, if that is given.
    pub fn requeues(&self) -> Option<u32> {
        self.requeue
    }

    /// The same work with these options.
    ///
    /// # Errors
    ///
    /// If no server could ever complete it in time.
    pub fn applied(&self, work: Work) -> Result<Work, RequestError> {
        let ScheduleOptions { begin, deadline, nice, requeue } = *self;
        let work = Work { begin, deadline, nice: nice.unwrap_or(0), requeue: requeue.unwrap_or(0), ..work };
        let (Some(begin), Some(deadline)) = (begin, deadline) else { return Ok(work) };
        // Elsewhere it may take less than that.
        let takes = if work.fixed_time { work.walltime } else { Span(1) };
        if begin + takes > deadline {
            let least = if work.fixed_time { "by --time after --begin" } else { "after --begin" };
            let (begin, deadline) = (begin.utc(), deadline.utc());
            let problem = format!("expected --deadline {least} ({begin}) at least, found {deadline}");
            return Err(
                RequestError::input(problem).hint("the script has to begin and to complete in between")
            );
        }
        Ok(work)
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::{Procs, Speedup};

    use super::*;

    #[test]
    fn a_deadline_leaves_the_time_after_the_begin() {
        let check = |fixed_time: bool, begin: Option<i64>, deadline: Option<i64>, expected: Option<&str>| {
            let (begin, deadline) = (begin.map(Time), deadline.map(Time));
            let options = ScheduleOptions { begin, deadline, ..ScheduleOptions::default() };
            let work = Work { fixed_time, ..Work::new(Procs(1), Span(100), Speedup::Rigid) };
            let applied = options.applied(work).map(|work| (work.begin, work.deadline));
            match expected {
                None => assert_eq!(applied.unwrap(), (begin, deadline)),
                Some(expected) => assert_eq!(applied.unwrap_err().message(), expected),
            }
        };
        check(true, Some(50), None, None);
        check(true, None, Some(20), None);
        check(true, Some(50), Some(150), None);
        check(
            true,
            Some(50),
            Some(149),
            Some(
                "expected --deadline by --time after --begin (1970-01-01 00:00:50Z) at least, found 1970-01-01 00:02:29Z",
            ),
        );
        // With a speedup it may take less.
        check(false, Some(50), Some(51), None);
        let after =
            "expected --deadline after --begin (1970-01-01 00:00:50Z) at least, found 1970-01-01 00:00:50Z";
        check(false, Some(50), Some(50), Some(after));
    }
}
