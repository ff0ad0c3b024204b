//! Secrets: drawn from the operating system, compared without a hint of where they differ.

use std::fmt::Write;

use rand_chacha::rand_core::{OsRng, TryRngCore};
use sha2::{Digest, Sha256};

/// 256 random bits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    /// A new secret.
    ///
    /// # Errors
    ///
    /// If the operating system gives no random numbers.
    pub(crate) fn draw() -> std::io::Result<Secret> {
        let mut bytes = [0; 32];
        OsRng.try_fill_bytes(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Secret(bytes))
    }

    /// As 64 hexadecimal digits.
    pub(crate) fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            // A string takes everything.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// The secret with these 64 hexadecimal digits.
    pub(crate) fn from_hex(text: &str) -> Option<Secret> {
        let mut bytes = [0; 32];
        let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)).filter(|_| is_hex) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        is_hex.then_some(Secret(bytes))
    }

    /// A secret that this one gives for a purpose: who knows it does not know this one.
    pub(crate) fn derived(&self, purpose: &str) -> Secret {
        Secret(Sha256::new().chain_update(purpose).chain_update([0]).chain_update(self.0).finalize().into())
    }

    /// The key of a table of secrets: who sees the table does not know the secrets.
    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }

    /// True if the text is this secret. Both are hashed first, so that the time of the comparison says nothing about the secret.
    pub(crate) fn is(&self, text: &str) -> bool {
        let hash = |bytes: &[u8]| -> [u8; 32] { Sha256::digest(bytes).into() };
        hash(self.hex().as_bytes()) == hash(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_by_its_text_alone() {
        let (one, other) = (Secret::draw().unwrap(), Secret::draw().unwrap());
        assert_eq!(one.hex().len(), 64);
        assert!(one.is(&one.hex()));
        assert!(!one.is(&other.hex()) && !one.is("") && !one.is(&one.hex()[1..]));
        assert!(
            Secret::from_hex(&one.hex()) == Some(one.clone()) && Secret::from_hex(&one.hex()[1..]).is_none()
        );
        assert!(!one.is(&one.hex().to_uppercase()) || one.hex().bytes().all(|byte| byte.is_ascii_digit()));
    }

    #[test]
    fn purposes_have_secrets_of_their_own() {
        let secret = Secret::draw().unwrap();
        let derived = secret.derived("csrf");
        assert!(derived.is(&secret.derived("csrf").hex()));
        assert!(!derived.is(&secret.hex()) && !derived.is(&secret.derived("other").hex()));
    }
}
