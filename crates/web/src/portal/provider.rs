//! The OpenID provider: its addresses, its keys, and what it says of a user who logged in (authorization code flow with PKCE).

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use form_urlencoded::{Serializer, byte_serialize};
use http::{StatusCode, Uri};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::fetch::{FetchError, Fetcher, Form};
use super::file::{LoginSection, is_protected};
use super::id_token::{Claims, Expected, Keys, TokenError};
use crate::types::now;

/// How long the provider's addresses and keys are kept.
const KEPT: Duration = Duration::from_secs(3600);
/// How often the keys are read again in [`KEYS_PERIOD`] for a key that is not among them: a provider may change its keys twice in a row.
const KEYS_READ_MAX: usize = 5;
/// See [`KEYS_READ_MAX`].
const KEYS_PERIOD: Duration = Duration::from_secs(60);
/// How many logins ask the provider for a token at a time.
const AT_A_TIME: usize = 16;
/// How long a login waits until it may ask.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the provider did not say who the user is.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ProviderError {
    /// It cannot be reached.
    #[error("{0}")]
    Fetch(#[from] FetchError),
    /// Too many logins at a time.
    #[error("expected at most {AT_A_TIME} logins at a time, found more for {} s", PERMIT_TIMEOUT.as_secs())]
    Busy,
    /// It answers something unexpected.
    #[error("{url}: expected {expected}, found {found}")]
    Answer {
        /// Where.
        url: String,
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// It does not take the code of the login.
    #[error("the provider refuses the code of the login: {0}")]
    Refused(String),
    /// The ID token is not good.
    #[error("the ID token of the provider is not good: {0}")]
    Token(#[from] TokenError),
}

impl ProviderError {
    /// True if the login itself is to blame, and not the provider.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Token(_))
    }
}

/// The provider of a portal.
pub(super) struct Provider {
    login: LoginSection,
    secret: String,
    /// Where the provider sends browsers back to.
    redirect: String,
    fetcher: Fetcher,
    known: Mutex<Option<Arc<Known>>>,
    /// Locked while the provider is asked for what it publishes: several logins ask once.
    reading: tokio::sync::Mutex<Reads>,
    calls: Semaphore,
}

/// What the provider publishes.
struct Known {
    document: Document,
    keys: Keys,
    read: Instant,
}

/// How the provider was asked for what it publishes.
#[derive(Default)]
struct Reads {
    /// When the last attempt failed, and why. Those who waited for it do not ask again.
    failed: Option<(Instant, ProviderError)>,
    /// When keys were read again because one was missing.
    for_keys: Vec<Instant>,
}

/// The provider's description of itself (OpenID Connect Discovery 1.0, section 3).
#[derive(Clone, Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Document {
    /// Checks that it is of that issuer, and that others on the network can neither read nor change what is sent: what was expected, and
    /// what was found.
    fn check(&self, issuer: &str) -> Result<(), (&'static str, &str)> {
        if self.issuer != issuer {
            return Err(("the issuer of login.issuer", &self.issuer));
        }
        // Plain HTTP is for a provider of this machine alone: another one does not send its users here.
        let is_remote = is_https(issuer);
        let is_right = |url: &str| if is_remote { is_https(url) } else { is_protected(url) };
        let all = [&self.authorization_endpoint, &self.token_endpoint, &self.jwks_uri];
        match all.into_iter().find(|url| !is_right(url)) {
            Some(found) => Err(("https URLs", found)),
            None => Ok(()),
        }
    }
}

/// True for a URL whose scheme is https.
fn is_https(url: &str) -> bool {
    is_protected(url) && url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https"))
}

impl Provider {
    /// The provider of a portal at that URL.
    ///
    /// # Errors
    ///
    /// If the authority of its certificate cannot be read.
    pub(super) fn new(login: LoginSection, secret: String, url: &str) -> Result<Provider, String> {
        let fetcher = Fetcher::new(login.ca.as_deref())?;
        let redirect = format!("{}/login/callback", url.trim_end_matches('/'));
        let (known, calls) = (Mutex::new(None), Semaphore::new(AT_A_TIME));
        Ok(Provider { login, secret, redirect, fetcher, known, reading: Default::default(), calls })
    }

    /// The issuer, as configured.
    pub(super) fn issuer(&self) -> &str {
        &self.login.issuer
    }

    /// Where a browser logs in.
    pub(super) async fn login_url(
        &self,
        state: &str,
        nonce: &str,
        verifier: &str,
    ) -> Result<String, ProviderError> {
        let known = self.published().await?;
        let document = &known.document;
        let scope = ["openid"].into_iter().chain(self.login.scopes.iter().map(String::as_str));
        let query = Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.login.client_id)
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("scope", &scope.collect::<Vec<_>>().join(" "))
            .append_pair("state", state)
            .append_pair("nonce", nonce)
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)))
            .append_pair("code_challenge_method", "S256")
            .finish();
        let endpoint = &document.authorization_endpoint;
        let separator = if endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{endpoint}{separator}{query}"))
    }

    /// What the provider says of the user for the code of a login.
    pub(super) async fn claims(
        &self,
        code: &str,
        nonce: &str,
        verifier: &str,
    ) -> Result<Claims, ProviderError> {
        let known = self.published().await?;
        let token = {
            let permit = timeout(PERMIT_TIMEOUT, self.calls.acquire()).await;
            let _permit = permit.ok().and_then(Result::ok).ok_or(ProviderError::Busy)?;
            self.exchange(&known.document, code, verifier).await?
        };
        let expected =
            Expected { issuer: &self.login.issuer, client_id: &self.login.client_id, nonce, now: now() };
        match known.keys.check(&token, &expected) {
            // The provider may have a new key.
            Err(refused @ (TokenError::Key(_) | TokenError::Signature)) => {
                match self.published_after(&known).await? {
                    Some(newer) => Ok(newer.keys.check(&token, &expected)?),
                    None => Err(refused.into()),
                }
            }
            checked => Ok(checked?),
        }
    }

    /// The provider's addresses and keys.
    async fn published(&self) -> Result<Arc<Known>, ProviderError> {
        if let Some(known) = self.kept() {
            return Ok(known);
        }
        let asked = Instant::now();
        let mut reads = self.reading.lock().await;
        if let Some(known) = self.kept() {
            return Ok(known);
        }
        self.read_published(&mut reads, asked).await
    }

    /// What the provider publishes now, if that may be newer than what is known; none if it was read again too often.
    async fn published_after(&self, old: &Arc<Known>) -> Result<Option<Arc<Known>>, ProviderError> {
        let asked = Instant::now();
        let mut reads = self.reading.lock().await;
        // Another login may have read it meanwhile.
        if let Some(known) = self.kept().filter(|known| !Arc::ptr_eq(known, old)) {
            return Ok(Some(known));
        }
        reads.for_keys.retain(|read| read.elapsed() < KEYS_PERIOD);
        if reads.for_keys.len() >= KEYS_READ_MAX {
            return Ok(None);
        }
        reads.for_keys.push(asked);
        self.read_published(&mut reads, asked).await.map(Some)
    }

    /// What is known of the provider, unless it is too old.
    fn kept(&self) -> Option<Arc<Known>> {
        self.known.lock().clone().filter(|known| known.read.elapsed() < KEPT)
    }

    /// Asks the provider, unless it was asked in vain since `asked`.
    async fn read_published(&self, reads: &mut Reads, asked: Instant) -> Result<Arc<Known>, ProviderError> {
        if let Some((failed, error)) = &reads.failed
            && *failed >= asked
        {
            return Err(error.clone());
        }
        match self.ask_published().await {
            Ok(known) => {
                let known = Arc::new(known);
                *self.known.lock() = Some(known.clone());
                reads.failed = None;
                Ok(known)
            }
            Err(error) => {
                reads.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn ask_published(&self) -> Result<Known, ProviderError> {
        let url = format!("{}/.well-known/openid-configuration", self.login.issuer.trim_end_matches('/'));
        let document: Document = self.read(&url, "the description of an OpenID provider").await?;
        document.check(&self.login.issuer).map_err(|(expected, found)| ProviderError::Answer {
            url,
            expected,
            found: found.escape_debug().to_string(),
        })?;
        let jwks_uri = &document.jwks_uri;
        let (status, text) = self.fetcher.get(jwks_uri).await?;
        let keys = Keys::read(&text).ok().filter(|_| status == StatusCode::OK);
        let keys = keys.ok_or_else(|| unexpected(jwks_uri, "a set of keys", status))?;
        Ok(Known { document, keys, read: Instant::now() })
    }

    async fn read<T: DeserializeOwned>(&self, url: &str, expected: &'static str) -> Result<T, ProviderError> {
        let (status, text) = self.fetcher.get(url).await?;
        let document = serde_json::from_slice(&text).ok().filter(|_| status == StatusCode::OK);
        document.ok_or_else(|| unexpected(url, expected, status))
    }

    /// What asks for the ID token, with the portal's secret where the provider takes it.
    fn code_form(&self, document: &Document, code: &str, verifier: &str) -> Form {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("code_verifier", verifier);
        let methods = &document.token_endpoint_auth_methods_supported;
        let offers = |wanted: &str| methods.iter().any(|method| method == wanted);
        // Without a list, the header is what every provider takes.
        let in_form = offers("client_secret_post") && !offers("client_secret_basic");
        let LoginSection { client_id, .. } = &self.login;
        let authorization = match in_form {
            true => {
                form.append_pair("client_id", client_id).append_pair("client_secret", &self.secret);
                None
            }
            false => {
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(client_id), encoded(&self.secret));
                Some(format!("Basic {}", STANDARD.encode(pair)))
            }
        };
        Form { body: form.finish(), authorization }
    }

    /// The ID token for a code.
    async fn exchange(
        &self,
        document: &Document,
        code: &str,
        verifier: &str,
    ) -> Result<String, ProviderError> {
        let form = self.code_form(document, code, verifier);
        let url = &document.token_endpoint;
        let (status, text) = self.fetcher.post(url, form).await?;
        if status.is_client_error()
            && let Ok(Refusal { error }) = serde_json::from_slice(&text)
        {
            let error: String = error.escape_debug().take(200).collect();
            // RFC 6749, section 5.2: all other errors are of the portal's registration or of its request.
            return Err(match error.as_str() {
                "invalid_grant" => ProviderError::Refused(error),
                _ => ProviderError::Answer {
                    url: url.clone(),
                    expected: "an ID token",
                    found: format!("the error {error}"),
                },
            });
        }
        let answer: Option<TokenAnswer> =
            serde_json::from_slice(&text).ok().filter(|_| status == StatusCode::OK);
        answer.map(|answer| answer.id_token).ok_or_else(|| unexpected(url, "an ID token", status))
    }
}

fn unexpected(url: &str, expected: &'static str, status: StatusCode) -> ProviderError {
    ProviderError::Answer {
        url: url.to_owned(),
        expected,
        found: format!("something else, with status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_provider_has_no_addresses_without_tls() {
        let document = |token: &str| Document {
            issuer: "https://id.example".to_owned(),
            authorization_endpoint: "https://id.example/authorize".to_owned(),
            token_endpoint: token.to_owned(),
            jwks_uri: "https://keys.example/keys".to_owned(),
            token_endpoint_auth_methods_supported: Vec::new(),
        };
        let check = |issuer: &str, token: &str| {
            let document = Document { issuer: issuer.to_owned(), ..document(token) };
            document.check(issuer).map_err(|(_, found)| found.to_owned())
        };
        assert_eq!(check("https://id.example", "https://id.example/token"), Ok(()));
        assert_eq!(
            check("HTTPS://id.example", "http://127.0.0.1/token"),
            Err("http://127.0.0.1/token".to_owned())
        );
        for token in
            ["http://127.0.0.1:80/token", "http://[::1]/token", "http://id.example/token", "", "ftp://x"]
        {
            assert_eq!(check("https://id.example", token), Err(token.to_owned()));
        }
        assert_eq!(check("http://127.0.0.1:9", "http://127.0.0.1:9/token"), Ok(()));
        let other =
            document("https://id.example/token").check("https://other.example").unwrap_err().1.to_owned();
        assert_eq!(other, "https://id.example");
    }
}
