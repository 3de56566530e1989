//! From records to lines: a pure projection. What all shapes share is here: the names of lines, which of them a file has
//! already, and the time.

use super::Shape;
use crate::uuid::uuid;
use portcullis_runtime::{Body, Record, Seq, SessionId};
use sha2::{Digest, Sha256};
use std::{fmt::Debug, sync::Arc};

/// Whose conversation it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whose {
    /// The session whose log it is.
    pub(crate) session: SessionId,
    /// The session at the root of its tree, which is what hooks know.
    pub(crate) root: SessionId,
}

impl Whose {
    pub(super) fn is_subagent(&self) -> bool {
        self.session != self.root
    }
}

/// How a client writes a conversation down.
pub(super) trait Script: Debug + Send {
    /// Writes the lines of the next record.
    fn add(&mut self, record: &Record, page: &mut Page<'_>);

    /// The lines before are there already; this model is said in the last one that says which it is.
    fn goes_on(&mut self, model: Option<Arc<str>>);
}

/// The lines of one conversation, one record after another.
#[derive(Debug)]
pub(crate) struct Lines {
    shape: Shape,
    whose: Whose,
    script: Box<dyn Script>,
    /// When the session was created: two logs may have one name, one after the other.
    born: u64,
    last: Option<String>,
    /// Up to and with this line, everything is there already.
    known: Option<String>,
}

impl Lines {
    pub(crate) fn new(shape: Shape, whose: Whose) -> Lines {
        Lines { shape, whose, script: shape.script(), born: 0, last: None, known: None }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Goes on with a file whose last line is `known`, from the record at which that shape's state begins.
    pub(crate) fn behind(mut self, known: String, model: Option<Arc<str>>) -> Lines {
        self.known = Some(known);
        self.script.goes_on(model);
        self
    }

    /// From the first record again, for a file that has nothing.
    pub(crate) fn begin_anew(&mut self) {
        *self = Lines::new(self.shape, self.whose.clone());
    }

    /// True while the last line that the file has was not met: if the log ends like this, the file is not of this log.
    pub(crate) fn is_astray(&self) -> bool {
        self.known.is_some()
    }

    /// Adds the lines of the next record.
    pub(crate) fn add(&mut self, record: &Record, out: &mut String) {
        if let Body::SessionCreated(_) = &record.body {
            self.born = record.time;
        }
        let Lines { whose, born, last, known, .. } = self;
        let mut page = Page { whose, born: *born, record, part: 0, last, known, out };
        self.script.add(record, &mut page);
    }
}

/// Takes the lines of one record.
pub(super) struct Page<'p> {
    whose: &'p Whose,
    born: u64,
    record: &'p Record,
    part: u32,
    last: &'p mut Option<String>,
    known: &'p mut Option<String>,
    out: &'p mut String,
}

/// A line about to be written.
pub(super) struct Line<'p> {
    pub(super) whose: &'p Whose,
    pub(super) uuid: &'p str,
    /// The line before it.
    pub(super) parent: Option<&'p str>,
    /// Milliseconds since 1970.
    pub(super) time: u64,
    pub(super) seq: Seq,
}

impl Page<'_> {
    pub(super) fn whose(&self) -> &Whose {
        self.whose
    }

    /// One line, unless the file has it.
    pub(super) fn line(&mut self, write: impl FnOnce(&Line<'_>, &mut String)) {
        let uuid = self.uuid();
        self.part += 1;
        let parent = self.last.replace(uuid.clone());
        if let Some(known) = &*self.known {
            if *known == uuid {
                *self.known = None;
            }
            return;
        }
        let Record { time, seq, .. } = *self.record;
        let line = Line { whose: self.whose, uuid: &uuid, parent: parent.as_deref(), time, seq };
        write(&line, self.out);
        self.out.push('\n');
    }

    /// The same for a line each time: a UUID (version 8) made of the log and of the line's place in it.
    fn uuid(&self) -> String {
        let Page { whose: Whose { session, .. }, born, record: Record { seq, .. }, part, .. } = self;
        uuid(&Sha256::digest(format!("line\n{session}\n{born}\n{seq}\n{part}")))
    }
}

/// Milliseconds since 1970 as `2026-11-30T10:00:00.000Z`.
pub(super) fn timestamp(ms: u64) -> String {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The Gregorian date of a day since 1970. Years are counted from March, so that the odd day comes last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_709_164_800_001, "2024-02-29T00:00:00.001Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(ms), text);
        }
    }
}
