//! One hook of a project as the driver sees it: a handler of its own, with its own name, limit and records.

use crate::{
    answer::{Answer, Heard, Terms},
    background,
    definition::{Definition, Origin},
    explain::At,
    options::OnFailure,
    overlay::Subject,
    post::Post,
    run::Program,
    set::House,
    tool::Called,
    written::{Ask, Whom},
};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{
    AfterCompaction, Asking, Batched, BoxError, CallBatch, ChildStarting, Compact, Compacting, Compaction,
    Continue, Ending as TurnEnding, Frozen, Handler, HandlerId, Noted, OwnRecord, Permission, Permit,
    PostExecute, PromptSubmit, Proposal, Proposed, Reply, Returned, Review, Rewrite, SessionStart, Started,
    Starting, SubagentStart, Submit, Submitted, Summarised, ToolBatch, TurnContinuation,
};
use std::{path::Path, sync::Arc};

/// What a hook does, with what is known of it filled in.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Process(Program),
    Ask(Ask),
    Post(Post),
    Tool(Called),
}

/// By what the client takes two handlers for one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Same<'h> {
    Process(&'h Program),
    Ask(Whom, &'h str),
    /// Whatever its headers are.
    Post(&'h str),
    Tool(&'h Called),
}

impl Work {
    fn same(&self) -> Same<'_> {
        match self {
            Work::Process(program) => Same::Process(program),
            Work::Ask(ask) => Same::Ask(ask.whom, &ask.prompt),
            Work::Post(post) => Same::Post(&post.url),
            Work::Tool(called) => Same::Tool(called),
        }
    }
}

/// A hook, compiled.
#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) id: HandlerId,
    pub(crate) definition: Definition,
    pub(crate) origin: Arc<Origin>,
    pub(crate) work: Work,
    pub(crate) house: Arc<House>,
    /// Its place among those that run with it, from 0, where the environment tells it.
    pub(crate) place: usize,
}

impl Hook {
    /// Equal keys are one handler: the client runs the last definition only.
    pub(crate) fn key(&self) -> (Same<'_>, Option<&str>, Option<&str>) {
        let plugin = self.origin.plugin.as_ref().map(|plugin| plugin.name.as_str());
        (self.work.same(), self.definition.condition_text.as_deref(), plugin)
    }

    /// Does its `if` hold for this call? Its matcher was asked before.
    pub(crate) fn applies(&self, tool: &str, input: Option<&Frozen>, cwd: &Path) -> bool {
        let Some(condition) = &self.definition.condition else { return true };
        input.is_some_and(|input| condition.holds(tool, input.root(), &self.house.project, cwd))
    }

    /// What `portcullis.toml` may ask about it.
    pub(crate) fn subject(&self) -> Subject<'_> {
        let dialect = self.house.dialect.name();
        Subject { dialect, definition: &self.definition, origin: &self.origin, handler: &self.id.handler }
    }

    /// What reasons call it.
    pub(crate) fn command(&self) -> &str {
        self.definition.written.name()
    }

    pub(crate) fn terms(&self) -> Terms<'_> {
        let own = self.definition.blocks_on_failure.then_some("onFailure");
        let host = (self.house.on_failure == OnFailure::Block).then_some("on_failure");
        Terms {
            event: self.definition.event,
            command: self.command(),
            fidelity: self.house.fidelity,
            blocks_on_failure: own.or(host),
        }
    }

    /// Does the hook's work once and reads what it said, for a reply that the dialect makes of it.
    ///
    /// A hook in the background, or one that goes there, has said nothing by the time this returns, and nothing it says later
    /// decides.
    pub(crate) async fn hear(&self, at: At<'_>) -> Heard {
        let (dialect, scene, event) = (self.house.dialect, at.scene(), self.definition.event);
        let subject = dialect.sort(at).map(|sorted| sorted.subject).unwrap_or_default();
        let stdin = dialect.payload(event, at, self.house.style());
        if self.definition.background {
            background::leave(self.clone(), scene.clone(), &subject, stdin);
            return self.silence(subject);
        }
        let behind = self.catch_up(scene).await;
        match self.listen(scene, &subject, stdin).await {
            Some(ran) => self.heard(scene, subject, ran, behind.as_deref(), Some(at)).await,
            None => self.silence(subject),
        }
    }

    fn silence(&self, subject: String) -> Heard {
        self.says(subject, Answer::default(), Vec::new())
    }

    /// What it said, with whom it was.
    pub(crate) fn says(&self, subject: String, answer: Answer, records: Vec<OwnRecord>) -> Heard {
        let (event, command) = (self.definition.event, self.command().to_owned());
        let file = self.origin.named.as_ref().unwrap_or(&self.origin.path);
        let place = (file.clone(), self.definition.order);
        Heard { event, subject, command, place, answer, records }
    }
}

type Answering<'h, D> = LocalBoxFuture<'h, Result<Reply<D>, BoxError>>;

/// A seam at which hooks answer: what they are told of, and what becomes of the answer.
macro_rules! answers {
    ($($seam:ty: $input:ty => $decision:ty, $at:ident, $means:ident;)*) => {$(
        impl Handler<$seam> for Hook {
            fn decide(&self, input: $input) -> Answering<'_, $decision> {
                Box::pin(async move {
                    let heard = self.hear(At::$at(&input)).await;
                    self.house.dialect.$means(heard)
                })
            }
        }
    )*};
}

answers! {
    SessionStart: Starting => Started, SessionStart, started;
    SubagentStart: ChildStarting => Started, SubagentStart, started;
    PromptSubmit: Submitted => Submit, UserPromptSubmit, submit;
    Rewrite: Proposed => Proposal, PreToolUse, proposal;
    Permission: Asking => Permit, PermissionRequest, permit;
    PostExecute: Returned => Review, PostToolUse, review;
    ToolBatch: CallBatch => Batched, PostToolBatch, batched;
    TurnContinuation: TurnEnding => Continue, Stop, again;
    Compaction: Compacting => Compact, PreCompact, compact;
    AfterCompaction: Summarised => Noted, PostCompact, noted;
}
