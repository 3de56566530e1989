//! C-SUB: subagents, and how far registrations reach.

mod common;
use common::*;
use futures::StreamExt;
use portcullis_actors::{Answer, Config, Event, OpenError, Runtime, Session, SessionOptions};
use portcullis_runtime::*;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Ask {
    prompt: String,
    #[serde(default)]
    tools: Option<Vec<String>>,
    #[serde(default)]
    opt_out: Vec<String>,
}

/// Starts a subagent with what it is asked and reports what came of it.
fn agent() -> Arc<dyn Tool> {
    let spec = ToolSpec::of::<Ask>("Agent", "Asks another agent.").unwrap();
    Arc::new(raw_tool(spec, async |call: Execution, cx: ToolCx| {
        let ask = call.arguments.decode::<Ask>()?;
        let mut spec = AgentSpec::new("helper", ask.prompt);
        spec.tools = ask.tools.map(|tools| tools.into_iter().map(Into::into).collect());
        spec.opt_out = ask.opt_out.into_iter().map(Into::into).collect();
        match cx.spawn(spec).await {
            Ok(done) if done.end.is_success() => Ok(Output::text(done.report.to_text().into_owned())),
            Ok(done) => Err(ToolError::new(format!("it ended: {}", done.end))),
            Err(error) => Err(ToolError::new(error.to_string())),
        }
    }))
}

/// Answers by the last user text of the transcript.
#[derive(Clone)]
struct ByText(Arc<Script>, Arc<Mutex<Vec<ModelRequest>>>);

type Script = dyn Fn(&str, usize) -> Vec<ModelEvent> + Send + Sync;

impl Model for ByText {
    fn name(&self) -> Arc<str> {
        "by-text".into()
    }
    fn respond(
        &self,
        request: ModelRequest,
    ) -> futures::stream::BoxStream<'static, Result<ModelEvent, ModelError>> {
        let user = request.messages.rev().find_map(|m| match m {
            Message::User { content, .. } => Some(content.to_text().into_owned()),
            _ => None,
        });
        let said = request.messages.iter().filter(|m| m.role() == Role::Assistant).count();
        let events = (self.0)(&user.unwrap_or_default(), said);
        self.1.lock().unwrap().push(request);
        futures::stream::iter(events.into_iter().map(Ok)).boxed()
    }
}

struct Rig {
    runtime: Runtime,
    session: Session,
    journal: MemoryJournal,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
}

async fn rig(
    answer: impl Fn(&str, usize) -> Vec<ModelEvent> + Send + Sync + 'static,
    limits: Limits,
    register: impl FnOnce(&mut Registrar<'_>),
    own: impl FnOnce(&mut Registrar<'_>),
) -> Rig {
    let mut table = Table::new();
    table.tool(agent()).unwrap();
    table.tool(echo()).unwrap();
    table.register("house", register);
    let (journal, requests) = (MemoryJournal::new(), Arc::default());
    let config = Config {
        table,
        model: Arc::new(ByText(Arc::new(answer), Arc::clone(&requests))),
        journal: Arc::new(journal.clone()),
        system: "root system".into(),
        limits,
        arbiters: Some(1),
        idle_after: None,
        asks_expire_after: None,
        inbox_every: None,
        required: vec![],
    };
    let runtime = Runtime::start(config).await.unwrap();
    let options = SessionOptions::new("/").approvals().channel("cli");
    let session = runtime.session_with(id(), options, "own", own).await.unwrap();
    Rig { runtime, session, journal, requests }
}

impl Rig {
    fn child(&self) -> Vec<Arc<Record>> {
        self.journal.records(&SessionId::new("s.1-1-0-0").unwrap())
    }
    fn result(&self) -> ToolResult {
        let records = self.journal.records(&id());
        let found = records.iter().find_map(|r| match &r.body {
            Body::ToolResult(result) => Some(result.clone()),
            _ => None,
        });
        found.unwrap()
    }
    async fn sound(self) {
        let records = self.journal.records(&id());
        assert_eq!(law::State::fold(&records).unwrap().next(None), law::Next::Idle);
        let child = self.child();
        if !child.is_empty() {
            assert_eq!(law::State::fold(&child).unwrap().next(None), law::Next::Idle);
        }
        assert!(self.runtime.shutdown(Duration::from_secs(10)).await.parked.is_empty());
    }
}

fn delegating(user: &str, said: usize) -> Vec<ModelEvent> {
    match (user, said) {
        ("go", 0) => calls(&[("Agent", r#"{"prompt":"dig"}"#)]),
        ("dig", 0) => calls(&[("Echo", r#"{"text":"gold"}"#)]),
        ("dig", _) => say("found gold"),
        _ => say("thanks"),
    }
}

// C-SUB-1, 3, C-SEAM-4: a child has its own log; start context is in its first request; both notices fire once, in
// order; the runtime's and the session's registrations cover it.
#[tokio::test]
async fn a_subagent_is_a_session_with_a_log_of_its_own() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (starts, ends, gates, own) = (seen.clone(), seen.clone(), seen.clone(), seen.clone());
    let rig = rig(
        delegating,
        Limits::default(),
        |at| {
            at.subagent_start("brief", async move |c| {
                starts.lock().unwrap().push(format!(
                    "start {} {}",
                    c.scene.session.depth(),
                    c.scene.session.root
                ));
                Reply::new(Started {}).context("you dig")
            });
            at.subagent_end("note", move |c| {
                ends.lock().unwrap().push(format!("end {} {}", c.kind, c.report.to_text()));
            });
            at.pre_execute("gate", async move |c| {
                gates.lock().unwrap().push(format!(
                    "runtime gate {} {}",
                    c.scene.session.depth(),
                    c.tool.name
                ));
                Gate::allow()
            });
        },
        |at| {
            at.pre_execute("gate", async move |c| {
                own.lock().unwrap().push(format!("session gate {} {}", c.scene.session.depth(), c.tool.name));
                Gate::allow()
            });
            at.this_agent_only(|at| {
                at.guard("not-for-children", |c| (c.scene.session.depth() > 0).then(|| "never here".into()));
            });
        },
    )
    .await;
    assert_eq!(rig.session.prompt("go").await.unwrap().await, EndReason::Completed);
    assert_eq!(rig.result().content.to_text(), "found gold");
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "runtime gate 0 Agent",
            "session gate 0 Agent",
            "start 1 s",
            "runtime gate 1 Echo",
            "session gate 1 Echo",
            "end helper found gold"
        ]
    );
    let child = rig.child();
    assert!(matches!(&child[0].body, Body::SessionCreated(c) if c.parent.as_ref().unwrap().session == id()));
    let first = rig.requests.lock().unwrap()[1].clone();
    assert!(
        matches!(first.messages.iter().next(), Some(Message::Context { content, .. }) if content.to_text() == "you dig")
    );
    let kinds: Vec<String> = rig.journal.records(&id()).iter().map(|r| r.body.kind().to_owned()).collect();
    let at = |kind: &str| kinds.iter().position(|k| k == kind).unwrap();
    assert!(at("tool/dispatched") < at("subagent/started") && at("subagent/ended") < at("tool/returned"));
    assert!(!rig.runtime.live_sessions().iter().any(|s| s.as_str() != "s"), "the child left memory");
    rig.sound().await;
}

// C-SUB-2: never widened; depth and count are limited; what is refused is a tool's error, not a crash.
#[tokio::test]
async fn children_are_narrowed_and_limited() {
    let narrowed = |user: &str, said: usize| match (user, said) {
        ("go", 0) => calls(&[("Agent", r#"{"prompt":"dig","tools":["Agent"]}"#)]),
        ("dig", 0) => calls(&[("Echo", r#"{"text":"gold"}"#)]),
        ("dig", _) => say("no Echo here"),
        _ => say("ok"),
    };
    let rig1 = rig(narrowed, Limits::default(), |_| {}, |_| {}).await;
    rig1.session.prompt("go").await.unwrap().await;
    let refused = rig1
        .child()
        .iter()
        .any(|r| matches!(&r.body, Body::ToolResult(t) if t.outcome == Ended::UnknownTool));
    assert!(refused);
    rig1.sound().await;

    let wider = |user: &str, said: usize| match (user, said) {
        ("go", 0) => calls(&[("Agent", r#"{"prompt":"dig","tools":["Root"]}"#)]),
        _ => say("ok"),
    };
    let rig2 = rig(wider, Limits::default(), |_| {}, |_| {}).await;
    rig2.session.prompt("go").await.unwrap().await;
    assert!(rig2.result().content.to_text().contains("`Root`"));
    rig2.sound().await;

    let forever = |_: &str, said: usize| match said {
        0 => calls(&[("Agent", r#"{"prompt":"deeper"}"#)]),
        _ => say("deep enough"),
    };
    let rig3 = rig(forever, Limits { agent_depth: 2, ..Limits::default() }, |_| {}, |_| {}).await;
    assert_eq!(rig3.session.prompt("go").await.unwrap().await, EndReason::Completed);
    let deepest = SessionId::new("s.1-1-0-0.1-1-0-0").unwrap();
    let result = rig3.journal.records(&deepest).iter().find_map(|r| match &r.body {
        Body::ToolResult(t) => Some(t.content.to_text().into_owned()),
        _ => None,
    });
    assert!(result.unwrap().contains("2 deep"));
    rig3.sound().await;
}

// C-SUB-1, C-BRIDGE-1: a handler anywhere in the tree knows which model answers, and whose subagent it is in.
#[tokio::test]
async fn a_scene_names_the_model_and_the_parent() {
    let forever = |_: &str, said: usize| match said {
        0 => calls(&[("Agent", r#"{"prompt":"deeper"}"#)]),
        _ => say("deep enough"),
    };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let look = move |at: &mut Registrar<'_>| {
        at.pre_execute("look", async move |c| {
            let session = &c.scene.session;
            let name = |id: Option<&SessionId>| id.map(ToString::to_string);
            let (parent, model) =
                (name(session.parent.as_ref()), session.model.as_ref().unwrap().to_string());
            assert_eq!(name(session.parent_log().as_ref().map(|log| log.session())), parent);
            told.lock().unwrap().push((session.id.to_string(), parent, model));
            Gate::allow()
        });
    };
    let rig = rig(forever, Limits { agent_depth: 2, ..Limits::default() }, look, |_| {}).await;
    assert_eq!(rig.session.prompt("go").await.unwrap().await, EndReason::Completed);
    let at =
        |id: &str, parent: Option<&str>| (id.to_owned(), parent.map(str::to_owned), "by-text".to_owned());
    let tree = [at("s", None), at("s.1-1-0-0", Some("s")), at("s.1-1-0-0.1-1-0-0", Some("s.1-1-0-0"))];
    assert_eq!(*seen.lock().unwrap(), tree);
    rig.sound().await;
}

// C-SUB-4: cancel flows down, one result flows up.
#[tokio::test]
async fn a_cancel_flows_down() {
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    let rig = rig(
        delegating,
        Limits::default(),
        move |at| {
            at.depth(1..=1, move |at| {
                at.pre_execute("stuck", move |_: Execution| {
                    let entered = entered.clone();
                    async move {
                        let _ = entered.send(());
                        std::future::pending::<Gate>().await
                    }
                });
            });
        },
        |_| {},
    )
    .await;
    let turn = rig.session.prompt("go").await.unwrap();
    inside.recv().await.unwrap();
    assert!(rig.session.cancel(Cause::User).await.unwrap());
    assert!(matches!(turn.await, EndReason::Aborted { .. }));
    let child_end = rig.child().iter().find_map(|r| match &r.body {
        Body::TurnEnd(end) => Some(end.reason.clone()),
        _ => None,
    });
    assert!(matches!(child_end, Some(EndReason::Aborted { .. })), "{child_end:?}");
    assert_eq!(rig.result().outcome.name(), "cancelled");
    rig.sound().await;
}

// C-ASK-4: a subagent's question surfaces at the root.
#[tokio::test]
async fn a_childs_question_surfaces_at_the_root() {
    let rig = rig(
        delegating,
        Limits::default(),
        |at| {
            at.tools("Echo", |at| {
                at.pre_execute("careful", async |_| Gate::ask("sure?"));
            });
        },
        |_| {},
    )
    .await;
    let turn = rig.session.prompt("go").await.unwrap();
    let mut events = rig.session.events(Seq(0));
    let ask = loop {
        if let Some(Event::Ask(ask)) = events.next().await {
            break ask;
        }
    };
    assert_eq!(&*ask.tool, "Echo");
    rig.session.answer(&ask, Answer::Allow).await.unwrap();
    assert_eq!(turn.await, EndReason::Completed);
    assert_eq!(rig.result().content.to_text(), "found gold");
    rig.sound().await;
}

// C-SEAM-3, 4: depth and channel narrow; only host code opts a child out, and introspection shows it.
#[tokio::test]
async fn matchers_and_opt_out() {
    let opted = |user: &str, said: usize| match (user, said) {
        ("go", 0) => calls(&[("Agent", r#"{"prompt":"dig","opt_out":["house"]}"#)]),
        (user, said) => delegating(user, said),
    };
    let rig = rig(
        opted,
        Limits::default(),
        |at| {
            at.tools("Echo", |at| {
                at.guard("no-echo", |_| Some("no".into()));
            });
            at.channel("http", |at| {
                at.guard("http-only", |_| Some("wrong door".into()));
            });
        },
        |_| {},
    )
    .await;
    assert_eq!(rig.session.prompt("go").await.unwrap().await, EndReason::Completed);
    assert_eq!(rig.result().content.to_text(), "found gold");
    let rows = rig.runtime.introspect();
    let row = rows.iter().find(|r| &*r.id.handler == "http-only").unwrap();
    assert_eq!(&*row.matches, "* channel=http");
    let child = rig.child();
    let config = child.iter().find_map(|r| match &r.body {
        Body::ConfigInForce(config) => Some(config.clone()),
        _ => None,
    });
    assert!(config.unwrap().handlers.is_empty(), "what the child runs under is in its log");
    rig.sound().await;
}

// C-SUB-1: a subagent's session is its parent's to take up. Opened by name, it would act without what narrowed it.
#[tokio::test]
async fn nobody_opens_a_subagent_as_a_session() {
    let rig = rig(delegating, Limits::default(), |_| {}, |_| {}).await;
    assert_eq!(rig.session.prompt("go").await.unwrap().await, EndReason::Completed);
    let child = SessionId::new("s.1-1-0-0").unwrap();
    let before = rig.child().len();
    let Err(error) = rig.runtime.session(child.clone(), SessionOptions::new("/")).await else {
        panic!("it was opened");
    };
    assert!(
        matches!(&error, OpenError::Subagent { session, parent } if *session == child && *parent == id())
    );
    assert_eq!(rig.child().len(), before);
    rig.sound().await;
}
