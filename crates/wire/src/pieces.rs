//! Answers of children that are too long for one message: the queue of a busy cluster has tens of thousands of jobs.
//!
//! The bytes of such an answer are cut, and go one piece after the other among the other messages of the connection. So heartbeats and status updates
//! do not wait, and no daemon has to take messages of any length.

use std::collections::VecDeque;

use prost::Message;

use super::proto::{self, up};
use super::{FromChild, Malformed};

/// How long a piece is at most: far below the shortest limit of a message.
const PIECE_BYTES: usize = 64 << 10;
/// How long an answer may be: more than a million waiting jobs.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A message of a child, cut if it is a long answer.
pub fn in_pieces(message: proto::Up) -> VecDeque<proto::Up> {
    match &message.message {
        Some(up::Message::Answer(answer)) if answer.encoded_len() > PIECE_BYTES => {
            let bytes = answer.encode_to_vec();
            let count = bytes.len().div_ceil(PIECE_BYTES);
            let piece = |(index, bytes): (usize, &[u8])| {
                let (discovery, last) = (answer.discovery, index + 1 == count);
                let piece = proto::Piece { discovery, bytes: bytes.to_vec(), last };
                proto::Up { message: Some(up::Message::Piece(piece)) }
            };
            bytes.chunks(PIECE_BYTES).enumerate().map(piece).collect()
        }
        _ => VecDeque::from([message]),
    }
}

/// The received pieces of an answer.
#[derive(Default)]
pub struct Pieces {
    discovery: u64,
    bytes: Vec<u8>,
}

impl Pieces {
    /// Takes a piece in; the answer, once that was the last one. A piece of another answer begins that one.
    ///
    /// # Errors
    ///
    /// If the answer is too long, or none.
    pub fn take(&mut self, discovery: u64, piece: &[u8], last: bool) -> Result<Option<FromChild>, Malformed> {
        if self.discovery != discovery {
            *self = Pieces { discovery, bytes: Vec::new() };
        }
        let length = self.bytes.len() + piece.len();
        if length > ANSWER_BYTES_MAX {
            return Err(Malformed::new("piece", format!("at most {ANSWER_BYTES_MAX} bytes"), length));
        }
        self.bytes.extend_from_slice(piece);
        if !last {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.bytes);
        let answer = proto::Answer::decode(&bytes[..])
            .map_err(|error| Malformed::new("piece", "the bytes of an answer", error))?;
        FromChild::try_from(proto::Up { message: Some(up::Message::Answer(answer)) }).map(Some)
    }
}
