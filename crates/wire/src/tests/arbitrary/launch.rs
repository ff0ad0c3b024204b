//! Launches, their parts, and how both stand.

use pliant_control::coallocation::{
    Addresses, Application, End, LaunchId, LaunchRecord, LaunchState, Machine, Mapping, Part, PartId,
    PlacedTask, Spawn, Spawned, Standing, Talk, TaskRecord, Verdict, Wish,
};
use pliant_control::handoff::Peer;
use pliant_control::payload::Payload;
use pliant_control::server::HeldPart;

use super::super::super::{
    Decided, HeldParts, LaunchRequest, LaunchTask, LaunchesQuery, Program, SpawnRequest, Stands,
    TaskDownload, TaskProgram,
};
use super::*;

fn task_name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
}

fn positive() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::MIN_POSITIVE), Just(f64::MAX), 1e-3..1e9]
}

fn held() -> impl Strategy<Value = Span> {
    bounds::HELD_S.prop_map(Span)
}

fn walltime() -> impl Strategy<Value = Span> {
    bounds::WALLTIME_S.prop_map(Span)
}

pub(in super::super) fn program() -> impl Strategy<Value = Program> {
    prop_oneof![
        (word(), btree_map(word(), text(), 0..4))
            .prop_map(|(name, arguments)| Program::Service { name, arguments }),
        (word(), any::<String>(), vec(text(), 0..4)).prop_map(|(name, rest, arguments)| Program::Script {
            name,
            text: format!("#!{rest}"),
            arguments
        }),
    ]
}

/// What a task runs, as its note.
fn payload() -> impl Strategy<Value = Payload> {
    (program(), vec(file(), 0..3)).prop_map(|(program, inputs)| Payload::of(&TaskProgram { program, inputs }))
}

fn launch_id() -> impl Strategy<Value = LaunchId> {
    (name(), key()).prop_map(|(agent, key)| LaunchId { agent, key })
}

fn part_id() -> impl Strategy<Value = PartId> {
    (launch_id(), any::<u32>()).prop_map(|(launch, number)| PartId { launch, number })
}

fn wish() -> impl Strategy<Value = Wish> {
    (task_name(), positive(), payload()).prop_map(|(name, rcr, payload)| Wish { name, rcr, payload })
}

fn application() -> impl Strategy<Value = Application> {
    let application = (vec(wish(), 1..4), positive(), option::of(positive()));
    application.prop_flat_map(|(tasks, mcr_mflops, bandwidth_mbps)| {
        let at = 0..tasks.len() as u32;
        let talk = (at.clone(), at, positive());
        let talk = talk.prop_map(|(one, other, rqoc)| Talk { between: [one, other], rqoc });
        vec(talk, 0..4).prop_map(move |edges| Application {
            mcr_mflops,
            bandwidth_mbps,
            tasks: tasks.clone(),
            edges,
        })
    })
}

pub(in super::super) fn launch_request() -> impl Strategy<Value = LaunchRequest> {
    let whole = (key(), text(), application(), walltime(), held());
    let how = (option::of(0.0..=1.0f64), select(&Mapping::ALL[..]), any::<bool>());
    (whole, option::of(name()), how).prop_map(
        |((key, name, application, walltime, patience), user_lan, (threshold, mapping, dry_run))| {
            LaunchRequest {
                key,
                name,
                application,
                walltime,
                patience,
                user_lan,
                threshold,
                mapping,
                dry_run,
            }
        },
    )
}

pub(in super::super) fn spawn_request() -> impl Strategy<Value = SpawnRequest> {
    let spawned =
        (wish(), vec((task_name(), positive()), 0..4)).prop_map(|(task, talks)| Spawned { task, talks });
    (launch_id(), key(), vec(spawned, 1..4))
        .prop_map(|(launch, key, tasks)| SpawnRequest { launch, spawn: Spawn { key, tasks } })
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        Just(End::Completed),
        Just(End::Mapped),
        text().prop_map(End::NotMapped),
        text().prop_map(End::NotReserved),
        Just(End::Cancelled),
        text().prop_map(End::Failed),
    ]
}

fn task_record() -> impl Strategy<Value = TaskRecord> {
    let place = option::of((name(), word()));
    let affinity = option::of(0.0..1e9f64);
    let (address, exit, not_spawned) = (option::of(address()), option::of(exit()), option::of(text()));
    (task_name(), place, affinity, address, exit, not_spawned).prop_map(
        |(name, place, affinity, address, exit, not_spawned)| TaskRecord {
            name,
            place,
            affinity,
            address,
            exit,
            not_spawned,
        },
    )
}

pub(in super::super) fn launch_record() -> impl Strategy<Value = LaunchRecord> {
    const STATES: [LaunchState; 5] = [
        LaunchState::Mapping,
        LaunchState::Reserving,
        LaunchState::Running,
        LaunchState::Ending,
        LaunchState::Over,
    ];
    let course = (time(), select(&STATES[..]), option::of(end()));
    (launch_id(), user(), text(), course, vec(task_record(), 0..4), vec(name(), 0..3)).prop_map(
        |(id, owner, name, (submitted, state, end), tasks, unacknowledged)| LaunchRecord {
            id,
            owner,
            name,
            submitted,
            state,
            end,
            tasks,
            unacknowledged,
        },
    )
}

pub(in super::super) fn launches_query() -> impl Strategy<Value = LaunchesQuery> {
    (any::<bool>(), 1..=bounds::JOBS_MAX as u32).prop_map(|(all, limit)| LaunchesQuery { all, limit })
}

pub(in super::super) fn machine() -> impl Strategy<Value = Machine> {
    (word(), bounds::POWER_MFLOPS, bounds::PROCS, 0.0..=1.0f64)
        .prop_map(|(name, power_mflops, procs, load)| Machine { name, power_mflops, procs, load })
}

pub(in super::super) fn part() -> impl Strategy<Value = Part> {
    let task = (task_name(), word(), vec(task_name(), 0..4), payload());
    let task = task.prop_map(|(name, machine, neighbours, payload)| PlacedTask {
        name,
        machine,
        neighbours,
        payload,
    });
    let who = (part_id(), address(), user(), text());
    (who, vec(task, 1..4), procs(), walltime(), held()).prop_map(
        |((id, address, owner, name), tasks, procs, walltime, patience)| Part {
            coordinator: Peer { name: id.launch.agent.clone(), address },
            id,
            owner,
            name,
            tasks,
            procs,
            walltime,
            patience,
        },
    )
}

fn launch_task() -> impl Strategy<Value = LaunchTask> {
    (launch_id(), task_name()).prop_map(|(launch, task)| LaunchTask { launch, task })
}

pub(in super::super) fn task_download() -> impl Strategy<Value = TaskDownload> {
    (launch_task(), result_name(), any::<u64>()).prop_map(|(of, name, offset)| TaskDownload {
        of,
        name,
        offset,
    })
}

fn addresses() -> impl Strategy<Value = Addresses> {
    btree_map(task_name(), address(), 0..4)
}

pub(in super::super) fn decision() -> impl Strategy<Value = (PartId, Decided)> {
    let verdict = prop_oneof![
        Just(Verdict::Undecided),
        addresses().prop_map(|peers| Verdict::Commit { peers }),
        Just(Verdict::End),
    ];
    (part_id(), verdict, any::<bool>()).prop_map(|(id, verdict, heard)| (id, Decided { verdict, heard }))
}

fn standing() -> impl Strategy<Value = Standing> {
    let ended = || btree_map(task_name(), exit(), 0..4);
    prop_oneof![
        Just(Standing::Unknown),
        Just(Standing::Queued),
        addresses().prop_map(|addresses| Standing::Held { addresses }),
        Just(Standing::Committed),
        ended().prop_map(|ended| Standing::Runs { ended }),
        (ended(), exit()).prop_map(|(ended, exit)| Standing::Over { ended, exit }),
    ]
}

pub(in super::super) fn stands() -> impl Strategy<Value = Stands> {
    (part_id(), standing()).prop_map(|(id, standing)| Stands { id, standing })
}

fn held_part() -> impl Strategy<Value = HeldPart> {
    let who = (part_id(), user(), text(), any::<u32>(), procs());
    (who, standing(), any::<bool>(), time(), time()).prop_map(
        |((id, owner, name, tasks, procs), standing, ending, since, heard)| HeldPart {
            id,
            owner,
            name,
            tasks,
            procs,
            standing,
            ending,
            since,
            heard,
        },
    )
}

pub(in super::super) fn held_parts() -> impl Strategy<Value = HeldParts> {
    (time(), vec(held_part(), 0..4)).prop_map(|(now, parts)| HeldParts { now, parts })
}
