//! What would run at a moment, and why the rest would not. Nothing is started.

use super::{
    ClaudeHooks, Fidelity, OnFailure, canonical, environment,
    event::Event,
    farewell::OTHER,
    hook::{Hook, Work},
    matcher::Matcher,
    notices, payload,
    payload::{AUTO, Style},
    unasked,
};
use crate::run::Program;
use portcullis_runtime::{
    Asking, CallBatch, ChildStarting, Compacting, Ended, Ending, Frozen, Proposed, PutQuestion, Returned,
    Scene, SessionEnded, Starting, Submitted, Summarised, TurnEnded,
};
use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

/// A hook as its file defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookInfo {
    /// The handler's name, as the log spells it.
    pub handler: Arc<str>,
    /// The client's name of the event.
    pub event: &'static str,
    /// What it is for, as written; nothing for everything.
    pub matcher: Option<Arc<str>>,
    /// Its `if`, as written.
    pub condition: Option<Arc<str>>,
    /// The client's name of its kind: `command`, `http`, `mcp_tool`, `prompt`, `agent`.
    pub kind: &'static str,
    /// Its command, address, tool or prompt, as written.
    pub command: Arc<str>,
    /// Its arguments, as written, if it is started without a shell.
    pub args: Option<Vec<Arc<str>>>,
    /// Its time limit.
    pub timeout: Duration,
    /// Nobody waits for it.
    pub background: bool,
    /// Its failure blocks.
    pub blocks_on_failure: bool,
    /// How closely the client is followed with it.
    pub fidelity: Fidelity,
    /// Nothing it says counts; it is only recorded.
    pub shadow: bool,
    /// Whose file it stands in: `user`, `project`, `local`, `settings`, `managed` or `plugin`.
    pub layer: &'static str,
    /// The file it stands in.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// Something that hooks can be on, with what the runtime would know then.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Moment {
    /// A session starts.
    SessionStart(Starting),
    /// A user sends a prompt.
    UserPromptSubmit(Submitted),
    /// A call is about to be made.
    PreToolUse(Proposed),
    /// A person is about to be asked about a call.
    PermissionRequest(Asking),
    /// The calls of a step have their results.
    PostToolBatch(CallBatch),
    /// A person was put a question.
    Notification(PutQuestion),
    /// The model failed, and the turn with it.
    StopFailure(TurnEnded),
    /// A call has ended: PostToolUse, PostToolUseFailure, or PermissionDenied if the host's policy denied it.
    PostToolUse(Returned),
    /// A turn is about to stop: Stop, or SubagentStop in a subagent.
    Stop(Ending),
    /// A subagent starts.
    SubagentStart(ChildStarting),
    /// A conversation is about to be summarised.
    PreCompact(Compacting),
    /// It was.
    PostCompact(Summarised),
    /// A session's host ends it.
    SessionEnd(SessionEnded),
}

/// What a moment comes to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Explanation {
    /// The client's name of the event.
    pub event: &'static str,
    /// What matchers are compared with; empty where they do not count.
    pub subject: String,
    /// Exactly what a hook that runs reads on stdin, unless `portcullis.toml` has it follow the client in another way than most.
    pub stdin: Vec<u8>,
    /// Every hook of the project, in configuration order.
    pub hooks: Vec<Considered>,
}

/// One hook, and whether it runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Considered {
    /// Which.
    pub hook: HookInfo,
    /// Why it does not run; nothing if it does.
    pub why_not: Option<String>,
    /// Exactly what it reads on stdin, if it runs.
    pub stdin: Arc<[u8]>,
    /// What is started, program first, placeholders filled in; empty for one that starts nothing.
    pub argv: Vec<String>,
    /// Where.
    pub cwd: PathBuf,
    /// Variables that are set, or with nothing removed, on top of this process's own. A later one of a name counts.
    pub env: Vec<(OsString, Option<OsString>)>,
}

/// A moment as the client has it.
pub(super) struct Told<'m> {
    pub(super) event: Event,
    pub(super) subject: String,
    pub(super) scene: &'m Scene,
    /// The call's arguments.
    input: Option<&'m Frozen>,
    pub(super) stdin: Vec<u8>,
}

impl ClaudeHooks {
    /// Every hook that was loaded, by event, in configuration order.
    pub fn hooks(&self) -> Vec<HookInfo> {
        Event::ALL.into_iter().flat_map(|event| self.of(event)).map(|hook| hook.info()).collect()
    }

    /// What would run at this moment. It agrees with what the dispatcher plans: both ask the same questions.
    ///
    /// `None` for a call that has ended without having run: the client has no event for it.
    pub fn explain(&self, moment: &Moment) -> Option<Explanation> {
        let told = |fidelity| self.told(moment, &Style { fidelity, ..self.house.style() });
        let Told { event, subject, scene, input, stdin } = told(self.house.fidelity)?;
        let common: Arc<[u8]> = (&*stdin).into();
        let other = match self.house.fidelity {
            Fidelity::Strict => Fidelity::Exact,
            Fidelity::Exact => Fidelity::Strict,
        };
        // Only a hook for which something else is set needs the other form.
        let other =
            std::cell::LazyCell::new(|| told(other).map_or_else(|| common.clone(), |told| told.stdin.into()));
        let matching = self.matching(event, &subject);
        let closed = self.closed(event, scene).or_else(|| match moment {
            Moment::PermissionRequest(at) if unasked(at) => {
                Some("a hook wanted a person asked, and there is none")
            }
            _ => None,
        });
        let hooks = Event::ALL.into_iter().flat_map(|event| self.of(event)).map(|hook| {
            let why_not = self.why_not(hook, (event, &subject, closed), scene, input, &matching);
            let cwd = environment::directory(scene, &self.house.project);
            let place = matching.iter().position(|one| Arc::ptr_eq(one, hook));
            let env = hook.at(place.unwrap_or_default()).variables(scene, &cwd);
            let stdin = if hook.house.fidelity == self.house.fidelity { &common } else { &*other };
            let stdin = stdin.clone();
            Considered { hook: hook.info(), why_not, stdin, argv: hook.argv(), cwd, env }
        });
        Some(Explanation { event: event.name(), hooks: hooks.collect(), subject, stdin })
    }

    /// What a moment is to the client, and the bytes that a style makes of it.
    pub(super) fn told<'m>(&self, moment: &'m Moment, style: &Style<'_>) -> Option<Told<'m>> {
        let mut input: Option<&'m Frozen> = None;
        let kind = |scene: &Scene| scene.session.kind().map_or_else(String::new, |kind| kind.to_string());
        let (event, subject, scene, stdin) = match moment {
            Moment::SessionStart(at) => {
                (Event::SessionStart, at.source.name().to_owned(), &at.scene, style.session_start(at))
            }
            Moment::UserPromptSubmit(at) => {
                (Event::UserPromptSubmit, String::new(), &at.scene, style.prompt_submit(at))
            }
            Moment::PreToolUse(at) => {
                input = Some(&at.so_far);
                (Event::PreToolUse, canonical(&at.tool.name).to_owned(), &at.scene, style.pre_tool_use(at))
            }
            Moment::PermissionRequest(at) => {
                input = Some(&at.call.arguments);
                let subject = canonical(&at.call.tool.name).to_owned();
                (Event::PermissionRequest, subject, &at.call.scene, style.permission_request(at))
            }
            Moment::Notification(at) => {
                let kind = payload::PERMISSION_PROMPT.to_owned();
                (Event::Notification, kind, at.scene(), style.notification(at))
            }
            Moment::StopFailure(at) => {
                let failed = notices::failure(&at.reason)?;
                let stdin = style.stop_failure(&at.scene, failed);
                (Event::StopFailure, failed.0.to_owned(), &at.scene, stdin)
            }
            Moment::PostToolBatch(at) => {
                (Event::PostToolBatch, String::new(), &at.scene, style.post_tool_batch(at))
            }
            Moment::PostToolUse(at) => {
                input = at.arguments.as_ref();
                let subject = canonical(&at.name).to_owned();
                match &at.outcome.ended {
                    Ended::Completed => (Event::PostToolUse, subject, &at.scene, style.post_tool_use(at)),
                    ended if notices::denied_by_policy(ended) => {
                        (Event::PermissionDenied, subject, &at.scene, style.permission_denied(at))
                    }
                    ended if ended.was_dispatched() => {
                        (Event::PostToolUseFailure, subject, &at.scene, style.post_tool_use_failure(at))
                    }
                    _ => return None,
                }
            }
            Moment::Stop(at) if at.scene.session.depth() > 0 => {
                (Event::SubagentStop, kind(&at.scene), &at.scene, style.stop(Event::SubagentStop, at))
            }
            Moment::Stop(at) => (Event::Stop, String::new(), &at.scene, style.stop(Event::Stop, at)),
            Moment::SubagentStart(at) => {
                (Event::SubagentStart, kind(&at.scene), &at.scene, style.subagent_start(at))
            }
            Moment::PreCompact(at) => (Event::PreCompact, AUTO.to_owned(), &at.scene, style.pre_compact(at)),
            Moment::PostCompact(at) => {
                (Event::PostCompact, AUTO.to_owned(), &at.scene, style.post_compact(at))
            }
            Moment::SessionEnd(at) => (Event::SessionEnd, OTHER.to_owned(), &at.scene, style.session_end(at)),
        };
        Some(Told { event, subject, scene, input, stdin })
    }

    fn why_not(
        &self,
        hook: &Arc<Hook>,
        (event, subject, closed): (Event, &str, Option<&str>),
        scene: &Scene,
        input: Option<&Frozen>,
        matching: &[Arc<Hook>],
    ) -> Option<String> {
        let definition = &hook.definition;
        if definition.event != event {
            return Some(format!("it is on {}", definition.event.name()));
        }
        if let Some(why) = closed {
            return Some(why.into());
        }
        let written = definition.matcher_text.as_deref().unwrap_or_default();
        match &*definition.matcher {
            Matcher::Never(why) if why.is_empty() => {
                return Some("its `if` can hold for nothing here".into());
            }
            Matcher::Never(why) => return Some(format!("its matcher `{written}` never matches: {why}")),
            matcher if !matcher.matches(subject) => {
                return Some(format!("its matcher `{written}` does not match `{subject}`"));
            }
            _ => {}
        }
        if let Some(last) = matching.iter().find(|other| other.key() == hook.key())
            && !Arc::ptr_eq(last, hook)
        {
            let (file, line) = (last.origin.path.display(), last.definition.line);
            return Some(format!("the same handler is defined again at {file}:{line}, and runs once"));
        }
        let rule = definition.rule_text.as_deref().unwrap_or_default();
        let applies = hook.applies(subject, input, &scene.session.cwd);
        (!applies).then(|| format!("its `if: {rule}` does not hold for this call"))
    }
}

impl Hook {
    pub(super) fn info(&self) -> HookInfo {
        let definition = &self.definition;
        let blocks = definition.blocks_on_failure || self.house.on_failure == OnFailure::Block;
        HookInfo {
            handler: self.id.handler.clone(),
            event: definition.event.name(),
            matcher: definition.matcher_text.clone(),
            condition: definition.rule_text.clone(),
            kind: definition.written.kind(),
            command: definition.written.name().into(),
            args: definition.written.args().map(<[_]>::to_vec),
            timeout: definition.timeout,
            background: definition.background,
            blocks_on_failure: blocks && !definition.background && definition.event.blocks_on_failure(),
            fidelity: self.house.fidelity,
            shadow: self.house.shadow,
            layer: self.origin.scope.name(),
            file: self.origin.path.clone(),
            line: definition.line,
        }
    }

    fn argv(&self) -> Vec<String> {
        match &self.work {
            Work::Process(Program::Shell(command)) => {
                vec!["/bin/sh".into(), "-c".into(), command.to_string()]
            }
            Work::Process(Program::Exec { command, args }) => {
                std::iter::once(command).chain(args).map(|word| word.to_string()).collect()
            }
            Work::Ask(_) | Work::Post(_) | Work::Tool(_) => Vec::new(),
        }
    }
}
