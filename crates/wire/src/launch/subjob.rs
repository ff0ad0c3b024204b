//! Messages between agents and servers about subjobs of launches.

use pliant_control::coallocation::{Machine, PlacedTask, Subjob, SubjobDecision, SubjobId, SubjobState};
use pliant_control::handoff::Peer;

use super::super::field::*;
use super::super::table::{message, one_of};
use super::super::{Malformed, bounds, proto};
use super::program::{A_PROGRAM, payload, program_and_inputs};
use super::signed_tasks::{SIGNED_TASKS, checked_payload, parts};
use super::{A_SUBJOB, A_SUBJOB_STATE};

message! {
    /// The decision about a subjob.
    #[derive(Clone, PartialEq, Debug)]
    proto::SubjobDecision <=> pub struct DecidedSubjob {
        /// The decision.
        decision: SubjobDecision = one_of(),
        /// The coordinator knows that the subjob is over.
        end_acknowledged: bool,
    }

    /// The state of a subjob, as its server reports it.
    #[derive(Clone, PartialEq, Debug)]
    proto::SubjobReport <=> pub struct SubjobReport {
        /// The subjob.
        id: SubjobId = required(A_SUBJOB),
        /// The state.
        state: SubjobState = required(A_SUBJOB_STATE),
    }
}

message! {
    proto::LaunchMachine <=> Machine {
        name: word("the name of a machine", bounds::NAME_BYTES_MAX),
        power_mflops: number("MFlop/s", bounds::POWER_MFLOPS),
        procs: PROCS_COUNT,
        load: number("a share", 0.0..=1.0),
    }

    proto::PrepareSubjob <=> Subjob {
        coordinator: Peer { name = id.launch.agent.clone(), coordinator <=> address: ADDRESS },
        id: required::<SubjobId>(A_SUBJOB),
        owner: USER,
        name: text(bounds::NAME_BYTES_MAX),
        tasks: list(nested(), bounds::TASKS_MAX).not_empty("at least one task"),
        procs: PROCS,
        walltime_s <=> walltime: WALLTIME,
        timeout_s <=> timeout: seconds(bounds::HELD_S),
        signed: join(parts, checked_payload) => (signed: present(SIGNED_TASKS)),
    }

    proto::prepare_subjob::PlacedTask <=> PlacedTask {
        name: TASK_NAME,
        payload: join(program_and_inputs, payload) => (
            program: present(A_PROGRAM),
            inputs: list(nested(), bounds::INPUTS_MAX).exact(),
        ),
        machine: word("a machine", bounds::NAME_BYTES_MAX),
        neighbours: list(TASK_NAME, bounds::TASKS_MAX).exact(),
    }

    proto::DecideSubjob <=> (SubjobId, DecidedSubjob) (id: required(A_SUBJOB), decision: required("a decision"))
}

one_of! {
    proto::subjob_decision::Decision <=> SubjobDecision {
        Undecided(FLAG) <=> Undecided,
        Commit(proto::subjob_decision::Commit) <=> Commit { peers: by_task(ADDRESS) },
        End(FLAG) <=> End,
    }

    proto::SubjobState { state: proto::subjob_state::State } <=> SubjobState {
        Unknown(FLAG) <=> Unknown,
        Queued(FLAG) <=> Queued,
        Prepared(proto::subjob_state::Prepared) <=> Prepared { addresses: by_task(ADDRESS) },
        Committed(FLAG) <=> Committed,
        Runs(proto::subjob_state::Runs) <=> Runs { ended: by_task(nested()) },
        Over(proto::subjob_state::Over) <=> Over { ended: by_task(nested()), exit: required("how it ended") },
    }
}

/// Values of tasks, by their names.
fn by_task<F: FieldType>(value: F) -> Map<FormattedText<String>, F> {
    map(TASK_NAME, value, bounds::TASKS_MAX)
}

/// The machines of a server.
pub fn machines_reply(machines: &[Machine]) -> proto::ListMachinesReply {
    proto::ListMachinesReply {
        machines: machines.iter().take(bounds::MACHINES_MAX).map(Into::into).collect(),
    }
}

/// The machines of a reply.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::ListMachinesReply`].
pub fn listed_machines(reply: proto::ListMachinesReply) -> Result<Vec<Machine>, Malformed> {
    list(nested(), bounds::MACHINES_MAX).decode("machines", reply.machines)
}
