//! Resources besides processors that a request needs.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::{BatchOptions, Procs, Speedup};

/// An amount of memory or of disk space, in MiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Mebibytes(pub u32);

impl Mebibytes {
    /// Nothing.
    pub const ZERO: Mebibytes = Mebibytes(0);
}

/// A text that is no amount of memory or disk space.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected an amount such as 512M, 64G or 1T, less than 4096T, found `{found}`")]
pub struct MebibytesError {
    /// The text found.
    pub found: String,
}

/// A whole number of MiB (`M`, or no unit), GiB (`G`) or TiB (`T`).
impl FromStr for Mebibytes {
    type Err = MebibytesError;
    fn from_str(text: &str) -> Result<Mebibytes, MebibytesError> {
        let error = || MebibytesError { found: text.to_owned() };
        let (number, shift) = match text.char_indices().last() {
            Some((end, 'M' | 'm')) => (&text[..end], 0),
            Some((end, 'G' | 'g')) => (&text[..end], 10),
            Some((end, 'T' | 't')) => (&text[..end], 20),
            _ => (text, 0),
        };
        let is_whole = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        let number: Option<u64> = number.parse().ok().filter(|_| is_whole);
        let mib = number.and_then(|number| number.checked_mul(1 << shift));
        mib.and_then(|mib| u32::try_from(mib).ok()).map(Mebibytes).ok_or_else(error)
    }
}

/// As people write it: `512M`, `64G`, `1T`.
impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0 => "0M".to_owned(),
            mib if mib.is_multiple_of(1 << 20) => format!("{}T", mib >> 20),
            mib if mib.is_multiple_of(1 << 10) => format!("{}G", mib >> 10),
            mib => format!("{mib}M"),
        };
        f.pad(&text)
    }
}

/// How much memory a job needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Memory {
    /// So much for each processor: it grows with the size of the job.
    PerProc(Mebibytes),
    /// So much in all, in equal parts for its processors: on more processors each needs less.
    Total(Mebibytes),
}

impl Memory {
    /// The memory for each processor of a job on `procs`.
    pub fn per_proc(self, procs: Procs) -> Mebibytes {
        match self {
            Self::PerProc(each) => each,
            Self::Total(all) => Mebibytes(all.0.div_ceil(procs.0.max(1))),
        }
    }
}

/// How many GPUs a job needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum GpuCount {
    /// So many for each processor: it grows with the size of the job.
    PerProc(u32),
    /// So many in all. With a fixed number of nodes each has equally many.
    Total(u32),
}

impl GpuCount {
    /// How many that is for a job on `procs`.
    pub fn in_all(self, procs: Procs) -> u32 {
        match self {
            Self::PerProc(each) => each.saturating_mul(procs.0),
            Self::Total(all) => all,
        }
    }
}

/// The GPUs that a job needs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Gpus {
    /// How many.
    pub count: GpuCount,
    /// Of which kind, such as `a100`; any if none.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub kind: Option<String>,
}

/// Which features the nodes of a job must have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Constraint {
    /// Each node has all of these.
    All(Vec<String>),
    /// Each node has at least one of these.
    Any(Vec<String>),
}

impl Constraint {
    /// True if a node with these features will do.
    pub fn admits(&self, features: &[String]) -> bool {
        match self {
            Self::All(needed) => needed.iter().all(|one| features.contains(one)),
            Self::Any(enough) => enough.iter().any(|one| features.contains(one)),
        }
    }
}

/// As it is written: `a&b` or `a|b`.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(features) => f.write_str(&features.join("&")),
            Self::Any(features) => f.write_str(&features.join("|")),
        }
    }
}

/// What a request needs besides processors, and how its processors may be spread over nodes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Resources {
    /// Memory. None leaves it to the cluster.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub memory: Option<Memory>,
    /// GPUs.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub gpus: Option<Gpus>,
    /// Local disk space on each node.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub scratch: Mebibytes,
    /// The number of nodes; any if none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub nodes: Option<u32>,
    /// The most processors on each node.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub procs_per_node: Option<Procs>,
    /// The processors of each of its tasks, which are all on one node: its processors are a multiple of it. None is one processor, of which
    /// batch systems and scripts are not notified.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub procs_per_task: Option<Procs>,
    /// True if it shares its nodes with no other job.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub exclusive: bool,
    /// The features of its nodes.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub constraint: Option<Constraint>,
    /// How many of each licence.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "BTreeMap::is_empty"))]
    pub licences: BTreeMap<String, u32>,
    /// What it says to the batch system.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "BatchOptions::is_empty"))]
    pub batch: BatchOptions,
}

/// Resources that no request can ask for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: expected {expected}, found `{found}`")]
pub struct ResourcesError {
    field: &'static str,
    expected: &'static str,
    found: String,
}

impl ResourcesError {
    /// Which resource is wrong.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// What was expected.
    pub fn expected(&self) -> &'static str {
        self.expected
    }

    /// What was found.
    pub fn found(&self) -> &str {
        &self.found
    }
}

impl Resources {
    /// Whether nothing is needed besides processors but one node with that many: on it each task is on one node.
    pub fn is_one_node_of(&self, procs: Procs) -> bool {
        let rest = Resources { nodes: None, procs_per_node: None, procs_per_task: None, ..self.clone() };
        let is_of_tasks = self.procs_per_task.is_some() && self.nodes.is_none();
        (self.nodes == Some(1) || is_of_tasks)
            && self.procs_per_node.is_none_or(|most| most >= procs)
            && rest == Resources::default()
    }

    /// The processors of each of its tasks, at least one.
    pub fn task_procs(&self) -> Procs {
        self.procs_per_task.map_or(Procs::ONE, |procs| procs.max(Procs::ONE))
    }

    /// The number of tasks of a job on `procs`.
    pub fn tasks(&self, procs: Procs) -> u32 {
        procs.0.div_ceil(self.task_procs().0)
    }

    /// The number of nodes, if a job on at most so many processors would have no task on some of them.
    pub fn nodes_beyond(&self, most: Procs) -> Option<u32> {
        self.nodes.filter(|nodes| *nodes > most.0 / self.task_procs().0)
    }

    /// The processors of a task, if a job with this speedup model and so many processors cannot be divided into such tasks: only a job of a
    /// fixed size can, if the size is a multiple of them.
    pub fn undivided(&self, speedup: &Speedup, procs: Procs) -> Option<Procs> {
        let is_divided = matches!(speedup, Speedup::Rigid) && procs.0.is_multiple_of(self.task_procs().0);
        self.procs_per_task.filter(|each| *each > Procs::ONE && !is_divided)
    }

    /// The memory of each node of a job on `procs` that shares its nodes with no other job, of nodes with at most `node_procs`
    /// processors: enough for as many of its processors as it may have there. None if it does not say.
    pub fn memory_of_whole_node(&self, procs: Procs, node_procs: Procs) -> Option<Mebibytes> {
        let (each, task) = (self.memory?.per_proc(procs), self.task_procs().0);
        let tasks = self.tasks(procs);
        let most = match self.nodes {
            Some(nodes) => tasks.div_ceil(nodes.max(1)),
            None => tasks.min((node_procs.0 / task).max(1)),
        };
        let most = self.procs_per_node.map_or(most, |limit| most.min((limit.0 / task).max(1)));
        Some(Mebibytes(each.0.saturating_mul(most.saturating_mul(task))))
    }

    /// Checks that a request can ask for them.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn check(&self) -> Result<(), ResourcesError> {
        let Resources {
            memory,
            gpus,
            nodes,
            procs_per_node,
            procs_per_task,
            constraint,
            licences,
            batch,
            ..
        } = self;
        let wrong =
            |field, expected, found: &str| Err(ResourcesError { field, expected, found: found.to_owned() });
        if let Some(Memory::PerProc(Mebibytes::ZERO) | Memory::Total(Mebibytes::ZERO)) = memory {
            return wrong("memory", "an amount above 0", "0M");
        }
        if let Some(Gpus { count: GpuCount::PerProc(0) | GpuCount::Total(0), .. }) = gpus {
            return wrong("gpus", "at least one GPU", "0");
        }
        if let Some(kind) = gpus.as_ref().and_then(|gpus| gpus.kind.as_ref()).filter(|kind| !is_word(kind)) {
            return wrong("gpus", A_WORD, kind);
        }
        if *nodes == Some(0) {
            return wrong("nodes", "at least one node", "0");
        }
        if *procs_per_node == Some(Procs(0)) {
            return wrong("procs_per_node", "at least one processor", "0");
        }
        if *procs_per_task == Some(Procs(0)) {
            return wrong("procs_per_task", "at least one processor", "0");
        }
        if let Some(most) = procs_per_node.filter(|most| *most < self.task_procs()) {
            let expected = "at least the processors of one task on each node";
            return wrong("procs_per_node", expected, &most.to_string());
        }
        match constraint {
            Some(Constraint::All(words) | Constraint::Any(words)) => {
                if words.is_empty() {
                    return wrong("constraint", "a feature", "");
                }
                if let Some(word) = words.iter().find(|word| !is_word(word)) {
                    return wrong("constraint", A_WORD, word);
                }
            }
            None => {}
        }
        if let Some(licence) = licences.keys().find(|licence| !is_word(licence)) {
            return wrong("licences", A_WORD, licence);
        }
        if let Some((licence, _)) = licences.iter().find(|(_, count)| **count == 0) {
            return wrong("licences", "at least one unit", licence);
        }
        let BatchOptions { partitions, account, qos } = batch;
        let named = partitions.iter().map(|name| ("partition", name));
        let named = named.chain(account.iter().map(|name| ("account", name)));
        let mut named = named.chain(qos.iter().map(|name| ("qos", name)));
        match named.find(|(_, word)| !is_word(word)) {
            Some((field, word)) => wrong(field, A_WORD, word),
            None => Ok(()),
        }
    }
}

#[cfg(feature = "serde")]
fn is_default<A: Default + PartialEq>(value: &A) -> bool {
    *value == A::default()
}

/// As in listings: `16G, 2 GPUs, 4 nodes`. Empty if nothing is needed.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        match self.memory {
            Some(Memory::PerProc(each)) => parts.push(format!("{each} per processor")),
            Some(Memory::Total(all)) => parts.push(format!("{all} of memory")),
            None => {}
        }
        if let Some(Gpus { count, kind }) = &self.gpus {
            let kind = kind.as_ref().map_or(String::new(), |kind| format!("{kind} "));
            let plural = |count: u32| if count == 1 { "GPU" } else { "GPUs" };
            parts.push(match count {
                GpuCount::PerProc(each) => format!("{each} {kind}{} per processor", plural(*each)),
                GpuCount::Total(all) => format!("{all} {kind}{}", plural(*all)),
            });
        }
        if self.scratch > Mebibytes::ZERO {
            parts.push(format!("{} of local disk per node", self.scratch));
        }
        parts
            .extend(self.nodes.map(|nodes| format!("{nodes} {}", if nodes == 1 { "node" } else { "nodes" })));
        parts.extend(self.procs_per_node.map(|procs| format!("at most {procs} processors per node")));
        parts.extend(self.procs_per_task.map(|procs| {
            format!("{procs} {} per task", if procs == Procs::ONE { "processor" } else { "processors" })
        }));
        if self.exclusive {
            parts.push("whole nodes".to_owned());
        }
        parts.extend(self.constraint.as_ref().map(|constraint| format!("nodes with {constraint}")));
        parts.extend(self.licences.iter().map(|(name, count)| format!("{count} of licence {name}")));
        parts.extend((!self.batch.is_empty()).then(|| self.batch.to_string()));
        f.write_str(&parts.join(", "))
    }
}

/// The longest name of a feature, a kind of GPU or a licence.
pub const WORD_BYTES_MAX: usize = 64;

/// What [`is_word`] takes, in words.
pub const A_WORD: &str = "a name of 1 to 64 letters, digits, `.`, `_` and `-`";

/// True if text can name a feature, a kind of GPU or a licence: it stands alone in options and lists.
pub fn is_word(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    (1..=WORD_BYTES_MAX).contains(&text.len()) && text.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_in_the_largest_whole_unit() {
        for (mib, text) in [(0, "0M"), (1, "1M"), (1023, "1023M"), (1024, "1G"), (1536, "1536M")] {
            assert_eq!(Mebibytes(mib).to_string(), text);
        }
        assert_eq!(Mebibytes(3 << 20).to_string(), "3T");
    }

    #[test]
    fn amounts_are_read_in_each_unit() {
        for (text, mib) in
            [("512M", 512), ("512", 512), ("2g", 2048), ("1T", 1 << 20), ("4294967295", u32::MAX)]
        {
            assert_eq!(text.parse(), Ok(Mebibytes(mib)), "{text}");
        }
        for text in ["", "M", "-1M", "+1M", "1.5G", "4096T", "1K", "99999999999999999999T"] {
            let expected =
                format!("expected an amount such as 512M, 64G or 1T, less than 4096T, found `{text}`");
            assert_eq!(text.parse::<Mebibytes>().map_err(|error| error.to_string()), Err(expected));
        }
    }

    #[test]
    fn a_total_is_divided_and_rounded_up() {
        assert_eq!(Memory::Total(Mebibytes(10)).per_proc(Procs(4)), Mebibytes(3));
        assert_eq!(Memory::Total(Mebibytes(8)).per_proc(Procs(4)), Mebibytes(2));
        assert_eq!(Memory::PerProc(Mebibytes(8)).per_proc(Procs(4)), Mebibytes(8));
    }

    #[test]
    fn constraints_admit_nodes_by_their_features() {
        let features = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        let [all, any] = [Constraint::All(features("a b")), Constraint::Any(features("a b"))];
        for (node, by_all, by_any) in [("a b c", true, true), ("a", false, true), ("c", false, false)] {
            assert_eq!(
                (all.admits(&features(node)), any.admits(&features(node))),
                (by_all, by_any),
                "{node}"
            );
        }
        assert_eq!((all.to_string(), any.to_string()), ("a&b".to_owned(), "a|b".to_owned()));
    }

    #[test]
    fn resources_are_named_in_one_line() {
        assert_eq!(Resources::default().to_string(), "");
        let resources = Resources {
            memory: Some(Memory::Total(Mebibytes(16 << 10))),
            gpus: Some(Gpus { count: GpuCount::Total(2), kind: Some("a100".to_owned()) }),
            nodes: Some(4),
            licences: BTreeMap::from([("matlab".to_owned(), 1)]),
            ..Resources::default()
        };
        assert_eq!(resources.to_string(), "16G of memory, 2 a100 GPUs, 4 nodes, 1 of licence matlab");
    }
}
