//! Claude Code's dialect of the shell-hook protocol.

mod ask;
mod background;
mod config;
mod environment;
mod event;
mod explain;
mod exports;
mod farewell;
mod handler;
mod hook;
mod layers;
mod lint;
mod listen;
mod mapping;
mod matcher;
mod notices;
mod options;
mod output;
mod overlay;
mod oversize;
mod pattern;
mod payload;
mod permissions;
mod post;
mod rule;
mod said;
mod tool;
mod transcript;
mod written;

pub use background::Late;
pub use explain::{Considered, Explanation, HookInfo, Moment};
pub use layers::{Layers, PluginLayer};
pub use options::{Each, Fidelity, OnFailure, Only, Options, TellLate};
pub use overlay::{HookTerms, Overlays};
pub use tool::{McpCall, McpText, McpTools};
pub use transcript::Transcript;

use crate::{
    report::{Report, Severity},
    run::Program,
};
use config::{Definition, Origin};
use event::Event;
use hook::{Hook, Work};
use matcher::canonical;
use overlay::Overlay;
use permissions::Permissions;
use portcullis_process::Permits;
use portcullis_runtime::{
    Advisor, AfterCompaction, Asking, CallBatch, ChildStarting, Compacting, Compaction, Ended, Ending,
    Extension, Frozen, Handler, HandlerId, HandlerSource, Permission, Planned, PostExecute, PromptSubmit,
    Proposed, Registered, Registrar, Returned, Rewrite, Scene, Seam, SessionId, SessionInfo, SessionStart,
    Starting, SubagentStart, Submitted, Summarised, ToolBatch, TurnContinuation,
};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;
use transcript::Keeper;
use written::Written;

const DIALECT: &str = "claude";
/// A hook ends itself at its own limit. The driver's is only there in case even that does not happen: it would answer with the
/// seam's rule for failures, which is stricter than the client's, and it must not count the wait for a free process.
const BACKSTOP: Duration = Duration::from_secs(24 * 60 * 60);
/// Subjects whose matching hooks are remembered.
const REMEMBERED: usize = 4096;

/// What all hooks of a project share; hooks for which something else holds have a house of their own.
#[derive(Clone)]
struct House {
    project: PathBuf,
    transcripts: Arc<Keeper>,
    exports: exports::Exports,
    fidelity: Fidelity,
    on_failure: OnFailure,
    /// Nothing its hooks say counts.
    shadow: bool,
    permits: Option<Permits>,
    env: environment::Variables,
    only: Option<Only>,
    late: Option<TellLate>,
    /// Of hooks that nobody waits for.
    background: Permits,
    at_work: notices::AtWork,
    advisor: Option<Arc<dyn Advisor>>,
    tools: Option<Arc<dyn McpTools>>,
    /// What the settings let handlers of type `http` do.
    bounds: Arc<post::Bounds>,
    /// Places for questions.
    questions: Arc<Semaphore>,
}

impl House {
    /// Why a handler cannot do its work under this host.
    fn cannot(&self, definition: &Definition) -> Option<&'static str> {
        match &definition.written {
            Written::Ask(_) if self.advisor.is_none() => Some("this host provides no model for hooks"),
            Written::Tool(_) if self.tools.is_none() => Some("this host provides no MCP servers for hooks"),
            Written::Post(post) if !self.bounds.allow(&post.url) => {
                Some("`allowedHttpHookUrls` does not have its address")
            }
            _ => None,
        }
    }

    fn style(&self) -> payload::Style<'_> {
        payload::Style { fidelity: self.fidelity, transcripts: self.transcripts.folder() }
    }
}

/// One house for all hooks for which the same holds.
struct Houses(Vec<Arc<House>>);

impl Houses {
    fn of(first: &Arc<House>) -> Houses {
        Houses(vec![first.clone()])
    }

    /// Has a hook follow its terms.
    fn settle(&mut self, hook: &mut Hook, terms: HookTerms) {
        let HookTerms { fidelity, on_failure, timeout, shadow } = terms;
        hook.definition.timeout = timeout.clamp(Duration::from_millis(1), config::LONGEST);
        let fits = |house: &&Arc<House>| {
            (house.fidelity, house.on_failure, house.shadow) == (fidelity, on_failure, shadow)
        };
        hook.house = match self.0.iter().find(fits) {
            Some(house) => house.clone(),
            None => {
                let house = Arc::new(House { fidelity, on_failure, shadow, ..(*self.0[0]).clone() });
                self.0.push(house.clone());
                house
            }
        };
    }
}

impl Houses {
    /// Equal handlers run once, as the last definition has it. What somebody else said of an earlier one still holds then: else a
    /// project could repeat a hook of the user's and have its own file take it out of force.
    fn agree(&mut self, hooks: &mut [Hook]) {
        let mut strictest: HashMap<_, (bool, OnFailure)> = HashMap::new();
        for hook in hooks.iter() {
            let House { shadow, on_failure, .. } = *hook.house;
            let of_all = strictest.entry((hook.definition.event, hook.key())).or_insert((shadow, on_failure));
            of_all.0 &= shadow;
            if on_failure == OnFailure::Block {
                of_all.1 = on_failure;
            }
        }
        let wanted: Vec<_> =
            hooks.iter().map(|hook| strictest[&(hook.definition.event, hook.key())]).collect();
        for (hook, (shadow, on_failure)) in hooks.iter_mut().zip(wanted) {
            let (fidelity, timeout) = (hook.house.fidelity, hook.definition.timeout);
            self.settle(hook, HookTerms { fidelity, on_failure, timeout, shadow });
        }
    }
}

/// The hooks that match, by event and subject.
type Matched = HashMap<(Event, Box<str>), Arc<[Arc<Hook>]>>;

/// The hooks of one project, as an extension with the owner `claude`.
///
/// Each matching command is a handler of its own, with its own decision, limit and records. See the [crate](crate) for an
/// example.
pub struct ClaudeHooks {
    hooks: HashMap<Event, Vec<Arc<Hook>>>,
    matched: Mutex<Matched>,
    permissions: Arc<Permissions>,
    house: Arc<House>,
}

impl ClaudeHooks {
    /// Loads the project's `.claude/settings.json` and `.claude/settings.local.json`. Never fails: what is wrong with the
    /// files is reported, and what the client would skip is skipped. Reads files on the calling thread.
    pub fn load(project_dir: impl AsRef<Path>) -> (Arc<ClaudeHooks>, Vec<Report>) {
        ClaudeHooks::load_with(project_dir, Options::default())
    }

    /// Loads what the options say, for a project. A relative folder counts from this process's own.
    pub fn load_with(project_dir: impl AsRef<Path>, options: Options) -> (Arc<ClaudeHooks>, Vec<Report>) {
        let project_dir = project_dir.as_ref();
        let project = std::path::absolute(project_dir).unwrap_or_else(|_| project_dir.to_owned());
        let mut reports = Vec::new();
        let mut loaded = layers::load(&project, &options.layers, &mut reports);
        farewell::bound(&mut loaded.definitions, farewell::stated(&options.env, &loaded.env));
        let overlay = Overlay::load(&project, &options.overlays, &mut reports);
        let said = options.said();
        let permits = options.permits.or_else(|| overlay.processes().map(Permits::new));
        let in_background = overlay.processes().map_or_else(Permits::for_this_machine, Permits::new);
        let house = Arc::new(House {
            env: environment::base(&project, &loaded.env, &options.env),
            transcripts: {
                let folder = options.transcripts;
                Arc::new(Keeper::new(folder.unwrap_or_else(|| project.join(".portcullis/transcripts"))))
            },
            exports: {
                let folder = options.exports;
                exports::Exports::new(folder.unwrap_or_else(|| project.join(".portcullis/session-env")))
            },
            project,
            fidelity: overlay.fidelity(&said),
            on_failure: options.on_failure.unwrap_or_default(),
            shadow: false,
            permits,
            only: options.only,
            late: options.late,
            background: in_background,
            at_work: notices::AtWork::default(),
            advisor: options.advisor,
            tools: options.mcp,
            bounds: loaded.bounds.into(),
            questions: Arc::new(Semaphore::new(ask::AT_ONCE)),
        });
        let permissions = Permissions::new(house.project.clone(), loaded.deny, loaded.ask);
        let mut equals: HashMap<String, usize> = HashMap::new();
        let (mut all, mut houses): (Vec<Hook>, _) = (Vec::new(), Houses::of(&house));
        for (origin, definition) in loaded.definitions {
            let id = identify(&definition, &origin, &mut equals);
            if let Some(why) = house.cannot(&definition) {
                reports.push(not_run(&definition, &origin, why));
                continue;
            }
            let work = work(&definition, &origin, &house.project);
            let mut hook = Hook { id, definition, origin, work, house: house.clone(), place: 0 };
            let mut terms = overlay.terms(hook.subject(), &said);
            houses.settle(&mut hook, terms);
            if let Some(change) = &options.each {
                change(&hook.info(), &mut terms);
                houses.settle(&mut hook, terms);
            }
            all.push(hook);
        }
        houses.agree(&mut all);
        overlay.unused(&all.iter().map(Hook::subject).collect::<Vec<_>>(), &mut reports);
        let mut hooks: HashMap<Event, Vec<Arc<Hook>>> = HashMap::new();
        for hook in all {
            hooks.entry(hook.definition.event).or_default().push(Arc::new(hook));
        }
        (Arc::new(ClaudeHooks { hooks, matched: Mutex::default(), permissions, house }), reports)
    }

    /// How closely the client is followed with a hook of the project of which nothing else is said.
    pub fn fidelity(&self) -> Fidelity {
        self.house.fidelity
    }

    /// The `agent_id` that hooks in this subagent's session are told.
    pub fn agent_id(session: &SessionId) -> String {
        payload::agent_id(session)
    }

    /// The `transcript_path` that hooks of this session, and of its subagents, are told.
    pub fn transcript(&self, session: &SessionId) -> PathBuf {
        payload::transcript(self.house.transcripts.folder(), session)
    }

    /// The shell files in which the hooks of a session have said what its commands find in their environment
    /// (`CLAUDE_ENV_FILE`), in the order in which they count. Its subagents have the same. Whoever runs commands has their shell
    /// read these first: `Workspace::sourced` takes this. Reads a folder.
    ///
    /// # Errors
    /// What the file system says.
    pub fn exports(&self, session: &SessionInfo) -> io::Result<Vec<PathBuf>> {
        self.house.exports.written(session)
    }

    /// Every event of the client, and why hooks on it do not run here; nothing if they do.
    pub fn events() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        Event::every()
    }

    /// How many handlers were loaded.
    pub fn len(&self) -> usize {
        self.hooks.values().map(Vec::len).sum()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    fn of(&self, event: Event) -> &[Arc<Hook>] {
        self.hooks.get(&event).map_or(&[], Vec::as_slice)
    }

    /// The hooks whose matcher takes the subject, in configuration order; of equal ones the last definition, where the first
    /// one stood.
    fn matching(&self, event: Event, subject: &str) -> Arc<[Arc<Hook>]> {
        if self.of(event).is_empty() {
            return Arc::new([]);
        }
        let key = (event, Box::from(subject));
        // The table is only ever replaced whole or added to, so a panic elsewhere leaves it sound.
        let remembered =
            |of: &Self| of.matched.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(found) = remembered(self) {
            return found;
        }
        let mut found: Vec<Arc<Hook>> = Vec::new();
        let mut places = HashMap::new();
        for hook in self.of(event).iter().filter(|hook| hook.definition.matcher.matches(subject)) {
            match places.get(&hook.key()) {
                Some(place) => found[*place] = hook.clone(),
                None => {
                    places.insert(hook.key(), found.len());
                    found.push(hook.clone());
                }
            }
        }
        let found: Arc<[Arc<Hook>]> = found.into();
        let mut table = self.matched.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= REMEMBERED {
            table.clear();
        }
        table.insert(key, found.clone());
        found
    }

    /// Why no hook of this event runs at a place, whatever else is true of it.
    fn closed(&self, event: Event, scene: &Scene) -> Option<&'static str> {
        let inside = scene.session.depth() > 0;
        match event {
            _ if self.house.only.as_ref().is_some_and(|only| !only(event.name(), scene)) => {
                Some("the host runs no such hooks here")
            }
            _ if ask::is_asked(scene) => Some("no hooks run in an agent that answers for a hook"),
            Event::UserPromptSubmit if inside => Some("what a subagent is asked is no user's prompt"),
            Event::StopFailure if inside => Some("what a subagent comes to is its parent's tool result"),
            Event::SessionEnd if inside => Some("a subagent is over with SubagentStop"),
            _ => None,
        }
    }

    fn add<S: Seam>(
        &self,
        event: Event,
        subject: &str,
        scene: &Scene,
        applies: impl Fn(&Hook) -> bool,
        out: &mut Vec<Planned<S>>,
    ) where
        Hook: Handler<S>,
    {
        if self.closed(event, scene).is_some() {
            return;
        }
        let matching = self.matching(event, subject);
        let running = matching.iter().enumerate().filter(|(_, hook)| applies(hook));
        out.extend(running.map(|(place, hook)| Planned {
            id: hook.id.clone(),
            deadline: hook.definition.timeout.saturating_add(BACKSTOP),
            run: hook.at(place),
            native: false,
        }));
    }

    fn rows<S: Seam>(&self) -> Vec<Registered> {
        let events = Event::ALL.into_iter().filter(|event| event.point() == S::POINT);
        events.flat_map(|event| self.of(event)).map(|hook| row(hook)).collect()
    }
}

impl std::fmt::Debug for ClaudeHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaudeHooks").field("handlers", &self.len()).finish_non_exhaustive()
    }
}

fn row(hook: &Hook) -> Registered {
    let definition = &hook.definition;
    let mut matches = definition.event.name().to_owned();
    if let Some(matcher) = definition.matcher_text.as_deref().filter(|_| definition.event.has_subject()) {
        matches.push_str(&format!(" {matcher}"));
    }
    if let Some(rule) = &definition.rule_text {
        matches.push_str(&format!(" if {rule}"));
    }
    if definition.background {
        matches.push_str(" in the background");
    }
    if hook.house.shadow {
        matches.push_str(" in shadow");
    }
    let blocks = definition.blocks_on_failure || hook.house.on_failure == OnFailure::Block;
    let on_failure = if blocks && !definition.background && definition.event.blocks_on_failure() {
        "blocks"
    } else {
        "proceeds"
    };
    Registered::new(
        definition.event.point(),
        hook.id.clone(),
        matches,
        on_failure,
        Some(definition.timeout),
        false,
    )
}

fn not_run(definition: &Definition, origin: &Origin, why: &str) -> Report {
    let (event, kind) = (definition.event.name(), definition.written.kind());
    let message = format!("a hook of type `{kind}` on {event} does not run: {why}");
    Report::new(Severity::Warning, "hooks/handler-not-run", message).at(&origin.path, Some(definition.line))
}

/// A name that stays the same as long as the definition does, whatever else is in the files.
fn identify(definition: &Definition, origin: &Origin, equals: &mut HashMap<String, usize>) -> HandlerId {
    let mut text = String::new();
    let mut add = |part: Option<&str>| match part {
        // Lengths keep two different definitions from reading alike.
        Some(part) => text.push_str(&format!("{}:{part}\n", part.len())),
        None => text.push_str("-\n"),
    };
    add(Some(DIALECT));
    add(Some(definition.event.name()));
    add(definition.matcher_text.as_deref());
    add(Some(definition.written.name()));
    add(definition.rule_text.as_deref());
    add(origin.plugin.as_ref().map(|plugin| plugin.name.as_str()));
    definition.written.tell_apart(&mut add);
    let place = equals.entry(text.clone()).or_default();
    let digest = Sha256::digest(format!("{text}{place}"));
    *place += 1;
    let hex: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    let matcher =
        definition.matcher_text.as_deref().filter(|text| !text.is_empty() && definition.event.has_subject());
    let matcher: String = matcher.unwrap_or("*").chars().take(40).collect();
    HandlerId::new(DIALECT, format!("{}:{matcher}#{hex}", definition.event.name()))
}

fn work(definition: &Definition, origin: &Origin, project: &Path) -> Work {
    let fill = |text: &str| Arc::from(environment::fill(text, project, origin.plugin.as_ref()));
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

impl Extension for ClaudeHooks {
    fn owner(&self) -> &str {
        DIALECT
    }

    fn register(self: Arc<Self>, at: &mut Registrar<'_>) {
        fn source<S: Seam>(of: &Arc<ClaudeHooks>, at: &mut Registrar<'_>)
        where
            ClaudeHooks: HandlerSource<S>,
        {
            // A point without hooks stays bare, and costs nothing.
            if !of.rows::<S>().is_empty() {
                at.source::<S>(of.clone());
            }
        }
        source::<SessionStart>(&self, at);
        source::<SubagentStart>(&self, at);
        source::<PromptSubmit>(&self, at);
        source::<Rewrite>(&self, at);
        source::<Permission>(&self, at);
        source::<PostExecute>(&self, at);
        source::<ToolBatch>(&self, at);
        source::<TurnContinuation>(&self, at);
        source::<Compaction>(&self, at);
        source::<AfterCompaction>(&self, at);
        if !self.is_empty() {
            let transcripts = self.house.transcripts.clone();
            at.turn_end("transcript", move |ended| transcripts.follow(&ended.scene));
        }
        self.notices(at);
        self.farewells(at);
        self.permissions.register(at);
    }
}

impl HandlerSource<SessionStart> for ClaudeHooks {
    fn plan(&self, input: &Starting, out: &mut Vec<Planned<SessionStart>>) {
        self.add(Event::SessionStart, input.source.name(), &input.scene, |_| true, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<SessionStart>()
    }
}

impl HandlerSource<SubagentStart> for ClaudeHooks {
    fn plan(&self, input: &ChildStarting, out: &mut Vec<Planned<SubagentStart>>) {
        let kind = input.scene.session.kind().map_or("", |kind| kind);
        self.add(Event::SubagentStart, kind, &input.scene, |_| true, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<SubagentStart>()
    }
}

impl HandlerSource<PromptSubmit> for ClaudeHooks {
    fn plan(&self, input: &Submitted, out: &mut Vec<Planned<PromptSubmit>>) {
        self.add(Event::UserPromptSubmit, "", &input.scene, |_| true, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<PromptSubmit>()
    }
}

impl HandlerSource<Rewrite> for ClaudeHooks {
    fn plan(&self, input: &Proposed, out: &mut Vec<Planned<Rewrite>>) {
        let tool = canonical(&input.tool.name);
        let applies = |hook: &Hook| hook.applies(tool, Some(&input.so_far), &input.scene.session.cwd);
        self.add(Event::PreToolUse, tool, &input.scene, applies, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<Rewrite>()
    }
}

/// With nobody to ask, the client asks no hook either about what a hook wanted asked.
fn unasked(input: &Asking) -> bool {
    let of_hook = |id: &HandlerId| *id.owner == *DIALECT && id.handler.starts_with("PreToolUse:");
    !input.reachable && input.by.iter().any(of_hook)
}

impl HandlerSource<Permission> for ClaudeHooks {
    fn plan(&self, input: &Asking, out: &mut Vec<Planned<Permission>>) {
        let call = &input.call;
        if unasked(input) {
            return;
        }
        let tool = canonical(&call.tool.name);
        let applies = |hook: &Hook| hook.applies(tool, Some(&call.arguments), &call.scene.session.cwd);
        self.add(Event::PermissionRequest, tool, &call.scene, applies, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<Permission>()
    }
}

impl HandlerSource<ToolBatch> for ClaudeHooks {
    fn plan(&self, input: &CallBatch, out: &mut Vec<Planned<ToolBatch>>) {
        self.add(Event::PostToolBatch, "", &input.scene, |_| true, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<ToolBatch>()
    }
}

impl HandlerSource<PostExecute> for ClaudeHooks {
    /// A call that never ran has no hook after it, as in the client, unless it was the host's policy that denied it.
    fn plan(&self, input: &Returned, out: &mut Vec<Planned<PostExecute>>) {
        let event = match &input.outcome.ended {
            Ended::Completed => Event::PostToolUse,
            ended if ended.was_dispatched() => Event::PostToolUseFailure,
            ended if notices::denied_by_policy(ended) => Event::PermissionDenied,
            _ => return,
        };
        let tool = canonical(&input.name);
        let input_of: Option<&Frozen> = input.arguments.as_ref();
        let applies = |hook: &Hook| hook.applies(tool, input_of, &input.scene.session.cwd);
        self.add(event, tool, &input.scene, applies, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<PostExecute>()
    }
}

impl HandlerSource<Compaction> for ClaudeHooks {
    fn plan(&self, input: &Compacting, out: &mut Vec<Planned<Compaction>>) {
        self.add(Event::PreCompact, payload::AUTO, &input.scene, |_| true, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<Compaction>()
    }
}

impl HandlerSource<AfterCompaction> for ClaudeHooks {
    fn plan(&self, input: &Summarised, out: &mut Vec<Planned<AfterCompaction>>) {
        self.add(Event::PostCompact, payload::AUTO, &input.scene, |_| true, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<AfterCompaction>()
    }
}

impl HandlerSource<TurnContinuation> for ClaudeHooks {
    fn plan(&self, input: &Ending, out: &mut Vec<Planned<TurnContinuation>>) {
        match input.scene.session.kind() {
            None => self.add(Event::Stop, "", &input.scene, |_| true, out),
            Some(kind) => self.add(Event::SubagentStop, kind, &input.scene, |_| true, out),
        }
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<TurnContinuation>()
    }
}
