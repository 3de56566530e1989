//! One hook of a project as the driver sees it: a handler of its own, with its own name, limit and records.

use super::{
    House, background, canonical,
    config::{Definition, Origin},
    environment,
    event::Event,
    mapping::{Heard, replacement},
    output::{Answer, Terms},
    overlay::Subject,
    oversize,
};
use crate::{
    records::{Answered, Invoked},
    run::{Job, Program, Ran, run},
};
use futures::future::LocalBoxFuture;
use portcullis_process::{Ending, Permits, Status};
use portcullis_runtime::{
    BoxError, ChildStarting, Continue, Ending as TurnEnding, Frozen, Handler, HandlerId, OwnRecord,
    PostExecute, PromptSubmit, Proposal, Proposed, Reply, Returned, Review, Rewrite, Scene, SessionStart,
    Started, Starting, SubagentStart, Submit, Submitted, TurnContinuation,
};
use std::{path::Path, sync::Arc};
use tracing::Instrument;

/// A hook, compiled.
#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) id: HandlerId,
    pub(crate) definition: Definition,
    pub(crate) origin: Arc<Origin>,
    pub(crate) program: Program,
    pub(crate) house: Arc<House>,
}

impl Hook {
    /// Equal keys are one handler: the client runs the last definition only.
    pub(crate) fn key(&self) -> (&Program, Option<&str>, Option<&str>) {
        let plugin = self.origin.plugin.as_ref().map(|plugin| plugin.name.as_str());
        (&self.program, self.definition.rule_text.as_deref(), plugin)
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

    fn command(&self) -> &str {
        &self.definition.written.command
    }

    fn terms(&self) -> Terms<'_> {
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
    /// A hook in the background has said nothing by the time this returns, and nothing it says later decides.
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
        let permits = self.house.permits.clone();
        self.listen(scene, stdin, permits, look).await
    }

    /// Runs the command to its end.
    pub(super) async fn listen(
        &self,
        scene: &Scene,
        stdin: Vec<u8>,
        permits: Option<Permits>,
        look: impl FnOnce(&mut Answer),
    ) -> Heard {
        let house = &*self.house;
        let plugin = self.origin.plugin.as_ref();
        let cwd = environment::directory(scene, &house.project);
        let ran = run(Job {
            program: self.program.clone(),
            env: environment::of_run(&house.env, scene, &cwd, plugin),
            cwd,
            stdin,
            limit: self.definition.timeout,
            permits,
        })
        .instrument(tracing::debug_span!("hook", handler = %self.id))
        .await;
        let mut answer = self.terms().read(&ran);
        look(&mut answer);
        let records = self.records(&ran, &answer);
        if house.shadow {
            answer = answer.in_shadow();
        }
        let folder = || house.transcripts.join(scene.session.root.as_str()).join("tool-results");
        if let Some(text) = answer.plain.take()
            && matches!(self.definition.event, Event::SessionStart | Event::UserPromptSubmit)
        {
            answer.plain = Some(oversize::bound(text, folder(), "stdout").await);
        }
        if let Some(text) = answer.context.take() {
            answer.context = Some(oversize::bound(text, folder(), "additionalContext").await);
        }
        Heard { answer, records }
    }

    fn records(&self, ran: &Ran, answer: &Answer) -> Vec<OwnRecord> {
        let (dialect, event, handler) = (super::DIALECT, self.definition.event.name(), &*self.id.handler);
        let line = self.definition.written.line();
        let invoked = Invoked {
            dialect,
            event,
            handler,
            command: Some(&line),
            matcher: self.definition.matcher_text.as_deref(),
        };
        let mut result = Answered {
            dialect,
            event,
            handler,
            decision: if answer.spoken.is_empty() { "none" } else { answer.spoken },
            error: answer.failure.as_deref(),
            message: answer.message.as_deref(),
            unused: &answer.unused,
            shadow: self.house.shadow.then(|| answer.would()),
            ..Answered::default()
        };
        let stderr;
        if let Ok(finished) = ran {
            match finished.status {
                Status::Code(code) => result.exit = Some(code),
                Status::Signal(signal) => result.signal = Some(signal),
                Status::Unknown => {}
            }
            result.ms = u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX);
            result.timed_out = finished.ending == Ending::TimedOut;
            result.cut = finished.stdout.is_cut() || finished.stderr.is_cut();
            stderr = finished.stderr.text();
            result.stderr = &stderr;
            return invoked.record().into_iter().chain(result.record()).collect();
        }
        invoked.record().into_iter().chain(result.record()).collect()
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

impl Handler<PostExecute> for Hook {
    fn decide(&self, input: Returned) -> Answering<'_, Review> {
        Box::pin(async move {
            let (style, tool) = (self.house.style(), canonical(&input.name));
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
            heard.post_tool_use(tool, self.command(), replaced)
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
