//! Clusters with their services, for servers to stand in front of.

use std::fmt::Debug;
use std::path::PathBuf;

use pliant_testing::oar::User;

/// The agent at the root of every federation here.
pub(crate) const MASTER: &str = "master";

/// Services that every server here offers.
pub(crate) const SERVICES: &str = r#"
[[service]]
name = "sleep"
summary = "sleeps"
command = ["sleep", "{seconds}"]
speedup = "rigid:1"
runtime = "10s"
runtime_per = { argument = "seconds", exponent = 1.0, at = 10 }

[service.arguments.seconds]
type = "integer"
min = 1
max = 1000

[[service]]
name = "count"
summary = "counts the bytes of a file"
command = ["/bin/sh", "-c", "echo counting; echo for $PLIANT_OWNER >&2; wc -c < \"$1\" > count.txt; cp \"$1\" copy.bin", "count", "{data}"]
speedup = "amdahl:0.9,4"
runtime = "10s"

[service.arguments.data]
type = "file"

[[service]]
name = "say"
summary = "prints its argument, one word of the command line each"
command = ["printf", "<%s>", "{text}"]
speedup = "rigid:1"
runtime = "10s"

[service.arguments.text]
type = "string"
"#;

/// A cluster and the server in front of it.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) name: &'static str,
    pub(crate) procs: u32,
    pub(crate) speed: f64,
    pub(crate) batch: &'static str,
    /// The agent that it is attached to.
    pub(crate) parent: &'static str,
    /// The table of its file that says as whom jobs run.
    pub(crate) accounts: String,
    /// As whom the server runs, if not as we do.
    pub(crate) user: Option<User>,
    /// Further keys of its file.
    pub(crate) keys: &'static str,
    /// Further keys of the table of its cluster.
    pub(crate) cluster_keys: &'static str,
    /// Further tables of its file.
    pub(crate) tables: String,
    /// The slurm.conf of the cluster, if the server stands in front of a real one.
    pub(crate) slurm: Option<PathBuf>,
    /// Further keys of the table of its batch system, Slurm or OAR.
    pub(crate) batch_keys: &'static str,
    /// The OAR cluster that the server stands in front of.
    pub(crate) oar: Option<Oar>,
}

/// A real OAR cluster, as a server sees it.
#[derive(Clone, Debug)]
pub(crate) struct Oar {
    /// The folder of its commands.
    pub(crate) commands: PathBuf,
    /// Whom it takes jobs of: the server runs as that user.
    pub(crate) user: User,
}

impl Cluster {
    pub(crate) fn new(name: &'static str, procs: u32, speed: f64) -> Cluster {
        let tables = SERVICES.to_owned();
        Cluster {
            name,
            procs,
            speed,
            batch: "cbf",
            parent: MASTER,
            keys: "",
            cluster_keys: "",
            tables,
            slurm: None,
            batch_keys: "period_s = 1\n",
            oar: None,
            accounts: OWN_ACCOUNT.to_owned(),
            user: None,
        }
    }
}

/// All jobs run as the server's own user, who may be root.
const OWN_ACCOUNT: &str = "[accounts]\nmap = \"shared\"\n";

pub(crate) const TLS: &str =
    "[tls]\nca = \"ca.pem\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\ncrl = \"crl.pem\"\n";
