//! Slurm's words.

use pliant_control::listing::{Phase, State, Status, WaitReason};
use pliant_model::{Span, Time};

use crate::batch_system::commands::Call;
use crate::slurm::error::failed;
use crate::slurm::states::{instant, is_reserved, state, status, unusable, wait_reason, walltime};

/// What squeue names when it is asked for a state that there is none of, and what later versions and sacct add.
const STATES: &str = "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,\
                      OUT_OF_MEMORY,COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,REQUEUE_HOLD,\
                      REVOKED,SIGNALING,SPECIAL_EXIT,STAGE_OUT,STOPPED,EXPEDITING,LAUNCH_FAILED,POWER_UP_NODE,\
                      RECONFIG_FAIL";

#[test]
fn every_state_of_a_job_is_known() {
    for word in STATES.split(',') {
        assert!(state(word, "None").is_some(), "{word}");
    }
    let check = |word: &str, reason: &str, expected: State, phase: Phase| {
        let found = state(word, reason).unwrap();
        assert_eq!(found.phase(), phase, "{word}");
        assert_eq!(found, expected, "{word} {reason}");
    };
    check("PENDING", "Priority", State::Pending, Phase::Waiting);
    check("PENDING", "JobHeldUser", State::Held, Phase::Waiting);
    check("PENDING", "JobHeldAdmin", State::Held, Phase::Waiting);
    check("PENDING", "job requeued in held state", State::Held, Phase::Waiting);
    check("PENDING", "launch failed requeued held", State::Held, Phase::Waiting);
    check("SPECIAL_EXIT", "None", State::Held, Phase::Waiting);
    check("REQUEUED", "None", State::Requeued, Phase::Waiting);
    check("CONFIGURING", "None", State::Configuring, Phase::Running);
    // A job that runs keeps the reason it was held for in vain.
    check("RUNNING", "JobHeldAdmin", State::Running, Phase::Running);
    check("STOPPED", "None", State::Stopped, Phase::Running);
    check("CANCELLED by 1000", "", State::Cancelled, Phase::Ended);
    check("TIMEOUT", "TimeLimit", State::TimedOut, Phase::Ended);
    check("BOOT_FAIL", "None", State::NodeFailed, Phase::Ended);
    check("DEADLINE", "DeadLine", State::Expired, Phase::Ended);
    for word in ["TELEPORTED", "", "running"] {
        assert_eq!(state(word, "None"), None, "{word}");
    }
}

#[test]
fn reasons_are_sorted_by_what_they_mean() {
    let check = |reason: &str, expected: Option<WaitReason>| {
        assert_eq!(wait_reason(reason, "afterok:7", Some(Time(9))), expected, "{reason}");
    };
    let owned = ToOwned::to_owned;
    let reserved =
        ["ReqNodeNotAvail, May be reserved for other job", "ReqNodeNotAvail, Reserved for maintenance"];
    for usual in ["None", "Priority", "Resources", "", "JobHeldUser"].into_iter().chain(reserved) {
        check(usual, None);
    }
    check("BeginTime", Some(WaitReason::Time(Time(9))));
    check("Dependency", Some(WaitReason::Jobs(owned("afterok:7"))));
    for limit in ["QOSMaxJobsPerUserLimit", "AssocGrpCpuLimit", "JobArrayTaskLimit", "MaxMemPerLimit"] {
        check(limit, Some(WaitReason::Limit(owned(limit))));
    }
    for never in ["PartitionTimeLimit", "BadConstraints", "QOSTimeLimit", "InvalidAccount"] {
        check(never, Some(WaitReason::Never(owned(never))));
    }
    for other in [
        "JobHeldAdmin",
        "Licenses",
        "Reservation",
        "ReqNodeNotAvail, UnavailableNodes:alpha1",
        "PartitionDown",
    ] {
        check(other, Some(WaitReason::Other(owned(other))));
    }
}

#[test]
fn nodes_are_usable_or_it_is_said_why_not() {
    let check = |state: &str, reason: &str, expected: Option<&str>| {
        assert_eq!(unusable(state, reason).as_deref(), expected, "{state}");
    };
    for usable in
        ["idle", "mixed", "allocated", "allocated+", "completing", "idle~", "mixed#", "planned", "mixed-"]
    {
        check(usable, "none", None);
    }
    check("idle*", "none", Some("idle*"));
    check("down*", "Not responding", Some("down*: Not responding"));
    check("drained", "disk", Some("drained: disk"));
    check("draining@", "none", Some("draining@"));
    for reserved in ["maint", "reserved", "idle$", "mixed$", "allocated$"] {
        assert!(is_reserved(reserved), "{reserved}");
    }
    for other in ["idle", "down$", "drained$", "idle*", "unknown"] {
        assert!(!is_reserved(other), "{other}");
    }
    for word in
        ["maint", "reserved", "unknown", "fail", "inval", "future", "reboot^", "idle$", "blocked", "odd"]
    {
        check(word, "(null)", Some(word));
    }
}

#[test]
fn limits_are_read() {
    let check = |text: &str, expected: Option<Option<i64>>| {
        assert_eq!(walltime(text), expected.map(|limit| limit.map(Span)), "{text}");
    };
    check("5:00", Some(Some(300)));
    check("5", Some(Some(300)));
    check("1:00:00", Some(Some(3600)));
    check("1-02:03:04", Some(Some(93_784)));
    check("7-00", Some(Some(604_800)));
    check("7-01:30", Some(Some(610_200)));
    check("0:01", Some(Some(1)));
    for unlimited in ["UNLIMITED", "infinite", "NOT_SET", "Partition_Limit", "INVALID", "N/A", ""] {
        check(unlimited, Some(None));
    }
    for bad in ["soon", "1:2:3:4", "-1", "1:-2", "1-", "99999999999"] {
        check(bad, None);
    }
}

#[test]
fn instants_are_seconds() {
    let check = |text: &str, expected: Option<Option<i64>>| {
        assert_eq!(instant(text), expected.map(|seconds| seconds.map(Time)), "{text}");
    };
    check("1795279871", Some(Some(1_795_279_871)));
    for unknown in ["N/A", "Unknown", "NONE", "None", "0", ""] {
        check(unknown, Some(None));
    }
    check("2026-11-21T16:51:08", None);
    check("-5", None);
}

#[test]
fn ends_of_processes_are_read_in_both_spellings() {
    let check = |text: &str, expected: Option<Status>| assert_eq!(status(text), expected, "{text}");
    check("0:0", Some(Status::Code(0)));
    check("3:0", Some(Status::Code(3)));
    check("0:9", Some(Status::Signal(9)));
    check("768", Some(Status::Code(3)));
    check("9", Some(Status::Signal(9)));
    check("139", Some(Status::Signal(11)));
    check("", None);
    check("x:y", None);
}

#[test]
fn error_messages_are_distinguished() {
    let check = |command: &'static str, stderr: &str, expected: &str, passes: bool| {
        let error = failed(&Call::new(command, &[]).about("7"), 1, stderr);
        assert_eq!((error.to_string().as_str(), error.may_pass()), (expected, passes), "{stderr}");
    };
    // As 22.05.8 printed them.
    check(
        "sbatch",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n",
        "slurm does not answer sbatch: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        true,
    );
    check(
        "squeue",
        "slurm_load_jobs error: Socket timed out on send/recv operation\n",
        "slurm does not answer squeue: slurm_load_jobs error: Socket timed out on send/recv operation",
        true,
    );
    check(
        "scontrol",
        "scontrol: error: If munged is up, restart with --num-threads=10\n\
         scontrol: error: Munge encode failed: Failed to connect to \"/run/munge/munge.socket.2\": Connection refused\n\
         Unexpected message received for job 1\n\
         slurm_suspend error: Unexpected message received\n",
        "slurm does not answer scontrol: slurm_suspend error: Unexpected message received",
        true,
    );
    check(
        "sbatch",
        "sbatch: error: invalid partition specified: nope\n\
         sbatch: error: Batch job submission failed: Invalid partition name specified\n",
        "slurm refuses sbatch: Batch job submission failed: Invalid partition name specified",
        false,
    );
    check(
        "squeue",
        "slurm_load_jobs error: Invalid job id specified\n",
        "slurm knows no job 7 of this server",
        false,
    );
    let hold = "Invalid job id specified for job 7\nslurm_suspend error: Invalid job id specified\n";
    check("scontrol", hold, "slurm knows no job 7 of this server", false);
    let over = "Job has already finished for job 7\nslurm_suspend error: Job has already finished\n";
    check("scontrol", over, "job 7 of slurm does not wait any more", false);
    let running = "Job is no longer pending execution for job 7\n";
    check("scontrol", running, "job 7 of slurm does not wait any more", false);
    check("sbatch", "", "slurm refuses sbatch: nothing on its standard error", false);
    let odd = format!("sbatch: error: {}\n", "\u{7}".repeat(300));
    assert!(failed(&Call::new("sbatch", &[]), 1, &odd).to_string().is_ascii());
}

#[test]
fn limits_that_pass_are_told_from_refusals_that_stay() {
    const POLICY: &str = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size \
                          and/or time limits)\n";
    let check = |name: &str, passes: bool| {
        let stderr =
            if name.is_empty() { POLICY.to_owned() } else { format!("sbatch: error: {name}\n{POLICY}") };
        let error = failed(&Call::new("sbatch", &[]), 1, &stderr);
        assert_eq!(
            (error.is_limit(), error.may_pass(), error.leaves_open()),
            (passes, passes, false),
            "{name}: {error}"
        );
        let said = error.to_string();
        assert!(said.contains(name) && (said.contains("Job violates") || passes), "{said}");
    };
    for name in [
        "AssocMaxSubmitJobLimit",
        "AssocGrpSubmitJobsLimit",
        "QOSMaxSubmitJobPerUserLimit",
        "QOSMaxSubmitJobPerAccountLimit",
        "QOSGrpSubmitJobsLimit",
        // An older version does not say which limit it is.
        "",
    ] {
        check(name, true);
    }
    for name in ["QOSMaxCpuPerUserLimit", "QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit"]
    {
        check(name, false);
    }
    for reason in [
        "Invalid account or account/partition combination specified",
        "Invalid qos specification",
        "Invalid partition name specified",
    ] {
        let stderr = format!("sbatch: error: Batch job submission failed: {reason}\n");
        let error = failed(&Call::new("sbatch", &[]), 1, &stderr);
        assert!(!error.is_limit() && !error.may_pass() && error.to_string().contains(reason), "{error}");
    }
    let full = failed(
        &Call::new("sbatch", &[]),
        1,
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n",
    );
    assert!(full.leaves_open() && !full.is_limit(), "all places for jobs are taken: {full}");
}
