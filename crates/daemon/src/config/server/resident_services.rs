//! Where resident services may be declared.

use pliant_site::services::Service;

use super::ServerFile;

impl ServerFile {
    /// Whether it declares a resident service.
    pub(crate) fn has_resident_services(&self) -> bool {
        self.resident_service().is_some()
    }

    fn resident_service(&self) -> Option<&Service> {
        self.catalogue.all().find(|service| service.call.as_ref().is_some_and(|call| call.resident.is_some()))
    }

    /// A resident process runs on this host as the server's own user.
    pub(super) fn check_resident_services(&self) -> Result<(), (&'static str, String)> {
        let Some(service) = self.resident_service() else { return Ok(()) };
        let found = match &self.accounts {
            _ if self.cluster.external().is_some() => "an external batch system",
            Some(accounts) if accounts.has_accounts() => "jobs that run as accounts",
            _ => return Ok(()),
        };
        let name = &service.name;
        Err((
            "service.resident",
            format!(
                "expected the embedded batch system and jobs as the server's own user for the resident service `{name}`, whose one process \
                 serves all users, found {found}; declare it with a `command` that each call starts, or at a server with \
                 `accounts = {{ map = \"shared\" }}` and the embedded batch system"
            ),
        ))
    }
}
