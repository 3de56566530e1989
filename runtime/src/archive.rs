//! Logs as a file: what leaves a journal whole, and can go into one again.
//!
//! JSON lines. The first says what follows:
//! `{"portcullis":"log","v":1,"sessions":[{"session":"run-1","records":68},…]}`. Then come the records of each session in
//! that order, each line as the journal keeps it and [`encode`] writes it. A session stands before its subagents.

use crate::{Body, DecodeError, Record, Seq, SessionId, decode, encode, law::State};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The version of the format that is written here.
const VERSION: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    portcullis: Kind,
    v: u32,
    sessions: Vec<Promised>,
}

#[derive(Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "log")]
    Log,
}

#[derive(Serialize, Deserialize)]
struct Promised {
    session: SessionId,
    records: u64,
}

/// One session of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Archived {
    /// The session.
    pub session: SessionId,
    /// Its records, from the first on. They fold.
    pub records: Vec<Arc<Record>>,
}

impl Archived {
    /// A session's log.
    pub fn new(session: SessionId, records: Vec<Arc<Record>>) -> Archived {
        Archived { session, records }
    }

    /// The session that started this one, for a subagent's.
    pub fn parent(&self) -> Option<&SessionId> {
        match self.records.first().map(|record| &record.body) {
            Some(Body::SessionCreated(created)) => Some(&created.parent.as_ref()?.session),
            _ => None,
        }
    }
}

/// Why a text is no archive. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The first line does not say that this is one.
    #[error("line 1 is not the first line of an exported log: {0}")]
    Head(String),
    /// A newer version wrote it.
    #[error(
        "it is an exported log of version {found}, this version reads up to {VERSION}: use the newer one"
    )]
    TooNew {
        /// Its version.
        found: u32,
    },
    /// A line is no record.
    #[error("line {line}: {error}")]
    Record {
        /// The line.
        line: usize,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// A record cannot stand where it does.
    #[error("line {line}, in session `{session}`: {why}")]
    Unlawful {
        /// The line.
        line: usize,
        /// The session.
        session: SessionId,
        /// Which rule it breaks.
        why: String,
    },
    /// It is cut off.
    #[error("it ends after line {lines}; its first line promises {promised} lines")]
    Cut {
        /// How many there are.
        lines: usize,
        /// How many there should be.
        promised: usize,
    },
    /// There is more than the first line says.
    #[error("line {line} is one more than its first line promises")]
    More {
        /// The first one too many.
        line: usize,
    },
    /// A session is in it twice.
    #[error("line 1 names the session `{0}` twice")]
    Twice(SessionId),
}

/// Writes the first line, without its line break. The records of these sessions follow, a line each.
pub fn head_line<'s>(sessions: impl IntoIterator<Item = (&'s SessionId, u64)>) -> String {
    let promised = |(session, records): (&SessionId, u64)| Promised { session: session.clone(), records };
    let head =
        Head { portcullis: Kind::Log, v: VERSION, sessions: sessions.into_iter().map(promised).collect() };
    serde_json::to_string(&head).unwrap_or_default()
}

/// Writes a whole archive, with a line break behind every line.
pub fn write(sessions: &[Archived]) -> String {
    let mut text = head_line(sessions.iter().map(|s| (&s.session, s.records.len() as u64)));
    text.push('\n');
    for record in sessions.iter().flat_map(|session| &session.records) {
        text.push_str(&encode(record));
        text.push('\n');
    }
    text
}

/// True when a text begins as an archive does, whatever follows.
pub fn is_archive(text: &str) -> bool {
    text.lines().next().is_some_and(|line| serde_json::from_str::<Head>(line).is_ok())
}

/// Reads an archive. Every record is read and folded: what comes back is whole and lawful.
///
/// # Errors
/// [`ArchiveError`], with the line.
pub fn read(text: &str) -> Result<Vec<Archived>, ArchiveError> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let (_, first) = lines.next().ok_or_else(|| ArchiveError::Head("there is none".into()))?;
    let head: Head = serde_json::from_str(first).map_err(|e| ArchiveError::Head(e.to_string()))?;
    if head.v > VERSION {
        return Err(ArchiveError::TooNew { found: head.v });
    }
    let promised = head
        .sessions
        .iter()
        .fold(1usize, |sum, s| sum.saturating_add(usize::try_from(s.records).unwrap_or(usize::MAX)));
    let mut sessions: Vec<Archived> = Vec::new();
    for Promised { session, records } in head.sessions {
        if sessions.iter().any(|other| other.session == session) {
            return Err(ArchiveError::Twice(session));
        }
        let (mut state, mut log) = (State::new(), Vec::new());
        for _ in 0..records {
            let (line, text) =
                lines.next().ok_or(ArchiveError::Cut { lines: text.lines().count(), promised })?;
            let record = Arc::new(decode(text).map_err(|error| ArchiveError::Record { line, error })?);
            let unlawful = |why: String| ArchiveError::Unlawful { line, session: session.clone(), why };
            state.apply(&record).map_err(|invalid| unlawful(invalid.to_string()))?;
            if let (Seq(0), Body::SessionCreated(created)) = (record.seq, &record.body)
                && created.id != session
            {
                return Err(unlawful(format!("it is the log of `{}`", created.id)));
            }
            log.push(record);
        }
        sessions.push(Archived { session, records: log });
    }
    match lines.next() {
        Some((line, _)) => Err(ArchiveError::More { line }),
        None => Ok(sessions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{At, Draft, PromptQueued, QueueKind, SessionCreated, Source};

    fn log(name: &str) -> Archived {
        let session = SessionId::new(name).expect("a name");
        let created = SessionCreated {
            id: session.clone(),
            cwd: "/".into(),
            channel: "test".into(),
            parent: None,
            seed: None,
            cleared: None,
        };
        let queued =
            PromptQueued { kind: QueueKind::Prompt, content: "line\nbreak".into(), source: Source::User };
        let bodies = [Body::from(created), queued.into()];
        let seal = |(seq, body)| Draft::new(At::session(), body).seal(Seq(seq), 7);
        let records = (0..).zip(bodies).map(seal).collect();
        Archived { session, records }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let sessions = [log("a"), log("b")];
        let text = write(&sessions);
        assert_eq!(
            text.lines().next(),
            Some(
                r#"{"portcullis":"log","v":1,"sessions":[{"session":"a","records":2},{"session":"b","records":2}]}"#
            )
        );
        assert_eq!(text.lines().count(), 5);
        assert!(is_archive(&text) && !is_archive("{}") && !is_archive(""));
        assert_eq!(read(&text).as_deref(), Ok(&sessions[..]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let text = write(&[log("a")]);
        let lines: Vec<&str> = text.lines().collect();
        let of = |lines: &[&str]| read(&lines.join("\n"));
        assert!(matches!(of(&[]), Err(ArchiveError::Head(_))));
        assert!(matches!(of(&lines[1..]), Err(ArchiveError::Head(_))));
        assert_eq!(of(&lines[..2]), Err(ArchiveError::Cut { lines: 2, promised: 3 }));
        assert_eq!(of(&[&lines[..], &["{}"]].concat()), Err(ArchiveError::More { line: 4 }));
        assert!(matches!(of(&[lines[0], lines[1], "{"]), Err(ArchiveError::Record { line: 3, .. })));
        assert!(matches!(of(&[lines[0], lines[2], lines[1]]), Err(ArchiveError::Unlawful { line: 2, .. })));
        let other = lines[0].replace("\"a\"", "\"b\"");
        assert!(matches!(of(&[&other, lines[1], lines[2]]), Err(ArchiveError::Unlawful { line: 2, .. })));
        let newer = lines[0].replace("\"v\":1", "\"v\":2");
        assert_eq!(of(&[&newer]), Err(ArchiveError::TooNew { found: 2 }));
        let twice = head_line([(&log("a").session, 0), (&log("a").session, 0)]);
        assert!(matches!(of(&[&twice]), Err(ArchiveError::Twice(_))));
    }
}
