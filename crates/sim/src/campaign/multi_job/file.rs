//! Reads and checks the TOML file of a campaign of multi-jobs. `docs/reference/files/campaign-matrix-other.md` lists the keys.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pliant_model::Span;
use pliant_policy::allocation::Strategy;
use pliant_policy::runtimes::{Estimator, Level, Settings};
use pliant_trace::generate::GridLog;
use pliant_trace::toml_file::Source;
use serde::Deserialize;
use toml::Spanned;

use super::keywords::LawKeyword;
use super::{Arriving, Frozen, Log, LogSource, MultiJobCampaign, Policy, Times};
use crate::campaign::CampaignError;
use crate::campaign::file::Keyword;
use crate::campaign::keywords::{EstimatorKeyword, estimator};
use crate::multi_job::{Broker, Division, RunningJobs, RuntimeKnowledge};

const KEYS_HINT: &str = "docs/reference/files/campaign-matrix-other.md lists every key";
/// The upper bound of counts in a file: more would take days.
const COUNT_MAX: u64 = 10_000_000;
/// The upper bound of processors of a cluster, starts, draws and clusters.
const FEW_MAX: u64 = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "kind")]
    _kind: serde::de::IgnoredAny,
    name: Spanned<String>,
    seed: u64,
    draws: Spanned<u64>,
    window: Option<Spanned<u64>>,
    least: Option<Spanned<u64>>,
    log: Spanned<Vec<Spanned<LogTable>>>,
    #[serde(default)]
    frozen: Vec<FrozenTable>,
    #[serde(default)]
    arriving: Vec<ArrivingTable>,
    #[serde(default)]
    policy: Vec<Spanned<PolicyTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogTable {
    name: Spanned<String>,
    file: Option<PathBuf>,
    #[serde(default)]
    optional: bool,
    generate: Option<GenerateTable>,
    clusters: Spanned<u64>,
    #[serde(default)]
    skip: usize,
    stretches: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GenerateTable {
    sites: Spanned<u64>,
    jobs: Spanned<u64>,
    days: Spanned<f64>,
    groups: Spanned<u64>,
    users: Spanned<u64>,
    executables: Spanned<u64>,
    mean_s: Spanned<f64>,
    spread: Spanned<f64>,
    skew: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrozenTable {
    name: Spanned<String>,
    logs: Spanned<Vec<Spanned<String>>>,
    /// 0: the log's own times.
    job_times_s: Spanned<Vec<u64>>,
    delays_s: Spanned<Vec<u64>>,
    starts: Spanned<u64>,
    instances: Spanned<Vec<u64>>,
    laws: Spanned<Vec<Keyword<LawKeyword>>>,
    mean_s: Spanned<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrivingTable {
    name: Spanned<String>,
    logs: Spanned<Vec<Spanned<String>>>,
    processors: Spanned<Vec<u64>>,
    starts: Spanned<u64>,
    delays_s: Spanned<Vec<u64>>,
    instances: Spanned<Vec<u64>>,
    #[serde(default)]
    times_s: Vec<u64>,
    #[serde(default)]
    categories: Vec<CategoryTable>,
    policies: Option<Spanned<Vec<Spanned<String>>>>,
    reference: Option<Spanned<String>>,
    draws: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CategoryTable {
    level: Keyword<Level>,
    rank: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    name: Spanned<String>,
    strategy: Option<Keyword<Strategy>>,
    knowledge: Option<Keyword<RuntimeKnowledge>>,
    level: Option<Keyword<Level>>,
    estimator: Option<Keyword<EstimatorKeyword>>,
    quantile: Option<Spanned<f64>>,
    running: Option<Spanned<Keyword<RunningJobs>>>,
    deviations: Option<Spanned<f64>>,
    poll_s: Option<Spanned<u64>>,
    copies: Option<Spanned<u64>>,
}

type Checked<T> = Result<T, CampaignError>;

impl MultiJobCampaign {
    /// Reads a campaign file.
    pub fn read(path: &Path) -> Checked<MultiJobCampaign> {
        understand(&Source::read(path)?, path)
    }

    /// Parses and checks the text of a campaign file; `path` is for errors and for relative paths in it.
    pub fn parse(text: &str, path: &Path) -> Checked<MultiJobCampaign> {
        understand(&Source::of(path, text), path)
    }
}

fn understand(source: &Source, path: &Path) -> Checked<MultiJobCampaign> {
    let file: File = source.parse(KEYS_HINT)?;
    let reader = Reader { source };
    reader.name(&file.name)?;
    let mut logs: Vec<Log> = Vec::new();
    for table in file.log.get_ref() {
        logs.push(reader.log(table)?);
        reader.unique(&logs, |log| &log.name, &table.get_ref().name)?;
    }
    if logs.is_empty() {
        return Err(reader.at(file.log.span(), "expected at least one, found none".to_owned()));
    }
    let mut policies: Vec<Policy> = Vec::new();
    for table in &file.policy {
        policies.push(reader.policy(table.get_ref())?);
        reader.unique(&policies, |policy| &policy.name, &table.get_ref().name)?;
    }
    let count = |given: &Option<Spanned<u64>>, default: usize| match given {
        Some(given) => {
            Ok(NonZeroUsize::new(reader.count(given, FEW_MAX)? as usize).unwrap_or(NonZeroUsize::MIN))
        }
        None => Ok::<_, CampaignError>(NonZeroUsize::new(default).unwrap_or(NonZeroUsize::MIN)),
    };
    let settings = Settings { window: count(&file.window, 100)?, least: count(&file.least, 1)? };
    let frozen = file.frozen.iter().map(|table| reader.frozen(table, &logs)).collect::<Checked<_>>()?;
    let arriving = |table| reader.arriving(table, &logs, &policies, &file.draws);
    let arriving = file.arriving.iter().map(arriving).collect::<Checked<_>>()?;
    Ok(MultiJobCampaign {
        base: path.parent().unwrap_or(Path::new("")).to_owned(),
        log_dirs: Vec::new(),
        seed: file.seed,
        draws: reader.count(&file.draws, FEW_MAX)? as usize,
        name: file.name.into_inner(),
        settings,
        logs,
        frozen,
        arriving,
        policies,
    })
}

/// Checks the parsed file and locates errors in its text.
struct Reader<'a> {
    source: &'a Source,
}

impl Reader<'_> {
    fn log(&self, table: &Spanned<LogTable>) -> Checked<Log> {
        let LogTable { name, file, optional, generate, clusters, skip, stretches } = table.get_ref();
        self.name(name)?;
        let source = match (file, generate) {
            (Some(path), None) => LogSource::File { path: path.clone(), optional: *optional },
            (None, Some(generate)) => LogSource::Generated(self.generate(generate)?),
            _ => return Err(self.at(table.span(), "expected either `file` or `generate`".to_owned())),
        };
        let stretches = stretches.as_ref().map_or(Ok(1), |given| self.count(given, FEW_MAX))?;
        let division = Division {
            stretches: stretches as u32,
            skipped: *skip,
            clusters: self.count(clusters, FEW_MAX)? as usize,
        };
        Ok(Log { name: name.get_ref().clone(), source, division })
    }

    fn generate(&self, table: &GenerateTable) -> Checked<GridLog> {
        let few = |given| self.count(given, 1000).map(|count| count as u32);
        Ok(GridLog {
            sites: few(&table.sites)?,
            jobs: self.count(&table.jobs, COUNT_MAX)? as u32,
            days: self.number(&table.days, 1e-3..=36_500.0)?,
            groups: few(&table.groups)?,
            users: few(&table.users)?,
            executables: few(&table.executables)?,
            mean_s: self.number(&table.mean_s, 1.0..=1e6)?,
            spread: self.number(&table.spread, 0.0..=100.0)?,
            skew: self.number(&table.skew, 0.0..=10.0)?,
        })
    }

    fn frozen(&self, table: &FrozenTable, logs: &[Log]) -> Checked<Frozen> {
        self.name(&table.name)?;
        let time = |seconds: &u64| (*seconds > 0).then_some(Span(*seconds as i64));
        self.each(&table.job_times_s, 0, COUNT_MAX)?;
        self.filled(table.laws.span(), table.laws.get_ref().len())?;
        Ok(Frozen {
            name: table.name.get_ref().clone(),
            logs: self.positions(&table.logs, logs, "[[log]]", |log| &log.name)?,
            job_times: table.job_times_s.get_ref().iter().map(time).collect(),
            delays: self.spans(&table.delays_s)?,
            starts: self.count(&table.starts, FEW_MAX)? as usize,
            instances: self.each(&table.instances, 1, COUNT_MAX)?,
            laws: table.laws.get_ref().iter().map(|word| word.0.0).collect(),
            mean: Span(self.count(&table.mean_s, COUNT_MAX)? as i64),
        })
    }

    fn arriving(
        &self,
        table: &ArrivingTable,
        logs: &[Log],
        policies: &[Policy],
        draws: &Spanned<u64>,
    ) -> Checked<Arriving> {
        self.name(&table.name)?;
        let mut times: Vec<Times> = table
            .times_s
            .iter()
            .map(|seconds| Times::Equal(Span((*seconds).clamp(1, COUNT_MAX) as i64)))
            .collect();
        let category = |table: &CategoryTable| Times::Category { level: table.level.0, rank: table.rank };
        times.extend(table.categories.iter().map(category));
        if times.is_empty() {
            let problem = "expected `times_s` or `categories`: how long instances take".to_owned();
            return Err(self.at(table.name.span(), problem));
        }
        let taken = match &table.policies {
            Some(names) => self.positions(names, policies, "[[policy]]", |policy| &policy.name)?,
            None => (0..policies.len()).collect(),
        };
        let reference = table.reference.as_ref().map(|name| {
            let is_it = |at: &usize| policies[*at].name == *name.get_ref();
            taken.iter().copied().find(is_it).ok_or_else(|| {
                let problem = format!("expected one of its policies, found `{}`", name.get_ref());
                self.at(name.span(), problem)
            })
        });
        let processors = self.each(&table.processors, 1, FEW_MAX)?;
        let instances = self.each(&table.instances, 1, COUNT_MAX)?;
        Ok(Arriving {
            name: table.name.get_ref().clone(),
            logs: self.positions(&table.logs, logs, "[[log]]", |log| &log.name)?,
            processors: processors.into_iter().map(|count| count as u32).collect(),
            starts: self.count(&table.starts, FEW_MAX)? as usize,
            delays: self.spans(&table.delays_s)?,
            instances: instances.into_iter().map(|count| count as usize).collect(),
            times,
            policies: taken,
            reference: reference.transpose()?,
            draws: self.count(table.draws.as_ref().unwrap_or(draws), FEW_MAX)? as usize,
        })
    }

    fn policy(&self, table: &PolicyTable) -> Checked<Policy> {
        self.name(&table.name)?;
        let quantile = table.quantile.as_ref();
        let span = quantile.map_or(table.name.span(), Spanned::span);
        let estimator = estimator(table.estimator.map(|word| word.0), quantile.map(|given| *given.get_ref()))
            .map_err(|problem| self.at(span, problem))?;
        let knowledge = table.knowledge.map_or(RuntimeKnowledge::WholeLog, |word| word.0);
        let running = table.running.as_ref().map_or(RunningJobs::AsSubmitted, |word| word.get_ref().0);
        // Statistics of the whole log need no elapsed time, and the estimate for jobs that ran longer is a mean.
        let learns_means = knowledge == RuntimeKnowledge::Finished && estimator == Estimator::Mean;
        if let Some(word) =
            table.running.as_ref().filter(|_| running == RunningJobs::ByElapsed && !learns_means)
        {
            let problem =
                "expected `by-elapsed` with `knowledge = \"finished\"` and `estimator = \"mean\"` only";
            return Err(self.at(word.span(), problem.to_owned()));
        }
        let deviations = table.deviations.as_ref();
        let poll = table.poll_s.as_ref().map(|given| self.count(given, COUNT_MAX)).transpose()?;
        let replicas = table.copies.as_ref().map_or(Ok(1), |given| self.count(given, 100))? as u32;
        if let Some(given) = table.copies.as_ref().filter(|_| poll.is_some() && replicas > 1) {
            let problem =
                format!("expected 1 copy with `poll_s`, as sweeps make no copies, found {replicas}");
            return Err(self.at(given.span(), problem));
        }
        Ok(Policy {
            name: table.name.get_ref().clone(),
            broker: Broker {
                strategy: table.strategy.map_or(Strategy::Statistics, |word| word.0),
                knowledge,
                level: table.level.map_or(Level::Executable, |word| word.0),
                estimator,
                running,
                deviations: deviations.map_or(Ok(0.0), |given| self.number(given, 0.0..=100.0))?,
                poll: poll.map(|seconds| Span(seconds as i64)),
                copies: replicas,
            },
        })
    }

    /// The positions of named tables.
    fn positions<T>(
        &self,
        names: &Spanned<Vec<Spanned<String>>>,
        all: &[T],
        table: &str,
        name_of: impl Fn(&T) -> &String,
    ) -> Checked<Vec<usize>> {
        self.filled(names.span(), names.get_ref().len())?;
        let position = |name: &Spanned<String>| {
            all.iter().position(|one| name_of(one) == name.get_ref()).ok_or_else(|| {
                let problem = format!("expected the name of a {table}, found `{}`", name.get_ref());
                self.at(name.span(), problem)
            })
        };
        names.get_ref().iter().map(position).collect()
    }

    fn unique<T>(&self, all: &[T], name_of: impl Fn(&T) -> &String, name: &Spanned<String>) -> Checked<()> {
        if all.iter().filter(|one| name_of(one) == name.get_ref()).count() < 2 {
            return Ok(());
        }
        Err(self.at(name.span(), format!("expected unique names, found `{}` twice", name.get_ref())))
    }

    fn spans(&self, given: &Spanned<Vec<u64>>) -> Checked<Vec<Span>> {
        Ok(self.each(given, 1, COUNT_MAX)?.into_iter().map(|seconds| Span(seconds as i64)).collect())
    }

    fn each(&self, given: &Spanned<Vec<u64>>, least: u64, most: u64) -> Checked<Vec<u64>> {
        self.filled(given.span(), given.get_ref().len())?;
        match given.get_ref().iter().find(|count| !(least..=most).contains(*count)) {
            None => Ok(given.get_ref().clone()),
            Some(found) => {
                Err(self.at(given.span(), format!("expected numbers of {least} to {most}, found {found}")))
            }
        }
    }

    fn count(&self, given: &Spanned<u64>, most: u64) -> Checked<u64> {
        let found = *given.get_ref();
        if (1..=most).contains(&found) {
            return Ok(found);
        }
        Err(self.at(given.span(), format!("expected a number of 1 to {most}, found {found}")))
    }

    fn number(&self, given: &Spanned<f64>, range: std::ops::RangeInclusive<f64>) -> Checked<f64> {
        let found = *given.get_ref();
        if range.contains(&found) {
            return Ok(found);
        }
        let problem = format!("expected a number of {} to {}, found {found}", range.start(), range.end());
        Err(self.at(given.span(), problem))
    }

    fn filled(&self, span: Range<usize>, count: usize) -> Checked<()> {
        if count > 0 { Ok(()) } else { Err(self.at(span, "expected at least one, found none".to_owned())) }
    }

    fn name(&self, given: &Spanned<String>) -> Checked<()> {
        pliant_model::check_name(given.get_ref()).map_err(|error| self.at(given.span(), error.to_string()))
    }

    fn at(&self, span: Range<usize>, problem: String) -> CampaignError {
        let message = self.source.about_key(&span, problem);
        self.source.error(span, message, KEYS_HINT.to_owned()).into()
    }
}
