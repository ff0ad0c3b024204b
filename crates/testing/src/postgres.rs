//! A PostgreSQL server of the tests' own, where its programs are: on a socket in a folder of its own, no network.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::{Needed, skip};

/// How long the server may take to start, on a machine that is busy with something else.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server. Ends with the last of its databases.
pub struct Server {
    process: Child,
    folder: TempDir,
    port: u16,
    databases: AtomicU32,
}

/// The certificate and the key of a server, as PEM.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// The certificate.
    pub certificate: &'a str,
    /// Its key.
    pub key: &'a str,
}

impl Server {
    /// Starts a server. None, and a note of what was left out, if its programs are not there.
    pub fn start() -> Option<Rc<Server>> {
        Server::start_with(None)
    }

    /// Starts a server that also listens on 127.0.0.1, with TLS.
    pub fn start_with_tls(credentials: Credentials<'_>) -> Option<Rc<Server>> {
        Server::start_with(Some(credentials))
    }

    fn start_with(tls: Option<Credentials<'_>>) -> Option<Rc<Server>> {
        let Some(programs) = programs() else {
            skip(Needed::Program, "the PostgreSQL server (initdb, postgres) is not there");
            return None;
        };
        let folder = TempDir::new().unwrap();
        // A server refuses to run as root.
        let user = rustix::process::geteuid().is_root().then(ordinary_user);
        if let Some((user, group)) = user {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = |name: &str| {
            let mut command = Command::new(programs.join(name));
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command.current_dir(folder.path()).env("LC_ALL", "C").stdin(Stdio::null());
            command
        };
        let made = program("initdb")
            .args(["-D", "data", "-U", "pliant", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut settings = vec!["shared_buffers=16MB", "max_connections=30", "fsync=on"];
        let mut port = 5432;
        if let Some(Credentials { certificate, key }) = tls {
            let data = folder.path().join("data");
            for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                let path = data.join(name);
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
                if let Some((user, group)) = user {
                    chown(&path, Some(user), Some(group)).unwrap();
                }
            }
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            port = free.local_addr().unwrap().port();
            settings.extend(["listen_addresses=127.0.0.1", "ssl=on"]);
        } else {
            settings.push("listen_addresses=");
        }
        let port_setting = format!("port={port}");
        settings.push(&port_setting);
        let process = program("postgres")
            .args(["-D", "data", "-k"])
            .arg(folder.path())
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Server { process, folder, port, databases: AtomicU32::new(0) };
        let begun = Instant::now();
        while server.try_query("postgres", "SELECT 1").is_err() {
            assert!(
                begun.elapsed() < TIMEOUT,
                "{}",
                fs::read_to_string(server.folder.path().join("log")).unwrap()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Rc::new(server))
    }

    /// A new database.
    pub fn database(self: &Rc<Self>) -> Database {
        let name = format!("journal{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.query("postgres", &format!("CREATE DATABASE {name}"));
        Database { server: self.clone(), name }
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(format!(".s.PGSQL.{}", self.port))
    }

    fn query(&self, database: &str, text: &str) -> Vec<String> {
        self.try_query(database, text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    /// The first column of all answers.
    fn try_query(&self, database: &str, text: &str) -> Result<Vec<String>, tokio_postgres::Error> {
        let folder = self.folder.path().display();
        let address = format!("host={folder} port={} user=pliant dbname={database}", self.port);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection): (Client, _) = tokio_postgres::connect(&address, NoTls).await?;
            tokio::spawn(connection);
            let answers = client.simple_query(text).await?;
            let first = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            };
            Ok(answers.iter().filter_map(first).collect())
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // At once: what it holds is thrown away.
        let process = Pid::from_raw(self.process.id().try_into().unwrap()).unwrap();
        let _ = kill_process(process, Signal::QUIT);
        let _ = self.process.wait();
    }
}

/// A database of a server.
pub struct Database {
    server: Rc<Server>,
    name: String,
}

impl Database {
    /// Its connection string.
    pub fn connection(&self) -> String {
        self.connection_by(&self.server.folder.path().display().to_string(), self.server.port)
    }

    /// The connection string, by way of another address.
    pub fn connection_by(&self, host: &str, port: u16) -> String {
        format!("host={host} port={port} user=pliant dbname={}", self.name)
    }

    /// The connection string by way of the server's port, under a name of this host.
    pub fn connection_as(&self, host: &str) -> String {
        self.connection_by(host, self.server.port)
    }

    /// Asks the database; the first column.
    pub fn query(&self, text: &str) -> Vec<String> {
        self.server.query(&self.name, &format!("SET search_path = pliant; {text}"))
    }

    /// Ends the connection of the leading agent, from the server's side.
    pub fn end_leader(&self) {
        let ended = self.query(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_locks JOIN pg_database ON pg_database.oid = database \
             WHERE locktype = 'advisory' AND granted AND datname = current_database()",
        );
        assert_eq!(ended, ["t"], "one leads");
    }

    /// The process of each connection of a journal or an archive.
    pub fn connections(&self) -> Vec<String> {
        self.query(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'pliant'",
        )
    }
}

/// The folder of the server's programs: the latest version of where distributions put them, or on the path.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = versions.into_iter().rev().map(|(_, folder)| folder);
    let has_both = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    usual.chain(std::env::split_paths(&path)).find(has_both)
}

/// User and group of somebody who is not root.
fn ordinary_user() -> (u32, u32) {
    let users = fs::read_to_string(Path::new("/etc/passwd")).unwrap();
    let ids = |name: &str| {
        let mut fields =
            users.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    ids("postgres").or_else(|| ids("nobody")).expect("every Linux has nobody")
}
