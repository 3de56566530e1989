//! The client's events: which of them this runtime fires, and what differs from one to the next.

use portcullis_runtime::Point;
use std::time::Duration;

/// An event that fires here.
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
}

/// Events of the client that nothing here fires yet. They are named when a file uses them, never dropped silently.
const NOT_YET: [&str; 19] = [
    "UserPromptExpansion",
    "SessionEnd",
    "PreModelSwitch",
    "PostModelSwitch",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
    "PreSkillShellCommand",
];

/// What a name under `hooks` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// It fires.
    Runs(Event),
    /// The client has it, this runtime does not fire it yet.
    NotYet(&'static str),
    /// The client has none of that name and ignores it.
    Unknown,
}

impl Event {
    pub(crate) const ALL: [Event; 15] = [
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
    ];

    pub(crate) fn named(name: &str) -> Named {
        if let Some(event) = Event::ALL.into_iter().find(|event| event.name() == name) {
            return Named::Runs(event);
        }
        match NOT_YET.into_iter().find(|known| *known == name) {
            Some(known) => Named::NotYet(known),
            None => Named::Unknown,
        }
    }

    /// Every event of the client, and whether it fires here.
    pub(crate) fn every() -> impl Iterator<Item = (&'static str, bool)> {
        let runs = Event::ALL.into_iter().map(|event| (event.name(), true));
        runs.chain(NOT_YET.into_iter().map(|name| (name, false)))
    }

    /// The known name that a misspelt one is closest to, if any is close.
    pub(crate) fn nearest(name: &str) -> Option<&'static str> {
        Event::ALL
            .into_iter()
            .map(Event::name)
            .chain(NOT_YET)
            .map(|known| (distance(&known.to_lowercase(), &name.to_lowercase()), known))
            .min()
            .filter(|(distance, _)| *distance <= 2)
            .map(|(_, known)| known)
    }

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
            Event::StopFailure => Point::TurnEnd,
            Event::SubagentStart => Point::SubagentStart,
            Event::PreCompact => Point::Compaction,
            Event::PostCompact => Point::Compacted,
            // A subagent's own stop (C-SUB-3); which of the two it is follows from the session's depth.
            Event::Stop | Event::SubagentStop => Point::Continuation,
        }
    }

    /// The time limit of a hook that sets none.
    pub(crate) fn timeout(self) -> Duration {
        match self {
            Event::UserPromptSubmit => Duration::from_secs(30),
            _ => Duration::from_secs(600),
        }
    }

    /// Whether `matcher` means anything on it; where it does not, the client ignores it.
    pub(crate) fn has_subject(self) -> bool {
        !matches!(self, Event::UserPromptSubmit | Event::PostToolBatch | Event::Stop)
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

    /// Whether it is told of what has happened: nobody waits for its hooks, and nothing that they say decides.
    pub(crate) fn is_notice(self) -> bool {
        matches!(self, Event::Notification | Event::StopFailure)
    }

    /// Whether `onFailure: "block"` counts on it.
    pub(crate) fn blocks_on_failure(self) -> bool {
        !matches!(self, Event::PermissionDenied | Event::Stop | Event::SubagentStop) && !self.is_notice()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_of_the_client_has_its_place() {
        assert_eq!(Event::ALL.len() + NOT_YET.len(), 34);
        assert_eq!(Event::named("Stop"), Named::Runs(Event::Stop));
        assert_eq!(Event::named("Setup"), Named::NotYet("Setup"));
        assert_eq!(Event::named("stop"), Named::Unknown);
    }

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        assert_eq!(Event::nearest("PreToolUze"), Some("PreToolUse"));
        assert_eq!(Event::nearest("pretooluse"), Some("PreToolUse"));
        assert_eq!(Event::nearest("Frobnicate"), None);
    }
}
