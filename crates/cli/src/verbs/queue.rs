//! `pliant queue`: jobs, newest first.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pliant_client::{Client, ClientError};
use pliant_control::explain::Explanation;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::{Handle, Name, User};
use pliant_model::{Estimate, Time};
use pliant_site::services::show_duration;
use pliant_wire::{JobsPage, JobsQuery, bounds};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::federation::{Access, Session, inform};
use crate::job::{described, end_by, short_exit};
use crate::numbers::whole;
use crate::output::Output;
use crate::table::Table;
use crate::time_text::{from_now, now};
use crate::verbs::moves;

/// The most jobs that are listed: they are kept in memory.
const LAST_MAX: u32 = 1_000_000;
/// Of how many jobs the present plan is asked for.
const PLANS_MAX: usize = 64;
/// How long servers may take to answer.
const PLANS_TIMEOUT: Duration = Duration::from_secs(3);

/// What the servers of some waiting jobs plan for them now; none if there is no plan.
type Plans = BTreeMap<Handle, Option<Estimate>>;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Lists the jobs of all users (operators only).
    #[arg(long)]
    all: bool,
    /// Lists the jobs of this user (another user than yourself: operators only).
    #[arg(long, value_name = "USER")]
    user: Option<User>,
    /// Lists the jobs of this server only.
    #[arg(long, value_name = "NAME")]
    server: Option<Name>,
    /// Lists jobs in these states only, separated by commas.
    #[arg(long, value_name = "STATE", value_delimiter = ',', ignore_case = true, value_parser = state())]
    state: Vec<JobState>,
    /// Lists jobs that have ended, too.
    #[arg(long, conflicts_with = "state")]
    ended: bool,
    /// Lists the moves of jobs between servers instead: from where to where, when and why.
    #[arg(long, conflicts_with_all = ["user", "server", "state", "ended"])]
    moves: bool,
    /// The number of jobs or moves to list, newest first [default: 100].
    #[arg(long, value_name = "N", value_parser = whole(1..=LAST_MAX))]
    last: Option<u32>,
    #[command(flatten)]
    access: Access,
}

fn state() -> impl TypedValueParser<Value = JobState> {
    let named = |word: String| JobState::from_word(&word.to_uppercase()).ok_or("no job state");
    PossibleValuesParser::new(JobState::ALL.map(JobState::word)).try_map(named)
}

impl Arguments {
    fn query(&self) -> JobsQuery {
        let states = match (self.ended, self.state.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) => JobState::ALL.into_iter().filter(|state| !state.is_final()).collect(),
            (false, false) => self.state.clone(),
        };
        JobsQuery {
            owner: self.user.clone(),
            all: self.all && self.user.is_none(),
            server: self.server.clone(),
            states,
            limit: bounds::JOBS_MAX as u32,
            before: None,
        }
    }
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    if arguments.moves {
        let (most, default) = moves::LAST;
        return moves::run(output, &session, arguments.all, arguments.last.unwrap_or(default).min(most));
    }
    let most = arguments.last.unwrap_or(bounds::JOBS_DEFAULT) as usize;
    let page = session.run(session.client.newest_jobs(arguments.query(), most))?;
    let incomplete = incomplete(&page);
    let JobsPage { jobs, next, .. } = page;
    let more = next.is_some();
    let owners = arguments.all || arguments.user.is_some();
    let value = json!({ "jobs": jobs.iter().map(described).collect::<Vec<Value>>(), "more": more });
    let plans = match output {
        Output::Text => session.run(plans(&session, &jobs)),
        Output::Json => Plans::new(),
    };
    output.print("queue", || table(&jobs, &plans, owners, now()), value)?;
    if more && output == Output::Text {
        stderr_line!("warning: there are more jobs; --last N lists up to {LAST_MAX}");
    }
    if let Some(incomplete) = incomplete {
        stderr_line!("warning: {incomplete}");
    }
    if jobs.is_empty() {
        let unfiltered = !arguments.ended && arguments.state.is_empty();
        let ended =
            if unfiltered { " that waits or runs; --ended shows those that have ended, too" } else { "" };
        inform(|| format!("no such job{ended}"));
    }
    Ok(())
}

/// The present plans of jobs that stand back behind others of their owner: agents list what was promised, which jobs that were submitted
/// later may have changed. A server that does not answer in time leaves the promise.
async fn plans(session: &Session, jobs: &[JobRecord]) -> Plans {
    let stands_back = |job: &&JobRecord| job.work.nice > 0 && job.started.is_none() && !job.state.is_final();
    let asked: Vec<Handle> =
        jobs.iter().filter(stands_back).take(PLANS_MAX).map(|job| job.handle.clone()).collect();
    let ask = |client: Client, handle: Handle| async move {
        let answer = timeout(PLANS_TIMEOUT, client.explain(&handle)).await;
        Ok(answer.ok().and_then(Result::ok))
    };
    let mut plans = Plans::new();
    let answered = |_, answer: Result<Option<Explanation>, ClientError>| {
        let Ok(Some(Explanation { record, waits, unplanned, .. })) = answer else { return };
        // One without either has started since.
        if waits.is_some() || unplanned.is_some() {
            plans.insert(record.handle, waits.map(|wait| wait.plan));
        }
    };
    session.each(asked, ask, answered).await;
    plans
}

/// Says that jobs may be missing, and whose, if that is so.
fn incomplete(page: &JobsPage) -> Option<String> {
    let JobsPage { reporting_again: reporting, children, .. } = page;
    let (first, missing) = (reporting.first()?, reporting.len());
    let complete = (*children as usize).saturating_sub(missing);
    let others = if missing > 1 { format!(" and {} more", missing - 1) } else { String::new() };
    Some(format!(
        "the records of jobs are complete for {complete} of {children} servers and agents: the agent lost its journal, and {first}{others} \
         still report their jobs again"
    ))
}

fn table(jobs: &[JobRecord], plans: &Plans, owners: bool, now: Time) -> String {
    let mut header = vec!["job", "name", "state", "submitted", "start", "end", "exit", "procs", "walltime"];
    if owners {
        header.insert(1, "owner");
    }
    let mut table = Table::new(header.len() - 2, &header);
    for job in jobs {
        let mut row = vec![
            job.handle.to_string(),
            job.name.clone(),
            job.state.to_string(),
            from_now(job.submitted, now),
            start(job, plans, now),
            end(job, plans, now),
            short_exit(job),
            job.procs.0.to_string(),
            show_duration(job.walltime),
        ];
        if owners {
            row.insert(1, job.owner.to_string());
        }
        table.row(row);
    }
    table.render()
}

/// When a job started, or is expected to.
fn start(job: &JobRecord, plans: &Plans, now: Time) -> String {
    match (job.started, plans.get(&job.handle)) {
        (Some(started), _) => from_now(started, now),
        (None, _) if job.state.is_final() => "-".to_owned(),
        (None, Some(plan)) => plan.map_or_else(|| "-".to_owned(), |plan| expected(plan.start, now)),
        (None, None) => expected(job.expected.start, now),
    }
}

/// When a job ended, or will have at the latest.
fn end(job: &JobRecord, plans: &Plans, now: Time) -> String {
    match (job.ended, plans.get(&job.handle)) {
        (Some(ended), _) => from_now(ended, now),
        (None, Some(plan)) => plan.map_or_else(|| "-".to_owned(), |plan| expected(plan.completion(), now)),
        (None, None) => expected(end_by(job), now),
    }
}

/// An instant that should be still to come.
fn expected(time: Time, now: Time) -> String {
    if time < now { format!("due {}", from_now(time, now)) } else { from_now(time, now) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_list_that_may_lack_jobs_says_so() {
        let page = |reporting: &[&str], children| JobsPage {
            reporting_again: reporting.iter().map(|name| name.parse().unwrap()).collect(),
            children,
            ..JobsPage::default()
        };
        let check = |page: JobsPage, expected: Option<(&str, &str)>| {
            let text = incomplete(&page);
            let Some((counts, who)) = expected else { return assert_eq!(text, None) };
            let text = text.unwrap();
            assert!(text.contains(counts) && text.contains(who), "{text}");
        };
        check(page(&[], 0), None);
        check(page(&["lyon"], 3), Some(("complete for 2 of 3 servers", "and lyon still report")));
        check(
            page(&["lyon", "nancy", "rennes"], 3),
            Some(("complete for 0 of 3", "and lyon and 2 more still")),
        );
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn options_choose_the_states_of_the_query() {
        let check = |line: &str, states: &[JobState]| {
            let words = std::iter::once("queue").chain(line.split_whitespace());
            let query = Line::try_parse_from(words).ok().unwrap().arguments.query();
            assert_eq!(query.states, states, "{line}");
        };
        check("", &[JobState::New, JobState::Queued, JobState::Active]);
        check("--ended", &[]);
        check("--state failed,Active", &[JobState::Failed, JobState::Active]);
        for bad in ["--state done", "--ended --state failed", "--last 0", "--moves --ended", "--user a/b"] {
            let words = std::iter::once("queue").chain(bad.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{bad}");
        }
    }
}
