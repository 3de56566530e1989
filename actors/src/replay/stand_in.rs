//! Who stands in for foreign code while a log is played again: a model, and a table of the very names that were registered.
//!
//! Nothing of the table is ever asked: answers come from the log. It is there because the law's driver looks at it, to see
//! where somebody is registered at all, and because a configuration is a record, too.

use super::{
    ReplayError,
    cue::Cue,
    script::{Said, Script},
};
use crate::summary;
use futures::{FutureExt, StreamExt, future::LocalBoxFuture, stream, stream::BoxStream};
use portcullis_runtime::{
    AfterCompaction, AssistantBlock, AssistantMessage, Body, BoxError, Compaction, Execution, HandlerId,
    HandlerRow, HandlerSource, Model, ModelError, ModelEvent, ModelRequest, Next, Outcome, Output,
    Permission, Planned, Point, PostExecute, PreExecute, PromptSubmit, Reason, Registered, Rewrite, Seam,
    SessionStart, SubagentStart, Table, Tool, ToolBatch, ToolCx, ToolError, ToolHeader, ToolSpec,
    TurnContinuation, TurnStop,
};
use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, OnceLock},
};

/// The cue of a stand-in; set before anything runs.
pub(super) type Later = Arc<OnceLock<Arc<Cue>>>;

fn called(cue: &Later) {
    if let Some(cue) = cue.get() {
        cue.called();
    }
}

/// The table of a life.
pub(super) fn table(
    script: &Script,
    life: &Range<usize>,
    rows: &[HandlerRow],
    tools: &[ToolHeader],
    cue: &Later,
) -> Result<Table, ReplayError> {
    let mut table = Table::new();
    for tool in tools {
        let spec = ToolSpec::new(&tool.name, tool.description.clone(), tool.schema.clone())
            .map_err(|e| ReplayError::Tool(e.to_string()))?;
        let (idempotent, safe) = script.flags(life, &tool.name);
        let spec = if idempotent { spec.idempotent() } else { spec };
        let spec = if safe { spec.concurrency_safe() } else { spec };
        table
            .tool(Arc::new(Silent { spec, cue: cue.clone() }))
            .map_err(|e| ReplayError::Tool(e.to_string()))?;
    }
    let points = script.points(life);
    source::<SessionStart>(&mut table, rows, &points, cue);
    source::<SubagentStart>(&mut table, rows, &points, cue);
    source::<PromptSubmit>(&mut table, rows, &points, cue);
    source::<Rewrite>(&mut table, rows, &points, cue);
    source::<PreExecute>(&mut table, rows, &points, cue);
    source::<Permission>(&mut table, rows, &points, cue);
    source::<PostExecute>(&mut table, rows, &points, cue);
    source::<ToolBatch>(&mut table, rows, &points, cue);
    source::<TurnContinuation>(&mut table, rows, &points, cue);
    source::<TurnStop>(&mut table, rows, &points, cue);
    source::<Compaction>(&mut table, rows, &points, cue);
    source::<AfterCompaction>(&mut table, rows, &points, cue);
    for HandlerRow { point, id } in rows {
        let cue = cue.clone();
        table.register(&id.owner, |at| match point {
            Point::Guard => {
                at.guard(&id.handler, move |_: &Execution| -> Option<Reason> {
                    called(&cue);
                    None
                });
            }
            Point::Execute => {
                at.wrap(&id.handler, async move |next: Next<'_>| -> Outcome {
                    called(&cue);
                    next.run().await
                });
            }
            Point::TurnStart => _ = at.turn_start(&id.handler, async |_| {}),
            // Told what is committed, they decide nothing.
            Point::Result => _ = at.result(&id.handler, |_| {}),
            Point::Asked => _ = at.asked(&id.handler, |_| {}),
            Point::TurnEnd => _ = at.turn_end(&id.handler, |_| {}),
            Point::SubagentEnd => _ = at.subagent_end(&id.handler, |_| {}),
            Point::SessionEnd => _ = at.session_end(&id.handler, async |_| {}),
            _ => {}
        });
    }
    Ok(table)
}

fn source<S: Seam>(table: &mut Table, rows: &[HandlerRow], points: &BTreeSet<Point>, cue: &Later) {
    let ids: Vec<HandlerId> =
        rows.iter().filter(|row| row.point == S::POINT).map(|row| row.id.clone()).collect();
    // A bridge may decide that named nobody beforehand.
    if !ids.is_empty() || points.contains(&S::POINT) {
        let named = Named { ids, cue: cue.clone() };
        table.register("replay", |at| _ = at.source::<S>(Arc::new(named)));
    }
}

/// Names who was registered at a point.
struct Named {
    ids: Vec<HandlerId>,
    cue: Later,
}

impl<S: Seam> HandlerSource<S> for Named {
    fn plan(&self, _: &S::Input, _: &mut Vec<Planned<S>>) {
        called(&self.cue);
    }

    fn describe(&self) -> Vec<Registered> {
        let row = |id: &HandlerId| Registered::new(S::POINT, id.clone(), "", "", None, true);
        self.ids.iter().map(row).collect()
    }
}

/// A tool's description without its code.
struct Silent {
    spec: ToolSpec,
    cue: Later,
}

impl Tool for Silent {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call(&self, _: Execution, _: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        called(&self.cue);
        let error: BoxError = "nothing runs in a replay".into();
        Box::pin(async move { Err(error.into()) })
    }
}

/// Answers what was answered.
pub(super) struct Prompter {
    pub(super) name: Arc<str>,
    pub(super) cue: Later,
}

type Events = BoxStream<'static, Result<ModelEvent, ModelError>>;

impl Model for Prompter {
    fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    fn respond(&self, request: ModelRequest) -> Events {
        let Some(cue) = self.cue.get().cloned() else { return stream::pending().boxed() };
        match cue.said(&request) {
            (_, Some(asked)) => summarise(cue, asked),
            (Said::Message(place, message), None) => {
                let wait = async move { cue.reached(place).await };
                behind(wait, whole(&message))
            }
            (Said::Interrupted(cancel, message), None) => {
                let wait = async move {
                    cue.interrupt(cancel).await;
                    std::future::pending().await
                };
                stream::iter(pieces(&message).into_iter().map(Ok)).chain(behind(wait, Vec::new())).boxed()
            }
            (Said::Failed(place, code, message), None) => {
                let wait = async move { cue.reached(place).await };
                behind(wait, vec![Err(error(&code, &message))])
            }
            (Said::Nothing, None) => stream::pending().boxed(),
        }
    }
}

fn behind(
    wait: impl Future<Output = ()> + Send + 'static,
    events: Vec<Result<ModelEvent, ModelError>>,
) -> Events {
    stream::once(wait.map(|()| stream::iter(events))).flatten().boxed()
}

/// The summary that was made, or why there was none.
fn summarise(cue: Arc<Cue>, started: usize) -> Events {
    let rest = &cue.script.log[started..cue.life.end];
    let ended = rest.iter().enumerate().find_map(|(n, record)| match &record.body {
        Body::CompactionEnded(ended) => Some((started + n, ended.clone())),
        _ => None,
    });
    let Some((place, ended)) = ended else { return stream::pending().boxed() };
    let events = match (&ended.summary, &ended.skipped) {
        (Some(summary), _) => {
            let text = summary.to_text();
            vec![Ok(ModelEvent::Text(summary::said(&text).to_owned()))]
        }
        (None, Some(reason)) => match summary::failure(reason.as_str()) {
            Some(message) => vec![Err(ModelError::Fatal { message: message.to_owned() })],
            None => Vec::new(),
        },
        (None, None) => Vec::new(),
    };
    let stop = Ok(ModelEvent::Finish(portcullis_runtime::Finish::Stop));
    let events = events.into_iter().chain([stop]).collect();
    behind(async move { cue.reached(place).await }, events)
}

/// The pieces that the message was put together from, as far as that makes a difference.
fn pieces(message: &AssistantMessage) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    let mut last = None;
    for block in message.blocks.iter() {
        let kind = std::mem::discriminant(block);
        if last == Some(kind) && !matches!(block, AssistantBlock::Call { .. }) {
            // What stood between the two was not kept.
            events.push(ModelEvent::CallStart { id: String::new(), name: String::new() });
        }
        last = Some(kind);
        match block {
            AssistantBlock::Text { text } => events.push(ModelEvent::Text(text.to_string())),
            AssistantBlock::Reasoning { text } => events.push(ModelEvent::Reasoning(text.to_string())),
            AssistantBlock::Call { id, name, arguments } => {
                events.push(ModelEvent::CallStart { id: id.to_string(), name: name.to_string() });
                events.push(ModelEvent::CallText(arguments.to_string()));
            }
            _ => {}
        }
    }
    events.extend(message.usage.map(ModelEvent::Usage));
    events
}

fn whole(message: &AssistantMessage) -> Vec<Result<ModelEvent, ModelError>> {
    let finish = ModelEvent::Finish(message.finish.clone());
    pieces(message).into_iter().chain([finish]).map(Ok).collect()
}

/// The error that ends a turn with this code and message.
fn error(code: &str, message: &str) -> ModelError {
    let number = |text: &str| text.split(' ').find_map(|word| word.parse().ok());
    let cut = ModelError::Cut { events: number(message).unwrap_or_default() };
    let retry_after = number(message).map(|s| std::time::Duration::from_secs(s as u64));
    let fatal = ModelError::Fatal { message: message.to_owned() };
    let candidates = [cut, ModelError::Busy { retry_after }, fatal.clone()];
    candidates.into_iter().find(|e| e.code() == code && e.to_string() == message).unwrap_or(fatal)
}
