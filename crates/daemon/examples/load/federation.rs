//! A federation made for a measurement: its folder, its certificates, its processes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pliant_client::Client;
use pliant_client::ClientFile;
use pliant_model::Time;
use pliant_transport::AgentAddress;
use pliant_transport::{Authority, CertificateRequest, Credentials, Identity, Role};
use tempfile::TempDir;

use crate::Outcome;
use crate::daemon::{METRICS, VERB};
use crate::figures::{self, Cost};

const TLS: &str = "[tls]\nca = \"ca.pem\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\ncrl = \"crl.pem\"\n";

/// Limits that the few users of a measurement, who stand for many, do not meet.
const LIMITS: &str = "[limits]\nrequests_per_second = 1000000.0\nburst = 1000000\nopen_requests = 100000\n";

/// A service that does nothing for some minutes.
const SERVICE: &str = "[[service]]\nname = \"wait\"\nsummary = \"does nothing\"\n\
                       command = [\"/bin/sleep\", \"{seconds}\"]\nspeedup = \"amdahl:0.95,4\"\nruntime = \"1s\"\n\
                       runtime_per = { argument = \"seconds\", exponent = 1.0, at = 1 }\n\n\
                       [service.arguments.seconds]\ntype = \"integer\"\nmin = 1\nmax = 100000\nsummary = \"how long\"\n";

/// The folder and the authority of a federation. Its files go when it is dropped.
pub(crate) struct Federation {
    dir: TempDir,
    authority: Authority,
    /// The table `[limits]` of every daemon.
    limits: &'static str,
    /// The table `[summaries]` of every daemon.
    summaries: &'static str,
}

/// A process with one or more daemons. When this is dropped, the process gets a signal to end and is waited for.
pub(crate) struct Daemons {
    process: Child,
    /// Where each listens, in the order of their files.
    pub(crate) addresses: Vec<AgentAddress>,
    /// From its start until the last of its daemons was ready.
    pub(crate) started_in: Duration,
    folder: PathBuf,
}

impl Federation {
    pub(crate) fn new(parent: &Path) -> Outcome<Federation> {
        let dir = tempfile::Builder::new().prefix("pliant-load-").tempdir_in(parent)?;
        let authority = Authority::init(&dir.path().join("ca"), "load", now())?;
        Ok(Federation { dir, authority, limits: LIMITS, summaries: "" })
    }

    /// One whose agents ask every server.
    pub(crate) fn without_summaries(parent: &Path) -> Outcome<Federation> {
        Ok(Federation { summaries: "[summaries]\nevery_s = 0\n", ..Federation::new(parent)? })
    }

    /// One whose users have the limits that daemons set if their files name none.
    pub(crate) fn with_default_limits(parent: &Path) -> Outcome<Federation> {
        Ok(Federation { limits: "", ..Federation::new(parent)? })
    }

    /// The folder of a daemon.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn folder(&self, role: Role, name: &str) -> Outcome<PathBuf> {
        let folder = self.path(name);
        self.authority.issue_into(&folder, &CertificateRequest::new(Identity::new(role, name)?), now())?;
        Ok(folder)
    }

    /// Writes the file of an agent.
    pub(crate) fn agent(&self, name: &str, parent: Option<&AgentAddress>) -> Outcome<PathBuf> {
        let path = self.folder(Role::Agent, name)?.join("agent.toml");
        let parent = parent.map(parent_of).unwrap_or_default();
        let text = format!(
            "name = \"{name}\"\nlisten = \"127.0.0.1:0\"\nstate = \"state\"\n{parent}\n{TLS}\n{}{}",
            self.limits, self.summaries
        );
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Writes the file of a server; `cluster` are the lines of its table `[cluster]`.
    pub(crate) fn server(&self, name: &str, parent: &AgentAddress, cluster: &str) -> Outcome<PathBuf> {
        let path = self.folder(Role::Server, name)?.join("server.toml");
        let text = format!(
            "name = \"{name}\"\nlisten = \"127.0.0.1:0\"\nstate = \"state\"\nwaiting_per_user = 4000000\n{}\n\
             [accounts]\nmap = \"shared\"\n\n[cluster]\n{cluster}\n\n{TLS}\n{}{}\n{SERVICE}",
            parent_of(parent),
            self.limits,
            self.summaries
        );
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Writes the file of a server with a core for explorations.
    pub(crate) fn exploring_server(&self, name: &str, parent: &AgentAddress) -> Outcome<PathBuf> {
        let path = self.server(name, parent, "procs = 1")?;
        let text = fs::read_to_string(&path)? + "\n[optional]\ncores = 1\npause = true\n";
        fs::write(&path, text)?;
        Ok(path)
    }

    /// A user's or operator's way in.
    pub(crate) fn client(&self, role: Role, name: &str, agent: &AgentAddress) -> Outcome<Client> {
        let tls = Credentials::in_folder(&self.folder(role, name)?);
        Ok(Client::new(&ClientFile {
            agent: vec![agent.clone()],
            master: Vec::new(),
            tls,
            shared: Default::default(),
        })?)
    }

    /// The certificate of a server that is none of our processes.
    pub(crate) fn credentials(&self, role: Role, name: &str) -> Outcome<Credentials> {
        Ok(Credentials::in_folder(&self.folder(role, name)?))
    }
}

impl Daemons {
    /// Starts a process with the daemons of these files and waits until all are ready.
    pub(crate) fn start(files: &[PathBuf]) -> Outcome<Daemons> {
        let folder = files.first().and_then(|file| file.parent()).ok_or("expected a file")?.to_owned();
        let begun = Instant::now();
        let mut process = Command::new(std::env::current_exe()?)
            .arg(VERB)
            .args(files)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("log"))?)
            .spawn()?;
        let out = process.stdout.take().ok_or("expected a pipe")?;
        let mut daemons = Daemons { process, addresses: Vec::new(), started_in: Duration::ZERO, folder };
        let mut ready = Vec::new();
        for line in BufReader::new(out).lines().take(files.len()) {
            let line = line?;
            let (name, address) = line.split_once(' ').ok_or("expected a name and an address")?;
            ready.push(AgentAddress { name: name.parse()?, address: address.to_owned() });
        }
        daemons.started_in = begun.elapsed();
        if ready.len() < files.len() {
            return Err(fs::read_to_string(daemons.folder.join("log"))?.into());
        }
        for file in files {
            let folder = file.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
            let found = ready.iter().find(|one| folder == one.name.as_str());
            daemons.addresses.push(found.ok_or("expected each daemon to be ready")?.clone());
        }
        Ok(daemons)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// What the process has used up to now.
    pub(crate) fn cost(&self) -> Outcome<Cost> {
        Cost::of(self.process.id())
    }

    /// Ends it and returns its metrics, in the text form of Prometheus.
    pub(crate) fn stop(mut self) -> Outcome<String> {
        self.end();
        Ok(fs::read_to_string(self.folder.join(METRICS))?)
    }

    fn end(&mut self) {
        drop(self.process.stdin.take());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(120) {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // One that does not end by itself: it may have ended in this moment.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.end();
    }
}

fn parent_of(agent: &AgentAddress) -> String {
    format!("\n[[parent]]\nname = \"{}\"\naddress = \"{}\"\n", agent.name, agent.address)
}

pub(crate) fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64)
}

/// Waits until the agent knows of so many servers that are there.
pub(crate) async fn attached(client: &Client, servers: usize) -> Outcome<()> {
    let begun = Instant::now();
    loop {
        let found = client.servers().await?.servers.iter().filter(|server| server.attached).count();
        if found == servers {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(format!("expected {servers} servers, found {found} after a minute").into());
        }
        tokio::time::sleep(figures::POLL_INTERVAL).await;
    }
}
