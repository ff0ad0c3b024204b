//! The OpenID provider: its addresses, its keys, and what it says of a user who logged in (authorization code flow with PKCE).

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use form_urlencoded::{Serializer, byte_serialize};
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, Semaphore};

use super::fetch::{FetchError, Fetcher, Form};
use super::file::{LoginSection, is_protected};
use super::id_token::{Claims, Expected, Keys, TokenError};
use crate::types::now;

/// How long the provider's addresses and keys are kept.
const KEPT: Duration = Duration::from_secs(3600);
/// How old keys are before they are read again for a key that is not among them.
const KEYS_PAUSE: Duration = Duration::from_secs(60);
/// How many logins ask the provider at a time.
const AT_A_TIME: usize = 16;

/// Why the provider did not say who the user is.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProviderError {
    /// It cannot be reached.
    #[error("{0}")]
    Fetch(#[from] FetchError),
    /// Too many logins at a time.
    #[error("expected at most {AT_A_TIME} logins at a time, found one more")]
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
    known: Mutex<Option<Known>>,
    calls: Semaphore,
}

/// What the provider publishes.
struct Known {
    document: Document,
    keys: Keys,
    read: Instant,
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
        Ok(Provider { login, secret, redirect, fetcher, known, calls })
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
        let _permit = self.calls.try_acquire().map_err(|_| ProviderError::Busy)?;
        let document = self.document().await?;
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
        let _permit = self.calls.try_acquire().map_err(|_| ProviderError::Busy)?;
        let document = self.document().await?;
        let token = self.exchange(&document, code, verifier).await?;
        let expected =
            Expected { issuer: &self.login.issuer, client_id: &self.login.client_id, nonce, now: now() };
        match self.check(&token, &expected).await {
            // The provider may have a new key.
            Err(ProviderError::Token(TokenError::Key(_) | TokenError::Signature))
                if self.forget_keys().await =>
            {
                self.document().await?;
                self.check(&token, &expected).await
            }
            checked => checked,
        }
    }

    async fn check(&self, token: &str, expected: &Expected<'_>) -> Result<Claims, ProviderError> {
        let known = self.known.lock().await;
        let no_keys = Keys::default();
        Ok(known.as_ref().map_or(&no_keys, |known| &known.keys).check(token, expected)?)
    }

    /// Forgets the keys if they are old enough to be read again.
    async fn forget_keys(&self) -> bool {
        let mut known = self.known.lock().await;
        let is_old = known.as_ref().is_none_or(|known| known.read.elapsed() >= KEYS_PAUSE);
        if is_old {
            *known = None;
        }
        is_old
    }

    /// The provider's addresses; its keys are read with them.
    async fn document(&self) -> Result<Document, ProviderError> {
        // Locked while the provider is asked: several logins ask once.
        let mut known = self.known.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.read.elapsed() < KEPT) {
            return Ok(known.document.clone());
        }
        let url = format!("{}/.well-known/openid-configuration", self.login.issuer.trim_end_matches('/'));
        let document: Document = self.read(&url, "the description of an OpenID provider").await?;
        if document.issuer != self.login.issuer {
            let found = document.issuer.escape_debug().to_string();
            return Err(ProviderError::Answer { url, expected: "the issuer of login.issuer", found });
        }
        let Document { authorization_endpoint, token_endpoint, jwks_uri, .. } = &document;
        for found in [authorization_endpoint, token_endpoint, jwks_uri] {
            if !is_protected(found) {
                let found = found.escape_debug().to_string();
                return Err(ProviderError::Answer { url, expected: "https URLs", found });
            }
        }
        let (status, text) = self.fetcher.get(jwks_uri).await?;
        let keys = Keys::read(&text).ok().filter(|_| status == StatusCode::OK);
        let keys = keys.ok_or_else(|| unexpected(jwks_uri, "a set of keys", status))?;
        *known = Some(Known { document: document.clone(), keys, read: Instant::now() });
        Ok(document)
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
            return Err(ProviderError::Refused(error.escape_debug().take(200).collect()));
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
