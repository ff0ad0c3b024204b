//! Reads and checks the TOML file of a campaign of mappings. `docs/reference/files/campaign-matrix-other.md` lists the keys.

use std::ops::Range;
use std::path::{Path, PathBuf};

use pliant_tig::generate::{BandwidthRanges, Tiers};
use pliant_tig::wase::{Fit, Options, Search, Suitability};
use pliant_trace::toml_file::Source;
use serde::Deserialize;
use toml::Spanned;

use super::{Algorithm, ClusteringChoice, MappingCampaign, Policy, UseCase};
use crate::campaign::CampaignError;
use crate::campaign::file::Seeds;

const KEYS_HINT: &str = "docs/reference/files/campaign-matrix-other.md lists every key";

/// The upper bound of tasks of a graph and machines of a grid: a mapping of more takes minutes.
const SIZE_MAX: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "kind")]
    _kind: serde::de::IgnoredAny,
    name: Spanned<String>,
    seeds: Spanned<Seeds>,
    reference: Option<Spanned<String>>,
    tasks: Spanned<Vec<usize>>,
    cluster_sizes: Spanned<Vec<Spanned<[usize; 2]>>>,
    mcr_mflops: Spanned<Vec<f64>>,
    weights: [f64; 2],
    edges_per_task: Spanned<f64>,
    bandwidth_mbps: Option<Spanned<f64>>,
    machines: Spanned<Vec<usize>>,
    lan_hosts: Spanned<Vec<usize>>,
    power_mflops: [f64; 2],
    load: [f64; 2],
    tiers: TiersTable,
    policy: Spanned<Vec<Spanned<PolicyTable>>>,
    #[serde(default)]
    use_case: Vec<Spanned<UseCaseTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TiersTable {
    mans_per_wan: usize,
    lans_per_man: usize,
    wan_routers: usize,
    man_routers: usize,
    wan_redundancy: usize,
    man_redundancy: usize,
    lan_redundancy: usize,
    man_wan_redundancy: usize,
    lan_man_redundancy: usize,
    lan_mbps: [f64; 2],
    man_mbps: [f64; 2],
    wan_mbps: [f64; 2],
    root_mbps: [f64; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    name: Spanned<String>,
    #[serde(default)]
    algorithm: Algorithm,
    #[serde(default)]
    clustering: ClusteringChoice,
    #[serde(default)]
    suitability: SuitabilityKeyword,
    #[serde(default)]
    fit: FitKeyword,
    per_hop: Option<Spanned<f64>>,
    #[serde(default)]
    bandwidth: bool,
    #[serde(default)]
    refine: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SuitabilityKeyword {
    #[default]
    Mean,
    Packing,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FitKeyword {
    #[default]
    Worst,
    Best,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UseCaseTable {
    name: Spanned<String>,
    application: PathBuf,
    grid: PathBuf,
    clusters: Spanned<Vec<usize>>,
    mcr_mflops: Spanned<Vec<f64>>,
}

type Checked<T> = Result<T, CampaignError>;

impl MappingCampaign {
    /// Reads a campaign file.
    pub fn read(path: &Path) -> Checked<MappingCampaign> {
        understand(&Source::read(path)?, path)
    }

    /// Parses and checks the text of a campaign file; `path` is for errors and for relative paths in it.
    pub fn parse(text: &str, path: &Path) -> Checked<MappingCampaign> {
        understand(&Source::of(path, text), path)
    }
}

fn understand(source: &Source, path: &Path) -> Checked<MappingCampaign> {
    let file: File = source.parse(KEYS_HINT)?;
    let reader = Reader { source };
    reader.name(&file.name)?;
    reader.filled(file.seeds.span(), file.seeds.get_ref().0.len())?;
    let policies = reader.policies(&file)?;
    let reference = match &file.reference {
        None => 0,
        Some(name) => policies.iter().position(|one| &one.name == name.get_ref()).ok_or_else(|| {
            let problem = format!("expected the name of a [[policy]], found `{}`", name.get_ref());
            reader.at(name.span(), problem)
        })?,
    };
    let TiersTable { mans_per_wan, lans_per_man, wan_routers, man_routers, .. } = file.tiers;
    let tiers = Tiers {
        wans: 1,
        mans_per_wan,
        lans_per_man,
        wan_routers,
        man_routers,
        lan_hosts: 1,
        wan_redundancy: file.tiers.wan_redundancy,
        man_redundancy: file.tiers.man_redundancy,
        lan_redundancy: file.tiers.lan_redundancy,
        man_wan_redundancy: file.tiers.man_wan_redundancy,
        lan_man_redundancy: file.tiers.lan_man_redundancy,
    };
    let TiersTable { lan_mbps, man_mbps, wan_mbps, root_mbps, .. } = file.tiers;
    Ok(MappingCampaign {
        base: path.parent().unwrap_or(Path::new("")).to_owned(),
        tasks: reader.sizes(&file.tasks)?,
        cluster_sizes: reader.classes(&file.cluster_sizes)?,
        mcr_mflops: reader.positive(&file.mcr_mflops)?,
        weights: file.weights,
        edges_per_task: reader.above_zero(&file.edges_per_task)?,
        bandwidth_mbps: file.bandwidth_mbps.as_ref().map(|mbps| reader.above_zero(mbps)).transpose()?,
        machines: reader.sizes(&file.machines)?,
        lan_hosts: reader.sizes(&file.lan_hosts)?,
        power_mflops: file.power_mflops,
        load: file.load,
        tiers,
        bandwidths: BandwidthRanges { lan: lan_mbps, man: man_mbps, wan: wan_mbps, root: root_mbps },
        use_cases: reader.use_cases(&file.use_case)?,
        name: file.name.into_inner(),
        seeds: file.seeds.into_inner().0,
        policies,
        reference,
    })
}

/// Checks the parsed file and locates errors in its text.
struct Reader<'a> {
    source: &'a Source,
}

impl Reader<'_> {
    fn policies(&self, file: &File) -> Checked<Vec<Policy>> {
        self.filled(file.policy.span(), file.policy.get_ref().len())?;
        let mut policies: Vec<Policy> = Vec::new();
        for table in file.policy.get_ref().iter().map(Spanned::get_ref) {
            self.name(&table.name)?;
            if policies.iter().any(|other| &other.name == table.name.get_ref()) {
                let problem = format!("expected unique names, found `{}` twice", table.name.get_ref());
                return Err(self.at(table.name.span(), problem));
            }
            policies.push(self.policy(table, file.bandwidth_mbps.is_some())?);
        }
        Ok(policies)
    }

    fn policy(&self, table: &PolicyTable, has_bandwidth: bool) -> Checked<Policy> {
        let search = match &table.per_hop {
            None => Search::Closest,
            Some(per_hop) if (0.0..=1000.0).contains(per_hop.get_ref()) => {
                Search::Weighed { per_hop: *per_hop.get_ref() }
            }
            Some(per_hop) => {
                let problem = format!("expected a number of 0 to 1000, found {}", per_hop.get_ref());
                return Err(self.at(per_hop.span(), problem));
            }
        };
        if table.bandwidth && !has_bandwidth {
            let problem = "`bandwidth`: expected `bandwidth_mbps` at the top, found none".to_owned();
            return Err(self.source.error(table.name.span(), problem, KEYS_HINT.to_owned()).into());
        }
        let suitability = match table.suitability {
            SuitabilityKeyword::Mean => Suitability::Mean,
            SuitabilityKeyword::Packing => Suitability::Packing,
        };
        let fit = match table.fit {
            FitKeyword::Worst => Fit::Worst,
            FitKeyword::Best => Fit::Best,
        };
        Ok(Policy {
            name: table.name.get_ref().clone(),
            algorithm: table.algorithm,
            clustering: table.clustering,
            options: Options { suitability, search, fit, bandwidth: table.bandwidth },
            refine: table.refine,
        })
    }

    fn use_cases(&self, tables: &[Spanned<UseCaseTable>]) -> Checked<Vec<UseCase>> {
        let use_case = |table: &Spanned<UseCaseTable>| {
            let UseCaseTable { name, application, grid, clusters, mcr_mflops } = table.get_ref();
            self.name(name)?;
            Ok(UseCase {
                name: name.get_ref().clone(),
                application: application.clone(),
                grid: grid.clone(),
                clusters: self.sizes(clusters)?,
                mcr_mflops: self.positive(mcr_mflops)?,
            })
        };
        tables.iter().map(use_case).collect()
    }

    fn classes(&self, given: &Spanned<Vec<Spanned<[usize; 2]>>>) -> Checked<Vec<[usize; 2]>> {
        self.filled(given.span(), given.get_ref().len())?;
        for class in given.get_ref() {
            let [least, most] = *class.get_ref();
            if !(1..=most).contains(&least) || most > SIZE_MAX {
                let problem =
                    format!("expected at least 1 and at most {SIZE_MAX} tasks, found [{least}, {most}]");
                return Err(self.at(class.span(), problem));
            }
        }
        Ok(given.get_ref().iter().map(|class| *class.get_ref()).collect())
    }

    fn sizes(&self, given: &Spanned<Vec<usize>>) -> Checked<Vec<usize>> {
        self.filled(given.span(), given.get_ref().len())?;
        match given.get_ref().iter().find(|size| !(1..=SIZE_MAX).contains(*size)) {
            None => Ok(given.get_ref().clone()),
            Some(found) => {
                Err(self.at(given.span(), format!("expected numbers of 1 to {SIZE_MAX}, found {found}")))
            }
        }
    }

    fn positive(&self, given: &Spanned<Vec<f64>>) -> Checked<Vec<f64>> {
        self.filled(given.span(), given.get_ref().len())?;
        match given.get_ref().iter().find(|number| !(**number > 0.0 && number.is_finite())) {
            None => Ok(given.get_ref().clone()),
            Some(found) => Err(self.at(given.span(), format!("expected numbers above 0, found {found}"))),
        }
    }

    fn above_zero(&self, given: &Spanned<f64>) -> Checked<f64> {
        let found = *given.get_ref();
        if found > 0.0 && found.is_finite() {
            return Ok(found);
        }
        Err(self.at(given.span(), format!("expected a number above 0, found {found}")))
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
