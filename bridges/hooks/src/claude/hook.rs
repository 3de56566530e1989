//! One hook of a project as the driver sees it: a handler of its own, with its own name, limit and records.

use super::{
    House, background, canonical,
    config::{Definition, Origin},
    event::Event,
    mapping::{Heard, replacement},
    output::{Answer, Terms},
    overlay::Subject,
    payload::AUTO,
    post::Post,
    tool::Called,
    written::{Ask, Whom},
};
use crate::run::Program;
use futures::future::LocalBoxFuture;
use portcullis_runtime::{
    AfterCompaction, Asking, Batched, BoxError, CallBatch, ChildStarting, Compact, Compacting, Compaction,
    Continue, Ending as TurnEnding, Frozen, Handler, HandlerId, Noted, Permission, Permit, PostExecute,
    PromptSubmit, Proposal, Proposed, Reply, Returned, Review, Rewrite, Scene, SessionStart, Started,
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
        (self.work.same(), self.definition.rule_text.as_deref(), plugin)
    }

    /// Does its `if` hold for this call? Its matcher was asked before.
    pub(crate) fn applies(&self, tool: &str, input: Option<&Frozen>, cwd: &Path) -> bool {
        let Some(rule) = &self.definition.rule else { return true };
        input.is_some_and(|input| rule.holds(tool, input.root(), &self.house.project, cwd))
    }

    /// What `portcullis.toml` may ask about it.
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject { definition: &self.definition, origin: &self.origin, handler: &self.id.handler }
    }

    /// What reasons call it.
    pub(super) fn command(&self) -> &str {
        self.definition.written.name()
    }

    pub(super) fn terms(&self) -> Terms<'_> {
        let own = self.definition.blocks_on_failure.then_some("onFailure");
        let host = (self.house.on_failure == super::OnFailure::Block).then_some("on_failure");
        Terms {
            event: self.definition.event,
            command: self.command(),
            fidelity: self.house.fidelity,
            blocks_on_failure: own.or(host),
        }
    }

    /// Runs the command once and reads what it said. `look` sees the answer before it is recorded.
    ///
    /// A hook in the background, or one that goes there, has said nothing by the time this returns, and nothing it says later
    /// decides.
    async fn hear(
        &self,
        scene: &Scene,
        subject: &str,
        stdin: Vec<u8>,
        look: impl FnOnce(&mut Answer),
    ) -> Heard {
        if self.definition.background {
            background::leave(self.clone(), scene.clone(), subject, stdin);
            return Heard { answer: Answer::default(), records: Vec::new() };
        }
        let behind = self.catch_up(scene).await;
        match self.listen(scene, subject, stdin).await {
            Some(ran) => self.heard(scene, ran, behind.as_deref(), look).await,
            None => Heard { answer: Answer::default(), records: Vec::new() },
        }
    }
}

type Answering<'h, D> = LocalBoxFuture<'h, Result<Reply<D>, BoxError>>;

impl Handler<SessionStart> for Hook {
    fn decide(&self, input: Starting) -> Answering<'_, Started> {
        Box::pin(async move {
            let stdin = self.house.style().session_start(&input);
            let source = input.source.name();
            self.hear(&input.scene, source, stdin, |_| {}).await.session_start(source)
        })
    }
}

impl Handler<SubagentStart> for Hook {
    fn decide(&self, input: ChildStarting) -> Answering<'_, Started> {
        Box::pin(async move {
            let stdin = self.house.style().subagent_start(&input);
            let kind = input.scene.session.kind().map_or("", |kind| kind);
            self.hear(&input.scene, kind, stdin, |_| {}).await.subagent_start()
        })
    }
}

impl Handler<PromptSubmit> for Hook {
    fn decide(&self, input: Submitted) -> Answering<'_, Submit> {
        Box::pin(async move {
            let stdin = self.house.style().prompt_submit(&input);
            self.hear(&input.scene, "", stdin, |_| {}).await.prompt_submit()
        })
    }
}

impl Handler<Rewrite> for Hook {
    fn decide(&self, input: Proposed) -> Answering<'_, Proposal> {
        Box::pin(async move {
            let stdin = self.house.style().pre_tool_use(&input);
            let tool = canonical(&input.tool.name);
            self.hear(&input.scene, tool, stdin, |_| {}).await.pre_tool_use(tool)
        })
    }
}

impl Handler<Permission> for Hook {
    fn decide(&self, input: Asking) -> Answering<'_, Permit> {
        Box::pin(async move {
            let (style, call) = (self.house.style(), &input.call);
            let (tool, scene) = (canonical(&call.tool.name), &call.scene);
            let stdin = style.permission_request(&input);
            let mut other = None;
            let look = |answer: &mut Answer| {
                let spelt = |arguments: &Frozen| style.spelt(tool, arguments, scene);
                other = answer.rewrite.take().filter(|wanted| spelt(wanted) != spelt(&call.arguments));
            };
            let heard = self.hear(scene, tool, stdin, look).await;
            heard.permission_request(tool, other.as_ref().map(Frozen::text))
        })
    }
}

impl Handler<ToolBatch> for Hook {
    fn decide(&self, input: CallBatch) -> Answering<'_, Batched> {
        Box::pin(async move {
            let stdin = self.house.style().post_tool_batch(&input);
            self.hear(&input.scene, "", stdin, |_| {}).await.post_tool_batch()
        })
    }
}

impl Handler<PostExecute> for Hook {
    fn decide(&self, input: Returned) -> Answering<'_, Review> {
        Box::pin(async move {
            let (style, tool) = (self.house.style(), canonical(&input.name));
            if self.definition.event == Event::PermissionDenied {
                let stdin = style.permission_denied(&input);
                return self.hear(&input.scene, tool, stdin, |_| {}).await.permission_denied(tool);
            }
            if self.definition.event == Event::PostToolUseFailure {
                let stdin = style.post_tool_use_failure(&input);
                return self
                    .hear(&input.scene, tool, stdin, |_| {})
                    .await
                    .post_tool_use_failure(tool, self.command());
            }
            let stdin = style.post_tool_use(&input);
            let mut replaced = None;
            let look = |answer: &mut Answer| {
                replaced = replacement(tool, answer, &input.outcome);
                if replaced.is_none() && answer.output.is_some() {
                    answer.unused.push("updatedToolOutput");
                }
                if replaced.is_none() && answer.mcp_output.is_some() {
                    answer.unused.push("updatedMCPToolOutput");
                }
            };
            let heard = self.hear(&input.scene, tool, stdin, look).await;
            // What was seen before the answer was put into shadow is not used behind its back.
            heard.post_tool_use(tool, self.command(), replaced.filter(|_| !self.house.shadow))
        })
    }
}

impl Handler<Compaction> for Hook {
    fn decide(&self, input: Compacting) -> Answering<'_, Compact> {
        Box::pin(async move {
            let stdin = self.house.style().pre_compact(&input);
            self.hear(&input.scene, AUTO, stdin, |_| {}).await.pre_compact(self.command())
        })
    }
}

impl Handler<AfterCompaction> for Hook {
    fn decide(&self, input: Summarised) -> Answering<'_, Noted> {
        Box::pin(async move {
            let stdin = self.house.style().post_compact(&input);
            self.hear(&input.scene, AUTO, stdin, |_| {}).await.post_compact()
        })
    }
}

impl Handler<TurnContinuation> for Hook {
    fn decide(&self, input: TurnEnding) -> Answering<'_, Continue> {
        Box::pin(async move {
            let event = self.definition.event;
            let stdin = self.house.style().stop(event, &input);
            let kind = input.scene.session.kind().map_or("", |kind| kind);
            self.hear(&input.scene, kind, stdin, |_| {}).await.stop(event.name())
        })
    }
}
