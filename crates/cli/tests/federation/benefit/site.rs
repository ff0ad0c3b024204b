//! A federation in front of real Slurm clusters, and the work that is given to both.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pliant_client::Client;
use pliant_control::job::JobRecord;
use pliant_testing::slurm::SlurmCluster;
use pliant_wire::{Script, SubmittedWork};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::workload::{Local, Moldable, Workload};
use crate::harness::*;

/// The servers, one in front of each cluster.
pub(crate) const SERVERS: [&str; 3] = ["lyon", "nancy", "paris"];

/// A federation and the clusters behind it.
pub(crate) struct Site {
    pub(crate) federation: Federation,
    slurm: Vec<SlurmCluster>,
}

impl Site {
    /// An agent with these further tables in its file, and a server in front of each cluster.
    pub(crate) async fn start(slurm: &[SlurmCluster], tables: &str) -> Site {
        Site::with_keys(slurm, tables, "").await
    }

    /// The same with further keys in the table `[cluster]` of each server's file.
    pub(crate) async fn with_keys(slurm: &[SlurmCluster], tables: &str, cluster_keys: &'static str) -> Site {
        let mut federation = Federation::agent_only(tables);
        for (name, cluster) in SERVERS.into_iter().zip(slurm) {
            let slurm = Some(cluster.conf.clone());
            federation.add_server(&Cluster { slurm, cluster_keys, ..Cluster::new(name, 0, 1.0) });
        }
        federation.sized(slurm.len()).await;
        Site { federation, slurm: slurm.to_vec() }
    }

    /// Servers with so many processors each under their own batch system.
    pub(crate) async fn embedded(procs: u32, cluster_keys: &'static str) -> Site {
        let mut federation = Federation::agent_only("");
        for name in SERVERS {
            federation.add_server(&Cluster { cluster_keys, ..Cluster::new(name, procs, 1.0) });
        }
        federation.sized(SERVERS.len()).await;
        Site { federation, slurm: Vec::new() }
    }

    /// Whether it stands in front of Slurm clusters.
    pub(crate) fn has_slurm(&self) -> bool {
        !self.slurm.is_empty()
    }

    /// Where each run of a job leaves a line.
    pub(crate) fn lines(&self) -> PathBuf {
        self.federation.path().join("lines")
    }

    /// Where each local job leaves a line when it ends.
    pub(crate) fn local_lines(&self) -> PathBuf {
        self.federation.path().join("local-lines")
    }

    /// Jobs of the clusters that are not over, as `squeue` names them.
    pub(crate) fn left(&self) -> Vec<String> {
        let listed = |cluster: &SlurmCluster| {
            cluster.run(&["squeue", "--noheader", "--states=PD,R,S,CG", "--format=%j %T"])
        };
        self.slurm.iter().flat_map(|one| listed(one).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// Gives the work to the clusters and to the federation, each piece at its time. Ends when all of it was accepted.
    pub(crate) fn play(&self, work: &Workload) -> JoinHandle<Vec<JobRecord>> {
        let began = Instant::now();
        let at = move |seconds: u64| sleep_until(began + Duration::from_secs(seconds));
        let mut locals = Vec::new();
        for (number, local) in work.locals.clone().into_iter().enumerate() {
            let mut command = self.local(number, &local);
            locals.push(tokio::spawn(async move {
                at(local.at).await;
                let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
                assert!(output.status.success(), "{output:?}");
            }));
        }
        let (client, lines) = (self.federation.client("alice"), self.lines());
        let orders = work.moldable.iter().map(|job| (job.at, moldable(job, &lines))).collect::<Vec<_>>();
        tokio::spawn(async move {
            let mut accepted = Vec::new();
            for (when, what) in orders {
                at(when).await;
                accepted.push(submit(&client, &order(what)).await);
            }
            for local in locals {
                local.await.unwrap();
            }
            accepted
        })
    }

    fn local(&self, number: usize, local: &Local) -> std::process::Command {
        let wrap = format!("sleep {}; echo {number} >> '{}'", local.runtime_s, self.local_lines().display());
        let mut command = self.slurm[local.cluster].command("sbatch");
        command.args(["--parsable", "--job-name=local", "--chdir=/", "--output=/dev/null"]);
        command.args([format!("--ntasks={}", local.cores), format!("--time={}", local.limit_min)]);
        command.arg(format!("--wrap={wrap}"));
        command
    }

    /// Waits for the end of every job.
    pub(crate) async fn ended(&self, client: &Client, accepted: &[JobRecord]) -> Vec<JobRecord> {
        let mut ended = Vec::new();
        for job in accepted {
            ended.push(client.wait(&job.handle, |_| {}).await.unwrap());
        }
        ended
    }

    /// How often each local job has run to its end.
    pub(crate) fn local_runs(&self) -> Vec<u32> {
        let said = fs::read_to_string(self.local_lines()).unwrap_or_default();
        let mut numbers: Vec<u32> = said.lines().map(|line| line.parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// A script that takes its share of the walltime it is given.
fn moldable(job: &Moldable, lines: &Path) -> SubmittedWork {
    let nap = format!("sleep $(awk \"BEGIN {{ print {} * $PLIANT_WALLTIME_S / 1000 }}\")", job.share);
    let text = format!("#!/bin/sh\n{}\n", noting(lines, &nap)).into();
    let work = job.work.clone();
    SubmittedWork::Script(Script::new("moldable.sh".to_owned(), text, work))
}
