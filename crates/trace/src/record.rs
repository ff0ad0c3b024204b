//! One line of a workload log, before any repair: the 18 fields of SWF, which GWF and Batsim workloads are
//! brought into.

/// A job as in its log. A missing value is -1, as in the Standard Workload Format 2.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Line of the file it came from (1 is the first), or position for formats without lines.
    pub line: u64,
    /// Job number.
    pub id: i64,
    /// Submission, s.
    pub submit: i64,
    /// Wait, s.
    pub wait: i64,
    /// Runtime, s.
    pub run: i64,
    /// Processors allocated.
    pub procs: i64,
    /// Average CPU time used, s.
    pub cpu: i64,
    /// Memory used, KB per processor.
    pub memory: i64,
    /// Processors requested.
    pub req_procs: i64,
    /// Time requested, s.
    pub req_time: i64,
    /// Memory requested, KB per processor.
    pub req_memory: i64,
    /// Status.
    pub status: i64,
    /// User.
    pub user: i64,
    /// Group.
    pub group: i64,
    /// Application.
    pub executable: i64,
    /// Queue.
    pub queue: i64,
    /// Partition.
    pub partition: i64,
    /// The job that this one waited for.
    pub preceding: i64,
    /// Think time after that job, s.
    pub think: i64,
}

impl Record {
    /// The record of a job whose actual size equals its request. Amounts of memory are whole MiB.
    pub fn of(job: &pliant_model::Job, partition: i32) -> Record {
        Record {
            line: 0,
            id: job.log_id as i64,
            submit: job.submit.0,
            wait: -1,
            run: job.runtime.0,
            procs: i64::from(job.procs.0),
            cpu: -1,
            memory: kilobytes(job.memory.used),
            req_procs: i64::from(job.procs.0),
            req_time: job.walltime.0,
            req_memory: kilobytes(job.memory.requested),
            status: 1,
            user: i64::from(job.user),
            group: i64::from(job.group),
            executable: i64::from(job.executable),
            queue: -1,
            partition: i64::from(partition),
            preceding: -1,
            think: -1,
        }
    }
}

/// An amount of memory in KB; -1 if it is unknown.
pub(crate) fn kilobytes(memory: Option<pliant_model::Mebibytes>) -> i64 {
    memory.map_or(-1, |amount| i64::from(amount.0) * 1024)
}
