//! `[service.resources]` in a server's configuration: what the jobs of a service need besides processors. Its keys are named as the
//! options of `pliant submit`, and their texts are read as there.

use pliant_config::{ContentError, Source};
use pliant_model::{
    BatchOptions, Constraint, GpuCount, Gpus, Memory, Procs, ResourceTextError, Resources, parse_amount,
    parse_licences,
};
use pliant_wire::bounds;
use serde::Deserialize;
use toml::{Spanned, Value};

use super::declared_argument::{text_of, whole};
use super::speedup_spec::SpeedupSpec;

/// The table as it stands in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeclaredResources {
    mem: Option<Spanned<String>>,
    mem_per_proc: Option<Spanned<String>>,
    gpus: Option<Spanned<Value>>,
    gpus_per_proc: Option<Spanned<Value>>,
    scratch: Option<Spanned<String>>,
    nodes: Option<Spanned<i64>>,
    procs_per_node: Option<Spanned<i64>>,
    cpus_per_task: Option<Spanned<i64>>,
    #[serde(default)]
    exclusive: bool,
    constraint: Option<Spanned<String>>,
    /// `licenses`, as the option of `submit` is spelt, is the same key.
    #[serde(alias = "licenses")]
    licences: Option<Spanned<String>>,
}

/// What a service of that size needs; none if the table is empty.
pub(crate) fn read_resources(
    declared: &DeclaredResources,
    size: &SpeedupSpec,
    source: &Source,
) -> Result<Option<Resources>, ContentError> {
    let DeclaredResources { mem, mem_per_proc, gpus, gpus_per_proc, exclusive, .. } = declared;
    exclude("mem", mem, "mem_per_proc", mem_per_proc, source)?;
    exclude("gpus", gpus, "gpus_per_proc", gpus_per_proc, source)?;
    let total = read("mem", mem, parse_amount, source)?.map(Memory::Total);
    let each = read("mem_per_proc", mem_per_proc, parse_amount, source)?.map(Memory::PerProc);
    let number = |key, value: &Option<Spanned<i64>>| {
        let number = whole(key, value, u64::from(*bounds::PROCS.end()), source)?;
        Ok(number.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
    };
    let resources = Resources {
        memory: total.or(each),
        gpus: match read_gpus("gpus", gpus, GpuCount::Total, source)? {
            None => read_gpus("gpus_per_proc", gpus_per_proc, GpuCount::PerProc, source)?,
            total => total,
        },
        scratch: read("scratch", &declared.scratch, parse_amount, source)?.unwrap_or_default(),
        nodes: number("nodes", &declared.nodes)?,
        procs_per_node: number("procs_per_node", &declared.procs_per_node)?.map(Procs),
        procs_per_task: number("cpus_per_task", &declared.cpus_per_task)?.map(Procs),
        exclusive: *exclusive,
        constraint: read("constraint", &declared.constraint, str::parse, source)?,
        licences: read("licences", &declared.licences, parse_licences, source)?.unwrap_or_default(),
        // Partitions and accounts are those of the user who submits.
        batch: BatchOptions::default(),
    };
    let most = size.speedup.sizes(size.procs, Procs(u32::MAX)).map_or(size.procs, |(_, most)| most);
    let features = match &resources.constraint {
        Some(Constraint::All(words) | Constraint::Any(words)) => words.len(),
        None => 0,
    };
    few("constraint", features, &declared.constraint, source)?;
    few("licences", resources.licences.len(), &declared.licences, source)?;
    if let (Some(_), Some(at)) = (resources.undivided(&size.speedup, size.procs), &declared.cpus_per_task) {
        let message =
            format!("`cpus_per_task`: expected tasks that fill a fixed number of processors, found {size}");
        return Err(source.error(at.span(), message, "`rigid:N` where N is a multiple of `cpus_per_task`"));
    }
    match (resources.nodes_beyond(most), &declared.nodes) {
        (Some(nodes), Some(at)) => {
            let message =
                format!("`nodes`: expected at most as many nodes as processors ({most}), found {nodes}");
            Err(source.error(at.span(), message, "a job has at least one processor on each of its nodes"))
        }
        _ => Ok((resources != Resources::default()).then_some(resources)),
    }
}

/// Two keys for one thing cannot both count.
fn exclude<A>(
    key: &str,
    value: &Option<Spanned<A>>,
    other_key: &str,
    other: &Option<Spanned<A>>,
    source: &Source,
) -> Result<(), ContentError> {
    match (value, other) {
        (Some(_), Some(other)) => {
            let message = format!("`{other_key}`: expected it or `{key}`, found both");
            let hint = format!("`{key}` is in all, `{other_key}` for each processor");
            Err(source.error(other.span(), message, hint))
        }
        _ => Ok(()),
    }
}

fn read<A>(
    key: &str,
    value: &Option<Spanned<String>>,
    parse: impl Fn(&str) -> Result<A, ResourceTextError>,
    source: &Source,
) -> Result<Option<A>, ContentError> {
    let Some(value) = value else { return Ok(None) };
    let wrong = |error| {
        source.error(
            value.span(),
            format!("`{key}`: {error}"),
            "it is written as the option of `pliant submit` with that name",
        )
    };
    parse(value.get_ref()).map(Some).map_err(wrong)
}

/// No message carries more names.
fn few(
    key: &str,
    found: usize,
    value: &Option<Spanned<String>>,
    source: &Source,
) -> Result<(), ContentError> {
    match value.as_ref().filter(|_| found > bounds::RESOURCE_NAMES_MAX) {
        None => Ok(()),
        Some(value) => {
            let most = bounds::RESOURCE_NAMES_MAX;
            let message = format!("`{key}`: expected at most {most} names, found {found}");
            Err(source.error(value.span(), message, "leave some out"))
        }
    }
}

/// A number needs no quotes.
fn read_gpus(
    key: &str,
    value: &Option<Spanned<Value>>,
    count: fn(u32) -> GpuCount,
    source: &Source,
) -> Result<Option<Gpus>, ContentError> {
    let Some(value) = value else { return Ok(None) };
    let hint = "write 2, or \"a100:2\" for GPUs of one kind";
    let Some(text) = text_of(value.get_ref()) else {
        let message = format!("`{key}`: expected a number of GPUs, found {}", value.get_ref());
        return Err(source.error(value.span(), message, hint));
    };
    let wrong = |error| source.error(value.span(), format!("`{key}`: {error}"), hint);
    Gpus::parse(&text, count).map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use pliant_config::Source;
    use pliant_control::job::Work;
    use pliant_model::{Procs, Span};

    use crate::services::Catalogue;

    /// A service of that speedup with these lines in its table of resources, which begins in line 6.
    fn read(speedup: &str, resources: &str) -> Result<Catalogue, String> {
        let text = format!(
            "[[service]]\nname = \"s\"\ncommand = [\"run\", \"{{n}}\"]\nspeedup = \"{speedup}\"\nruntime = \"1m\"\n\
             [service.resources]\n{resources}\n[service.arguments.n]\ntype = \"integer\"\nmin = 1\ndefault = 1\n"
        );
        let source = Source::new(Path::new("server.toml"), text);
        Catalogue::from_toml(&source).map_err(|error| error.to_string())
    }

    fn of_all(catalogue: &Catalogue) -> [Work; 2] {
        let service = catalogue.find("s", &"alice".parse().unwrap()).unwrap();
        let job = service.prepare(&BTreeMap::new(), "pliant", None).unwrap().work;
        let calls = [1, 2].map(|number| (number, vec![number.to_string()])).into_iter();
        let batch = service.prepare_batch(&BTreeMap::new(), &["n".to_owned()], calls, "pliant", None);
        [job, batch.unwrap().0.work]
    }

    fn needed(work: &Work) -> String {
        work.resources.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn jobs_and_batches_need_what_their_service_declares() {
        let check = |speedup: &str, resources: &str, procs: u32, expected: &str| {
            let catalogue = read(speedup, resources).unwrap();
            let [job, batch] = of_all(&catalogue);
            assert_eq!(
                (needed(&job), needed(&batch), batch.procs.0),
                (expected.into(), expected.into(), procs)
            );
            let described = catalogue.describe(&"alice".parse().unwrap());
            assert_eq!(described[0].resources.as_deref().unwrap_or_default(), expected);
        };
        check("amdahl:0.9,8", "", 1, "");
        check("amdahl:0.9,8", "mem = \"4G\"\ngpus = \"a100:2\"", 1, "4G of memory, 2 a100 GPUs");
        check(
            "amdahl:0.9,8",
            "mem_per_proc = \"512M\"\ngpus_per_proc = 1",
            1,
            "512M per processor, 1 GPU per processor",
        );
        check(
            "rigid:4",
            "nodes = 2\nprocs_per_node = 2\nexclusive = true\nscratch = \"1T\"",
            4,
            "1T of local disk per node, 2 nodes, at most 2 processors per node, whole nodes",
        );
        check(
            "rigid:1",
            "constraint = \"fast|ib\"\nlicenses = \"matlab:2,ansys\"",
            1,
            "nodes with fast|ib, 1 of licence ansys, 2 of licence matlab",
        );
        check("amdahl:0.9,8", "nodes = 3", 3, "3 nodes");
        check("amdahl:0.9,8", "exclusive = false", 1, "");
    }

    /// The size with the fewest processors may be one with GPUs: a batch has them as well.
    #[test]
    fn a_batch_has_the_gpus_of_its_size() {
        let [job, batch] = of_all(&read("table:2+1g=30,8=90", "gpus = \"a100:1\"\nmem = \"1G\"").unwrap());
        assert_eq!(needed(&job), "1G of memory, 1 a100 GPU");
        assert_eq!((needed(&batch).as_str(), batch.procs), ("1G of memory, 1 a100 GPU", Procs(2)));
        // 1.5 times 60 s each.
        assert_eq!(batch.walltime, Span(180));
        let [_, batch] = of_all(&read("table:2=90,4+1g=30", "gpus = \"a100:1\"").unwrap());
        assert_eq!((needed(&batch).as_str(), batch.procs), ("", Procs(2)));
    }

    #[test]
    fn resources_that_cannot_be_needed() {
        let check = |resources: &str, expected: &str| {
            let error = read("amdahl:0.9,8", resources).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("mem = \"4GiB\"", "7:7: `mem`: expected an amount such as 512M, 64G or 1T");
        check("mem_per_proc = \"0\"", "7:16: `mem_per_proc`: expected an amount above 0, found `0`");
        check(
            "mem = \"1G\"\nmem_per_proc = \"1G\"",
            "8:16: `mem_per_proc`: expected it or `mem`, found both",
        );
        check("gpus = 1\ngpus_per_proc = 1", "8:17: `gpus_per_proc`: expected it or `gpus`, found both");
        check("gpus = 0", "7:8: `gpus`: expected a whole number above 0, found `0`");
        check("gpus = -1", "7:8: `gpus`: expected a whole number above 0, found `-1`");
        check("gpus = [1]", "7:8: `gpus`: expected a number of GPUs, found [1]");
        check("gpus = \"a/b:1\"", "7:8: `gpus`: expected a name of 1 to 64 letters");
        check("nodes = 0", "7:9: `nodes`: expected a whole number of 1 to 10000000, found 0");
        check("nodes = 9", "7:9: `nodes`: expected at most as many nodes as processors (8), found 9");
        check("procs_per_node = 0", "7:18: `procs_per_node`: expected a whole number of 1 to");
        check("constraint = \"a&b|c\"", "7:14: `constraint`: expected features joined by & or by |");
        check("licences = \"a,a\"", "7:12: `licences`: expected each licence once, found `a` twice");
        let many: Vec<String> = (0..257).map(|number| format!("l{number}")).collect();
        check(
            &format!("licences = \"{}\"", many.join(",")),
            "7:12: `licences`: expected at most 256 names, found 257",
        );
        check("memory = \"1G\"", "unknown key `memory`");
        check("partition = \"gpu\"", "unknown key `partition`");
    }
}
