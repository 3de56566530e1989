//! The table of registrations: what the dispatcher reads, and what `introspect()` shows.

mod introspect;
mod matches;
mod registrar;

pub use introspect::Registered;
pub use matches::{Matches, ToolMatch};
pub use registrar::Registrar;

use crate::{
    HandlerId, Point, Scene, Tool, ToolSpec,
    seam::{
        AfterCompaction, AskObserver, BoxError, ChildObserver, Compaction, EndObserver, Guard, Handler,
        HandlerSource, Permission, Planned, PostExecute, PreExecute, PromptSubmit, Reply, ResultObserver,
        Rewrite, Seam, SessionStart, StartObserver, SubagentStart, ToolBatch, TurnContinuation, TurnObserver,
        TurnStop, Wrapper,
    },
};
use futures::future::LocalBoxFuture;
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

/// The time limit of an in-process handler that sets none.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// How far a registration reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every session of the runtime, and all their subagents.
    Runtime,
    /// One session, and all its subagents.
    Session,
    /// One session, without its subagents.
    Agent,
}

/// A row of a seam's part of the table.
pub enum Entry<S: Seam> {
    /// A handler.
    One {
        /// What is planned when it matches.
        planned: Arc<Planned<S>>,
        /// For what.
        matches: Matches,
        /// How far it reaches.
        scope: Scope,
    },
    /// A bridge that contributes handlers for each dispatch.
    Many {
        /// Whose.
        owner: Arc<str>,
        /// The bridge's side.
        source: Arc<dyn HandlerSource<S>>,
        /// For what.
        matches: Matches,
        /// How far it reaches.
        scope: Scope,
    },
}

impl<S: Seam> Entry<S> {
    fn owner(&self) -> &Arc<str> {
        match self {
            Entry::One { planned, .. } => &planned.id.owner,
            Entry::Many { owner, .. } => owner,
        }
    }
    fn scope(&self) -> Scope {
        match self {
            Entry::One { scope, .. } | Entry::Many { scope, .. } => *scope,
        }
    }
}

impl<S: Seam> Clone for Entry<S> {
    fn clone(&self) -> Entry<S> {
        match self {
            Entry::One { planned, matches, scope } => {
                Entry::One { planned: planned.clone(), matches: matches.clone(), scope: *scope }
            }
            Entry::Many { owner, source, matches, scope } => Entry::Many {
                owner: owner.clone(),
                source: source.clone(),
                matches: matches.clone(),
                scope: *scope,
            },
        }
    }
}

/// Which handlers to plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All, in mount order.
    All,
    /// The native ones.
    Native,
    /// Those of bridges.
    Bridges,
}

/// A guard, a wrapper or an observer with its name.
pub struct Mounted<T: ?Sized> {
    /// Its name.
    pub id: HandlerId,
    /// For what.
    pub matches: Matches,
    /// How far it reaches.
    pub scope: Scope,
    /// The code.
    pub run: Arc<T>,
}

impl<T: ?Sized> Clone for Mounted<T> {
    fn clone(&self) -> Mounted<T> {
        Mounted {
            id: self.id.clone(),
            matches: self.matches.clone(),
            scope: self.scope,
            run: self.run.clone(),
        }
    }
}

/// Everything registered, in mount order. Built once, then shared frozen: a dispatch keeps the table it started with.
#[derive(Default, Clone)]
#[non_exhaustive]
pub struct Table {
    /// Observers of turns' starts, in mount order.
    pub start_observers: Vec<Mounted<dyn StartObserver>>,
    pub(crate) session_start: Vec<Entry<SessionStart>>,
    pub(crate) subagent_start: Vec<Entry<SubagentStart>>,
    pub(crate) prompt_submit: Vec<Entry<PromptSubmit>>,
    pub(crate) rewrite: Vec<Entry<Rewrite>>,
    pub(crate) pre_execute: Vec<Entry<PreExecute>>,
    pub(crate) permission: Vec<Entry<Permission>>,
    pub(crate) post_execute: Vec<Entry<PostExecute>>,
    pub(crate) batch: Vec<Entry<ToolBatch>>,
    pub(crate) continuation: Vec<Entry<TurnContinuation>>,
    pub(crate) turn_stop: Vec<Entry<TurnStop>>,
    pub(crate) compaction: Vec<Entry<Compaction>>,
    pub(crate) compacted: Vec<Entry<AfterCompaction>>,
    /// Wrappers around bodies, in mount order: the first is the outermost.
    pub wrappers: Vec<Mounted<dyn Wrapper>>,
    pub(crate) guards: Vec<Mounted<dyn Guard>>,
    /// Observers of results, in mount order.
    pub observers: Vec<Mounted<dyn ResultObserver>>,
    /// Observers of questions to a person, in mount order.
    pub ask_observers: Vec<Mounted<dyn AskObserver>>,
    /// Observers of turns' ends, in mount order.
    pub turn_observers: Vec<Mounted<dyn TurnObserver>>,
    /// Observers of subagents' ends, in mount order.
    pub child_observers: Vec<Mounted<dyn ChildObserver>>,
    /// Observers of sessions' ends, in mount order.
    pub end_observers: Vec<Mounted<dyn EndObserver>>,
    tools: Vec<(Arc<ToolSpec>, Arc<dyn Tool>)>,
    by_name: HashMap<Arc<str>, usize>,
    names: HashSet<(Point, HandlerId)>,
    refused: Vec<TableError>,
    /// Owners that the host opted this agent out of.
    opted_out: Vec<Arc<str>>,
}

/// Why a table cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Two handlers of one point share a name; the name is half of a durable key.
    #[error("two handlers of {point} are called `{id}`: give each a name of its own")]
    DuplicateHandler {
        /// The point.
        point: Point,
        /// The name.
        id: HandlerId,
    },
    /// Two tools share a name.
    #[error("two tools are called `{0}`: give each a name of its own")]
    DuplicateTool(Arc<str>),
    /// An extension that was mounted to observe wants to decide.
    #[error(
        "`{id}` wants to decide at {point}, but was mounted to observe: mount it as deciding if you mean it to"
    )]
    MayNotDecide {
        /// The point.
        point: Point,
        /// Who.
        id: HandlerId,
    },
}

impl Table {
    /// An empty table.
    pub fn new() -> Table {
        Table::default()
    }

    /// Adds a tool.
    pub fn tool(&mut self, tool: Arc<dyn Tool>) -> Result<(), TableError> {
        let spec = Arc::new(tool.spec());
        if self.by_name.contains_key(&spec.name) {
            return Err(TableError::DuplicateTool(spec.name.clone()));
        }
        self.by_name.insert(spec.name.clone(), self.tools.len());
        self.tools.push((spec, tool));
        Ok(())
    }

    /// Registers handlers in the name of an owner, for every session.
    pub fn register(&mut self, owner: &str, mount: impl FnOnce(&mut Registrar<'_>)) {
        self.mount(owner, Scope::Runtime, true, mount);
    }

    /// Registers in the name of an owner that may only observe.
    pub fn register_observing(&mut self, owner: &str, mount: impl FnOnce(&mut Registrar<'_>)) {
        self.mount(owner, Scope::Runtime, false, mount);
    }

    /// Registers for the one session that this table is made for.
    pub fn register_for_session(&mut self, owner: &str, mount: impl FnOnce(&mut Registrar<'_>)) {
        self.mount(owner, Scope::Session, true, mount);
    }

    fn mount(&mut self, owner: &str, scope: Scope, decides: bool, mount: impl FnOnce(&mut Registrar<'_>)) {
        let mut at = Registrar {
            table: self,
            owner: owner.into(),
            matches: Matches::default(),
            deadline: DEFAULT_DEADLINE,
            once: false,
            scope,
            decides,
        };
        mount(&mut at);
    }

    /// The table of a subagent: everything but what was registered for its parent alone, what the host opted it out of,
    /// and, if `tools` names some, all other tools. Never wider than this one.
    pub fn for_child(&self, tools: Option<&[Arc<str>]>, opt_out: &[Arc<str>]) -> Table {
        let mut child = self.clone();
        let stays = |owner: &Arc<str>, scope: Scope| scope != Scope::Agent && !opt_out.contains(owner);
        fn entries<S: Seam>(entries: &mut Vec<Entry<S>>, stays: &dyn Fn(&Arc<str>, Scope) -> bool) {
            entries.retain(|e| stays(e.owner(), e.scope()));
        }
        entries(&mut child.session_start, &stays);
        entries(&mut child.subagent_start, &stays);
        entries(&mut child.prompt_submit, &stays);
        entries(&mut child.rewrite, &stays);
        entries(&mut child.pre_execute, &stays);
        entries(&mut child.permission, &stays);
        entries(&mut child.post_execute, &stays);
        entries(&mut child.batch, &stays);
        entries(&mut child.continuation, &stays);
        entries(&mut child.turn_stop, &stays);
        entries(&mut child.compaction, &stays);
        entries(&mut child.compacted, &stays);
        child.start_observers.retain(|m| stays(&m.id.owner, m.scope));
        child.wrappers.retain(|m| stays(&m.id.owner, m.scope));
        child.guards.retain(|m| stays(&m.id.owner, m.scope));
        child.observers.retain(|m| stays(&m.id.owner, m.scope));
        child.ask_observers.retain(|m| stays(&m.id.owner, m.scope));
        child.turn_observers.retain(|m| stays(&m.id.owner, m.scope));
        child.child_observers.retain(|m| stays(&m.id.owner, m.scope));
        child.end_observers.retain(|m| stays(&m.id.owner, m.scope));
        if let Some(tools) = tools {
            child.tools.retain(|(spec, _)| tools.contains(&spec.name));
            let places = child.tools.iter().enumerate().map(|(at, (spec, _))| (spec.name.clone(), at));
            child.by_name = places.collect();
        }
        child.opted_out.extend(opt_out.iter().cloned());
        child
    }

    /// Refuses a table with two handlers of one name, or with a decision where only observing was granted.
    pub fn check(&self) -> Result<(), TableError> {
        self.refused.first().map_or(Ok(()), |refused| Err(refused.clone()))
    }

    /// The tools, in registration order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.tools.iter().map(|(spec, _)| spec)
    }

    /// A tool by its name.
    pub fn find(&self, name: &str) -> Option<(&Arc<ToolSpec>, &Arc<dyn Tool>)> {
        let (spec, tool) = &self.tools[*self.by_name.get(name)?];
        Some((spec, tool))
    }

    /// The handlers of a point that match this input, in order. Pure: nothing runs.
    pub fn plan<S: Seam>(&self, input: &S::Input) -> Vec<Arc<Planned<S>>> {
        self.plan_part(input, Part::All)
    }

    /// One part of the plan: where bridges must see what native handlers left, they are planned when that is known.
    pub fn plan_part<S: Seam>(&self, input: &S::Input, part: Part) -> Vec<Arc<Planned<S>>> {
        let mut out = Vec::with_capacity(S::entries(self).len());
        let (scene, tool): (&Scene, Option<&str>) = (S::scene(input), S::tool(input));
        for entry in S::entries(self) {
            match entry {
                Entry::One { .. } if part == Part::Bridges => {}
                Entry::Many { .. } if part == Part::Native => {}
                Entry::One { planned, matches, .. } if matches.fit(scene, tool) => out.push(planned.clone()),
                Entry::Many { owner, source, matches, .. } if matches.fit(scene, tool) => {
                    // A bridge that panics here has failed like any handler of its point, and is named.
                    let mut contributed = Vec::new();
                    let planned = catch_unwind(AssertUnwindSafe(|| source.plan(input, &mut contributed)));
                    if planned.is_err() {
                        let (id, run) = (HandlerId::new(owner.clone(), "*"), Arc::new(Unplanned));
                        contributed.push(Planned { id, deadline: DEFAULT_DEADLINE, run, native: true });
                    }
                    out.extend(contributed.into_iter().map(Arc::new));
                }
                _ => {}
            }
        }
        out
    }

    /// True when nothing is registered at this point, or bridges that have nothing for it, so nothing needs to be planned.
    pub fn is_bare<S: Seam>(&self) -> bool {
        S::entries(self).iter().all(|entry| match entry {
            Entry::One { .. } => false,
            // One that panics has something, and says so when it is planned.
            Entry::Many { source, .. } => {
                catch_unwind(AssertUnwindSafe(|| source.is_idle())).unwrap_or(false)
            }
        })
    }

    /// The guards that have something to say, in mount order.
    pub fn guards(&self) -> impl Iterator<Item = &Mounted<dyn Guard>> {
        let is_idle = |guard: &dyn Guard| catch_unwind(AssertUnwindSafe(|| guard.is_idle())).unwrap_or(false);
        self.guards.iter().filter(move |guard| !is_idle(&*guard.run))
    }

    fn name(&mut self, point: Point, id: &HandlerId) {
        if !self.names.insert((point, id.clone())) {
            self.refuse(TableError::DuplicateHandler { point, id: id.clone() });
        }
    }

    fn refuse(&mut self, error: TableError) {
        self.refused.push(error);
    }
}

/// A bundle of registrations with a name: a bridge, a policy package.
pub trait Extension: Send + Sync + 'static {
    /// The owner's name.
    fn owner(&self) -> &str;
    /// Registers everything.
    fn register(self: Arc<Self>, at: &mut Registrar<'_>);
}

/// Stands for what a bridge would have planned.
struct Unplanned;

impl<S: Seam> Handler<S> for Unplanned {
    fn decide(&self, _: S::Input) -> LocalBoxFuture<'_, Result<Reply<S::Decision>, BoxError>> {
        Box::pin(async { Err("the bridge panicked while it looked for what matches".into()) })
    }
}
