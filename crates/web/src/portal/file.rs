//! The portal's file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::Uri;
use pliant_config::{ConfigError, read, resolve_relative};
use pliant_control::names::User;
use pliant_transport::{AgentAddress, MasterAddress};
use serde::Deserialize;

const HINT: &str = "a portal's file has listen, url, identities, [[agent]] with name and address, [login] with issuer, client_id, \
                    client_secret and claim, and [tls] with cert and key";

/// The shortest and the longest life of sessions, in seconds.
const LIFE_S: (i64, i64) = (60, 30 * 86_400);
/// The longest life of tokens, in seconds: a year.
const TOKEN_LIFE_MAX_S: i64 = 366 * 86_400;

/// The configuration of a portal.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortalFile {
    /// The address to serve on.
    pub(super) listen: SocketAddr,
    /// The URL at which browsers find the portal: `https://HOST` or `https://HOST:PORT`.
    pub(super) url: String,
    /// The folder with an identity for each user.
    pub(super) identities: PathBuf,
    /// True if a proxy on this machine ends TLS.
    #[serde(default)]
    pub(super) behind_proxy: bool,
    /// The agents, in the order in which they are tried.
    #[serde(default)]
    pub(super) agent: Vec<AgentAddress>,
    /// Masters side by side, in place of these.
    #[serde(default)]
    pub(super) master: Vec<MasterAddress>,
    /// The certificate of the portal.
    pub(super) tls: Option<TlsSection>,
    /// How users log in.
    pub(super) login: LoginSection,
    /// How long sessions last.
    #[serde(default)]
    pub(super) session: SessionSection,
    /// The tokens of programs; none without it.
    pub(super) tokens: Option<TokenSection>,
}

/// The certificate that browsers see.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsSection {
    /// The certificate, then those of its issuers.
    pub(super) cert: PathBuf,
    /// Its key.
    pub(super) key: PathBuf,
}

/// How users log in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginSection {
    /// The OpenID provider.
    pub(super) issuer: String,
    /// The authority of the provider's certificate; those of the system if it is not given.
    pub(super) ca: Option<PathBuf>,
    /// The ID of the portal at the provider.
    pub(super) client_id: String,
    /// The file with the secret of that ID.
    pub(super) client_secret: PathBuf,
    /// What is asked for besides `openid`.
    #[serde(default = "default_scopes")]
    pub(super) scopes: Vec<String>,
    /// The claim that names the user.
    pub(super) claim: String,
    /// What the claim has to end with, and the user's name does not.
    #[serde(default)]
    pub(super) suffix: String,
    /// Users by the value of the claim; with it, nothing else is a user.
    #[serde(default)]
    pub(super) users: Option<BTreeMap<String, User>>,
}

/// How long sessions last.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SessionSection {
    /// After the last request, in seconds.
    pub(super) idle_s: i64,
    /// After the login, in seconds.
    pub(super) life_s: i64,
    /// How many users are served at a time.
    pub(super) users: usize,
}

impl Default for SessionSection {
    fn default() -> SessionSection {
        SessionSection { idle_s: 3_600, life_s: 43_200, users: 100 }
    }
}

/// The tokens of programs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenSection {
    /// The folder with the key of each user's tokens.
    pub(super) folder: PathBuf,
    /// The longest time that a token can be good, in seconds.
    #[serde(default = "default_token_life")]
    pub(super) life_s: i64,
}

fn default_token_life() -> i64 {
    30 * 86_400
}

fn default_scopes() -> Vec<String> {
    vec!["profile".to_owned()]
}

impl PortalFile {
    /// Reads and checks the file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is not TOML, or a key is unknown, missing or has a wrong value.
    pub fn read(path: &Path) -> Result<PortalFile, ConfigError> {
        let (mut file, _): (PortalFile, _) = read(path, HINT)?;
        resolve_relative(path, &mut file.identities);
        resolve_relative(path, &mut file.login.client_secret);
        file.tokens.iter_mut().for_each(|tokens| resolve_relative(path, &mut tokens.folder));
        let tls = file.tls.iter_mut().flat_map(|tls| [&mut tls.cert, &mut tls.key]);
        tls.chain(file.login.ca.as_mut()).for_each(|one| resolve_relative(path, one));
        match file.wrong() {
            None => Ok(file),
            Some((key, message, hint)) => {
                Err(ConfigError::Value { path: path.to_owned(), key, message, hint })
            }
        }
    }

    /// The first key with a wrong value, what was expected and found, and what to do.
    fn wrong(&self) -> Option<(&'static str, String, Option<&'static str>)> {
        let wrong = |key, message: String, hint| Some((key, message, hint));
        if host_of(&self.url).is_none() {
            let found = &self.url;
            return wrong(
                "url",
                format!("expected https://HOST or https://HOST:PORT, found `{found}`"),
                None,
            );
        }
        match (&self.tls, self.behind_proxy) {
            (None, false) => {
                let hint = "behind a proxy of this machine that ends TLS, set behind_proxy = true";
                return wrong("tls", "expected [tls] with cert and key, found none".to_owned(), Some(hint));
            }
            (Some(_), true) => {
                let message = "expected no [tls] behind a proxy, which ends TLS; found both".to_owned();
                return wrong("behind_proxy", message, None);
            }
            (None, true) if !self.listen.ip().is_loopback() => {
                let message = format!("expected a loopback address behind a proxy, found {}", self.listen);
                return wrong(
                    "listen",
                    message,
                    Some("without TLS, others on the network could read sessions"),
                );
            }
            _ => {}
        }
        if !self.agent.is_empty() && !self.master.is_empty() {
            return wrong("agent", "expected either [[agent]] or [[master]], found both".to_owned(), None);
        }
        if let Err(why) = MasterAddress::check(&self.master) {
            return wrong("master", why, None);
        }
        if self.agent.is_empty() && self.master.is_empty() {
            let message = "expected at least one [[agent]] with name and address, found none".to_owned();
            return wrong("agent", message, None);
        }
        if !is_protected(&self.login.issuer) {
            let message = format!("expected the https URL of the provider, found `{}`", self.login.issuer);
            return wrong("login.issuer", message, None);
        }
        for (key, text) in [("login.client_id", &self.login.client_id), ("login.claim", &self.login.claim)] {
            if text.is_empty() {
                return wrong(key, "expected a text, found an empty one".to_owned(), None);
            }
        }
        // It reads as if it let every user in, or none.
        if self.login.users.as_ref().is_some_and(BTreeMap::is_empty) {
            let message = "expected at least one user, found an empty table".to_owned();
            let hint = "without the key, every value of the claim names a user who has an identity";
            return wrong("login.users", message, Some(hint));
        }
        if self.login.users.is_some() && !self.login.suffix.is_empty() {
            let message = "expected either a suffix or a table of users, found both".to_owned();
            return wrong("login.suffix", message, None);
        }
        for (key, found) in [("session.idle_s", self.session.idle_s), ("session.life_s", self.session.life_s)]
        {
            if !(LIFE_S.0..=LIFE_S.1).contains(&found) {
                let message = format!("expected {} to {} seconds, found {found}", LIFE_S.0, LIFE_S.1);
                return wrong(key, message, None);
            }
        }
        if let Some(tokens) = &self.tokens
            && !(LIFE_S.0..=TOKEN_LIFE_MAX_S).contains(&tokens.life_s)
        {
            let message =
                format!("expected {} to {TOKEN_LIFE_MAX_S} seconds, found {}", LIFE_S.0, tokens.life_s);
            return wrong("tokens.life_s", message, None);
        }
        if !(1..=10_000).contains(&self.session.users) {
            let message = format!("expected 1 to 10000, found {}", self.session.users);
            return wrong("session.users", message, None);
        }
        None
    }
}

/// The host of the URL of a portal, with its port if it is not 443; none if it is not such a URL.
pub(super) fn host_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let authority = uri.authority()?;
    let is_plain = uri.scheme_str() == Some("https")
        && matches!(uri.path(), "/" | "")
        && uri.query().is_none()
        && !authority.as_str().contains('@')
        && !authority.host().is_empty();
    let port = authority.port_u16().filter(|port| *port != 443);
    let host = authority.host();
    is_plain.then(|| port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// True for a URL whose answers others on the network can neither read nor change: https, or http on this machine.
pub(super) fn is_protected(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(host)) => !host.is_empty(),
        (Some("http"), Some(host)) => {
            host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        _ => false,
    }
}
