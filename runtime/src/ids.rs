//! Names of things: sessions, records, calls, requests, handlers.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// A session's name: 1 to 128 characters of `A-Z a-z 0-9 . _ -`, chosen by the embedder. It is a file name and a column
/// value, so nothing else is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(Arc<str>);

/// Why a text is no [`SessionId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a session name: use 1 to 128 characters of A-Z a-z 0-9 . _ - and start with a letter or digit"
)]
pub struct BadSessionId(String);

impl SessionId {
    /// Checks and takes the name.
    pub fn new(name: impl AsRef<str>) -> Result<SessionId, BadSessionId> {
        let name = name.as_ref();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let sound = (1..=128).contains(&name.len())
            && name.chars().all(plain)
            && name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if sound { Ok(SessionId(name.into())) } else { Err(BadSessionId(name.into())) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SessionId {
    type Error = BadSessionId;
    fn try_from(name: String) -> Result<SessionId, BadSessionId> {
        SessionId::new(name)
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> String {
        id.0.as_ref().into()
    }
}

/// What whoever sends a session something calls it: 1 to 200 characters without control characters, unique in the session.
/// Sent again under the same name, it is not done again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommandId(Arc<str>);

/// Why a text is no [`CommandId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name for a command: use 1 to 200 characters, none of them a control character")]
pub struct BadCommandId(String);

impl CommandId {
    /// Checks and takes the name.
    pub fn new(name: impl AsRef<str>) -> Result<CommandId, BadCommandId> {
        let name = name.as_ref();
        let sound = (1..=200).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        if sound { Ok(CommandId(name.into())) } else { Err(BadCommandId(name.into())) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for CommandId {
    type Error = BadCommandId;
    fn try_from(name: String) -> Result<CommandId, BadCommandId> {
        CommandId::new(name)
    }
}

impl From<CommandId> for String {
    fn from(id: CommandId) -> String {
        id.0.as_ref().into()
    }
}

/// A record's position in its session's log: from 0, without gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A call's place among the calls of its step: `[2]` is the third call of the model, `[2,0]` the first call nested in it.
/// The model's own call id is data and may repeat; this does not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallPath(Arc<[u32]>);

impl CallPath {
    /// The `position`-th call of the model in its step, from 0.
    pub fn top(position: u32) -> CallPath {
        CallPath(Arc::from([position]))
    }

    /// The `position`-th call started by the body of this one, from 0.
    pub fn nested(&self, position: u32) -> CallPath {
        CallPath(self.0.iter().copied().chain([position]).collect())
    }

    /// The positions from the outermost call inwards; never empty.
    pub fn positions(&self) -> &[u32] {
        &self.0
    }

    /// True for the call whose body started `other`.
    pub(crate) fn is_parent_of(&self, other: &CallPath) -> bool {
        other.0.split_last().is_some_and(|(_, parent)| *parent == *self.0)
    }

    /// True for a call that the body of `outer` started, or one within it.
    pub(crate) fn is_within(&self, outer: &CallPath) -> bool {
        self.0.len() > outer.0.len() && self.0.starts_with(&outer.0)
    }

    /// True for a call of the model, false for one that a body started.
    pub fn is_top(&self) -> bool {
        self.0.len() == 1
    }
}

impl fmt::Display for CallPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, position) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            position.fmt(f)?;
        }
        Ok(())
    }
}

/// A call's key within its session: what records and idempotency keys name it by. Tokens never are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallKey {
    /// The turn, from 1.
    pub turn: u64,
    /// The step within the turn, from 1.
    pub step: u32,
    /// The call within the step.
    pub call: CallPath,
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.turn, self.step, self.call)
    }
}

/// A call's wait for somebody outside: a question to a person, or a call that was deferred. Derived from the key of the call, so a
/// restarted process asks nothing twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The request that the gate of this call makes at its first attempt.
    pub fn of(session: &SessionId, key: &CallKey) -> RequestId {
        RequestId::at(session, key, 1)
    }

    /// The request that the gate of this call makes at this attempt, from 1. It makes at most one an attempt.
    pub fn at(session: &SessionId, key: &CallKey, attempt: u32) -> RequestId {
        let first = format!("{session}:{key}");
        RequestId(if attempt < 2 { first.into() } else { format!("{first}@{attempt}").into() })
    }

    /// A request by its name, as read from a log or typed by a person.
    pub fn from_text(text: impl Into<Arc<str>>) -> RequestId {
        RequestId(text.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The session whose call asks; `None` if this is no name of a request.
    pub fn session(&self) -> Option<SessionId> {
        // What stands behind it, the call's key, has no colon.
        let (session, _) = self.0.rsplit_once(':')?;
        SessionId::new(session).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who decides: the owner that registered a handler and the handler's own name. Half of a decision's durable key, so
/// both must be stable across restarts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HandlerId {
    /// Who registered it: a policy's name, a bridge's name.
    pub owner: Arc<str>,
    /// The handler's name, unique per owner and point.
    pub handler: Arc<str>,
}

impl HandlerId {
    /// Names a handler.
    pub fn new(owner: impl Into<Arc<str>>, handler: impl Into<Arc<str>>) -> HandlerId {
        HandlerId { owner: owner.into(), handler: handler.into() }
    }
}

impl fmt::Display for HandlerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.handler)
    }
}
