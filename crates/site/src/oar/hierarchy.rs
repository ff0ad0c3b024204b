//! What a job asks of OAR's hierarchy: processors, processors on so many nodes, or whole nodes; on the nodes that have what it needs.
//!
//! OAR hands out processors alone. A job that needs memory, GPUs or local disk space therefore gets whole nodes, so that no other job has any of theirs.

use pliant_control::listing::{CoreLayout, Node};
use pliant_model::{GpuCount, Mebibytes, Memory, Procs, Resources};

use super::resources;

/// The level of the hierarchy that is a node: one that every cluster has.
pub(super) const NODE: &str = "network_address";

/// The resources of a job of such a shape, as `oarsub --resource` takes them; none if no number of nodes has what it needs, or if the
/// cluster has fewer units of a licence.
pub(super) fn request(
    shape: CoreLayout,
    resources: Option<&Resources>,
    cluster: &resources::Resources,
) -> Option<String> {
    let on_nodes = on_nodes(shape, resources, &cluster.nodes)?;
    let licences = resources.map(|needed| &needed.licences).into_iter().flatten();
    let units = licences.filter(|(_, count)| **count > 0).map(|(name, count)| {
        // It stands in the server's file, so it is a word. Broken units may be whole again when the job starts.
        let has = cluster.licences.contains_key(name) && cluster.units(name) >= *count;
        has.then(|| format!("+{{type = '{name}'}}/resource_id={count}"))
    });
    Some(on_nodes + &units.collect::<Option<String>>()?)
}

fn on_nodes(shape: CoreLayout, resources: Option<&Resources>, nodes: &[Node]) -> Option<String> {
    let Some(needed) = resources.filter(|needed| needs_nodes(needed)) else {
        return Some(format!("/resource_id={}", shape.cores));
    };
    let is_named = |node: &&Node| {
        needed.constraint.as_ref().is_none_or(|constraint| constraint.admits(&node.features))
            && needed.gpus.as_ref().is_none_or(|gpus| gpus.kind.is_none() || gpus.kind == node.gpu_kind)
    };
    // One that is down now may be up again when the job starts.
    let named: Vec<&Node> = nodes.iter().filter(is_named).collect();
    if named.is_empty() {
        return None;
    }
    let has_tasks = needed.task_procs() > Procs::ONE;
    if !has_whole_nodes(needed) && needed.nodes.is_none() && needed.procs_per_node.is_none() && !has_tasks {
        return Some(format!("{}/resource_id={}", condition(&named, nodes), shape.cores));
    }
    let fewest = needed.nodes.unwrap_or(1);
    let tasks = needed.tasks(Procs(shape.cores));
    let most = needed.nodes.unwrap_or(tasks).min(named.len() as u32);
    let found = (fewest..=most).find_map(|count| {
        // A task is on one node.
        let each = tasks.div_ceil(count).saturating_mul(needed.task_procs().0);
        let has_all = |node: &&&Node| has(node, needed, Procs(shape.cores), (each, count));
        let suitable: Vec<&Node> = named.iter().filter(has_all).copied().collect();
        (suitable.len() >= count as usize).then_some((count, each, suitable))
    });
    let (count, each, suitable) = found?;
    let on = condition(&suitable, nodes);
    Some(match has_whole_nodes(needed) {
        true => format!("{on}/{NODE}={count}"),
        false => format!("{on}/{NODE}={count}/resource_id={each}"),
    })
}

/// Whether it matters to a job which nodes it gets.
fn needs_nodes(needed: &Resources) -> bool {
    let procs_per_task = needed.procs_per_task.filter(|procs| *procs > Procs::ONE);
    let (batch, licences) = (Default::default(), Default::default());
    let of_nodes = Resources { batch, licences, procs_per_task, ..needed.clone() };
    of_nodes != Resources::default()
}

fn has_whole_nodes(needed: &Resources) -> bool {
    let has_part = needed.memory.is_some() || needed.gpus.is_some() || needed.scratch > Mebibytes::ZERO;
    needed.exclusive || has_part
}

/// Whether a node has what one of `count` nodes has to have, with `each` of the processors.
fn has(node: &Node, needed: &Resources, procs: Procs, (each, count): (u32, u32)) -> bool {
    let memory = needed.memory.map_or(0, |memory| match memory {
        Memory::PerProc(of_one) => u64::from(of_one.0) * u64::from(each),
        Memory::Total(all) => (u64::from(all.0) * u64::from(each)).div_ceil(u64::from(procs.0.max(1))),
    });
    let gpus = needed.gpus.as_ref().map_or(0, |gpus| match gpus.count {
        GpuCount::PerProc(of_one) => of_one.saturating_mul(each),
        GpuCount::Total(all) => all.div_ceil(count.max(1)),
    });
    each <= node.cores
        && needed.procs_per_node.is_none_or(|most| each <= most.0)
        && memory <= u64::from(node.memory.0)
        && gpus <= node.gpus
        && needed.scratch <= node.scratch
}

/// The condition that a resource is of one of these nodes, in braces; empty if they are all nodes.
fn condition(suitable: &[&Node], all: &[Node]) -> String {
    if suitable.len() == all.len() {
        return String::new();
    }
    let names: Vec<String> =
        suitable.iter().map(|node| format!("'{}'", node.name.replace('\'', "''"))).collect();
    format!("{{{NODE} IN ({})}}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use pliant_model::{Constraint, Gpus};

    use super::*;

    /// Two nodes of four processors and 8 GiB, one of 16 and 64 GiB with two GPUs.
    fn nodes() -> Vec<Node> {
        let small = |name: &str| Node {
            name: name.to_owned(),
            cores: 4,
            memory: Mebibytes(8_192),
            scratch: Mebibytes(10_000),
            features: vec!["grisou".to_owned()],
            ..Node::default()
        };
        let large = Node {
            cores: 16,
            memory: Mebibytes(65_536),
            gpus: 2,
            gpu_kind: Some("a100".to_owned()),
            features: vec!["grimani".to_owned(), "ssd".to_owned()],
            ..small("n3")
        };
        vec![small("n1"), small("n2"), large]
    }

    fn cluster() -> resources::Resources {
        let licences = [("matlab".to_owned(), 1)].into();
        let other_types =
            [(90, "matlab".to_owned()), (91, "matlab".to_owned()), (92, "disk".to_owned())].into();
        resources::Resources { nodes: nodes(), licences, other_types, ..resources::Resources::default() }
    }

    fn asked(cores: u32, needed: Resources) -> Option<String> {
        request(CoreLayout { cores, ..CoreLayout::default() }, Some(&needed), &cluster())
    }

    #[test]
    fn processors_alone_are_asked_for_as_such() {
        let shape = CoreLayout { cores: 6, ..CoreLayout::default() };
        assert_eq!(request(shape, None, &cluster()).unwrap(), "/resource_id=6");
        assert_eq!(asked(6, Resources::default()).unwrap(), "/resource_id=6");
    }

    #[test]
    fn jobs_that_need_memory_or_gpus_have_whole_nodes() {
        let memory = |memory| Resources { memory: Some(memory), ..Resources::default() };
        assert_eq!(asked(1, memory(Memory::Total(Mebibytes(8_192)))).unwrap(), "/network_address=1");
        // Two thirds of it do not fit on a small node, half of it does.
        assert_eq!(
            asked(6, memory(Memory::Total(Mebibytes(16_384)))).unwrap(),
            "{network_address IN ('n3')}/network_address=1"
        );
        assert_eq!(asked(24, memory(Memory::PerProc(Mebibytes(2_048)))), None, "no node has 8 and others 16");
        let gpus = |count, kind: Option<&str>| Resources {
            gpus: Some(Gpus { count, kind: kind.map(str::to_owned) }),
            ..Resources::default()
        };
        let on_large = "{network_address IN ('n3')}/network_address=1";
        assert_eq!(asked(2, gpus(GpuCount::Total(2), Some("a100"))).unwrap(), on_large);
        assert_eq!(asked(2, gpus(GpuCount::PerProc(1), None)).unwrap(), on_large);
        assert_eq!(asked(3, gpus(GpuCount::PerProc(1), None)), None);
        assert_eq!(asked(1, gpus(GpuCount::Total(1), Some("v100"))), None);
        let scratch = |amount| Resources { scratch: Mebibytes(amount), ..Resources::default() };
        assert_eq!(asked(2, scratch(10_000)).unwrap(), "/network_address=1");
        assert_eq!(asked(2, scratch(10_001)), None);
        let exclusive = Resources { exclusive: true, ..Resources::default() };
        assert_eq!(asked(6, exclusive).unwrap(), "{network_address IN ('n3')}/network_address=1");
    }

    #[test]
    fn numbers_of_nodes_and_features_are_kept() {
        let on = |nodes| Resources { nodes: Some(nodes), ..Resources::default() };
        assert_eq!(asked(6, on(2)).unwrap(), "/network_address=2/resource_id=3");
        assert_eq!(asked(5, on(2)).unwrap(), "/network_address=2/resource_id=3", "equally many on each");
        assert_eq!(asked(16, on(1)).unwrap(), "{network_address IN ('n3')}/network_address=1/resource_id=16");
        assert_eq!(asked(8, on(4)), None);
        let two = Resources { procs_per_node: Some(Procs(2)), ..Resources::default() };
        assert_eq!(asked(6, two).unwrap(), "/network_address=3/resource_id=2");
        let of_tasks = |task| Resources { procs_per_task: Some(Procs(task)), ..Resources::default() };
        assert_eq!(asked(6, of_tasks(1)).unwrap(), "/resource_id=6");
        let on_large = "{network_address IN ('n3')}/network_address=1/resource_id=6";
        assert_eq!(asked(6, of_tasks(2)).unwrap(), on_large);
        assert_eq!(
            asked(6, Resources { nodes: Some(2), ..of_tasks(3) }).unwrap(),
            "/network_address=2/resource_id=3"
        );
        assert_eq!(
            asked(6, Resources { nodes: Some(2), ..of_tasks(2) }).unwrap(),
            "/network_address=2/resource_id=4"
        );
        assert_eq!(asked(24, of_tasks(8)), None, "no two nodes have a task of eight");
        let named = |name: &str| Resources {
            constraint: Some(Constraint::All(vec![name.to_owned()])),
            ..Resources::default()
        };
        let small = "{network_address IN ('n1', 'n2')}/resource_id=6";
        assert_eq!(asked(6, named("grisou")).unwrap(), small);
        assert_eq!(asked(1, named("unknown")), None);
    }

    #[test]
    fn licences_are_resources_of_a_type_of_their_own() {
        let licences = |count, more| {
            let licences = [("matlab".to_owned(), count)].into_iter().collect();
            asked(4, Resources { licences, ..more })
        };
        let with_two = "+{type = 'matlab'}/resource_id=2";
        assert_eq!(licences(2, Resources::default()).unwrap(), format!("/resource_id=4{with_two}"));
        let whole = Resources { exclusive: true, nodes: Some(1), ..Resources::default() };
        assert_eq!(licences(2, whole).unwrap(), format!("/network_address=1{with_two}"));
        assert_eq!(licences(3, Resources::default()), None, "there are two, of which one is broken");
        let disk = [("disk".to_owned(), 1)].into_iter().collect();
        assert_eq!(asked(1, Resources { licences: disk, ..Resources::default() }), None, "it is no licence");
    }
}
