//! Records as text: one JSON object a record, as the journals keep it and `--json` prints it.
//!
//! `{"seq":0,"time":…,"type":"session/created","v":1,"turn":…,"step":…,"call":[…],"data":{…}}`; `turn`, `step` and `call`
//! only where they apply, `"key"` where a command caused it, `"ignorable":true` for an owner's record.

use super::{At, Body, Record};
use crate::{CallPath, CommandId, Frozen, Seq, seam::OwnRecord};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    seq: Seq,
    time: u64,
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<CallPath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<CommandId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ignorable: bool,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// What a line says of its record, all but the data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordHeader {
    /// Its position in the log.
    pub seq: Seq,
    /// When it was made: milliseconds since 1970.
    pub time: u64,
    /// Its type.
    pub kind: String,
    /// The version of the type that it was written in.
    pub version: u32,
    /// What it is about.
    pub at: At,
}

/// Why a text is no record of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The envelope or the data has another shape.
    #[error("record {at} does not read as `{kind}`: {why}")]
    Shape {
        /// Where, as far as that could be read.
        at: String,
        /// The type, as far as that could be read.
        kind: String,
        /// What is wrong.
        why: String,
    },
    /// A type that this build does not know and must not skip.
    #[error("record {seq} has the type `{kind}`, which this version does not know; a newer one wrote it")]
    UnknownType {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
    },
    /// A version of a type that this build does not know.
    #[error(
        "record {seq} is `{kind}` version {version}, this version reads up to {known}; a newer one wrote it"
    )]
    TooNew {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
        /// Its version.
        version: u32,
        /// The newest version known here.
        known: u32,
    },
}

/// Writes a record as one line of JSON, without the line break.
///
/// # Panics
/// Never for a record of this crate: its types have only text keys.
pub fn encode(record: &Record) -> String {
    write(record, data(record))
}

/// Writes a record as [`encode`] does; but data of more than `limit` bytes are handed back beside the line, in which `null`
/// stands for them.
///
/// # Panics
/// As [`encode`].
pub fn encode_apart(record: &Record, limit: usize) -> (String, Option<String>) {
    let data = data(record);
    if data.len() > limit { (write(record, "null".into()), Some(data)) } else { (write(record, data), None) }
}

fn data(record: &Record) -> String {
    record.body.data().expect("records have text keys only")
}

fn write(record: &Record, data: String) -> String {
    let data = RawValue::from_string(data).expect("serialised JSON is JSON");
    let envelope = Envelope {
        seq: record.seq,
        time: record.time,
        kind: record.body.kind().into(),
        v: record.body.version(),
        turn: record.at.turn,
        step: record.at.step,
        call: record.at.call.clone(),
        key: record.key.clone(),
        ignorable: matches!(record.body, Body::Own(_)),
        data: &data,
    };
    serde_json::to_string(&envelope).expect("records have text keys only")
}

fn envelope(text: &str) -> Result<Envelope<'_>, DecodeError> {
    serde_json::from_str(text).map_err(|e| DecodeError::Shape {
        at: "?".into(),
        kind: "?".into(),
        why: e.to_string(),
    })
}

/// Reads what a line says of its record, also of one whose type is not known here.
pub fn decode_header(text: &str) -> Result<RecordHeader, DecodeError> {
    let Envelope { seq, time, kind, v, turn, step, call, .. } = envelope(text)?;
    Ok(RecordHeader { seq, time, kind: kind.into_owned(), version: v, at: At { turn, step, call } })
}

/// Reads a record back.
pub fn decode(text: &str) -> Result<Record, DecodeError> {
    let envelope = envelope(text)?;
    let data = envelope.data.get();
    read(envelope, data)
}

/// Reads a record back whose data were handed back beside its line.
pub fn decode_apart(line: &str, data: &str) -> Result<Record, DecodeError> {
    read(envelope(line)?, data)
}

fn read(envelope: Envelope<'_>, data: &str) -> Result<Record, DecodeError> {
    let at = At { turn: envelope.turn, step: envelope.step, call: envelope.call };
    let shape = |why: String| DecodeError::Shape {
        at: envelope.seq.to_string(),
        kind: envelope.kind.to_string(),
        why,
    };
    let known = Body::TYPES.iter().find(|(kind, _)| *kind == envelope.kind).map(|(_, version)| *version);
    let body = match known {
        Some(known) if envelope.v > known => {
            return Err(DecodeError::TooNew {
                seq: envelope.seq,
                kind: envelope.kind.into_owned(),
                version: envelope.v,
                known,
            });
        }
        Some(_) => match Body::read(&envelope.kind, data) {
            Some(read) => read.map_err(|e| shape(e.to_string()))?,
            None => return Err(shape("no reader".into())),
        },
        None if envelope.ignorable => Body::Own(OwnRecord {
            kind: Arc::from(&*envelope.kind),
            data: Frozen::parse(data).map_err(|e| shape(e.to_string()))?,
        }),
        None => {
            return Err(DecodeError::UnknownType { seq: envelope.seq, kind: envelope.kind.into_owned() });
        }
    };
    Ok(Record { seq: envelope.seq, time: envelope.time, at, key: envelope.key, body })
}
