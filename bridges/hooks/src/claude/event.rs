//! The client's events: which of them this runtime fires, and what differs from one to the next.

use super::farewell::BUDGET;
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
    SessionEnd,
}

/// Events of the client that nothing here fires, each with why. They are named when a file uses them, never dropped silently.
const SILENT: [(&str, &str); 18] = [
    ("UserPromptExpansion", "prompts are sent as they are written; there are no slash commands here"),
    ("PreModelSwitch", "a session keeps the model it has"),
    ("PostModelSwitch", "a session keeps the model it has"),
    ("Setup", "nothing here has an `--init` or a `--maintenance` run"),
    ("TeammateIdle", "there are no teams of agents here"),
    ("TaskCreated", "there is no list of tasks here"),
    ("TaskCompleted", "there is no list of tasks here"),
    ("Elicitation", "no MCP server can ask the user for something here"),
    ("ElicitationResult", "no MCP server can ask the user for something here"),
    ("ConfigChange", "settings are read once, when their process starts"),
    ("WorktreeCreate", "sessions and subagents are given no git worktrees here"),
    ("WorktreeRemove", "sessions and subagents are given no git worktrees here"),
    ("InstructionsLoaded", "instruction files (CLAUDE.md) are not loaded here"),
    ("CwdChanged", "a session keeps its working directory; a `cd` does not last beyond its command"),
    ("FileChanged", "nothing here watches files"),
    ("DirectoryAdded", "a session keeps the one directory it was opened in"),
    ("MessageDisplay", "what the model says is shown by the host, as it is"),
    ("PreSkillShellCommand", "there are no skills here"),
];

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
    pub(crate) const ALL: [Event; 16] = [
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
        Event::SessionEnd,
    ];

    pub(crate) fn named(name: &str) -> Named {
        if let Some(event) = Event::ALL.into_iter().find(|event| event.name() == name) {
            return Named::Runs(event);
        }
        match SILENT.into_iter().find(|(known, _)| *known == name) {
            Some((event, why)) => Named::Silent { event, why },
            None => Named::Unknown,
        }
    }

    /// Every event of the client, and why it does not fire here.
    pub(crate) fn every() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        let runs = Event::ALL.into_iter().map(|event| (event.name(), None));
        runs.chain(SILENT.into_iter().map(|(name, why)| (name, Some(why))))
    }

    /// The known name that a misspelt one is closest to, if any is close.
    pub(crate) fn nearest(name: &str) -> Option<&'static str> {
        Event::ALL
            .into_iter()
            .map(Event::name)
            .chain(SILENT.map(|(name, _)| name))
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
            Event::StopFailure => Point::TurnEnd,
            Event::SubagentStart => Point::SubagentStart,
            Event::PreCompact => Point::Compaction,
            Event::PostCompact => Point::Compacted,
            Event::SessionEnd => Point::SessionEnd,
            // A subagent's own stop (C-SUB-3); which of the two it is follows from the session's depth.
            Event::Stop | Event::SubagentStop => Point::Continuation,
        }
    }

    /// The time limit of a hook that sets none.
    pub(crate) fn timeout(self) -> Duration {
        match self {
            Event::UserPromptSubmit => Duration::from_secs(30),
            Event::SessionEnd => BUDGET,
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

    /// Whether its hooks may say what later commands find in their environment.
    pub(crate) fn exports(self) -> bool {
        self == Event::SessionStart
    }

    /// Whether it is told of what has happened: nothing that its hooks say decides.
    pub(crate) fn is_notice(self) -> bool {
        matches!(self, Event::Notification | Event::StopFailure | Event::SessionEnd)
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
        assert_eq!(Event::ALL.len() + SILENT.len(), 34);
        assert_eq!(Event::named("Stop"), Named::Runs(Event::Stop));
        assert!(matches!(Event::named("Setup"), Named::Silent { event: "Setup", .. }));
        assert_eq!(Event::named("stop"), Named::Unknown);
    }

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        assert_eq!(Event::nearest("PreToolUze"), Some("PreToolUse"));
        assert_eq!(Event::nearest("pretooluse"), Some("PreToolUse"));
        assert_eq!(Event::nearest("Frobnicate"), None);
    }
}
