//! `render-encode compare`: the film on a federation of three LANs whose links are slow, with the tasks mapped by WASE, by WASE and
//! the search that may follow it, by best fit and at random.
//!
//! A LAN is a server with addresses of its own on the loopback interface of a network namespace, in which the kernel's
//! traffic control limits what goes from one LAN to another (`lans`). Everything else is as it is on real clusters: an agent,
//! servers and their certificates, and `pliant launch`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::allowed::{Allowed, Places};
use crate::film::Film;
use crate::lans::{AGENT_HOST, LANS, Links};
use crate::launched::Application;
use crate::{Failure, launched};

/// How tasks get their machines, as `pliant launch --mapper` calls it.
const MAPPINGS: [&str; 4] = ["wase", "refined", "best-fit", "random"];
/// Processors of each LAN, and what each of them is taken for, in MFlop/s: two LANs together cannot take all tasks.
const PROCS: u32 = 7;
const POWER_MFLOPS: u32 = 100;
/// How long the federation may take until all are there.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long the agent may take until it knows all links.
const MEASURED: Duration = Duration::from_secs(180);
/// The port of every daemon: each has an address of its own.
const PORT: u16 = 7700;

/// What is compared, and where.
#[derive(Args, Clone)]
pub(crate) struct Compare {
    /// The folder of the federation and the films; made, and must not be there.
    #[arg(long, value_name = "DIR", default_value = "comparison")]
    dir: PathBuf,
    /// How fast the link between the first two LANs is, in Mb/s. The third is behind links of a quarter of that.
    #[arg(long, value_name = "MBPS", default_value_t = 16)]
    mbps: u32,
    /// How often each mapping makes the film.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// The command of Pliant [default: beside this program].
    #[arg(long, value_name = "FILE")]
    pliant: Option<PathBuf>,
    #[command(flatten)]
    film: Film,
    /// We are in the network namespace already.
    #[arg(long, hide = true)]
    within: bool,
}

/// Compares, in a network namespace of its own.
pub(crate) fn run(compare: &Compare) -> Result<(), Failure> {
    if compare.within {
        return within(compare);
    }
    let program = std::env::current_exe()?;
    let mut command = Command::new("unshare");
    // A user who is not root is root in that namespace.
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("--net").arg(program).args(std::env::args_os().skip(1)).arg("--within");
    let status = command.status().map_err(|error| format!("expected `unshare` on this machine ({error})"))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        _ => Err(format!("in a network namespace: {status}").into()),
    }
}

fn within(compare: &Compare) -> Result<(), Failure> {
    let links = Links::new(compare.mbps);
    links.limit()?;
    fs::create_dir(&compare.dir)
        .map_err(|error| format!("expected to make the folder {}: {error}", compare.dir.display()))?;
    let federation = Federation::start(compare)?;
    let out = federation.dir.join("film.ts");
    let film = Film { out, ..compare.film.clone() };
    let wanted = Application { dir: federation.dir.join("film"), mcr: 50, film: film.clone() };
    let application = launched::write(&wanted)?;
    println!("{links}");
    println!("measured: {}", federation.links()?);
    println!(
        "{:<9} {:>3}  {:>4}  {:>15}  {:>27}  {:>9}",
        "mapping", "run", "LANs", "traffic between", "links allow frames/s", "frames/s"
    );
    let mut shown: BTreeMap<&str, Places> = BTreeMap::new();
    let mut found: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    // In turns, so that what else the machine does meets all of them.
    for run in 1..=compare.runs {
        for mapping in MAPPINGS {
            let places = federation.launch(&application, mapping)?;
            let report = fs::read_to_string(film.report())?;
            let report: Value = serde_json::from_str(&report)?;
            let per_s = report["frames_per_s"].as_f64().ok_or("expected frames_per_s of the sink")?;
            let mut lans: Vec<&String> = places.values().collect();
            lans.sort();
            lans.dedup();
            let Allowed { between, frames_per_s, narrowest } = Allowed::of(&places, &links, &film)?;
            let allow = match (frames_per_s, narrowest) {
                (Some(most), Some((one, other))) => format!("{most:.2} ({one} to {other})"),
                _ => "any".to_owned(),
            };
            let (lans, between) = (lans.len(), 100.0 * between);
            println!("{mapping:<9} {run:>3}  {lans:>4}  {between:>13.1} %  {allow:>27}  {per_s:>9.2}");
            shown.entry(mapping).or_insert(places);
            found.entry(mapping).or_default().push(per_s);
        }
    }
    for mapping in MAPPINGS {
        let runs = found.entry(mapping).or_default();
        runs.sort_by(f64::total_cmp);
        let middle = runs.len() / 2;
        let median = match runs.len() % 2 {
            0 => f64::midpoint(runs[middle - 1], runs[middle]),
            _ => runs[middle],
        };
        println!("{mapping:<9} median of {}: {median:.2} frames/s", runs.len());
    }
    for (mapping, places) in &shown {
        println!("{mapping}: {}", by_lan(places));
    }
    Ok(())
}

/// Which tasks are where, in the order of the LANs.
fn by_lan(places: &Places) -> String {
    let of = |(lan, _): &(&str, &str)| {
        let there = places.iter().filter(|(_, place)| place == lan).map(|(task, _)| task.as_str());
        format!("{lan}: {}", there.collect::<Vec<_>>().join(", "))
    };
    LANS.iter().map(of).collect::<Vec<_>>().join("; ")
}

/// Daemons that run, and none outlives this.
struct Federation {
    dir: PathBuf,
    pliant: PathBuf,
    daemons: Vec<Child>,
}

impl Drop for Federation {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // One that has ended is no failure here.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Federation {
    fn start(compare: &Compare) -> Result<Federation, Failure> {
        let beside = || Ok::<_, Failure>(std::env::current_exe()?.with_file_name("pliant"));
        let pliant = compare.pliant.clone().map_or_else(beside, Ok)?;
        if !pliant.exists() {
            return Err(format!(
                "expected the command of Pliant at {}: build it, or say where with --pliant",
                pliant.display()
            )
            .into());
        }
        let dir = std::path::absolute(&compare.dir)?;
        let mut federation = Federation { dir, pliant, daemons: Vec::new() };
        federation.pliant(&["ca", "init", &federation.path("ca")])?;
        federation.certificate("user", "viewer")?;
        let agent = format!("{AGENT_HOST}:{PORT}");
        let parent = format!("name = \"master\"\naddress = \"{agent}\"\n");
        federation.write("viewer/client.toml", &format!("[[agent]]\n{parent}\n{TLS}"))?;
        federation.certificate("agent", "master")?;
        let file = format!("name = \"master\"\nlisten = \"{agent}\"\nstate = \"state\"\n\n{TLS}");
        federation.write("master/agent.toml", &file)?;
        federation.daemon("agent", "master")?;
        for (name, host) in LANS {
            federation.certificate("server", name)?;
            let file = format!(
                "name = \"{name}\"\nlisten = \"{host}:{PORT}\"\nstate = \"state\"\nscripts = true\n\n[[parent]]\n{parent}\n\
                 [accounts]\nmap = \"shared\"\n\n[cluster]\nprocs = {PROCS}\npower_mflops = {POWER_MFLOPS}\nhost_load = false\n\n{TLS}"
            );
            federation.write(&format!("{name}/server.toml"), &file)?;
            federation.daemon("server", name)?;
        }
        federation.wait()?;
        Ok(federation)
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        Ok(fs::write(self.dir.join(name), text)?)
    }

    fn certificate(&self, role: &str, name: &str) -> Result<(), Failure> {
        let (ca, out) = (self.path("ca"), self.path(name));
        self.pliant(&["ca", "issue", role, name, "--ca", &ca, "--out", &out]).map(drop)
    }

    fn daemon(&mut self, verb: &str, name: &str) -> Result<(), Failure> {
        let log = File::create(self.dir.join(name).join("log"))?;
        let file = self.dir.join(name).join(format!("{verb}.toml"));
        let mut command = Command::new(&self.pliant);
        // Its jobs are this user's own.
        let allow_root = (verb == "server").then_some("--allow-root");
        command
            .arg(verb)
            .args(allow_root)
            .arg("--config")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.daemons.push(command.spawn()?);
        Ok(())
    }

    /// What the command says, as JSON.
    fn pliant(&self, words: &[&str]) -> Result<Value, Failure> {
        let mut command = Command::new(&self.pliant);
        command.args(words).args(["--format", "json"]);
        let config = self.dir.join("viewer/client.toml");
        let done = command.env("PLIANT_CONFIG", config).stdin(Stdio::null()).output()?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("pliant {}: {}", words.join(" "), said.trim()).into());
        }
        Ok(serde_json::from_slice(&done.stdout)?)
    }

    /// The links as the agent had them measured, once it knows all.
    fn links(&self) -> Result<String, Failure> {
        let begun = Instant::now();
        loop {
            let found = self.pliant(&["servers", "--links"])?;
            let link = |link: &Value| {
                let [one, other] = link["between"].as_array()?.as_slice() else { return None };
                Some(format!("{} - {} {:.1} Mb/s", one.as_str()?, other.as_str()?, link["mbps"].as_f64()?))
            };
            let links: Option<Vec<String>> =
                found["links"].as_array().and_then(|all| all.iter().map(link).collect());
            match links {
                Some(links) if links.len() == LANS.len() * (LANS.len() - 1) / 2 => {
                    return Ok(links.join(", "));
                }
                _ if begun.elapsed() < MEASURED => std::thread::sleep(Duration::from_millis(200)),
                _ => {
                    return Err(format!("expected all links to be measured, found {}", found["links"]).into());
                }
            }
        }
    }

    /// Until all servers are there.
    fn wait(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            let found = self.pliant(&["servers"]);
            let there = found.as_ref().ok().and_then(|found| {
                Some(found["servers"].as_array()?.iter().filter(|server| server["attached"] == true).count())
            });
            match there {
                Some(there) if there == LANS.len() => return Ok(()),
                _ if begun.elapsed() < TIMEOUT => std::thread::sleep(Duration::from_millis(100)),
                _ => {
                    let logs = self.dir.join("*/log");
                    let found = found.err().map(|error| error.to_string()).unwrap_or_default();
                    return Err(format!(
                        "expected {} servers within {} s, found {}; their logs are in {}. {found}",
                        LANS.len(),
                        TIMEOUT.as_secs(),
                        there.unwrap_or(0),
                        logs.display(),
                    )
                    .into());
                }
            }
        }
    }

    /// Makes the film; where each task was.
    fn launch(&self, application: &Path, mapping: &str) -> Result<Places, Failure> {
        let application = application.display().to_string();
        let words = ["launch", &application, "--mapper", mapping, "--from", LANS[0].0, "--time", "1h"];
        let launch = self.pliant(&words)?;
        let task =
            |task: &Value| Some((task["task"].as_str()?.to_owned(), task["server"].as_str()?.to_owned()));
        let places: Option<Places> =
            launch["tasks"].as_array().and_then(|tasks| tasks.iter().map(task).collect());
        places.ok_or_else(|| format!("expected the servers of all tasks, found {launch}").into())
    }
}

const TLS: &str = "[tls]\nca = \"ca.pem\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\ncrl = \"crl.pem\"\n";
