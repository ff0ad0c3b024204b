//! Where a cluster keeps accounts, they know what the controller does not, or not any more.

use pliant_control::job::Exit;
use pliant_control::listing::Phase;
use rustix::process::Signal;

use crate::cluster::{Cluster, cores, until};

#[tokio::test]
async fn ends_are_known_from_accounts_while_the_controller_is_down() {
    let Some(cluster) = Cluster::wanted(true).await else { return };
    assert!(cluster.slurm.about().accounts);
    let id = cluster.submit(1, "exit 3", cores(1), false).await;
    cluster.wait_for(&id, Phase::Ended).await;
    // The accounts are written a while later.
    let accounts = ["sacct", "-nX", "-oState", "-j", &id];
    until("its account", async || cluster.local().run(&accounts).contains("FAILED").then_some(())).await;
    let found = cluster.slurm.find_by_tag(&[1]).await.unwrap();
    assert_eq!(found.len(), 1, "once, though both know it: {found:?}");
    cluster.local().signal_controller(Signal::KILL);
    let ended = cluster.slurm.ended(&[&id]).await.unwrap();
    assert_eq!(ended[&id].exit(), Some(Exit::Code(3)));
    cluster.all.restart();
}
