//! Where a daemon that was built for tests ends itself as `kill -9` would: `PLIANT_CRASH_AT=PLACE.WHAT[:N]` in its
//! environment, at the N-th time, once if no number is given. Builds without debug assertions never do.
//!
//! An event is named as in the journal; `subjob+end` is one of that name with the word `"end"` somewhere in its text, for those of
//! which a number could not distinguish.
//!
//! | point | what | when |
//! |---|---|---|
//! | `received` | an event | before the machine takes it |
//! | `before-journal` | an event | taken, and about to be committed |
//! | `after-journal` | an event | committed, and nothing that follows from it carried out |
//! | `before-call` | a step of a handoff | about to ask another server |
//! | `after-call` | a step of a handoff | answered, and the machine not notified |
//! | the same | `stands` | a server notifies an agent of how a subjob stands |
//! | `files-sent` | `prepare` | the files of a job are there, and nothing else |

/// The name of the variable.
const VARIABLE: &str = "PLIANT_CRASH_AT";

/// A crash point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CrashPoint {
    /// An event has come, and the machine does not have it yet.
    Received,
    /// A batch of events is committed.
    BeforeJournal,
    /// It was.
    AfterJournal,
    /// Another server is asked.
    BeforeCall,
    /// It has answered.
    AfterCall,
    /// It has the files of a job.
    FilesSent,
}

impl CrashPoint {
    fn word(self) -> &'static str {
        match self {
            CrashPoint::Received => "received",
            CrashPoint::BeforeJournal => "before-journal",
            CrashPoint::AfterJournal => "after-journal",
            CrashPoint::BeforeCall => "before-call",
            CrashPoint::AfterCall => "after-call",
            CrashPoint::FilesSent => "files-sent",
        }
    }
}

/// The daemon is at a crash point, for each of these.
pub(crate) fn reached<W: AsRef<str>>(point: CrashPoint, on_account_of: impl Iterator<Item = W>) {
    use std::sync::atomic::Ordering;

    let Some((what, left)) = wanted(point) else { return };
    for _ in on_account_of.filter(|one| one.as_ref() == what) {
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            tracing::warn!(at = point.word(), what, "ends itself, as it was asked to");
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

/// The machine is about to take an event.
pub(crate) fn received(event: &impl serde::Serialize) {
    if wanted(CrashPoint::Received).is_some()
        && let Ok(text) = serde_json::to_string(event)
    {
        reached_by_events(CrashPoint::Received, std::iter::once(text.as_str()));
    }
}

/// The daemon is at a crash point, for each of these events, as the journal has them.
pub(crate) fn reached_by_events<'a>(point: CrashPoint, texts: impl Iterator<Item = &'a str>) {
    let Some((what, _)) = wanted(point) else { return };
    reached(point, texts.filter(|text| is_event(text, what)).map(|_| what));
}

/// Whether an event is the one that is called so.
fn is_event(text: &str, what: &str) -> bool {
    let (name, word) = what.split_once('+').map_or((what, None), |(name, word)| (name, Some(word)));
    event_name(text) == name && word.is_none_or(|word| text.contains(&format!("\"{word}\"")))
}

/// The event or call at which the daemon ends itself at that point, and how many times it passes before.
fn wanted(point: CrashPoint) -> Option<(&'static str, &'static std::sync::atomic::AtomicU32)> {
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicU32;

    static AT: OnceLock<Option<(String, AtomicU32)>> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return None;
    }
    let at = AT.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        let (name, times) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), AtomicU32::new(times.parse().ok()?)))
    });
    let (name, left) = at.as_ref()?;
    Some((name.strip_prefix(point.word())?.strip_prefix('.')?, left))
}

/// What an event is called in the journal: its text is a name, or an object with that one key.
fn event_name(text: &str) -> &str {
    text.trim_start_matches(['{', '"']).split('"').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{event_name, is_event};

    #[test]
    fn events_have_the_names_of_their_keys() {
        assert_eq!(event_name(r#"{"prepare":{"reply":3}}"#), "prepare");
        assert_eq!(event_name(r#""due""#), "due");
    }

    #[test]
    fn a_word_distinguishes_events_of_one_name() {
        let [ended, committed] = [
            r#"{"subjob":{"decided":{"decision":"end"}}}"#,
            r#"{"subjob":{"decided":{"decision":{"commit":{}}}}}"#,
        ];
        assert!(is_event(ended, "subjob") && is_event(ended, "subjob+end") && is_event(committed, "subjob"));
        assert!(
            !is_event(committed, "subjob+end")
                && !is_event(ended, "subjob-status+end")
                && !is_event(ended, "subjob+en")
        );
    }
}
