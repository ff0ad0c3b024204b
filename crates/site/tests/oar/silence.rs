use pliant_control::listing::Phase;
use pliant_site::BatchSystemError;
use rustix::process::Signal;

use crate::cluster::{Cluster, cores, now, shell, submission};

#[tokio::test]
async fn a_database_that_hangs_or_is_gone() {
    let Some(cluster) = Cluster::start(4).await else { return };
    cluster.local.signal("database", Signal::STOP);
    let silent = cluster.oar.list(now()).await.unwrap_err();
    assert!(matches!(&silent, BatchSystemError::NoAnswer { .. }) && silent.may_pass(), "{silent}");
    cluster.local.signal("database", Signal::CONT);
    cluster.local.signal("database", Signal::INT);
    let (folder, program, sizes) = (cluster.folder(1), shell("true"), cores(1));
    let job = submission(1, &folder, &program, &sizes);
    let lost = cluster.oar.submit(&job).await.unwrap_err();
    assert!(lost.may_pass() && lost.leaves_open(), "{lost}");
    let lost = cluster.oar.list(now()).await.unwrap_err();
    assert!(lost.may_pass(), "{lost}");
    cluster.local.restart();
    let ids = cluster.oar.submit_unless_there(&job).await.unwrap();
    assert_eq!(ids.len(), 1);
}

#[tokio::test]
async fn a_server_that_hangs_works_off_later_what_it_was_asked() {
    let Some(cluster) = Cluster::start(4).await else { return };
    let held = cluster.submit(1, "true", &cores(1), true).await;
    cluster.local.signal("almighty", Signal::STOP);
    // What is asked of the database is answered.
    assert_eq!(cluster.job(&held).await.unwrap().phase(), Phase::Waiting);
    let later = cluster.oar.release(1, &held).await.unwrap_err();
    assert!(later.may_pass(), "{later}");
    cluster.local.signal("almighty", Signal::CONT);
    cluster.oar.release(1, &held).await.unwrap();
    cluster.wait_for(&held, Phase::Ended).await;
}

#[tokio::test]
async fn commands_that_are_not_there() {
    let settings = pliant_site::oar::Settings {
        commands: Some("/nonexistent".into()),
        ..pliant_site::oar::Settings::default()
    };
    let error = pliant_site::oar::Oar::connect(settings, &"nancy".parse().unwrap()).await.unwrap_err();
    assert!(!error.may_pass() && error.to_string().contains("/nonexistent/oarnodes"), "{error}");
}
