//! Errors of authorities.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pliant_config::ContentError;

use super::credentials::TlsError;
use super::dates::date;
use super::role::{Identity, NameError};

/// A request that an authority refuses or fails.
#[derive(Debug)]
pub enum AuthorityError {
    /// A file or folder cannot be read or written.
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// An authority is to be made where one is.
    Exists {
        /// Its folder.
        dir: PathBuf,
    },
    /// There is no authority in a folder.
    Missing {
        /// The folder.
        dir: PathBuf,
    },
    /// The register is damaged: where, what was expected and what was found.
    Register(ContentError),
    /// A federation cannot have that name.
    Federation(pliant_model::NameError),
    /// An identity cannot have that name.
    Name(NameError),
    /// A certificate cannot carry that further name.
    ExtraName {
        /// What was found.
        found: String,
        /// Why not.
        problem: &'static str,
    },
    /// A certificate cannot last that long.
    Days {
        /// How many days were asked for.
        found: u32,
        /// How many there can be.
        most: i64,
    },
    /// The name has a certificate that is not revoked.
    Taken {
        /// `ROLE/NAME`.
        holder: String,
        /// The last second in which that certificate is valid, since the Unix epoch.
        not_after: i64,
    },
    /// No certificate has that name or serial.
    Unknown {
        /// What was found.
        found: String,
    },
    /// More than one holder fits.
    Ambiguous {
        /// What was found.
        found: String,
        /// Those that fit.
        holders: Vec<String>,
    },
    /// The folder for a certificate holds one already.
    Occupied {
        /// The file that is in the way.
        path: PathBuf,
    },
    /// The key and the certificate of the authority do not belong together.
    Keys {
        /// The folder of the authority.
        dir: PathBuf,
        /// The file of the key.
        key: String,
    },
    /// A request for a certificate cannot be accepted.
    Request {
        /// Its file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A request asks for the certificate of another holder than the operator.
    OtherHolder {
        /// Whose certificate the request asks for.
        requested: Identity,
        /// Whose certificate the operator asks for.
        found: Identity,
    },
    /// The key of a request has been certified, for another holder or in a certificate that was revoked.
    UsedKey {
        /// `ROLE/NAME` of that certificate.
        holder: String,
        /// Whether that certificate was revoked.
        is_revoked: bool,
    },
    /// A certificate is not of a key in the holder's folder.
    OtherKey {
        /// Its file.
        certificate: PathBuf,
        /// The folder.
        dir: PathBuf,
    },
    /// A key of a holder cannot be made or used.
    Key(rcgen::Error),
    /// The files of a holder cannot be used.
    Own(TlsError),
    /// A step of a replacement is not the next one.
    Rollover {
        /// What has to be there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// The old root cannot be dropped, since there are holders who have no certificate of the new one.
    NotRenewed {
        /// `ROLE/NAME` of each.
        holders: Vec<String>,
    },
    /// A key or certificate of the authority cannot be used, or nothing can be signed with it.
    Signing {
        /// The folder of the authority.
        dir: PathBuf,
        /// Why.
        source: rcgen::Error,
    },
}

impl AuthorityError {
    /// Whether the request was wrong, rather than the system.
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::Keys { .. } | Self::Signing { .. })
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Io { .. } | Self::Federation(_) | Self::Name(_) => return None,
            Self::Own(error) => return error.hint().map(str::to_owned),
            Self::Request { .. } => "`pliant ca request ROLE NAME` makes a request on the holder's machine",
            Self::OtherHolder { .. } => {
                "ask its sender; nothing was signed. The name decides whose jobs the holder sees"
            }
            Self::UsedKey { is_revoked: true, .. } => "the holder has to make a new key: `pliant ca request`",
            Self::UsedKey { .. } => "each holder makes a key of their own: `pliant ca request`",
            Self::OtherKey { .. } => "name the folder in which `pliant ca request` made the key",
            Self::Key(_) => "key.pem must hold a key that Pliant made",
            Self::Rollover { .. } => "`pliant ca rollover --ca DIR` shows how far it is",
            Self::NotRenewed { .. } => "renew their certificates, or lock them out with --force",
            Self::Exists { .. } => {
                "choose another folder; an authority whose key is lost is replaced, not repaired"
            }
            Self::Missing { .. } => "`pliant ca init DIR` makes one",
            Self::Register(error) => &error.hint,
            Self::ExtraName { .. } => "further names are DNS names and addresses of a daemon's host",
            Self::Days { .. } => "a certificate cannot outlive its authority",
            Self::Taken { .. } => {
                "--renew issues another one; the old one stays valid until it expires or is revoked"
            }
            Self::Unknown { .. } => "`pliant ca list` shows every certificate",
            Self::Ambiguous { .. } => "say ROLE/NAME or the serial",
            Self::Occupied { .. } => "choose another folder, or renew with --renew",
            Self::Keys { .. } | Self::Signing { .. } => {
                "ca.pem and the key must be a pair that `pliant ca` made: restore the folder from a copy"
            }
        };
        Some(hint.to_owned())
    }
}

impl fmt::Display for AuthorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, action, source } => write!(f, "{}: cannot {action}: {source}", path.display()),
            Self::Exists { dir } => {
                write!(
                    f,
                    "{}: expected a folder without an authority, found one with its files",
                    dir.display()
                )
            }
            Self::Missing { dir } => {
                write!(
                    f,
                    "{}: expected the folder of an authority, found no register.toml in it",
                    dir.display()
                )
            }
            Self::Register(ContentError { path, line, column, message, .. }) => {
                let path = path.display();
                write!(f, "{path}:{line}:{column}: expected the register of an authority: {message}")
            }
            Self::Federation(error) => write!(f, "federation: {error}"),
            Self::Name(error) => write!(f, "{error}"),
            Self::ExtraName { found, problem } => {
                write!(f, "expected a further name of a daemon, found `{}`: {problem}", found.escape_debug())
            }
            Self::Days { found, most } => write!(f, "expected 1 to {most} days, found {found}"),
            Self::Taken { holder, not_after } => {
                let day = date(*not_after);
                write!(f, "expected a holder without a certificate, found {holder} with one until {day}")
            }
            Self::Unknown { found } => {
                write!(f, "expected the name or serial of a certificate, found `{}`", found.escape_debug())
            }
            Self::Ambiguous { found, holders } => {
                let found = found.escape_debug();
                write!(
                    f,
                    "expected one holder, found {} for `{found}`: {}",
                    holders.len(),
                    holders.join(", ")
                )
            }
            Self::Occupied { path } => {
                write!(f, "{}: expected no file, found one", path.display())
            }
            Self::Keys { dir, key } => {
                write!(f, "{}: expected {key} to be a key of ca.pem, found another one", dir.display())
            }
            Self::Request { path, problem } => {
                write!(f, "{}: expected a request for a certificate (PEM): {problem}", path.display())
            }
            Self::OtherHolder { requested, found } => {
                write!(f, "expected a request for a certificate of {found}, found one of {requested}")
            }
            Self::UsedKey { holder, is_revoked } => {
                let state = if *is_revoked { " that was revoked" } else { "" };
                write!(f, "expected a key without a certificate of somebody else or a revoked one, ")?;
                write!(f, "found that of a certificate of {holder}{state}")
            }
            Self::OtherKey { certificate, dir } => {
                write!(
                    f,
                    "{}: expected a certificate of a key in {}, found one of another key",
                    certificate.display(),
                    dir.display()
                )
            }
            Self::Key(source) => write!(f, "cannot make or use a key: {source}"),
            Self::Own(error) => write!(f, "{error}"),
            Self::Rollover { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::NotRenewed { holders } => {
                write!(f, "expected certificates of the new root for all holders, found none of ")?;
                write!(f, "{}", holders.join(", "))
            }
            Self::Signing { dir, source } => {
                write!(f, "{}: cannot sign with the authority's key: {source}", dir.display())
            }
        }
    }
}

impl std::error::Error for AuthorityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Federation(error) => Some(error),
            Self::Name(error) => Some(error),
            Self::Signing { source, .. } => Some(source),
            Self::Key(source) => Some(source),
            Self::Own(source) => Some(source),
            Self::Register(error) => Some(error),
            _ => None,
        }
    }
}

impl From<NameError> for AuthorityError {
    fn from(error: NameError) -> AuthorityError {
        AuthorityError::Name(error)
    }
}

/// A failure of the system with that file.
pub(super) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> AuthorityError {
    move |source| AuthorityError::Io { path: path.to_owned(), action, source }
}
