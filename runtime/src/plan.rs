//! The table of registrations: what the dispatcher reads, and what `introspect()` shows.

use crate::{Execution, Reason};
use crate::{
    HandlerId, Outcome, Point, Tool, ToolSpec,
    seam::{
        Boundary, Committed, Continue, Ending, Gate, Guard, Handler, HandlerSource, IntoReply, Next, Planned,
        PostExecute, PreExecute, PromptSubmit, Proposal, Proposed, ResultObserver, Returned, Review, Rewrite,
        Seam, SessionStart, Started, Starting, StopTurn, Submit, Submitted, TurnContinuation, TurnStop,
        Wrapper,
    },
};
use serde::Serialize;
use std::{collections::HashSet, sync::Arc, time::Duration};

/// The time limit of an in-process handler that sets none.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// Which tools a handler is for: `*` stands for any run of characters, the rest is literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolMatch(Arc<str>);

impl ToolMatch {
    /// Every tool.
    pub fn any() -> ToolMatch {
        ToolMatch("*".into())
    }

    /// A pattern.
    pub fn new(pattern: &str) -> ToolMatch {
        ToolMatch(pattern.into())
    }

    /// Does the name match? Linear in the name for each run of `*`.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.len() >= last.len() && rest.ends_with(last)
    }

    /// The pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A row of a seam's part of the table.
pub enum Entry<S: Seam> {
    /// A handler.
    One {
        /// What is planned when it matches.
        planned: Arc<Planned<S>>,
        /// For which tools.
        tools: ToolMatch,
    },
    /// A bridge that contributes handlers for each dispatch.
    Many(Arc<dyn HandlerSource<S>>),
}

/// Everything registered, in mount order. Built once, then shared frozen: a dispatch keeps the table it started with.
#[derive(Default)]
#[non_exhaustive]
pub struct Table {
    pub(crate) session_start: Vec<Entry<SessionStart>>,
    pub(crate) prompt_submit: Vec<Entry<PromptSubmit>>,
    pub(crate) rewrite: Vec<Entry<Rewrite>>,
    pub(crate) pre_execute: Vec<Entry<PreExecute>>,
    pub(crate) post_execute: Vec<Entry<PostExecute>>,
    pub(crate) continuation: Vec<Entry<TurnContinuation>>,
    pub(crate) turn_stop: Vec<Entry<TurnStop>>,
    /// Wrappers around bodies, in mount order: the first is the outermost.
    pub wrappers: Vec<Mounted<dyn Wrapper>>,
    /// Guards, in mount order.
    pub guards: Vec<Mounted<dyn Guard>>,
    /// Observers of results, in mount order.
    pub observers: Vec<Mounted<dyn ResultObserver>>,
    tools: Vec<(Arc<ToolSpec>, Arc<dyn Tool>)>,
    by_name: std::collections::HashMap<Arc<str>, usize>,
    names: HashSet<(Point, HandlerId)>,
    duplicates: Vec<(Point, HandlerId)>,
}

/// A guard or an observer with its name.
pub struct Mounted<T: ?Sized> {
    /// Its name.
    pub id: HandlerId,
    /// For which tools.
    pub tools: ToolMatch,
    /// The code.
    pub run: Arc<T>,
}

/// One row of `introspect()`, read from the very table the dispatcher reads (C-SEAM-6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Registered {
    /// The point.
    pub point: Point,
    /// Who.
    #[serde(flatten)]
    pub id: HandlerId,
    /// For which tools, prompts or events, in the owner's own words.
    pub matches: Arc<str>,
    /// What a failure means.
    pub on_failure: Arc<str>,
    /// The time limit in milliseconds; `None` for guards and observers, which are synchronous.
    pub limit_ms: Option<u64>,
    /// The place in its point's order, from 0.
    pub order: u32,
    /// False for a bridge's.
    pub native: bool,
}

impl Registered {
    /// Describes a registration; the order is filled in by `introspect()`.
    pub fn new(
        point: Point,
        id: HandlerId,
        matches: impl Into<Arc<str>>,
        on_failure: impl Into<Arc<str>>,
        limit: Option<Duration>,
        native: bool,
    ) -> Registered {
        let limit_ms = limit.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        Registered {
            point,
            id,
            matches: matches.into(),
            on_failure: on_failure.into(),
            limit_ms,
            order: 0,
            native,
        }
    }
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
}

impl Table {
    /// An empty table.
    pub fn new() -> Table {
        Table::default()
    }

    /// Adds a tool.
    pub fn tool(&mut self, tool: Arc<dyn Tool>) -> Result<(), TableError> {
        let spec = Arc::new(tool.spec());
        if self.by_name.insert(spec.name.clone(), self.tools.len()).is_some() {
            return Err(TableError::DuplicateTool(spec.name.clone()));
        }
        self.tools.push((spec, tool));
        Ok(())
    }

    /// Registers handlers in the name of an owner.
    pub fn register(&mut self, owner: &str, mount: impl FnOnce(&mut Registrar<'_>)) {
        let mut at = Registrar {
            table: self,
            owner: owner.into(),
            tools: ToolMatch::any(),
            deadline: DEFAULT_DEADLINE,
        };
        mount(&mut at);
    }

    /// Refuses a table with two handlers of one name.
    pub fn check(&self) -> Result<(), TableError> {
        match self.duplicates.first() {
            Some((point, id)) => Err(TableError::DuplicateHandler { point: *point, id: id.clone() }),
            None => Ok(()),
        }
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
    pub fn plan<S: Seam>(&self, input: &S::Input) -> Vec<Planned<S>> {
        let mut out = Vec::new();
        for entry in S::entries(self) {
            match entry {
                Entry::One { planned, tools } => {
                    if S::tool(input).is_none_or(|tool| tools.matches(tool)) {
                        out.push(Planned {
                            id: planned.id.clone(),
                            deadline: planned.deadline,
                            run: planned.run.clone(),
                            native: planned.native,
                        });
                    }
                }
                Entry::Many(source) => source.plan(input, &mut out),
            }
        }
        out
    }

    /// True when nothing is registered at this point, so nothing needs to be planned.
    pub fn is_bare<S: Seam>(&self) -> bool {
        S::entries(self).is_empty()
    }

    /// Every registration, by point, in the order in which they run.
    pub fn introspect(&self) -> Vec<Registered> {
        let mut rows = Vec::new();
        rows_of(&self.session_start, &mut rows);
        rows_of(&self.prompt_submit, &mut rows);
        rows_of(&self.rewrite, &mut rows);
        rows_of(&self.pre_execute, &mut rows);
        for (point, id, tools) in self.guards.iter().map(|g| (Point::Guard, &g.id, &g.tools)) {
            rows.push(Registered::new(point, id.clone(), tools.as_str(), point.on_failure(), None, true));
        }
        for (point, id, tools) in self.wrappers.iter().map(|w| (Point::Execute, &w.id, &w.tools)) {
            rows.push(Registered::new(point, id.clone(), tools.as_str(), point.on_failure(), None, true));
        }
        rows_of(&self.post_execute, &mut rows);
        for (point, id, tools) in self.observers.iter().map(|o| (Point::Result, &o.id, &o.tools)) {
            rows.push(Registered::new(point, id.clone(), tools.as_str(), point.on_failure(), None, true));
        }
        rows_of(&self.continuation, &mut rows);
        rows_of(&self.turn_stop, &mut rows);
        let mut order = 0;
        let mut last = None;
        for row in &mut rows {
            order = if last == Some(row.point) { order + 1 } else { 0 };
            last = Some(row.point);
            row.order = order;
        }
        rows
    }

    fn name(&mut self, point: Point, id: &HandlerId) {
        if !self.names.insert((point, id.clone())) {
            self.duplicates.push((point, id.clone()));
        }
    }
}

fn rows_of<S: Seam>(entries: &[Entry<S>], rows: &mut Vec<Registered>) {
    for entry in entries {
        match entry {
            Entry::One { planned, tools } => rows.push(Registered::new(
                S::POINT,
                planned.id.clone(),
                tools.as_str(),
                S::POINT.on_failure(),
                Some(planned.deadline),
                true,
            )),
            Entry::Many(source) => rows.extend(source.describe()),
        }
    }
}

/// Registers one owner's handlers. `tools` and `within` narrow what is registered inside their closure only.
pub struct Registrar<'t> {
    table: &'t mut Table,
    owner: Arc<str>,
    tools: ToolMatch,
    deadline: Duration,
}

impl Registrar<'_> {
    /// What is registered inside is for the tools that match: `*` stands for any run, the rest is literal.
    pub fn tools(&mut self, pattern: &str, inside: impl FnOnce(&mut Registrar<'_>)) -> &mut Self {
        let mut at = Registrar {
            table: self.table,
            owner: self.owner.clone(),
            tools: ToolMatch::new(pattern),
            deadline: self.deadline,
        };
        inside(&mut at);
        self
    }

    /// What is registered inside has this time limit.
    pub fn within(&mut self, limit: Duration, inside: impl FnOnce(&mut Registrar<'_>)) -> &mut Self {
        let mut at = Registrar {
            table: self.table,
            owner: self.owner.clone(),
            tools: self.tools.clone(),
            deadline: limit,
        };
        inside(&mut at);
        self
    }

    /// Adds context when a session starts or resumes.
    pub fn session_start<R: IntoReply<Started>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Starting) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<SessionStart>(name, handler)
    }

    /// Judges each prompt of a user.
    pub fn prompt_submit<R: IntoReply<Submit>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Submitted) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<PromptSubmit>(name, handler)
    }

    /// Proposes other arguments for a call.
    pub fn rewrite<R: IntoReply<Proposal>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Proposed) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<Rewrite>(name, handler)
    }

    /// Judges each call.
    pub fn pre_execute<R: IntoReply<Gate>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Execution) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<PreExecute>(name, handler)
    }

    /// Adds a guard: synchronous, after everything else, denies or abstains.
    pub fn guard(
        &mut self,
        name: &str,
        guard: impl Fn(&Execution) -> Option<Reason> + Send + Sync + 'static,
    ) -> &mut Self {
        let id = HandlerId::new(self.owner.clone(), name);
        self.table.name(Point::Guard, &id);
        self.table.guards.push(Mounted { id, tools: self.tools.clone(), run: Arc::new(guard) });
        self
    }

    /// Wraps the bodies of calls: sees their outcomes, may run them again, may answer in their stead.
    pub fn wrap(
        &mut self,
        name: &str,
        wrapper: impl AsyncFn(Next<'_>) -> Outcome + Send + Sync + 'static,
    ) -> &mut Self {
        self.wrapper(name, wrapper)
    }

    /// Registers a typed wrapper.
    pub fn wrapper(&mut self, name: &str, wrapper: impl Wrapper) -> &mut Self {
        let id = HandlerId::new(self.owner.clone(), name);
        self.table.name(Point::Execute, &id);
        self.table.wrappers.push(Mounted { id, tools: self.tools.clone(), run: Arc::new(wrapper) });
        self
    }

    /// May end the turn at a step boundary at which it would go on.
    pub fn turn_stop<R: IntoReply<StopTurn>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Boundary) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<TurnStop>(name, handler)
    }

    /// Reviews each decided call before its result is final.
    pub fn post_execute<R: IntoReply<Review>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Returned) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<PostExecute>(name, handler)
    }

    /// Observes each committed result.
    pub fn result(&mut self, name: &str, observer: impl Fn(&Committed) + Send + Sync + 'static) -> &mut Self {
        let id = HandlerId::new(self.owner.clone(), name);
        self.table.name(Point::Result, &id);
        self.table.observers.push(Mounted { id, tools: self.tools.clone(), run: Arc::new(observer) });
        self
    }

    /// May ask for another step when the turn is about to stop.
    pub fn turn_continuation<R: IntoReply<Continue>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Ending) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<TurnContinuation>(name, handler)
    }

    /// Registers a typed handler of any seam.
    pub fn handler<S: Seam>(&mut self, name: &str, handler: impl Handler<S>) -> &mut Self {
        let id = HandlerId::new(self.owner.clone(), name);
        self.table.name(S::POINT, &id);
        let planned = Arc::new(Planned { id, deadline: self.deadline, run: Arc::new(handler), native: true });
        S::entries_mut(self.table).push(Entry::One { planned, tools: self.tools.clone() });
        self
    }

    /// Registers a bridge that contributes handlers for each dispatch.
    pub fn source<S: Seam>(&mut self, source: Arc<dyn HandlerSource<S>>) -> &mut Self {
        S::entries_mut(self.table).push(Entry::Many(source));
        self
    }
}

/// A bundle of registrations with a name: a bridge, a policy package.
pub trait Extension: Send + Sync + 'static {
    /// The owner's name.
    fn owner(&self) -> &str;
    /// Registers everything.
    fn register(self: Arc<Self>, at: &mut Registrar<'_>);
}
