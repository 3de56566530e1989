//! A runtime through the facade, on a model that is a closure and a journal that can be read.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use futures::{StreamExt, future::FutureExt, stream::BoxStream};
use portcullis::*;
use std::{
    future::Future,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tokio::sync::Semaphore;

/// No test waits longer than this for anything: what has not come by then will not come.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The answer, or a failed test.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("an answer in time")
}

/// Looks until it is so.
pub async fn until(mut so: impl FnMut() -> bool) {
    within(async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

pub type Stream = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// A model that is a closure over the request; remembers what it was sent.
#[derive(Clone)]
pub struct Says {
    answer: Arc<dyn Fn(&ModelRequest) -> Stream + Send + Sync>,
    seen: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Says {
    pub fn stream(answer: impl Fn(&ModelRequest) -> Stream + Send + Sync + 'static) -> Says {
        Says { answer: Arc::new(answer), seen: Arc::default() }
    }
    /// By the last prompt and the number of its own messages since.
    pub fn by_prompt(answer: impl Fn(&str, usize) -> Vec<ModelEvent> + Send + Sync + 'static) -> Says {
        Says::stream(move |request| {
            let (prompt, said) = last_prompt(request);
            futures::stream::iter(answer(&prompt, said).into_iter().map(Ok)).boxed()
        })
    }
    /// These calls first in every turn, then the end.
    pub fn calls(calls: &[(&str, &str)]) -> Says {
        let first = self::calls(calls);
        Says::by_prompt(move |_, said| if said == 0 { first.clone() } else { say("done") })
    }
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.seen.lock().unwrap().clone()
    }
}

impl Model for Says {
    fn name(&self) -> Arc<str> {
        "says".into()
    }
    fn respond(&self, request: ModelRequest) -> Stream {
        self.seen.lock().unwrap().push(request.clone());
        (self.answer)(&request)
    }
}

/// The text of the last prompt, and how many messages of the model's stand behind it.
pub fn last_prompt(request: &ModelRequest) -> (String, usize) {
    let mut said = 0;
    for message in request.messages.rev() {
        match message {
            Message::User { content, .. } => return (content.to_text().into_owned(), said),
            Message::Assistant { .. } => said += 1,
            _ => {}
        }
    }
    (String::new(), said)
}

pub fn say(text: &str) -> Vec<ModelEvent> {
    vec![ModelEvent::Text(text.into()), ModelEvent::Finish(Finish::Stop)]
}

pub fn calls(calls: &[(&str, &str)]) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    for (n, (name, arguments)) in calls.iter().enumerate() {
        events.push(ModelEvent::CallStart { id: format!("c{n}"), name: (*name).into() });
        events.push(ModelEvent::CallText((*arguments).into()));
    }
    events.push(ModelEvent::Finish(Finish::Calls));
    events
}

/// The same answer, with what it says that it cost.
pub fn costing(tokens: u64, mut events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    events.insert(0, ModelEvent::Usage(Usage { input: tokens, output: 0 }));
    events
}

pub fn events(events: Vec<ModelEvent>) -> Stream {
    futures::stream::iter(events.into_iter().map(Ok)).boxed()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Echo {
    pub text: String,
}

/// Says its argument back; counts its bodies.
pub fn echo(ran: &Arc<Mutex<Vec<String>>>) -> Arc<dyn Tool> {
    let ran = ran.clone();
    let body = async move |echo: Echo, _cx| {
        ran.lock().unwrap().push(echo.text.clone());
        Ok::<_, ToolError>(echo.text)
    };
    Arc::new(tool("Echo", "Says it back.", body).unwrap())
}

/// Stops who passes until it is opened, and tells that someone is inside.
#[derive(Clone)]
pub struct Latch {
    entered: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Default for Latch {
    fn default() -> Latch {
        Latch { entered: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }
}

impl Latch {
    pub async fn pass(&self) {
        self.entered.add_permits(1);
        self.open.acquire().await.expect("never closed").forget();
    }
    pub async fn entered(&self) {
        within(self.entered.acquire()).await.expect("never closed").forget();
    }
    pub fn open(&self) {
        self.open.add_permits(1_000);
    }
}

/// Where a handler finds the session that it was registered before.
pub type Later = Arc<OnceLock<Session>>;

/// Cancels from wherever it is called: the cancel is made, its acknowledgement is not waited for.
pub fn cancel_now(session: &Later, cause: Cause) {
    let session = session.get().expect("the session is open");
    let _ = session.cancel(cause).now_or_never();
}

pub struct House {
    pub runtime: Runtime,
    pub session: Session,
    pub journal: MemoryJournal,
    pub model: Says,
    /// The bodies of Echo that ran.
    pub ran: Arc<Mutex<Vec<String>>>,
}

pub struct Plan {
    pub model: Says,
    pub journal: MemoryJournal,
    pub tools: Vec<Arc<dyn Tool>>,
    pub agents: bool,
    pub approvals: bool,
    pub limits: Limits,
}

impl Plan {
    pub fn new(model: Says) -> Plan {
        Plan {
            model,
            journal: MemoryJournal::new(),
            tools: vec![],
            agents: false,
            approvals: false,
            limits: Limits::default(),
        }
    }
    pub fn tool(mut self, tool: impl Tool) -> Plan {
        self.tools.push(Arc::new(tool));
        self
    }
    pub fn agents(mut self) -> Plan {
        self.agents = true;
        self
    }
    /// A conversation of so many tokens is summarised.
    pub fn compact_at(mut self, tokens: u64) -> Plan {
        self.limits.compact_at = Some(tokens);
        self
    }
    pub fn approvals(mut self) -> Plan {
        self.approvals = true;
        self
    }
    pub fn journal(mut self, journal: &MemoryJournal) -> Plan {
        self.journal = journal.clone();
        self
    }

    pub async fn open(self, register: impl FnOnce(&mut Registrar<'_>)) -> House {
        let ran = Arc::default();
        let mut builder = Runtime::builder(self.model.clone())
            .journal(self.journal.clone())
            .tools([echo(&ran)])
            .tools(self.tools)
            .policy("house", register)
            .limits(self.limits)
            .arbiters(1);
        if self.agents {
            builder = builder.tool(agent_tool(vec![AgentKind::new("digger", "Digs.")]).unwrap());
        }
        let runtime = builder.start().await.unwrap();
        let mut options = SessionOptions::new("/").channel("test");
        if self.approvals {
            options = options.approvals();
        }
        let session = runtime.open("s", options).await.unwrap();
        House { runtime, session, journal: self.journal, model: self.model, ran }
    }
}

/// A house on a model that makes these calls in each turn.
pub async fn house(calls: &[(&str, &str)], register: impl FnOnce(&mut Registrar<'_>)) -> House {
    Plan::new(Says::calls(calls)).open(register).await
}

pub fn records(journal: &MemoryJournal, session: &str) -> Vec<Arc<Record>> {
    journal.records(&SessionId::new(session).unwrap())
}

/// The logs fold, their folds owe nothing, and they play again.
pub async fn sound(journal: &MemoryJournal) {
    folds(journal).await;
    for head in journal.sessions().await.unwrap() {
        replays(journal.records(&head.session)).await;
    }
}

/// The logs fold, and their folds owe nothing.
pub async fn folds(journal: &MemoryJournal) {
    for head in journal.sessions().await.unwrap() {
        let records = journal.records(&head.session);
        let state = law::State::fold(&records).unwrap_or_else(|e| panic!("{}: {e}", head.session));
        assert_eq!(state.next(None), law::Next::Idle, "{} owes something", head.session);
    }
}

/// C-DUR-7: played again from its own answers, a log comes out as it is, and nothing is called for it.
pub async fn replays(records: Vec<Arc<Record>>) -> Replayed {
    let (count, name) = (records.len() as u64, records[0].body.clone());
    let replayed = within(replay(records.clone())).await.unwrap_or_else(|e| panic!("{name:?}: {e}"));
    if let Some(Divergence { seq, recorded, replayed, .. }) = &replayed.divergence {
        let (from, line) = (seq.0.saturating_sub(12), |r: &Arc<Record>| encode(r));
        let before: Vec<String> = records.iter().filter(|r| r.seq.0 >= from).take(24).map(line).collect();
        panic!(
            "record {seq}\nrecorded {:?}\nreplayed {:?}\nin\n{}",
            recorded.as_ref().map(line),
            replayed.as_ref().map(line),
            before.join("\n")
        );
    }
    assert_eq!((replayed.copied + replayed.records, replayed.called), (count, 0));
    replayed
}

impl House {
    pub async fn prompt(&self, text: &str) -> EndReason {
        within(within(self.session.prompt(text)).await.unwrap().into_future()).await
    }
    pub fn log(&self) -> Vec<Arc<Record>> {
        records(&self.journal, "s")
    }
    pub fn kinds(&self) -> Vec<String> {
        self.log().iter().map(|r| r.body.kind().to_owned()).collect()
    }
    pub fn count(&self, kind: &str) -> usize {
        self.kinds().iter().filter(|k| *k == kind).count()
    }
    pub fn results(&self) -> Vec<ToolResult> {
        let log = self.log();
        let results = log.iter().filter_map(|r| match &r.body {
            Body::ToolResult(result) => Some(result.clone()),
            _ => None,
        });
        results.collect()
    }
    pub fn ends(&self) -> Vec<&'static str> {
        self.results().iter().map(|r| r.outcome.name()).collect()
    }
    pub fn decisions(&self) -> Vec<DecisionRecorded> {
        decisions(&self.log())
    }
    /// The text of each body that ran.
    pub fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
    /// Nothing is owed, nothing runs, nothing is parked.
    pub async fn close(self) {
        sound(&self.journal).await;
        assert!(self.runtime.live_calls().is_empty(), "no call is left running");
        let left = within(self.runtime.shutdown(PATIENCE)).await;
        assert_eq!(left.parked, []);
    }
}

pub fn decisions(log: &[Arc<Record>]) -> Vec<DecisionRecorded> {
    log.iter().filter_map(|r| r.body.decisions()).flat_map(|decisions| decisions.each()).collect()
}
