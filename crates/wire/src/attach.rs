//! The line between a child and its parent.

use pliant_control::agent::{Ask, ChildKind, Found};
use pliant_control::job::JobRecord;
use pliant_control::names::Name;
use pliant_control::server_info::ServerInfo;
use pliant_model::Time;
use pliant_telemetry::RequestId;

use super::discovery::{question, questioned};
use super::proto::{self, down, hello::Kind, up};
use super::{Malformed, bounds, read, write};

/// What a child tells its parent.
#[derive(Clone, PartialEq, Debug)]
pub enum FromChild {
    /// Who it is: the first message.
    Hello {
        /// Its name. Whether its certificate says the same is for the parent to check.
        name: Name,
        /// What it is.
        kind: ChildKind,
        /// Drawn when its journal was made.
        journal: u64,
        /// The servers that it is or has below it.
        servers: Vec<ServerInfo>,
    },
    /// Those servers have changed.
    Servers(Vec<ServerInfo>),
    /// What came of a question.
    Answer {
        /// The parent's number of the discovery.
        discovery: u64,
        /// What was found.
        found: Found,
    },
    /// How a job stands.
    News {
        /// The child's number of the news.
        sequence: u64,
        /// The job.
        record: Box<JobRecord>,
    },
    /// A piece of the bytes of an answer that is too long for one message.
    Piece {
        /// The parent's number of the discovery.
        discovery: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// The answer is complete.
        last: bool,
    },
    /// It is there. A message that only later versions know says this much, too.
    Heartbeat {
        /// The time by its clock, if it says.
        now: Option<Time>,
    },
    /// Processors are free earlier than planned although no job of the federation has ended.
    Freed,
    /// The journal of a server is new, and it has numbered no job: which numbers are taken?
    Unnumbered {
        /// The server.
        server: Name,
    },
}

/// What a parent tells its child.
#[derive(Clone, PartialEq, Debug)]
pub enum FromParent {
    /// Who would complete this first?
    Question {
        /// The parent's number of the discovery.
        discovery: u64,
        /// What is asked.
        ask: Box<Ask>,
        /// The client's request that it is part of, if that is known.
        request: Option<RequestId>,
        /// A long answer may come in pieces.
        pieces: bool,
    },
    /// News up to there are kept.
    Acknowledge {
        /// The child's number of the last.
        sequence: u64,
        /// The parent answers [`FromChild::Unnumbered`].
        numbers: bool,
    },
    /// Which numbers the jobs of a server have had.
    Numbered {
        /// The server.
        server: Name,
        /// The highest one that is known; 0 if none is.
        highest: u32,
    },
    /// It is there. A message that only later versions know says this much, too.
    Heartbeat,
}

impl From<&FromChild> for proto::Up {
    fn from(message: &FromChild) -> proto::Up {
        let listed = |servers: &[ServerInfo]| write::list(servers, bounds::SERVERS_MAX);
        let message = match message {
            FromChild::Hello { name, kind, journal, servers } => up::Message::Hello(proto::Hello {
                name: name.to_string(),
                kind: match kind {
                    ChildKind::Server => Kind::Server.into(),
                    ChildKind::Agent => Kind::Agent.into(),
                },
                journal: *journal,
                servers: listed(servers),
            }),
            FromChild::Servers(servers) => up::Message::Servers(proto::Servers { servers: listed(servers) }),
            FromChild::Answer { discovery, found } => {
                up::Message::Answer(proto::Answer { discovery: *discovery, found: Some(found.into()) })
            }
            FromChild::Piece { discovery, bytes, last } => {
                up::Message::Piece(proto::Piece { discovery: *discovery, bytes: bytes.clone(), last: *last })
            }
            FromChild::News { sequence, record } => {
                up::Message::News(proto::News { sequence: *sequence, job: Some((&**record).into()) })
            }
            FromChild::Heartbeat { now } => {
                up::Message::Heartbeat(proto::Heartbeat { now: write::optional_time(*now) })
            }
            FromChild::Freed => up::Message::Freed(proto::Freed {}),
            FromChild::Unnumbered { server } => {
                up::Message::Unnumbered(proto::Unnumbered { server: server.to_string() })
            }
        };
        proto::Up { message: Some(message) }
    }
}

impl TryFrom<proto::Up> for FromChild {
    type Error = Malformed;
    fn try_from(message: proto::Up) -> Result<FromChild, Malformed> {
        match message.message {
            Some(up::Message::Hello(hello)) => greeting(hello).map_err(|malformed| malformed.under("hello")),
            Some(up::Message::Servers(told)) => {
                let servers = servers(told.servers).map_err(|malformed| malformed.under("servers"))?;
                Ok(FromChild::Servers(servers))
            }
            Some(up::Message::Answer(answer)) => {
                let found = read::required("answer.found", "what was found", answer.found)?;
                Ok(FromChild::Answer { discovery: answer.discovery, found })
            }
            Some(up::Message::Piece(piece)) => {
                let bytes = read::bytes_to("piece.bytes", piece.bytes, bounds::PIECE_BYTES_MAX)?;
                Ok(FromChild::Piece { discovery: piece.discovery, bytes, last: piece.last })
            }
            Some(up::Message::News(news)) => {
                let record = Box::new(read::required("news.job", "a job", news.job)?);
                Ok(FromChild::News { sequence: news.sequence, record })
            }
            Some(up::Message::Heartbeat(beat)) => {
                Ok(FromChild::Heartbeat { now: read::optional_time("heartbeat.now", beat.now)? })
            }
            Some(up::Message::Unnumbered(asked)) => {
                Ok(FromChild::Unnumbered { server: read::name("unnumbered.server", &asked.server)? })
            }
            Some(up::Message::Freed(proto::Freed {})) => Ok(FromChild::Freed),
            None => Ok(FromChild::Heartbeat { now: None }),
        }
    }
}

fn greeting(hello: proto::Hello) -> Result<FromChild, Malformed> {
    let kind = match Kind::try_from(hello.kind) {
        Ok(Kind::Server) => ChildKind::Server,
        Ok(Kind::Agent) => ChildKind::Agent,
        _ => return Err(Malformed::new("kind", "1 (server) or 2 (agent)", hello.kind)),
    };
    let name = read::name("name", &hello.name)?;
    Ok(FromChild::Hello { name, kind, journal: hello.journal, servers: servers(hello.servers)? })
}

fn servers(found: Vec<proto::ServerInfo>) -> Result<Vec<ServerInfo>, Malformed> {
    read::list("servers", found, bounds::SERVERS_MAX, ServerInfo::try_from)
}

impl From<&FromParent> for proto::Down {
    fn from(message: &FromParent) -> proto::Down {
        let message = match message {
            FromParent::Question { discovery, ask, request, pieces } => {
                let asked = question(*discovery, ask, *request);
                down::Message::Question(proto::Question { pieces: *pieces, ..asked })
            }
            FromParent::Acknowledge { sequence, numbers } => {
                down::Message::Acknowledge(proto::Acknowledge { sequence: *sequence, numbers: *numbers })
            }
            FromParent::Numbered { server, highest } => {
                down::Message::Numbered(proto::Numbered { server: server.to_string(), highest: *highest })
            }
            FromParent::Heartbeat => down::Message::Heartbeat(proto::Heartbeat::default()),
        };
        proto::Down { message: Some(message) }
    }
}

impl TryFrom<proto::Down> for FromParent {
    type Error = Malformed;
    fn try_from(message: proto::Down) -> Result<FromParent, Malformed> {
        match message.message {
            Some(down::Message::Question(asked)) => {
                // It is for log lines: one that is none is worth no error.
                let (discovery, request) = (asked.discovery, asked.request.parse().ok());
                let pieces = asked.pieces;
                let ask = questioned(asked).map_err(|malformed| malformed.under("question"))?;
                Ok(FromParent::Question { discovery, ask: Box::new(ask), request, pieces })
            }
            Some(down::Message::Acknowledge(kept)) => {
                let proto::Acknowledge { sequence, numbers } = kept;
                Ok(FromParent::Acknowledge { sequence, numbers })
            }
            Some(down::Message::Numbered(told)) => {
                let server = read::name("numbered.server", &told.server)?;
                Ok(FromParent::Numbered { server, highest: told.highest })
            }
            Some(down::Message::Heartbeat(_)) | None => Ok(FromParent::Heartbeat),
        }
    }
}
