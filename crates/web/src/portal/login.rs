//! A login between its two requests: what the browser keeps in a cookie while the user is at the provider.
//!
//! The portal keeps nothing of logins that have only begun, so they cannot fill its memory. The cookie has a secret of the login,
//! its time, and the page that was asked for; `state` of OpenID Connect is a code over them that only the portal can make. A
//! callback is taken from the browser that began the login alone, so no other site can log a browser in (login CSRF).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Uri};
use parking_lot::Mutex;
use pliant_model::Time;

use crate::secret::Secret;
use crate::sessions::{all_cookies, cookies};

/// The cookie of a login, before the beginning of its state: each tab that logs in has its own. `__Host-`: only this host can set it, and
/// only over TLS.
const COOKIE: &str = "__Host-pliant-login-";
/// How many digits of the state are in the name of the cookie.
const NAME_DIGITS: usize = 16;
/// The most logins that a browser has begun; of more, the oldest one is given up.
const OF_A_BROWSER_MAX: usize = 5;
/// How long a login may take, in seconds.
const LIFE_S: i64 = 600;
/// How many ended logins are remembered, so that none begins a second session.
const SPENT_MAX: usize = 10_000;
/// The longest page that a login leads to, in bytes.
const PAGE_BYTES_MAX: usize = 1_000;

/// A login that has begun.
pub(super) struct Login {
    secret: Secret,
    begun: Time,
    /// The page that was asked for.
    pub(super) page: String,
}

/// Begins and ends logins.
pub(super) struct Logins {
    key: Secret,
    spent: Mutex<BTreeMap<[u8; 32], Time>>,
}

impl Login {
    /// What the ID token has to repeat.
    pub(super) fn nonce(&self) -> String {
        self.secret.derived("nonce").hex()
    }

    /// The secret of PKCE (RFC 7636), of which the provider first learns the hash.
    pub(super) fn verifier(&self) -> String {
        self.secret.derived("verifier").hex()
    }
}

impl Logins {
    /// No login yet.
    pub(super) fn new() -> std::io::Result<Logins> {
        Ok(Logins { key: Secret::draw()?, spent: Mutex::default() })
    }

    /// Begins a login that leads to a page: with its state, and the cookies that the browser is to keep and to give up.
    pub(super) fn begin(
        &self,
        headers: &HeaderMap,
        page: &str,
        now: Time,
    ) -> std::io::Result<(Login, String, Vec<String>)> {
        let login = Login { secret: Secret::draw()?, begun: now, page: own_page(page) };
        let state = self.state(&login).hex();
        let page = URL_SAFE_NO_PAD.encode(&login.page);
        let value = format!("{}.{}.{page}", login.secret.hex(), login.begun.0);
        let name = cookie_name(&state).unwrap_or_default();
        // Lax: the provider sends the browser back from another site.
        let cookie = format!("{name}={value}; Max-Age={LIFE_S}; Secure; HttpOnly; SameSite=Lax; Path=/");
        let given_up = older_than(headers, OF_A_BROWSER_MAX - 1).map(|name| without(&name));
        Ok((login, state, std::iter::once(cookie).chain(given_up).collect()))
    }

    /// The login that this state and the cookie of the request are of; none if it is another one's, too old, or has ended.
    pub(super) fn find(&self, headers: &HeaderMap, state: &str, now: Time) -> Option<Login> {
        let name = cookie_name(state)?;
        let login = cookies(headers, &name).filter_map(read).find(|login| self.state(login).is(state))?;
        let is_fresh = login.begun <= now && now.0 - login.begun.0 < LIFE_S;
        (is_fresh && !self.spent.lock().contains_key(&login.secret.hash())).then_some(login)
    }

    /// Ends a login; false if it has ended already.
    pub(super) fn spend(&self, login: &Login, now: Time) -> bool {
        let mut spent = self.spent.lock();
        spent.retain(|_, begun| now.0 - begun.0 < LIFE_S);
        while spent.len() >= SPENT_MAX {
            let Some(oldest) = spent.iter().min_by_key(|(_, begun)| **begun).map(|(hash, _)| *hash) else {
                break;
            };
            spent.remove(&oldest);
        }
        spent.insert(login.secret.hash(), login.begun).is_none()
    }

    /// Removes the cookie of the login with that state; none if it is no state.
    pub(super) fn no_cookie(state: &str) -> Option<String> {
        cookie_name(state).map(|name| without(&name))
    }

    fn state(&self, login: &Login) -> Secret {
        let Login { secret, begun, page } = login;
        self.key.derived(&format!("state {} {} {page}", secret.hex(), begun.0))
    }
}

/// The name of the cookie of a login with that state; none if it is no state.
fn cookie_name(state: &str) -> Option<String> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = state.get(..NAME_DIGITS).filter(|digits| digits.bytes().all(is_digit))?;
    Some(format!("{COOKIE}{digits}"))
}

fn without(name: &str) -> String {
    format!("{name}=; Max-Age=0; Secure; HttpOnly; SameSite=Lax; Path=/")
}

/// The names of the cookies of logins that a browser has begun, but for so many that were begun last.
fn older_than(headers: &HeaderMap, last: usize) -> impl Iterator<Item = String> {
    // Their names come from the browser and go back to it.
    let is_name =
        |name: &str| name.strip_prefix(COOKIE).is_some_and(|rest| cookie_name(rest).as_deref() == Some(name));
    let begun = all_cookies(headers).filter(|(name, _)| is_name(name)).map(|(name, value)| {
        let begun = read(value).map_or(i64::MIN, |login| login.begun.0);
        (begun, name.to_owned())
    });
    let mut begun: Vec<(i64, String)> = begun.collect();
    begun.sort_by(|one, other| other.cmp(one));
    begun.into_iter().skip(last).map(|(_, name)| name)
}

fn read(cookie: &str) -> Option<Login> {
    let mut parts = cookie.split('.');
    let (secret, begun, page) = (parts.next()?, parts.next()?, parts.next()?);
    let page = String::from_utf8(URL_SAFE_NO_PAD.decode(page).ok()?).ok()?;
    let secret = Secret::from_hex(secret)?;
    Some(Login { secret, begun: Time(begun.parse().ok()?), page: own_page(&page) })
}

/// A page of the portal: anything else, such as another site, is the first page.
fn own_page(page: &str) -> String {
    let uri: Option<Uri> = page.parse().ok();
    let is_path = uri.is_some_and(|uri| uri.scheme().is_none() && uri.authority().is_none());
    // Browsers read `//` and `/\` as the beginning of a host, and leave tabs and line ends out.
    let is_own = page.starts_with('/')
        && !page.starts_with("//")
        && !page.contains('\\')
        && page.bytes().all(|byte| byte.is_ascii_graphic())
        && page.len() <= PAGE_BYTES_MAX
        && !page.starts_with("/login")
        && !page.starts_with("/logout");
    if is_path && is_own { page.to_owned() } else { "/".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_cookie(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::header::COOKIE, cookie.split(';').next().unwrap().parse().unwrap())])
    }

    /// A login of a browser without cookies.
    fn begun(logins: &Logins, page: &str, now: i64) -> (Login, String, String) {
        let (login, state, mut cookies) = logins.begin(&HeaderMap::new(), page, Time(now)).unwrap();
        assert_eq!(cookies.len(), 1);
        (login, state, cookies.remove(0))
    }

    #[test]
    fn logins_of_several_tabs_have_cookies_of_their_own() {
        let logins = Logins::new().unwrap();
        let mut kept: Vec<(String, String)> = Vec::new();
        let headers = |kept: &[(String, String)]| {
            let line = kept.iter().map(|(_, cookie)| cookie.as_str()).collect::<Vec<_>>().join("; ");
            HeaderMap::from_iter([(http::header::COOKIE, line.parse().unwrap())])
        };
        for number in 0..8 {
            let (_, state, cookies) = logins.begin(&headers(&kept), "/", Time(1000 + number)).unwrap();
            for cookie in &cookies {
                let pair = cookie.split(';').next().unwrap().to_owned();
                let name = pair.split('=').next().unwrap().to_owned();
                kept.retain(|(_, kept)| !kept.starts_with(&format!("{name}=")));
                if !cookie.contains("Max-Age=0") {
                    kept.push((state.clone(), pair));
                }
            }
        }
        let found =
            kept.iter().filter(|(state, _)| logins.find(&headers(&kept), state, Time(1010)).is_some());
        assert_eq!((found.count(), kept.len()), (OF_A_BROWSER_MAX, OF_A_BROWSER_MAX));
        let first = logins.find(&headers(&kept), &kept[0].0, Time(1010)).unwrap();
        assert_eq!(first.begun, Time(1003), "the oldest ones are given up");
        // What the browser calls such a cookie is not sent back.
        let odd = HeaderMap::from_iter([(
            http::header::COOKIE,
            format!("{COOKIE}x y=1; {COOKIE}{}=1", "0".repeat(NAME_DIGITS + 1)).parse().unwrap(),
        )]);
        assert_eq!(older_than(&odd, 0).count(), 0);
        assert_eq!(Logins::no_cookie("../../etc/passwd"), None);
    }

    #[test]
    fn a_login_ends_once_and_in_the_browser_that_began_it() {
        let logins = Logins::new().unwrap();
        let (login, state, cookie) = begun(&logins, "/jobs?state=QUEUED", 1000);
        assert!(
            cookie.starts_with("__Host-") && cookie.ends_with("; Secure; HttpOnly; SameSite=Lax; Path=/")
        );
        let own = with_cookie(&cookie);
        let found = logins.find(&own, &state, Time(1599)).unwrap();
        assert_eq!((found.page.as_str(), found.nonce()), ("/jobs?state=QUEUED", login.nonce()));
        assert!(found.nonce() != found.verifier() && found.verifier().len() == 64);
        let (_, other, other_cookie) = begun(&logins, "/", 1000);
        let elsewhere = Logins::new().unwrap();
        assert!(logins.find(&own, &other, Time(1000)).is_none(), "the state of another login");
        assert!(logins.find(&with_cookie(&other_cookie), &state, Time(1000)).is_none(), "another browser");
        assert!(logins.find(&HeaderMap::new(), &state, Time(1000)).is_none(), "no cookie");
        assert!(elsewhere.find(&own, &state, Time(1000)).is_none(), "another portal");
        assert!(logins.find(&own, &state, Time(1600)).is_none(), "too late");
        let later = cookie.replace(".1000.", ".1500.");
        assert!(logins.find(&with_cookie(&later), &state, Time(1600)).is_none(), "a later time was written");
        assert!(logins.spend(&found, Time(1001)) && !logins.spend(&found, Time(1002)));
        assert!(logins.find(&own, &state, Time(1002)).is_none(), "it has ended");
    }

    #[test]
    fn a_login_leads_to_pages_of_the_portal_only() {
        for page in ["/", "/jobs?text=a%20b&page=2", "/launches/master/12"] {
            assert_eq!(own_page(page), page);
        }
        for page in [
            "",
            "jobs",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example/",
            "https:evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/a\r\nset-cookie: x=1",
            " /",
            "/login?to=/",
            "/logout",
            &format!("/{}", "x".repeat(1000)),
        ] {
            assert_eq!(own_page(page), "/", "{page:?}");
        }
    }

    #[test]
    fn ended_logins_are_forgotten_when_they_are_too_old_to_be_found() {
        let logins = Logins::new().unwrap();
        for number in 0..20 {
            let (login, ..) = begun(&logins, "/", number * 100);
            assert!(logins.spend(&login, Time(number * 100)));
        }
        assert_eq!(logins.spent.lock().len(), 6);
    }
}
