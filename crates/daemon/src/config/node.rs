//! What the host of an embedded batch system has for jobs besides processors: `[cluster.node]` of a server's file.

use std::collections::{BTreeMap, BTreeSet};

use pliant_control::batch::embedded::HostResources;
use pliant_model::{ClusterNodes, Mebibytes, NodeGroup, Procs};
use serde::{Deserialize, Serialize};

use super::WrongKey;

/// The table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFile {
    /// The memory that jobs may have together.
    pub memory: String,
    /// The memory of each processor of a job that does not mention memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_memory: Option<String>,
    /// Its GPUs, as `CUDA_VISIBLE_DEVICES` names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Their kind, such as `a100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_kind: Option<String>,
    /// Local disk space that jobs may have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<String>,
    /// Names that constraints refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// How many units of each licence jobs may hold at once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub licences: BTreeMap<String, u32>,
}

impl NodeFile {
    /// A host of so many processors.
    ///
    /// # Errors
    /// The first key with a wrong value.
    pub fn host(&self, procs: Procs) -> Result<HostResources, WrongKey> {
        let NodeFile { memory, default_memory, gpus, gpu_kind, scratch, features, licences } = self;
        let amount = |key, text: &str| text.parse().map_err(|error| (key, format!("{error}")));
        let optional = |key, text: &Option<String>| {
            text.as_deref().map_or(Ok(Mebibytes::ZERO), |text| amount(key, text))
        };
        let mut seen = BTreeSet::new();
        if let Some(twice) = gpus.iter().find(|gpu| !seen.insert(*gpu)) {
            return Err(("cluster.node.gpus", format!("expected each GPU once, found {twice:?} twice")));
        }
        let is_device = |name: &str| {
            let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_:/.".contains(letter);
            !name.is_empty() && name.chars().all(is_letter)
        };
        if let Some(gpu) = gpus.iter().find(|gpu| !is_device(gpu)) {
            let expected =
                "names of GPUs as CUDA_VISIBLE_DEVICES takes them, such as \"0\" or \"GPU-8932f937\"";
            return Err(("cluster.node.gpus", format!("expected {expected}, found {gpu:?}")));
        }
        let group = NodeGroup {
            count: 1,
            procs,
            memory: amount("cluster.node.memory", memory)?,
            gpus: u32::try_from(gpus.len()).unwrap_or(u32::MAX),
            gpu_kind: gpu_kind.clone(),
            scratch: optional("cluster.node.scratch", scratch)?,
            features: features.clone(),
        };
        let default_memory = optional("cluster.node.default_memory", default_memory)?;
        let nodes = ClusterNodes { groups: vec![group], licences: licences.clone(), default_memory };
        nodes.check().map_err(|error| ("cluster.node", error.to_string()))?;
        Ok(HostResources { nodes, gpus: gpus.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &str) -> Result<ClusterNodes, String> {
        let file: NodeFile = toml::from_str(table).map_err(|error| error.message().to_owned())?;
        file.host(Procs(4)).map(|host| host.nodes).map_err(|(key, message)| format!("{key}: {message}"))
    }

    #[test]
    fn a_node_is_one_of_its_processors() {
        let nodes = read("memory = \"8G\"\ndefault_memory = \"1G\"\ngpus = [\"0\", \"GPU-8932f937\"]\ngpu_kind = \"a100\"\n\
                          scratch = \"1T\"\nfeatures = [\"fast\"]\nlicences = { matlab = 2 }")
        .unwrap();
        let NodeGroup { count, procs, memory, gpus, .. } = nodes.groups[0];
        assert_eq!((count, procs, memory, gpus), (1, Procs(4), Mebibytes(8 << 10), 2));
        assert_eq!((nodes.default_memory, nodes.licences["matlab"]), (Mebibytes(1 << 10), 2));
    }

    #[test]
    fn what_a_node_cannot_be() {
        let check = |table: &str, expected: &str| {
            let error = read(table).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        check("", "missing field `memory`");
        check("memory = \"8\"\nram = 1", "unknown field `ram`");
        check("memory = \"much\"", "cluster.node.memory: expected an amount such as 512M");
        check("memory = \"8G\"\nscratch = \"-1\"", "cluster.node.scratch: expected an amount");
        check(
            "memory = \"8G\"\ngpus = [\"0\", \"0\"]",
            "cluster.node.gpus: expected each GPU once, found \"0\" twice",
        );
        check("memory = \"8G\"\ngpus = [\"0,1\"]", "cluster.node.gpus: expected names of GPUs");
        check(
            "memory = \"8G\"\ngpu_kind = \"a100\"",
            "cluster.node: expected GPUs of the kind `a100`, found none",
        );
        check(
            "memory = \"3G\"\ndefault_memory = \"1G\"",
            "cluster.node: expected the default memory of 1G for each of the 4",
        );
    }
}
