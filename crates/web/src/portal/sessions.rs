//! The sessions of a portal.

use std::collections::{BTreeMap, BTreeSet};

use http::HeaderMap;
use parking_lot::Mutex;
use pliant_control::names::User;
use pliant_model::Time;
use tokio::sync::watch;

use super::file::SessionSection;
use crate::secret::Secret;
use crate::sessions::{Session, cookies};

/// The cookie of a session. `__Host-`: only this host can set it, and only over TLS.
const COOKIE: &str = "__Host-pliant-session";
/// The most sessions of a user; the one that was used least recently ends for another.
const OF_A_USER_MAX: usize = 16;
/// The most sessions; the same.
const SESSIONS_MAX: usize = 10_000;

/// All sessions.
pub(super) struct PortalSessions {
    life: SessionSection,
    open: Mutex<BTreeMap<[u8; 32], OpenSession>>,
}

struct OpenSession {
    user: User,
    csrf: Secret,
    begun: Time,
    used: Time,
    /// Gone with the session, which ends its event streams.
    alive: watch::Sender<()>,
}

impl PortalSessions {
    pub(super) fn new(life: SessionSection) -> PortalSessions {
        PortalSessions { life, open: Mutex::default() }
    }

    /// Begins a session of a user: its cookie. It has nothing of a session that the browser had before.
    pub(super) fn begin(&self, user: User, now: Time) -> std::io::Result<String> {
        let secret = Secret::draw()?;
        let csrf = secret.derived("csrf token");
        let mut open = self.open.lock();
        open.retain(|_, session| self.is_alive(session, now));
        while open.values().filter(|session| session.user == user).count() >= OF_A_USER_MAX {
            end_oldest(&mut open, |session| session.user == user);
        }
        while open.len() >= SESSIONS_MAX {
            end_oldest(&mut open, |_| true);
        }
        let alive = watch::Sender::new(());
        open.insert(secret.hash(), OpenSession { user, csrf, begun: now, used: now, alive });
        // Lax: links in mails lead to pages. Whatever changes something needs the token of the session in a header.
        Ok(format!("{COOKIE}={}; Secure; HttpOnly; SameSite=Lax; Path=/", secret.hex()))
    }

    /// The session whose cookie the request has, and its user; it counts as used.
    pub(super) fn find(&self, headers: &HeaderMap, now: Time) -> Option<(User, Session)> {
        let mut open = self.open.lock();
        let key = key(headers).find(|key| open.contains_key(key))?;
        let session = open.get_mut(&key)?;
        if !self.is_alive(session, now) {
            open.remove(&key);
            return None;
        }
        session.used = session.used.max(now);
        let end = Some(session.alive.subscribe());
        Some((session.user.clone(), Session { csrf: session.csrf.clone(), end }))
    }

    /// Ends the session of the request.
    pub(super) fn end(&self, headers: &HeaderMap) {
        let mut open = self.open.lock();
        key(headers).for_each(|key| drop(open.remove(&key)));
    }

    /// The users who have sessions.
    pub(super) fn users(&self) -> BTreeSet<User> {
        self.open.lock().values().map(|session| session.user.clone()).collect()
    }

    /// Ends all sessions of a user.
    pub(super) fn end_of(&self, user: &User) {
        self.open.lock().retain(|_, session| session.user != *user);
    }

    /// Ends sessions whose time is over.
    pub(super) fn end_old(&self, now: Time) {
        self.open.lock().retain(|_, session| self.is_alive(session, now));
    }

    /// Removes the cookie of a session.
    pub(super) fn no_cookie() -> String {
        format!("{COOKIE}=; Max-Age=0; Secure; HttpOnly; SameSite=Lax; Path=/")
    }

    fn is_alive(&self, session: &OpenSession, now: Time) -> bool {
        now.0 - session.used.0 < self.life.idle_s && now.0 - session.begun.0 < self.life.life_s
    }
}

fn key(headers: &HeaderMap) -> impl Iterator<Item = [u8; 32]> {
    cookies(headers, COOKIE).filter_map(|value| Some(Secret::from_hex(value)?.hash()))
}

fn end_oldest(open: &mut BTreeMap<[u8; 32], OpenSession>, of: impl Fn(&OpenSession) -> bool) {
    let all = open.iter().filter(|(_, session)| of(session));
    let oldest = all.min_by_key(|(_, session)| session.used).map(|(key, _)| *key);
    oldest.and_then(|key| open.remove(&key));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_cookie(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::header::COOKIE, cookie.split(';').next().unwrap().parse().unwrap())])
    }

    fn sessions() -> PortalSessions {
        PortalSessions::new(SessionSection { idle_s: 100, life_s: 250, users: 1 })
    }

    fn user(name: &str) -> User {
        name.parse().unwrap()
    }

    #[test]
    fn a_session_ends_when_it_is_idle_or_old() {
        let sessions = sessions();
        let cookie = sessions.begin(user("alice"), Time(1000)).unwrap();
        assert!(
            cookie.starts_with("__Host-") && cookie.ends_with("; Secure; HttpOnly; SameSite=Lax; Path=/")
        );
        let own = with_cookie(&cookie);
        let is_open = |at| sessions.find(&own, Time(at)).is_some();
        assert!(is_open(1099) && is_open(1198), "each request is a use");
        assert!(is_open(1249) && !is_open(1250), "no session is longer than its life");
        let cookie = sessions.begin(user("alice"), Time(2000)).unwrap();
        assert!(sessions.find(&with_cookie(&cookie), Time(2100)).is_none(), "it was idle");
        assert!(sessions.find(&with_cookie(&cookie), Time(2000)).is_none(), "and is gone");
    }

    #[test]
    fn each_session_is_of_its_user_and_ends_by_itself() {
        let sessions = sessions();
        let alice = with_cookie(&sessions.begin(user("alice"), Time(0)).unwrap());
        let bob = with_cookie(&sessions.begin(user("bob"), Time(0)).unwrap());
        let (name, session) = sessions.find(&alice, Time(1)).unwrap();
        let (other, others) = sessions.find(&bob, Time(1)).unwrap();
        assert_eq!((name, other), (user("alice"), user("bob")));
        assert!(session.csrf != others.csrf);
        let (end, others_end) = (session.end.unwrap(), others.end.unwrap());
        sessions.end(&alice);
        assert!(sessions.find(&alice, Time(1)).is_none() && sessions.find(&bob, Time(1)).is_some());
        assert!(end.has_changed().is_err(), "streams notice it");
        assert!(others_end.has_changed().is_ok());
        sessions.end_old(Time(101));
        assert!(others_end.has_changed().is_err());
    }

    #[test]
    fn sessions_are_bounded() {
        let sessions = sessions();
        let bob = with_cookie(&sessions.begin(user("bob"), Time(0)).unwrap());
        let cookies: Vec<HeaderMap> = (0..=OF_A_USER_MAX as i64)
            .map(|at| with_cookie(&sessions.begin(user("alice"), Time(at)).unwrap()))
            .collect();
        assert!(sessions.find(&cookies[0], Time(20)).is_none(), "the oldest one ended");
        assert!(cookies[1..].iter().all(|one| sessions.find(one, Time(20)).is_some()));
        assert!(sessions.find(&bob, Time(20)).is_some(), "others stay");
    }

    #[test]
    fn a_cookie_that_the_browser_brings_is_never_a_session() {
        let sessions = sessions();
        let fixed = format!("{COOKIE}={}", "ab".repeat(32));
        assert!(sessions.find(&with_cookie(&fixed), Time(0)).is_none());
        let begun = sessions.begin(user("alice"), Time(0)).unwrap();
        assert!(!begun.contains(&fixed) && sessions.find(&with_cookie(&fixed), Time(0)).is_none());
        let renamed = begun.replace("__Host-", "");
        assert!(sessions.find(&with_cookie(&renamed), Time(0)).is_none(), "a subdomain could set this one");
    }
}
