//! Daemons and the files that they need.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use pliant_client::Client;
use pliant_client::ClientFile;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::Handle;
use pliant_model::Procs;
use pliant_site::processes;
use pliant_testing::oar::User;
use pliant_transport::{self as transport, Authority, ClientTls, Credentials, Identity, Role, Timeouts};
use pliant_wire::ServerStatus;
use pliant_wire::proto::server_client::ServerClient;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tonic::transport::Channel;

use super::{Cluster, MASTER, POLL_INTERVAL, TIMEOUT, TLS, now, until};

struct Daemon {
    verb: &'static str,
    address: SocketAddr,
    child: Option<Child>,
    /// Whom it runs as, if not as we do.
    user: Option<User>,
}

/// Daemons, their files, and the authority that vouches for them.
pub(crate) struct Federation {
    dir: TempDir,
    pub(crate) authority: Authority,
    /// Further options of every daemon that is started from now on.
    pub(crate) options: Vec<&'static str>,
    /// Further variables of their environment.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// The program of servers that run as other users; a copy of ours if there is none.
    pub(crate) installed: Option<PathBuf>,
    /// The program of the other daemons that are started from now on; ours if there is none.
    pub(crate) build: Option<PathBuf>,
    daemons: BTreeMap<String, Daemon>,
}

impl Federation {
    /// A master agent and these servers, ready for work.
    pub(crate) async fn start(clusters: &[Cluster]) -> Federation {
        let mut federation = Federation::agent_only("");
        for cluster in clusters {
            federation.add_server(cluster);
        }
        federation.sized(clusters.len()).await;
        federation
    }

    /// An authority without daemons.
    pub(crate) fn without_daemons() -> Federation {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::init(&dir.path().join("ca"), "test", now()).unwrap();
        Federation {
            dir,
            authority,
            options: Vec::new(),
            environment: Vec::new(),
            installed: None,
            build: None,
            daemons: BTreeMap::new(),
        }
    }

    /// A master agent, with further tables in its file.
    pub(crate) fn agent_only(tables: &str) -> Federation {
        let mut federation = Federation::without_daemons();
        federation.add_agent(MASTER, None, tables);
        federation
    }

    /// Starts one more agent.
    pub(crate) fn add_agent(&mut self, name: &'static str, parent: Option<&str>, tables: &str) {
        let parent = parent.map(|parent| self.address_table("parent", parent)).unwrap_or_default();
        let text =
            format!("name = \"{name}\"\nlisten = \"LISTEN\"\nstate = \"state\"\n{parent}\n{TLS}{tables}");
        self.add("agent", Role::Agent, name, &text);
    }

    /// Starts one more master agent, with its journal elsewhere.
    pub(crate) fn add_agent_on(&mut self, name: &'static str, journal: &str) {
        let text = format!("name = \"{name}\"\nlisten = \"LISTEN\"\n{journal}\n{TLS}");
        self.add("agent", Role::Agent, name, &text);
    }

    /// Starts one more server.
    pub(crate) fn add_server(&mut self, cluster: &Cluster) {
        let Cluster { accounts, user, name, procs, speed, batch, parent, keys, cluster_keys, tables, .. } =
            cluster;
        let Cluster { slurm, batch_keys, oar, .. } = cluster;
        let parent = self.address_table("parent", parent);
        let size = match (slurm, oar) {
            (Some(conf), _) => format!("[cluster.slurm]\nconf = \"{}\"\n{batch_keys}", conf.display()),
            (None, Some(oar)) => format!(
                "[cluster.oar]\ncommands = \"{}\"\nsecurity_s = 1\n{batch_keys}",
                oar.commands.display()
            ),
            (None, None) => format!("procs = {procs}\nbatch = \"{batch}\"\n"),
        };
        // Tests start servers while their agent is down. An earlier build may not know the key.
        let wait = if self.build.is_none() { "parent_wait_s = 1" } else { "" };
        let text = format!(
            "name = \"{name}\"\nlisten = \"LISTEN\"\nstate = \"state\"\n{wait}\n{keys}\n{parent}\n\
             {accounts}\n[cluster]\nspeed = {speed:?}\ngrace_s = 1\n{cluster_keys}\n{size}\n{TLS}{tables}"
        );
        self.add_as(
            "server",
            Role::Server,
            name,
            &text,
            user.clone().or_else(|| oar.as_ref().map(|oar| oar.user.clone())),
        );
    }

    fn add(&mut self, verb: &'static str, role: Role, name: &str, text: &str) {
        self.add_as(verb, role, name, text, None);
    }

    fn add_as(&mut self, verb: &'static str, role: Role, name: &str, text: &str, user: Option<User>) {
        let folder = self.folder(name);
        self.certify(&folder, role, name);
        let file = folder.join(format!("{verb}.toml"));
        fs::write(&file, text.replace("LISTEN", "127.0.0.1:0")).unwrap();
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        if let Some(user) = &user {
            self.open_to(user, &folder);
        }
        self.daemons.insert(name.to_owned(), Daemon { verb, address: unknown, child: None, user });
        self.revive(name);
        // From now on it is always found there.
        fs::write(&file, text.replace("LISTEN", &self.address(name))).unwrap();
    }

    /// Starts a second server with the name, the state folder and the file of another one; it has to wait for its turn.
    pub(crate) fn add_standby(&mut self, name: &str, of: &str) {
        let (folder, first) = (self.folder(name), self.folder(of));
        self.certify(&folder, Role::Server, of);
        let text = fs::read_to_string(first.join("server.toml")).unwrap();
        let state = format!("state = \"{}\"", first.join("state").display());
        let text = text.replace("state = \"state\"", &state).replace(&self.address(of), "127.0.0.1:0");
        fs::write(folder.join("server.toml"), text).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        self.daemons.insert(name.to_owned(), Daemon { verb: "server", address, child: None, user: None });
        self.stand_by(name);
    }

    /// Waits until a daemon has ended by itself, and returns its exit code.
    pub(crate) async fn ended(&mut self, name: &str) -> Option<i32> {
        let daemon = self.daemons.get_mut(name).unwrap();
        let mut child = daemon.child.take().unwrap();
        until(&format!("{name} to end"), async || child.try_wait().unwrap()).await.code()
    }

    /// Lets a user run the program, have a daemon's folder, and leave files beside it.
    fn open_to(&self, user: &User, folder: &Path) {
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let own = |path: &Path| chown(path, Some(user.uid), Some(user.gid)).unwrap();
        own(folder);
        fs::read_dir(folder).unwrap().for_each(|entry| own(&entry.unwrap().path()));
        // Where it was built others may not look.
        fs::copy(env!("CARGO_BIN_EXE_pliant"), self.path().join("pliant")).unwrap();
    }

    /// A table that says where an agent is.
    pub(crate) fn address_table(&self, key: &str, agent: &str) -> String {
        format!("[[{key}]]\nname = \"{agent}\"\naddress = \"{}\"\n", self.address(agent))
    }

    /// Where a daemon listens.
    pub(crate) fn address(&self, name: &str) -> String {
        self.daemons[name].address.to_string()
    }

    /// Issues a certificate into a folder.
    pub(crate) fn certify(&self, folder: &Path, role: Role, name: &str) {
        let identity = Identity::new(role, name).unwrap();
        let order =
            transport::CertificateRequest { renew: true, ..transport::CertificateRequest::new(identity) };
        self.authority.issue_into(folder, &order, now()).unwrap();
    }

    /// The folder of the whole federation.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The folder of a daemon.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folder of a job at its server.
    pub(crate) fn job_folder(&self, handle: &Handle) -> PathBuf {
        self.folder(handle.server.as_str()).join("state/jobs").join(handle.number.to_string())
    }

    /// What a daemon has logged.
    pub(crate) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder(name).join("log")).unwrap()
    }

    /// Waits until a daemon has logged all of that in one line.
    pub(crate) async fn logged(&self, name: &str, words: &[&str]) {
        let what = format!("a line with {words:?} in the log of {name}");
        let line = || self.log(name).lines().any(|line| words.iter().all(|word| line.contains(word)));
        until(&what, async || line().then_some(())).await;
    }

    /// Kills a daemon as a crash would.
    pub(crate) fn kill(&mut self, name: &str) {
        let daemon = self.daemons.get_mut(name).unwrap();
        if let Some(mut child) = daemon.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// True if a daemon has died by itself, as one that was killed.
    pub(crate) fn has_died(&mut self, name: &str) -> bool {
        let daemon = self.daemons.get_mut(name).unwrap();
        let Some(status) = daemon.child.as_mut().unwrap().try_wait().unwrap() else { return false };
        daemon.child = None;
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{name} ended with {status}");
        true
    }

    /// Asks a daemon to stop, and waits until it has.
    pub(crate) fn stop(&mut self, name: &str) {
        let mut child = self.daemons.get_mut(name).unwrap().child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{name} stopped with {status}:\n{}", self.log(name));
    }

    /// Lets a daemon do nothing, as one that hangs.
    pub(crate) fn suspend(&self, name: &str) {
        self.signal(name, Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self, name: &str) {
        self.signal(name, Signal::CONT);
    }

    fn signal(&self, name: &str, signal: Signal) {
        let child = self.daemons[name].child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Starts a daemon that is not running, where it was before.
    pub(crate) fn revive(&mut self, name: &str) {
        let folder = self.folder(name);
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let mut child = self.spawn(name);
            let ready = loop {
                // The file is replaced as a whole.
                if let Ok(text) = fs::read_to_string(folder.join("ready")) {
                    break Some(text.trim().parse().unwrap());
                }
                if let Some(status) = child.try_wait().unwrap() {
                    assert_ne!(status.code(), Some(2), "the file of {name} is wrong:\n{}", self.log(name));
                    break None;
                }
                std::thread::sleep(POLL_INTERVAL);
            };
            let daemon = self.daemons.get_mut(name).unwrap();
            if let Some(address) = ready {
                (daemon.address, daemon.child) = (address, Some(child));
                return;
            }
            // Another process may have its port for a moment.
            assert!(Instant::now() < deadline, "{name} does not start:\n{}", self.log(name));
            std::thread::sleep(10 * POLL_INTERVAL);
        }
    }

    /// Starts a daemon that is not running and has to wait for its turn.
    pub(crate) fn stand_by(&mut self, name: &str) {
        let child = self.spawn(name);
        self.daemons.get_mut(name).unwrap().child = Some(child);
    }

    /// Waits until a daemon takes calls.
    pub(crate) async fn ready(&self, name: &str) {
        let file = self.folder(name).join("ready");
        until(&format!("{name} to be ready"), async || file.exists().then_some(())).await;
    }

    fn spawn(&self, name: &str) -> Child {
        let (folder, verb) = (self.folder(name), self.daemons[name].verb);
        let ready = folder.join("ready");
        if ready.exists() {
            fs::remove_file(&ready).unwrap();
        }
        let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let mut command = match &self.daemons[name].user {
            None => {
                let ours = || PathBuf::from(env!("CARGO_BIN_EXE_pliant"));
                Command::new(self.build.clone().unwrap_or_else(ours))
            }
            Some(user) => {
                let copied = || self.path().join("pliant");
                let mut command = Command::new(self.installed.clone().unwrap_or_else(copied));
                command.uid(user.uid).gid(user.gid);
                command
            }
        };
        command
            .arg(verb)
            .arg("--config")
            .arg(folder.join(format!("{verb}.toml")))
            .arg("--ready-file")
            .arg(&ready)
            // Jobs run as who runs the tests.
            .args((verb == "server").then_some("--allow-root"))
            .args(&self.options)
            .envs(self.environment.clone())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Waits until so many servers are there, as the master says.
    pub(crate) async fn attached(&self, count: usize) {
        let client = self.operator();
        until(&format!("{count} servers attached"), async || {
            let found = client.servers().await.ok()?;
            (found.servers.iter().filter(|server| server.attached).count() == count).then_some(())
        })
        .await;
    }

    /// Waits until so many servers are there and know their clusters: those in front of a real one have to list it first.
    pub(crate) async fn sized(&self, count: usize) {
        let client = self.operator();
        until(&format!("{count} servers that know their clusters"), async || {
            let found = client.servers().await.ok()?;
            let is_sized = |server: &&ServerStatus| server.attached && server.info.procs > Procs(0);
            (found.servers.iter().filter(is_sized).count() == count).then_some(())
        })
        .await;
    }

    /// A user's client.
    pub(crate) fn client(&self, user: &str) -> Client {
        self.client_as(Role::User, user)
    }

    /// An operator's client.
    pub(crate) fn operator(&self) -> Client {
        self.client_as(Role::Operator, "root")
    }

    /// A client with a certificate of that role.
    pub(crate) fn client_as(&self, role: Role, name: &str) -> Client {
        Client::new(&ClientFile::read(&self.client_file(role, name)).unwrap()).unwrap()
    }

    /// The file of a client of the master, with a certificate of that role.
    pub(crate) fn client_file(&self, role: Role, name: &str) -> PathBuf {
        let folder = self.dir.path().join("users").join(format!("{role}-{name}"));
        let file = folder.join("client.toml");
        if !file.exists() {
            self.certify(&folder, role, name);
            fs::write(&file, self.address_table("agent", MASTER) + TLS).unwrap();
        }
        file
    }

    /// Calls of a server without the client library, with a certificate of that role.
    pub(crate) fn server_client(&self, role: Role, name: &str, server: &str) -> ServerClient<Channel> {
        ServerClient::new(self.channel(&self.credentials(role, name), Role::Server, server))
    }

    /// A certificate of that role, outside of any daemon's folder.
    pub(crate) fn credentials(&self, role: Role, name: &str) -> Credentials {
        Credentials::in_folder(self.client_file(role, name).parent().unwrap())
    }

    /// A connection to a daemon.
    pub(crate) fn channel(&self, own: &Credentials, role: Role, daemon: &str) -> Channel {
        let tls = Arc::new(ClientTls::load(own).unwrap());
        let there = Identity::new(role, daemon).unwrap();
        transport::channel(&self.address(daemon), &there, tls, &Timeouts::default())
    }

    /// Waits until a job is in a state.
    pub(crate) async fn reaches(&self, client: &Client, handle: &Handle, state: JobState) -> JobRecord {
        until(&format!("{handle} {state}"), async || {
            let record = client.job(handle).await.ok()?;
            assert!(record.state == state || !record.state.is_final(), "{record:?}");
            (record.state == state).then_some(record)
        })
        .await
    }

    fn end(&mut self) {
        // Servers first, so that nothing is started any more; agents are of no use without them.
        for daemon in self.daemons.values_mut() {
            if let Some(mut child) = daemon.child.take() {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        let servers = self.daemons.iter().filter(|(_, daemon)| daemon.verb == "server");
        for (name, _) in servers {
            for jobs in ["state/jobs", "state/subjobs"] {
                end_jobs(&self.folder(name).join(jobs));
            }
        }
    }
}

impl Drop for Federation {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            for name in self.daemons.keys() {
                let log = fs::read_to_string(self.folder(name).join("log")).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let tail = &lines[lines.len().saturating_sub(60)..];
                eprintln!("--- the end of the log of {name}\n{}", tail.join("\n"));
            }
        }
    }
}

fn end_jobs(jobs: &Path) {
    let Ok(entries) = fs::read_dir(jobs) else { return };
    let dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let running = |dir: &PathBuf| matches!(processes::find(dir), Ok(processes::ProcessState::Running(_)));
    let asked: Vec<&PathBuf> = dirs.iter().filter(|dir| running(dir)).collect();
    for dir in &asked {
        // The wait below shows failures.
        let _ = processes::terminate(dir);
    }
    let deadline = Instant::now() + TIMEOUT;
    while asked.iter().any(|dir| running(dir)) {
        if Instant::now() > deadline {
            eprintln!("jobs in {} do not end", jobs.display());
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
