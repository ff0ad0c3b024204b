//! What lists of jobs are filtered and sorted by, in a few bytes a job next to each other: a page of 100,000 jobs is found in a millisecond.
//! Reading whole jobs takes more than ten times as long, because their texts are all over the memory.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::Arc;

use super::job_table::{GroupKey, JobFilter, JobOrder, RowKey, SortKey, contains};
use crate::types::{JobView, StateView, SweepId};

/// A text that many jobs have in common: its place among the distinct texts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct TextId(u32);

/// What is compared of a job.
struct Cell {
    state: StateView,
    /// The server that has accepted the job: a part of its ID.
    origin: TextId,
    server: TextId,
    owner: TextId,
    name: TextId,
    procs: u32,
    sweep: SweepId,
    start_s: i64,
    end_s: i64,
    walltime_s: i64,
    moves: u32,
}

/// The jobs of a table, in its order.
#[derive(Default)]
pub(super) struct JobColumns {
    keys: VecDeque<RowKey>,
    cells: VecDeque<Cell>,
    texts: Texts,
}

/// Distinct texts. One is kept when its last job is gone.
#[derive(Default)]
struct Texts {
    ids: HashMap<Arc<str>, TextId>,
    texts: Vec<Arc<str>>,
}

/// The places of jobs that match.
pub(super) struct Matches {
    /// Those of the wanted part of the list.
    pub(super) places: Vec<usize>,
    /// How many jobs match.
    pub(super) matching: usize,
    /// How many jobs that match in all but their state are in each state.
    pub(super) states: [usize; StateView::ALL.len()],
}

/// A filter in which texts are places.
struct CellFilter<'a> {
    filter: &'a JobFilter,
    server: Wanted,
    owner: Wanted,
    name: Wanted,
    /// The text that is searched for, and whether each of the distinct texts has it.
    text: Option<(&'a str, Vec<bool>)>,
    /// True if the text may be across the two parts of an ID, or in its number.
    may_be_id: bool,
}

/// What a text of a job must be.
#[derive(Clone, Copy)]
enum Wanted {
    Any,
    /// No job has this text.
    None,
    One(TextId),
}

impl Wanted {
    fn is(self, found: TextId) -> bool {
        match self {
            Wanted::Any => true,
            Wanted::None => false,
            Wanted::One(wanted) => wanted == found,
        }
    }
}

impl Texts {
    fn id(&mut self, text: &str) -> TextId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let (id, text) = (TextId(self.texts.len() as u32), Arc::<str>::from(text));
        self.ids.insert(text.clone(), id);
        self.texts.push(text);
        id
    }

    fn of(&self, id: TextId) -> &str {
        &self.texts[id.0 as usize]
    }

    fn wanted(&self, text: Option<&String>) -> Wanted {
        match text {
            None => Wanted::Any,
            Some(text) => self.ids.get(text.as_str()).map_or(Wanted::None, |id| Wanted::One(*id)),
        }
    }

    /// The place of each text in their order.
    fn ranks(&self) -> Vec<u32> {
        let mut sorted: Vec<u32> = (0..self.texts.len() as u32).collect();
        sorted.sort_unstable_by_key(|id| &self.texts[*id as usize]);
        let mut ranks = vec![0; sorted.len()];
        (0..).zip(sorted).for_each(|(rank, id)| ranks[id as usize] = rank);
        ranks
    }
}

impl JobColumns {
    /// Adds a job, or takes over what has changed of it.
    pub(super) fn put(&mut self, key: &RowKey, job: &JobView) {
        let (_, Reverse(origin), _) = key;
        let cell = Cell {
            state: job.state,
            origin: self.texts.id(origin.as_str()),
            server: self.texts.id(&job.server),
            owner: self.texts.id(&job.owner),
            name: self.texts.id(&job.name),
            procs: job.procs,
            sweep: job.sweep,
            start_s: job.start(),
            end_s: job.end(),
            walltime_s: job.walltime_s,
            moves: job.moves.try_into().unwrap_or(u32::MAX),
        };
        match self.keys.binary_search(key) {
            Ok(place) => self.cells[place] = cell,
            Err(place) => {
                self.keys.insert(place, key.clone());
                self.cells.insert(place, cell);
            }
        }
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, key: &RowKey) {
        if let Ok(place) = self.keys.binary_search(key) {
            self.keys.remove(place);
            self.cells.remove(place);
        }
    }

    /// How many distinct texts there are.
    pub(super) fn texts(&self) -> usize {
        self.texts.texts.len()
    }

    /// The key of the job at a place.
    pub(super) fn key(&self, place: usize) -> &RowKey {
        &self.keys[place]
    }

    /// A part of the list of jobs that match: only the jobs up to its end are sorted.
    pub(super) fn select(&self, filter: &JobFilter, order: JobOrder, skipped: usize, most: usize) -> Matches {
        let mut states = [0; StateView::ALL.len()];
        let mut found = Vec::new();
        self.each(filter, |place, cell| {
            states[cell.state as usize] += 1;
            if filter.matches_state(cell.state) {
                found.push(place);
            }
        });
        let matching = found.len();
        let part = |places: &mut dyn Iterator<Item = usize>| places.skip(skipped).take(most).collect();
        let places = match order {
            // The table is in the order of submission already.
            JobOrder { by: SortKey::Submitted, ascending: false } => part(&mut found.into_iter()),
            JobOrder { by: SortKey::Submitted, ascending: true } => part(&mut found.into_iter().rev()),
            order => {
                let sort = self.sort_key(order);
                let mut sorted: Vec<_> =
                    found.into_iter().map(|place| (sort(place, &self.cells[place]), place)).collect();
                let end = skipped.saturating_add(most);
                if (1..sorted.len()).contains(&end) {
                    sorted.select_nth_unstable(end - 1);
                    sorted.truncate(end);
                }
                sorted.sort_unstable();
                part(&mut sorted.into_iter().map(|(_, place)| place))
            }
        };
        Matches { places, matching, states }
    }

    /// How many jobs that match there are in each group and state.
    pub(super) fn groups(
        &self,
        filter: &JobFilter,
        by: GroupKey,
    ) -> impl Iterator<Item = (&str, [usize; StateView::ALL.len()])> {
        let mut groups: HashMap<Result<TextId, StateView>, [usize; StateView::ALL.len()]> = HashMap::new();
        self.each(filter, |_, cell| {
            if filter.matches_state(cell.state) {
                let group = match by {
                    GroupKey::Name => Ok(cell.name),
                    GroupKey::Owner => Ok(cell.owner),
                    GroupKey::Server => Ok(cell.server),
                    GroupKey::State => Err(cell.state),
                };
                groups.entry(group).or_default()[cell.state as usize] += 1;
            }
        });
        groups.into_iter().map(|(group, states)| match group {
            Ok(text) => (self.texts.of(text), states),
            Err(state) => (state.word(), states),
        })
    }

    /// Each job that matches in all but its state, in the order of the table.
    fn each(&self, filter: &JobFilter, mut visit: impl FnMut(usize, &Cell)) {
        let text = filter.text.as_deref().filter(|text| !text.is_empty());
        let wanted = CellFilter {
            filter,
            server: self.texts.wanted(filter.server.as_ref()),
            owner: self.texts.wanted(filter.owner.as_ref()),
            name: self.texts.wanted(filter.name.as_ref()),
            text: text.map(|text| (text, self.texts.texts.iter().map(|one| contains(one, text)).collect())),
            may_be_id: text.is_some_and(|text| text.contains(|one: char| one == '.' || one.is_ascii_digit())),
        };
        let mut id = String::new();
        for (place, cell) in self.cells.iter().enumerate() {
            if wanted.takes(cell, || {
                let (_, Reverse(server), Reverse(number)) = &self.keys[place];
                id.clear();
                // Writing to a string does not fail.
                let _ = write!(id, "{server}.{number}");
                text.is_some_and(|text| contains(&id, text))
            }) {
                visit(place, cell);
            }
        }
    }

    /// What a job is sorted by: numbers that are smaller the earlier it comes.
    fn sort_key(&self, order: JobOrder) -> impl Fn(usize, &Cell) -> (i64, u32) {
        let is_text = matches!(order.by, SortKey::Id | SortKey::Name | SortKey::Owner | SortKey::Server);
        let ranks = if is_text { self.texts.ranks() } else { Vec::new() };
        move |place, cell| {
            let rank = |text: TextId| i64::from(ranks[text.0 as usize]);
            let (Reverse(submitted), _, Reverse(number)) = &self.keys[place];
            let (first, second) = match order.by {
                SortKey::Submitted => (*submitted, 0),
                SortKey::Id => (rank(cell.origin), *number),
                SortKey::Name => (rank(cell.name), 0),
                SortKey::Owner => (rank(cell.owner), 0),
                SortKey::Server => (rank(cell.server), 0),
                SortKey::State => (cell.state as i64, 0),
                SortKey::Start => (cell.start_s, 0),
                SortKey::End => (cell.end_s, 0),
                SortKey::Procs => (cell.procs.into(), 0),
                SortKey::Walltime => (cell.walltime_s, 0),
                SortKey::Moves => (cell.moves.into(), 0),
            };
            // The complement turns the order of integers round.
            if order.ascending { (first, second) } else { (!first, !second) }
        }
    }
}

impl CellFilter<'_> {
    /// True of a job that matches in all but its state; `id_has_text` is asked only if nothing else decides.
    fn takes(&self, cell: &Cell, id_has_text: impl FnOnce() -> bool) -> bool {
        let has_text = |(_, has): &(&str, Vec<bool>)| {
            let texts = [cell.origin, cell.server, cell.owner, cell.name];
            texts.into_iter().any(|text| has[text.0 as usize]) || (self.may_be_id && id_has_text())
        };
        self.server.is(cell.server)
            && self.owner.is(cell.owner)
            && self.name.is(cell.name)
            && self.filter.sweep.is_none_or(|sweep| sweep == cell.sweep)
            && self.text.as_ref().is_none_or(has_text)
    }
}
