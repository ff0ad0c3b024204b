//! What daemons have in common towards the network: certificates, a socket, limits, and an end.

use std::net::SocketAddr;
use std::sync::Arc;

use pliant_control::names::Name;
use pliant_transport::{ClientTls, Credentials, Limits, Role, ServerTls, incoming};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;

use super::certificate_watch::watch;
use super::pages::pages;
use super::thread::{MachineThread, supervise};
use super::transport::Routes;
use super::{DaemonError, stopped};
use crate::config::{HttpFile, LimitsFile, without_list};
use crate::gate::Gate;
use crate::monitoring::Readiness;

/// The certificates of a daemon, as a server and as a client.
pub(crate) struct Certificates {
    pub(crate) server: Arc<ServerTls>,
    pub(crate) client: Arc<ClientTls>,
}

impl Certificates {
    /// Loads them.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are not those of the daemon of that role and name.
    pub(crate) fn load(tls: &Credentials, role: Role, name: &Name) -> Result<Certificates, DaemonError> {
        let server = Arc::new(ServerTls::load(tls)?);
        let client = Arc::new(ClientTls::load(tls)?);
        DaemonError::check_name(&server, role, name)?;
        if let Some(warning) = without_list(tls) {
            tracing::warn!("{warning}");
        }
        Ok(Certificates { server, client })
    }
}

/// What is unwise in the certificates of the daemon of that role and name, and why they cannot be used here.
pub fn certificate_warnings(tls: &Credentials, role: Role, name: &Name) -> Vec<String> {
    let loaded = ServerTls::load(tls).map_err(DaemonError::from);
    let unusable = loaded.and_then(|tls| DaemonError::check_name(&tls, role, name)).err();
    without_list(tls).into_iter().chain(unusable.map(|error| format!("tls: {error}"))).collect()
}

/// A daemon that listens. Everything of it ends with it.
pub(crate) struct Front {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    pub(crate) certificates: Certificates,
    pub(crate) gate: Gate,
    /// True once the daemon is to end.
    pub(crate) halted: watch::Receiver<bool>,
    /// What else it does, such as watching its certificates; aborted at its end.
    pub(crate) tasks: JoinSet<()>,
    listener: TcpListener,
    halt: watch::Sender<bool>,
    connections_max: usize,
}

impl Front {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// If it cannot.
    pub(crate) async fn bind(
        certificates: Certificates,
        address: SocketAddr,
        limits: LimitsFile,
    ) -> Result<Front, DaemonError> {
        let failed = |source| DaemonError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (halt, halted) = watch::channel(false);
        let (gate, connections_max) = (Gate::new(limits), limits.connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(watch(certificates.server.clone(), certificates.client.clone()));
        Ok(Front { address, certificates, gate, halted, tasks, listener, halt, connections_max })
    }

    /// Serves the pages that the file asks for.
    ///
    /// # Errors
    ///
    /// If they cannot be served there.
    pub(crate) async fn serve_pages(
        &mut self,
        http: Option<&HttpFile>,
        ready: impl Fn() -> Readiness + Send + Sync + 'static,
    ) -> Result<(), DaemonError> {
        if let Some(http) = http {
            let pages = pages(http, stopped(self.halted.clone()), ready).await?;
            self.tasks.spawn(pages);
        }
        Ok(())
    }

    /// A service that checks each call before its message is read: see [`Gate::keep`].
    pub(crate) fn guarded<S>(
        &self,
        service: S,
    ) -> InterceptedService<S, impl Interceptor + Clone + Send + Sync + use<S>> {
        InterceptedService::new(service, self.gate.keep(self.certificates.server.clone()))
    }

    /// Serves `routes` until `stop` says so or one of the machines' threads ends.
    ///
    /// # Errors
    ///
    /// Why a thread could not go on, or why connections could not be served.
    pub(crate) async fn serve(
        self,
        routes: Routes,
        threads: Vec<MachineThread>,
        stop: watch::Receiver<bool>,
    ) -> Result<(), DaemonError> {
        let limits = Limits { connections_max: self.connections_max, ..Limits::default() };
        let connections = incoming(self.listener, self.certificates.server, limits);
        let served = routes.serve_with_incoming_shutdown(connections, stopped(self.halted));
        let outcome = supervise(served, threads, stop, &self.halt).await;
        drop(self.tasks);
        outcome
    }
}
