//! Sweeps and explorations, as their folders show them.

use std::path::Path;
use std::time::SystemTime;

use pliant_client::{ExplorationView, SweepView, WorkView};
use pliant_wire::Executable;
use serde::Serialize;
use utoipa::ToSchema;

use super::{GroupView, SweepId};

/// A sweep or an exploration in its folder.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct WorkFolderView {
    /// Its ID on this machine.
    #[schema(example = "5f2c0d9a1b3e4c77")]
    pub(crate) id: String,
    /// The name of the folder.
    pub(crate) name: String,
    /// The path of the folder.
    pub(crate) folder: String,
    /// `sweep` or `exploration`; none if the folder cannot be read.
    pub(crate) kind: Option<&'static str>,
    /// The service or the script that it runs.
    pub(crate) runs: String,
    /// `running` while a command works on it, `stopped` if none does and it has not ended, `over` or `cancelled`.
    pub(crate) state: &'static str,
    /// When its journal was written last.
    pub(crate) written_s: Option<i64>,
    /// How many instances it has; of an exploration its mandatory requests.
    pub(crate) total: u32,
    /// How many of these completed.
    pub(crate) done: u32,
    /// How many optional requests completed; none of a sweep.
    pub(crate) optional_done: Option<u32>,
    /// How many instances or requests failed for good.
    pub(crate) failed: u32,
    /// How many are at servers.
    pub(crate) submitted: u32,
    /// How many never run because no server completes them by the deadline; 0 of an exploration.
    pub(crate) not_started: u32,
    /// How many were cancelled.
    pub(crate) cancelled: u32,
    /// The deadline of an exploration.
    pub(crate) deadline_s: Option<f64>,
    /// The ID of a sweep in `/sweeps`; none of an exploration.
    pub(crate) sweep: Option<String>,
    /// Why the folder cannot be read.
    pub(crate) problem: Option<String>,
}

/// Sweeps and explorations.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct WorkFoldersView {
    /// Those that commands of yours have begun on this machine, the newest first.
    pub(crate) folders: Vec<WorkFolderView>,
    /// How many older ones are left out.
    pub(crate) left_out: usize,
}

/// A sweep or an exploration with its servers.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct WorkDetailView {
    /// The work.
    pub(crate) work: WorkFolderView,
    /// Its arguments, as on the command line.
    pub(crate) arguments: String,
    /// What each instance or request has, in the order of the values of rows.
    pub(crate) columns: Vec<ColumnView>,
    /// The servers that had instances or requests, by name.
    pub(crate) servers: Vec<WorkServerView>,
    /// More of a sweep.
    pub(crate) sweep: Option<SweepDetailView>,
    /// More of an exploration.
    pub(crate) exploration: Option<ExplorationDetailView>,
}

/// A column of the results.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ColumnView {
    /// What results are sorted and plotted by: `number`, `state`, `server`, `elapsed`, `ended`, `value`, or `arg:` and the name of
    /// an argument.
    pub(crate) key: String,
    /// The text for people.
    pub(crate) text: String,
    /// True if it can be plotted.
    pub(crate) number: bool,
}

/// What a server did.
#[derive(Clone, PartialEq, Debug, Default, Serialize, ToSchema)]
pub(crate) struct WorkServerView {
    /// The server.
    pub(crate) server: String,
    /// Instances or mandatory requests that completed there.
    pub(crate) done: u32,
    /// Optional requests that completed there; none of a sweep.
    pub(crate) optional: Option<u32>,
    /// Ends that were failures, also of instances that are run again.
    pub(crate) failed: u32,
    /// Instances or requests that it has.
    pub(crate) submitted: u32,
    /// Requests that it refused; none of a sweep.
    pub(crate) refused: Option<u32>,
    /// How long the instances that ended there took, all together; none of an exploration.
    pub(crate) elapsed_s: Option<f64>,
}

/// A sweep.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SweepDetailView {
    /// How instances are allocated to servers.
    strategy: &'static str,
    /// How often an instance that failed is run again.
    retries: u8,
    /// How often instances were run again.
    retried: u32,
    /// How many jobs were submitted.
    batches: u32,
    /// The most instances that run at a time; none for any number.
    at_once: Option<u32>,
}

/// An exploration.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct ExplorationDetailView {
    /// When it began.
    began_s: f64,
    /// How long optional requests are of use.
    deadline_s: f64,
    /// When the last mandatory request completed, if all have.
    mandatory_done_s: Option<f64>,
    /// How many requests there are at most, mandatory and optional ones.
    most: u32,
    /// True if its user stopped it.
    interrupted: bool,
}

/// An instance of a sweep or a request of an exploration.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct WorkRowView {
    /// Its number, from 0.
    pub(crate) number: u32,
    /// The values of the arguments that vary.
    pub(crate) values: Vec<String>,
    /// True for an optional request; none of a sweep.
    pub(crate) optional: Option<bool>,
    /// `completed`, `failed`, `submitted`, `waiting`, `not-started` or `cancelled`.
    pub(crate) state: &'static str,
    /// The server of its last run.
    pub(crate) server: Option<String>,
    /// The job of its last run.
    pub(crate) job_id: Option<String>,
    /// How long it took.
    pub(crate) elapsed_s: Option<f64>,
    /// When it ended.
    pub(crate) ended_s: Option<f64>,
    /// How it ended, for people.
    pub(crate) how: String,
    /// The beginning of what it wrote on standard output.
    pub(crate) output: String,
    /// If it failed, the end of what it wrote on standard error.
    pub(crate) error: String,
}

/// A page of results.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct WorkRowsView {
    /// The rows of the page.
    pub(crate) rows: Vec<WorkRowView>,
    /// How many rows match, on all pages.
    pub(crate) matching: usize,
    /// How many of the rows that match in all but their state are in each state.
    pub(crate) states: Vec<GroupView>,
    /// The number of the page, from 1.
    pub(crate) page: usize,
    /// How many rows a page has at most.
    pub(crate) per_page: usize,
}

/// Numbers of results against each other.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct PointsView {
    /// For each result that has both numbers: the two, and the number of the result.
    pub(crate) points: Vec<(f64, f64, u32)>,
    /// How many results have no such numbers.
    pub(crate) without: usize,
    /// How many more points there are than are listed; those that are listed are evenly spread among all.
    pub(crate) left_out: usize,
}

/// The use of the cores of a server for explorations by a user.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct FairShareView {
    /// The server; none for all of them together.
    pub(crate) server: Option<String>,
    /// Its cores for explorations.
    pub(crate) cores: u32,
    /// Your core time that was used, in seconds.
    pub(crate) usage_s: f64,
    /// Your fair share of core time, in seconds.
    pub(crate) fair_share_s: f64,
    /// Your requests there that wait or run.
    pub(crate) requests: u32,
    /// Those that completed.
    pub(crate) completed: u32,
    /// Optional ones that were ended for mandatory requests of other users.
    pub(crate) killed: u32,
}

/// The fair shares of a user.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct FairSharesView {
    /// The servers that answered, by name.
    pub(crate) servers: Vec<FairShareView>,
    /// All of them together.
    pub(crate) together: FairShareView,
    /// Servers that did not answer.
    pub(crate) silent: Vec<super::SilentView>,
}

/// Seconds since the Unix epoch.
fn seconds(time: SystemTime) -> Option<i64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

fn runs(executable: &Executable) -> String {
    match executable {
        Executable::Service(name) => name.clone(),
        Executable::Script(script) => script.name.clone(),
    }
}

fn state(is_over: bool, is_cancelled: bool, is_worked_on: bool) -> &'static str {
    match (is_over, is_worked_on) {
        (true, _) if is_cancelled => "cancelled",
        (true, _) => "over",
        (false, true) => "running",
        (false, false) => "stopped",
    }
}

impl WorkFolderView {
    /// A folder that cannot be read.
    pub(crate) fn unreadable(id: &str, dir: &Path, problem: String) -> WorkFolderView {
        WorkFolderView {
            id: id.to_owned(),
            name: dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            folder: dir.display().to_string(),
            kind: None,
            runs: String::new(),
            state: "stopped",
            written_s: None,
            total: 0,
            done: 0,
            optional_done: None,
            failed: 0,
            submitted: 0,
            not_started: 0,
            cancelled: 0,
            deadline_s: None,
            sweep: None,
            problem: Some(problem),
        }
    }

    /// Work in that folder.
    pub(crate) fn of(id: &str, dir: &Path, work: &WorkView) -> WorkFolderView {
        let blank = WorkFolderView { problem: None, ..WorkFolderView::unreadable(id, dir, String::new()) };
        match work {
            WorkView::Sweep(sweep) => WorkFolderView::of_sweep(sweep, blank),
            WorkView::Exploration(exploration) => WorkFolderView::of_exploration(exploration, blank),
        }
    }

    fn of_sweep(sweep: &SweepView, blank: WorkFolderView) -> WorkFolderView {
        let (progress, total) = (sweep.progress(), sweep.plan().instances);
        let ended = progress.done + progress.failed + progress.not_started + progress.cancelled;
        let is_over = ended == total && progress.open == 0;
        WorkFolderView {
            kind: Some("sweep"),
            runs: runs(sweep.executable()),
            state: state(is_over, sweep.is_cancelled(), sweep.is_worked_on()),
            written_s: sweep.written().and_then(seconds),
            total,
            done: progress.done,
            failed: progress.failed,
            submitted: progress.open,
            not_started: progress.not_started,
            cancelled: progress.cancelled,
            sweep: Some(SweepId::of(sweep.key()).to_string()),
            ..blank
        }
    }

    fn of_exploration(exploration: &ExplorationView, blank: WorkFolderView) -> WorkFolderView {
        let (progress, plan) = (exploration.progress(), exploration.plan());
        WorkFolderView {
            kind: Some("exploration"),
            runs: runs(exploration.executable()),
            state: state(exploration.is_over(), exploration.is_interrupted(), exploration.is_worked_on()),
            written_s: exploration.written().and_then(seconds),
            total: plan.mandatory.min(plan.most),
            done: progress.mandatory,
            optional_done: Some(progress.optional),
            failed: progress.failed,
            submitted: exploration.servers().values().map(|server| server.open).sum(),
            deadline_s: Some(plan.deadline.0 as f64 / 1e3),
            ..blank
        }
    }
}

impl WorkDetailView {
    /// Work in that folder, with its servers.
    pub(crate) fn of(id: &str, dir: &Path, view: &WorkView) -> WorkDetailView {
        let parameters = match view {
            WorkView::Sweep(sweep) => sweep.parameters(),
            WorkView::Exploration(exploration) => exploration.parameters(),
        };
        let column =
            |key: &str, text: &str, number| ColumnView { key: key.to_owned(), text: text.to_owned(), number };
        let mut columns = vec![column("number", "Number", true)];
        columns.extend(parameters.names().map(|name| column(&format!("arg:{name}"), name, true)));
        columns.extend([
            column("state", "State", false),
            column("server", "Server", false),
            match view {
                WorkView::Sweep(_) => column("elapsed", "Took (s)", true),
                WorkView::Exploration(_) => column("ended", "Ended after (s)", true),
            },
            column("value", "Output", true),
        ]);
        let (servers, sweep, exploration) = match view {
            WorkView::Sweep(sweep) => (sweep_servers(sweep), Some(sweep_detail(sweep)), None),
            WorkView::Exploration(exploration) => {
                (exploration_servers(exploration), None, Some(exploration_detail(exploration)))
            }
        };
        WorkDetailView {
            work: WorkFolderView::of(id, dir, view),
            arguments: parameters.to_string(),
            columns,
            servers,
            sweep,
            exploration,
        }
    }
}

fn sweep_servers(sweep: &SweepView) -> Vec<WorkServerView> {
    let server =
        |(name, server): (&pliant_control::names::Name, &pliant_client::ServerInstances)| WorkServerView {
            server: name.to_string(),
            done: server.done,
            failed: server.failed,
            submitted: server.open,
            elapsed_s: Some(server.elapsed_ms as f64 / 1e3),
            ..WorkServerView::default()
        };
    sweep.servers().iter().map(server).collect()
}

fn exploration_servers(exploration: &ExplorationView) -> Vec<WorkServerView> {
    let server =
        |(name, server): (&pliant_control::names::Name, &pliant_client::ServerRequests)| WorkServerView {
            server: name.to_string(),
            done: server.mandatory,
            optional: Some(server.optional),
            failed: server.failed,
            submitted: server.open,
            refused: Some(server.refused),
            elapsed_s: None,
        };
    exploration.servers().iter().map(server).collect()
}

fn sweep_detail(sweep: &SweepView) -> SweepDetailView {
    let (plan, progress) = (sweep.plan(), sweep.progress());
    SweepDetailView {
        strategy: plan.strategy.name(),
        retries: plan.retries,
        retried: progress.retried,
        batches: progress.batches,
        at_once: plan.at_once,
    }
}

fn exploration_detail(exploration: &ExplorationView) -> ExplorationDetailView {
    let at = |time: pliant_model::TimeMs| time.0 as f64 / 1e3;
    ExplorationDetailView {
        began_s: at(exploration.began()),
        deadline_s: at(exploration.plan().deadline),
        mandatory_done_s: exploration.mandatory_done().map(at),
        most: exploration.plan().most,
        interrupted: exploration.is_interrupted(),
    }
}
