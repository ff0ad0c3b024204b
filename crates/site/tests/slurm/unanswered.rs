//! After a crash: was it submitted or not?

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;

use pliant_control::listing::Phase;

use crate::cluster::{Cluster, cores, shell, submission};

#[tokio::test]
async fn a_job_is_found_by_its_tag_and_submitted_once() {
    let Some(cluster) = Cluster::start().await else { return };
    let waiting = cluster.submit(1, "true", cores(1), true).await;
    let over = cluster.submit(2, "true", cores(1), false).await;
    cluster.wait_for(&over, Phase::Ended).await;
    // Somebody else's with our tag, and ours with another server's.
    let mut external = cluster.local().command("sbatch");
    let external =
        external.args(["-H", "-o/dev/null", "-Jpliant:rennes:3", "--wrap", "true"]).uid(65_534).gid(65_534);
    assert!(external.status().unwrap().success());
    cluster.local().run(&["sbatch", "-H", "-o/dev/null", "-Jpliant:lyon:3", "--wrap", "true"]);

    let found = cluster.slurm.find_by_tag(&[1, 2, 3]).await.unwrap();
    let ids: BTreeSet<&str> = found.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, BTreeSet::from([waiting.as_str(), &over]));
    assert!(cluster.slurm.find_by_tag(&[]).await.unwrap().is_empty());

    let program = shell("true");
    for (number, id) in [(1, &waiting), (2, &over)] {
        let folder = cluster.folder(number);
        let job = submission(number, &folder, &program, cores(1), true);
        assert_eq!(&cluster.slurm.submit_unless_there(&job).await.unwrap(), std::slice::from_ref(id));
    }
    let folder = cluster.folder(3);
    let job = submission(3, &folder, &program, cores(1), true);
    let first = cluster.slurm.submit_unless_there(&job).await.unwrap();
    assert_eq!(cluster.slurm.submit_unless_there(&job).await.unwrap(), first);
    assert_eq!(cluster.job(&first[0]).await.unwrap().job_number, Some(3));
}
