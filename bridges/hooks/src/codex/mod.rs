//! Codex's dialect of the shell-hook protocol.

mod config;
mod mapping;
mod matcher;
mod output;
mod payload;

pub(crate) use payload::{rollout, turn_id};

#[cfg(any(test, fuzzing))]
pub(crate) use config::{config as config_toml, hooks_json, with as set_in_toml};
#[cfg(any(test, fuzzing))]
pub(crate) use matcher::compile as matcher;

pub use config::{Change, Changed, CodexLayers, CodexTrust, TrustError, TrustStatus, TrustedHook};

use crate::{
    answer::{Answer, Heard, Mapped, Terms},
    background::Said,
    definition::{Definition, Origin, Plugin},
    dialect::{Dialect, Places, Sorted, Style, Variables},
    event::{self, Event},
    explain::At,
    farewell::OTHER,
    hook::Work,
    hooks::Hooks,
    options::Options,
    report::Report,
    run::{Manner, Program},
    transcript::Shape,
    written::Written,
};
use config::environment;
use futures::future::BoxFuture;
use matcher::canonical;
use portcullis_process::{Finished, SpawnError};
use portcullis_runtime::{
    Batched, Compact, Continue, EndReason, Ended, Frozen, Noted, Permit, Proposal, Review, Scene, SessionId,
    Started, Submit,
};
use std::{path::Path, sync::Arc};

const NAME: &str = "codex";

/// The events that fire here.
const EVENTS: [Event; 12] = [
    Event::SessionStart,
    Event::UserPromptSubmit,
    Event::PreToolUse,
    Event::PermissionRequest,
    Event::PostToolUse,
    Event::Stop,
    Event::SubagentStart,
    Event::SubagentStop,
    Event::PreCompact,
    Event::PostCompact,
    Event::Interrupt,
    Event::SessionEnd,
];

/// Events of the client that nothing here fires, each with why.
const SILENT: [(&str, &str); 2] = [
    ("PreModelRequest", "the client says nowhere what its hooks may answer"),
    ("PostModelRequest", "the client says nowhere what its hooks may answer"),
];

/// Hooks in the files of Codex: `hooks.json` and `[hooks]` in `config.toml`.
///
/// They run only if their user trusts the project and each of them, as in the client; see [`CodexTrust`].
#[derive(Debug, Clone, Copy)]
pub struct CodexHooks;

impl CodexHooks {
    /// Loads the `.codex` folders of a project, as far as they are trusted: without a user's file nothing is. Never fails: what is
    /// wrong with the files is reported, and what the client would skip is skipped. Reads files on the calling thread.
    pub fn load(project_dir: impl AsRef<Path>) -> (Arc<Hooks>, Vec<Report>) {
        CodexHooks::load_with(project_dir, Options::default())
    }

    /// Loads what the options say, for a project. A relative folder counts from this process's own.
    pub fn load_with(
        project_dir: impl AsRef<Path>,
        options: Options<CodexLayers>,
    ) -> (Arc<Hooks>, Vec<Report>) {
        let project_dir = project_dir.as_ref();
        let project = std::path::absolute(project_dir).unwrap_or_else(|_| project_dir.to_owned());
        let mut reports = Vec::new();
        let loaded = config::mount::load(&project, &options.layers, &options.env, &mut reports);
        let hooks = Hooks::settle(&Codex, project, options.for_files(()), loaded, &mut reports);
        (hooks, reports)
    }

    /// Every event of the client, and why hooks on it do not run here; nothing if they do.
    pub fn events() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        event::every(&Codex)
    }
}

/// The dialect.
pub(crate) struct Codex;

/// Did one of this dialect's hooks end the turn around a compaction? The client then takes it for interrupted.
fn stopped_compaction(end: &EndReason) -> bool {
    let around =
        |handler: &str| ["PreCompact:", "PostCompact:"].iter().any(|event| handler.starts_with(event));
    matches!(end, EndReason::Halted { by, .. } if *by.owner == *NAME && around(&by.handler))
}

impl Dialect for Codex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn events(&self) -> &'static [Event] {
        &EVENTS
    }

    fn silent(&self) -> &'static [(&'static str, &'static str)] {
        &SILENT
    }

    fn tools(&self) -> &'static [&'static str] {
        matcher::TOOLS
    }

    fn aliases(&self, subject: &str) -> &'static [&'static str] {
        matcher::aliases(subject)
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
            // A command that fails has a result like any other; a tool that fails has none.
            At::PostToolUse(at) => {
                input = at.arguments.as_ref();
                let tool = canonical(&at.name);
                match &at.outcome.ended {
                    Ended::Completed => {}
                    Ended::ToolError if tool == payload::BASH => {}
                    _ => return None,
                }
                (Event::PostToolUse, tool.to_owned())
            }
            At::Stop(at) if at.scene.session.depth() > 0 => (Event::SubagentStop, kind(&at.scene)),
            At::Stop(_) => (Event::Stop, String::new()),
            At::SubagentStart(at) => (Event::SubagentStart, kind(&at.scene)),
            At::PreCompact(_) => (Event::PreCompact, payload::AUTO.to_owned()),
            At::PostCompact(_) => (Event::PostCompact, payload::AUTO.to_owned()),
            At::TurnEnd(at) => match &at.reason {
                EndReason::Aborted { .. } => (Event::Interrupt, String::new()),
                end if stopped_compaction(end) => (Event::Interrupt, String::new()),
                _ => return None,
            },
            At::SessionEnd(_) => (Event::SessionEnd, OTHER.to_owned()),
            At::Notification(_) | At::PostToolBatch(_) | At::ConfigChange(_) => return None,
        };
        Some(Sorted { event, subject, input })
    }

    fn closed(&self, event: Event, at: At<'_>) -> Option<&'static str> {
        let inside = at.scene().session.depth() > 0;
        match event {
            Event::Interrupt if inside => Some("only the session at the root is interrupted"),
            Event::SessionEnd if inside => Some("a subagent is over with SubagentStop"),
            _ => None,
        }
    }

    fn runs_equals_once(&self) -> bool {
        false
    }

    fn lets_go(&self) -> bool {
        false
    }

    fn exports(&self, _event: Event) -> bool {
        false
    }

    fn agent_id(&self, session: &SessionId) -> String {
        session.to_string()
    }

    fn transcripts(&self) -> (&'static str, Shape) {
        (".portcullis/transcripts/codex", Shape::Codex)
    }

    fn work(&self, definition: &Definition, origin: &Origin, _project: &Path) -> Work {
        match &definition.written {
            Written::Command { command, args: None } => {
                Work::Process(Program::Shell(environment::command(command, origin.plugin.as_ref()).into()))
            }
            // The client has no other kinds; a file cannot make one.
            Written::Command { command, args: Some(args) } => {
                Work::Process(Program::Exec { command: command.clone(), args: args.clone() })
            }
            Written::Ask(ask) => Work::Ask(ask.clone()),
            Written::Post(post) => Work::Post(post.clone()),
            Written::Tool(called) => Work::Tool(called.clone()),
        }
    }

    fn manner(&self) -> Manner {
        environment::manner()
    }

    fn places<'a>(&self, _project: &'a Path, plugin: Option<&'a Plugin>) -> Places<'a> {
        environment::places(plugin)
    }

    fn variables(
        &self,
        base: &Variables,
        _scene: &Scene,
        _cwd: &Path,
        plugin: Option<&Plugin>,
        _exports: Option<&Path>,
    ) -> Variables {
        environment::variables(base, plugin)
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

    fn consider(&self, answer: &mut Answer, at: At<'_>, _style: Style<'_>) {
        mapping::consider(answer, at);
    }

    fn bound<'a>(
        &'a self,
        answer: &'a mut Answer,
        definition: &'a Definition,
        scene: &'a Scene,
        _folder: &'a Path,
    ) -> BoxFuture<'a, ()> {
        let folder = output::folder(scene.session.root.as_str());
        Box::pin(output::bound(answer, definition.event, definition.context_limit, folder))
    }

    fn late(&self, _definition: &Definition, _name: &str, answer: Answer) -> Said {
        mapping::late(answer)
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

    /// The client has no such event.
    fn batched(&self, heard: Heard) -> Mapped<Batched> {
        heard.reply(Batched {}, Vec::new(), None)
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
