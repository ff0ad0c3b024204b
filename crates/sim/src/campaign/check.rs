//! Checks the meaning of a campaign file. Each error has line, column, key and hint.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use pliant_model::Span;
use pliant_policy::UnknownName;
use pliant_policy::batch::{self, order::LocalPolicyChange};
use pliant_policy::reallocation::{Heuristic, Reallocation};
use pliant_policy::tuning::{Tuner, TunerError};
use pliant_trace::toml_file::Source;
use toml::Spanned;

use super::file::{File, Keyword, Kind, PolicyTable, ReallocationChoice};
use super::{CampaignError, Moldable, SimulationCampaign, Sizes, Variant, VariantPolicies};
use crate::{Policies, limits};

/// The hint of errors that have no other one.
const KEYS_HINT: &str = "docs/reference/files/campaign.md lists every key";
/// The hint of a key of a campaign of optional computations that does not exist.
const OPTIONAL_KEYS_HINT: &str = "docs/reference/files/campaign-matrix-other.md lists every key";

impl SimulationCampaign {
    /// Reads a campaign file.
    pub fn read(path: &Path) -> Result<SimulationCampaign, CampaignError> {
        SimulationCampaign::understand(&Source::read(path)?, path)
    }

    /// Parses and checks the text of a campaign file; `path` is for errors and for relative paths in it.
    pub fn parse(text: &str, path: &Path) -> Result<SimulationCampaign, CampaignError> {
        SimulationCampaign::understand(&Source::of(path, text), path)
    }

    fn understand(source: &Source, path: &Path) -> Result<SimulationCampaign, CampaignError> {
        let reader = Reader { source, path };
        match source.parse::<Kind>(KEYS_HINT)?.scenario {
            Some(_) => reader.explorations(source.parse(OPTIONAL_KEYS_HINT)?),
            None => reader.campaign(source.parse(KEYS_HINT)?),
        }
    }
}

/// Checks the parsed file and locates errors in its text.
pub(super) struct Reader<'a> {
    source: &'a Source,
    pub(super) path: &'a Path,
}

pub(super) type Checked<T> = Result<T, CampaignError>;

impl Reader<'_> {
    fn campaign(&self, file: File) -> Checked<SimulationCampaign> {
        self.name(&file.name)?;
        self.filled(&file.seeds, file.seeds.get_ref().0.is_empty(), "seeds = { from = 1, count = 10 }")?;
        self.distinct(&file.seeds, &file.seeds.get_ref().0)?;
        let policies = self.policies(&file)?;
        let reference = self.reference(file.reference.as_ref(), &policies, "policy")?;
        Ok(SimulationCampaign {
            base: self.path.parent().unwrap_or(Path::new("")).to_owned(),
            log_dirs: Vec::new(),
            dedicated_shares: self.shares(file.dedicated_shares.as_ref())?,
            moldable: self.moldable(file.moldable.as_ref())?,
            workloads: self.workloads(&file)?,
            name: file.name.into_inner(),
            seeds: file.seeds.into_inner().0,
            policies,
            reference,
            planned_starts: file.planned_starts,
        })
    }

    /// The position of the reference policy.
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

    fn moldable(&self, given: Option<&Spanned<Vec<Keyword<Moldable>>>>) -> Checked<Vec<Moldable>> {
        let Some(given) = given else { return Ok(vec![Moldable::None]) };
        self.filled(given, given.get_ref().is_empty(), "moldable = [\"paper\"]")?;
        let moldable: Vec<Moldable> = given.get_ref().iter().map(|word| word.0).collect();
        self.distinct(given, &moldable)?;
        Ok(moldable)
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
                tuner: self.tuner(file, given, usual.tuner)?,
                mapping: given.mapping.or(file.mapping).map_or(usual.mapping, |word| word.0),
                ties: given.ties.or(file.ties).map_or(usual.ties, |word| word.0),
                reallocation: self.reallocation(table.span(), given)?,
                plan_by: self.plan_by(given)?,
                estimates: given.estimates.map_or(usual.estimates, |word| word.0),
                memory: given.memory.map_or(usual.memory, |word| word.0),
                ..usual
            };
            let sizes = self.sizes(given)?;
            let treatment = VariantPolicies::Jobs { policies: Box::new(chosen), local, sizes };
            let compare_with = self.compare_with(file, given)?;
            policies.push(Variant { name: given.name.get_ref().clone(), treatment, compare_with });
        }
        Ok(policies)
    }

    fn compare_with(&self, file: &File, given: &PolicyTable) -> Checked<Vec<String>> {
        let Some(others) = &given.compare_with else { return Ok(Vec::new()) };
        let own = given.name.get_ref();
        let known = |name: &String| {
            name != own && file.policy.get_ref().iter().any(|one| one.get_ref().name.get_ref() == name)
        };
        if let Some(unknown) = others.get_ref().iter().find(|name| !known(name.get_ref())) {
            let problem = format!("expected the name of another [[policy]], found `{}`", unknown.get_ref());
            return Err(self.at(unknown.span(), problem, ""));
        }
        let names: Vec<String> = others.get_ref().iter().map(|name| name.get_ref().clone()).collect();
        self.distinct(others, &names)?;
        Ok(names)
    }

    fn sizes(&self, given: &PolicyTable) -> Checked<Sizes> {
        let Some(word) = &given.sizes else { return Ok(Sizes::Chosen) };
        let of_tuners = given.tuner_keys().into_iter().find_map(|(_, value)| Some(value.as_ref()?.span()));
        match given.tuner.as_ref().map(Spanned::span).or(of_tuners) {
            Some(span) if word.get_ref().0 == Sizes::Asked => {
                let problem = "expected no tuner where jobs keep the size that was asked for".to_owned();
                Err(self.at(span, problem, "remove it, or `sizes = \"asked\"`"))
            }
            _ => Ok(word.get_ref().0),
        }
    }

    fn tuner(&self, file: &File, given: &PolicyTable, usual: Tuner) -> Checked<Tuner> {
        let own = given.tuner.as_ref().map(|word| word.get_ref().0);
        let tuner = own.or(file.tuner.map(|word| word.0)).unwrap_or(usual);
        given.tuner_keys().into_iter().try_fold(tuner, |tuner, (key, value)| {
            let Some(value) = value else { return Ok(tuner) };
            let wrong = |error: TunerError| {
                let problem = match error {
                    // The error's position names the key.
                    TunerError::Value { found, least, most, .. } => {
                        format!("expected a number from {least} to {most}, found {found}")
                    }
                    _ => error.to_string(),
                };
                self.at(
                    value.span(),
                    problem,
                    "pliant policies lists tuners; docs/reference/files/campaign.md their keys",
                )
            };
            tuner.with(key, *value.get_ref()).map_err(wrong)
        })
    }

    /// The change of clusters' local policies: `batch`, `order`, `aging`.
    fn local(&self, given: &PolicyTable) -> Checked<LocalPolicyChange> {
        let wrong = |span: Range<usize>| {
            move |unknown: UnknownName| self.at(span, unknown.to_string(), "pliant policies lists them")
        };
        if let Some(name) = &given.batch {
            let batch = batch::by_name(name.get_ref()).map_err(wrong(name.span()))?;
            self.plannable(name, batch, given)?;
        }
        let batch = given.batch.as_ref().map(|name| name.get_ref().clone());
        let mut change = LocalPolicyChange { batch, ..LocalPolicyChange::default() };
        // `easy` supports every order; the platform's own policies are known only when the platform is read.
        let present = change.batch.clone().unwrap_or_else(|| "easy".to_owned());
        if let Some(order) = &given.order {
            change.order = Some(order.get_ref().clone());
            change.changed(&present).map_err(wrong(order.span()))?;
        }
        if let Some(aging) = &given.aging {
            change.aging = Some(aging.get_ref().0);
            // Without either, the platform's policies decide whether jobs may overtake others.
            if change.order.is_some() || change.batch.is_some() {
                change.changed(&present).map_err(wrong(aging.span()))?;
            }
        }
        Ok(change)
    }

    fn reallocation(&self, span: Range<usize>, given: &PolicyTable) -> Checked<Option<Reallocation>> {
        let Some(Keyword(ReallocationChoice(Some(algorithm)))) = given.realloc else {
            let parameters = [
                given.heuristic.is_some(),
                given.period_s.is_some(),
                given.threshold_s.is_some(),
                given.window.is_some(),
            ];
            if parameters.contains(&true) {
                let problem = "expected `realloc` with heuristic, period_s, threshold_s or window".to_owned();
                return Err(self.at(span, problem, "realloc = \"regular\""));
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
        self.at(given.span(), problem, "results are distinguished by these names")
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
                return Err(self.at(given.span(), problem, "results are distinguished by these values"));
            }
        }
        Ok(())
    }

    /// An error at a position of the text. An empty hint refers to the list of keys.
    pub(super) fn at(&self, span: Range<usize>, problem: String, hint: &str) -> CampaignError {
        let message = self.source.about_key(&span, problem);
        let hint = if hint.is_empty() { KEYS_HINT } else { hint };
        self.source.error(span, message, hint.to_owned()).into()
    }
}

/// The hint for invalid names.
pub(super) const NAME_HINT: &str =
    "names are made of letters, digits, `-` and `.`, because they become parts of file names";

pub(super) fn is_name(text: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    !text.is_empty() && text.len() <= 64 && !text.starts_with('.') && text.chars().all(allowed)
}
