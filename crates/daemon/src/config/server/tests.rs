//! What may stand in the table of a Slurm cluster, and what is said of the rest.

use super::*;

const FILE: &str = "name = \"rennes\"\nlisten = \"127.0.0.1:0\"\nstate = \"state\"\n\
                    parent = [{ name = \"master\", address = \"localhost:7700\" }]\n\
                    accounts = { map = \"shared\" }\n\
                    tls = { ca = \"ca.pem\", cert = \"cert.pem\", key = \"key.pem\" }\n";

fn read_with(cluster: &str) -> Result<ServerFile, ConfigError> {
    read_all(&format!("{FILE}{cluster}"))
}

fn read_all(text: &str) -> Result<ServerFile, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.toml");
    std::fs::write(&path, text).unwrap();
    ServerFile::read(&path)
}

#[test]
fn a_slurm_cluster_is_read() {
    let all = "[cluster]\nspeed = 2.0\n[cluster.slurm]\nconf = \"there/slurm.conf\"\ncommands = \"slurm/bin\"\n\
               partition = \"main\"\naccount = \"grid\"\nqos = \"low\"\nextra = [\"--reservation=grid\"]\n\
               deadline_s = 30\nperiod_s = 5\nnodes_every_s = 0\nexpect = \"history\"\n";
    let file = read_with(all).unwrap();
    assert_eq!((file.cluster.policy().as_str(), file.cluster.procs()), (external::SLURM, Procs(0)));
    let slurm = file.cluster.slurm.as_ref().unwrap();
    let named = [&slurm.conf, &slurm.commands].map(|path| path.as_ref().unwrap().is_absolute());
    assert_eq!(named, [true; 2], "relative to the file: {slurm:?}");
    let written = toml::to_string(&file.cluster).unwrap();
    assert_eq!(toml::from_str::<ClusterFile>(&written).unwrap(), file.cluster);
    let none = read_with("[cluster.slurm]\n").unwrap();
    assert_eq!(none.cluster.slurm, Some(slurm::Settings::default()));
}

#[test]
fn a_queue_order_belongs_to_the_local_policy() {
    let policy = |keys: &str| read_with(&format!("[cluster]\nprocs = 4\n{keys}")).unwrap().cluster.policy();
    assert_eq!(policy(""), "cbf");
    assert_eq!(policy("batch = \"easy\"\norder = \"fair-share\"\n"), "easy/fair-share");
    assert_eq!(policy("batch = \"fcfs\"\norder = \"f1\"\naging = \"none\"\n"), "fcfs/f1/none");
}

#[test]
fn the_table_of_priorities_belongs_to_orders_by_usage() {
    let file = |cluster: &str| {
        read_with(&format!(
            "[cluster]\nprocs = 4\n{cluster}[priority]\nfair_share = 7\nusers = {{ alice = 2 }}\n"
        ))
    };
    for order in ["multifactor", "fair-share"] {
        let priority = file(&format!("batch = \"easy\"\norder = \"{order}\"\n")).unwrap().priority();
        assert_eq!((priority.weights.fair_share, priority.users.len()), (7, 1));
    }
    for cluster in ["", "batch = \"easy\"\norder = \"f1\"\n"] {
        let error = file(cluster).err().unwrap().to_string();
        assert!(error.contains("priority: expected it with `order = \"multifactor\"`"), "{error}");
    }
    let wrong =
        "[cluster]\nprocs = 4\nbatch = \"easy\"\norder = \"multifactor\"\n[priority]\nhalf_life = \"0\"\n";
    let error = read_with(wrong).err().unwrap().to_string();
    assert!(error.contains("priority.half_life: expected a time"), "{error}");
}

#[test]
fn invalid_settings_are_reported_with_their_key() {
    let check = |cluster: &str, words: &[&str]| {
        let error = read_with(cluster).err().unwrap().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "expected {words:?} in: {error}");
    };
    let beside = "none together with [cluster.slurm]";
    check("[cluster]\nprocs = 4\n[cluster.slurm]\n", &["cluster.procs", beside]);
    check("[cluster]\nbatch = \"easy\"\n[cluster.slurm]\n", &["cluster.batch", beside]);
    check("[cluster]\norder = \"f1\"\n[cluster.slurm]\n", &["cluster.order", beside]);
    check("[cluster]\naging = \"1h\"\n[cluster.slurm]\n", &["cluster.aging", beside]);
    let easy = "[cluster]\nprocs = 4\nbatch = \"easy\"\n";
    check(&format!("{easy}order = \"lifo\"\n"), &["cluster.order", "first-come, ", "`lifo`"]);
    check(&format!("{easy}aging = \"1h\"\n"), &["cluster.aging", "first-come with aging 1h"]);
    check("[cluster]\nprocs = 4\norder = \"f1\"\n", &["cluster.order", "`f1 under cbf`"]);
    check("[cluster]\npin = true\n[cluster.slurm]\n", &["cluster.pin", beside]);
    check("[cluster]\nfirst_core = 2\n[cluster.slurm]\n", &["cluster.first_core", beside]);
    check("[cluster]\ncpu_share = 0.5\n[cluster.slurm]\n", &["cluster.cpu_share", beside]);
    check("[cluster]\n", &["cluster.procs", "1 to 1000000", "0"]);
    check(
        "postgres = \"dbname=pliant\"\n[cluster]\nprocs = 4\n",
        &["postgres", "[cluster.slurm]", "embedded"],
    );
    let days = |lines: &str| format!("{lines}\n[cluster]\nprocs = 4\n");
    check(&days("jobs_days = 29"), &["jobs_days", "at least 30", "found 29"]);
    check(&days("results_days = 91"), &["jobs_days", "at least `results_days` (91)", "found 90"]);
    assert_eq!(read_with(&days("jobs_days = 30")).unwrap().jobs_days, 30);
    check("[cluster]\nprocs = 1\npower_mflops = 0.0\n", &["cluster.power_mflops", "0.001 to", "found 0"]);
    for (line, words) in [
        ("partitions = \"main\"", ["partitions", "partition"]),
        ("period_s = 0", ["period_s", "1 to 3600"]),
        ("period_s = -1", ["period_s", "-1"]),
        ("deadline_s = 5", ["deadline_s", "11 to 600"]),
        ("nodes_every_s = 100000", ["nodes_every_s", "0 to 86400"]),
        ("expect = \"hope\"", ["hope", "`limits` or `history`"]),
        ("partition = \"\"", ["partition", "a name without spaces"]),
        ("account = \"a b\"", ["account", "a name without spaces"]),
        ("extra = [\"--time=5\"]", ["extra", "options that pliant does not set itself"]),
        ("extra = [\"-C fast\"]", ["extra", "long options of sbatch"]),
        ("extra = \"--mem=1G\"", ["extra", "a list"]),
    ] {
        check(&format!("[cluster.slurm]\n{line}\n"), &words);
    }
}

#[test]
fn a_resident_service_takes_the_embedded_batch_system_and_the_servers_own_user() {
    let service = |how: &str| {
        format!(
            "[[service]]\nname = \"square\"\nsignature = [\"in int n\", \"out int m\"]\nspeedup = \"rigid:1\"\nruntime = \"1s\"\n{how}\n"
        )
    };
    let resident = service("command = [\"/opt/square\"]\nresident = true");
    let library = service("library = \"/opt/libsquare.so\"");
    let started =
        service("command = [\"/opt/square\", \"{n}\"]\n[service.parameters.m]\noutput = \"stdout\"");
    let accounts = FILE.replace("map = \"shared\"", "map = \"shared\", shared = \"grid\"");
    let check = |file: &str, cluster: &str, service: &str, expected: Option<&str>| {
        let error = read_all(&format!("{file}{cluster}{service}")).err().map(|error| error.to_string());
        let of_service = error.as_ref().filter(|error| error.contains("service.resident"));
        match expected {
            None => assert_eq!(of_service, None, "{service}"),
            Some(found) => {
                let error = of_service.unwrap_or_else(|| panic!("expected {found}, found {error:?}"));
                assert!(
                    error.contains(found) && error.contains("with a `command` that each call starts"),
                    "{error}"
                );
            }
        }
    };
    let embedded = "[cluster]\nprocs = 4\n";
    for (cluster, found) in [("[cluster.slurm]\n", "external"), ("[cluster.oar]\n", "external")] {
        check(FILE, cluster, &resident, Some(found));
        check(FILE, cluster, &started, None);
    }
    for service in [&resident, &library] {
        check(FILE, embedded, service, None);
        check(&accounts, embedded, service, Some("found jobs that run as accounts"));
    }
    check(&accounts, embedded, &started, None);
}
