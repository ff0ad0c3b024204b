//! Drawn values, made to pass the checks of whole messages.

use pliant_control::coallocation::Application;
use pliant_control::job::Work;
use pliant_control::reason::Cause;
use pliant_model::{BatchOptions, Constraint, GpuPoint, Memory, Procs, Resources, Speedup};

use super::super::{InstanceBatch, SubmissionRefusal};

/// A speedup that can be.
pub(crate) fn speedup(drawn: Speedup) -> Speedup {
    match drawn {
        Speedup::Rigid | Speedup::Folding => drawn,
        Speedup::Amdahl { parallel, limit } => {
            Speedup::Amdahl { parallel: parallel.abs() % 1.0, limit: Procs(limit.0.max(1)) }
        }
        Speedup::Downey { average_parallelism, sigma } => Speedup::Downey {
            average_parallelism: 1.0 + average_parallelism.abs() % 1e6,
            sigma: sigma.abs() % 1e9,
        },
        Speedup::Table(points) => {
            let times = points.iter().map(|(_, time)| (time.abs() % 1e9).max(f64::MIN_POSITIVE));
            let point = |(index, time)| (Procs(1 + index as u32 * 3), time);
            Speedup::Table(times.chain([1.0]).enumerate().map(point).collect())
        }
        Speedup::GpuTable(points) => {
            let times = points.iter().map(|one| (one.time.abs() % 1e9).max(f64::MIN_POSITIVE));
            let point = |(index, time): (usize, f64)| GpuPoint {
                procs: Procs(1 + index as u32 / 2),
                gpus: 1 + index as u32 % 2,
                time,
            };
            Speedup::GpuTable(times.chain([1.0]).enumerate().map(point).collect())
        }
    }
}

/// Resources that can be asked for.
pub(crate) fn resources(mut drawn: Resources) -> Resources {
    let named = |word: &mut String| *word = format!("n{}", word.chars().filter(char::is_ascii_digit).count());
    if let Some(Memory::PerProc(amount) | Memory::Total(amount)) = &mut drawn.memory {
        amount.0 = amount.0.max(1);
    }
    if let Some(kind) = drawn.gpus.as_mut().and_then(|gpus| gpus.kind.as_mut()) {
        named(kind);
    }
    if let Some(Constraint::All(words) | Constraint::Any(words)) = &mut drawn.constraint {
        words.iter_mut().for_each(named);
        words.push("fast".to_owned());
    }
    if let Some(most) = &mut drawn.procs_per_node {
        *most = (*most).max(drawn.procs_per_task.unwrap_or(*most));
    }
    let BatchOptions { partitions, account, qos } = &mut drawn.batch;
    partitions.iter_mut().chain(account).chain(qos).for_each(named);
    drawn.licences = drawn.licences.into_values().map(|count| ("matlab".to_owned(), count)).collect();
    drawn
}

/// Work of whole tasks.
pub(crate) fn work(mut drawn: Work) -> Work {
    let undivided = drawn.resources.as_ref().and_then(|needed| needed.undivided(&drawn.speedup, drawn.procs));
    if let Some(needed) = drawn.resources.as_mut().filter(|_| undivided.is_some()) {
        std::sync::Arc::make_mut(needed).procs_per_task = None;
    }
    drawn
}

/// A batch whose instances have a value for each argument that differs.
pub(crate) fn batch(mut drawn: InstanceBatch) -> InstanceBatch {
    for call in &mut drawn.instances {
        call.values.resize(drawn.varied.len(), "1".to_owned());
    }
    drawn
}

/// An application whose edges are between its tasks.
pub(crate) fn application(mut drawn: Application) -> Application {
    let tasks = drawn.tasks.len() as u32;
    drawn.edges.retain(|_| tasks > 0);
    for edge in &mut drawn.edges {
        edge.between = edge.between.map(|task| task % tasks);
    }
    drawn
}

/// A refusal that is stale exactly if it has an estimate, and whose cause is known if its word is.
pub(crate) fn declined(drawn: SubmissionRefusal) -> SubmissionRefusal {
    match drawn.now {
        Some(_) => SubmissionRefusal { word: "stale".to_owned(), cause: Cause::Stale, ..drawn },
        None => drawn,
    }
}
