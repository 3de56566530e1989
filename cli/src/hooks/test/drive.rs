//! Drives a case: real sessions of a real runtime, with a scripted model, over a log in memory.

use super::feed::{Event, Feed};
use super::seen::{Asked, Seen, Sources};
use super::stage::{Stage, Told, lock};
use super::{script, tools};
use futures::{StreamExt, stream::BoxStream};
use portcullis::{
    Answer, Body, Cause, Content, Continue, Ending, Event as Happened, Execution, ForkAt, Gate, Limits,
    MemoryJournal, Model, ModelError, ModelEvent, ModelRequest, Reason, Role, Runtime, ScriptedModel, Seq,
    Session, SessionAdvisor, SessionId, SessionOptions,
    hooks::{Hooks, Report},
    journal::{Fault, JournalError},
};
use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How long a case may take before it is given up; longer than the limit of any hook that a case should have.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a runtime may take to stop.
const GRACE: Duration = Duration::from_secs(10);
/// The session of a case.
const NAME: &str = "case";

/// Which side each request ended on.
type Roles = Arc<Mutex<Vec<Role>>>;

/// The scripted model, with a note of what each request ended on.
struct Watched {
    model: ScriptedModel,
    roles: Roles,
}

impl Model for Watched {
    fn name(&self) -> Arc<str> {
        self.model.name()
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let last = request.messages.last_role();
        self.roles.lock().unwrap_or_else(PoisonError::into_inner).extend(last);
        self.model.respond(request)
    }
}

/// Runs the case and says what was seen.
pub(super) async fn drive(stage: &Stage, feed: &Feed) -> Result<Seen, String> {
    match tokio::time::timeout(PATIENCE, play(stage, feed)).await {
        Ok(seen) => seen,
        Err(_) => Err(format!("it did not come to its end within {} s", PATIENCE.as_secs())),
    }
}

/// What one process of the case's life is made of.
struct House<'c> {
    stage: &'c Stage,
    feed: &'c Feed,
    journal: MemoryJournal,
    roles: Roles,
    reports: Vec<Report>,
    asked: Asked,
    /// The hooks of the last process, and what those came to that nobody waited for.
    hooks: Option<Arc<Hooks>>,
    told: Told,
    /// The session of the last process.
    last: Option<SessionId>,
    /// The session after which the next one begins afresh.
    cleared: Option<SessionId>,
    /// A call was deferred, and nothing is left to do before somebody resumes it: here the case ends.
    deferred: bool,
}

async fn play(stage: &Stage, feed: &Feed) -> Result<Seen, String> {
    let dying = Arc::new(AtomicBool::new(false));
    let journal = journal(feed, dying.clone());
    let roles = Roles::default();
    let (hooks, told) = (None, Told::default());
    let (reports, asked) = (Vec::new(), Asked::default());
    let mut house = House {
        stage,
        feed,
        journal,
        roles,
        reports,
        asked,
        hooks,
        told,
        last: None,
        cleared: None,
        deferred: false,
    };
    match feed.event {
        Event::SessionStart => house.starts().await?,
        _ if feed.scenario.crashes() => house.dies_and_recovers(&dying).await?,
        Event::UserPromptSubmit => {
            let prompts: Vec<&str> = feed.rounds.iter().map(|round| &*round.prompt).collect();
            house.process(NAME, &prompts, true).await?;
        }
        Event::Stop => {
            let prompts = vec![&*feed.rounds[0].prompt; feed.turns().len()];
            house.process(NAME, &prompts, true).await?;
        }
        Event::ConfigChange => house.changes().await?,
        Event::SessionEnd => {
            // Each process that is done with the session ends it.
            for round in &feed.rounds {
                house.process(NAME, &[&round.prompt], true).await?;
            }
        }
        event if event.is_of_compaction() => {
            // One that fills the conversation, and each that comes after finds it full.
            let prompts = vec![&*feed.rounds[0].prompt; feed.rounds.len() + 1];
            house.process(NAME, &prompts, true).await?;
        }
        _ if feed.turns().len() > 1 && feed.event.is_stop() => {
            return Err("a subagent has one turn, so its stop begins anew only once".into());
        }
        _ => house.process(NAME, &[&*feed.rounds[0].prompt], true).await?,
    }
    let House { journal, roles, reports, asked, told, last, hooks, .. } = house;
    let roles = roles.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let told = std::mem::take(&mut *lock(&told));
    Seen::of(feed, Sources { journal, roles, reports, asked, told, last, hooks }).await
}

/// Where the process may die just before a result is kept.
fn journal(feed: &Feed, dying: Arc<AtomicBool>) -> MemoryJournal {
    if !feed.scenario.crashes() {
        return MemoryJournal::new();
    }
    MemoryJournal::with_faults(move |_, batch| {
        let result = batch.records.iter().any(|record| matches!(record.body, Body::ToolResult(_)));
        if result {
            dying.store(true, Ordering::Release);
        }
        let dead = || Fault::Before(JournalError::Unavailable("the case has its process die here".into()));
        dying.load(Ordering::Acquire).then(dead)
    })
}

impl House<'_> {
    /// One process with one session: opens it, sends these prompts one after another, and ends.
    async fn process(&mut self, name: &str, prompts: &[&str], hooked: bool) -> Result<(), String> {
        let (runtime, session) = self.open(name, hooked).await?;
        let mut done = Ok(());
        for prompt in prompts {
            done = self.turn(&session, prompt).await;
            if done.is_err() || self.deferred {
                break;
            }
        }
        // Hooks that are told of what has happened would end with their process.
        while self.hooks.as_ref().is_some_and(|hooks| hooks.telling() > 0) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        runtime.shutdown(self.grace()).await;
        done
    }

    async fn open(&mut self, name: &str, hooked: bool) -> Result<(Runtime, Session), String> {
        let model = ScriptedModel::from_json(&script::script(self.feed)).map_err(|e| e.to_string())?;
        let guards = self.feed.guards.clone();
        let denies = self.feed.event == Event::PermissionDenied;
        let asks = self.feed.event.is_of_question();
        let forced_before = self.feed.event.is_stop() && self.feed.rounds.iter().any(|round| round.active);
        let first: Vec<bool> = self.feed.turns().iter().map(|rounds| rounds[0].active).collect();
        let inside = u32::from(self.feed.agent.is_some());
        let compact_at = self.feed.event.is_of_compaction().then_some(script::FULL);
        let limits = Limits { compact_at, ..Limits::default() };
        let mut builder = Runtime::builder(Watched { model, roles: self.roles.clone() })
            .journal(self.journal.clone())
            .arbiters(1)
            .limits(limits)
            .tools(tools::tools(self.feed)?)
            .policy("case", move |at| {
                for (number, rule) in guards.into_iter().enumerate() {
                    at.guard(&format!("rule-{number}"), move |call: &Execution| denied(&rule, call));
                }
                if denies {
                    at.pre_execute("denies", async |_| Gate::deny("The case denies this call."));
                }
                if asks {
                    at.depth(inside..=inside, |at| {
                        at.pre_execute("asks", async |_| Gate::ask("The case has a person asked."));
                    });
                }
                if forced_before {
                    // The step before those the case is about.
                    at.depth(inside..=inside, |at| {
                        at.turn_continuation("before", async move |ending: Ending| {
                            let turn = usize::try_from(ending.scene.turn - 1).unwrap_or(usize::MAX);
                            let due = first.get(turn) == Some(&true) && ending.forced_in_turn == 0;
                            if due { Continue::again("Go on.") } else { Continue::Abstain }
                        });
                    });
                }
            });
        if hooked {
            let advisor = SessionAdvisor::new();
            let (hooks, reports) = self.stage.hooks(advisor.clone(), &self.told);
            self.hooks = Some(hooks.clone());
            self.reports = reports;
            builder = builder.mount_deciding(hooks).answers(advisor);
        }
        let runtime = builder.start().await.map_err(|error| error.to_string())?;
        let mut options = SessionOptions::new(&self.stage.cwd).channel("cli").approvals();
        options.cleared = self.cleared.clone();
        match runtime.open(name, options).await {
            Ok(session) => {
                self.last = Some(session.id().clone());
                Ok((runtime, session))
            }
            Err(error) => {
                runtime.shutdown(GRACE).await;
                Err(error.to_string())
            }
        }
    }

    /// How long the process may take to stop. A turn that waits for its host does not end.
    fn grace(&self) -> Duration {
        if self.deferred { Duration::ZERO } else { GRACE }
    }

    /// One session, of whose settings one file changes before each further turn.
    async fn changes(&mut self) -> Result<(), String> {
        let feed = self.feed;
        let (runtime, session) = self.open(NAME, true).await?;
        let mut done = self.turn(&session, &feed.rounds[0].prompt).await;
        for round in &feed.rounds {
            done = done.and_then(|()| self.stage.change(&round.source));
            if done.is_ok() {
                done = self.turn(&session, &round.prompt).await;
            }
        }
        runtime.shutdown(GRACE).await;
        done
    }

    /// One turn, with someone at hand who answers questions as the case says.
    async fn turn(&mut self, session: &Session, prompt: &str) -> Result<(), String> {
        let mut events = session.events(Seq(0));
        let turn = session.prompt(Content::text(prompt)).await.map_err(|error| error.to_string())?;
        let mut ended = pin!(turn.done());
        let interrupts = self.feed.event == Event::Interrupt;
        loop {
            tokio::select! {
                _ = &mut ended => break,
                _ = session.parked() => {
                    self.deferred = true;
                    break;
                }
                event = events.next() => match event {
                    Some(Happened::Record(record))
                        if interrupts && matches!(record.body, Body::StepStart(_)) =>
                    {
                        session.cancel(Cause::User).await.map_err(|error| error.to_string())?;
                    }
                    Some(Happened::Ask(ask)) => self.asked.answer(session, ask, &self.feed.scenario.answers()).await,
                    Some(_) => {}
                    None => {
                        ended.await;
                        break;
                    }
                },
            }
        }
        self.asked.answer_late(session, &self.feed.scenario.answers()).await;
        Ok(())
    }

    /// Sessions that start in the ways the case names.
    async fn starts(&mut self) -> Result<(), String> {
        let mut open: Option<String> = None;
        for (at, round) in self.feed.rounds.iter().enumerate() {
            let fresh = format!("{NAME}-{at}");
            let name = match &*round.source {
                "startup" => fresh,
                "resume" => self.earlier(open, &round.prompt).await?,
                "clear" => {
                    let cleared = self.earlier(open, &round.prompt).await?;
                    self.cleared = Some(SessionId::new(cleared).map_err(|error| error.to_string())?);
                    fresh
                }
                "fork" => {
                    let parent = self.earlier(open, &round.prompt).await?;
                    self.fork(&parent, &fresh).await?;
                    fresh
                }
                other => {
                    return Err(format!(
                        "no case can make a session that starts as `{other}`, so the event was not fed"
                    ));
                }
            };
            self.process(&name, &[&round.prompt], true).await?;
            self.cleared = None;
            open = Some(name);
        }
        Ok(())
    }

    /// The session that this one comes after: the last one of the case, else one with a past of which its hooks were no part.
    async fn earlier(&mut self, last: Option<String>, prompt: &str) -> Result<String, String> {
        match last {
            Some(name) => Ok(name),
            None => {
                self.process(NAME, &[prompt], false).await?;
                Ok(NAME.into())
            }
        }
    }

    /// Another session that goes on from the end of this one.
    async fn fork(&mut self, parent: &str, name: &str) -> Result<(), String> {
        let model = ScriptedModel::from_json(&script::script(self.feed)).map_err(|e| e.to_string())?;
        let runtime = Runtime::builder(model).journal(self.journal.clone()).arbiters(1).start().await;
        let runtime = runtime.map_err(|error| error.to_string())?;
        let forked = runtime.fork(parent, ForkAt::Head, name).await;
        runtime.shutdown(GRACE).await;
        forked.map_err(|error| error.to_string())
    }

    /// A process that dies before the call has a result, and the one that comes after it.
    async fn dies_and_recovers(&mut self, dying: &AtomicBool) -> Result<(), String> {
        let prompt = &self.feed.rounds[0].prompt;
        let (first, session) = self.open(NAME, true).await?;
        // How the dying process saw its turn end is no one's business.
        let _ = self.turn(&session, prompt).await;
        first.shutdown(self.grace()).await;
        if !dying.load(Ordering::Acquire) {
            return Err("no call came as far as a result, so the process did not die".into());
        }
        self.journal = self.journal.copy();
        let (second, session) = self.open(NAME, true).await?;
        let mut events = session.events(Seq(0));
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                _ = session.parked() => {
                    self.deferred = true;
                    break;
                }
            };
            let Some(event) = event else { break };
            match event {
                Happened::Ask(ask) => {
                    self.asked.answer(&session, ask, &self.feed.scenario.answers()).await;
                }
                Happened::Record(record) if matches!(record.body, Body::TurnEnd(_)) => break,
                Happened::Ended => break,
                _ => {}
            }
        }
        second.shutdown(self.grace()).await;
        Ok(())
    }
}

fn denied(rule: &super::feed::GuardRule, call: &Execution) -> Option<Reason> {
    let command = call.arguments.root().get("command").and_then(portcullis::View::as_str);
    let hit = *call.tool.name == *rule.tool
        && (rule.prefix.is_empty() || command.is_some_and(|command| command.starts_with(&rule.prefix)));
    hit.then(|| format!("A rule of the case denies {} {}.", rule.tool, rule.prefix).into())
}

/// The answer that a case means.
pub(super) fn answer(approve: bool) -> Answer {
    if approve { Answer::Allow } else { Answer::Refuse(None) }
}
