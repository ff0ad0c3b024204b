//! Every metric of the daemons: name, kind, unit, labels, help. A test compares `docs/reference/metrics.md` with this list.
//!
//! Names follow Prometheus: the prefix `pliant_`, the unit as last word, `_total` for counters. Each label value is a time
//! series that stays: labels take fixed words, names from configuration and users' names from their certificates, never
//! values from requests.

use metrics::Unit;

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// Only grows, until the daemon restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values up to each of these bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// The name in Prometheus.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Metric {
    /// The name, unit and `_total` included.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The unit.
    pub unit: Unit,
    /// The labels of each value.
    pub labels: &'static [&'static str],
    /// The help text, one line.
    pub help: &'static str,
}

/// Defines a constant and a row of [`ALL`] for each metric.
macro_rules! table {
    ($($constant:ident = $name:literal, $kind:expr, $unit:ident, [$($label:literal),*], $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: &str = $name;)*

        /// All of them.
        pub const ALL: &[Metric] = &[
            $(Metric { name: $constant, kind: $kind, unit: Unit::$unit, labels: &[$($label),*], help: $help },)*
        ];
    };
}

/// Bounds for durations of milliseconds to seconds, in seconds.
const SHORT_S: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Bounds for batch sizes.
const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Bounds for errors of estimates, in seconds; a job that was early has a negative error.
const ERRORS_S: &[f64] = &[
    -3600.0, -1800.0, -600.0, -300.0, -60.0, -30.0, -10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0, 30.0, 60.0,
    300.0, 600.0, 1800.0, 3600.0,
];

table! {
    SUBMISSIONS_ACCEPTED = "pliant_submissions_accepted_total", Kind::Counter, Count, [],
        "Submissions journaled and acknowledged.";
    SUBMISSIONS_REFUSED = "pliant_submissions_refused_total", Kind::Counter, Count, ["reason"],
        "Submissions refused, by reason.";
    SIGNATURES_REFUSED = "pliant_signatures_refused_total", Kind::Counter, Count, ["reason"],
        "Work and handoffs refused because a user or a server had not signed them, by reason.";
    STATUS_UPDATES_REFUSED = "pliant_status_updates_refused_total", Kind::Counter, Count, ["reason"],
        "Status updates refused because their server may not report the job, or they contradict what is known of it, by reason.";
    JOBS_MOVED = "pliant_jobs_moved_total", Kind::Counter, Count, [],
        "Waiting jobs moved to another server.";
    MOVES_REFUSED = "pliant_moves_refused_total", Kind::Counter, Count, ["reason"],
        "Moves proposed by an agent and not carried out, by reason.";
    DISCOVERIES = "pliant_discoveries_total", Kind::Counter, Count, ["outcome"],
        "Discoveries answered, by outcome.";
    DISCOVERY_SECONDS = "pliant_discovery_seconds", Kind::Histogram(SHORT_S), Seconds, [],
        "Time from the arrival of a discovery to its answer.";
    JOBS = "pliant_jobs", Kind::Gauge, Count, ["state"],
        "Jobs of this server, by state.";
    USER_JOBS = "pliant_user_jobs", Kind::Gauge, Count, ["user", "state"],
        "Jobs of a user at this server, by state.";
    USER_PROCESSORS = "pliant_user_processors", Kind::Gauge, Count, ["user"],
        "Processors of a user's running jobs.";
    USER_WAITING_BYTES = "pliant_user_waiting_bytes", Kind::Gauge, Bytes, ["user"],
        "Bytes of a user's waiting jobs: scripts, arguments and names of files.";
    USER_PROCESSOR_SECONDS = "pliant_user_processor_seconds_total", Kind::Counter, Seconds, ["user"],
        "Processor time of a user's jobs that have ended.";
    QUEUE_LENGTH = "pliant_queue_length", Kind::Gauge, Count, [],
        "Jobs waiting in the batch system.";
    FREE_PROCS = "pliant_free_procs", Kind::Gauge, Count, [],
        "Idle processors.";
    JOURNAL_COMMIT_SECONDS = "pliant_journal_commit_seconds", Kind::Histogram(SHORT_S), Seconds, [],
        "Time to make one batch of events durable in the journal.";
    JOURNAL_BATCH_EVENTS = "pliant_journal_batch_events", Kind::Histogram(SIZES), Count, [],
        "Events per commit of the journal.";
    JOURNAL_SNAPSHOT_SECONDS = "pliant_journal_snapshot_seconds", Kind::Histogram(SHORT_S), Seconds, [],
        "Time to make a snapshot and to write all of its parts.";
    JOURNAL_SNAPSHOT_BYTES = "pliant_journal_snapshot_bytes", Kind::Gauge, Bytes, [],
        "Size of the last snapshot.";
    JOURNAL_SNAPSHOT_TIMESTAMP_SECONDS = "pliant_journal_snapshot_timestamp_seconds", Kind::Gauge, Seconds, [],
        "When the last snapshot was taken, since the Unix epoch.";
    JOURNAL_SNAPSHOT_FAILURES = "pliant_journal_snapshot_failures_total", Kind::Counter, Count, [],
        "Snapshots that could not be written.";
    JOURNAL_DISK_FREE_BYTES = "pliant_journal_disk_free_bytes", Kind::Gauge, Bytes, [],
        "Space of the journal's disk that the daemon may still use.";
    JOURNAL_DISK_FREE_INODES = "pliant_journal_disk_free_inodes", Kind::Gauge, Count, [],
        "Files and folders that the daemon may still make on the journal's disk, if its file system limits them.";
    JOURNAL_STORED_BYTES = "pliant_journal_stored_bytes", Kind::Gauge, Bytes, [],
        "Space of the disk that the journal's files take, its reserve included.";
    EVENTS_WAITING = "pliant_events_waiting", Kind::Gauge, Count, [],
        "Events that came in and are not handled yet: they pile up while the journal cannot be written.";
    READY = "pliant_ready", Kind::Gauge, Count, [],
        "1 if the daemon is ready, otherwise 0, as on the page `/readyz`.";
    OPEN_CONNECTIONS = "pliant_open_connections", Kind::Gauge, Count, [],
        "Open connections of the protocol.";
    CONNECTIONS_REFUSED = "pliant_connections_refused_total", Kind::Counter, Count, ["reason"],
        "Connections refused, by reason.";
    CONNECTIONS_DISPLACED = "pliant_connections_displaced_total", Kind::Counter, Count, ["peer"],
        "Connections of children that were ended because another one with the same certificate came, by child.";
    REQUESTS_LIMITED = "pliant_requests_limited_total", Kind::Counter, Count, ["limit"],
        "Requests refused because their caller reached a limit, by limit.";
    ESTIMATE_START_ERROR_SECONDS = "pliant_estimate_start_error_seconds", Kind::Histogram(ERRORS_S), Seconds, [],
        "Start of a job minus its estimate at acceptance; below zero the job was early.";
    ESTIMATE_COMPLETION_ERROR_SECONDS = "pliant_estimate_completion_error_seconds", Kind::Histogram(ERRORS_S), Seconds, [],
        "Completion of a job minus its estimate at acceptance; below zero the job was early.";
    RUNTIME_ERROR_PERCENT = "pliant_runtime_error_percent", Kind::Gauge, Percent, [],
        "Absolute error of the runtimes that the agent predicts from ended jobs, in percent of the mean runtime.";
    RUNTIME_WITHIN_PERCENT = "pliant_runtime_within_percent", Kind::Gauge, Percent, [],
        "Jobs that ran no longer than the 0.8 quantile of runtimes that the agent predicts from ended jobs; ideally 80.";
    UPLOADED_BYTES = "pliant_uploaded_bytes_total", Kind::Counter, Bytes, [],
        "Bytes of input files received from clients.";
    DOWNLOADED_BYTES = "pliant_downloaded_bytes_total", Kind::Counter, Bytes, [],
        "Bytes of results and output sent to clients.";
    HEARTBEAT_AGE_SECONDS = "pliant_heartbeat_age_seconds", Kind::Gauge, Seconds, ["peer"],
        "Time since the last heartbeat from a peer.";
    CLOCK_AHEAD_SECONDS = "pliant_clock_ahead_seconds", Kind::Gauge, Seconds, ["peer"],
        "How far the clock of a child is ahead of this agent's; below zero it is behind.";
    CERTIFICATE_EXPIRY_SECONDS = "pliant_certificate_expiry_seconds", Kind::Gauge, Seconds, ["certificate"],
        "Time until a certificate expires, of the daemon (own) or of the authority; below zero it has expired.";
    LAUNCHES_ENDED = "pliant_launches_ended_total", Kind::Counter, Count, ["outcome"],
        "Ended launches, by outcome.";
    PROBES = "pliant_probes_total", Kind::Counter, Count, ["outcome"],
        "Measurements of links between servers, by outcome.";
    LINK_BITS_PER_SECOND = "pliant_link_bits_per_second", Kind::Gauge, BitsPerSecond, ["one", "other"],
        "Bandwidth of the link between two servers: the median of the last measurements.";
    OPTIONAL_CORES = "pliant_optional_cores", Kind::Gauge, Count, [],
        "Cores for the requests of explorations.";
    OPTIONAL_ENDED = "pliant_optional_ended_total", Kind::Counter, Count, ["outcome"],
        "Ended requests of explorations, by outcome; requests that were requeued do not count.";
    OPTIONAL_REQUESTS = "pliant_optional_requests", Kind::Gauge, Count, ["user"],
        "Requests of explorations that wait or run, by user.";
    OPTIONAL_USAGE_SECONDS = "pliant_optional_usage_seconds", Kind::Gauge, Seconds, ["user"],
        "Core time used by a user's requests, including runs that were ended early.";
    OPTIONAL_FAIR_SHARE_SECONDS = "pliant_optional_fair_share_seconds", Kind::Gauge, Seconds, ["user"],
        "Fair share of a user in core time: a share proportional to the weight while the user has requests.";
    OPTIONAL_SATISFACTION_RATIO = "pliant_optional_satisfaction_ratio", Kind::Gauge, Count, ["user"],
        "Usage of a user divided by the fair share.";
    OPTIONAL_COMPLETED_REQUESTS = "pliant_optional_completed_requests", Kind::Gauge, Count, ["user"],
        "Completed requests of a user, mandatory and optional.";
    OPTIONAL_USEFUL_SECONDS = "pliant_optional_useful_seconds", Kind::Gauge, Seconds, ["user"],
        "Core time used by a user's completed requests.";
    OPTIONAL_KILLED_RUNS = "pliant_optional_killed_runs", Kind::Gauge, Count, ["user"],
        "Runs of a user's optional requests that were ended for a mandatory request.";
    OPTIONAL_LATE_REQUESTS = "pliant_optional_late_requests", Kind::Gauge, Count, ["user"],
        "Mandatory requests of a user that missed the deadline: failed, completed or cancelled after it, or still unfinished after it.";
    OPTIONAL_UNHAPPY_USERS = "pliant_optional_unhappy_users", Kind::Gauge, Count, [],
        "Users with a mandatory request that missed the deadline.";
    OPTIONAL_UNFAIRNESS_RATIO = "pliant_optional_unfairness_ratio", Kind::Gauge, Count, [],
        "The largest satisfaction of a user minus the smallest.";
}

/// Describes all metrics to the present recorder.
pub fn describe() {
    for Metric { name, kind, unit, help, .. } in ALL.iter().copied() {
        match kind {
            Kind::Counter => metrics::describe_counter!(name, unit, help),
            Kind::Gauge => metrics::describe_gauge!(name, unit, help),
            Kind::Histogram(_) => metrics::describe_histogram!(name, unit, help),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        let mut names = BTreeSet::new();
        for metric in ALL {
            let Metric { name, kind, unit, .. } = metric;
            assert!(names.insert(name), "{name} twice");
            assert!(name.starts_with("pliant_"), "{name}");
            assert!(name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            let stem = name.trim_end_matches("_total");
            assert_eq!(stem.ends_with("_seconds"), *unit == Unit::Seconds, "{name}");
            assert_eq!(stem.ends_with("_bytes"), *unit == Unit::Bytes, "{name}");
            if let Kind::Histogram(bounds) = kind {
                assert!(!bounds.is_empty() && bounds.is_sorted_by(|a, b| a < b), "{name}");
            }
        }
    }

    #[test]
    fn the_page_lists_every_metric_and_no_other() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
        let page = std::fs::read_to_string(path).unwrap();
        // Another table has the values of labels.
        let is_metric = |line: &&str| {
            let kind = line.split('|').nth(2).map(str::trim);
            line.starts_with("| `pliant_") && matches!(kind, Some("counter" | "gauge" | "histogram"))
        };
        let listed: Vec<&str> = page.lines().filter(is_metric).collect();
        let row = |Metric { name, kind, labels, help, .. }: &Metric| {
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            format!("| `{name}` | {} | {} | {help} |", kind.name(), labels.join(", "))
        };
        let expected: Vec<String> = ALL.iter().map(row).collect();
        let missing: Vec<&String> = expected.iter().filter(|row| !listed.contains(&row.as_str())).collect();
        let unknown: Vec<&&str> =
            listed.iter().filter(|line| !expected.iter().any(|row| row == *line)).collect();
        assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:#?}, unknown: {unknown:#?}");
    }

    #[test]
    fn alerts_and_dashboard_name_metrics_that_exist() {
        let series: BTreeSet<String> = ALL.iter().flat_map(series).collect();
        for file in ["prometheus/pliant.rules.yml", "prometheus/tests.yml", "grafana/pliant.json"] {
            let path = format!("{}/../../deploy/{file}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).unwrap();
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let named: BTreeSet<&str> = words.filter(|word| word.starts_with("pliant_")).collect();
            assert!(named.len() >= 10, "expected at least 10 metrics in {file}, found {named:?}");
            for name in named {
                assert!(series.contains(name), "{file} names {name}, which no daemon shows");
            }
        }
    }

    /// The names under which Prometheus keeps a metric.
    fn series(Metric { name, kind, .. }: &Metric) -> Vec<String> {
        match kind {
            Kind::Counter | Kind::Gauge => vec![(*name).to_owned()],
            Kind::Histogram(_) => {
                ["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")).into()
            }
        }
    }
}
