//! Who may see the pages: the browser that opened the link first.

use http::HeaderMap;
use http::header::COOKIE;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::secret::Secret;

/// The name of the cookie, before the port: cookies of one host are not separated by port.
const COOKIE_NAME: &str = "pliant-session";

/// The link and the session that its first use begins.
pub(crate) struct Sessions {
    state: Mutex<State>,
    cookie: String,
}

enum State {
    /// The link was not used yet.
    Link(Secret),
    /// A browser has the session.
    Open(Secret),
}

/// A session, as the requests that have its cookie see it.
#[derive(Clone)]
pub(crate) struct Session {
    /// What a page sends with everything that changes something.
    pub(crate) csrf: Secret,
    /// Ends with the session, where sessions can end.
    pub(crate) end: Option<SessionEnd>,
}

/// Notices the end of a session: its sender is gone then.
pub(crate) type SessionEnd = watch::Receiver<()>;

impl Session {
    /// The session of that cookie, which goes on for as long as the command runs.
    pub(crate) fn of(secret: &Secret) -> Session {
        Session { csrf: secret.derived("csrf token"), end: None }
    }
}

impl Sessions {
    /// No session yet, for the pages on that port.
    pub(crate) fn new(port: u16) -> std::io::Result<Sessions> {
        let link = Secret::draw()?;
        Ok(Sessions { state: Mutex::new(State::Link(link)), cookie: format!("{COOKIE_NAME}-{port}") })
    }

    /// The token of the link; none once it is spent.
    pub(crate) fn token(&self) -> Option<String> {
        match &*self.state.lock() {
            State::Link(link) => Some(link.hex()),
            State::Open(_) => None,
        }
    }

    /// Spends the token: the cookie of the session that begins. None if it is not the token, or is spent.
    pub(crate) fn spend(&self, token: &str) -> std::io::Result<Option<String>> {
        let mut state = self.state.lock();
        match &*state {
            State::Link(link) if link.is(token) => {}
            _ => return Ok(None),
        }
        let secret = Secret::draw()?;
        let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, secret.hex());
        *state = State::Open(secret);
        Ok(Some(cookie))
    }

    /// The session whose cookie the request has.
    pub(crate) fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let State::Open(secret) = &*self.state.lock() else { return None };
        let mut values = cookies(headers, &self.cookie);
        values.any(|value| secret.is(value)).then(|| Session::of(secret))
    }
}

/// The values of the cookies with that name, as the request has them.
pub(crate) fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    all_cookies(headers).filter_map(move |(found, value)| (found == name).then_some(value))
}

/// The names and values of all cookies, as the request has them.
pub(crate) fn all_cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|one| one.trim().split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_cookie(cookie: &str) -> HeaderMap {
        let value = cookie.split(';').next().unwrap();
        HeaderMap::from_iter([(COOKIE, format!("other=1; {value}").parse().unwrap())])
    }

    #[test]
    fn a_token_is_spent_once() {
        let sessions = Sessions::new(8000).unwrap();
        let token = sessions.token().unwrap();
        assert!(sessions.spend("").unwrap().is_none() && sessions.spend(&token[..63]).unwrap().is_none());
        let cookie = sessions.spend(&token).unwrap().unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        assert!(!cookie.contains(&token), "the token in an address bar is worth nothing afterwards");
        assert_eq!(sessions.spend(&token).unwrap(), None);
        assert_eq!(sessions.token(), None);
        assert!(sessions.session(&with_cookie(&cookie)).is_some());
    }

    #[test]
    fn only_the_cookie_opens_the_session() {
        let sessions = Sessions::new(8000).unwrap();
        let token = sessions.token().unwrap();
        assert!(sessions.session(&with_cookie(&format!("pliant-session-8000={token}"))).is_none());
        let cookie = sessions.spend(&token).unwrap().unwrap();
        for other in ["pliant-session-8000=", "pliant-session-8000=0", &cookie.replace("8000", "8001")] {
            assert!(sessions.session(&with_cookie(other)).is_none(), "{other}");
        }
        assert!(sessions.session(&HeaderMap::new()).is_none());
    }
}
