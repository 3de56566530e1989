//! The hooks of one project, in one dialect: loaded, matched, planned.

use crate::{
    ask,
    definition::{Definition, LONGEST, Origin},
    dialect::{Dialect, Style, Variables},
    event::Event,
    explain::At,
    exports::Exports,
    hook::Hook,
    notices::AtWork,
    options::{Fidelity, OnFailure, Only, Options, TellLate},
    overlay::{HookTerms, Overlay},
    post::Bounds,
    report::{Report, Severity},
    run::Manner,
    tool::McpTools,
    transcript::Keeper,
    written::Written,
};
use portcullis_process::Permits;
use portcullis_runtime::{
    Advisor, AfterCompaction, Asking, CallBatch, ChildStarting, Compacting, Compaction, Ending, Extension,
    Handler, HandlerId, HandlerSource, Permission, Planned, PostExecute, PromptSubmit, Proposed, Registered,
    Registrar, Returned, Rewrite, Seam, SessionId, SessionInfo, SessionStart, Starting, SubagentStart,
    Submitted, Summarised, ToolBatch, TurnContinuation,
};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;

/// A hook ends itself at its own limit. The driver's is only there in case even that does not happen: it would answer with the
/// seam's rule for failures, which is stricter than the client's, and it must not count the wait for a free process.
const BACKSTOP: Duration = Duration::from_secs(24 * 60 * 60);
/// Subjects whose matching hooks are remembered.
const REMEMBERED: usize = 4096;

/// What the files of a project say, read by its dialect.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) definitions: Vec<(Arc<Origin>, Definition)>,
    /// What is the same in the environment of every hook.
    pub(crate) env: Variables,
    /// What handlers of type `http` may do.
    pub(crate) bounds: Bounds,
    /// What else the files ask for.
    pub(crate) beside: Option<Beside>,
}

/// Registers what is no hook.
pub(crate) type Beside = Box<dyn Fn(&mut Registrar<'_>) + Send + Sync>;

/// What all hooks of a project share; hooks for which something else holds have a house of their own.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) project: PathBuf,
    pub(crate) transcripts: Arc<Keeper>,
    pub(crate) exports: Exports,
    pub(crate) fidelity: Fidelity,
    pub(crate) on_failure: OnFailure,
    /// Nothing its hooks say counts.
    pub(crate) shadow: bool,
    pub(crate) permits: Option<Permits>,
    pub(crate) manner: Manner,
    pub(crate) env: Variables,
    pub(crate) only: Option<Only>,
    pub(crate) late: Option<TellLate>,
    /// Of hooks that nobody waits for.
    pub(crate) background: Permits,
    pub(crate) at_work: AtWork,
    pub(crate) advisor: Option<Arc<dyn Advisor>>,
    pub(crate) tools: Option<Arc<dyn McpTools>>,
    /// What the settings let handlers of type `http` do.
    pub(crate) bounds: Arc<Bounds>,
    /// Places for questions.
    pub(crate) questions: Arc<Semaphore>,
}

impl House {
    /// Why a handler cannot do its work under this host.
    fn cannot(&self, definition: &Definition) -> Option<&'static str> {
        match &definition.written {
            Written::Ask(_) if self.advisor.is_none() => Some("this host provides no model for hooks"),
            Written::Tool(_) if self.tools.is_none() => Some("this host provides no MCP servers for hooks"),
            Written::Post(_) if !cfg!(feature = "http") => Some("this program was built without HTTP"),
            Written::Post(post) if !self.bounds.allow(&post.url) => {
                Some("`allowedHttpHookUrls` does not have its address")
            }
            _ => None,
        }
    }

    pub(crate) fn style(&self) -> Style<'_> {
        Style { fidelity: self.fidelity, transcripts: self.transcripts.folder() }
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
        hook.definition.timeout = timeout.clamp(Duration::from_millis(1), LONGEST);
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

/// The hooks of one project in one dialect, as an extension whose owner is the dialect: `claude` or `codex`.
///
/// Each matching command is a handler of its own, with its own decision, limit and records. See the [crate](crate) for an
/// example.
pub struct Hooks {
    hooks: HashMap<Event, Vec<Arc<Hook>>>,
    matched: Mutex<Matched>,
    beside: Option<Beside>,
    pub(crate) house: Arc<House>,
}

impl Hooks {
    /// Puts what was read under what the host and `portcullis.toml` say of it.
    pub(crate) fn settle(
        dialect: &'static dyn Dialect,
        project: PathBuf,
        options: Options<()>,
        loaded: Loaded,
        reports: &mut Vec<Report>,
    ) -> Arc<Hooks> {
        let overlay = Overlay::load(&project, &options.overlays, reports);
        let said = options.said();
        let permits = options.permits.or_else(|| overlay.processes().map(Permits::new));
        let in_background = overlay.processes().map_or_else(Permits::for_this_machine, Permits::new);
        let house = Arc::new(House {
            dialect,
            manner: dialect.manner(),
            env: loaded.env,
            transcripts: {
                let (default, shape) = dialect.transcripts();
                let folder = options.transcripts.unwrap_or_else(|| project.join(default));
                Arc::new(Keeper::new(shape, folder))
            },
            exports: {
                let folder = options.exports;
                Exports::new(folder.unwrap_or_else(|| project.join(".portcullis/session-env")))
            },
            project,
            fidelity: overlay.fidelity(&said),
            on_failure: options.on_failure.unwrap_or_default(),
            shadow: false,
            permits,
            only: options.only,
            late: options.late,
            background: in_background,
            at_work: AtWork::default(),
            advisor: options.advisor,
            tools: options.mcp,
            bounds: loaded.bounds.into(),
            questions: Arc::new(Semaphore::new(ask::AT_ONCE)),
        });
        let mut equals: HashMap<String, usize> = HashMap::new();
        let (mut all, mut houses): (Vec<Hook>, _) = (Vec::new(), Houses::of(&house));
        for (origin, definition) in loaded.definitions {
            let id = identify(dialect, &definition, &origin, &mut equals);
            if let Some(why) = house.cannot(&definition) {
                reports.push(not_run(&definition, &origin, why));
                continue;
            }
            let work = dialect.work(&definition, &origin, &house.project);
            let mut hook = Hook { id, definition, origin, work, house: house.clone(), place: 0 };
            let mut terms = overlay.terms(hook.subject(), &said);
            houses.settle(&mut hook, terms);
            if let Some(change) = &options.each {
                change(&hook.info(), &mut terms);
                houses.settle(&mut hook, terms);
            }
            all.push(hook);
        }
        if dialect.runs_equals_once() {
            houses.agree(&mut all);
        }
        overlay.unused(&all.iter().map(Hook::subject).collect::<Vec<_>>(), reports);
        let mut hooks: HashMap<Event, Vec<Arc<Hook>>> = HashMap::new();
        for hook in all {
            hooks.entry(hook.definition.event).or_default().push(Arc::new(hook));
        }
        Arc::new(Hooks { hooks, matched: Mutex::default(), beside: loaded.beside, house })
    }

    /// The name of the dialect: `claude` or `codex`.
    pub fn dialect(&self) -> &'static str {
        self.house.dialect.name()
    }

    /// How closely the client is followed with a hook of the project of which nothing else is said.
    pub fn fidelity(&self) -> Fidelity {
        self.house.fidelity
    }

    /// The `agent_id` that hooks in this subagent's session are told.
    pub fn agent_id(&self, session: &SessionId) -> String {
        self.house.dialect.agent_id(session)
    }

    /// The `transcript_path` that hooks of this session, and of its subagents, are told.
    pub fn transcript(&self, session: &SessionId) -> PathBuf {
        self.house.transcripts.place_of(session)
    }

    /// The shell files in which the hooks of a session have said what its commands find in their environment
    /// (`CLAUDE_ENV_FILE`), in the order in which they count. Its subagents have the same. Whoever runs commands has their shell
    /// read these first: `Workspace::sourced` takes this. Reads a folder.
    ///
    /// # Errors
    /// What the file system says.
    pub fn exports(&self, session: &SessionInfo) -> io::Result<Vec<PathBuf>> {
        match Exports::of_dialect(self.house.dialect) {
            true => self.house.exports.written(session),
            false => Ok(Vec::new()),
        }
    }

    /// How many handlers were loaded.
    pub fn len(&self) -> usize {
        self.hooks.values().map(Vec::len).sum()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    pub(crate) fn of(&self, event: Event) -> &[Arc<Hook>] {
        self.hooks.get(&event).map_or(&[], Vec::as_slice)
    }

    /// By event, in configuration order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Hook>> {
        Event::ALL.into_iter().flat_map(|event| self.of(event))
    }

    /// The hooks whose matcher takes the subject, in configuration order; where equal ones run once, it is the last definition,
    /// in the place of the first one.
    pub(crate) fn matching(&self, event: Event, subject: &str) -> Arc<[Arc<Hook>]> {
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
        let dialect = self.house.dialect;
        let (aliases, once) = (dialect.aliases(subject), dialect.runs_equals_once());
        let mut found: Vec<Arc<Hook>> = Vec::new();
        let mut places = HashMap::new();
        for hook in self.of(event).iter().filter(|hook| hook.definition.matcher.matches(subject, aliases)) {
            match places.get(&hook.key()).filter(|_| once) {
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
    pub(crate) fn closed(&self, event: Event, at: At<'_>) -> Option<&'static str> {
        let scene = at.scene();
        if self.house.only.as_ref().is_some_and(|only| !only(event.name(), scene)) {
            return Some("the host runs no such hooks here");
        }
        if ask::is_asked(scene) {
            return Some("no hooks run in an agent that answers for a hook");
        }
        self.house.dialect.closed(event, at)
    }

    fn add<S: Seam>(&self, at: At<'_>, out: &mut Vec<Planned<S>>)
    where
        Hook: Handler<S>,
    {
        let Some(sorted) = self.house.dialect.sort(at) else { return };
        if self.closed(sorted.event, at).is_some() {
            return;
        }
        let (matching, cwd) = (self.matching(sorted.event, &sorted.subject), &at.scene().session.cwd);
        let applies = |hook: &Hook| hook.applies(&sorted.subject, sorted.input, cwd);
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

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("dialect", &self.dialect())
            .field("handlers", &self.len())
            .finish_non_exhaustive()
    }
}

fn row(hook: &Hook) -> Registered {
    let definition = &hook.definition;
    let mut matches = definition.event.name().to_owned();
    if let Some(matcher) = definition.matcher_text.as_deref().filter(|_| definition.event.has_subject()) {
        matches.push_str(&format!(" {matcher}"));
    }
    if let Some(condition) = &definition.condition_text {
        matches.push_str(&format!(" if {condition}"));
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
fn identify(
    dialect: &dyn Dialect,
    definition: &Definition,
    origin: &Origin,
    equals: &mut HashMap<String, usize>,
) -> HandlerId {
    let mut text = String::new();
    let mut add = |part: Option<&str>| match part {
        // Lengths keep two different definitions from reading alike.
        Some(part) => text.push_str(&format!("{}:{part}\n", part.len())),
        None => text.push_str("-\n"),
    };
    add(Some(dialect.name()));
    add(Some(definition.event.name()));
    add(definition.matcher_text.as_deref());
    add(Some(definition.written.name()));
    add(definition.condition_text.as_deref());
    add(origin.plugin.as_ref().map(|plugin| plugin.name.as_str()));
    definition.written.tell_apart(&mut add);
    let place = equals.entry(text.clone()).or_default();
    let digest = Sha256::digest(format!("{text}{place}"));
    *place += 1;
    let hex: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    let matcher =
        definition.matcher_text.as_deref().filter(|text| !text.is_empty() && definition.event.has_subject());
    let matcher: String = matcher.unwrap_or("*").chars().take(40).collect();
    HandlerId::new(dialect.name(), format!("{}:{matcher}#{hex}", definition.event.name()))
}

impl Extension for Hooks {
    fn owner(&self) -> &str {
        self.dialect()
    }

    fn register(self: Arc<Self>, at: &mut Registrar<'_>) {
        self.sources(at);
        if !self.is_empty() {
            let transcripts = self.house.transcripts.clone();
            at.turn_end("transcript", move |ended| transcripts.follow(&ended.scene));
        }
        self.notices(at);
        self.farewells(at);
        if let Some(beside) = &self.beside {
            beside(at);
        }
    }
}

/// The seams that are sources of handlers, with what each is told of.
macro_rules! sources {
    ($($seam:ty: $input:ty, $at:ident;)*) => {
        impl Hooks {
            fn sources(self: &Arc<Self>, at: &mut Registrar<'_>) {
                $(
                    // A point without hooks stays bare, and costs nothing.
                    if !self.rows::<$seam>().is_empty() {
                        at.source::<$seam>(self.clone());
                    }
                )*
            }
        }
        $(
            impl HandlerSource<$seam> for Hooks {
                fn plan(&self, input: &$input, out: &mut Vec<Planned<$seam>>) {
                    self.add(At::$at(input), out);
                }
                fn describe(&self) -> Vec<Registered> {
                    self.rows::<$seam>()
                }
            }
        )*
    };
}

sources! {
    SessionStart: Starting, SessionStart;
    SubagentStart: ChildStarting, SubagentStart;
    PromptSubmit: Submitted, UserPromptSubmit;
    Rewrite: Proposed, PreToolUse;
    Permission: Asking, PermissionRequest;
    PostExecute: Returned, PostToolUse;
    ToolBatch: CallBatch, PostToolBatch;
    TurnContinuation: Ending, Stop;
    Compaction: Compacting, PreCompact;
    AfterCompaction: Summarised, PostCompact;
}
