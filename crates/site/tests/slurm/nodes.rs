//! Nodes that come and go.

use pliant_control::listing::Node;
use pliant_model::Mebibytes;
use rustix::process::Signal;

use crate::cluster::{Cluster, now, until};

#[tokio::test]
async fn a_node_is_not_usable_while_it_is_drained_or_dead() {
    let Some(cluster) = Cluster::start().await else { return };
    let nodes = async || cluster.slurm.list(now()).await.unwrap().listing.nodes;
    let node = |name: &str, unusable: Option<&str>| Node {
        name: name.to_owned(),
        cores: 4,
        partitions: vec!["main".to_owned()],
        unusable: unusable.map(str::to_owned),
        memory: Mebibytes(1000),
        ..Node::default()
    };
    assert_eq!(nodes().await, [node("alpha1", None), node("alpha2", None)]);
    let local = cluster.local();
    local.run(&["scontrol", "update", "NodeName=alpha2", "State=DRAIN", "Reason=a disk | and\nmore"]);
    assert_eq!(nodes().await, [node("alpha1", None), node("alpha2", Some("drained: a disk | and\nmore"))]);
    local.run(&["scontrol", "update", "NodeName=alpha2", "State=RESUME"]);
    // It is asked whether it is there, first.
    until("the node's return", async || nodes().await[1].unusable.is_none().then_some(())).await;

    local.signal_node(1, Signal::KILL);
    local.run(&["scontrol", "update", "NodeName=alpha1", "State=DOWN", "Reason=dead"]);
    let dead = until("the node's end", async || nodes().await[0].unusable.clone()).await;
    assert!(dead.starts_with("down") && dead.ends_with("dead"), "{dead}");
    cluster.all.restart();
    until("the node's return", async || nodes().await[0].unusable.is_none().then_some(())).await;
}
