//! An authority, the files of participants, and agents in this process.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pliant_daemon::agent;
use pliant_daemon::config::AgentFile;
use pliant_daemon::host::DaemonError;
use pliant_model::Time;
use pliant_transport::{
    Authority, CertificateRequest, ClientTls, Credentials, Identity, Role, Timeouts, channel,
};
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::Channel;

/// How long anything that must happen may take, on a machine that is busy with something else.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// An authority, and a folder for each participant.
pub(crate) struct Federation {
    dir: TempDir,
    authority: Authority,
}

impl Federation {
    pub(crate) fn new() -> Federation {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::init(&dir.path().join("ca"), "test", now()).unwrap();
        Federation { dir, authority }
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn issue(&self, role: Role, name: &str) -> Credentials {
        let order =
            CertificateRequest { renew: true, ..CertificateRequest::new(Identity::new(role, name).unwrap()) };
        self.authority.issue_into(&self.folder(name), &order, now()).unwrap().1
    }

    /// The file of a participant, with its certificate beside it.
    pub(crate) fn written(&self, role: Role, name: &str, text: &str) -> PathBuf {
        self.issue(role, name);
        let tls = "[tls]\nca = \"ca.pem\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
        let path = self.folder(name).join("file.toml");
        fs::write(&path, format!("{text}\n{tls}")).unwrap();
        path
    }

    /// The file of the master agent, with these keys beside its name and its address.
    pub(crate) fn agent(&self, keys: &str) -> AgentFile {
        let text = format!("name = \"master\"\nlisten = \"127.0.0.1:0\"\n{keys}");
        AgentFile::read(&self.written(Role::Agent, "master", &text)).unwrap()
    }
}

fn now() -> Time {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time(i64::try_from(elapsed.as_secs()).unwrap())
}

/// The master agent, which runs.
pub(crate) struct Running {
    pub(crate) address: String,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) serving: JoinHandle<Result<(), DaemonError>>,
}

pub(crate) async fn running(file: AgentFile) -> Running {
    let (stop, stopping) = watch::channel(false);
    let (ready, address) = oneshot::channel();
    let serving = tokio::spawn(agent::serve(file, stopping, |address| ready.send(address).unwrap()));
    let address = address.await.unwrap().to_string();
    Running { address, stop, serving }
}

impl Running {
    pub(crate) fn channel(&self, own: &Credentials) -> Channel {
        let tls = Arc::new(ClientTls::load(own).unwrap());
        channel(&self.address, &Identity::new(Role::Agent, "master").unwrap(), tls, &Timeouts::default())
    }
}
