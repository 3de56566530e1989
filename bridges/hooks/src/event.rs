//! The events that hooks are on, by the names that the clients share, and what differs from one to the next. Which of them fire
//! is the dialect's to say.

use crate::dialect::Dialect;
use portcullis_runtime::Point;

/// An event that fires here, for one dialect or for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    Notification,
    PermissionDenied,
    PostToolUse,
    PostToolUseFailure,
    PostToolBatch,
    Stop,
    StopFailure,
    SubagentStart,
    SubagentStop,
    PreCompact,
    PostCompact,
    Interrupt,
    ConfigChange,
    SessionEnd,
}

/// What a name under `hooks` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// It fires.
    Runs(Event),
    /// The client has it, and this runtime does not fire it.
    Silent {
        /// Its name.
        event: &'static str,
        /// What there would have to be for it.
        why: &'static str,
    },
    /// The client has none of that name and ignores it.
    Unknown,
}

impl Event {
    pub(crate) const ALL: [Event; 18] = [
        Event::SessionStart,
        Event::UserPromptSubmit,
        Event::PreToolUse,
        Event::PermissionRequest,
        Event::Notification,
        Event::PermissionDenied,
        Event::PostToolUse,
        Event::PostToolUseFailure,
        Event::PostToolBatch,
        Event::Stop,
        Event::StopFailure,
        Event::SubagentStart,
        Event::SubagentStop,
        Event::PreCompact,
        Event::PostCompact,
        Event::Interrupt,
        Event::ConfigChange,
        Event::SessionEnd,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Event::SessionStart => "SessionStart",
            Event::UserPromptSubmit => "UserPromptSubmit",
            Event::PreToolUse => "PreToolUse",
            Event::PermissionRequest => "PermissionRequest",
            Event::Notification => "Notification",
            Event::PermissionDenied => "PermissionDenied",
            Event::PostToolUse => "PostToolUse",
            Event::PostToolUseFailure => "PostToolUseFailure",
            Event::PostToolBatch => "PostToolBatch",
            Event::Stop => "Stop",
            Event::StopFailure => "StopFailure",
            Event::SubagentStart => "SubagentStart",
            Event::SubagentStop => "SubagentStop",
            Event::PreCompact => "PreCompact",
            Event::PostCompact => "PostCompact",
            Event::Interrupt => "Interrupt",
            Event::ConfigChange => "ConfigChange",
            Event::SessionEnd => "SessionEnd",
        }
    }

    /// Where it runs. A PreToolUse hook may both rewrite and decide, so its one run is at the rewrite point (C-PIPE-9).
    pub(crate) fn point(self) -> Point {
        match self {
            Event::SessionStart => Point::SessionStart,
            Event::UserPromptSubmit => Point::PromptSubmit,
            Event::PreToolUse => Point::Rewrite,
            Event::PermissionRequest => Point::Permission,
            Event::Notification => Point::Asked,
            Event::PermissionDenied | Event::PostToolUse | Event::PostToolUseFailure => Point::PostExecute,
            Event::PostToolBatch => Point::Batch,
            Event::StopFailure | Event::Interrupt => Point::TurnEnd,
            Event::SubagentStart => Point::SubagentStart,
            Event::PreCompact => Point::Compaction,
            Event::PostCompact => Point::Compacted,
            Event::ConfigChange => Point::TurnStart,
            Event::SessionEnd => Point::SessionEnd,
            // A subagent's own stop (C-SUB-3); which of the two it is follows from the session's depth.
            Event::Stop | Event::SubagentStop => Point::Continuation,
        }
    }

    /// Whether `matcher` means anything on it; where it does not, the client ignores it.
    pub(crate) fn has_subject(self) -> bool {
        !matches!(self, Event::UserPromptSubmit | Event::PostToolBatch | Event::Stop | Event::Interrupt)
    }

    /// Whether it is about a tool call, so that `if` can hold.
    pub(crate) fn is_of_tool(self) -> bool {
        matches!(
            self,
            Event::PreToolUse
                | Event::PermissionRequest
                | Event::PermissionDenied
                | Event::PostToolUse
                | Event::PostToolUseFailure
        )
    }

    /// Whether it is told of what has happened: nothing that its hooks say decides.
    pub(crate) fn is_notice(self) -> bool {
        matches!(self, Event::Notification | Event::StopFailure | Event::Interrupt | Event::SessionEnd)
    }

    /// Whether `onFailure: "block"` counts on it.
    pub(crate) fn blocks_on_failure(self) -> bool {
        !matches!(self, Event::PermissionDenied | Event::Stop | Event::SubagentStop) && !self.is_notice()
    }
}

/// What a name is to a dialect.
pub(crate) fn named(dialect: &dyn Dialect, name: &str) -> Named {
    if let Some(event) = dialect.events().iter().find(|event| event.name() == name) {
        return Named::Runs(*event);
    }
    match dialect.silent().iter().find(|(known, _)| *known == name) {
        Some((event, why)) => Named::Silent { event, why },
        None => Named::Unknown,
    }
}

/// Every event of a dialect's client, and why it does not fire here.
pub(crate) fn every(
    dialect: &'static dyn Dialect,
) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let runs = dialect.events().iter().map(|event| (event.name(), None));
    runs.chain(dialect.silent().iter().map(|(name, why)| (*name, Some(*why))))
}

/// The name of a dialect's that a misspelt one is closest to, if any is close.
pub(crate) fn nearest(dialect: &'static dyn Dialect, name: &str) -> Option<&'static str> {
    every(dialect)
        .map(|(known, _)| (distance(&known.to_lowercase(), &name.to_lowercase()), known))
        .min()
        .filter(|(distance, _)| *distance <= 2)
        .map(|(_, known)| known)
}

/// Levenshtein distance, for suggestions.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
