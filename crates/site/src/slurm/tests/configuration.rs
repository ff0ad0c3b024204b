//! The configuration of a cluster, from the captured output of `scontrol show config`.

use pliant_control::listing::DefaultMemory;
use pliant_model::Span;

use crate::slurm::configuration::{ClusterConfiguration, Scheduler};

const CONFIG: &str = include_str!("captured/scontrol-config.txt");

#[test]
fn the_planning_rules_of_a_cluster_are_read() {
    let about = ClusterConfiguration::read(CONFIG).unwrap();
    let expected = ClusterConfiguration {
        version: "22.05.8".to_owned(),
        cluster: "alpha".to_owned(),
        scheduler: Scheduler {
            backfill: true,
            interval: Span(1),
            window: Span(20_160 * 60),
            resolution: Span(1),
            jobs_max: 2000,
            parameters: about.scheduler.parameters.clone(),
        },
        select: "select/cons_tres CR_CPU".to_owned(),
        priority: "priority/basic".to_owned(),
        slurm_user: "slurm".to_owned(),
        min_job_age: Span(300),
        kill_wait: Span(3),
        accounts: false,
        array_most: 1001,
        private: Vec::new(),
        default_memory: DefaultMemory::All,
        preemption: None,
        has_licences: false,
    };
    assert_eq!(about, expected);
    assert!(!about.hides_jobs());

    let changed = |from: &str, to: &str| ClusterConfiguration::read(&CONFIG.replace(from, to));
    let defaults =
        changed("bf_interval=1,bf_resolution=1,bf_window=20160,bf_max_job_test=2000,bf_continue", "")
            .unwrap();
    assert_eq!((defaults.scheduler.interval, defaults.scheduler.window), (Span(30), Span(86_400)));
    assert!(changed("accounting_storage/none", "accounting_storage/slurmdbd").unwrap().accounts);
    assert!(changed("= none", "= accounts,jobs").unwrap().hides_jobs());
    let preemption = |kind: &str| {
        let text = format!(
            "{CONFIG}\nPreemptMode             = REQUEUE\nPreemptType             = preempt/{kind}\n"
        );
        ClusterConfiguration::read(&text).unwrap().preemption
    };
    assert_eq!(preemption("none"), None);
    assert_eq!(preemption("qos").as_deref(), Some("preempt/qos REQUEUE"));
    for (most, takes) in [("1001", true), ("1000", true), ("999", false), ("0", false)] {
        assert_eq!(changed("= 1001", &format!("= {most}")).unwrap().takes_arrays(), takes, "{most}");
    }
    let error = changed("bf_interval=1", "bf_interval=soon").unwrap_err().to_string();
    assert_eq!(error, "scontrol show config: bf_interval: expected a number, found `soon`");
    let error = changed("= 1001", "= many").unwrap_err().to_string();
    assert_eq!(error, "scontrol show config: MaxArraySize: expected a number, found `many`");
    let error = changed("MinJobAge", "Other").unwrap_err().to_string();
    assert_eq!(error, "scontrol show config: MinJobAge: expected a setting, found `nothing`");
}
