//! What an agent asks of servers about parts of launches, and what they say.

use std::collections::BTreeMap;

use pliant_control::coallocation::{Addresses, Machine, Part, PartId, PlacedTask, Standing, Verdict};
use pliant_control::handoff::Peer;
use pliant_control::job::Exit;
use pliant_model::Span;

use super::super::proto::{self, part_standing, part_verdict, prepare_part};
use super::super::{Malformed, bounds, read, write};
use super::program::{payload_of, sent};
use super::{A_PART, task_name};

/// What is decided about a part.
#[derive(Clone, PartialEq, Debug)]
pub struct Decided {
    /// What is to become of it.
    pub verdict: Verdict,
    /// The coordinator knows that nothing of it is left.
    pub heard: bool,
}

/// How a part stands, as its server says.
#[derive(Clone, PartialEq, Debug)]
pub struct Stands {
    /// The part.
    pub id: PartId,
    /// How.
    pub standing: Standing,
}

impl From<&Machine> for proto::SurveyedMachine {
    fn from(machine: &Machine) -> proto::SurveyedMachine {
        proto::SurveyedMachine {
            name: write::text(&machine.name, bounds::NAME_BYTES_MAX),
            power_mflops: write::measured(&bounds::POWER_MFLOPS, machine.power_mflops),
            procs: write::number(&bounds::PROCS, machine.procs),
            load: write::measured(&(0.0..=1.0), machine.load),
        }
    }
}

impl TryFrom<proto::SurveyedMachine> for Machine {
    type Error = Malformed;
    fn try_from(message: proto::SurveyedMachine) -> Result<Machine, Malformed> {
        let name = read::word("name", "the name of a machine", message.name, bounds::NAME_BYTES_MAX)?;
        let power_mflops =
            read::number("power_mflops", "MFlop/s", &bounds::POWER_MFLOPS, message.power_mflops)?;
        Ok(Machine {
            name,
            power_mflops,
            procs: read::procs("procs", message.procs)?.0,
            load: read::number("load", "a share", &(0.0..=1.0), message.load)?,
        })
    }
}

/// What machines a server has.
pub fn survey_reply(machines: &[Machine]) -> proto::SurveyReply {
    proto::SurveyReply { machines: write::list(machines, bounds::MACHINES_MAX) }
}

/// What machines it said.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::SurveyReply`].
pub fn surveyed(reply: proto::SurveyReply) -> Result<Vec<Machine>, Malformed> {
    read::list("machines", reply.machines, bounds::MACHINES_MAX, Machine::try_from)
}

impl From<&Part> for proto::PreparePart {
    fn from(part: &Part) -> proto::PreparePart {
        proto::PreparePart {
            id: Some((&part.id).into()),
            coordinator: part.coordinator.address.clone(),
            owner: part.owner.to_string(),
            name: write::text(&part.name, bounds::NAME_BYTES_MAX),
            tasks: write::list(&part.tasks, bounds::TASKS_MAX),
            procs: write::procs(part.procs),
            walltime_s: write::walltime(part.walltime),
            patience_s: write::number(&bounds::HELD_S, part.patience.0),
        }
    }
}

impl TryFrom<proto::PreparePart> for Part {
    type Error = Malformed;
    fn try_from(message: proto::PreparePart) -> Result<Part, Malformed> {
        let id: PartId = read::required("id", A_PART, message.id)?;
        let name = id.launch.agent.clone();
        let tasks = read::list("tasks", message.tasks, bounds::TASKS_MAX, PlacedTask::try_from)?;
        if tasks.is_empty() {
            return Err(Malformed::missing("tasks", "at least one task"));
        }
        let patience = read::number("patience_s", "seconds", &bounds::HELD_S, message.patience_s)?;
        Ok(Part {
            id,
            coordinator: Peer { name, address: read::address("coordinator", message.coordinator)? },
            owner: read::user("owner", &message.owner)?,
            name: read::text("name", message.name, bounds::NAME_BYTES_MAX)?,
            tasks,
            procs: read::procs("procs", message.procs)?,
            walltime: read::walltime("walltime_s", message.walltime_s)?,
            patience: Span(patience),
        })
    }
}

impl From<&PlacedTask> for prepare_part::PlacedTask {
    fn from(task: &PlacedTask) -> prepare_part::PlacedTask {
        let (program, inputs) = sent(&task.payload);
        prepare_part::PlacedTask {
            name: task.name.clone(),
            program,
            inputs,
            machine: write::text(&task.machine, bounds::NAME_BYTES_MAX),
            neighbours: task.neighbours.clone(),
        }
    }
}

impl TryFrom<prepare_part::PlacedTask> for PlacedTask {
    type Error = Malformed;
    fn try_from(message: prepare_part::PlacedTask) -> Result<PlacedTask, Malformed> {
        let neighbour = |name| task_name("", name);
        Ok(PlacedTask {
            name: task_name("name", message.name)?,
            payload: payload_of(message.program, message.inputs)?,
            machine: read::word("machine", "a machine", message.machine, bounds::NAME_BYTES_MAX)?,
            neighbours: read::list("neighbours", message.neighbours, bounds::TASKS_MAX, neighbour)?,
        })
    }
}

impl From<&Decided> for proto::PartVerdict {
    fn from(decided: &Decided) -> proto::PartVerdict {
        let verdict = match &decided.verdict {
            Verdict::Undecided => part_verdict::Verdict::Undecided(true),
            Verdict::Commit { peers } => {
                part_verdict::Verdict::Commit(part_verdict::Commit { peers: to_map(peers) })
            }
            Verdict::End => part_verdict::Verdict::End(true),
        };
        proto::PartVerdict { verdict: Some(verdict), heard: decided.heard }
    }
}

impl TryFrom<proto::PartVerdict> for Decided {
    type Error = Malformed;
    fn try_from(message: proto::PartVerdict) -> Result<Decided, Malformed> {
        let verdict = message.verdict.ok_or_else(|| Malformed::missing("", "undecided, commit or end"))?;
        let verdict = match verdict {
            part_verdict::Verdict::Undecided(_) => Verdict::Undecided,
            part_verdict::Verdict::Commit(part_verdict::Commit { peers }) => {
                Verdict::Commit { peers: addresses("commit.peers", peers)? }
            }
            part_verdict::Verdict::End(_) => Verdict::End,
        };
        Ok(Decided { verdict, heard: message.heard })
    }
}

impl From<&(PartId, Decided)> for proto::DecidePart {
    fn from((id, decided): &(PartId, Decided)) -> proto::DecidePart {
        proto::DecidePart { id: Some(id.into()), verdict: Some(decided.into()) }
    }
}

impl TryFrom<proto::DecidePart> for (PartId, Decided) {
    type Error = Malformed;
    fn try_from(message: proto::DecidePart) -> Result<(PartId, Decided), Malformed> {
        let id = read::required("id", A_PART, message.id)?;
        Ok((id, read::required("verdict", "a verdict", message.verdict)?))
    }
}

impl From<&Stands> for proto::PartStands {
    fn from(stands: &Stands) -> proto::PartStands {
        proto::PartStands { id: Some((&stands.id).into()), standing: Some((&stands.standing).into()) }
    }
}

impl TryFrom<proto::PartStands> for Stands {
    type Error = Malformed;
    fn try_from(message: proto::PartStands) -> Result<Stands, Malformed> {
        Ok(Stands {
            id: read::required("id", A_PART, message.id)?,
            standing: read::required("standing", "how the part stands", message.standing)?,
        })
    }
}

impl From<&Standing> for proto::PartStanding {
    fn from(standing: &Standing) -> proto::PartStanding {
        let standing = match standing {
            Standing::Unknown => part_standing::Standing::Unknown(true),
            Standing::Queued => part_standing::Standing::Queued(true),
            Standing::Held { addresses } => {
                part_standing::Standing::Held(part_standing::Held { addresses: to_map(addresses) })
            }
            Standing::Committed => part_standing::Standing::Committed(true),
            Standing::Runs { ended } => {
                part_standing::Standing::Runs(part_standing::Runs { ended: exits_to(ended) })
            }
            Standing::Over { ended, exit } => part_standing::Standing::Over(part_standing::Over {
                ended: exits_to(ended),
                exit: Some(exit.into()),
            }),
        };
        proto::PartStanding { standing: Some(standing) }
    }
}

impl TryFrom<proto::PartStanding> for Standing {
    type Error = Malformed;
    fn try_from(message: proto::PartStanding) -> Result<Standing, Malformed> {
        const HOW: &str = "unknown, queued, held, committed, runs or over";
        match message.standing.ok_or_else(|| Malformed::missing("", HOW))? {
            part_standing::Standing::Unknown(_) => Ok(Standing::Unknown),
            part_standing::Standing::Queued(_) => Ok(Standing::Queued),
            part_standing::Standing::Held(held) => {
                Ok(Standing::Held { addresses: addresses("held.addresses", held.addresses)? })
            }
            part_standing::Standing::Committed(_) => Ok(Standing::Committed),
            part_standing::Standing::Runs(runs) => {
                Ok(Standing::Runs { ended: exits("runs.ended", runs.ended)? })
            }
            part_standing::Standing::Over(over) => Ok(Standing::Over {
                ended: exits("over.ended", over.ended)?,
                exit: read::required("over.exit", "how it ended", over.exit)?,
            }),
        }
    }
}

fn to_map(addresses: &Addresses) -> BTreeMap<String, String> {
    addresses.iter().map(|(name, address)| (name.clone(), address.clone())).collect()
}

fn addresses(field: &str, found: BTreeMap<String, String>) -> Result<Addresses, Malformed> {
    by_task(field, found, read::address)
}

fn exits_to(ended: &BTreeMap<String, Exit>) -> BTreeMap<String, proto::Exit> {
    ended.iter().map(|(name, exit)| (name.clone(), exit.into())).collect()
}

fn exits(field: &str, found: BTreeMap<String, proto::Exit>) -> Result<BTreeMap<String, Exit>, Malformed> {
    by_task(field, found, |at, exit| Exit::try_from(exit).map_err(|malformed| malformed.under(at)))
}

/// What is said of tasks, by their names.
fn by_task<M, T>(
    field: &str,
    found: BTreeMap<String, M>,
    value: impl Fn(&str, M) -> Result<T, Malformed>,
) -> Result<BTreeMap<String, T>, Malformed> {
    read::count(field, found.len(), bounds::TASKS_MAX)?;
    // In the order of their names, so that the same message always gives the same error.
    let found: BTreeMap<String, M> = found.into_iter().collect();
    let checked = found.into_iter().map(|(name, said)| {
        let name = task_name(field, name)?;
        let said = value(&format!("{field}[{name}]"), said)?;
        Ok((name, said))
    });
    checked.collect()
}
