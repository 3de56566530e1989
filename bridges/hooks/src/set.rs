//! The hooks that are in force: matched and planned. A set is never changed, only replaced by another one, so whatever was
//! planned with it stays what it was.

use crate::{
    ask,
    definition::{Definition, LONGEST, Origin},
    dialect::{Dialect, Style, Variables},
    event::Event,
    explain::At,
    exports::Exports,
    hook::Hook,
    notices::AtWork,
    options::{Each, Fidelity, OnFailure, Only, Options, TellLate},
    overlay::{HookTerms, Overlay, Said},
    post::Bounds,
    report::{Report, Severity},
    run::Manner,
    tool::McpTools,
    transcript::Keeper,
    written::Written,
};
use portcullis_process::Permits;
use portcullis_runtime::{Advisor, Execution, Handler, HandlerId, Planned, Reason, Registered, Seam};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;

/// A hook ends itself at its own limit. The driver's is only there in case even that does not happen: it would answer with the
/// seam's rule for failures, which is stricter than the client's, and it must not count the wait for a free process.
pub(crate) const BACKSTOP: Duration = Duration::from_secs(24 * 60 * 60);
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
    /// What else they say of calls.
    pub(crate) rules: Option<Arc<dyn Rules>>,
}

/// What the files of a client say of calls beside hooks: its permission rules.
pub(crate) trait Rules: Send + Sync {
    /// Whether some deny.
    fn denies(&self) -> bool;
    /// Whether some want a person asked.
    fn asks(&self) -> bool;
    /// Why a call must not run.
    fn deny(&self, call: &Execution) -> Option<Reason>;
    /// Why a person is to be asked about it.
    fn ask(&self, call: &Execution) -> Option<Reason>;
}

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

/// Under what sets are made: what the host and `portcullis.toml` say, read once.
pub(crate) struct Ground {
    house: House,
    overlay: Overlay,
    said: Said,
    each: Option<Each>,
}

/// The hooks that match, by event and subject.
type Matched = HashMap<(Event, Box<str>), Arc<[Arc<Hook>]>>;

/// Hooks, put under what the host and `portcullis.toml` say of them.
pub(crate) struct Set {
    hooks: HashMap<Event, Vec<Arc<Hook>>>,
    matched: Mutex<Matched>,
    rules: Option<Arc<dyn Rules>>,
    pub(crate) house: Arc<House>,
}

impl Ground {
    /// What is the same for every set.
    pub(crate) fn house(&self) -> &House {
        &self.house
    }

    pub(crate) fn new(
        dialect: &'static dyn Dialect,
        project: PathBuf,
        options: Options<()>,
        reports: &mut Vec<Report>,
    ) -> Ground {
        let overlay = Overlay::load(&project, &options.overlays, reports);
        let said = options.said();
        let permits = options.permits.or_else(|| overlay.processes().map(Permits::new));
        let in_background = overlay.processes().map_or_else(Permits::for_this_machine, Permits::new);
        let house = House {
            dialect,
            manner: dialect.manner(),
            env: Variables::default(),
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
            bounds: Arc::default(),
            questions: Arc::new(Semaphore::new(ask::AT_ONCE)),
        };
        Ground { house, overlay, said, each: options.each }
    }

    /// What was read, as a set.
    pub(crate) fn set(&self, loaded: Loaded, reports: &mut Vec<Report>) -> Arc<Set> {
        let Ground { overlay, said, .. } = self;
        let house = Arc::new(House { env: loaded.env, bounds: loaded.bounds.into(), ..self.house.clone() });
        let dialect = house.dialect;
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
            let mut terms = overlay.terms(hook.subject(), said);
            houses.settle(&mut hook, terms);
            if let Some(change) = &self.each {
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
        Arc::new(Set { hooks, matched: Mutex::default(), rules: loaded.rules, house })
    }
}

impl Set {
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

    /// Whether no hook of it is at this point.
    pub(crate) fn is_bare<S: Seam>(&self) -> bool {
        self.hooks.keys().all(|event| event.point() != S::POINT)
    }

    /// The rules that deny, if some do.
    pub(crate) fn denying(&self) -> Option<&dyn Rules> {
        self.rules.as_deref().filter(|rules| rules.denies())
    }

    /// The rules that want a person asked, if some do.
    pub(crate) fn asking(&self) -> Option<&dyn Rules> {
        self.rules.as_deref().filter(|rules| rules.asks())
    }

    pub(crate) fn len(&self) -> usize {
        self.hooks.values().map(Vec::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
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

    pub(crate) fn add<S: Seam>(&self, at: At<'_>, out: &mut Vec<Planned<S>>)
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

    pub(crate) fn rows<S: Seam>(&self) -> Vec<Registered> {
        let events = Event::ALL.into_iter().filter(|event| event.point() == S::POINT);
        events.flat_map(|event| self.of(event)).map(|hook| row(hook)).collect()
    }
}

pub(crate) fn row(hook: &Hook) -> Registered {
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
