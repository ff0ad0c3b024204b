//! What arguments make of how long instances take, and what sweeps teach of walltimes.

use pliant_model::Span;

use super::{CommandUser, shell};
use crate::harness::{Cluster, Federation, SERVICES, order_to, service, submit};

/// A service that takes as many hundredths of a second as its argument says, without statistics.
fn naps(name: &'static str) -> Cluster {
    let nap = shell("nap", "sleep 0.$1");
    let learned = "runtime = \"history\"\nfirst = \"600s\"\nmin_runtime = \"1s\"\n\
                   runtime_per = { argument = \"x\", at = 10, exponent = 1 }";
    let nap =
        nap.replace("runtime = \"2s\"", learned).replace("\"integer\"", "\"integer\"\nmin = 1\nmax = 99");
    let tables = SERVICES.to_owned() + &nap;
    Cluster { tables, ..Cluster::new(name, 4, 1.0) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_is_expected_to_take_what_all_of_its_arguments_make_of_it_and_teaches_walltimes() {
    let federation = Federation::start(&[naps("lyon")]).await;
    let alice = CommandUser::new(&federation, "alice");
    let expected = |values: &str| {
        let (code, said, stderr) = alice.run(&format!("sweep nap --vary x={values} --dry-run"));
        assert_eq!(code, 0, "{stderr}");
        let share = &said["servers"][0];
        (share["instance_s"].as_f64().unwrap(), share["known_from"].as_str().unwrap().to_owned())
    };
    let (_, said, _) = alice.run("sweep nap --vary x=98..100 --dry-run");
    assert_eq!((&said["asked"], &said["refused"][0]["instance"]), (&3.into(), &2.into()), "{said}");
    // Half as long again as the mean of 600 s and 1,800 s; that of the first would be 900 s.
    assert_eq!(expected("10,30"), (1_800.0, "walltime".to_owned()));
    let (code, said, stderr) = alice.run("sweep nap --vary x=10..49 --out kept");
    assert_eq!((code, &said["completed"]), (0, &40.into()), "{stderr}");
    // The units are the same, so that only the arguments differ; times are rounded to milliseconds.
    let (short, by) = expected("10");
    assert!(by.ends_with("jobs") && (0.1..10.0).contains(&short), "{short} by {by}");
    let (mean, _) = expected("10..90");
    assert!((mean - 5.0 * short).abs() <= 0.006, "{mean} is not five times {short}");
    let (mixed, _) = expected("90,10,10,10");
    assert!((mixed - 3.0 * short).abs() <= 0.004, "{mixed} is not three times {short}");

    // It was only swept. The longest instances of its batches took some tenths of a second for a unit of a tenth.
    let job = submit(&federation.client("alice"), &order_to("lyon", service("nap", &[("x", "10")]))).await;
    assert!((Span(1)..Span(60)).contains(&job.walltime), "{job:?}");
}
