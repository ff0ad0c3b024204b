//! Platform files, and the platforms of the papers.
//!
//! ```toml
//! [[cluster]]
//! name = "bordeaux"
//! procs = 640
//! speed = 1.0     # optional, 0.001 to 1000; times are divided by it
//! batch = "cbf"   # optional; a local batch policy
//! order = "f1"    # optional; in which order its waiting jobs are served
//! aging = "7d"    # optional, beside `order`; after which wait a job goes before all others
//!
//! [[cluster]]
//! name = "lyon"
//! default_memory = "1G"        # optional; for each processor of a job that does not mention memory
//! licences = { matlab = 4 }    # optional; how many jobs may hold each at once
//! [[cluster.nodes]]            # in place of `procs`: nodes that are alike
//! count = 16
//! procs = 32
//! memory = "128G"
//! gpus = 4                     # optional
//! gpu_kind = "a100"            # optional
//! scratch = "1T"               # optional; local disk space
//! features = ["infiniband"]    # optional
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pliant_model::{
    Cluster, ClusterNodes, Mebibytes, MebibytesError, NodeGroup, NodesError, Platform, Procs, Speed,
    check_name, rng::stream_seed,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use toml::Spanned;

use crate::error::TraceError;
use crate::toml_file::Source;

/// The local batch policy of clusters that name none.
pub const DEFAULT_BATCH: &str = "cbf";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    procs: Option<Spanned<i64>>,
    speed: Option<Spanned<f64>>,
    batch: Option<Spanned<String>>,
    order: Option<Spanned<String>>,
    aging: Option<Spanned<String>>,
    default_memory: Option<Spanned<String>>,
    licences: Option<BTreeMap<String, u32>>,
    nodes: Option<Vec<Spanned<NodesEntry>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesEntry {
    count: u32,
    procs: u32,
    memory: Spanned<String>,
    gpus: Option<u32>,
    gpu_kind: Option<String>,
    scratch: Option<Spanned<String>>,
    features: Option<Vec<String>>,
}

/// An invalid key of a cluster, with the problem.
pub type WrongKey = (&'static str, String);

/// Combines `batch`, `order` and `aging` into the name of a local policy.
pub type LocalPolicyOf = fn(&str, Option<&str>, Option<&str>) -> Result<String, WrongKey>;

/// Reads a platform file. `local_policy` knows which local policies there are.
pub fn load(path: &Path, local_policy: LocalPolicyOf) -> Result<Platform, TraceError> {
    let source = Source::read(path)?;
    parse(&source, local_policy)
}

fn parse(source: &Source, local_policy: LocalPolicyOf) -> Result<Platform, TraceError> {
    let file: File = source.parse(
        "a platform is a list of [[cluster]] with name, procs or nodes, and optionally speed, batch, order and aging",
    )?;
    let mut clusters: Vec<Cluster> = Vec::with_capacity(file.cluster.len());
    for entry in &file.cluster {
        let cluster = read_cluster(source, entry.get_ref(), local_policy)?;
        if clusters.iter().any(|other| other.name == cluster.name) {
            let message = format!("`name`: expected unique cluster names, found `{}` twice", cluster.name);
            return Err(source.error(entry.get_ref().name.span(), message, "rename one of them".to_owned()));
        }
        clusters.push(cluster);
    }
    Platform::new(clusters)
        .map_err(|error| source.error(0..0, error.to_string(), "add a [[cluster]]".to_owned()))
}

fn read_cluster(source: &Source, entry: &Entry, local_policy: LocalPolicyOf) -> Result<Cluster, TraceError> {
    check_name(entry.name.get_ref()).map_err(|error| {
        let hint = "logs and results name clusters by it".to_owned();
        source.error(entry.name.span(), format!("`name`: {error}"), hint)
    })?;
    let nodes = read_nodes(source, entry)?;
    let procs = match (&entry.procs, &nodes) {
        (Some(given), _) => {
            let read = u32::try_from(*given.get_ref()).ok().filter(|procs| *procs > 0);
            let is_other = |procs: &u32| nodes.as_ref().is_none_or(|nodes| nodes.procs() == Procs(*procs));
            Procs(read.filter(is_other).ok_or_else(|| {
                let expected = nodes.as_ref().map(|nodes| format!("the {} of its nodes", nodes.procs()));
                let expected = expected.unwrap_or_else(|| format!("1 to {}", u32::MAX));
                let message = format!("`procs`: expected {expected}, found {}", given.get_ref());
                let hint = match nodes {
                    Some(_) => "it can be left out where there are nodes",
                    None => "a cluster needs processors to run jobs on",
                };
                source.error(given.span(), message, hint.to_owned())
            })?)
        }
        (None, Some(nodes)) => nodes.procs(),
        (None, None) => {
            let hint = "a cluster has `procs`, or [[cluster.nodes]] with theirs".to_owned();
            return Err(source.error(entry.name.span(), "missing key `procs`".to_owned(), hint));
        }
    };
    let speed = match &entry.speed {
        None => Speed::REFERENCE,
        Some(speed) => Speed::new(*speed.get_ref()).map_err(|error| {
            let hint = "1.0 is the reference; 1.4 is 40 % faster".to_owned();
            source.error(speed.span(), format!("`speed`: {error}"), hint)
        })?,
    };
    let keys = [("batch", &entry.batch), ("order", &entry.order), ("aging", &entry.aging)];
    let [batch, order, aging] = keys.map(|(_, value)| value.as_ref().map(|value| value.get_ref().as_str()));
    let batch = local_policy(batch.unwrap_or(DEFAULT_BATCH), order, aging).map_err(|(key, problem)| {
        let given = keys.iter().find(|(name, _)| *name == key).and_then(|(_, value)| value.as_ref());
        let span = given.map_or(0..0, Spanned::span);
        source.error(span, format!("`{key}`: {problem}"), "`pliant policies` lists them".to_owned())
    })?;
    Ok(Cluster { name: entry.name.get_ref().clone(), procs, speed, batch, nodes: nodes.map(Arc::new) })
}

fn read_nodes(source: &Source, entry: &Entry) -> Result<Option<ClusterNodes>, TraceError> {
    let amount = |key: &str, text: Option<&Spanned<String>>| {
        let Some(text) = text else { return Ok(Mebibytes::ZERO) };
        text.get_ref().parse().map_err(|error: MebibytesError| {
            source.error(text.span(), format!("`{key}`: {error}"), "M, G and T are powers of 1024".to_owned())
        })
    };
    let default_memory = amount("default_memory", entry.default_memory.as_ref())?;
    let Some(given) = &entry.nodes else {
        if entry.default_memory.is_some() || entry.licences.is_some() {
            let hint = "only a cluster with [[cluster.nodes]] counts memory and licences".to_owned();
            return Err(source.error(entry.name.span(), "missing key `nodes`".to_owned(), hint));
        }
        return Ok(None);
    };
    let mut groups = Vec::new();
    let wrong = |span: Range<usize>, error: NodesError| {
        source.error(span, format!("`nodes`: {error}"), nodes_hint(&error).to_owned())
    };
    for entry in given {
        let one = entry.get_ref();
        let group = NodeGroup {
            count: one.count,
            procs: Procs(one.procs),
            memory: amount("memory", Some(&one.memory))?,
            gpus: one.gpus.unwrap_or(0),
            gpu_kind: one.gpu_kind.clone(),
            scratch: amount("scratch", one.scratch.as_ref())?,
            features: one.features.clone().unwrap_or_default(),
        };
        group.check(default_memory).map_err(|error| wrong(entry.span(), error))?;
        groups.push(group);
    }
    let nodes = ClusterNodes { groups, licences: entry.licences.clone().unwrap_or_default(), default_memory };
    nodes.check().map_err(|error| wrong(entry.name.span(), error))?;
    Ok(Some(nodes))
}

fn nodes_hint(error: &NodesError) -> &'static str {
    match error {
        NodesError::Groups(_) => "nodes that are alike can be one group, with their `count`",
        NodesError::Empty { .. } => "`count` and `procs` of a group are at least 1",
        NodesError::TooMany { .. } | NodesError::TooLarge(_) => {
            "a cluster of several parts can be several clusters"
        }
        NodesError::NoGpus(_) => "`gpus` is their number on each node",
        NodesError::DefaultMemory { .. } => {
            "a smaller `default_memory` lets a job use all processors of a node"
        }
        NodesError::Word(_) => "jobs ask for features, kinds of GPU and licences by these names",
    }
}

/// A platform file's text.
pub fn to_toml(platform: &Platform) -> String {
    let mut text = String::new();
    for cluster in platform.clusters() {
        let name = toml::Value::String(cluster.name.clone());
        let (procs, speed) = (cluster.procs, cluster.speed.get());
        text.push_str(&format!("[[cluster]]\nname = {name}\nprocs = {procs}\nspeed = {speed:?}\n"));
        for (key, word) in ["batch", "order", "aging"].into_iter().zip(cluster.batch.split('/')) {
            text.push_str(&format!("{key} = \"{word}\"\n"));
        }
        if let Some(nodes) = &cluster.nodes {
            text.push_str(&nodes_toml(nodes));
        }
        text.push('\n');
    }
    text
}

fn nodes_toml(ClusterNodes { groups, licences, default_memory }: &ClusterNodes) -> String {
    let mut text = format!("default_memory = \"{default_memory}\"\n");
    let counts: Vec<String> = licences.iter().map(|(name, count)| format!("\"{name}\" = {count}")).collect();
    text.push_str(&format!("licences = {{ {} }}\n", counts.join(", ")));
    for NodeGroup { count, procs, memory, gpus, gpu_kind, scratch, features } in groups {
        text.push_str(&format!(
            "[[cluster.nodes]]\ncount = {count}\nprocs = {procs}\nmemory = \"{memory}\"\n"
        ));
        text.push_str(&format!("gpus = {gpus}\nscratch = \"{scratch}\"\nfeatures = {features:?}\n"));
        if let Some(kind) = gpu_kind {
            text.push_str(&format!("gpu_kind = \"{kind}\"\n"));
        }
    }
    text
}

/// Names of the built-in platforms.
pub const BUILT_IN: [&str; 4] = ["grid5000", "grid5000-homogeneous", "pwa-g5k", "pwa-g5k-homogeneous"];

/// A built-in platform by name.
pub fn built_in(name: &str) -> Option<Platform> {
    let grid5000 = [("bordeaux", 640, 1.0), ("lyon", 270, 1.2), ("toulouse", 434, 1.4)];
    let pwa_g5k = [("bordeaux", 640, 1.0), ("ctc", 430, 1.2), ("sdsc", 128, 1.4)];
    let (clusters, homogeneous) = match name {
        "grid5000" => (grid5000, false),
        "grid5000-homogeneous" => (grid5000, true),
        "pwa-g5k" => (pwa_g5k, false),
        "pwa-g5k-homogeneous" => (pwa_g5k, true),
        _ => return None,
    };
    let cluster = |(name, procs, speed): (&str, u32, f64)| Cluster {
        name: name.to_owned(),
        procs: Procs(procs),
        speed: Speed::new(if homogeneous { 1.0 } else { speed }).unwrap_or(Speed::REFERENCE),
        batch: DEFAULT_BATCH.to_owned(),
        nodes: None,
    };
    Platform::new(clusters.map(cluster).to_vec()).ok()
}

/// A large federation for scale tests: `clusters` clusters with `total_procs` processors together, sizes drawn
/// between a quarter and twice the mean, speeds 0.8, 0.9, ... 1.6. At least one processor each.
pub fn generated(clusters: u32, total_procs: u64, seed: u64) -> Platform {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "platform"));
    let clusters = clusters.max(1);
    let weights: Vec<f64> = (0..clusters).map(|_| rng.random_range(0.25..2.0)).collect();
    let sum: f64 = weights.iter().sum();
    let mut left = total_procs;
    let all = weights.iter().enumerate().map(|(index, weight)| {
        let last = index + 1 == weights.len();
        let share = if last { left } else { ((weight / sum * total_procs as f64) as u64).min(left) };
        left -= share;
        Cluster {
            name: format!("c{:03}", index + 1),
            procs: Procs(share.clamp(1, u64::from(u32::MAX)) as u32),
            speed: Speed::new(f64::from(rng.random_range(8..=16)) / 10.0).unwrap_or(Speed::REFERENCE),
            batch: DEFAULT_BATCH.to_owned(),
            nodes: None,
        }
    });
    Platform::new(all.collect()).expect("names are numbers and sizes are positive")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_policies(batch: &str, order: Option<&str>, aging: Option<&str>) -> Result<String, WrongKey> {
        if !["cbf", "easy"].contains(&batch) {
            return Err(("batch", format!("expected a batch policy (cbf, easy), found `{batch}`")));
        }
        Ok([Some(batch), order, aging].into_iter().flatten().collect::<Vec<_>>().join("/"))
    }

    fn check(text: &str, expected: &str) {
        let path = Path::new("platform.toml");
        let error = parse(&Source::of(path, text), two_policies).expect_err("a bad platform");
        assert_eq!(format!("{error}\n{}", error.hint().unwrap_or_default()), expected);
    }

    #[test]
    fn a_platform_reads_back() {
        for name in BUILT_IN {
            let platform = built_in(name).expect("built in");
            let text = to_toml(&platform);
            assert_eq!(
                parse(&Source::of(Path::new("p.toml"), &text), two_policies).expect("valid"),
                platform
            );
        }
        let ordered = built_in("grid5000").expect("built in").with_batch("easy/f1/none");
        let text = to_toml(&ordered);
        assert!(text.contains("batch = \"easy\"\norder = \"f1\"\naging = \"none\"\n"), "{text}");
        assert_eq!(parse(&Source::of(Path::new("p.toml"), &text), two_policies).expect("valid"), ordered);
        let nodes = "[[cluster]]\nname = \"a\"\nlicences = { \"b.c\" = 3 }\ndefault_memory = \"1G\"\n\
            [[cluster.nodes]]\ncount = 3\nprocs = 4\nmemory = \"16G\"\nscratch = \"1T\"\n\
            [[cluster.nodes]]\ncount = 1\nprocs = 8\nmemory = \"64G\"\ngpus = 2\ngpu_kind = \"a100\"\nfeatures = [\"ib\"]\n";
        let platform = parse(&Source::of(Path::new("p.toml"), nodes), two_policies).expect("valid");
        assert_eq!(platform.total_procs(), 20);
        let text = to_toml(&platform);
        assert_eq!(parse(&Source::of(Path::new("p.toml"), &text), two_policies).expect("valid"), platform);
        let large = generated(300, 240_000, 1);
        assert_eq!((large.clusters().len(), large.total_procs()), (300, 240_000));
    }

    #[test]
    fn errors_say_where() {
        check(
            "[[cluster]]\nname = \"a\"\nprocs = 0\n",
            "platform.toml:3:9: `procs`: expected 1 to 4294967295, found 0\na cluster needs processors to run jobs on",
        );
        for (speed, found) in [
            ("-1.0", "-1"),
            ("0.0", "0"),
            ("1e-4", "0.0001"),
            ("1000.5", "1000.5"),
            ("nan", "NaN"),
            ("inf", "inf"),
        ] {
            check(
                &format!("[[cluster]]\nname = \"a\"\nprocs = 4\nspeed = {speed}\n"),
                &format!(
                    "platform.toml:4:9: `speed`: expected a speed of 0.001 to 1000, found {found}\n\
                     1.0 is the reference; 1.4 is 40 % faster"
                ),
            );
        }
        for (name, found) in [("", ""), (" ", " "), ("a\\nb", "a\\nb"), ("a,b", "a,b")] {
            check(
                &format!("[[cluster]]\nname = \"{name}\"\nprocs = 4\n"),
                &format!(
                    "platform.toml:2:8: `name`: expected a name of 1 to 64 printable characters, none of them a \
                     comma, semicolon or double quote, found `{found}`\nlogs and results name clusters by it"
                ),
            );
        }
        check(
            "[[cluster]]\nname = \"a\"\nprocs = 4\nbatch = \"pbs\"\n",
            "platform.toml:4:9: `batch`: expected a batch policy (cbf, easy), found `pbs`\n`pliant policies` lists them",
        );
        check(
            "[[cluster]]\nname = \"a\"\nprocs = 4\n\n[[cluster]]\nname = \"a\"\nprocs = 4\n",
            "platform.toml:6:8: `name`: expected unique cluster names, found `a` twice\nrename one of them",
        );
    }

    #[test]
    fn errors_in_nodes_say_where() {
        let nodes = |keys: &str, group: &str| {
            format!("[[cluster]]\nname = \"a\"\n{keys}[[cluster.nodes]]\ncount = 2\nprocs = 4\n{group}\n")
        };
        check(
            &nodes("procs = 9\n", "memory = \"1G\""),
            "platform.toml:3:9: `procs`: expected the 8 of its nodes, found 9\n\
             it can be left out where there are nodes",
        );
        check(
            &nodes("", "memory = \"1.5G\""),
            "platform.toml:6:10: `memory`: expected an amount such as 512M, 64G or 1T, less than 4096T, found `1.5G`\n\
             M, G and T are powers of 1024",
        );
        check(
            &nodes("default_memory = \"1G\"\n", "memory = \"3G\""),
            "platform.toml:4:1: `nodes`: expected the default memory of 1G for each of the 4 processors of a node, \
             found 3G in all\na smaller `default_memory` lets a job use all processors of a node",
        );
        check(
            &nodes("", "memory = \"1G\"\n[[cluster.nodes]]\ncount = 0\nprocs = 1\nmemory = \"1G\""),
            "platform.toml:7:1: `nodes`: expected nodes with processors, found a group of 0 nodes with 1 processors\n\
             `count` and `procs` of a group are at least 1",
        );
        check(
            "[[cluster]]\nname = \"a\"\nprocs = 4\nlicences = { b = 1 }\n",
            "platform.toml:2:8: missing key `nodes`\nonly a cluster with [[cluster.nodes]] counts memory and licences",
        );
    }

    #[test]
    fn unknown_keys_are_errors() {
        let hint = "a platform is a list of [[cluster]] with name, procs or nodes, and optionally speed, batch, order and aging";
        let known =
            "`name`, `procs`, `speed`, `batch`, `order`, `aging`, `default_memory`, `licences`, `nodes`";
        check(
            "[[cluster]]\nname = \"a\"\nprocs = 4\ncores = 4\n",
            &format!("platform.toml:4:1: unknown key `cores`, expected one of {known}\n{hint}"),
        );
        check(
            "[[cluster]]\nname = \"a\"\n",
            "platform.toml:2:8: missing key `procs`\na cluster has `procs`, or [[cluster.nodes]] with theirs",
        );
        check(
            "[[cluster]]\nname = \"a\"\nprocs = \"4\"\n",
            &format!("platform.toml:3:9: `procs`: expected a whole number, found \"4\"\n{hint}"),
        );
    }
}
