//! What a server's file may say, but should not.

use std::path::Path;

use pliant_model::{ClusterNodes, JobId, Request, Resources, Span, Speed, Time};
use pliant_policy::batch::BatchScheduler;
use pliant_policy::nodes::{ClusterSnapshot, Nodes};
use pliant_policy::tuning::Tuner;
use pliant_site::Submitters;
use pliant_site::services::{Service, SpeedupSpec};

use crate::config::{DiskQuota, JobLimitsFile, ServerFile};

/// What an operator should know before a server with that file starts as that program: that accounts can read the program, that
/// message queues are hidden, what the batch system hides from the user of this process, if it answers, and which services can never run.
pub async fn warnings(file: &ServerFile, program: &Path) -> Vec<String> {
    let accounts = file.accounts();
    let of_accounts = accounts.readable_program(program).into_iter().chain(accounts.hidden_queues());
    let hidden = match file.cluster.external() {
        Some(settings) => {
            let submitters = Submitters::through(accounts.launcher.clone(), accounts.has_accounts());
            settings.hidden(&file.name, submitters).await
        }
        None => None,
    };
    of_accounts.chain(hidden).chain(never_run(file)).collect()
}

/// The services whose jobs the embedded batch system refuses whenever they are submitted, since the host has not what they need.
fn never_run(file: &ServerFile) -> Vec<String> {
    let host = file.cluster.host();
    let why = |service: &Service, resources: &Resources| match &host {
        None => Some("the file has no [cluster.node]"),
        Some(host) if !fits(service, resources, &host.nodes) => Some("no size of it fits on the host"),
        Some(_) => None,
    };
    let warning = |service: &Service| {
        let resources = service.resources.as_deref().filter(|_| file.cluster.external().is_none())?;
        let why = why(service, resources)?;
        Some(format!("service {} needs {resources}, but {why}: its jobs are refused", service.name))
    };
    file.catalogue.all().filter_map(warning).collect()
}

fn fits(service: &Service, resources: &Resources, nodes: &ClusterNodes) -> bool {
    let SpeedupSpec { speedup, procs } = &service.speedup;
    let request = Request::new(JobId(0), Time::ZERO, *procs, Span(1), speedup.clone());
    let request = request.needing(resources.clone());
    let empty = Nodes::from_snapshot(Time::ZERO, &ClusterSnapshot::declared(nodes));
    let walltimes = request.where_counted(nodes.procs(), Speed::REFERENCE, true);
    empty
        .ok()
        .zip(walltimes)
        .is_some_and(|(mut empty, walltimes)| empty.estimate(Time::ZERO, &walltimes, Tuner::Exact).is_some())
}

/// What the server decided about the disk that its file leaves open: what jobs may have of it.
pub(super) fn quota(file: &JobLimitsFile, decided: &JobLimitsFile) -> Option<String> {
    let bytes = decided.disk_bytes.bytes().filter(|_| file.disk_bytes == DiskQuota::Share)?;
    Some(format!(
        "a job may have {bytes} bytes of files, by what was free at the start: [cluster.limits] disk_bytes sets another number, or \"none\""
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(cluster: &str, needs: &str, expected: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.toml");
        let text = format!(
            "name = \"rennes\"\nlisten = \"127.0.0.1:0\"\nstate = \"state\"\naccounts = {{ map = \"shared\" }}\n\
             parent = [{{ name = \"master\", address = \"localhost:7700\" }}]\n\
             tls = {{ ca = \"ca.pem\", cert = \"cert.pem\", key = \"key.pem\" }}\n[cluster]\nprocs = 4\n{cluster}\n\
             [[service]]\nname = \"train\"\ncommand = [\"train\"]\nspeedup = \"rigid:2\"\nruntime = \"1m\"\n{needs}\n"
        );
        fs::write(&path, text).unwrap();
        assert_eq!(never_run(&ServerFile::read(&path).unwrap()), expected, "{cluster} {needs}");
    }

    #[test]
    fn services_that_can_never_run_are_named() {
        let (node, each) = ("[cluster.node]\nmemory = \"8G\"", "[service.resources]\nmem_per_proc = \"4G\"");
        check("", "", &[]);
        check(node, each, &[]);
        let needs = "service train needs 4G per processor, but";
        check("", each, &[&format!("{needs} the file has no [cluster.node]: its jobs are refused")]);
        let small = node.replace('8', "7");
        check(&small, each, &[&format!("{needs} no size of it fits on the host: its jobs are refused")]);
    }
}
