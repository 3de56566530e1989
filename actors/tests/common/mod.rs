//! A model that answers from a list, and a runtime around it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use futures::{StreamExt, stream::BoxStream};
use portcullis_actors::{Config, Runtime, Session, SessionOptions};
use portcullis_runtime::*;
use std::sync::{Arc, Mutex};

/// Answers the n-th request of the session with the n-th list of events; remembers what it was sent.
#[derive(Clone, Default)]
pub struct Answers {
    pub answers: Arc<Vec<Vec<Result<ModelEvent, ModelError>>>>,
    pub seen: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Answers {
    pub fn new(answers: Vec<Vec<ModelEvent>>) -> Answers {
        let answers = answers.into_iter().map(|events| events.into_iter().map(Ok).collect()).collect();
        Answers { answers: Arc::new(answers), seen: Arc::default() }
    }
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.seen.lock().unwrap().clone()
    }
}

impl Model for Answers {
    fn name(&self) -> Arc<str> {
        "answers".into()
    }
    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let said = request.messages.iter().filter(|m| m.role() == Role::Assistant).count();
        self.seen.lock().unwrap().push(request);
        let events = self.answers.get(said).or(self.answers.last()).cloned().unwrap_or_default();
        futures::stream::iter(events).boxed()
    }
}

pub fn say(text: &str) -> Vec<ModelEvent> {
    vec![ModelEvent::Text(text.into()), ModelEvent::Finish(Finish::Stop)]
}

pub fn calls(calls: &[(&str, &str)]) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    for (i, (name, arguments)) in calls.iter().enumerate() {
        events.push(ModelEvent::CallStart { id: format!("c{i}"), name: (*name).into() });
        events.push(ModelEvent::CallText((*arguments).into()));
    }
    events.push(ModelEvent::Finish(Finish::Calls));
    events
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Echo {
    pub text: String,
}

pub fn echo() -> Arc<dyn Tool> {
    Arc::new(
        tool("Echo", "Says it back.", async |args: Echo, _cx| match args.text.as_str() {
            "fail" => Err(ToolError::new("asked to fail")),
            "panic" => panic!("asked to panic"),
            text => Ok(text.to_owned()),
        })
        .unwrap(),
    )
}

pub struct House {
    pub runtime: Runtime,
    pub session: Session,
    pub journal: MemoryJournal,
    pub model: Answers,
}

pub async fn house(answers: Vec<Vec<ModelEvent>>, register: impl FnOnce(&mut Registrar<'_>)) -> House {
    house_with(Answers::new(answers), MemoryJournal::new(), true, register).await
}

pub async fn house_with(
    model: Answers,
    journal: MemoryJournal,
    approvals: bool,
    register: impl FnOnce(&mut Registrar<'_>),
) -> House {
    let mut table = Table::new();
    table.tool(echo()).unwrap();
    table.register("test", register);
    let config = Config {
        table,
        model: Arc::new(model.clone()),
        journal: Arc::new(journal.clone()),
        system: "".into(),
        limits: Limits::default(),
        arbiters: Some(1),
        idle_after: None,
        asks_expire_after: None,
        inbox_every: None,
        required: vec![],
    };
    let runtime = Runtime::start(config).await.unwrap();
    let mut options = SessionOptions::new("/");
    if approvals {
        options = options.approvals();
    }
    let session = runtime.session(id(), options).await.unwrap();
    House { runtime, session, journal, model }
}

pub fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

impl House {
    pub async fn prompt(&self, text: &str) -> EndReason {
        self.session.prompt(text).await.unwrap().await
    }
    pub fn kinds(&self) -> Vec<String> {
        self.journal.records(&id()).iter().map(|r| r.body.kind().to_owned()).collect()
    }
    pub fn results(&self) -> Vec<ToolResult> {
        let records = self.journal.records(&id());
        let results = records.iter().filter_map(|r| match &r.body {
            Body::ToolResult(result) => Some(result.clone()),
            _ => None,
        });
        results.collect()
    }
    /// The log folds, and its fold owes nothing.
    pub fn sound(&self) {
        let records = self.journal.records(&id());
        let state = law::State::fold(&records).unwrap();
        assert_eq!(state.next(None), law::Next::Idle);
    }
}
