//! Platforms: the clusters of a simulation.

use std::path::{Path, PathBuf};

use pliant_model::{Cluster, Procs, Speed};
use pliant_sim::campaign::PlatformChoice;
use pliant_trace::platform::{BUILT_IN, DEFAULT_BATCH};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::wrong_input;

/// The clusters of a simulation.
#[pyclass(frozen, module = "pliant", name = "Platform")]
pub(crate) struct Platform {
    pub(crate) inner: pliant_model::Platform,
    /// True if it is one cluster that was given by its processors alone.
    pub(crate) is_one_cluster: bool,
}

/// A cluster as a mapping.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ClusterItem {
    name: String,
    procs: u32,
    #[pyo3(default = 1.0)]
    speed: f64,
    #[pyo3(default)]
    batch: Option<String>,
}

#[pymethods]
impl Platform {
    /// A platform of these clusters.
    #[staticmethod]
    fn of_clusters(clusters: Vec<ClusterItem>) -> PyResult<Platform> {
        let mut made = Vec::with_capacity(clusters.len());
        for ClusterItem { name, procs, speed, batch } in clusters {
            let speed = Speed::new(speed).map_err(|error| wrong_input(format!("cluster {name}: {error}")))?;
            let batch = batch.unwrap_or_else(|| DEFAULT_BATCH.to_owned());
            made.push(Cluster { name, procs: Procs(procs), speed, batch, nodes: None });
        }
        let inner = pliant_model::Platform::new(made).map_err(wrong_input)?;
        Ok(Platform { inner, is_one_cluster: false })
    }

    /// One cluster of that many processors.
    #[staticmethod]
    pub(crate) fn single(procs: u32) -> PyResult<Platform> {
        let inner = pliant_model::Platform::single(Procs(procs), DEFAULT_BATCH).map_err(wrong_input)?;
        Ok(Platform { inner, is_one_cluster: true })
    }

    /// A built-in platform.
    #[staticmethod]
    pub(crate) fn built_in(name: &str) -> PyResult<Platform> {
        if !BUILT_IN.contains(&name) {
            let expected = BUILT_IN.join(", ");
            return Err(wrong_input(format!("platform: expected one of {expected}, found {name:?}")));
        }
        Platform::load(name.to_owned())
    }

    /// The platform of a file.
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<Platform> {
        Platform::load(path.to_string_lossy().into_owned())
    }

    /// The clusters, each with its name, processors, speed and local batch policy.
    #[getter]
    fn clusters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for cluster in self.inner.clusters() {
            let one = PyDict::new(py);
            one.set_item("name", &cluster.name)?;
            one.set_item("procs", cluster.procs.0)?;
            one.set_item("speed", cluster.speed.get())?;
            one.set_item("batch", &cluster.batch)?;
            list.append(one)?;
        }
        Ok(list)
    }

    /// The processors of all clusters.
    #[getter]
    fn total_procs(&self) -> u64 {
        self.inner.total_procs()
    }

    fn __repr__(&self) -> String {
        let one = |cluster: &Cluster| format!("{} {}", cluster.name, cluster.procs.0);
        let clusters: Vec<String> = self.inner.clusters().iter().map(one).collect();
        format!("Platform({})", clusters.join(", "))
    }
}

impl Platform {
    fn load(word: String) -> PyResult<Platform> {
        let inner = PlatformChoice::Named(word).load(Path::new("")).map_err(wrong_input)?;
        Ok(Platform { inner, is_one_cluster: false })
    }
}
