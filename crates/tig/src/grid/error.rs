//! What can be wrong with a platform.

use pliant_model::NameError;

use super::Level;

/// An invalid platform. `at` is the position of the node, machine or link in the order
/// in which it was added; node 0 is the root.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what its fields are")]
pub enum GridError {
    /// A name cannot be shown.
    #[error("{source}")]
    Name { item: GridItem, source: NameError },
    /// Two things have one name.
    #[error("expected unique names, found `{name}` twice")]
    SameName { item: GridItem, name: String },
    /// A network below a LAN.
    #[error("expected no network below LAN `{lan}`, found `{found}`")]
    BelowLan { lan: String, found: String },
    /// A machine outside every LAN.
    #[error("machine `{machine}`: expected a LAN, found `{node}` above it")]
    NotOnLan { at: usize, machine: String, node: String },
    /// A power that is not above 0.
    #[error("machine `{machine}`: expected a power above 0, found {found}")]
    Power { at: usize, machine: String, found: f64 },
    /// A load outside 0 to 1.
    #[error("machine `{machine}`: expected a load of 0 to 1, found {found}")]
    Load { at: usize, machine: String, found: f64 },
    /// A network without content.
    #[error("{} `{node}`: expected a {}, found none", kind(*level), if *level == Level::Lan { "machine" } else { "network in it" })]
    Empty { at: usize, node: String, level: Level },
    /// A bandwidth that is not above 0.
    #[error("expected a bandwidth above 0, found {found}")]
    Bandwidth { item: GridItem, found: f64 },
    /// A link between two that are no siblings.
    #[error("expected a link between two networks of one parent, found `{}` and `{}`", ends[0], ends[1])]
    NotSiblings { at: usize, ends: [String; 2] },
    /// Two siblings without a bandwidth.
    #[error("expected a bandwidth between `{}` and `{}`, found none", ends[0], ends[1])]
    NoBandwidth { at: usize, ends: [String; 2] },
    /// The user's LAN is none of the grid's.
    #[error("expected the user's LAN to be one of the grid's ({}), found `{found}`", listed(lans))]
    UserLan { found: String, lans: Vec<String> },
}

/// What of a grid an error is about, for those who know where it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GridItem {
    /// The grid as a whole.
    Whole,
    /// The user's LAN.
    UserLan,
    /// The node that was added at this position; 0 is the root.
    Node(usize),
    /// The machine that was added at this position.
    Machine(usize),
    /// The link that was added at this position.
    Link(usize),
}

/// How many LANs an error names.
const LANS_NAMED: usize = 8;

impl GridError {
    /// What it is about.
    pub fn item(&self) -> GridItem {
        match self {
            Self::Name { item, .. } | Self::SameName { item, .. } | Self::Bandwidth { item, .. } => *item,
            Self::BelowLan { .. } => GridItem::Whole,
            Self::NotOnLan { at, .. } | Self::Power { at, .. } | Self::Load { at, .. } => {
                GridItem::Machine(*at)
            }
            Self::Empty { at, .. } | Self::NoBandwidth { at, .. } => GridItem::Node(*at),
            Self::NotSiblings { at, .. } => GridItem::Link(*at),
            Self::UserLan { .. } => GridItem::UserLan,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Name { .. } | Self::SameName { .. } => {
                "mappings identify networks and machines by their names"
            }
            Self::BelowLan { .. } => "the hierarchy is WAN, MAN, LAN",
            Self::NotOnLan { .. } => "machines belong to LANs",
            Self::Power { .. } => "the power has the unit of the MCR, MFlop/s by default",
            Self::Load { .. } => "the load is the share of a machine's power used by others",
            Self::Empty { .. } => "add a network or a machine to it, or remove it",
            Self::Bandwidth { .. } => "bandwidths are in Mb/s",
            Self::NotSiblings { .. } => "links join two LANs of one MAN, two MANs of one WAN, or two WANs",
            Self::NoBandwidth { .. } => "add a link between them, or a bandwidth of their network",
            Self::UserLan { .. } => "the search for machines starts at the user's LAN",
        }
    }
}

/// Names separated by commas, cut after the first eight.
fn listed(names: &[String]) -> String {
    let more = if names.len() > LANS_NAMED { ", ..." } else { "" };
    names[..names.len().min(LANS_NAMED)].join(", ") + more
}

fn kind(level: Level) -> &'static str {
    if level == Level::Lan { "LAN" } else { level.name() }
}
