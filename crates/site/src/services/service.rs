//! One service of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pliant_control::job::Work;
use pliant_control::names::User;
use pliant_model::{Resources, Span};

use super::argument::{Argument, ArgumentKind, read_all};
use super::call::CallDeclaration;
use super::prepared::{Bounds, Prepared};
use super::refusal::Refusal;
use super::speedup_spec::SpeedupSpec;
use super::template::Template;
use crate::processes::Streams;

/// A service as its operator declares it.
#[derive(Clone, PartialEq, Debug)]
pub struct Service {
    /// Its name: a [`Name`](pliant_control::names::Name) if an operator declares it, that of a file if it is a script.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// What it takes.
    pub arguments: BTreeMap<String, Argument>,
    /// How its time changes with the number of processors, and on how many its runtime is.
    pub speedup: SpeedupSpec,
    /// What its jobs need besides processors.
    pub resources: Option<Arc<Resources>>,
    /// How long it takes, at speed 1.
    pub runtime: Runtime,
    /// How the runtime depends on an argument.
    pub scaling: Option<Scaling>,
    /// The walltime is so many times the runtime; at least 1.
    pub walltime_factor: f64,
    /// The longest walltime at speed 1, on the processors that the runtime is on.
    pub max_walltime: Option<Span>,
    /// How much a request may send and leave behind.
    pub bounds: Bounds,
    /// Who may use it; everybody if none.
    pub users: Option<BTreeSet<User>>,
    pub(crate) command: Vec<Template>,
    pub(crate) environment: BTreeMap<String, Template>,
    /// How it is called, if it is a typed service.
    pub call: Option<CallDeclaration>,
}

/// Where a service's runtime comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runtime {
    /// The operator gave it.
    Fixed(Span),
    /// Learned from finished runs.
    History {
        /// What counts until enough runs are known.
        first: Span,
        /// The least that counts, whatever was learned: no job is ended before `walltime_factor` times that. At most `first`.
        least: Span,
    },
}

/// A runtime in proportion to a power of an argument.
#[derive(Clone, PartialEq, Debug)]
pub struct Scaling {
    /// The argument: an integer or a number that always has a value above 0.
    pub argument: String,
    /// The power.
    pub exponent: f64,
    /// The argument's value for which the runtime holds.
    pub at: f64,
}

impl Service {
    /// True if its runtime is learned from finished runs.
    pub fn is_learned(&self) -> bool {
        matches!(self.runtime, Runtime::History { .. })
    }

    /// True if a user may see and use it.
    pub fn is_for(&self, user: &User) -> bool {
        self.users.as_ref().is_none_or(|users| users.contains(user))
    }

    /// Fills a request in. `pliant` is the path of this program. `learned` is the runtime that finished runs
    /// tell (at speed 1, on the processors of the speedup, each divided by its [`Prepared::scale`]); a service
    /// of fixed runtime ignores it.
    ///
    /// # Errors
    ///
    /// If an argument is not what the service takes, or the request takes too long.
    pub fn prepare(
        &self,
        given: &BTreeMap<String, String>,
        pliant: &str,
        learned: Option<Span>,
    ) -> Result<Prepared, Refusal> {
        let values = self.read(given)?;
        let fill = |word: &Template| word.fill(&values, pliant);
        let scale = self.scaling.as_ref().map_or(1.0, |scaling| scaling.of(&values));
        let environment = self.environment.iter();
        let SpeedupSpec { speedup, procs } = self.speedup.clone();
        let walltime = self.walltime(scale, learned)?;
        Ok(Prepared {
            name: self.name.clone(),
            command: self.command.iter().filter_map(fill).collect(),
            environment: environment.filter_map(|(name, word)| Some((name.clone(), fill(word)?))).collect(),
            work: Work { resources: self.resources.clone(), ..Work::new(procs, walltime, speedup) },
            inputs: self.inputs(&values),
            scale,
            bounds: self.bounds,
            folder: None,
            streams: Streams::default(),
            call: None,
        })
    }

    /// The values of all arguments.
    pub(super) fn read(&self, given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Refusal> {
        let values = read_all(&self.arguments, given)?;
        for word in &self.command {
            self.check_dash(word, &values)?;
        }
        Ok(values)
    }

    fn check_dash(&self, word: &Template, values: &BTreeMap<String, String>) -> Result<(), Refusal> {
        let Some(name) = word.opened_by(values) else { return Ok(()) };
        let free = self.arguments.get(name).is_some_and(|argument| argument.kind.is_free() && !argument.dash);
        match values.get(name).filter(|value| free && value.starts_with('-')) {
            Some(value) => Err(Refusal::Dash { argument: name.to_owned(), found: value.clone() }),
            None => Ok(()),
        }
    }

    fn inputs(&self, values: &BTreeMap<String, String>) -> Vec<pliant_staging::FileName> {
        let files = values.iter().filter(|(name, _)| {
            self.arguments.get(*name).is_some_and(|argument| argument.kind == ArgumentKind::File)
        });
        files.filter_map(|(_, value)| value.parse().ok()).collect()
    }

    /// `ceil(runtime * scale * factor)`, within what is allowed. A request whose declared runtime alone is more is refused
    /// rather than started to be ended. A learned one refuses nothing: no run would correct it any more.
    fn walltime(&self, scale: f64, learned: Option<Span>) -> Result<Span, Refusal> {
        let (declared, runtime) = match self.runtime {
            Runtime::Fixed(runtime) => (runtime, runtime),
            Runtime::History { first, least } => (least, learned.map_or(first, |learned| learned.max(least))),
        };
        // A conversion from a float that is too large gives the largest integer.
        let seconds = |time: Span, factor: f64| Span((time.seconds() as f64 * scale * factor).ceil() as i64);
        let allowed = self.max_walltime.unwrap_or(Span::MAX);
        if seconds(declared, 1.0) > allowed {
            return Err(Refusal::TooLong { allowed, found: seconds(declared, 1.0) });
        }
        Ok(seconds(runtime, self.walltime_factor).clamp(Span(1), allowed))
    }
}

impl Scaling {
    fn of(&self, values: &BTreeMap<String, String>) -> f64 {
        let value = values.get(&self.argument).and_then(|value| value.parse::<f64>().ok());
        value.map_or(1.0, |value| (value / self.at).powf(self.exponent))
    }
}
