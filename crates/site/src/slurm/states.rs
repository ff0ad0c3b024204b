//! Slurm's words for the states of jobs and nodes, the reasons to wait, and lengths of time.

use pliant_control::listing::{State, Status, WaitReason};
use pliant_model::{Span, Time};

/// The state of a job by its word in squeue or sacct: a base state, or a flag that hides it. `reason` distinguishes a held
/// job from a waiting one. None for a word that is no state.
pub(super) fn state(word: &str, reason: &str) -> Option<State> {
    // sacct says by whom: `CANCELLED by 1000`.
    let word = word.split(' ').next().unwrap_or(word);
    Some(match word {
        "PENDING" if is_held(reason) => State::Held,
        "PENDING" => State::Pending,
        "REQUEUED" | "REQUEUE_FED" | "EXPEDITING" => State::Requeued,
        // Requeued, and held for its owner or an operator to look at.
        "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => State::Held,
        "CONFIGURING" | "POWER_UP_NODE" => State::Configuring,
        "RUNNING" | "RESIZING" | "SIGNALING" => State::Running,
        "SUSPENDED" => State::Suspended,
        "STOPPED" => State::Stopped,
        "COMPLETING" | "STAGE_OUT" => State::Completing,
        "COMPLETED" => State::Completed,
        "FAILED" | "LAUNCH_FAILED" => State::Failed,
        // A sibling in a federation of Slurm's own started instead.
        "CANCELLED" | "REVOKED" => State::Cancelled,
        "TIMEOUT" => State::TimedOut,
        "DEADLINE" => State::Expired,
        "NODE_FAIL" | "BOOT_FAIL" | "RECONFIG_FAIL" => State::NodeFailed,
        "OUT_OF_MEMORY" => State::OutOfMemory,
        "PREEMPTED" => State::Preempted,
        _ => return None,
    })
}

/// Reasons with which a job waits to be released: `JobHeldUser`, `JobHeldAdmin`, `JobHoldMaxRequeue`, and the text
/// that Slurm shows for jobs whose start failed.
fn is_held(reason: &str) -> bool {
    let requeued = reason.contains("requeued") && reason.contains("held");
    requeued || reason.starts_with("JobHeld") || reason.starts_with("JobHold")
}

/// The wait reason of a job. Waiting for priority and for cores is the normal case.
pub(super) fn wait_reason(reason: &str, dependency: &str, start: Option<Time>) -> Option<WaitReason> {
    const ITS_TURN: &[&str] = &["", "None", "Priority", "Resources", "Cleaning", "Prolog"];
    const LIMITS: &[&str] = &["Assoc", "QOSMax", "QOSGrp", "QOSUsage", "QOSJob", "Max", "JobArrayTaskLimit"];
    const NEVER: &[&str] = &[
        "AccountNotAllowed",
        "BadConstraints",
        "DeadLine",
        "DependencyNeverSatisfied",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSMin",
        "QOSNotAllowed",
        "QOSTimeLimit",
    ];
    // Its nodes are reserved for some time, which plans know.
    const RESERVED: &[&str] = &["ReqNodeNotAvail, May be reserved", "ReqNodeNotAvail, Reserved"];
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| reason.starts_with(prefix));
    Some(match (reason, start) {
        // By its own user: the server submitted it held, or withdraws it.
        _ if ITS_TURN.contains(&reason) || reason == "JobHeldUser" => return None,
        _ if begins(RESERVED) => return None,
        ("BeginTime", Some(start)) => WaitReason::Time(start),
        ("Dependency", _) => WaitReason::Jobs(dependency.to_owned()),
        _ if begins(NEVER) => WaitReason::Never(reason.to_owned()),
        _ if begins(LIMITS) => WaitReason::Limit(reason.to_owned()),
        _ => WaitReason::Other(reason.to_owned()),
    })
}

/// States of nodes on which jobs are started, or will be when they have been woken.
const USABLE: &[&str] = &[
    "allocated",
    "completing",
    "idle",
    "mixed",
    "planned",
    "powered_down",
    "powering_down",
    "powering_up",
    "power_down",
    "power_up",
];

/// Why no job is started on a node in that state, as sinfo says it; none if jobs are, or will be when it has been
/// woken. A state that is not known counts as unusable.
pub(super) fn unusable(state: &str, reason: &str) -> Option<String> {
    // Marks of a power state, of a plan, of powering on and off. Others are of a node that does not respond (*),
    // is under maintenance ($), or about to be rebooted (@, ^).
    let word = state.trim_end_matches(['~', '#', '!', '%', '-', '+']);
    if USABLE.contains(&word) {
        return None;
    }
    let has_reason = !matches!(reason, "" | "none" | "(null)");
    Some(if has_reason { format!("{state}: {reason}") } else { state.to_owned() })
}

/// Whether jobs are not started on a node in that state because it is reserved, and for no other reason.
pub(super) fn is_reserved(state: &str) -> bool {
    matches!(state, "reserved" | "maint" | "maintenance")
        || state.strip_suffix('$').is_some_and(|word| USABLE.contains(&word))
}

/// A limit: `10:00`, `1:00:00`, `2-03:04:05`, also `5` (minutes) and `2-03`. None for one that is not set or has no end;
/// outer none if it is no limit.
pub(super) fn walltime(text: &str) -> Option<Option<Span>> {
    match text {
        "UNLIMITED" | "infinite" | "NOT_SET" | "Partition_Limit" | "INVALID" | "N/A" | "n/a" | "(null)"
        | "" => {
            return Some(None);
        }
        _ => {}
    }
    let number = |text: &str| text.parse::<u32>().ok().map(i64::from);
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Vec<i64> = rest.split(':').map(number).collect::<Option<_>>()?;
    let seconds = match (days, parts.as_slice()) {
        (None, &[minutes]) => minutes * 60,
        (None, &[minutes, seconds]) => minutes * 60 + seconds,
        (_, &[hours, minutes, seconds]) => hours * 3600 + minutes * 60 + seconds,
        (Some(_), &[hours]) => hours * 3600,
        (Some(_), &[hours, minutes]) => hours * 3600 + minutes * 60,
        _ => return None,
    };
    Some(Some(Span(days.unwrap_or(0) * 86_400 + seconds)))
}

/// An instant, which Slurm is asked to write in seconds since the epoch. None for one that is not known; outer none
/// if it is no instant.
pub(super) fn instant(text: &str) -> Option<Option<Time>> {
    match text {
        "N/A" | "NONE" | "None" | "Unknown" | "(null)" | "" | "0" => Some(None),
        _ => text.parse().ok().filter(|&seconds| seconds > 0).map(|seconds| Some(Time(seconds))),
    }
}

/// How a process ended: `3:0` is code 3, `0:9` is signal 9; squeue writes what `wait` said.
pub(super) fn status(text: &str) -> Option<Status> {
    if let Some((code, signal)) = text.split_once(':') {
        let (code, signal): (i32, i32) = (code.parse().ok()?, signal.parse().ok()?);
        return Some(if signal == 0 { Status::Code(code) } else { Status::Signal(signal) });
    }
    let waited: i32 = text.parse().ok()?;
    let signal = waited & 0x7f;
    Some(if signal == 0 { Status::Code((waited >> 8) & 0xff) } else { Status::Signal(signal) })
}
