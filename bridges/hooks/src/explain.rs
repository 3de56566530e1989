//! What would run at a moment, and why the rest would not. Nothing is started.

use crate::{
    change::Changing,
    dialect::{self, Sorted, Style},
    hook::{Hook, Work},
    hooks::Hooks,
    matcher::Matcher,
    options::{Fidelity, OnFailure},
    run::Program,
    set::Set,
};
use portcullis_runtime::{
    Asking, CallBatch, ChildStarting, Compacting, Ending, Proposed, PutQuestion, Returned, Scene,
    SessionEnded, Starting, Submitted, Summarised, TurnEnded,
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
    /// A turn is over: StopFailure if the model failed, Interrupt if somebody ended it.
    TurnEnd(TurnEnded),
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
    /// A file of hooks has changed.
    ConfigChange(Changing),
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

/// A moment, borrowed from whoever is at it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At<'m> {
    SessionStart(&'m Starting),
    UserPromptSubmit(&'m Submitted),
    PreToolUse(&'m Proposed),
    PermissionRequest(&'m Asking),
    PostToolBatch(&'m CallBatch),
    Notification(&'m PutQuestion),
    TurnEnd(&'m TurnEnded),
    PostToolUse(&'m Returned),
    Stop(&'m Ending),
    SubagentStart(&'m ChildStarting),
    PreCompact(&'m Compacting),
    PostCompact(&'m Summarised),
    ConfigChange(&'m Changing),
    SessionEnd(&'m SessionEnded),
}

impl Moment {
    pub(crate) fn at(&self) -> At<'_> {
        match self {
            Moment::SessionStart(at) => At::SessionStart(at),
            Moment::UserPromptSubmit(at) => At::UserPromptSubmit(at),
            Moment::PreToolUse(at) => At::PreToolUse(at),
            Moment::PermissionRequest(at) => At::PermissionRequest(at),
            Moment::PostToolBatch(at) => At::PostToolBatch(at),
            Moment::Notification(at) => At::Notification(at),
            Moment::TurnEnd(at) => At::TurnEnd(at),
            Moment::PostToolUse(at) => At::PostToolUse(at),
            Moment::Stop(at) => At::Stop(at),
            Moment::SubagentStart(at) => At::SubagentStart(at),
            Moment::PreCompact(at) => At::PreCompact(at),
            Moment::PostCompact(at) => At::PostCompact(at),
            Moment::ConfigChange(at) => At::ConfigChange(at),
            Moment::SessionEnd(at) => At::SessionEnd(at),
        }
    }
}

impl<'m> At<'m> {
    pub(crate) fn scene(self) -> &'m Scene {
        match self {
            At::SessionStart(at) => &at.scene,
            At::UserPromptSubmit(at) => &at.scene,
            At::PreToolUse(at) => &at.scene,
            At::PermissionRequest(at) => &at.call.scene,
            At::PostToolBatch(at) => &at.scene,
            At::Notification(at) => at.scene(),
            At::TurnEnd(at) => &at.scene,
            At::PostToolUse(at) => &at.scene,
            At::Stop(at) => &at.scene,
            At::SubagentStart(at) => &at.scene,
            At::PreCompact(at) => &at.scene,
            At::PostCompact(at) => &at.scene,
            At::ConfigChange(at) => &at.scene,
            At::SessionEnd(at) => &at.scene,
        }
    }
}

impl Hooks {
    /// Every hook that is loaded, by event, in configuration order.
    pub fn hooks(&self) -> Vec<HookInfo> {
        self.set().all().map(|hook| hook.info()).collect()
    }

    /// What would run at this moment. It agrees with what the dispatcher plans: both ask the same questions.
    ///
    /// `None` for something that the client has no event for, such as a call that has ended without having run.
    pub fn explain(&self, moment: &Moment) -> Option<Explanation> {
        self.set().explain(moment)
    }
}

impl Set {
    fn explain(&self, moment: &Moment) -> Option<Explanation> {
        let (dialect, at) = (self.house.dialect, moment.at());
        let sorted = dialect.sort(at)?;
        let (event, scene) = (sorted.event, at.scene());
        let told = |fidelity| dialect.payload(event, at, Style { fidelity, ..self.house.style() });
        let stdin = told(self.house.fidelity);
        let common: Arc<[u8]> = (&*stdin).into();
        let other = match self.house.fidelity {
            Fidelity::Strict => Fidelity::Exact,
            Fidelity::Exact => Fidelity::Strict,
        };
        // Only a hook for which something else is set needs the other form.
        let other = std::cell::LazyCell::new(|| Arc::<[u8]>::from(told(other)));
        let matching = self.matching(event, &sorted.subject);
        let closed = self.closed(event, at);
        let hooks = self.all().map(|hook| {
            let why_not = self.why_not(hook, (&sorted, closed), scene, &matching);
            let cwd = dialect::directory(scene, &self.house.project);
            let place = matching.iter().position(|one| Arc::ptr_eq(one, hook));
            let env = hook.at(place.unwrap_or_default()).variables(scene, &cwd);
            let stdin = if hook.house.fidelity == self.house.fidelity { &common } else { &*other };
            let stdin = stdin.clone();
            Considered { hook: hook.info(), why_not, stdin, argv: hook.argv(), cwd, env }
        });
        let hooks = hooks.collect();
        Some(Explanation { event: event.name(), hooks, subject: sorted.subject, stdin })
    }

    fn why_not(
        &self,
        hook: &Arc<Hook>,
        (sorted, closed): (&Sorted<'_>, Option<&str>),
        scene: &Scene,
        matching: &[Arc<Hook>],
    ) -> Option<String> {
        let (definition, subject) = (&hook.definition, &*sorted.subject);
        if definition.event != sorted.event {
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
            matcher if !matcher.matches(subject, self.house.dialect.aliases(subject)) => {
                return Some(format!("its matcher `{written}` does not match `{subject}`"));
            }
            _ => {}
        }
        let runs = matching.iter().any(|other| Arc::ptr_eq(other, hook));
        if !runs && let Some(last) = matching.iter().find(|other| other.key() == hook.key()) {
            let (file, line) = (last.origin.path.display(), last.definition.line);
            return Some(format!("the same handler is defined again at {file}:{line}, and runs once"));
        }
        let condition = definition.condition_text.as_deref().unwrap_or_default();
        let applies = hook.applies(subject, sorted.input, &scene.session.cwd);
        (!applies).then(|| format!("its `if: {condition}` does not hold for this call"))
    }
}

impl Hook {
    pub(crate) fn info(&self) -> HookInfo {
        let definition = &self.definition;
        let blocks = definition.blocks_on_failure || self.house.on_failure == OnFailure::Block;
        HookInfo {
            handler: self.id.handler.clone(),
            event: definition.event.name(),
            matcher: definition.matcher_text.clone(),
            condition: definition.condition_text.clone(),
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
                vec![self.house.manner.shell.display().to_string(), "-c".into(), command.to_string()]
            }
            Work::Process(Program::Exec { command, args }) => {
                std::iter::once(command).chain(args).map(|word| word.to_string()).collect()
            }
            Work::Ask(_) | Work::Post(_) | Work::Tool(_) => Vec::new(),
        }
    }
}
