//! Claude Code's dialect of the shell-hook protocol.

mod config;
mod environment;
mod event;
mod handler;
mod hook;
mod layers;
mod mapping;
mod matcher;
mod output;
mod oversize;
mod pattern;
mod payload;
mod permissions;
mod rule;
mod said;

pub use layers::{Layers, PluginLayer};

use crate::{report::Report, run::Program};
use config::{Definition, Origin};
use event::Event;
use hook::Hook;
use matcher::canonical;
use permissions::Permissions;
use portcullis_process::Permits;
use portcullis_runtime::{
    Ended, Ending, Extension, Frozen, Handler, HandlerId, HandlerSource, Planned, PostExecute, PromptSubmit,
    Proposed, Registered, Registrar, Returned, Rewrite, Seam, SessionStart, Starting, Submitted,
    TurnContinuation,
};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

const DIALECT: &str = "claude";
/// A hook ends itself at its own limit. The driver's is only there in case even that does not happen: it would answer with the
/// seam's rule for failures, which is stricter than the client's, and it must not count the wait for a free process.
const BACKSTOP: Duration = Duration::from_secs(24 * 60 * 60);
/// Subjects whose matching hooks are remembered.
const REMEMBERED: usize = 4096;

/// How closely the client is followed where it would weaken a hook (C-BRIDGE-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fidelity {
    /// As the client, except that a hook is sent integers beyond 2^53 exactly, and new arguments it proposes keep theirs.
    #[default]
    Strict,
    /// As the client: such integers are rounded as JavaScript rounds them.
    Exact,
}

/// What a hook that fails means: one that cannot start, runs into its limit, exits with a code that means nothing, or prints
/// JSON that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// It decides nothing, unless its own `onFailure` says `"block"`. The client's rule.
    #[default]
    Proceed,
    /// It blocks, on every event where a block means something but Stop.
    Block,
}

/// How a project's hooks are loaded and run. A host sets this beside the user's files, never in them.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Which files count.
    pub layers: Layers,
    /// How closely the client is followed.
    pub fidelity: Fidelity,
    /// What a failing hook means.
    pub on_failure: OnFailure,
    /// The folder in which `transcript_path` lies (`SESSION.jsonl`), and below which contexts too long for the model are kept
    /// (`SESSION/tool-results`). Default: `.portcullis/transcripts` in the project. The transcript itself is the host's to write.
    pub transcripts: Option<PathBuf>,
    /// How many hook processes may live at a time. Default: the limit shared by the process.
    pub permits: Option<Permits>,
    /// Variables for every hook, on top of this process's own environment and of the settings' `env`.
    pub env: Vec<(OsString, OsString)>,
}

impl Options {
    /// The defaults: project and local settings, strict, failures proceed.
    pub fn new() -> Options {
        Options::default()
    }

    /// Which files count.
    pub fn layers(mut self, layers: Layers) -> Options {
        self.layers = layers;
        self
    }

    /// How closely the client is followed.
    pub fn fidelity(mut self, fidelity: Fidelity) -> Options {
        self.fidelity = fidelity;
        self
    }

    /// What a failing hook means.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Options {
        self.on_failure = on_failure;
        self
    }

    /// The folder of transcripts.
    pub fn transcripts(mut self, folder: impl Into<PathBuf>) -> Options {
        self.transcripts = Some(folder.into());
        self
    }

    /// The limit on live hook processes.
    pub fn permits(mut self, permits: Permits) -> Options {
        self.permits = Some(permits);
        self
    }

    /// Adds a variable to every hook's environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Options {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// Names of variables, never values: those may be secrets.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("layers", &self.layers)
            .field("fidelity", &self.fidelity)
            .field("on_failure", &self.on_failure)
            .field("transcripts", &self.transcripts)
            .field("permits", &self.permits)
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}

/// What all hooks of a project share.
struct House {
    project: PathBuf,
    transcripts: PathBuf,
    fidelity: Fidelity,
    on_failure: OnFailure,
    permits: Option<Permits>,
    env: environment::Variables,
}

impl House {
    fn style(&self) -> payload::Style<'_> {
        payload::Style { fidelity: self.fidelity, transcripts: &self.transcripts }
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
        let loaded = layers::load(&project, &options.layers, &mut reports);
        let house = Arc::new(House {
            env: environment::base(&project, &loaded.env, &options.env),
            transcripts: options.transcripts.unwrap_or_else(|| project.join(".portcullis/transcripts")),
            project,
            fidelity: options.fidelity,
            on_failure: options.on_failure,
            permits: options.permits,
        });
        let permissions = Permissions::new(house.project.clone(), loaded.deny, loaded.ask);
        let mut equals: HashMap<String, usize> = HashMap::new();
        let mut hooks: HashMap<Event, Vec<Arc<Hook>>> = HashMap::new();
        for (origin, definition) in loaded.definitions {
            let id = identify(&definition, &origin, &mut equals);
            let program = program(&definition, &origin, &house.project);
            let event = definition.event;
            let hook = Hook { id, definition, origin, program, house: house.clone() };
            hooks.entry(event).or_default().push(Arc::new(hook));
        }
        (Arc::new(ClaudeHooks { hooks, matched: Mutex::default(), permissions }), reports)
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

    fn add<S: Seam>(
        &self,
        event: Event,
        subject: &str,
        applies: impl Fn(&Hook) -> bool,
        out: &mut Vec<Planned<S>>,
    ) where
        Hook: Handler<S>,
    {
        let matching = self.matching(event, subject);
        out.extend(matching.iter().filter(|hook| applies(hook)).map(|hook| Planned {
            id: hook.id.clone(),
            deadline: hook.definition.timeout.saturating_add(BACKSTOP),
            run: hook.clone(),
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
    let blocks = definition.blocks_on_failure || hook.house.on_failure == OnFailure::Block;
    let on_failure = if blocks && definition.event.blocks_on_failure() { "blocks" } else { "proceeds" };
    Registered::new(
        definition.event.point(),
        hook.id.clone(),
        matches,
        on_failure,
        Some(definition.timeout),
        false,
    )
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
    add(Some(&definition.written.command));
    add(definition.rule_text.as_deref());
    add(origin.plugin.as_ref().map(|plugin| plugin.name.as_str()));
    for arg in definition.written.args.iter().flatten() {
        add(Some(arg));
    }
    if definition.written.args.is_some() {
        add(None);
    }
    let place = equals.entry(text.clone()).or_default();
    let digest = Sha256::digest(format!("{text}{place}"));
    *place += 1;
    let hex: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    let matcher =
        definition.matcher_text.as_deref().filter(|text| !text.is_empty() && definition.event.has_subject());
    let matcher: String = matcher.unwrap_or("*").chars().take(40).collect();
    HandlerId::new(DIALECT, format!("{}:{matcher}#{hex}", definition.event.name()))
}

fn program(definition: &Definition, origin: &Origin, project: &Path) -> Program {
    let written = &definition.written;
    let fill = |text: &str| Arc::from(environment::fill(text, project, origin.plugin.as_ref()));
    match &written.args {
        // Verbatim: the shell itself expands the variables, so that a folder's name cannot become code.
        None => Program::Shell(written.command.clone()),
        Some(args) => Program::Exec {
            command: fill(&written.command),
            args: args.iter().map(|arg| fill(arg)).collect(),
        },
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
        source::<PromptSubmit>(&self, at);
        source::<Rewrite>(&self, at);
        source::<PostExecute>(&self, at);
        source::<TurnContinuation>(&self, at);
        self.permissions.register(at);
    }
}

impl HandlerSource<SessionStart> for ClaudeHooks {
    fn plan(&self, input: &Starting, out: &mut Vec<Planned<SessionStart>>) {
        self.add(Event::SessionStart, input.source.name(), |_| true, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<SessionStart>()
    }
}

impl HandlerSource<PromptSubmit> for ClaudeHooks {
    fn plan(&self, _: &Submitted, out: &mut Vec<Planned<PromptSubmit>>) {
        self.add(Event::UserPromptSubmit, "", |_| true, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<PromptSubmit>()
    }
}

impl HandlerSource<Rewrite> for ClaudeHooks {
    fn plan(&self, input: &Proposed, out: &mut Vec<Planned<Rewrite>>) {
        let tool = canonical(&input.tool.name);
        let applies = |hook: &Hook| hook.applies(tool, Some(&input.so_far), &input.scene.session.cwd);
        self.add(Event::PreToolUse, tool, applies, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<Rewrite>()
    }
}

impl HandlerSource<PostExecute> for ClaudeHooks {
    /// A call that never ran has no hook after it: the client has none either.
    fn plan(&self, input: &Returned, out: &mut Vec<Planned<PostExecute>>) {
        let event = match &input.outcome.ended {
            Ended::Completed => Event::PostToolUse,
            ended if ended.was_dispatched() => Event::PostToolUseFailure,
            _ => return,
        };
        let tool = canonical(&input.name);
        let input_of: Option<&Frozen> = input.arguments.as_ref();
        self.add(event, tool, |hook: &Hook| hook.applies(tool, input_of, &input.scene.session.cwd), out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<PostExecute>()
    }
}

impl HandlerSource<TurnContinuation> for ClaudeHooks {
    fn plan(&self, _: &Ending, out: &mut Vec<Planned<TurnContinuation>>) {
        self.add(Event::Stop, "", |_| true, out);
    }
    fn describe(&self) -> Vec<Registered> {
        self.rows::<TurnContinuation>()
    }
}
