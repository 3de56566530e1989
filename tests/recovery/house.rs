//! The script that is killed everywhere: a policy at every seam, tools of every kind, a model that answers by what it is
//! told and by nothing else, and a note of every handler and body that ran.

use crate::logs::stored;
use futures::{StreamExt, stream::BoxStream};
use portcullis::*;
use std::{
    collections::HashMap,
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The root session.
pub(crate) fn root() -> SessionId {
    SessionId::new("s").unwrap()
}

/// What the user sends, batch by batch.
pub(crate) const BATCHES: [&[&str]; 5] = [
    &["begin the work", "a secret", "mind the context"],
    &["ask around"],
    &["delegate"],
    &["once more"],
    &["twice over"],
];

/// How handlers decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mind {
    /// By what they see.
    Fixed,
    /// By a throw of dice that another process would throw otherwise.
    Dice(u64),
}

impl Mind {
    /// A number below `sides` for this key.
    pub(crate) fn throw(self, key: &str, sides: u64) -> u64 {
        let Mind::Dice(seed) = self else { return 0 };
        let mut hasher = DefaultHasher::new();
        (seed, key).hash(&mut hasher);
        hasher.finish() % sides
    }
}

/// Which of the handlers are registered, and in which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Staff {
    /// As in the first run.
    Same,
    /// One gone, one new, the rest in another order.
    Changed,
}

/// What ran in one process.
#[derive(Clone, Default)]
pub(crate) struct Ran {
    /// Handlers, by the key of their decision.
    pub(crate) handlers: Arc<Mutex<HashMap<String, u32>>>,
    /// Bodies, by call.
    pub(crate) bodies: Arc<Mutex<HashMap<String, u32>>>,
    /// Results shown to the observer, by call.
    pub(crate) results: Arc<Mutex<HashMap<String, u32>>>,
    /// Ends of subagents shown to the observer.
    pub(crate) ends: Arc<Mutex<HashMap<String, u32>>>,
    /// Where it is also written down, for whoever outlives this process.
    pub(crate) file: Option<Arc<Mutex<File>>>,
}

impl Ran {
    fn handler(&self, key: &str) {
        self.note("handler", &self.handlers, key);
    }

    fn body(&self, call: &Execution) {
        self.note("body", &self.bodies, &of_call(&call.scene, &call.key));
    }

    fn note(&self, kind: &str, of: &Mutex<HashMap<String, u32>>, key: &str) {
        *of.lock().unwrap().entry(key.to_owned()).or_default() += 1;
        if let Some(file) = &self.file {
            writeln!(file.lock().unwrap(), "{kind}\t{key}").unwrap();
        }
    }
}

/// A decision's key: session, turn, step and subject, point, handler.
pub(crate) fn key_of(session: &SessionId, at: &At, d: &DecisionRecorded) -> String {
    let subject = match &d.subject {
        Subject::Call(path) => {
            call_key(session, at.turn.unwrap_or_default(), at.step.unwrap_or_default(), path)
        }
        Subject::Again { call, attempt } => {
            let (turn, step) = (at.turn.unwrap_or_default(), at.step.unwrap_or_default());
            format!("{}@{attempt}", call_key(session, turn, step, call))
        }
        Subject::Prompt(seq) => format!("{session} prompt {seq}"),
        Subject::Step(step) => format!("{session} {} step {step}", at.turn.unwrap_or_default()),
        Subject::Batch(step) => format!("{session} {} batch {step}", at.turn.unwrap_or_default()),
        Subject::Session(_) => format!("{session} start"),
        Subject::Compaction(seq) => format!("{session} compaction {seq}"),
    };
    format!("{subject} {} {}", d.point, d.id)
}

pub(crate) fn call_key(session: &SessionId, turn: u64, step: u32, call: &CallPath) -> String {
    format!("{session} {turn}/{step}/{call}")
}

fn key(subject: &str, point: Point, handler: &str) -> String {
    format!("{subject} {point} house/{handler}")
}

fn of_call(scene: &Scene, key: &CallKey) -> String {
    call_key(&scene.session.id, key.turn, key.step, &key.call)
}

fn said(arguments: &Frozen) -> String {
    arguments.root().get("text").and_then(|text| text.as_str().map(|s| s.to_string())).unwrap_or_default()
}

/// What a gate says by dice.
pub(crate) fn dice_gate(mind: Mind, key: &str) -> Gate {
    match mind.throw(key, 5) {
        0 => Gate::deny(format!("by dice {mind:?}")),
        1 => Gate::ask(format!("by dice {mind:?}")),
        _ => Gate::allow(),
    }
}

/// Registers the house's policy.
pub(crate) fn policy(mind: Mind, staff: Staff, ran: Ran) -> impl FnOnce(&mut Registrar<'_>) {
    move |at| {
        starts(at);
        match staff {
            Staff::Same => {
                gate(at, mind, &ran, "careful");
                gate(at, mind, &ran, "second");
                prompts(at, mind, &ran, "words");
                prompts(at, mind, &ran, "polish");
            }
            Staff::Changed => {
                prompts(at, mind, &ran, "polish");
                prompts(at, mind, &ran, "words");
                gate(at, mind, &ran, "newcomer");
                gate(at, mind, &ran, "careful");
            }
        }
        rewriter(at, mind, &ran);
        permission(at, mind, &ran);
        guard(at, mind, &ran);
        wrapper(at);
        review(at, mind, &ran);
        batch(at, mind, &ran);
        ending(at, mind, &ran);
        let ends = ran.clone();
        at.result("tally", move |seen| ran.note("result", &ran.results, &of_call(&seen.scene, &seen.key)));
        at.subagent_end("tally", move |seen| ends.note("end", &ends.ends, seen.child.as_str()));
    }
}

fn starts(at: &mut Registrar<'_>) {
    at.session_start("hello", async |_: Starting| Reply::new(Started {}).context("started"));
    at.subagent_start("brief", async |_: ChildStarting| Reply::new(Started {}).context("you dig"));
}

fn prompts(at: &mut Registrar<'_>, mind: Mind, ran: &Ran, name: &'static str) {
    let ran = ran.clone();
    at.prompt_submit(name, async move |p: Submitted| {
        let key = key(&format!("{} prompt {}", p.scene.session.id, p.from), Point::PromptSubmit, name);
        ran.handler(&key);
        tokio::task::yield_now().await;
        let text = p.content.to_text().into_owned();
        match (mind, name) {
            (Mind::Dice(_), _) if mind.throw(&key, 5) == 0 => Reply::new(Submit::block("by dice")),
            (Mind::Dice(_), _) if mind.throw(&key, 5) == 1 => {
                Reply::new(Submit::allow()).context(format!("by dice {mind:?}"))
            }
            (Mind::Fixed, "words") if text.contains("secret") => Reply::new(Submit::block("no secrets")),
            (Mind::Fixed, "words") if text.contains("context") => {
                Reply::new(Submit::allow()).context("one").context("two")
            }
            (Mind::Fixed, "polish") if text.contains("once") => {
                Reply::new(Submit::replace("once more, please"))
            }
            _ => Reply::new(Submit::allow()),
        }
    });
}

fn gate(at: &mut Registrar<'_>, mind: Mind, ran: &Ran, name: &'static str) {
    let ran = ran.clone();
    at.pre_execute(name, async move |call: Execution| {
        let key = key(&of_call(&call.scene, &call.key), Point::PreExecute, name);
        ran.handler(&key);
        tokio::task::yield_now().await;
        let text = said(&call.arguments);
        match mind {
            Mind::Dice(_) => dice_gate(mind, &key),
            Mind::Fixed if name == "careful" && text.starts_with("deny") => Gate::deny("not that"),
            Mind::Fixed if name == "careful" && text.starts_with("ask") => Gate::ask("sure?"),
            Mind::Fixed => Gate::allow(),
        }
    });
}

fn rewriter(at: &mut Registrar<'_>, mind: Mind, ran: &Ran) {
    let ran = ran.clone();
    at.rewrite("tidy", async move |call: Proposed| {
        let key = key(&of_call(&call.scene, &call.key), Point::Rewrite, "tidy");
        ran.handler(&key);
        tokio::task::yield_now().await;
        let dirty = said(&call.so_far).starts_with("rewrite") || mind.throw(&key, 4) == 1;
        let tidy = format!(r#"{{"text":"tidy by {mind:?}"}}"#);
        match dirty && &*call.tool.name == "Note" {
            true => Proposal::arguments(Frozen::parse(tidy).unwrap()),
            false => Proposal::pass(),
        }
    });
}

/// Answers some of what the gate asks, so that no person is asked.
fn permission(at: &mut Registrar<'_>, mind: Mind, ran: &Ran) {
    let ran = ran.clone();
    at.permission("deputy", async move |asking: Asking| {
        let key = key(&of_call(&asking.call.scene, &asking.call.key), Point::Permission, "deputy");
        ran.handler(&key);
        tokio::task::yield_now().await;
        match mind.throw(&key, 5) {
            1 => Permit::Allow,
            2 => Permit::deny(format!("by dice {mind:?}")),
            _ => Permit::Abstain,
        }
    });
}

fn batch(at: &mut Registrar<'_>, mind: Mind, ran: &Ran) {
    let ran = ran.clone();
    at.batch("look", async move |batch: CallBatch| {
        let scene = &batch.scene;
        let key =
            key(&format!("{} {} batch {}", scene.session.id, scene.turn, scene.step), Point::Batch, "look");
        ran.handler(&key);
        tokio::task::yield_now().await;
        let seen = Reply::new(Batched {});
        match mind.throw(&key, 8) {
            1 => seen.context(format!("{} calls by dice {mind:?}", batch.calls.len())),
            _ => seen,
        }
    });
}

fn guard(at: &mut Registrar<'_>, mind: Mind, ran: &Ran) {
    let ran = ran.clone();
    at.guard("wall", move |call| {
        let key = key(&of_call(&call.scene, &call.key), Point::Guard, "wall");
        ran.handler(&key);
        let no = said(&call.arguments).starts_with("guard") || mind.throw(&key, 6) == 1;
        no.then(|| "the wall stands".into())
    });
}

fn wrapper(at: &mut Registrar<'_>) {
    at.wrap("again", async |next| {
        let outcome = next.run().await;
        if outcome.ended == Ended::ToolError { next.run().await } else { outcome }
    });
}

fn review(at: &mut Registrar<'_>, mind: Mind, ran: &Ran) {
    let ran = ran.clone();
    at.post_execute("review", async move |done: Returned| {
        let key = key(&of_call(&done.scene, &done.key), Point::PostExecute, "review");
        ran.handler(&key);
        tokio::task::yield_now().await;
        match (mind, &*done.name) {
            (Mind::Dice(_), _) if mind.throw(&key, 3) == 0 => {
                Reply::new(Review::block(format!("by dice {mind:?}"))).context("look again")
            }
            (Mind::Fixed, "Flaky") => Reply::new(Review::accept()).context("it is flaky"),
            (Mind::Fixed, "Look") => Reply::new(Review::replace("seen")),
            _ => Reply::new(Review::accept()),
        }
    });
}

fn ending(at: &mut Registrar<'_>, mind: Mind, ran: &Ran) {
    let on = ran.clone();
    at.turn_continuation("on", async move |end: Ending| {
        let subject = format!("{} {} step {}", end.scene.session.id, end.scene.turn, end.scene.step);
        let key = key(&subject, Point::Continuation, "on");
        on.handler(&key);
        tokio::task::yield_now().await;
        let first = end.scene.turn == 1 && end.scene.session.depth() == 0;
        let more = match mind {
            Mind::Fixed => first && end.forced < 2,
            Mind::Dice(_) => end.forced_in_turn < 2 && mind.throw(&key, 2) == 0,
        };
        match more {
            true => Reply::new(Continue::again(format!("go on {} {mind:?}", end.forced))).context("not yet"),
            false => Reply::new(Continue::Abstain),
        }
    });
    let never = ran.clone();
    at.turn_stop("never", async move |b: Boundary| {
        let subject = format!("{} {} step {}", b.scene.session.id, b.scene.turn, b.scene.step);
        let key = key(&subject, Point::Stop, "never");
        never.handler(&key);
        tokio::task::yield_now().await;
        if mind.throw(&key, 12) == 1 { StopTurn::Stop } else { StopTurn::Abstain }
    });
}

/// What every tool of the house takes.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    #[expect(dead_code, reason = "handlers read it, bodies do not")]
    text: String,
}

/// The tools.
pub(crate) fn tools(ran: &Ran) -> Vec<Arc<dyn Tool>> {
    let spec = |name: &str| ToolSpec::of::<Text>(name, "A tool of the house.").unwrap();
    let (note, look, flaky, plan, once, agent, twice) =
        (ran.clone(), ran.clone(), ran.clone(), ran.clone(), ran.clone(), ran.clone(), ran.clone());
    vec![
        Arc::new(raw_tool(spec("Note"), async move |call: Execution, _| {
            note.body(&call);
            tokio::task::yield_now().await;
            Ok(Output::text(format!("noted {}", said(&call.arguments))))
        })),
        Arc::new(raw_tool(spec("Look").idempotent().concurrency_safe(), async move |call: Execution, _| {
            look.body(&call);
            tokio::task::yield_now().await;
            Ok(Output::text(format!("saw {}", said(&call.arguments))))
        })),
        Arc::new(raw_tool(spec("Flaky").idempotent(), async move |call: Execution, cx: ToolCx| {
            flaky.body(&call);
            tokio::task::yield_now().await;
            if cx.attempt == 1 { Err(ToolError::new("not the first time")) } else { Ok("at last".into()) }
        })),
        // Fails the first time in each process: a wrapper runs it again, and what it calls then is called anew.
        Arc::new(raw_tool(spec("Twice").idempotent(), async move |call: Execution, cx: ToolCx| {
            twice.body(&call);
            cx.call("Note", r#"{"text":"inner"}"#).await;
            let times = twice.bodies.lock().unwrap()[&of_call(&call.scene, &call.key)];
            if times == 1 { Err(ToolError::new("once more")) } else { Ok("at last".into()) }
        })),
        Arc::new(raw_tool(spec("Hang"), async |_, cx: ToolCx| {
            cx.cancel.cancelled().await;
            Err(ToolError::new("called off"))
        })),
        // Runs again after a crash: what it made before is reused, so nothing in it happens twice.
        Arc::new(raw_tool(spec("Plan").idempotent(), async move |call: Execution, cx: ToolCx| {
            plan.body(&call);
            nested(&cx).await;
            Ok("planned".into())
        })),
        // Runs once, whatever it calls.
        Arc::new(raw_tool(spec("Once"), async move |call: Execution, cx: ToolCx| {
            once.body(&call);
            nested(&cx).await;
            Ok("done once".into())
        })),
        Arc::new(raw_tool(spec("Agent").idempotent(), async move |call: Execution, cx: ToolCx| {
            agent.body(&call);
            match cx.spawn(AgentSpec::new("helper", "dig for gold")).await {
                Ok(done) => Ok(Output { content: done.report, value: None }),
                Err(error) => Err(ToolError::new(error.to_string())),
            }
        })),
    ]
}

async fn nested(cx: &ToolCx) {
    for (tool, text) in [("Note", "inner"), ("Look", "inside"), ("Note", "deny inner"), ("Note", "ask inner")]
    {
        let outcome = cx.call(tool, &format!(r#"{{"text":"{text}"}}"#)).await;
        assert_ne!(outcome.ended, Ended::UnknownTool);
    }
}

/// Answers by the last user's words and by how often it has answered since.
pub(crate) struct Told;

impl Model for Told {
    fn name(&self) -> Arc<str> {
        "told".into()
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let mut answers = 0;
        let mut asked = String::new();
        for message in request.messages.rev() {
            match message {
                Message::Assistant { .. } => answers += 1,
                Message::User { content, .. } => {
                    asked = content.to_text().into_owned();
                    break;
                }
                _ => {}
            }
        }
        futures::stream::iter(answer(&asked, answers).into_iter().map(Ok)).boxed()
    }
}

fn answer(asked: &str, answers: usize) -> Vec<ModelEvent> {
    let of = |word: &str| asked.contains(word);
    let calls: &[(&str, &str)] = match answers {
        0 if of("context") || of("begin") => &[("Note", "one"), ("Look", "a"), ("Look", "b"), ("Look", "c")],
        1 if of("context") || of("begin") => {
            &[("Note", "rewrite me"), ("Note", "deny me"), ("Note", "guard me"), ("Nope", "?"), ("Note", "")]
        }
        0 if of("ask") => &[("Note", "ask yes"), ("Note", "ask no"), ("Note", "ask yes")],
        1 if of("ask") => &[("Flaky", "x"), ("Look", "last")],
        0 if of("delegate") => &[("Plan", "x")],
        1 if of("delegate") => &[("Agent", "x"), ("Note", "after")],
        0 if of("dig") => &[("Note", "shovel"), ("Note", "ask deeper")],
        0 if of("hang") => &[("Look", "a"), ("Hang", "x"), ("Note", "never")],
        0 if of("twice") => &[("Twice", "x")],
        0 if of("once") => &[("Once", "x")],
        _ => &[],
    };
    let mut events = vec![ModelEvent::Text(format!("{asked}: {answers}"))];
    for (position, (name, text)) in calls.iter().enumerate() {
        events.push(ModelEvent::CallStart {
            id: format!("{asked}-{answers}-{position}"),
            name: (*name).into(),
        });
        let arguments = if text.is_empty() { "{}".into() } else { format!(r#"{{"text":"{text}"}}"#) };
        events.push(ModelEvent::CallText(arguments));
    }
    events.push(ModelEvent::Finish(if calls.is_empty() { Finish::Stop } else { Finish::Calls }));
    events
}

/// The builder of a process that runs the script.
pub(crate) fn builder(mind: Mind, staff: Staff, ran: &Ran) -> Builder {
    Runtime::builder(Told).tools(tools(ran)).policy("house", policy(mind, staff, ran.clone())).arbiters(1)
}

/// What the user says to a question.
pub(crate) fn yes_or_no(ask: &Ask) -> Answer {
    let no = said(&ask.arguments).contains("no");
    if no { Answer::Refuse(Some("rather not".into())) } else { Answer::Allow }
}

/// Plays the script to its end on a journal, from wherever its logs stand: answers what is asked, sends what was not sent.
pub(crate) async fn finish(builder: Builder, journal: impl Journal + Clone, cwd: &Path) {
    assert!(play(builder, journal, cwd).await, "the session ended before its script");
}

/// Plays it as far as the journal takes it; true at its end.
pub(crate) async fn play(builder: Builder, journal: impl Journal + Clone, cwd: &Path) -> bool {
    // What a log held before is caught up with first: its prompts are not sent again.
    let before = stored(&journal).await.get(&root()).map_or(0, |log| log.len() as u64);
    let runtime = builder.journal(journal).start().await.unwrap();
    let played = match runtime.open(root().as_str(), SessionOptions::new(cwd).approvals()).await {
        Ok(session) => drive(&session, before).await,
        Err(_) => false,
    };
    // A session whose journal failed is left as it is: a subagent of it may wait for an answer that will not come.
    let left = runtime.shutdown(if played { Duration::from_secs(60) } else { Duration::ZERO }).await;
    assert!(!played || left.parked.is_empty(), "{left:?}");
    played
}

async fn drive(session: &Session, before: u64) -> bool {
    let mut events = session.events(Seq(0));
    let (mut state, mut queued, mut sent) = (law::State::new(), 0, 0);
    loop {
        match events.next().await {
            Some(Event::Record(record)) => {
                state.apply(&record).unwrap();
                queued += usize::from(matches!(&record.body, Body::PromptQueued(_)));
            }
            Some(Event::Ask(ask)) => match session.answer(&ask, yes_or_no(&ask)).await {
                Ok(()) => {}
                Err(AnswerError::Journal(_)) => return false,
                Err(error) => panic!("{}: {error}", ask.id),
            },
            Some(Event::Ended) | None => return false,
            Some(_) => {}
        }
        // Its own prompts come by as records, one after the other.
        let caught_up = state.head().0 > before && queued >= sent;
        if !caught_up || state.next(None) != law::Next::Idle {
            continue;
        }
        sent = 0;
        let batch = BATCHES.iter().find(|batch| {
            sent += batch.len();
            sent > queued
        });
        let Some(batch) = batch else { return true };
        assert_eq!(sent - batch.len(), queued, "a batch is one append: sent whole or not at all");
        if session.prompts(batch.iter().map(|text| Content::text(*text))).await.is_err() {
            return false;
        }
    }
}
