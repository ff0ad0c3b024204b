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
//! ```

use std::path::Path;

use pliant_model::{Cluster, Platform, Procs, Speed, check_name, rng::stream_seed};
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
    procs: Spanned<i64>,
    speed: Option<Spanned<f64>>,
    batch: Option<Spanned<String>>,
    order: Option<Spanned<String>>,
    aging: Option<Spanned<String>>,
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
        "a platform is a list of [[cluster]] with name, procs, and optionally speed, batch, order and aging",
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
    let procs = u32::try_from(*entry.procs.get_ref()).ok().filter(|procs| *procs > 0).ok_or_else(|| {
        let message = format!("`procs`: expected 1 to {}, found {}", u32::MAX, entry.procs.get_ref());
        source.error(entry.procs.span(), message, "a cluster needs processors to run jobs on".to_owned())
    })?;
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
    Ok(Cluster { name: entry.name.get_ref().clone(), procs: Procs(procs), speed, batch })
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
        text.push('\n');
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
    fn unknown_keys_are_errors() {
        let hint = "a platform is a list of [[cluster]] with name, procs, and optionally speed, batch, order and aging";
        let known = "`name`, `procs`, `speed`, `batch`, `order`, `aging`";
        check(
            "[[cluster]]\nname = \"a\"\nprocs = 4\ncores = 4\n",
            &format!("platform.toml:4:1: unknown key `cores`, expected one of {known}\n{hint}"),
        );
        check("[[cluster]]\nname = \"a\"\n", &format!("platform.toml:1:1: missing key `procs`\n{hint}"));
        check(
            "[[cluster]]\nname = \"a\"\nprocs = \"4\"\n",
            &format!("platform.toml:3:9: `procs`: expected a whole number, found \"4\"\n{hint}"),
        );
    }
}
