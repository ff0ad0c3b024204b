//! What a campaign file means: checks that the syntax cannot make, each error with line, column, key and hint.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use pliant_model::Span;
use pliant_policy::UnknownName;
use pliant_policy::batch::{self, order::Change};
use pliant_policy::reallocation::{Heuristic, Reallocation};
use pliant_trace::platform::BUILT_IN;
use pliant_trace::toml_file::Source;
use toml::Spanned;

use super::file::{File, Kind, Move, PolicyTable, Repair, Word, WorkloadTable};
use super::recipe::Misfit;
use super::{
    Campaign, CampaignError, Generator, JobSource, Moldable, PlatformChoice, Recipe, Treatment, Variant,
    Workload,
};
use crate::{Policies, limits};

/// Where readers find every key.
const KEYS_HINT: &str = "docs/campaigns.md lists every key";

impl Campaign {
    /// Reads a campaign file.
    pub fn read(path: &Path) -> Result<Campaign, CampaignError> {
        Campaign::understand(&Source::read(path)?, path)
    }

    /// Understands the text of a campaign file; `path` is for errors and for relative paths in it.
    pub fn parse(text: &str, path: &Path) -> Result<Campaign, CampaignError> {
        Campaign::understand(&Source::of(path, text), path)
    }

    fn understand(source: &Source<'_>, path: &Path) -> Result<Campaign, CampaignError> {
        let reader = Reader { source, path };
        match source.parse::<Kind>(KEYS_HINT)?.scenario {
            Some(_) => reader.explorations(source.parse(KEYS_HINT)?),
            None => reader.campaign(source.parse(KEYS_HINT)?),
        }
    }
}

/// Checks what the syntax cannot, and says where.
pub(super) struct Reader<'a> {
    source: &'a Source<'a>,
    pub(super) path: &'a Path,
}

pub(super) type Checked<T> = Result<T, CampaignError>;

impl Reader<'_> {
    fn campaign(&self, file: File) -> Checked<Campaign> {
        self.name(&file.name)?;
        self.filled(&file.seeds, file.seeds.get_ref().0.is_empty(), "seeds = { from = 1, count = 10 }")?;
        self.distinct(&file.seeds, &file.seeds.get_ref().0)?;
        let policies = self.policies(&file)?;
        let reference = self.reference(file.reference.as_ref(), &policies, "policy")?;
        Ok(Campaign {
            base: self.path.parent().unwrap_or(Path::new("")).to_owned(),
            dedicated_shares: self.shares(file.dedicated_shares.as_ref())?,
            moldable: self.moldable(file.moldable.as_ref())?,
            workloads: self.workloads(&file)?,
            name: file.name.into_inner(),
            seeds: file.seeds.into_inner().0,
            policies,
            reference,
        })
    }

    /// The position of the policy that the others are compared with.
    pub(super) fn reference(
        &self,
        given: Option<&Spanned<String>>,
        policies: &[Variant],
        table: &str,
    ) -> Checked<usize> {
        let Some(name) = given else { return Ok(0) };
        policies.iter().position(|one| &one.name == name.get_ref()).ok_or_else(|| {
            let problem = format!("expected the name of a [[{table}]], found `{}`", name.get_ref());
            self.at(name.span(), problem, "")
        })
    }

    fn shares(&self, given: Option<&Spanned<Vec<Spanned<f64>>>>) -> Checked<Vec<f64>> {
        let Some(given) = given else { return Ok(vec![1.0]) };
        self.filled(given, given.get_ref().is_empty(), "dedicated_shares = [1.0]")?;
        for share in given.get_ref() {
            if !(*share.get_ref() > 0.0 && *share.get_ref() <= 1.0) {
                let problem = format!("expected a share above 0 and at most 1, found {}", share.get_ref());
                return Err(self.at(share.span(), problem, "1.0 sends every job through the federation"));
            }
        }
        let shares: Vec<f64> = given.get_ref().iter().map(|share| *share.get_ref()).collect();
        self.distinct(given, &shares)?;
        Ok(shares)
    }

    fn moldable(&self, given: Option<&Spanned<Vec<Word<Moldable>>>>) -> Checked<Vec<Moldable>> {
        let Some(given) = given else { return Ok(vec![Moldable::None]) };
        self.filled(given, given.get_ref().is_empty(), "moldable = [\"paper\"]")?;
        let moldable: Vec<Moldable> = given.get_ref().iter().map(|word| word.0).collect();
        self.distinct(given, &moldable)?;
        Ok(moldable)
    }

    fn workloads(&self, file: &File) -> Checked<Vec<Workload>> {
        self.filled(&file.workload, file.workload.get_ref().is_empty(), "add a [[workload]]")?;
        let mut workloads: Vec<Workload> = Vec::new();
        for table in file.workload.get_ref() {
            let given = table.get_ref();
            self.name(&given.name)?;
            if workloads.iter().any(|other| &other.name == given.name.get_ref()) {
                return Err(self.repeated(&given.name));
            }
            workloads.push(Workload {
                name: given.name.get_ref().clone(),
                source: self.jobs(table.span(), given)?,
                optional: self.optional(given)?,
                sequence: self.sequence(file, given)?,
                platforms: self.platforms(file, table.span(), given)?,
            });
        }
        Ok(workloads)
    }

    fn optional(&self, given: &WorkloadTable) -> Checked<bool> {
        match &given.optional {
            Some(key) if given.file.is_none() => {
                let problem = "expected `optional` beside `file`, found no `file`".to_owned();
                Err(self.at(key.span(), problem, "only a file can be absent: remove the key"))
            }
            optional => Ok(optional.as_ref().is_some_and(|key| *key.get_ref())),
        }
    }

    fn jobs(&self, place: Range<usize>, given: &WorkloadTable) -> Checked<JobSource> {
        match (&given.file, &given.generate) {
            (Some(path), None) => {
                let stray = given.generator_keys().into_iter().find_map(|(key, place)| Some((key, place?)));
                if let Some((key, place)) = stray {
                    let problem = format!("expected `file` without keys of a generator, found `{key}`");
                    let hint =
                        "month, jobs, days, load, walltime_max_s, seed and per_seed go with `generate`";
                    return Err(self.at(place, problem, hint));
                }
                let keep_bad = given.repair.as_ref().is_some_and(|word| word.get_ref().0 == Repair::KeepBad);
                Ok(JobSource::File { path: path.clone(), keep_bad })
            }
            (None, Some(generate)) => {
                if let Some(repair) = &given.repair {
                    let problem = "expected no `repair` beside `generate`".to_owned();
                    return Err(self.at(
                        repair.span(),
                        problem,
                        "generated jobs need no repair: remove the key",
                    ));
                }
                self.generated(generate, given)
            }
            (Some(_), Some(generate)) => {
                let problem = "expected either `file` or `generate`, found both".to_owned();
                Err(self.at(generate.span(), problem, "remove one of them"))
            }
            (None, None) => {
                let problem = "expected either `file` or `generate`, found neither".to_owned();
                Err(self.at(place, problem, "file = \"log.swf.gz\", or generate = \"grid5000\""))
            }
        }
    }

    fn generated(&self, generate: &Spanned<Word<Generator>>, given: &WorkloadTable) -> Checked<JobSource> {
        let recipe = Recipe {
            generator: generate.get_ref().0,
            month: given.month.as_ref().map(|name| name.get_ref().0),
            jobs: value(&given.jobs),
            days: value(&given.days),
            load: value(&given.load),
            walltime_max_s: value(&given.walltime_max_s),
        };
        recipe.check().map_err(|Misfit { key, problem }| {
            let keys = given.generator_keys();
            let place = keys.into_iter().find(|(name, _)| *name == key).and_then(|(_, place)| place);
            let hint = "docs/workloads.md describes generators";
            self.at(place.unwrap_or_else(|| generate.span()), problem, hint)
        })?;
        let (seed, per_seed) = (value(&given.seed).unwrap_or(1), value(&given.per_seed).unwrap_or(false));
        Ok(JobSource::Generated { recipe, seed, per_seed })
    }

    fn platforms(
        &self,
        file: &File,
        place: Range<usize>,
        given: &WorkloadTable,
    ) -> Checked<Vec<PlatformChoice>> {
        match (&given.platform, &given.procs, &file.platforms) {
            (Some(_), Some(procs), _) => {
                let problem = "expected either `platform` or `procs`, found both".to_owned();
                Err(self.at(procs.span(), problem, "procs = 128 is one cluster of 128 processors"))
            }
            (Some(platform), None, _) => Ok(vec![self.platform(platform)?]),
            (None, Some(procs), _) if *procs.get_ref() == 0 => {
                let problem = "expected at least 1 processor, found 0".to_owned();
                Err(self.at(procs.span(), problem, ""))
            }
            (None, Some(procs), _) => Ok(vec![PlatformChoice::Procs(*procs.get_ref())]),
            (None, None, Some(all)) if !all.get_ref().is_empty() => {
                let platforms: Vec<PlatformChoice> =
                    all.get_ref().iter().map(|one| self.platform(one)).collect::<Checked<_>>()?;
                let labels: Vec<String> = platforms.iter().map(PlatformChoice::label).collect();
                self.distinct(all, &labels)?;
                Ok(platforms)
            }
            (None, None, _) => {
                let problem = format!("expected workload `{}` to have a platform", given.name.get_ref());
                Err(self.at(place, problem, "platform = \"grid5000\", procs = 128, or `platforms` for all"))
            }
        }
    }

    fn platform(&self, given: &Spanned<String>) -> Checked<PlatformChoice> {
        let word = given.get_ref();
        let choice = PlatformChoice::Named(word.clone());
        if choice.file().is_some() && !word.ends_with(".toml") {
            let names = BUILT_IN.join(", ");
            let problem = format!("expected a platform ({names}) or a file NAME.toml, found `{word}`");
            return Err(self.at(given.span(), problem, "docs/workloads.md describes platform files"));
        }
        if !is_name(&choice.label()) {
            return Err(self.at(
                given.span(),
                format!("expected a name, found `{}`", choice.label()),
                NAME_HINT,
            ));
        }
        Ok(choice)
    }

    fn policies(&self, file: &File) -> Checked<Vec<Variant>> {
        self.filled(&file.policy, file.policy.get_ref().is_empty(), "add a [[policy]]")?;
        let mut policies: Vec<Variant> = Vec::new();
        for table in file.policy.get_ref() {
            let given = table.get_ref();
            self.name(&given.name)?;
            if policies.iter().any(|other| &other.name == given.name.get_ref()) {
                return Err(self.repeated(&given.name));
            }
            let local = self.local(given)?;
            let usual = Policies::default();
            let chosen = Policies {
                tuner: given.tuner.or(file.tuner).map_or(usual.tuner, |word| word.0),
                mapping: given.mapping.or(file.mapping).map_or(usual.mapping, |word| word.0),
                ties: given.ties.or(file.ties).map_or(usual.ties, |word| word.0),
                reallocation: self.reallocation(table.span(), given)?,
                plan_by: self.plan_by(given)?,
                ..usual
            };
            let treatment = Treatment::Jobs { policies: chosen, local };
            policies.push(Variant { name: given.name.get_ref().clone(), treatment });
        }
        Ok(policies)
    }

    /// What is changed of clusters' local policies: `batch`, `order`, `aging`.
    fn local(&self, given: &PolicyTable) -> Checked<Change> {
        let wrong = |place: Range<usize>| {
            move |unknown: UnknownName| self.at(place, unknown.to_string(), "pliant policies lists them")
        };
        if let Some(name) = &given.batch {
            let batch = batch::by_name(name.get_ref()).map_err(wrong(name.span()))?;
            self.plannable(name, batch, given)?;
        }
        let batch = given.batch.as_ref().map(|name| name.get_ref().clone());
        let mut change = Change { batch, ..Change::default() };
        // A batch policy that serves every order: the platform's own are known when it is read.
        let present = change.batch.clone().unwrap_or_else(|| "easy".to_owned());
        if let Some(order) = &given.order {
            change.order = Some(order.get_ref().clone());
            change.changed(&present).map_err(wrong(order.span()))?;
        }
        if let Some(aging) = &given.aging {
            change.aging = Some(aging.get_ref().0);
            if change.order.is_some() {
                change.changed(&present).map_err(wrong(aging.span()))?;
            }
        }
        Ok(change)
    }

    fn reallocation(&self, place: Range<usize>, given: &PolicyTable) -> Checked<Option<Reallocation>> {
        let Some(Word(Move(Some(algorithm)))) = given.realloc else {
            let parameters = [
                given.heuristic.is_some(),
                given.period_s.is_some(),
                given.threshold_s.is_some(),
                given.window.is_some(),
            ];
            if parameters.contains(&true) {
                let problem = "expected `realloc` with heuristic, period_s, threshold_s or window".to_owned();
                return Err(self.at(place, problem, "realloc = \"regular\""));
            }
            return Ok(None);
        };
        let heuristic = given.heuristic.map_or(Heuristic::Mct, |word| word.0);
        let mut policy = Reallocation::new(algorithm, heuristic);
        if let Some(period) = &given.period_s {
            policy.period = Span(self.within(period, limits::PERIOD_S)?);
        }
        if let Some(threshold) = &given.threshold_s {
            policy.threshold = Span(self.within(threshold, limits::THRESHOLD_S)?);
        }
        if let Some(window) = &given.window {
            policy.window = self.within(window, limits::WINDOW)? as usize;
        }
        Ok(Some(policy))
    }

    pub(super) fn within<T>(&self, given: &Spanned<i64>, range: RangeInclusive<T>) -> Checked<T>
    where
        T: TryFrom<i64> + PartialOrd + fmt::Display,
    {
        let found = *given.get_ref();
        T::try_from(found).ok().filter(|value| range.contains(value)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            let problem = format!("expected a whole number from {least} to {most}, found {found}");
            self.at(given.span(), problem, "")
        })
    }

    pub(super) fn name(&self, given: &Spanned<String>) -> Checked<()> {
        if is_name(given.get_ref()) {
            return Ok(());
        }
        Err(self.at(given.span(), format!("expected a name, found `{}`", given.get_ref()), NAME_HINT))
    }

    pub(super) fn repeated(&self, given: &Spanned<String>) -> CampaignError {
        let problem = format!("expected unique names, found `{}` twice", given.get_ref());
        self.at(given.span(), problem, "results are told apart by these names")
    }

    pub(super) fn filled<T>(&self, given: &Spanned<T>, empty: bool, hint: &str) -> Checked<()> {
        if empty {
            return Err(self.at(given.span(), "expected at least one, found none".to_owned(), hint));
        }
        Ok(())
    }

    pub(super) fn distinct<T, V: PartialEq + fmt::Debug>(
        &self,
        given: &Spanned<T>,
        values: &[V],
    ) -> Checked<()> {
        for (index, value) in values.iter().enumerate() {
            if values[..index].contains(value) {
                let problem = format!("expected each value once, found {value:?} twice");
                return Err(self.at(given.span(), problem, "results are told apart by these values"));
            }
        }
        Ok(())
    }

    /// An error at a place of the text. No hint of its own: where the keys are listed.
    pub(super) fn at(&self, place: Range<usize>, problem: String, hint: &str) -> CampaignError {
        let message = self.source.about_key(&place, problem);
        let hint = if hint.is_empty() { KEYS_HINT } else { hint };
        self.source.error(place, message, hint.to_owned()).into()
    }
}

/// The value of a key that may be missing.
fn value<T: Copy>(given: &Option<Spanned<T>>) -> Option<T> {
    given.as_ref().map(|given| *given.get_ref())
}

/// What a name may be.
const NAME_HINT: &str =
    "names are made of letters, digits, `-` and `.`, because they become parts of file names";

fn is_name(text: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    !text.is_empty() && text.len() <= 64 && !text.starts_with('.') && text.chars().all(allowed)
}
