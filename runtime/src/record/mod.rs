//! The session log's records: append-only, numbered from 0 without gaps, versioned by type.

mod body;
mod carried;
mod codec;
mod decision;
mod seqs;
mod times;

pub use body::*;
pub use carried::Carried;
pub use codec::{DecodeError, RecordHeader, decode, decode_apart, decode_header, encode, encode_apart};
pub use decision::*;

use crate::{CallPath, CommandId, Seq};
use std::sync::Arc;

/// One record. Frozen: it is shared by `Arc` from the moment it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its position in the log.
    pub seq: Seq,
    /// When it was made: milliseconds since 1970 by the host's clock. For people; nothing is ordered by it.
    pub time: u64,
    /// What it is about.
    pub at: At,
    /// The command that it is the outcome of. One a session.
    pub key: Option<CommandId>,
    /// What it says.
    pub body: Body,
}

/// What a record is about, where that applies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct At {
    /// The turn, from 1.
    pub turn: Option<u64>,
    /// The step, from 1.
    pub step: Option<u32>,
    /// The call.
    pub call: Option<CallPath>,
}

impl At {
    /// About the session.
    pub fn session() -> At {
        At::default()
    }
    /// About a turn.
    pub fn turn(turn: u64) -> At {
        At { turn: Some(turn), ..At::default() }
    }
    /// About a step.
    pub fn step(turn: u64, step: u32) -> At {
        At { turn: Some(turn), step: Some(step), call: None }
    }
    /// About a call.
    pub fn call(turn: u64, step: u32, call: CallPath) -> At {
        At { turn: Some(turn), step: Some(step), call: Some(call) }
    }
}

/// A record before it has a number: what the law and the drivers make, and the ledger seals. It is made where it will
/// stay, so that sealing moves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    record: Arc<Record>,
}

impl Draft {
    /// A record-to-be.
    pub fn new(at: At, body: impl Into<Body>) -> Draft {
        Draft { record: Arc::new(Record { seq: Seq(0), time: 0, at, key: None, body: body.into() }) }
    }

    /// As the outcome of this command.
    pub fn of_command(mut self, command: Option<CommandId>) -> Draft {
        if command.is_some() {
            Arc::make_mut(&mut self.record).key = command;
        }
        self
    }

    /// What it is about.
    pub fn at(&self) -> &At {
        &self.record.at
    }

    /// What it says.
    pub fn body(&self) -> &Body {
        &self.record.body
    }

    /// Gives it its place.
    pub fn seal(mut self, seq: Seq, time: u64) -> Arc<Record> {
        // Shared only by a clone of the draft, which then stays as it is.
        let record = Arc::make_mut(&mut self.record);
        (record.seq, record.time) = (seq, time);
        self.record
    }
}
