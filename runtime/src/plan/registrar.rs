//! Registering: one owner's handlers, guards, wrappers and observers.

use super::{Entry, Matches, Mounted, Scope, Table, TableError, ToolMatch};
use crate::{
    Execution, HandlerId, Outcome, Point, Reason,
    seam::{
        AfterCompaction, AskObserver, Asking, Batched, Boundary, BoxError, CallBatch, ChildEnded,
        ChildObserver, ChildStarting, Committed, Compact, Compacting, Compaction, Continue, EndObserver,
        Ending, Gate, Guard, Handler, HandlerSource, IntoReply, Next, Noted, Permission, Permit, Planned,
        PostExecute, PreExecute, PromptSubmit, Proposal, Proposed, PutQuestion, Reply, ResultObserver,
        Returned, Review, Rewrite, Seam, SessionEnded, SessionStart, StartObserver, Started, Starting,
        StopTurn, SubagentStart, Submit, Submitted, Summarised, ToolBatch, TurnContinuation, TurnEnded,
        TurnObserver, TurnStarting, TurnStop, Wrapper, session_end::Told, turn_start::Looks,
    },
};
use futures::future::LocalBoxFuture;
use std::{ops::RangeInclusive, sync::Arc, time::Duration};

/// Registers one owner's handlers. `tools`, `channel`, `depth` and `within` narrow what is registered inside their
/// closure only.
pub struct Registrar<'t> {
    pub(super) table: &'t mut Table,
    pub(super) owner: Arc<str>,
    pub(super) matches: Matches,
    pub(super) deadline: Duration,
    pub(super) once: bool,
    pub(super) scope: Scope,
    /// The host let this owner decide.
    pub(super) decides: bool,
}

impl Registrar<'_> {
    fn narrowed(&mut self, narrow: impl FnOnce(&mut Registrar<'_>), inside: impl FnOnce(&mut Registrar<'_>)) {
        let mut at = Registrar {
            table: self.table,
            owner: self.owner.clone(),
            matches: self.matches.clone(),
            deadline: self.deadline,
            once: self.once,
            scope: self.scope,
            decides: self.decides,
        };
        narrow(&mut at);
        inside(&mut at);
    }

    /// What is registered inside is for the tools that match: `*` stands for any run, the rest is literal.
    pub fn tools(&mut self, pattern: &str, inside: impl FnOnce(&mut Registrar<'_>)) -> &mut Self {
        self.narrowed(|at| at.matches.tools = ToolMatch::new(pattern), inside);
        self
    }

    /// What is registered inside is for sessions opened through this kind of front door (`cli`, `http`, …; `*` stands
    /// for any run).
    pub fn channel(&mut self, pattern: &str, inside: impl FnOnce(&mut Registrar<'_>)) -> &mut Self {
        self.narrowed(|at| at.matches.channel = ToolMatch::new(pattern), inside);
        self
    }

    /// What is registered inside is for agents at this depth: 0 is the session itself, 1 its subagents, and so on.
    pub fn depth(
        &mut self,
        depth: RangeInclusive<u32>,
        inside: impl FnOnce(&mut Registrar<'_>),
    ) -> &mut Self {
        self.narrowed(|at| at.matches.depth = (*depth.start(), *depth.end()), inside);
        self
    }

    /// What is registered inside has this time limit.
    pub fn within(&mut self, limit: Duration, inside: impl FnOnce(&mut Registrar<'_>)) -> &mut Self {
        self.narrowed(|at| at.deadline = limit, inside);
        self
    }

    /// Handlers registered inside must not run twice for one decision, whatever happens to their process. One that was cut
    /// off counts as failed for that decision; without this it runs again. Costs a record and a wait for the disk before
    /// each run. Guards, wrappers and observers are not concerned.
    pub fn once(&mut self, inside: impl FnOnce(&mut Registrar<'_>)) -> &mut Self {
        self.narrowed(|at| at.once = true, inside);
        self
    }

    /// What is registered inside does not pass on to the subagents of the session it is registered for.
    pub fn this_agent_only(&mut self, inside: impl FnOnce(&mut Registrar<'_>)) -> &mut Self {
        self.narrowed(|at| at.scope = Scope::Agent, inside);
        self
    }

    /// Observes each turn's start, before anything of it is done.
    pub fn turn_start(
        &mut self,
        name: &str,
        observer: impl AsyncFn(TurnStarting) + Send + Sync + 'static,
    ) -> &mut Self {
        let limit = self.deadline;
        self.turn_start_by(name, Looks(observer, limit))
    }

    /// Observes each turn's start, with records of its own and a limit that it sets itself.
    pub fn turn_start_by(&mut self, name: &str, observer: impl StartObserver) -> &mut Self {
        let run = Arc::new(observer) as Arc<dyn StartObserver>;
        if let Some(mounted) = self.mounted(Point::TurnStart, name, run) {
            self.table.start_observers.push(mounted);
        }
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

    /// May answer a question about a call before it is put to a person.
    pub fn permission<R: IntoReply<Permit>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Asking) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<Permission>(name, handler)
    }

    /// Looks at the results of a step's calls together.
    pub fn batch<R: IntoReply<Batched>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(CallBatch) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<ToolBatch>(name, handler)
    }

    /// Adds a guard: synchronous, after everything else, denies or abstains.
    pub fn guard(
        &mut self,
        name: &str,
        guard: impl Fn(&Execution) -> Option<Reason> + Send + Sync + 'static,
    ) -> &mut Self {
        self.guard_by(name, guard)
    }

    /// Adds a typed guard.
    pub fn guard_by(&mut self, name: &str, guard: impl Guard) -> &mut Self {
        if let Some(mounted) = self.mounted(Point::Guard, name, Arc::new(guard) as Arc<dyn Guard>) {
            self.table.guards.push(mounted);
        }
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
        if let Some(mounted) = self.mounted(Point::Execute, name, Arc::new(wrapper) as Arc<dyn Wrapper>) {
            self.table.wrappers.push(mounted);
        }
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

    /// May say what a summary of the conversation must keep, or leave the conversation as it is.
    pub fn compaction<R: IntoReply<Compact>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Compacting) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<Compaction>(name, handler)
    }

    /// Sees each summary of the conversation, once it is in force.
    pub fn compacted<R: IntoReply<Noted>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(Summarised) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<AfterCompaction>(name, handler)
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
        if let Some(mounted) =
            self.mounted(Point::Result, name, Arc::new(observer) as Arc<dyn ResultObserver>)
        {
            self.table.observers.push(mounted);
        }
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
        if self.may(S::POINT, &id) {
            let run: Arc<dyn Handler<S>> =
                if self.once { Arc::new(Once(handler)) } else { Arc::new(handler) };
            let planned = Arc::new(Planned { id, deadline: self.deadline, run, native: true });
            let (matches, scope) = (self.matches.clone(), self.scope);
            S::entries_mut(self.table).push(Entry::One { planned, matches, scope });
        }
        self
    }

    /// Registers a bridge that contributes handlers for each dispatch.
    pub fn source<S: Seam>(&mut self, source: Arc<dyn HandlerSource<S>>) -> &mut Self {
        let id = HandlerId::new(self.owner.clone(), "*");
        if self.decides || !S::POINT.decides() {
            let (owner, matches, scope) = (self.owner.clone(), self.matches.clone(), self.scope);
            S::entries_mut(self.table).push(Entry::Many { owner, source, matches, scope });
        } else {
            self.table.refuse(TableError::MayNotDecide { point: S::POINT, id });
        }
        self
    }

    /// Adds context to a subagent's first request.
    pub fn subagent_start<R: IntoReply<Started>>(
        &mut self,
        name: &str,
        handler: impl AsyncFn(ChildStarting) -> R + Send + Sync + 'static,
    ) -> &mut Self {
        self.handler::<SubagentStart>(name, handler)
    }

    /// Observes each subagent's end.
    pub fn subagent_end(
        &mut self,
        name: &str,
        observer: impl Fn(&ChildEnded) + Send + Sync + 'static,
    ) -> &mut Self {
        let run = Arc::new(observer) as Arc<dyn ChildObserver>;
        if let Some(mounted) = self.mounted(Point::SubagentEnd, name, run) {
            self.table.child_observers.push(mounted);
        }
        self
    }

    /// Observes each question that is put to a person.
    pub fn asked(
        &mut self,
        name: &str,
        observer: impl Fn(&PutQuestion) + Send + Sync + 'static,
    ) -> &mut Self {
        let run = Arc::new(observer) as Arc<dyn AskObserver>;
        if let Some(mounted) = self.mounted(Point::Asked, name, run) {
            self.table.ask_observers.push(mounted);
        }
        self
    }

    /// Observes each turn's end.
    pub fn turn_end(
        &mut self,
        name: &str,
        observer: impl Fn(&TurnEnded) + Send + Sync + 'static,
    ) -> &mut Self {
        let run = Arc::new(observer) as Arc<dyn TurnObserver>;
        if let Some(mounted) = self.mounted(Point::TurnEnd, name, run) {
            self.table.turn_observers.push(mounted);
        }
        self
    }

    /// Observes each session's end, while its log can still be written.
    pub fn session_end(
        &mut self,
        name: &str,
        observer: impl AsyncFn(SessionEnded) + Send + Sync + 'static,
    ) -> &mut Self {
        self.session_end_by(name, Told(observer))
    }

    /// Observes each session's end, with records of its own.
    pub fn session_end_by(&mut self, name: &str, observer: impl EndObserver) -> &mut Self {
        let run = Arc::new(observer) as Arc<dyn EndObserver>;
        if let Some(mounted) = self.mounted(Point::SessionEnd, name, run) {
            self.table.end_observers.push(mounted);
        }
        self
    }

    fn mounted<T: ?Sized>(&mut self, point: Point, name: &str, run: Arc<T>) -> Option<Mounted<T>> {
        let id = HandlerId::new(self.owner.clone(), name);
        self.may(point, &id).then(|| Mounted { id, matches: self.matches.clone(), scope: self.scope, run })
    }

    /// A name is taken once, and deciding is the host's to grant (C-SEAM-5).
    fn may(&mut self, point: Point, id: &HandlerId) -> bool {
        if !self.decides && point.decides() {
            self.table.refuse(TableError::MayNotDecide { point, id: id.clone() });
            return false;
        }
        self.table.name(point, id);
        true
    }
}

/// A handler that runs once.
struct Once<H>(H);

impl<S: Seam, H: Handler<S>> Handler<S> for Once<H> {
    fn decide(&self, input: S::Input) -> LocalBoxFuture<'_, Result<Reply<S::Decision>, BoxError>> {
        self.0.decide(input)
    }

    fn once(&self) -> bool {
        true
    }
}
