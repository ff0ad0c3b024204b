//! The files of a local federation: certificates, one TOML file per daemon and per user.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pliant_config::ConfigError;
use pliant_config::Source;
use pliant_control::server_info::ServerInfo;
use pliant_daemon::config::{AgentFile, OptionalFile, ServerFile};
use pliant_model::Time;
use pliant_site::services::Catalogue;
use pliant_transport::{Authority, AuthorityError, CertificateRequest, Identity, Role};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

use super::calibrate::{CoreSpeed, MATRIX_SIZE, measure};
use super::{CLUSTERS, Cluster, Folder, WITH_NODE, reference_share};
use crate::failure::Failure;

/// The name of the federation, by which its authority is known.
const FEDERATION: &str = "local";
/// What the host of the largest cluster has besides processors, so that every resource can be tried. The GPUs are made up.
const NODE: &str = "# So that `--mem`, `--gpus` and `--constraint` can be tried. The GPUs are made up.\n\
     [cluster.node]\nmemory = \"4G\"\ngpus = [\"0\", \"1\"]\ngpu_kind = \"demo\"\nfeatures = [\"gpu\"]\n\n";
/// The name of the agent.
pub(super) const AGENT: &str = "master";

pub(super) use pliant_request::local_federation::CLIENT;
/// The file of the unit of work.
const UNIT: &str = "unit.json";
/// Cores of each server for explorations.
const EXPLORING: u32 = 2;
/// Core seconds in a unit of work.
const UNIT_CORE_S: f64 = 4.0;

/// An amount of work that takes any machine four seconds of a core.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct WorkUnit {
    samples: f64,
    products: f64,
}

impl WorkUnit {
    fn new(speed: CoreSpeed) -> WorkUnit {
        WorkUnit { samples: UNIT_CORE_S * speed.samples_per_s, products: UNIT_CORE_S * speed.products_per_s }
    }

    /// The unit of a federation that was started.
    pub(crate) fn read(folder: &Folder) -> Result<WorkUnit, Failure> {
        let path = folder.path().join(UNIT);
        let text = fs::read_to_string(&path).map_err(|error| Failure::io(&path, "read", &error))?;
        serde_json::from_str(&text).map_err(|error| {
            let problem = format!("{}: expected the unit of work of a federation: {error}", path.display());
            Failure::input(problem).hint("`pliant down` and `pliant up` make the file anew")
        })
    }

    /// So many units of a service: samples of `pi`, products of `matrix`.
    pub(crate) fn of(self, service: &str, amount: f64) -> u64 {
        let each = if service == "pi" { self.samples } else { self.products };
        (each * amount).max(1.0) as u64
    }
}

/// The servers of a federation on this machine, as they described themselves.
pub(crate) fn server_infos(folder: &Folder) -> Result<Vec<ServerInfo>, Failure> {
    let info = |cluster: &Cluster| {
        let path = folder.daemon(cluster.name).join("server.toml");
        let file = ServerFile::read(&path).map_err(crate::daemon::wrong_file)?;
        let speed =
            file.cluster.speed().map_err(|(key, message)| Failure::input(format!("{key}: {message}")))?;
        Ok(ServerInfo {
            name: file.name.clone(),
            address: file.address(),
            rank: file.rank,
            procs: file.cluster.procs(),
            speed,
            policy: file.cluster.policy(),
            services: Vec::new(),
            scripts: file.scripts,
            optional_cores: file.optional.as_ref().map_or(0, |optional| optional.cores),
            optional_per_core: file.optional.as_ref().map_or(0, OptionalFile::per_core),
        })
    };
    CLUSTERS.iter().map(info).collect()
}

/// The address of a daemon.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    pub(super) address: String,
    pub(super) http: String,
}

impl Ports {
    fn of(listen: SocketAddr, http: Option<SocketAddr>) -> Ports {
        let http = http.map_or_else(String::new, |http| http.to_string());
        Ports { address: listen.to_string(), http }
    }
}

/// Writes every file, for these users and the operator. Returns the daemons to start: verb, name and address.
pub(super) fn write_all(
    folder: &Folder,
    users: &[&str],
    further: &str,
) -> Result<Vec<(&'static str, &'static str, Ports)>, Failure> {
    let path = folder.path();
    fs::create_dir_all(path).map_err(|error| Failure::io(path, "make", &error))?;
    let authority = authority(&path.join("ca"))?;
    let agent = ports()?;
    let mut daemons = vec![("agent", AGENT, agent.clone())];
    certificate(&authority, &folder.daemon(AGENT), Role::Agent, AGENT)?;
    write(&folder.daemon(AGENT).join("agent.toml"), &agent_file(&agent))?;
    let speed = measure();
    let unit = WorkUnit::new(speed);
    let text = serde_json::to_string(&unit).map_err(Failure::system)?;
    write(&path.join(UNIT), &text)?;
    for cluster in &CLUSTERS {
        let own = ports()?;
        certificate(&authority, &folder.daemon(cluster.name), Role::Server, cluster.name)?;
        let text = server_file(cluster, &own, &agent, speed) + further;
        let path = folder.daemon(cluster.name).join("server.toml");
        write(&path, &text)?;
        ServerFile::read(&path).map_err(crate::daemon::wrong_file)?;
        daemons.push(("server", cluster.name, own));
    }
    let own = own_name();
    certificate(&authority, path, Role::Operator, &own)?;
    write(&folder.own_client(), &client_file(&agent))?;
    for user in users {
        certificate(&authority, &folder.user(user), Role::User, user)?;
    }
    // Those of an earlier start find the agent, too.
    for user in fs::read_dir(folder.users()).into_iter().flatten().flatten() {
        write(&user.path().join(CLIENT), &client_file(&agent))?;
    }
    Ok(daemons)
}

/// The text of a file of services, if it makes sense.
pub(super) fn declared(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::io(path, "read", &error))?;
    let checked = Catalogue::from_toml(&Source::new(path, text.clone()));
    checked.map_err(|error| crate::daemon::wrong_file(ConfigError::Content(error)))?;
    Ok(format!("\n{text}"))
}

/// Makes the files of those users who have none, in a federation that was started.
pub(super) fn add_users(folder: &Folder, users: &[&str]) -> Result<(), Failure> {
    for user in users.iter().filter(|user| !folder.client(user).exists()) {
        certificate(&authority(&folder.path().join("ca"))?, &folder.user(user), Role::User, user)?;
        write(&folder.client(user), &client_file(&agent_ports(folder)?))?;
    }
    Ok(())
}

/// The daemons of a federation that was started, by their files: verb, name, where they listen.
pub(super) fn known(folder: &Folder) -> Result<Vec<(&'static str, &'static str, Ports)>, Failure> {
    let mut daemons = vec![("agent", AGENT, agent_ports(folder)?)];
    for cluster in &CLUSTERS {
        let path = folder.daemon(cluster.name).join("server.toml");
        let file = ServerFile::read(&path).map_err(crate::daemon::wrong_file)?;
        let http = file.http.as_ref().map(|http| http.listen);
        daemons.push(("server", cluster.name, Ports::of(file.listen, http)));
    }
    Ok(daemons)
}

fn agent_ports(folder: &Folder) -> Result<Ports, Failure> {
    let file =
        AgentFile::read(&folder.daemon(AGENT).join("agent.toml")).map_err(crate::daemon::wrong_file)?;
    Ok(Ports::of(file.listen, file.http.as_ref().map(|http| http.listen)))
}

/// True if a folder is empty, or was made here: then its authority is that of a local federation.
pub(super) fn is_ours(folder: &Folder) -> Result<bool, Failure> {
    let path = folder.path();
    let mut entries = fs::read_dir(path).map_err(|error| Failure::io(path, "read", &error))?;
    if entries.next().is_none() || folder.record().exists() {
        return Ok(true);
    }
    let federation = Authority::open(&path.join("ca")).and_then(|authority| authority.federation());
    match federation {
        Ok(name) => Ok(name == FEDERATION),
        // Whose it is cannot be seen before the file is whole again.
        Err(damaged @ AuthorityError::Register(_)) => Err(damaged.into()),
        Err(_) => Ok(false),
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(since.as_secs() as i64)
}

fn authority(dir: &Path) -> Result<Authority, Failure> {
    let opened = if dir.exists() { Authority::open(dir) } else { Authority::init(dir, FEDERATION, now()) };
    Ok(opened?)
}

fn certificate(authority: &Authority, dir: &Path, role: Role, name: &str) -> Result<(), Failure> {
    let identity = Identity::new(role, name).map_err(Failure::input)?;
    let order = CertificateRequest { renew: true, ..CertificateRequest::new(identity) };
    authority.issue_into(dir, &order, now())?;
    Ok(())
}

/// Ports that no other program is handed at random: below those of outgoing connections and of port 0.
const PORTS: RangeInclusive<u16> = 16_384..=32_767;

/// How many ports are tried. If all fail, the error of one more try is returned.
const TRIES: usize = 64;

/// Two ports that are free now, and likely until the daemon listens there.
fn ports() -> Result<Ports, Failure> {
    let mut random = ChaCha8Rng::from_os_rng();
    let mut bind = || {
        let port = PORTS.start() + (random.next_u32() % PORTS.count() as u32) as u16;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
    };
    let mut free = || (0..TRIES).find_map(|_| bind().ok()).map_or_else(&mut bind, Ok);
    let bound = free().and_then(|address| Ok((address.local_addr()?, free()?.local_addr()?)));
    let failed = |error| Failure::system(format!("no free port on the loopback address: {error}"));
    let (address, http) = bound.map_err(failed)?;
    Ok(Ports { address: address.to_string(), http: http.to_string() })
}

/// The name of the present user, as far as a certificate takes it.
fn own_name() -> String {
    let name = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default();
    match Identity::new(Role::Operator, &name) {
        Ok(_) => name,
        Err(_) => "operator".to_owned(),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::io(path, "write", &error))
}

const TLS: &str = "[tls]\nca = \"ca.pem\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\ncrl = \"crl.pem\"\n";

/// All of the federation is on one machine.
const SHARED: &str = "[shared]\n\"/\" = \"this-machine\"\n";

fn agent_file(ports: &Ports) -> String {
    let Ports { address, http } = ports;
    format!(
        "name = \"{AGENT}\"\nlisten = \"{address}\"\nstate = \"state\"\n\n{TLS}\n[http]\nlisten = \"{http}\"\n"
    )
}

fn client_file(agent: &Ports) -> String {
    format!("[[agent]]\nname = \"{AGENT}\"\naddress = \"{}\"\n\n{TLS}\n{SHARED}", agent.address)
}

fn server_file(cluster: &Cluster, ports: &Ports, agent: &Ports, speed: CoreSpeed) -> String {
    let Cluster { name, procs, speed: factor } = cluster;
    let node = if *name == WITH_NODE { NODE } else { "" };
    let Ports { address, http } = ports;
    let share = reference_share() * factor;
    format!(
        "name = \"{name}\"\nlisten = \"{address}\"\nstate = \"state\"\n\n\
         [[parent]]\nname = \"{AGENT}\"\naddress = \"{}\"\n\n\
         [cluster]\nprocs = {procs}\nspeed = {factor}\nbatch = \"cbf\"\n\
         # Each processor is worth this share of one of this machine's, so that all clusters fit on it.\n\
         cpu_share = {share:.4}\n\n\
         {node}\
         # All jobs run as the user who runs this server.\n\
         [accounts]\nmap = \"shared\"\n\n\
         # For `pliant explore`: beside the processors.\n\
         [optional]\ncores = {EXPLORING}\n\n\
         {TLS}\n{SHARED}\n[http]\nlisten = \"{http}\"\n\n{}",
        agent.address,
        services(speed),
    )
}

/// What the servers offer: runtimes at speed 1 are what this machine takes, spread over its shares.
fn services(speed: CoreSpeed) -> String {
    // For one processor of speed 1, in seconds.
    let seconds = |work: f64| (work / reference_share()).ceil().max(1.0);
    let samples = 1_000_000_000.0;
    let pi_s = seconds(samples / speed.samples_per_s);
    let matrix_s = seconds(100.0 / speed.products_per_s);
    format!(
        "[[service]]\nname = \"pi\"\nsummary = \"estimates pi by Monte Carlo\"\n\
         command = [\"{{pliant}}\", \"work\", \"pi\", \"--samples\", \"{{samples}}\", \"--seed\", \"{{seed}}\", \
         \"--out\", \"pi.json\"]\n\
         speedup = \"amdahl:0.99,64\"\nruntime = \"{pi_s}s\"\nwalltime_factor = 2.0\n\
         runtime_per = {{ argument = \"samples\", exponent = 1.0, at = {samples} }}\n\n\
         [service.arguments.samples]\ntype = \"integer\"\nmin = 1\nmax = 1_000_000_000_000\n\
         default = 1_000_000_000\nsummary = \"random points\"\n\n\
         [service.arguments.seed]\ntype = \"integer\"\nmin = 0\ndefault = 1\n\n\
         [[service]]\nname = \"matrix\"\nsummary = \"multiplies two random {MATRIX_SIZE} x {MATRIX_SIZE} matrices again and again\"\n\
         command = [\"{{pliant}}\", \"work\", \"matrix\", \"--size\", \"{MATRIX_SIZE}\", \"--repeat\", \"{{repeat}}\", \
         \"--seed\", \"{{seed}}\", \"--out\", \"matrix.json\"]\n\
         speedup = \"amdahl:0.95,16\"\nruntime = \"{matrix_s}s\"\nwalltime_factor = 2.0\n\
         runtime_per = {{ argument = \"repeat\", exponent = 1.0, at = 100 }}\n\n\
         [service.arguments.repeat]\ntype = \"integer\"\nmin = 1\nmax = 1_000_000\ndefault = 100\nsummary = \"products\"\n\n\
         [service.arguments.seed]\ntype = \"integer\"\nmin = 0\ndefault = 1\n"
    )
}
