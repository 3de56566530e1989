//! Claude Code's dialect of the shell-hook protocol.

mod config;
mod mapping;
mod matcher;
mod output;
mod payload;

pub use config::layers::Layers;
#[cfg(any(test, fuzzing))]
pub(crate) use matcher::{read as matcher, rule::Rule};

pub(crate) use payload::{agent_id, agent_transcript, transcript};

use crate::{
    answer::{Answer, Heard, Mapped, Terms},
    background::Said,
    definition::{Definition, Origin, Plugin, Scope},
    dialect::{Dialect, Places, Sorted, Style, Variables, fill},
    event::{self, Event},
    explain::At,
    farewell::OTHER,
    hook::Work,
    hooks::Hooks,
    notices,
    options::Options,
    report::Report,
    run::Program,
    transcript::Shape,
    watch::Watched,
    written::Written,
};
use config::{environment, layers::Settings};
use futures::future::BoxFuture;
use matcher::canonical;
use portcullis_process::{Finished, SpawnError};
use portcullis_runtime::{
    Asking, Batched, Compact, Continue, Ended, Frozen, HandlerId, Noted, Permit, Proposal, Review, Scene,
    SessionId, Started, Submit,
};
use std::{path::Path, sync::Arc};

const NAME: &str = "claude";

/// Events of the client that nothing here fires, each with why. They are named when a file uses them, never dropped silently.
const SILENT: &[(&str, &str)] = &[
    ("UserPromptExpansion", "prompts are sent as they are written; there are no slash commands here"),
    ("PreModelSwitch", "a session keeps the model it has"),
    ("PostModelSwitch", "a session keeps the model it has"),
    ("Setup", "nothing here has an `--init` or a `--maintenance` run"),
    ("TeammateIdle", "there are no teams of agents here"),
    ("TaskCreated", "there is no list of tasks here"),
    ("TaskCompleted", "there is no list of tasks here"),
    ("Elicitation", "no MCP server can ask the user for something here"),
    ("ElicitationResult", "no MCP server can ask the user for something here"),
    ("WorktreeCreate", "sessions and subagents are given no git worktrees here"),
    ("WorktreeRemove", "sessions and subagents are given no git worktrees here"),
    ("InstructionsLoaded", "instruction files (CLAUDE.md) are not loaded here"),
    ("CwdChanged", "a session keeps its working directory; a `cd` does not last beyond its command"),
    ("FileChanged", "nothing here watches files"),
    ("DirectoryAdded", "a session keeps the one directory it was opened in"),
    ("MessageDisplay", "what the model says is shown by the host, as it is"),
    ("PreSkillShellCommand", "there are no skills here"),
];

/// Hooks in the settings files of Claude Code.
#[derive(Debug, Clone, Copy)]
pub struct ClaudeHooks;

impl ClaudeHooks {
    /// Loads the project's `.claude/settings.json` and `.claude/settings.local.json`. Never fails: what is wrong with the
    /// files is reported, and what the client would skip is skipped. Reads files on the calling thread.
    pub fn load(project_dir: impl AsRef<Path>) -> (Arc<Hooks>, Vec<Report>) {
        ClaudeHooks::load_with(project_dir, Options::default())
    }

    /// Loads what the options say, for a project. A relative folder counts from this process's own.
    pub fn load_with(project_dir: impl AsRef<Path>, options: Options) -> (Arc<Hooks>, Vec<Report>) {
        let project_dir = project_dir.as_ref();
        let project = std::path::absolute(project_dir).unwrap_or_else(|_| project_dir.to_owned());
        let mut reports = Vec::new();
        let files = Settings::of(&project, &options);
        let hooks = Hooks::watching(&Claude, project, options.for_files(()), files, &mut reports);
        (hooks, reports)
    }

    /// The `agent_id` that hooks in this subagent's session are told.
    pub fn agent_id(session: &SessionId) -> String {
        payload::agent_id(session)
    }

    /// Every event of the client, and why hooks on it do not run here; nothing if they do.
    pub fn events() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        event::every(&Claude)
    }
}

/// The dialect.
pub(crate) struct Claude;

/// With nobody to ask, the client asks no hook either about what a hook wanted asked.
fn unasked(input: &Asking) -> bool {
    let of_hook = |id: &HandlerId| *id.owner == *NAME && id.handler.starts_with("PreToolUse:");
    !input.reachable && input.by.iter().any(of_hook)
}

impl Dialect for Claude {
    fn name(&self) -> &'static str {
        NAME
    }

    fn events(&self) -> &'static [Event] {
        &EVENTS
    }

    fn silent(&self) -> &'static [(&'static str, &'static str)] {
        SILENT
    }

    fn tools(&self) -> &'static [&'static str] {
        matcher::TOOLS
    }

    /// The client renamed a tool; both names go on matching it.
    fn aliases(&self, subject: &str) -> &'static [&'static str] {
        if subject == "Agent" { &["Task"] } else { &[] }
    }

    fn sort<'m>(&self, at: At<'m>) -> Option<Sorted<'m>> {
        let mut input: Option<&'m Frozen> = None;
        let kind = |scene: &Scene| scene.session.kind().map_or_else(String::new, |kind| kind.to_string());
        let (event, subject) = match at {
            At::SessionStart(at) => (Event::SessionStart, at.source.name().to_owned()),
            At::UserPromptSubmit(_) => (Event::UserPromptSubmit, String::new()),
            At::PreToolUse(at) => {
                input = Some(&at.so_far);
                (Event::PreToolUse, canonical(&at.tool.name).to_owned())
            }
            At::PermissionRequest(at) => {
                input = Some(&at.call.arguments);
                (Event::PermissionRequest, canonical(&at.call.tool.name).to_owned())
            }
            At::Notification(_) => (Event::Notification, payload::PERMISSION_PROMPT.to_owned()),
            At::TurnEnd(at) => (Event::StopFailure, notices::failure(&at.reason)?.0.to_owned()),
            At::PostToolBatch(_) => (Event::PostToolBatch, String::new()),
            // A call that never ran has no hook after it, unless it was the host's policy that denied it.
            At::PostToolUse(at) => {
                input = at.arguments.as_ref();
                let event = match &at.outcome.ended {
                    Ended::Completed => Event::PostToolUse,
                    ended if notices::denied_by_policy(ended) => Event::PermissionDenied,
                    ended if ended.was_dispatched() => Event::PostToolUseFailure,
                    _ => return None,
                };
                (event, canonical(&at.name).to_owned())
            }
            At::Stop(at) if at.scene.session.depth() > 0 => (Event::SubagentStop, kind(&at.scene)),
            At::Stop(_) => (Event::Stop, String::new()),
            At::SubagentStart(at) => (Event::SubagentStart, kind(&at.scene)),
            At::PreCompact(_) => (Event::PreCompact, payload::AUTO.to_owned()),
            At::PostCompact(_) => (Event::PostCompact, payload::AUTO.to_owned()),
            At::ConfigChange(at) => (Event::ConfigChange, at.source.to_string()),
            At::SessionEnd(_) => (Event::SessionEnd, OTHER.to_owned()),
        };
        Some(Sorted { event, subject, input })
    }

    fn closed(&self, event: Event, at: At<'_>) -> Option<&'static str> {
        let inside = at.scene().session.depth() > 0;
        match (event, at) {
            (Event::UserPromptSubmit, _) if inside => Some("what a subagent is asked is no user's prompt"),
            (Event::StopFailure, _) if inside => Some("what a subagent comes to is its parent's tool result"),
            (Event::ConfigChange, _) if inside => Some("files are looked at between the turns of a session"),
            (Event::SessionEnd, _) if inside => Some("a subagent is over with SubagentStop"),
            (Event::PermissionRequest, At::PermissionRequest(at)) if unasked(at) => {
                Some("a hook wanted a person asked, and there is none")
            }
            _ => None,
        }
    }

    fn runs_equals_once(&self) -> bool {
        true
    }

    fn lets_go(&self) -> bool {
        true
    }

    /// Files that were given for this run, and those of plugins, stay as they were.
    fn watches(&self, scope: Scope) -> Option<Watched> {
        let source = SOURCES.into_iter().find(|(of, _)| *of == scope)?.1;
        Some(Watched { source, may_be_kept: scope != Scope::Managed })
    }

    fn exports(&self, event: Event) -> bool {
        event == Event::SessionStart
    }

    fn agent_id(&self, session: &SessionId) -> String {
        payload::agent_id(session)
    }

    fn transcripts(&self) -> (&'static str, Shape) {
        (".portcullis/transcripts", Shape::Claude)
    }

    fn work(&self, definition: &Definition, origin: &Origin, project: &Path) -> Work {
        let places = self.places(project, origin.plugin.as_ref());
        let fill = |text: &str| Arc::from(fill(text, &places));
        match &definition.written {
            // Verbatim: the shell itself expands the variables, so that a folder's name cannot become code.
            Written::Command { command, args: None } => Work::Process(Program::Shell(command.clone())),
            Written::Command { command, args: Some(args) } => {
                let args = args.iter().map(|arg| fill(arg)).collect();
                Work::Process(Program::Exec { command: fill(command), args })
            }
            Written::Ask(ask) => Work::Ask(ask.clone()),
            Written::Post(post) => Work::Post(post.clone()),
            Written::Tool(called) => Work::Tool(called.clone()),
        }
    }

    fn places<'a>(&self, project: &'a Path, plugin: Option<&'a Plugin>) -> Places<'a> {
        environment::places(project, plugin)
    }

    fn variables(
        &self,
        base: &Variables,
        scene: &Scene,
        cwd: &Path,
        plugin: Option<&Plugin>,
        exports: Option<&Path>,
    ) -> Variables {
        environment::of_run(base, scene, cwd, plugin, exports)
    }

    fn payload(&self, event: Event, at: At<'_>, style: Style<'_>) -> Vec<u8> {
        payload::of(event, at, style)
    }

    fn read(&self, terms: Terms<'_>, ran: &Result<Finished, SpawnError>) -> Answer {
        output::read(&terms, ran)
    }

    fn told(&self, terms: Terms<'_>, text: &str, cut: bool) -> Answer {
        output::told(&terms, text, cut)
    }

    fn consider(&self, answer: &mut Answer, at: At<'_>, style: Style<'_>) {
        match at {
            At::PermissionRequest(at) => payload::otherwise(answer, at, style),
            At::PostToolUse(at) if at.outcome.ended == Ended::Completed => mapping::replace(answer, at),
            _ => {}
        }
    }

    fn bound<'a>(
        &'a self,
        answer: &'a mut Answer,
        definition: &'a Definition,
        scene: &'a Scene,
        folder: &'a Path,
    ) -> BoxFuture<'a, ()> {
        Box::pin(output::bound(answer, definition.event, scene, folder))
    }

    fn late(&self, definition: &Definition, name: &str, answer: Answer) -> Said {
        mapping::late(definition, name, answer)
    }

    fn started(&self, heard: Heard) -> Mapped<Started> {
        mapping::started(heard)
    }

    fn submit(&self, heard: Heard) -> Mapped<Submit> {
        mapping::submit(heard)
    }

    fn proposal(&self, heard: Heard) -> Mapped<Proposal> {
        mapping::proposal(heard)
    }

    fn permit(&self, heard: Heard) -> Mapped<Permit> {
        mapping::permit(heard)
    }

    fn review(&self, heard: Heard) -> Mapped<Review> {
        mapping::review(heard)
    }

    fn batched(&self, heard: Heard) -> Mapped<Batched> {
        mapping::batched(heard)
    }

    fn again(&self, heard: Heard) -> Mapped<Continue> {
        mapping::again(heard)
    }

    fn compact(&self, heard: Heard) -> Mapped<Compact> {
        mapping::compact(heard)
    }

    fn noted(&self, heard: Heard) -> Mapped<Noted> {
        mapping::noted(heard)
    }
}

/// How the client calls a change of settings, by whose they are.
const SOURCES: [(Scope, &str); 4] = [
    (Scope::User, "user_settings"),
    (Scope::Project, "project_settings"),
    (Scope::Local, "local_settings"),
    (Scope::Managed, "policy_settings"),
];

/// The events that fire here.
const EVENTS: [Event; 17] = [
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
    Event::ConfigChange,
    Event::SessionEnd,
];

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Named, named, nearest};

    #[test]
    fn every_event_of_the_client_has_its_place() {
        assert_eq!(EVENTS.len() + SILENT.len(), 34);
        assert_eq!(named(&Claude, "Stop"), Named::Runs(Event::Stop));
        assert!(matches!(named(&Claude, "Setup"), Named::Silent { event: "Setup", .. }));
        assert_eq!(named(&Claude, "stop"), Named::Unknown);
        assert_eq!(named(&Claude, "Interrupt"), Named::Unknown);
    }

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        assert_eq!(nearest(&Claude, "PreToolUze"), Some("PreToolUse"));
        assert_eq!(nearest(&Claude, "pretooluse"), Some("PreToolUse"));
        assert_eq!(nearest(&Claude, "Frobnicate"), None);
    }
}
