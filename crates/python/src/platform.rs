//! Platforms: the clusters of a simulation.

use std::path::{Path, PathBuf};

use pliant_model::{Cluster, Procs, Speed};
use pliant_policy::batch::LocalPolicy;
use pliant_sim::campaign::PlatformChoice;
use pliant_trace::platform::{BUILT_IN, DEFAULT_BATCH};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping};

use crate::arguments::Argument;
use crate::errors::{of_trace, wrong_input};
use crate::pickle::{Pickled, pickled, restored};
use crate::table::in_python;

/// The clusters of a simulation.
#[pyclass(frozen, module = "pliant", name = "Platform")]
pub(crate) struct Platform {
    pub(crate) inner: pliant_model::Platform,
    /// True if it is one cluster that was given by its processors alone.
    pub(crate) is_one_cluster: bool,
}

/// The keys of a cluster as a mapping.
const KEYS: [&str; 4] = ["name", "procs", "speed", "batch"];

/// The cluster of a mapping.
fn cluster(given: &Bound<'_, PyMapping>) -> PyResult<Cluster> {
    for key in given.keys()? {
        if !key.extract::<String>().is_ok_and(|key| KEYS.contains(&key.as_str())) {
            let found = key.repr()?;
            return Err(wrong_input(format!(
                "cluster: expected the keys {}, found {found}",
                KEYS.join(", ")
            )));
        }
    }
    let value = |key: &'static str| {
        let found = if given.contains(key)? { Some(given.get_item(key)?) } else { None };
        Ok::<_, PyErr>(found.filter(|found| !found.is_none()))
    };
    let needed = |key: &'static str| {
        value(key)?.ok_or_else(|| wrong_input(format!("cluster: expected the key {key}, found none")))
    };
    let name = Argument { name: "cluster: name", value: &needed("name")? }.text()?;
    let at = |key: &str| format!("cluster {name}: {key}");
    let procs = Argument { name: &at("procs"), value: &needed("procs")? }.whole(1..=u32::MAX)?;
    let speed = value("speed")?.map(|value| Argument { name: &at("speed"), value: &value }.number());
    let batch = value("batch")?.map(|value| Argument { name: &at("batch"), value: &value }.text());
    let speed = Speed::new(speed.transpose()?.unwrap_or(1.0));
    let speed = speed.map_err(|error| wrong_input(format!("{}: {error}", at("speed"))))?;
    let batch = batch.transpose()?.unwrap_or_else(|| DEFAULT_BATCH.to_owned());
    batch.parse::<LocalPolicy>().map_err(|error| wrong_input(format!("{}: {error}", at("batch"))))?;
    Ok(Cluster { name, procs: Procs(procs), speed, batch, nodes: None })
}

/// A platform of `pickle`, with the checks of a new one.
pub(crate) fn checked(platform: pliant_model::Platform) -> PyResult<pliant_model::Platform> {
    pliant_model::Platform::new(platform.clusters().to_vec()).map_err(wrong_input)
}

#[pymethods]
impl Platform {
    /// A platform of these clusters.
    #[staticmethod]
    fn of_clusters(clusters: Vec<Bound<'_, PyMapping>>) -> PyResult<Platform> {
        let made = clusters.iter().map(cluster).collect::<PyResult<Vec<Cluster>>>()?;
        let inner = pliant_model::Platform::new(made).map_err(wrong_input)?;
        Ok(Platform { inner, is_one_cluster: false })
    }

    /// One cluster of that many processors.
    #[staticmethod]
    fn single(procs: &Bound<'_, PyAny>) -> PyResult<Platform> {
        Platform::of_procs(Argument { name: "procs", value: procs }.whole(1..=u32::MAX)?)
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

    /// The platform for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let this = slf.get();
        pickled(slf, &(&this.inner, this.is_one_cluster))
    }

    /// The platform of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Platform> {
        let (inner, is_one_cluster): (pliant_model::Platform, bool) = restored(text)?;
        let inner = checked(inner)?;
        for cluster in inner.clusters() {
            cluster.batch.parse::<LocalPolicy>().map_err(wrong_input)?;
        }
        Ok(Platform { is_one_cluster: is_one_cluster && inner.clusters().len() == 1, inner })
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "platform_html")
    }

    fn __repr__(&self) -> String {
        let one = |cluster: &Cluster| format!("{} {}", cluster.name, cluster.procs.0);
        let clusters: Vec<String> = self.inner.clusters().iter().map(one).collect();
        format!("Platform({})", clusters.join(", "))
    }
}

impl Platform {
    /// One cluster of that many processors.
    pub(crate) fn of_procs(procs: u32) -> PyResult<Platform> {
        let inner = pliant_model::Platform::single(Procs(procs), DEFAULT_BATCH).map_err(wrong_input)?;
        Ok(Platform { inner, is_one_cluster: true })
    }

    fn load(word: String) -> PyResult<Platform> {
        let inner = PlatformChoice::Named(word).load(Path::new("")).map_err(|error| of_trace(&error))?;
        Ok(Platform { inner, is_one_cluster: false })
    }
}
