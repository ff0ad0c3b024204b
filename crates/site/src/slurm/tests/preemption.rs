//! Partitions whose jobs are stopped for others, as Slurm prints them.

use crate::slurm::configuration::ClusterConfiguration;
use crate::slurm::preemption::{read, stopped};
use crate::slurm::settings::Settings;

const CONFIG: &str = include_str!("captured/scontrol-config.txt");

/// Jobs of `low` and `other` are stopped for those of `high`, which has the nodes of `low`.
const PARTITIONS: &str = "\
PartitionName=low AllowGroups=ALL Default=YES QoS=N/A Nodes=n[1-4] PriorityJobFactor=1 PriorityTier=1 OverSubscribe=NO PreemptMode=REQUEUE State=UP
PartitionName=kept AllowGroups=ALL Default=NO QoS=N/A Nodes=n[1-4] PriorityJobFactor=1 PriorityTier=1 OverSubscribe=NO PreemptMode=OFF State=UP
PartitionName=high AllowGroups=ALL Default=NO QoS=N/A Nodes=n[3-4] PriorityJobFactor=1 PriorityTier=5 OverSubscribe=NO PreemptMode=REQUEUE State=UP
PartitionName=other AllowGroups=ALL Default=NO QoS=N/A Nodes=m[1-2] PriorityJobFactor=1 PriorityTier=1 OverSubscribe=NO PreemptMode=GANG,SUSPEND State=UP
PartitionName=empty AllowGroups=ALL Default=NO QoS=N/A Nodes=(null) PriorityJobFactor=1 PriorityTier=9 OverSubscribe=NO PreemptMode=OFF State=UP
";

#[test]
fn partitions_whose_jobs_are_stopped_for_others_are_those_with_a_mode_below_another_on_the_same_nodes() {
    let partitions = read(PARTITIONS).unwrap();
    let check = |own: Option<&str>, more: &[&str], expected: &[&str]| {
        let settings = Settings {
            partition: own.map(str::to_owned),
            more_partitions: more.iter().map(|&name| name.to_owned()).collect(),
            ..Settings::default()
        };
        assert_eq!(stopped(&partitions, &settings), expected, "{own:?} {more:?}");
    };
    // The default partition of the cluster.
    check(None, &[], &["low (REQUEUE)"]);
    check(Some("kept"), &[], &[]);
    // None comes before it, or on other nodes only.
    check(Some("high"), &["other"], &[]);
    check(Some("kept"), &["low"], &["low (REQUEUE)"]);
    let below = PARTITIONS.replace("Nodes=(null)", "Nodes=m2");
    let settings = Settings { partition: Some("other".to_owned()), ..Settings::default() };
    assert_eq!(stopped(&read(&below).unwrap(), &settings), ["other (GANG,SUSPEND)"]);
}

#[test]
fn what_is_not_understood_of_partitions_is_an_error() {
    let error = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(
        error("PartitionName=a PriorityTier=high PreemptMode=OFF"),
        "scontrol show partitions: a, PriorityTier: expected a number, found `high`"
    );
    assert_eq!(
        error("PartitionName=a PriorityTier=1"),
        "scontrol show partitions: a, PreemptMode: expected a setting, found `nothing`"
    );
}

#[test]
fn partitions_are_looked_at_where_they_decide_about_preemption() {
    for (kind, expected) in [("none", false), ("qos", false), ("partition_prio", true)] {
        let text = format!(
            "{CONFIG}\nPreemptMode             = REQUEUE\nPreemptType             = preempt/{kind}\n"
        );
        assert_eq!(ClusterConfiguration::read(&text).unwrap().preempts_by_partition(), expected, "{kind}");
    }
}
