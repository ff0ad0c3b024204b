//! Which task goes where, by what servers have just said and what was measured between them, and one subjob for each machine that
//! gets tasks.

use std::collections::BTreeMap;

use pliant_model::{Procs, Time};
use pliant_tig::overload_percent;
use pliant_tig::wase::closest_first;

use super::launch::{Launch, Stage, SubjobRecord, TaskPlace};
use super::mapping::Mapper;
use super::{Command, Coordinator, Site, SubjobState};
use crate::coallocation::links::pair;
use crate::coallocation::platform::{carries, dendrogram};
use crate::coallocation::taken::{Flow, Taken};
use crate::coallocation::{End, LaunchId, Machine, Mapping, PlacedTask, Subjob, SubjobId, TaskEdge};
use crate::handoff::Peer;
use crate::names::{Key, Name};

/// Tasks that run or are about to: where, and since when.
type Alive = BTreeMap<u32, (Name, Option<Time>)>;

impl Coordinator {
    /// Servers have said what machines they have.
    pub(super) fn surveyed(
        &mut self,
        now: Time,
        id: &LaunchId,
        group: u32,
        sites: &[Site],
        commands: &mut Vec<Command>,
    ) {
        let (key, group) = (id.key, group as usize);
        let is_waiting = |launch: &&Launch| {
            let stage = launch.groups.get(group).map(|group| &group.stage);
            launch.end.is_none() && matches!(stage, Some(Stage::Mapping { .. }))
        };
        let Some(launch) = self.launches.get(&key).filter(is_waiting) else { return };
        if sites.iter().all(|site| site.machines.is_empty()) {
            return;
        }
        let placed = self.place(&key, launch, group, sites);
        let Some(launch) = self.launches.get_mut(&key) else { return };
        match placed {
            Ok(places) => launch.reserve(now, id, group, places, sites, &self.config.own),
            Err(why) => launch.groups[group].stage = Stage::GivenUp(why),
        }
        self.settle(now, &key, commands);
    }

    /// What is promised to tasks and not seen in loads yet: servers count the processors of a subjob as soon as it has them. And
    /// what tasks send each other, as far as their applications say it.
    fn taken(&self) -> Taken {
        let mut taken = Taken::default();
        for launch in self.launches.values() {
            let has_none =
                |subjob: &&SubjobRecord| matches!(subjob.state, SubjobState::Unknown | SubjobState::Queued);
            for subjob in launch.subjobs.iter().filter(has_none) {
                for task in &subjob.subjob.tasks {
                    let place = (subjob.server.name.clone(), task.machine.clone());
                    *taken.machines.entry(place).or_default() += launch.mcr(subjob.group, &task.name);
                }
            }
            taken.flows.extend(launch.flows(&launch.alive(), |_| true));
        }
        taken
    }

    /// Where the tasks of a group go: the application as a whole, and of those that are spawned who talk to each other
    /// together, the others after them on what is left.
    fn place(
        &self,
        key: &Key,
        launch: &Launch,
        group: usize,
        sites: &[Site],
    ) -> Result<Vec<(u32, TaskPlace)>, String> {
        let (mut taken, mut alive) = (self.taken(), launch.alive());
        let mut places = Vec::new();
        for tasks in launch.together(group) {
            let placed = self.place_together(key, launch, (group, &tasks), sites, (&taken, &alive))?;
            for (task, place) in &placed {
                let there = (place.server.clone(), place.machine.clone());
                *taken.machines.entry(there).or_default() += launch.mcr_of(*task);
                alive.insert(*task, (place.server.clone(), None));
            }
            taken
                .flows
                .extend(launch.flows(&alive, |talk| talk.between.iter().any(|end| tasks.contains(end))));
            places.extend(placed);
        }
        Ok(places)
    }

    /// Where tasks go that talk to each other. The search begins at the task that those that are spawned talk to most, and at
    /// one server after the other if links have no room there for what they send to tasks that run.
    fn place_together(
        &self,
        key: &Key,
        launch: &Launch,
        (group, tasks): (usize, &[u32]),
        sites: &[Site],
        (taken, alive): (&Taken, &Alive),
    ) -> Result<Vec<(u32, TaskPlace)>, String> {
        let graph = launch.application.among(tasks).map_err(|error| error.to_string())?;
        let measured = self.links.slowest_mbps().is_some();
        let how = if group > 0 { Mapping::Wase } else { launch.mapping };
        let from = |start: Option<&Name>| {
            let mut grid = dendrogram(sites, &self.links, start, taken).map_err(|error| error.to_string())?;
            let mapper = Mapper { graph: &graph, grid: &grid, threshold: launch.threshold, measured, key };
            let mapped = mapper.map(how).map_err(|unplaceable| unplaceable.describe(&graph))?;
            let place = |(task, placed): (&u32, &pliant_tig::Placement)| {
                let name = &grid.machine(placed.machine).name;
                let (site, machine) = named(name, sites).ok_or("a machine without a server")?;
                let (server, machine) = (site.server.name.clone(), machine.to_owned());
                Ok((*task, TaskPlace { server, machine, affinity: placed.affinity }))
            };
            let places =
                tasks.iter().zip(&mapped.placements).map(place).collect::<Result<Vec<_>, String>>()?;
            let outward = launch.outward(alive, &places);
            let has_room = !measured
                || outward.is_empty()
                || carries(&mut grid, &outward)
                    && overload_percent(&graph, &grid, &mapped).is_none_or(|overload| overload == 0.0);
            Ok::<_, String>((grid, places, has_room))
        };
        let beside = if group > 0 { launch.beside(tasks) } else { None };
        let there = |name: &&Name| sites.iter().any(|site| site.server.name == **name);
        let (grid, places, has_room) = from(beside.filter(there).or(launch.user_lan.as_ref()))?;
        if has_room {
            return Ok(places);
        }
        let elsewhere = closest_first(&grid).into_iter().skip(1).find_map(|lan| {
            let name = &grid.node(lan).name;
            let site = sites.iter().find(|site| site.server.name.as_str() == name)?;
            from(Some(&site.server.name)).ok().filter(|(.., has_room)| *has_room)
        });
        let places = elsewhere.map(|(_, places, _)| places);
        places.ok_or_else(|| {
            "expected links with room for what it sends to tasks that run, found none from any server with \
             a machine for it"
                .to_owned()
        })
    }
}

/// The server and the machine of a machine of the dendrogram.
fn named<'a>(name: &str, sites: &'a [Site]) -> Option<(&'a Site, &'a str)> {
    let (site, machine) = name.split_once('/')?;
    let site = sites.get(site.parse::<usize>().ok()?)?;
    Some((site, &site.machines.get(machine.parse::<usize>().ok()?)?.name))
}

impl Launch {
    /// What a task of a group needs, in MFlop/s.
    fn mcr(&self, group: usize, name: &str) -> f64 {
        let is_it = |task: &&u32| self.application.tasks[**task as usize].name == name;
        self.groups[group].tasks.iter().find(is_it).map_or(0.0, |task| self.mcr_of(*task))
    }

    fn mcr_of(&self, task: u32) -> f64 {
        self.application.mcr_mflops * self.application.tasks[task as usize].rcr
    }

    /// The tasks of subjobs that are not over, but for those that have ended.
    fn alive(&self) -> Alive {
        let mut alive = Alive::new();
        for subjob in self.subjobs.iter().filter(|subjob| !subjob.state.is_over()) {
            let group = &self.groups[subjob.group];
            let has_ended = |task: &u32| match &subjob.state {
                SubjobState::Runs { ended } => {
                    ended.contains_key(&self.application.tasks[*task as usize].name)
                }
                _ => false,
            };
            let machine = subjob.subjob.tasks.first().map(|task| &task.machine);
            let is_at =
                |place: &TaskPlace| place.server == subjob.server.name && Some(&place.machine) == machine;
            let is_there = |task: &&u32| self.places.get(*task).is_some_and(is_at);
            let tasks = group.tasks.iter().filter(is_there).filter(|task| !has_ended(task));
            alive.extend(tasks.map(|task| (*task, (subjob.server.name.clone(), group.decided))));
        }
        alive
    }

    /// What of its traffic that `counts` goes from server to server; nothing if the application does not say how much that is.
    fn flows(&self, alive: &Alive, counts: impl Fn(&TaskEdge) -> bool) -> Vec<Flow> {
        let flow = |talk: &TaskEdge| {
            let [(one, began), (other, other_began)] =
                [alive.get(&talk.between[0])?, alive.get(&talk.between[1])?];
            let mbps = talk.rqoc * self.application.bandwidth_mbps?;
            let since = began.zip(*other_began).map(|(one, other)| one.max(other));
            (one != other).then(|| Flow { between: pair(one, other), mbps, since })
        };
        self.application.edges.iter().filter(|talk| counts(talk)).filter_map(flow).collect()
    }

    /// What tasks that get these places send to those that were there before, from server to server.
    fn outward(&self, alive: &Alive, places: &[(u32, TaskPlace)]) -> Vec<Flow> {
        let mut all = alive.clone();
        all.extend(places.iter().map(|(task, place)| (*task, (place.server.clone(), None))));
        let is_old = |end: u32| alive.contains_key(&end);
        self.flows(&all, |talk| is_old(talk.between[0]) != is_old(talk.between[1]))
    }

    /// The tasks of a group, those together that talk to each other, over others of the group if need be.
    fn together(&self, group: usize) -> Vec<Vec<u32>> {
        let mut left = self.groups[group].tasks.clone();
        let mut all = Vec::new();
        while !left.is_empty() {
            let mut joined = vec![left.remove(0)];
            let mut at = 0;
            while let Some(task) = joined.get(at).copied() {
                let talks = |other: &mut u32| {
                    self.application
                        .edges
                        .iter()
                        .any(|talk| talk.between == [task, *other] || talk.between == [*other, task])
                };
                joined.extend(left.extract_if(.., talks));
                at += 1;
            }
            joined.sort_unstable();
            all.push(joined);
        }
        all
    }

    /// The server of the task that these talk to most.
    fn beside(&self, tasks: &[u32]) -> Option<&Name> {
        let outward = |talk: &TaskEdge| match talk.between.map(|end| tasks.contains(&end)) {
            [true, false] => Some((talk.between[1], talk.rqoc)),
            [false, true] => Some((talk.between[0], talk.rqoc)),
            _ => None,
        };
        let talks = self.application.edges.iter().filter_map(outward);
        let placed = talks.filter_map(|(other, rqoc)| Some((rqoc, &self.places.get(&other)?.server)));
        placed.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, server)| server)
    }

    /// The tasks of a group have their places: their servers are to hold them, one subjob for each machine. In front of a batch
    /// system each node is a machine, and a subjob is one job of it on one node.
    fn reserve(
        &mut self,
        now: Time,
        id: &LaunchId,
        group: usize,
        places: Vec<(u32, TaskPlace)>,
        sites: &[Site],
        coordinator: &Peer,
    ) {
        let mut by_machine: BTreeMap<(Name, String), Vec<u32>> = BTreeMap::new();
        for (task, place) in &places {
            by_machine.entry((place.server.clone(), place.machine.clone())).or_default().push(*task);
        }
        self.places.extend(places);
        self.groups[group].stage = Stage::Reserving { until: now + self.timeout };
        if self.dry_run {
            return self.finish(now, End::Mapped);
        }
        let machines = sites.iter().flat_map(|site| site.machines.iter().map(move |machine| (site, machine)));
        for (site, machine) in machines {
            let there = (site.server.name.clone(), machine.name.clone());
            let Some(tasks) = by_machine.remove(&there) else { continue };
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
            };
            self.subjobs.push(SubjobRecord::new(now, subjob, site.server.clone(), group));
        }
    }

    /// The processors that tasks need of their machine: they share what they do not fill.
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
