//! The frames between a supervisor and a resident process, over the process's standard input and output.
//!
//! ```text
//! frame = "PLF1" kind:u32 length:u64 procs:u32 walltime_s:u32 payload      24 bytes and the payload, little-endian
//! ```
//!
//! | kind | from | payload |
//! |---|---|---|
//! | 1, call | supervisor | the arguments, an encoded list |
//! | 2, result | process | the results, an encoded list |
//! | 3, failure | process | the reason, a text in UTF-8 of at most [`REASON_BYTES_MAX`] bytes |
//!
//! The process answers each call with one result or one failure before it reads the next. `procs` and `walltime_s` are those of
//! the call, and 0 in answers. Its standard input ends when it is to end. What it writes to standard error is kept with the call.

use std::io::{self, Read, Write};

use crate::encoding::VALUES_BYTES_MAX;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 24;
/// The most bytes of the reason of a failure.
pub const REASON_BYTES_MAX: usize = 4096;

const MAGIC: [u8; 4] = *b"PLF1";

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// A call, with its arguments.
    Call,
    /// The results of the call.
    Result,
    /// The reason why the call failed.
    Failure,
}

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the frame is.
    pub kind: FrameKind,
    /// Bytes of its payload.
    pub length: u64,
    /// The processors of a call.
    pub procs: u32,
    /// The walltime of a call in seconds.
    pub walltime_s: u32,
}

/// Bytes that are no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// They do not begin as a frame does.
    #[error("expected a frame, which begins with \"PLF1\", found other bytes")]
    Magic,
    /// No such kind.
    #[error("expected a frame of kind 1 to 3, found kind {0}")]
    Kind(u32),
    /// Too long.
    #[error("expected a frame of at most {allowed} bytes, found {found}")]
    TooLong {
        /// The most bytes of its kind.
        allowed: u64,
        /// How many it has.
        found: u64,
    },
    /// The frame cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl FrameKind {
    fn number(self) -> u32 {
        match self {
            FrameKind::Call => 1,
            FrameKind::Result => 2,
            FrameKind::Failure => 3,
        }
    }

    fn bytes_max(self) -> u64 {
        match self {
            FrameKind::Call | FrameKind::Result => VALUES_BYTES_MAX as u64,
            FrameKind::Failure => REASON_BYTES_MAX as u64,
        }
    }
}

impl Header {
    /// The header of an answer.
    pub fn answer(kind: FrameKind, length: usize) -> Header {
        Header { kind, length: length as u64, procs: 0, walltime_s: 0 }
    }

    /// Its bytes.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.kind.number().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.procs.to_le_bytes());
        bytes[20..].copy_from_slice(&self.walltime_s.to_le_bytes());
        bytes
    }

    /// The header of these bytes.
    ///
    /// # Errors
    /// If they are no header, or the frame is longer than its kind may be.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..4] != MAGIC {
            return Err(FrameError::Magic);
        }
        let kind = match number(4) {
            1 => FrameKind::Call,
            2 => FrameKind::Result,
            3 => FrameKind::Failure,
            kind => return Err(FrameError::Kind(kind)),
        };
        let length = u64::from(number(8)) | u64::from(number(12)) << 32;
        if length > kind.bytes_max() {
            return Err(FrameError::TooLong { allowed: kind.bytes_max(), found: length });
        }
        Ok(Header { kind, length, procs: number(16), walltime_s: number(20) })
    }
}

/// Writes a frame.
///
/// # Errors
/// If it cannot be written.
pub fn write(to: &mut impl Write, header: Header, payload: &[u8]) -> io::Result<()> {
    to.write_all(&header.encode())?;
    to.write_all(payload)?;
    to.flush()
}

/// Reads a frame; none at the end of the input.
///
/// # Errors
/// If the input ends within a frame, or the bytes are no frame.
pub fn read(from: &mut impl Read) -> Result<Option<(Header, Vec<u8>)>, FrameError> {
    let mut first = [0; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match from.read(&mut first[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let header = Header::decode(&first)?;
    // Grows with what arrives, whatever the header says.
    let mut payload = Vec::new();
    from.by_ref().take(header.length).read_to_end(&mut payload)?;
    if (payload.len() as u64) < header.length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some((header, payload)))
}
