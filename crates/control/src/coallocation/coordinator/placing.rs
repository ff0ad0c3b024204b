//! The mapping of tasks, by the machines that servers report and the measured links, and one subjob for each machine used.

use std::collections::BTreeMap;

use pliant_model::{Procs, Time};
use pliant_tig::overload_percent;
use pliant_tig::wase::closest_first;

use super::launch::{GroupState, Launch, SubjobRecord, TaskAllocation};
use super::mapping::Mapper;
use super::{Command, Coordinator, Site, SubjobState};
use crate::coallocation::commitments::{Commitments, Flow};
use crate::coallocation::links::server_pair;
use crate::coallocation::platform::{dendrogram, occupy_links};
use crate::coallocation::{LaunchEnd, LaunchId, Machine, Mapping, PlacedTask, Subjob, SubjobId, TaskEdge};
use crate::handoff::Peer;
use crate::names::{Key, Name};

/// Running or prepared tasks: the server of each, and since when it runs.
type RunningTasks = BTreeMap<u32, (Name, Option<Time>)>;

impl Coordinator {
    /// Maps a group on the machines that servers have reported.
    pub(super) fn machines_listed(
        &mut self,
        now: Time,
        id: &LaunchId,
        group: u32,
        sites: &[Site],
        commands: &mut Vec<Command>,
    ) {
        let (key, group) = (id.key, group as usize);
        let is_waiting = |launch: &&Launch| {
            let state = launch.groups.get(group).map(|group| &group.state);
            launch.end.is_none() && matches!(state, Some(GroupState::Mapping { .. }))
        };
        let Some(launch) = self.launches.get(&key).filter(is_waiting) else { return };
        if sites.iter().all(|site| site.machines.is_empty()) {
            return;
        }
        let placed = self.map_tasks(&key, launch, group, sites);
        let Some(launch) = self.launches.get_mut(&key) else { return };
        match placed {
            Ok(allocations) => launch.reserve(now, id, group, allocations, sites, &self.config.own),
            Err(why) => launch.groups[group].state = GroupState::GivenUp(why),
        }
        self.settle(now, &key, commands);
    }

    /// The capacity that is promised to tasks and that reported loads do not include yet: servers count the processors of a
    /// subjob from its start. Also the traffic between tasks, as far as applications declare it.
    fn commitments(&self) -> Commitments {
        let mut commitments = Commitments::default();
        for launch in self.launches.values() {
            let has_none =
                |subjob: &&SubjobRecord| matches!(subjob.state, SubjobState::Unknown | SubjobState::Queued);
            for subjob in launch.subjobs.iter().filter(has_none) {
                for task in &subjob.subjob.tasks {
                    let allocation = (subjob.server.name.clone(), task.machine.clone());
                    *commitments.machines.entry(allocation).or_default() +=
                        launch.mcr(subjob.group, &task.name);
                }
            }
            commitments.flows.extend(launch.flows(&launch.running(), |_| true));
        }
        commitments
    }

    /// The machines of a group's tasks: of a whole application, or of a spawn, whose connected tasks are mapped together and
    /// one set after the other.
    fn map_tasks(
        &self,
        key: &Key,
        launch: &Launch,
        group: usize,
        sites: &[Site],
    ) -> Result<Vec<(u32, TaskAllocation)>, String> {
        let (mut commitments, mut running) = (self.commitments(), launch.running());
        let mut allocations = Vec::new();
        for tasks in connected(&launch.groups[group].tasks, &launch.application.edges) {
            let placed = self.map_connected(key, launch, (group, &tasks), sites, (&commitments, &running))?;
            for (task, allocation) in &placed {
                let machine_key = (allocation.server.clone(), allocation.machine.clone());
                *commitments.machines.entry(machine_key).or_default() += launch.mcr_of(*task);
                running.insert(*task, (allocation.server.clone(), None));
            }
            commitments
                .flows
                .extend(launch.flows(&running, |edge| edge.between.iter().any(|end| tasks.contains(end))));
            allocations.extend(placed);
        }
        Ok(allocations)
    }

    /// The machines of connected tasks. For spawned tasks the search begins at the neighbour with the most traffic. If its
    /// links cannot carry their traffic to running tasks, the other servers are tried.
    fn map_connected(
        &self,
        key: &Key,
        launch: &Launch,
        (group, tasks): (usize, &[u32]),
        sites: &[Site],
        (commitments, running): (&Commitments, &RunningTasks),
    ) -> Result<Vec<(u32, TaskAllocation)>, String> {
        let graph = launch.application.among(tasks).map_err(|error| error.to_string())?;
        let measured = self.links.slowest_mbps().is_some();
        let how = if group > 0 { Mapping::Wase } else { launch.mapping };
        let from = |start: Option<&Name>| {
            let mut grid =
                dendrogram(sites, &self.links, start, commitments).map_err(|error| error.to_string())?;
            let mapper = Mapper { graph: &graph, grid: &grid, threshold: launch.threshold, measured, key };
            let mapped = mapper.map(how).map_err(|unplaceable| unplaceable.describe(&graph))?;
            let allocation = |(task, placed): (&u32, &pliant_tig::Placement)| {
                let name = &grid.machine(placed.machine).name;
                let (site, machine) = site_and_machine(name, sites).ok_or("a machine without a server")?;
                let (server, machine) = (site.server.name.clone(), machine.to_owned());
                Ok((*task, TaskAllocation { server, machine, affinity: placed.affinity }))
            };
            let allocations =
                tasks.iter().zip(&mapped.placements).map(allocation).collect::<Result<Vec<_>, String>>()?;
            let flows = launch.flows_to_running(running, &allocations);
            let fits_links = !measured
                || flows.is_empty()
                || occupy_links(&mut grid, &flows)
                    && overload_percent(&graph, &grid, &mapped).is_none_or(|overload| overload == 0.0);
            Ok::<_, String>((grid, allocations, fits_links))
        };
        let near = if group > 0 { launch.nearest_server(tasks) } else { None };
        let is_site = |name: &&Name| sites.iter().any(|site| site.server.name == **name);
        let (grid, allocations, fits_links) = from(near.filter(is_site).or(launch.user_lan.as_ref()))?;
        if fits_links {
            return Ok(allocations);
        }
        let elsewhere = closest_first(&grid).into_iter().skip(1).find_map(|lan| {
            let name = &grid.node(lan).name;
            let site = sites.iter().find(|site| site.server.name.as_str() == name)?;
            from(Some(&site.server.name)).ok().filter(|(.., fits_links)| *fits_links)
        });
        let allocations = elsewhere.map(|(_, allocations, _)| allocations);
        allocations.ok_or_else(|| {
            "expected links with capacity for its traffic to running tasks, found none from any server with \
             a machine for it"
                .to_owned()
        })
    }
}

/// The site and the name of a machine of the dendrogram.
fn site_and_machine<'a>(name: &str, sites: &'a [Site]) -> Option<(&'a Site, &'a str)> {
    let (site, machine) = name.split_once('/')?;
    let site = sites.get(site.parse::<usize>().ok()?)?;
    Some((site, &site.machines.get(machine.parse::<usize>().ok()?)?.name))
}

impl Launch {
    /// The power that a task of a group needs, in MFlop/s.
    fn mcr(&self, group: usize, name: &str) -> f64 {
        let is_it = |task: &&u32| self.application.tasks[**task as usize].name == name;
        self.groups[group].tasks.iter().find(is_it).map_or(0.0, |task| self.mcr_of(*task))
    }

    fn mcr_of(&self, task: u32) -> f64 {
        self.application.mcr_mflops * self.application.tasks[task as usize].rcr
    }

    /// The tasks of subjobs that have not ended, without ended tasks.
    fn running(&self) -> RunningTasks {
        let mut running = RunningTasks::new();
        for subjob in self.subjobs.iter().filter(|subjob| !subjob.state.is_over()) {
            let group = &self.groups[subjob.group];
            let has_ended = |task: &u32| match &subjob.state {
                SubjobState::Runs { ended } => {
                    ended.contains_key(&self.application.tasks[*task as usize].name)
                }
                _ => false,
            };
            let machine = subjob.subjob.tasks.first().map(|task| &task.machine);
            let is_at = |allocation: &TaskAllocation| {
                allocation.server == subjob.server.name && Some(&allocation.machine) == machine
            };
            let is_there = |task: &&u32| self.allocations.get(*task).is_some_and(is_at);
            let tasks = group.tasks.iter().filter(is_there).filter(|task| !has_ended(task));
            running.extend(tasks.map(|task| (*task, (subjob.server.name.clone(), group.decided))));
        }
        running
    }

    /// The traffic between servers along edges that `counts`; none if the application does not declare bandwidth.
    fn flows(&self, running: &RunningTasks, counts: impl Fn(&TaskEdge) -> bool) -> Vec<Flow> {
        let flow = |edge: &TaskEdge| {
            let [(one, began), (other, other_began)] =
                [running.get(&edge.between[0])?, running.get(&edge.between[1])?];
            let mbps = edge.rqoc * self.application.bandwidth_mbps?;
            let since = began.zip(*other_began).map(|(one, other)| one.max(other));
            (one != other).then(|| Flow { between: server_pair(one, other), mbps, since })
        };
        self.application.edges.iter().filter(|edge| counts(edge)).filter_map(flow).collect()
    }

    /// The traffic of tasks on these machines to running tasks on other servers.
    fn flows_to_running(&self, running: &RunningTasks, allocations: &[(u32, TaskAllocation)]) -> Vec<Flow> {
        let mut all = running.clone();
        all.extend(allocations.iter().map(|(task, allocation)| (*task, (allocation.server.clone(), None))));
        let is_old = |end: u32| running.contains_key(&end);
        self.flows(&all, |edge| is_old(edge.between[0]) != is_old(edge.between[1]))
    }

    /// The server of the neighbour with the most traffic to these tasks, which are sorted.
    fn nearest_server(&self, tasks: &[u32]) -> Option<&Name> {
        let outward = |edge: &TaskEdge| match edge.between.map(|end| tasks.binary_search(&end).is_ok()) {
            [true, false] => Some((edge.between[1], edge.rqoc)),
            [false, true] => Some((edge.between[0], edge.rqoc)),
            _ => None,
        };
        let outward_edges = self.application.edges.iter().filter_map(outward);
        let placed =
            outward_edges.filter_map(|(other, rqoc)| Some((rqoc, &self.allocations.get(&other)?.server)));
        placed.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, server)| server)
    }

    /// Makes one subjob for each machine used, to be prepared by its server. In front of a batch system each node is a
    /// machine, and a subjob is one job on one node.
    fn reserve(
        &mut self,
        now: Time,
        id: &LaunchId,
        group: usize,
        allocations: Vec<(u32, TaskAllocation)>,
        sites: &[Site],
        coordinator: &Peer,
    ) {
        let mut by_machine: BTreeMap<(Name, String), Vec<u32>> = BTreeMap::new();
        for (task, allocation) in &allocations {
            by_machine
                .entry((allocation.server.clone(), allocation.machine.clone()))
                .or_default()
                .push(*task);
        }
        self.allocations.extend(allocations);
        self.groups[group].state = GroupState::Reserving { until: now + self.timeout };
        if self.dry_run {
            return self.finish(now, LaunchEnd::Mapped);
        }
        let machines = sites.iter().flat_map(|site| site.machines.iter().map(move |machine| (site, machine)));
        for (site, machine) in machines {
            let machine_key = (site.server.name.clone(), machine.name.clone());
            let Some(tasks) = by_machine.remove(&machine_key) else { continue };
            let number = self.subjobs.len() as u32;
            let subjob = Subjob {
                id: SubjobId { launch: id.clone(), number },
                coordinator: coordinator.clone(),
                owner: self.owner.clone(),
                name: self.name.clone(),
                procs: self.procs(machine, &tasks),
                tasks: tasks.into_iter().map(|task| self.placed(task, machine.name.clone())).collect(),
                walltime: self.walltime,
                timeout: self.timeout,
                signed: self.groups[group].signed.clone(),
            };
            self.subjobs.push(SubjobRecord::new(now, subjob, site.server.clone(), group));
        }
    }

    /// The processors that tasks need on their machine: they share partly used ones.
    fn procs(&self, machine: &Machine, tasks: &[u32]) -> Procs {
        let mflops = tasks.iter().map(|task| self.mcr_of(*task)).sum();
        Procs(machine.procs_for(mflops))
    }

    fn placed(&self, task: u32, machine: String) -> PlacedTask {
        let wish = &self.application.tasks[task as usize];
        let neighbours = self.application.neighbours(task).map(|(other, _)| other.name.clone());
        let (name, payload) = (wish.name.clone(), wish.payload.clone());
        PlacedTask { name, machine, neighbours: neighbours.collect(), payload }
    }
}

/// The connected components of some tasks, in the order of their first tasks, each sorted. Edges to other tasks do not count.
/// O((tasks + edges) log tasks).
pub(super) fn connected(tasks: &[u32], edges: &[TaskEdge]) -> Vec<Vec<u32>> {
    // Of each task that is in no component yet.
    let mut neighbours: BTreeMap<u32, Vec<u32>> = tasks.iter().map(|task| (*task, Vec::new())).collect();
    for [one, other] in edges.iter().map(|edge| edge.between) {
        if neighbours.contains_key(&one) && neighbours.contains_key(&other) {
            neighbours.entry(one).or_default().push(other);
            neighbours.entry(other).or_default().push(one);
        }
    }
    let mut all = Vec::new();
    for task in tasks {
        let Some(found) = neighbours.remove(task) else { continue };
        let (mut joined, mut left) = (vec![*task], found);
        while let Some(next) = left.pop() {
            if let Some(found) = neighbours.remove(&next) {
                joined.push(next);
                left.extend(found);
            }
        }
        joined.sort_unstable();
        all.push(joined);
    }
    all
}
