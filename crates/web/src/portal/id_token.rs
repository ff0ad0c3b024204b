//! ID tokens of OpenID Connect: signatures (RFC 7515, RFC 7517, RFC 7518) and claims (OpenID Connect Core 1.0, section 3.1.3.7).
//!
//! The cryptography is ring's, as everywhere in Pliant; here are the forms of tokens and keys, and what is expected.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pliant_model::Time;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// How far the clocks of the portal and the provider may differ, in seconds.
const CLOCKS_APART_S: i64 = 60;
/// The most keys of a provider that are kept.
const KEYS_MAX: usize = 64;

/// What an ID token says.
pub(super) type Claims = Map<String, Value>;

/// What a token has to say.
pub(super) struct Expected<'a> {
    /// The issuer.
    pub(super) issuer: &'a str,
    /// The portal's ID at the provider.
    pub(super) client_id: &'a str,
    /// What the portal gave the login that the token is for.
    pub(super) nonce: &'a str,
    /// The present.
    pub(super) now: Time,
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    /// It is no signed token.
    #[error("expected a signed token, found something else: {0}")]
    Form(&'static str),
    /// The signature is of a kind that is not accepted.
    #[error("expected a signature by RS256, RS384, RS512, PS256, ES256, ES384 or EdDSA, found {0}")]
    Algorithm(String),
    /// The provider does not publish the key.
    #[error("expected a key that the provider publishes, found {0}")]
    Key(String),
    /// The signature is wrong.
    #[error("expected a signature by the provider, found another one")]
    Signature,
    /// A claim is wrong.
    #[error("{claim}: expected {expected}, found {found}")]
    Claim {
        /// The claim.
        claim: &'static str,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
}

/// The keys that a provider publishes.
#[derive(Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Key {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl Keys {
    /// Reads a key set. Keys of unknown kinds are left out, as RFC 7517 asks.
    pub(super) fn read(text: &[u8]) -> Result<Keys, serde_json::Error> {
        let set: KeySet = serde_json::from_slice(text)?;
        let known = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        Ok(Keys(known.filter(|key: &Key| key.purpose.as_deref() != Some("enc")).take(KEYS_MAX).collect()))
    }

    /// What a token says, if its signature and its claims are as expected.
    pub(super) fn check(&self, token: &str, expected: &Expected<'_>) -> Result<Claims, TokenError> {
        let claims = self.signed(token)?;
        check_claims(&claims, expected)?;
        Ok(claims)
    }

    /// What a token with a good signature says.
    fn signed(&self, token: &str) -> Result<Claims, TokenError> {
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Form("no signature"))?;
        let (header, payload) = message.split_once('.').ok_or(TokenError::Form("no header"))?;
        let header: Header = json(header, "the header")?;
        if header.crit.is_some() {
            return Err(TokenError::Form("extensions that have to be understood"));
        }
        let signature = bytes(signature).ok_or(TokenError::Form("the signature is not base64url"))?;
        let mut failed = None;
        for key in self.0.iter().filter(|key| key.may_sign(&header)) {
            match key.verify(&header.alg, message.as_bytes(), &signature) {
                Ok(true) => return json(payload, "the claims"),
                Ok(false) => failed = Some(TokenError::Signature),
                // A key that is damaged says nothing about the others.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        check_algorithm(&header.alg)?;
        Err(TokenError::Key(header.kid.map_or("none".to_owned(), |kid| kid.escape_debug().to_string())))
    }
}

/// The kind of key and, of elliptic curves, the curve that an algorithm needs.
fn check_algorithm(alg: &str) -> Result<(&'static str, Option<&'static str>), TokenError> {
    match alg {
        "RS256" | "RS384" | "RS512" | "PS256" => Ok(("RSA", None)),
        "ES256" => Ok(("EC", Some("P-256"))),
        "ES384" => Ok(("EC", Some("P-384"))),
        "EdDSA" => Ok(("OKP", Some("Ed25519"))),
        // `none` and secrets that both sides share are among them.
        other => Err(TokenError::Algorithm(other.escape_debug().to_string())),
    }
}

impl Key {
    /// True if a token with that header may be signed by this key.
    fn may_sign(&self, header: &Header) -> bool {
        let Ok((kind, curve)) = check_algorithm(&header.alg) else { return false };
        self.kty == kind
            && (curve.is_none() || self.crv.as_deref() == curve)
            && self.alg.as_ref().is_none_or(|alg| *alg == header.alg)
            && header.kid.as_ref().is_none_or(|kid| self.kid.as_ref() == Some(kid))
    }

    fn verify(&self, alg: &str, message: &[u8], signature: &[u8]) -> Result<bool, TokenError> {
        let part = |part: &Option<String>| {
            let found = part.as_ref().and_then(|text| bytes(text));
            found.ok_or(TokenError::Form("a key of the provider lacks a part"))
        };
        let rsa = |parameters: &'static RsaParameters| {
            let key = RsaPublicKeyComponents { n: part(&self.n)?, e: part(&self.e)? };
            Ok(key.verify(parameters, message, signature).is_ok())
        };
        let plain = |algorithm: &'static dyn VerificationAlgorithm, key: Vec<u8>| {
            Ok(UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok())
        };
        // An uncompressed point of SEC 1.
        let point = || Ok([vec![4], part(&self.x)?, part(&self.y)?].concat());
        match alg {
            "RS256" => rsa(&RSA_PKCS1_2048_8192_SHA256),
            "RS384" => rsa(&RSA_PKCS1_2048_8192_SHA384),
            "RS512" => rsa(&RSA_PKCS1_2048_8192_SHA512),
            "PS256" => rsa(&RSA_PSS_2048_8192_SHA256),
            "ES256" => plain(&ECDSA_P256_SHA256_FIXED, point()?),
            "ES384" => plain(&ECDSA_P384_SHA384_FIXED, point()?),
            "EdDSA" => plain(&ED25519, part(&self.x)?),
            other => Err(TokenError::Algorithm(other.escape_debug().to_string())),
        }
    }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

fn json<T: for<'a> Deserialize<'a>>(text: &str, what: &'static str) -> Result<T, TokenError> {
    let bytes = bytes(text).ok_or(TokenError::Form(what))?;
    serde_json::from_slice(&bytes).map_err(|_| TokenError::Form(what))
}

fn check_claims(claims: &Claims, expected: &Expected<'_>) -> Result<(), TokenError> {
    let Expected { issuer, client_id, nonce, now } = *expected;
    is_text(claims, "iss", issuer)?;
    let audiences: Vec<&Value> = match claims.get("aud") {
        Some(Value::Array(several)) => several.iter().collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    };
    if !audiences.iter().any(|one| one.as_str() == Some(client_id)) {
        return Err(wrong("aud", format!("`{client_id}`"), claims.get("aud")));
    }
    // With several audiences, the token must be for us by name.
    if audiences.len() > 1 || claims.contains_key("azp") {
        is_text(claims, "azp", client_id)?;
    }
    is_text(claims, "nonce", nonce)?;
    let time = |claim: &'static str| {
        let found = claims.get(claim);
        // Some providers have fractions of seconds.
        let time = found.and_then(|time| time.as_i64().or_else(|| time.as_f64().map(|time| time as i64)));
        time.ok_or_else(|| wrong(claim, "a time".to_owned(), found))
    };
    if time("exp")?.saturating_add(CLOCKS_APART_S) <= now.0 {
        return Err(wrong("exp", format!("a time after {}", now.0), claims.get("exp")));
    }
    for claim in ["iat", "nbf"] {
        if (claim == "iat" || claims.contains_key(claim))
            && time(claim)?.saturating_sub(CLOCKS_APART_S) > now.0
        {
            return Err(wrong(claim, format!("a time until {}", now.0), claims.get(claim)));
        }
    }
    Ok(())
}

fn is_text(claims: &Claims, claim: &'static str, expected: &str) -> Result<(), TokenError> {
    match claims.get(claim) {
        Some(Value::String(found)) if found == expected => Ok(()),
        found => Err(wrong(claim, format!("`{expected}`"), found)),
    }
}

fn wrong(claim: &'static str, expected: impl fmt::Display, found: Option<&Value>) -> TokenError {
    let found = found.map_or("none".to_owned(), |found| found.to_string().chars().take(200).collect());
    TokenError::Claim { claim, expected: expected.to_string(), found }
}

#[cfg(test)]
mod tests;
