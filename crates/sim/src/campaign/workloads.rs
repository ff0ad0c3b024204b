//! Checks the workloads of a campaign file. One table may give several workloads, by months and by loads.

use std::ops::Range;

use pliant_policy::batch;
use pliant_trace::CalendarMonth;
use pliant_trace::generate::LOAD_MAX;
use pliant_trace::platform::BUILT_IN;
use toml::Spanned;

use super::check::{Checked, NAME_HINT, Reader, is_name};
use super::file::{File, Keyword, Loads, Months, Repair, WorkloadTable};
use super::recipe::ParameterError;
use super::{Generator, JobSource, PlatformChoice, Recipe, Workload};

/// The maximal number of months of one table: a century.
const MONTHS_MAX: usize = 1_200;

impl Reader<'_> {
    pub(super) fn workloads(&self, file: &File) -> Checked<Vec<Workload>> {
        self.filled(&file.workload, file.workload.get_ref().is_empty(), "add a [[workload]]")?;
        let mut workloads: Vec<Workload> = Vec::new();
        for table in file.workload.get_ref() {
            let given = table.get_ref();
            self.name(&given.name)?;
            let optional = self.optional(given)?;
            let sequence = self.sequence(file, given)?;
            let platforms = self.under_batches(file, self.platforms(file, table.span(), given)?)?;
            for (suffix, source) in self.jobs(table.span(), given)? {
                let name = format!("{}{suffix}", given.name.get_ref());
                if workloads.iter().any(|other| other.name == name) {
                    return Err(self.repeated(&given.name));
                }
                let (sequence, platforms) = (sequence.clone(), platforms.clone());
                workloads.push(Workload { name, source, optional, sequence, platforms });
            }
        }
        Ok(workloads)
    }

    fn optional(&self, given: &WorkloadTable) -> Checked<bool> {
        match &given.optional {
            Some(key) if given.file.is_none() => {
                let problem = "expected `optional` with `file`, found no `file`".to_owned();
                Err(self.at(key.span(), problem, "only a file can be absent: remove the key"))
            }
            optional => Ok(optional.as_ref().is_some_and(|key| *key.get_ref())),
        }
    }

    /// The sources of a table: one, or one for each month and load, with the suffix of its name.
    fn jobs(&self, span: Range<usize>, given: &WorkloadTable) -> Checked<Vec<(String, JobSource)>> {
        match (&given.file, &given.generate) {
            (Some(_), None) => self.logged(given),
            (None, Some(generate)) => {
                let of_files = [
                    ("repair", given.repair.as_ref().map(Spanned::span)),
                    ("months", given.months.as_ref().map(Spanned::span)),
                ];
                if let Some((key, span)) = of_files.into_iter().find_map(|(key, span)| Some((key, span?))) {
                    let problem = format!("expected no `{key}` with `generate`");
                    let hint = "generated jobs need no repair and have no calendar: remove the key";
                    return Err(self.at(span, problem, hint));
                }
                self.generated(generate, given)
            }
            (Some(_), Some(generate)) => {
                let problem = "expected either `file` or `generate`, found both".to_owned();
                Err(self.at(generate.span(), problem, "remove one of them"))
            }
            (None, None) => {
                let problem = "expected either `file` or `generate`, found neither".to_owned();
                Err(self.at(span, problem, "file = \"log.swf.gz\", or generate = \"grid5000\""))
            }
        }
    }

    /// The sources of a file: the whole log or each of its `months`, with its own load or each `load`.
    fn logged(&self, given: &WorkloadTable) -> Checked<Vec<(String, JobSource)>> {
        let stray = given.generator_keys().into_iter().find_map(|(key, span)| Some((key, span?)));
        if let Some((key, span)) = stray.filter(|(key, _)| *key != "load") {
            let problem = format!("expected `file` without keys of a generator, found `{key}`");
            let hint = "month, jobs, days, walltime_max_s, seed and per_seed go with `generate`";
            return Err(self.at(span, problem, hint));
        }
        let keep_bad = given.repair.as_ref().is_some_and(|word| word.get_ref().0 == Repair::KeepBad);
        let path = given.file.clone().unwrap_or_default();
        let (months, loads) = (self.months(given)?, self.loads(given)?);
        let mut sources = Vec::new();
        for (month_suffix, month) in &months {
            for (load_suffix, load) in &loads {
                let source = JobSource::File { path: path.clone(), keep_bad, month: *month, load: *load };
                sources.push((format!("{month_suffix}{load_suffix}"), source));
            }
        }
        Ok(sources)
    }

    fn months(&self, given: &WorkloadTable) -> Checked<Vec<(String, Option<CalendarMonth>)>> {
        let Some(months) = &given.months else { return Ok(vec![(String::new(), None)]) };
        let Months { from, count } = months.get_ref();
        let count = self.within(count, 1..=MONTHS_MAX)?;
        let months = std::iter::successors(Some(from.0), |month| Some(month.next()));
        Ok(months.take(count).map(|month| (format!("-{month}"), Some(month))).collect())
    }

    fn loads(&self, given: &WorkloadTable) -> Checked<Vec<(String, Option<f64>)>> {
        let Some(load) = &given.load else { return Ok(vec![(String::new(), None)]) };
        let (loads, list) = match load.get_ref() {
            Loads::One(load) => (vec![*load], false),
            Loads::List(loads) => (loads.clone(), true),
        };
        self.filled(load, loads.is_empty(), "load = [0.4, 0.7]")?;
        if let Some(found) = loads.iter().find(|found| !(**found > 0.0 && **found <= LOAD_MAX)) {
            let problem = format!("expected a load above 0 and at most {LOAD_MAX}, found {found}");
            return Err(self.at(load.span(), problem, "at 1.0 the platform can just keep up"));
        }
        self.distinct(load, &loads)?;
        let suffix = |load: f64| if list { format!("-load-{load}") } else { String::new() };
        Ok(loads.into_iter().map(|load| (suffix(load), Some(load))).collect())
    }

    /// The sources of a generator: with its own load or each `load`.
    fn generated(
        &self,
        generate: &Spanned<Keyword<Generator>>,
        given: &WorkloadTable,
    ) -> Checked<Vec<(String, JobSource)>> {
        let mut sources = Vec::new();
        for (suffix, load) in self.loads(given)? {
            let recipe = Recipe {
                generator: generate.get_ref().0,
                month: given.month.as_ref().map(|name| name.get_ref().0),
                jobs: value(&given.jobs),
                days: value(&given.days),
                load,
                walltime_max_s: value(&given.walltime_max_s),
            };
            recipe.check().map_err(|ParameterError { key, problem }| {
                let keys = given.generator_keys();
                let span = keys.into_iter().find(|(name, _)| *name == key).and_then(|(_, span)| span);
                let hint = "docs/reference/files/generators.md describes generators";
                self.at(span.unwrap_or_else(|| generate.span()), problem, hint)
            })?;
            let (seed, per_seed) = (value(&given.seed).unwrap_or(1), value(&given.per_seed).unwrap_or(false));
            sources.push((suffix, JobSource::Generated { recipe, seed, per_seed }));
        }
        Ok(sources)
    }

    /// The platforms as they are or, with `batches`, under each of these local batch policies.
    fn under_batches(&self, file: &File, platforms: Vec<PlatformChoice>) -> Checked<Vec<PlatformChoice>> {
        let Some(given) = &file.batches else { return Ok(platforms) };
        self.filled(given, given.get_ref().is_empty(), "batches = [\"cbf\", \"easy\"]")?;
        let names: Vec<&String> = given.get_ref().iter().map(Spanned::get_ref).collect();
        self.distinct(given, &names)?;
        for one in given.get_ref() {
            let hint = "`pliant policies` lists the batch policies";
            batch::by_name(one.get_ref())
                .map_err(|unknown| self.at(one.span(), unknown.to_string(), hint))?;
        }
        let under = |platform: &PlatformChoice| {
            let choice = |batch: &&String| PlatformChoice::Under {
                platform: Box::new(platform.clone()),
                batch: (*batch).clone(),
            };
            names.iter().map(choice).collect::<Vec<_>>()
        };
        Ok(platforms.iter().flat_map(under).collect())
    }

    fn platforms(
        &self,
        file: &File,
        span: Range<usize>,
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
                Err(self.at(span, problem, "platform = \"grid5000\", procs = 128, or `platforms` for all"))
            }
        }
    }

    fn platform(&self, given: &Spanned<String>) -> Checked<PlatformChoice> {
        let word = given.get_ref();
        let choice = PlatformChoice::Named(word.clone());
        if choice.file().is_some() && !word.ends_with(".toml") {
            let names = BUILT_IN.join(", ");
            let problem = format!("expected a platform ({names}) or a file NAME.toml, found `{word}`");
            return Err(self.at(
                given.span(),
                problem,
                "docs/reference/files/platform.md describes platform files",
            ));
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
}

/// The value of an optional key.
fn value<T: Copy>(given: &Option<Spanned<T>>) -> Option<T> {
    given.as_ref().map(|given| *given.get_ref())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{SimulationCampaign, Sizes, VariantPolicies};
    use super::*;

    fn read(workload: &str, policy: &str) -> Result<SimulationCampaign, String> {
        let text = format!(
            "name = \"c\"\nseeds = [1]\n[[workload]]\nname = \"w\"\nprocs = 9\n{workload}\n[[policy]]\nname = \"p\"\n{policy}\n"
        );
        SimulationCampaign::parse(&text, Path::new("c.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn months_and_loads_make_workloads() {
        let check = |keys: &str, expected: &[(&str, Option<&str>, Option<f64>)]| {
            let campaign = read(&format!("file = \"a.swf\"\n{keys}"), "").unwrap();
            let found = campaign.workloads.iter().map(|one| match &one.source {
                JobSource::File { month, load, .. } => {
                    (one.name.clone(), month.map(|month| month.to_string()), *load)
                }
                other => panic!("expected a file, found {other:?}"),
            });
            let expected = expected
                .iter()
                .map(|(name, month, load)| (name.to_string(), month.map(str::to_owned), *load));
            assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        };
        check("", &[("w", None, None)]);
        check("load = 1", &[("w", None, Some(1.0))]);
        check("load = [0.4, 1.1]", &[("w-load-0.4", None, Some(0.4)), ("w-load-1.1", None, Some(1.1))]);
        check(
            "months = { from = \"1996-12\", count = 2 }",
            &[("w-1996-12", Some("1996-12"), None), ("w-1997-01", Some("1997-01"), None)],
        );
        check(
            "months = { from = \"1996-12\", count = 1 }\nload = [0.7]",
            &[("w-1996-12-load-0.7", Some("1996-12"), Some(0.7))],
        );
    }

    #[test]
    fn platforms_are_used_under_each_batch_policy() {
        let labels = |batches: &str| {
            let text = format!(
                "name = \"c\"\nseeds = [1]\nbatches = {batches}\n[[workload]]\nname = \"w\"\ngenerate = \"lublin\"\n\
                 load = [0.4, 0.6]\nprocs = 9\n[[policy]]\nname = \"p\"\n"
            );
            let campaign = SimulationCampaign::parse(&text, Path::new("c.toml"));
            let campaign = campaign.map_err(|error| error.to_string())?;
            assert_eq!(campaign.workloads[1].name, "w-load-0.6");
            let of_platform = |one: &PlatformChoice| {
                let platform = one.load(Path::new("")).unwrap();
                (one.label(), platform.clusters()[0].batch.clone())
            };
            Ok(campaign.workloads[1].platforms.iter().map(of_platform).collect::<Vec<_>>())
        };
        let pair = |label: &str, batch: &str| (label.to_owned(), batch.to_owned());
        let expected = vec![pair("9-procs-easy", "easy"), pair("9-procs-cbf-replan", "cbf-replan")];
        assert_eq!(labels("[\"easy\", \"cbf-replan\"]"), Ok(expected));
        let check = |batches: &str, problem: &str| {
            let error: String = labels(batches).unwrap_err();
            assert!(error.contains(problem), "{error}");
        };
        check("[]", "`batches`: expected at least one, found none");
        check("[\"cbf\", \"cbf\"]", "`batches`: expected each value once, found \"cbf\" twice");
        check("[\"slurm\"]", "expected a batch policy (fcfs, cbf, cbf-replan, ");
    }

    #[test]
    fn invalid_workloads_and_sizes_are_refused() {
        let check = |workload: &str, policy: &str, problem: &str| {
            let error = read(workload, policy).unwrap_err();
            assert!(error.contains(problem), "{error}");
        };
        let file = |keys: &str| format!("file = \"a.swf\"\n{keys}");
        check(&file("load = 0.0"), "", "7:8: `load`: expected a load above 0 and at most 1000, found 0");
        check(&file("load = [0.5, nan]"), "", "`load`: expected a load above 0 and at most 1000, found NaN");
        check(&file("load = []"), "", "`load`: expected at least one, found none");
        check(&file("load = \"high\""), "", "`load`: expected a number or a list of numbers, found \"high\"");
        check(&file("load = [0.5, 0.5]"), "", "7:8: `load`: expected each value once, found 0.5 twice");
        let months =
            |month: &str, count: &str| file(&format!("months = {{ from = \"{month}\", count = {count} }}"));
        check(&months("1996-13", "2"), "", "expected a month such as 1996-10, found `1996-13`");
        check(&months("1996-10", "0"), "", "expected a whole number from 1 to 1200, found 0");
        let lublin = "generate = \"lublin\"\n";
        check(&format!("{lublin}load = [0.5, 2000]"), "", "`load`: expected a load above 0 and at most 1000");
        check(
            &format!("{lublin}months = {{ from = \"1996-10\", count = 2 }}"),
            "",
            "`months`: expected no `months` with `generate`",
        );
        check(&file(""), "sizes = \"own\"", "expected a choice of sizes (chosen, asked), found `own`");
        check(
            &file(""),
            "sizes = \"asked\"\nslack = 0.5",
            "`slack`: expected no tuner where jobs keep the size that was asked for",
        );
        check(
            &file(""),
            "compare_with = [\"p\"]",
            "`compare_with`: expected the name of another [[policy]], found `p`",
        );
        let sizes = |keys: &str| match &read(&file(""), keys).unwrap().policies[0].treatment {
            VariantPolicies::Jobs { sizes, .. } => *sizes,
            VariantPolicies::Requests(_) => panic!("expected a policy of jobs"),
        };
        assert_eq!(
            ["", "sizes = \"chosen\"", "sizes = \"asked\""].map(sizes),
            [Sizes::Chosen, Sizes::Chosen, Sizes::Asked]
        );
    }
}
