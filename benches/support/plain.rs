//! The floors: the same turn without what makes it live. No actor, no seam, no span, no containment, no cancel to listen
//! for; the same records through the same law, ledger and journal, the same barriers, model and tool.
//!
//! Once as straight-line code that knows what a turn is, and once as any driver of the law must do it, which asks the
//! state what is owed.

use futures::StreamExt;
use portcullis::{
    Arguments, AssistantBlock, AssistantMessage, At, Body, CallKey, CallPath, Cancel, Claim, Draft,
    EndReason, Execution, Finish, Frozen, HeaderChanged, Journal, Mint, Model, ModelEvent, ModelRequest,
    ModelRequested, Outcome, PromptQueued, QueueKind, RequestHeader, Scene, Seq, SessionCreated, SessionId,
    SessionInfo, Source, StepEnd, StepStart, Tool, ToolCall, ToolCx, ToolDispatched, ToolHeader, ToolResult,
    ToolReturned, ToolSpec, TurnEnd, TurnStart, UserMessage,
    law::{CallOwes, Next, State},
};
use portcullis_actors::Ledger;
use std::{sync::Arc, time::Instant};

pub struct Plain {
    ledger: Ledger,
    model: Arc<dyn Model>,
    tool: Arc<dyn Tool>,
    spec: Arc<ToolSpec>,
    header: Arc<RequestHeader>,
    info: Arc<SessionInfo>,
    mint: Mint,
    turns: u64,
}

impl Plain {
    pub async fn open(name: &str, journal: Arc<dyn Journal>, model: impl Model, tool: impl Tool) -> Plain {
        let id = SessionId::new(name).expect("a sound name");
        let own = journal.claim(&id, 1, Claim::CreateOrOpen).await.expect("the session is free");
        let spec = Arc::new(tool.spec());
        let header = RequestHeader {
            model: model.name(),
            system: "".into(),
            tools: vec![ToolHeader {
                name: spec.name.clone(),
                description: spec.description.clone(),
                schema: spec.schema.clone(),
            }],
        };
        let plain = Plain {
            ledger: Ledger::new(State::new(), own, journal),
            model: Arc::new(model),
            tool: Arc::new(tool),
            spec,
            header: Arc::new(header),
            info: Arc::new(SessionInfo::new(id.clone(), "/".into(), "library")),
            mint: Mint::new(7),
            turns: 0,
        };
        let created = SessionCreated {
            id,
            cwd: "/".into(),
            channel: "library".into(),
            parent: None,
            seed: None,
            cleared: None,
        };
        plain.commit(vec![Draft::new(At::session(), created)]);
        plain
    }

    fn commit(&self, drafts: Vec<Draft>) {
        let _enqueued = self.ledger.commit(drafts).expect("lawful records");
    }

    fn put(&self, at: &At, body: impl Into<Body>) {
        self.commit(vec![Draft::new(at.clone(), body)]);
    }

    async fn durable(&self) {
        self.ledger.barrier().await.expect("durable");
    }

    /// One turn: a prompt, steps until the model makes no calls, the end.
    pub async fn turn(&mut self, prompt: &str) {
        let from = self.ledger.read(State::head);
        let queued = PromptQueued { kind: QueueKind::Prompt, content: prompt.into(), source: Source::User };
        self.put(&At::session(), queued.clone());
        self.durable().await;
        self.turns += 1;
        let turn = self.turns;
        let in_turn = At::turn(turn);
        self.put(&in_turn, TurnStart { takes: vec![from] });
        self.put(&in_turn, UserMessage { content: queued.content, source: Source::User, from });
        let cancel = Cancel::new();
        for step in 1.. {
            let at = At::step(turn, step);
            let start = Draft::new(at.clone(), StepStart {});
            if self.ledger.read(|s| s.header().is_none()) {
                self.commit(vec![start, Draft::new(at.clone(), HeaderChanged(self.header.clone()))]);
            } else {
                self.commit(vec![start]);
            }
            let message = self.asked(&at, 1, &cancel).await;
            self.put(&at, message.clone());
            let mut calls = 0;
            for (id, name, raw) in message.calls() {
                self.call(turn, step, calls, from, (id, name, raw), &cancel).await;
                calls += 1;
            }
            self.put(&at, StepEnd {});
            if calls == 0 {
                break;
            }
        }
        self.put(&in_turn, TurnEnd { reason: EndReason::Completed, dropped: Vec::new() });
        self.durable().await;
    }

    /// The record of a request holds its conversation, as every one of these records does.
    async fn asked(&mut self, at: &At, attempt: u32, cancel: &Cancel) -> AssistantMessage {
        let messages = self.ledger.read(State::transcript);
        self.put(at, ModelRequested { attempt, digest: Some(messages.clone().into()) });
        self.durable().await;
        let request = ModelRequest::new(self.header.clone(), messages, attempt, cancel.clone());
        let mut events = self.model.respond(request);
        let mut blocks = Vec::new();
        let mut open = None;
        let mut finish = Finish::Stop;
        while let Some(event) = events.next().await {
            match event.expect("the model answers") {
                ModelEvent::Text(text) => blocks.push(AssistantBlock::Text { text: text.into() }),
                ModelEvent::CallStart { id, name } => open = Some((id, name)),
                ModelEvent::CallText(arguments) => {
                    let (id, name) = open.take().expect("begun");
                    let arguments = arguments.into();
                    blocks.push(AssistantBlock::Call { id: id.into(), name: name.into(), arguments });
                }
                ModelEvent::Finish(how) => {
                    finish = how;
                    break;
                }
                _ => {}
            }
        }
        AssistantMessage { blocks: blocks.into(), usage: None, finish }
    }

    /// Seal, check, four records, the body.
    async fn call(
        &mut self,
        turn: u64,
        step: u32,
        position: u32,
        prompt: Seq,
        (id, name, raw): (&Arc<str>, &Arc<str>, &Arc<str>),
        cancel: &Cancel,
    ) {
        let path = CallPath::top(position);
        let at = At::call(turn, step, path.clone());
        let token = self.mint.root();
        let arguments = self.seal(&at, id, name, raw);
        let execution = Execution::new(
            token.id(),
            None,
            Scene::new(self.info.clone(), turn, step, Some(prompt)),
            CallKey { turn, step, call: path },
            id.clone(),
            self.spec.clone(),
            arguments.clone(),
            arguments,
        );
        let outcome = self.body(&at, 1, execution, cancel).await;
        let (content, error) = outcome.for_model();
        self.put(&at, ToolResult { outcome: outcome.ended.clone(), content, error });
        let ended = self.mint.end(&token).expect("ended once");
        assert_eq!(ended.open_children, 0);
    }

    fn seal(&mut self, at: &At, id: &Arc<str>, name: &Arc<str>, raw: &str) -> Frozen {
        let arguments = Frozen::arguments(raw).expect("one JSON object");
        self.spec.accepts(&arguments).expect("of the schema");
        let call = ToolCall {
            name: name.clone(),
            id: id.clone(),
            arguments: Arguments::Sealed { text: arguments.clone() },
            idempotent: self.spec.idempotent,
            concurrency_safe: self.spec.concurrency_safe,
        };
        self.put(at, call);
        arguments
    }

    async fn body(&mut self, at: &At, attempt: u32, execution: Execution, cancel: &Cancel) -> Arc<Outcome> {
        self.put(at, ToolDispatched { attempt });
        self.durable().await;
        let started = Instant::now();
        let outcome = self.tool.call(execution, ToolCx::new(cancel.child(), attempt)).await;
        let outcome = Arc::new(Outcome::from(outcome));
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.put(at, ToolReturned { attempt, outcome: outcome.clone(), ms });
        outcome
    }

    /// One turn as the law asks for it; tells when the prompt is durable.
    pub async fn lawful_turn(&mut self, prompt: &str, acknowledge: impl FnOnce()) {
        let content = prompt.into();
        self.put(&At::session(), PromptQueued { kind: QueueKind::Prompt, content, source: Source::User });
        self.durable().await;
        acknowledge();
        let cancel = Cancel::new();
        let mut passed = None;
        loop {
            let turn = self.ledger.read(State::open_turn).unwrap_or_default();
            let at = At::step(turn, self.ledger.read(State::step_number));
            match self.ledger.read(|s| s.next(passed.take().as_ref())) {
                Next::Commit(drafts) => self.commit(drafts),
                Next::Judge { point, subject } => {
                    let closing = self.ledger.read(|s| s.close(point, &subject));
                    if closing.is_empty() {
                        passed = Some((point, subject));
                    } else {
                        self.commit(closing);
                    }
                }
                Next::OpenStep { step } => {
                    let at = At::step(turn, step);
                    let mut drafts = vec![Draft::new(at.clone(), StepStart {})];
                    if self.ledger.read(|s| s.header() != Some(&self.header)) {
                        drafts.push(Draft::new(at, HeaderChanged(self.header.clone())));
                    }
                    self.commit(drafts);
                }
                Next::Model { attempt } => {
                    let message = self.asked(&at, attempt, &cancel).await;
                    self.put(&at, message);
                }
                Next::Call { path, .. } => self.lawful_call(path, &cancel).await,
                Next::Idle => break,
                other => panic!("a plain turn owes {other:?}"),
            }
        }
        self.durable().await;
    }

    async fn lawful_call(&mut self, path: CallPath, cancel: &Cancel) {
        let (turn, step) =
            (self.ledger.read(State::open_turn).unwrap_or_default(), self.ledger.read(State::step_number));
        let at = At::call(turn, step, path.clone());
        let token = self.mint.root();
        let mut passed = None;
        loop {
            let owes = self.ledger.read(|s| s.call(&path, passed));
            let facts = || self.ledger.read(|s| s.call_facts(&path)).expect("a known call");
            match owes {
                CallOwes::Seal => {
                    let facts = facts();
                    self.seal(&at, &facts.id, &facts.name, &facts.raw);
                }
                CallOwes::Judge(point) => passed = Some(point),
                CallOwes::Dispatch { attempt } => {
                    let facts = facts();
                    let execution = Execution::new(
                        token.id(),
                        None,
                        Scene::new(self.info.clone(), turn, step, self.ledger.read(State::current_prompt)),
                        CallKey { turn, step, call: path.clone() },
                        facts.id,
                        self.spec.clone(),
                        facts.requested.expect("sealed"),
                        facts.arguments.expect("sealed"),
                    );
                    self.body(&at, attempt, execution, cancel).await;
                }
                CallOwes::Commit(drafts) => self.commit(drafts),
                CallOwes::Done => break,
                other => panic!("a plain call owes {other:?}"),
            }
        }
        let ended = self.mint.end(&token).expect("ended once");
        assert_eq!(ended.open_children, 0);
    }
}
