//! The bounds of the protocol: what a message may say at most. The same for readers and writers. How long a whole
//! message may be is for each daemon to say (`limits.message_bytes` of its configuration).

use std::ops::RangeInclusive;

/// The longest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// The longest piece of a file, in bytes.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

/// Processors of a request, an estimate or a cluster.
pub const PROCS: RangeInclusive<u32> = 1..=10_000_000;
/// How far a job stands back behind others of its owner: as far as in Slurm.
pub const NICE: RangeInclusive<u32> = 0..=2_147_483_645;
/// How often a job runs again after failures of nodes.
pub const REQUEUE: RangeInclusive<u32> = 0..=1_000;
/// Walltime of a request, in seconds: up to ten years.
pub const WALLTIME_S: RangeInclusive<i64> = 1..=10 * 365 * 86_400;
/// Walltime of an estimate or a job, in seconds: longer than a request's, on fewer or slower processors.
pub const SCALED_WALLTIME_S: RangeInclusive<i64> = 1..=1 << 40;
/// Instants, in seconds since the Unix epoch: some 35 000 years before and after. Sums of a few of these are far
/// from the limits of integers.
pub const TIME_S: RangeInclusive<i64> = -(1 << 40)..=1 << 40;
/// Instants in milliseconds since the Unix epoch, and lengths of time: those of [`TIME_S`].
pub const TIME_MS: RangeInclusive<i64> = -(1 << 50)..=1 << 50;
/// How long the answer to a question may take, in seconds.
pub const TIMEOUT_S: RangeInclusive<i64> = 1..=3600;
/// The number of best answers of a discovery.
pub const BEST: RangeInclusive<u32> = 1..=64;

/// Estimation vectors in an answer.
pub const VECTORS_MAX: usize = 1024;
/// Servers in one message, and refusals and silent children in an answer.
pub const SERVERS_MAX: usize = 100_000;
/// Services of one server.
pub const SERVICES_MAX: usize = 1000;
/// Arguments of one service or script.
pub const ARGUMENTS_MAX: usize = 100;
/// Estimates that were compared before a submission.
pub const COMPARED_MAX: usize = 64;
/// Servers that did not take a submission, as a job remembers them.
pub const PASSED_MAX: usize = 64;
/// Submissions and questions of a client in one message.
pub const MANY_MAX: usize = 256;
/// Input files of one submission.
pub const INPUTS_MAX: usize = 10_000;
/// Results of one job.
pub const RESULTS_MAX: usize = 100_000;
/// Listed files of a job that cannot be fetched.
pub const LEFT_OUT_MAX: usize = 1000;
/// The result of a request of an exploration, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// How many servers for an exploration may be asked for.
pub const OFFERS: RangeInclusive<u32> = 1..=10_000;
/// Users of one server in an answer.
pub const USERS_MAX: usize = 10_000;
/// Mandatory requests of an exploration that wait at a server, in an answer.
pub const WAITING_MAX: usize = 10_000;
/// Instances of a batch.
pub const BATCH_MAX: usize = 10_000;
/// Sample instances of a multi-job.
pub const SAMPLES_MAX: usize = 64;
/// What arguments make of how long an instance takes.
pub const SCALE: RangeInclusive<f64> = 1e-300..=1e300;
/// Instants at which processors become free, in an answer.
pub const SLOTS_MAX: usize = 100_000;
/// Tasks of a launch. An agent says itself if they are too many to be mapped.
pub const TASKS_MAX: usize = 10_000;
/// Listed subjobs of launches at a server.
pub const PARTS_MAX: usize = 10_000;
/// Pairs of tasks of a launch that communicate.
pub const TALKS_MAX: usize = 100_000;
/// How long a subjob of a launch may stay prepared, in seconds: up to a day.
pub const HELD_S: RangeInclusive<i64> = 1..=86_400;
/// Machines of one server.
pub const MACHINES_MAX: usize = 100_000;
/// What all processors of a machine do together, in MFlop/s.
pub const POWER_MFLOPS: RangeInclusive<f64> = 1e-3..=1e15;
/// What a machine has left over what a task needs.
pub const AFFINITY: RangeInclusive<f64> = 0.0..=1e18;
/// Bytes each way of the measurement of a link.
pub const PROBE_BYTES: RangeInclusive<u64> = 64 << 10..=64 << 20;
/// How long each way of it may take, in milliseconds.
pub const PROBE_LIMIT_MS: RangeInclusive<u32> = 1_000..=30_000;
/// The bandwidth of a link, in Mb/s.
pub const LINK_MBPS: RangeInclusive<f64> = 1e-3..=1e9;
/// Links in one answer.
pub const LINKS_MAX: usize = 100_000;
/// Points of a measured speedup.
pub const POINTS_MAX: usize = 4096;
/// Running jobs whose ends a waiting job waits for, in an account of it.
pub const RELEASES_MAX: usize = 10_000;
/// Resources that a waiting job has too little of, in an account of it.
pub const SHORTAGES_MAX: usize = 1_000;
/// Banned users in one answer.
pub const BANS_MAX: usize = 10_000;
/// Jobs in one answer.
pub const JOBS_MAX: usize = 1000;
/// Jobs about which a server with an older copy of its journal asks at a time.
pub const RESTORED_JOBS_MAX: usize = 64;
/// Runs of local users' jobs in one answer.
pub const LOCALS_MAX: usize = 10_000;
/// Records of an audit trail in one answer.
pub const AUDIT_MAX: usize = 1000;
/// The priority that an operator gives to a job.
pub const JOB_PRIORITY: RangeInclusive<i64> = -1_000_000..=1_000_000;
/// Jobs in an answer to a question that does not say how many.
pub const JOBS_DEFAULT: u32 = 100;
/// Entries of runtime statistics: services, users and all together.
pub const RUNTIMES_MAX: usize = 4_096;
/// Jobs per server that accuracy is computed from.
pub const ACCURACY_JOBS_MAX: u32 = 10_000;
/// Days for which accuracy is said.
pub const PROMISE_DAYS_MAX: u32 = pliant_control::agent::PROMISE_DAYS;
/// Jobs per server that accuracy is computed from, if the question does not say.
pub const ACCURACY_JOBS_DEFAULT: u32 = 1000;

/// Moves of one job, each with a signature.
pub const HOPS_MAX: usize = 2_000;
/// The longest signature, in bytes: of an RSA key of 8192 bits.
pub const SIGNATURE_BYTES_MAX: usize = 1024;
/// The longest certificate of a signer, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 8192;
/// Attempts to hand a job over; a job that moved once a second for ten years would have had fewer.
pub const ATTEMPTS: RangeInclusive<u32> = 0..=1_000_000_000;
/// Moves in one answer.
pub const MOVES_MAX: usize = 1000;
/// Jobs of one queue.
pub const QUEUE_MAX: usize = 1_000_000;
/// The period and the threshold of reallocation, in seconds: up to a week.
pub const PERIOD_S: RangeInclusive<i64> = 1..=7 * 86_400;

/// The encoded arguments of a call of a typed service in a submission, and its outcome in an answer, in bytes.
pub const CALL_BYTES_MAX: usize = 256 << 10;
/// The most parameters of a call.
pub const CALL_PARAMETERS_MAX: usize = 64;
/// The most data that calls of a user leave at a server.
pub const STORED_DATA_MAX: usize = 10_000;
/// The most data that are deleted at once.
pub const DELETED_DATA_MAX: usize = 1_000;
/// The longest signature of a typed service, in bytes.
pub const SIGNATURE_TEXT_BYTES_MAX: usize = 16 << 10;
/// The longest value of an argument, in bytes.
pub const ARGUMENT_BYTES_MAX: usize = 4096;
/// The longest name of a job, a service, an argument or a policy, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// The longest name of a task of a launch, in bytes.
pub const TASK_NAME_BYTES_MAX: usize = 64;
/// The longest address, in bytes: a host name, a colon and a port.
pub const ADDRESS_BYTES_MAX: usize = 260;
/// The longest text for people, in bytes: a reason or a summary.
pub const TEXT_BYTES_MAX: usize = 1024;
/// The most features of a constraint or a node, and the most licences of a job or a cluster.
pub const RESOURCE_NAMES_MAX: usize = 256;
