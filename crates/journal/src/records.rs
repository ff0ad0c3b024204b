//! What a journal keeps, and what can be asked of it.

/// One event that a machine was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Counts from 1, without gaps.
    pub seq: u64,
    /// When, in seconds since the Unix epoch; never before the entry that it follows.
    pub at: i64,
    /// The event, as JSON.
    pub event: String,
    /// A number that stands for the commands it led to, by which a replay is checked.
    pub commands: u64,
}

/// All of a machine's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The last entry that is in it.
    pub seq: u64,
    /// When it was taken, in seconds since the Unix epoch.
    pub at: i64,
    /// The state, as JSON.
    pub state: String,
}

/// News for the parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Counts from 1, per journal.
    pub seq: u64,
    /// The news, as JSON.
    pub body: String,
}

/// A job that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRow {
    /// The server that accepted it.
    pub server: String,
    /// The number it gave it.
    pub number: u32,
    /// The key of its submission. A job that was moved has left a row with the same key at each server.
    pub key: Option<[u8; 16]>,
    /// Whose it was.
    pub owner: String,
    /// The service or script.
    pub name: String,
    /// Its final state.
    pub state: String,
    /// When it was accepted, as all times in seconds since the Unix epoch.
    pub submitted: i64,
    /// When it started, if it did.
    pub started: Option<i64>,
    /// When it ended.
    pub ended: i64,
    /// The start that was promised, if it started.
    pub expected_start: Option<i64>,
    /// The completion that was promised, if it started.
    pub expected_completion: Option<i64>,
    /// Everything that is known of it, as JSON.
    pub record: String,
    /// The server that had it last: another one than accepted it if it was moved.
    pub last_server: String,
}

/// A run of a local user's job that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalRow {
    /// When it ended, in seconds since the Unix epoch.
    pub ended: i64,
    /// What a replay needs of it, as JSON.
    pub record: String,
}

/// The place of a [`LocalRow`] among all: its end, and a number of its own.
pub type LocalPlace = (i64, u64);

/// What is made durable at once, all of it or nothing.
///
/// Entries follow the last one that the journal holds without a gap, and so do news. A batch whose entries it
/// holds already is taken for one whose outcome was not known: it counts once.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Batch {
    /// Events, in order.
    pub entries: Vec<Entry>,
    /// News that follow from them.
    pub notices: Vec<Notice>,
    /// Jobs that have ended; a row for the same server and number is replaced.
    pub ended: Vec<JobRow>,
    /// Runs of local users' jobs that are over. They come with entries: on their own they would not be told from those of
    /// another batch.
    pub locals: Vec<LocalRow>,
    /// The parent has kept the news up to there: they are forgotten.
    pub notices_acknowledged: Option<u64>,
}

impl Batch {
    /// True if there is nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.notices.is_empty()
            && self.ended.is_empty()
            && self.locals.is_empty()
            && self.notices_acknowledged.is_none()
    }
}

/// What a journal holds at the start of a daemon.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Loaded {
    /// The last snapshot.
    pub snapshot: Option<Snapshot>,
    /// Every entry after it, in order.
    pub entries: Vec<Entry>,
    /// The numbers of the news that were not acknowledged, in order: what they say is read when they are told
    /// ([`super::Archive::notices`]), however many there are.
    pub notices: Vec<u64>,
    /// The number of the next news.
    pub next_notice: u64,
}

/// Which ended jobs are looked for.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Filter {
    /// Whose.
    pub owner: Option<String>,
    /// On which server they were last.
    pub server: Option<String>,
    /// In which states; empty for all.
    pub states: Vec<String>,
    /// Ended later than that, in seconds since the Unix epoch.
    pub ended_after: Option<i64>,
    /// How many at most.
    pub limit: u32,
    /// Only those that ended before: the end, server and number of the last one seen.
    pub before: Option<(i64, String, u32)>,
}
