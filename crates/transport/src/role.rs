//! Roles and names: what an identity is, and how a certificate spells it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The role of a certificate's holder in a federation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A daemon that finds servers and runs the grid-level policies.
    Agent,
    /// A daemon in front of one cluster.
    Server,
    /// A user, who submits jobs, and sees and cancels their own.
    User,
    /// An operator, who sees and cancels all jobs.
    Operator,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 4] = [Role::Agent, Role::Server, Role::User, Role::Operator];

    /// The role's word in certificates, files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Server => "server",
            Self::User => "user",
            Self::Operator => "operator",
        }
    }

    /// Whether holders accept connections.
    pub const fn is_daemon(self) -> bool {
        matches!(self, Self::Agent | Self::Server)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that is no role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownRole {
    /// What was found.
    pub found: String,
}

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found.escape_debug();
        write!(f, "expected a role (agent, server, user or operator), found `{found}`")
    }
}

impl std::error::Error for UnknownRole {}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Role, UnknownRole> {
        let role = Role::ALL.into_iter().find(|role| role.name() == word);
        role.ok_or_else(|| UnknownRole { found: word.to_owned() })
    }
}

/// An identity: a role and a name, unique together in a federation. The name has been checked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    role: Role,
    name: String,
}

/// A name that no identity can have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameError {
    /// For which role.
    pub role: Role,
    /// What was found.
    pub found: String,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = if self.role.is_daemon() { "and `-`" } else { "`-`, `_`, `.` and `@`" };
        let found: String = self.found.chars().take(NAME_MAX + 1).flat_map(char::escape_debug).collect();
        write!(
            f,
            "expected a name for {} {} of 1 to {NAME_MAX} lower-case letters, digits, {marks} that begins and ends \
             with a letter or digit, found `{found}`",
            if matches!(self.role, Role::Agent | Role::Operator) { "an" } else { "a" },
            self.role,
        )
    }
}

impl std::error::Error for NameError {}

/// The longest name, in characters: what one label of a DNS name holds.
const NAME_MAX: usize = 63;

impl Identity {
    /// An identity, if the name can be one: 1 to 63 lower-case letters, digits and `-`, for people also `_`, `.`
    /// and `@`, with a letter or digit at both ends. Lower case only, because DNS names do not distinguish `A` and `a`.
    pub fn new(role: Role, name: &str) -> Result<Identity, NameError> {
        let plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        let mark = |letter: u8| match letter {
            b'-' => true,
            b'_' | b'.' | b'@' => !role.is_daemon(),
            _ => false,
        };
        let bytes = name.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        let good = bytes.len() <= NAME_MAX
            && ends.iter().all(|end| end.is_some_and(|letter| plain(*letter)))
            && bytes.iter().all(|letter| plain(*letter) || mark(*letter));
        if good {
            Ok(Identity { role, name: name.to_owned() })
        } else {
            Err(NameError { role, found: name.to_owned() })
        }
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Its name among those of its role.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URI in a certificate: `pliant://ROLE/NAME`.
    pub fn uri(&self) -> String {
        format!("pliant://{}/{}", self.role, self.name)
    }

    /// The DNS name that clients of a daemon ask for: `NAME.ROLE.pliant`.
    pub fn domain(&self) -> String {
        format!("{}.{}.{DOMAIN}", self.name, self.role)
    }
}

/// The end of the DNS names that stand for identities.
pub(super) const DOMAIN: &str = "pliant";

/// `ROLE/NAME`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.role, self.name)
    }
}
