//! Everything that a server offers.

use std::collections::{BTreeMap, BTreeSet};

use pliant_config::{ContentError, Source};
use pliant_control::names::User;
use pliant_model::{Procs, Span};
use pliant_wire::ParameterScript;
use serde::Deserialize;
use toml::Spanned;

use super::declared::{Declared, HINT, read_service};
use super::description::ServiceDescription;
use super::parameter_script::{RunFolder, service_of};
use super::prepared::Prepared;
use super::refusal::Refusal;
use super::script::Script;
use super::service::Service;

/// The services of a server, and whether it runs scripts.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Catalogue {
    services: BTreeMap<String, Service>,
    scripts: bool,
}

/// What this module reads of a server's file.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    service: Vec<Spanned<Declared>>,
    #[serde(default = "yes")]
    scripts: bool,
}

fn yes() -> bool {
    true
}

impl Catalogue {
    /// Reads `[[service]]` and `scripts` of a server's configuration, whatever else is in it.
    ///
    /// # Errors
    ///
    /// At the first declaration that does not make sense, with its position in the file.
    pub fn from_toml(source: &Source) -> Result<Catalogue, ContentError> {
        let file: File = source.parse(HINT)?;
        Catalogue::new(&file.service, file.scripts, source)
    }

    /// Makes one of declarations that were read with the rest of a server's configuration.
    ///
    /// # Errors
    ///
    /// At the first declaration that does not make sense, with its position in the file.
    pub fn new(
        declared: &[Spanned<Declared>],
        scripts: bool,
        source: &Source,
    ) -> Result<Catalogue, ContentError> {
        let mut services = BTreeMap::new();
        for entry in declared {
            let service = read_service(entry.get_ref(), source)?;
            let name = service.name.clone();
            if services.insert(name.clone(), service).is_some() {
                let message = format!("`name`: expected unique service names, found `{name}` twice");
                return Err(source.error(entry.get_ref().name_span(), message, "rename one of them"));
            }
        }
        Ok(Catalogue { services, scripts })
    }

    /// The service of that name, if the user may use it.
    ///
    /// # Errors
    ///
    /// [`Refusal::Service`].
    pub fn find(&self, name: &str, user: &User) -> Result<&Service, Refusal> {
        self.services.get(name).filter(|service| service.is_for(user)).ok_or_else(|| Refusal::Service {
            found: name.to_owned(),
            expected: self.of(user).map(|service| service.name.clone()).collect(),
        })
    }

    /// True if the runtime of the service of that name is learned from finished runs.
    pub fn is_learned(&self, name: &str) -> bool {
        self.services.get(name).is_some_and(Service::is_learned)
    }

    /// True if users may bring scripts.
    pub fn takes_scripts(&self) -> bool {
        self.scripts
    }

    /// Checks a script and makes it something to run within `procs` processors and `walltime`.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoScripts`], [`Refusal::Script`], [`Refusal::Speedup`], [`Refusal::TooLong`].
    pub fn prepare_script(
        &self,
        script: &Script<'_>,
        procs: Option<Procs>,
        walltime: Option<Span>,
    ) -> Result<Prepared, Refusal> {
        if self.scripts { script.prepare(procs, walltime) } else { Err(Refusal::NoScripts) }
    }

    /// The service that a user's own script is if it runs with these parameters, in that folder.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoScripts`], [`Refusal::Script`], [`Refusal::Parameter`], [`Refusal::Placeholder`].
    pub fn script_service(
        &self,
        script: &ParameterScript,
        parameters: &BTreeSet<&str>,
        folder: RunFolder,
    ) -> Result<Service, Refusal> {
        if self.scripts { service_of(script, parameters, folder) } else { Err(Refusal::NoScripts) }
    }

    /// The services that a user may use, in the order of names.
    pub fn describe(&self, user: &User) -> Vec<ServiceDescription> {
        self.of(user).map(Service::describe).collect()
    }

    /// The catalogue for an operator: every service, and whether the user may use it.
    pub fn describe_all(&self, user: &User) -> Vec<(ServiceDescription, bool)> {
        self.services.values().map(|service| (service.describe(), service.is_for(user))).collect()
    }

    /// Names and summaries of the services that everybody may use, in the order of names.
    pub fn summaries(&self) -> Vec<(String, String)> {
        let open = self.services.values().filter(|service| service.users.is_none());
        open.map(|service| (service.name.clone(), service.summary.clone())).collect()
    }

    /// All of them, in the order of names.
    pub fn all(&self) -> impl Iterator<Item = &Service> {
        self.services.values()
    }

    fn of(&self, user: &User) -> impl Iterator<Item = &Service> {
        self.services.values().filter(move |service| service.is_for(user))
    }
}
