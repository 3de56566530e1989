//! Drives one session: sends the prompts, shows what happens, hands on answers and cancels.
//!
//! What it knows of the session it knows from the records, folded by the same law as the runtime's own.

use crate::{
    ask::{Channel, Desk},
    paint::Paint,
    script::Prompts,
    timeline::Timeline,
};
use futures::StreamExt;
use portcullis::{
    Answer, AnswerError, Ask, Body, Cause, CommandId, Deferred, EndReason, Event, Events, Record, RequestId,
    Resolution, Session, Turn, encode,
    law::{Next, State},
};
use std::{
    cell::Cell,
    io::{self, Write},
    pin::pin,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often a reopened session is looked at for a question from before.
const LOOK: Duration = Duration::from_millis(50);

/// How the run ended.
#[derive(Debug)]
pub(crate) enum Fate {
    /// Each turn completed.
    Completed,
    /// This one, the first that did not complete, ended otherwise.
    Ended(u64, EndReason),
    /// These calls wait for whoever answers or resumes them; until then there is nothing to do.
    Waits(Vec<Parked>),
    /// It was left before it was over; why is not in the log.
    Left(String),
}

/// A call that is left for later.
#[derive(Debug)]
pub(crate) enum Parked {
    /// With its question.
    Ask(Ask),
    /// Since it was deferred.
    Deferred(Deferred),
}

impl Parked {
    fn id(&self) -> &RequestId {
        match self {
            Parked::Ask(ask) => &ask.id,
            Parked::Deferred(call) => &call.id,
        }
    }
}

/// Where the records go.
pub(crate) enum Sink {
    Timeline(Box<Timeline>),
    Json,
}

impl Sink {
    /// `person` is how the one who answers questions is named.
    pub(crate) fn new(json: bool, session: &str, person: &'static str) -> Sink {
        if json {
            Sink::Json
        } else {
            Sink::Timeline(Box::new(Timeline::new(Paint::stdout(), session, person)))
        }
    }

    /// Something that stands in the log already: not shown again, but what comes after it is about it.
    pub(crate) fn recall(&mut self, record: &Record) {
        if let Sink::Timeline(timeline) = self {
            let _ = timeline.show(record);
        }
    }

    pub(crate) fn record(&mut self, record: &Record) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Sink::Timeline(timeline) => out.write_all(timeline.show(record).as_bytes())?,
            Sink::Json => writeln!(out, "{}", encode(record))?,
        }
        out.flush()
    }
}

/// SIGINT and SIGTERM, which cancel the turn.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Cause {
        tokio::select! {
            _ = self.interrupt.recv() => Cause::User,
            _ = self.terminate.recv() => Cause::Shutdown,
        }
    }
}

/// What somebody comes back with to a session that was left.
pub(crate) enum Back {
    /// Nothing: what waits goes on waiting.
    Stays,
    /// The wish to go on: every call that was deferred before is resumed.
    ForAll,
    /// An answer, or the wish to go on with one call.
    With(Given),
}

/// An answer to a question from before, bound to what that was about when the answer was given.
pub(crate) struct Given {
    pub(crate) request: RequestId,
    /// SHA-256 of the arguments, hexadecimal.
    pub(crate) digest: Arc<str>,
    /// None for a deferred call, which is resumed.
    pub(crate) answer: Option<Answer>,
    /// What it is called.
    pub(crate) command: Option<CommandId>,
}

/// Everything about the session that is being driven.
pub(crate) struct Drive {
    pub(crate) session: Session,
    pub(crate) channel: Channel,
    pub(crate) prompts: Prompts,
    /// What the log held before.
    pub(crate) law: State,
    /// A turn has begun since then.
    pub(crate) begun: bool,
    pub(crate) back: Back,
    /// Set when what came with it was not taken.
    pub(crate) late: Rc<Cell<bool>>,
    pub(crate) sink: Sink,
    pub(crate) signals: Signals,
}

impl Drive {
    /// To the end of the last turn.
    pub(crate) async fn run(self) -> Fate {
        let events = self.session.events(self.law.head());
        let waits = self.law.asks();
        let deferred =
            waits.iter().filter(|(_, asked)| asked.deferred).map(|(_, asked)| asked.request.clone());
        let mut driver = Driver {
            resumes: if matches!(self.back, Back::ForAll) { deferred.collect() } else { Vec::new() },
            held: false,
            reopened: waits.len(),
            idle: !self.begun && matches!(self.law.next(None), Next::Idle),
            desk: Desk::new(),
            turn: None,
            bad: None,
            cancelled: None,
            lost: None,
            parked: Vec::new(),
            mute: false,
            of: self,
        };
        driver.run(events).await
    }
}

struct Driver {
    of: Drive,
    desk: Desk,
    /// Nothing is owed: a prompt may be sent.
    idle: bool,
    /// Waits from before that have not come up yet.
    reopened: usize,
    /// Calls that were deferred before, and are to be resumed when they come up.
    resumes: Vec<RequestId>,
    /// Nothing is left to do before a call is resumed.
    held: bool,
    /// The turn of the last prompt sent.
    turn: Option<Turn>,
    /// The first end that was not `completed`.
    bad: Option<(u64, EndReason)>,
    cancelled: Option<Cause>,
    /// Why the session takes nothing more.
    lost: Option<String>,
    /// Calls that are left for later.
    parked: Vec<Parked>,
    /// Nobody reads stdout any more.
    mute: bool,
}

/// What there is to react to.
enum Happened {
    Event(Option<Event>),
    Held,
    Answered(Ask, Answer),
    Signal(Cause),
    Look,
}

impl Driver {
    async fn run(&mut self, events: Events) -> Fate {
        let mut events = pin!(events);
        loop {
            if self.idle && (self.cancelled.is_some() || !self.send().await) {
                return self.fate();
            }
            if self.cancelled.is_none() && !self.parked.is_empty() && self.is_quiet() {
                return Fate::Waits(std::mem::take(&mut self.parked));
            }
            let session = self.of.session.clone();
            let deferred = self.parked.iter().any(|one| matches!(one, Parked::Deferred(_)));
            let happened = tokio::select! {
                // What has happened is seen before it is said that nothing more will.
                biased;
                cause = self.of.signals.next() => Happened::Signal(cause),
                event = events.next() => Happened::Event(event),
                (ask, answer) = self.desk.answer() => Happened::Answered(ask, answer),
                _ = session.parked(), if deferred && !self.held => Happened::Held,
                () = tokio::time::sleep(LOOK), if self.reopened > 0 => Happened::Look,
            };
            match happened {
                Happened::Event(Some(Event::Record(record))) => self.record(&record),
                Happened::Event(Some(Event::Ask(ask))) => self.asked(ask).await,
                Happened::Event(Some(Event::Deferred(call))) => self.deferred(call).await,
                Happened::Held => self.held = true,
                Happened::Event(Some(Event::Ended) | None) => return self.gone().await,
                Happened::Event(Some(_)) => {}
                Happened::Answered(ask, answer) => self.answer(&ask, answer).await,
                Happened::Signal(cause) => {
                    if let Some(fate) = self.signal(cause) {
                        return fate;
                    }
                }
                Happened::Look => {
                    for ask in self.of.session.asks() {
                        self.reopened = self.reopened.saturating_sub(1);
                        self.asked(ask).await;
                    }
                    for call in self.of.session.deferred() {
                        self.reopened = self.reopened.saturating_sub(1);
                        self.deferred(call).await;
                    }
                }
            }
        }
    }

    /// No body runs, and a question or a deferred call holds everything else up: leaving now cuts nothing off.
    fn is_quiet(&self) -> bool {
        let asks = self.parked.iter().any(|one| matches!(one, Parked::Ask(_)));
        (asks || self.held) && self.of.law.open_calls().all(|(path, _)| self.of.law.running(path).is_none())
    }

    /// What somebody came back with for this call.
    fn given(&mut self, request: &RequestId) -> Option<Given> {
        match std::mem::replace(&mut self.of.back, Back::Stays) {
            Back::With(given) if given.request == *request => Some(given),
            other => {
                self.of.back = other;
                None
            }
        }
    }

    async fn deferred(&mut self, call: Deferred) {
        let resumes = self.resumes.contains(&call.id);
        self.resumes.retain(|id| *id != call.id);
        let told = match self.given(&call.id) {
            Some(Given { command: Some(command), .. }) => {
                self.of.session.command(command).resume(&call).await
            }
            None if !resumes => {
                if self.parked.iter().all(|parked| *parked.id() != call.id) {
                    self.parked.push(Parked::Deferred(call));
                }
                return;
            }
            _ => self.of.session.resume(&call).await,
        };
        if let Err(error) = told {
            self.late(&error);
        }
    }

    /// Sends the next prompt; false when there is none left or none is taken.
    async fn send(&mut self) -> bool {
        let Some(prompt) = self.of.prompts.take() else { return false };
        match self.of.session.prompt(prompt).await {
            Ok(turn) => {
                self.turn = Some(turn);
                self.idle = false;
                true
            }
            Err(error) => {
                self.lost = Some(error.to_string());
                false
            }
        }
    }

    fn record(&mut self, record: &Arc<Record>) {
        if let Body::TurnCancelled(_) = &record.body {
            self.desk.clear();
        }
        if !self.mute {
            // A reader that has gone does not end the work; the log and the exit code still tell how it went.
            self.mute = self.of.sink.record(record).is_err();
        }
        if let Err(invalid) = self.of.law.apply(record) {
            // The runtime folded it before it was written, so this is a defect; what was shown stands.
            eprintln!("portcullis: a record does not follow from those before it: {invalid}");
        }
        match &record.body {
            Body::Own(own) => self.desk.learn(own),
            Body::InputResolved(resolved) => {
                if self.given(&resolved.request).is_some() {
                    let expired = resolved.resolution == Resolution::Expired;
                    self.late(&if expired { AnswerError::Expired } else { AnswerError::Settled });
                }
                self.desk.settled(&resolved.request);
                self.parked.retain(|parked| *parked.id() != resolved.request);
                self.held = false;
            }
            Body::TurnEnd(end) => {
                if !end.reason.is_success() && self.bad.is_none() {
                    self.bad = Some((record.at.turn.unwrap_or_default(), end.reason.clone()));
                }
                // After these the script's next prompt would not mean what it was written for.
                let over = matches!(end.reason, EndReason::Aborted { .. } | EndReason::Error { .. });
                if over {
                    while self.of.prompts.take().is_some() {}
                }
                self.idle = matches!(self.of.law.next(None), Next::Idle);
            }
            _ => {}
        }
    }

    async fn asked(&mut self, ask: Ask) {
        if let Some(given) = self.given(&ask.id) {
            let asked = ask.digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            if *given.digest == *asked {
                return self.give(&ask, given).await;
            }
            self.late(&AnswerError::Tampered);
        }
        match self.of.channel {
            Channel::Later => {
                if self.parked.iter().all(|parked| *parked.id() != ask.id) {
                    self.parked.push(Parked::Ask(ask));
                }
            }
            Channel::Yes => self.answer(&ask, Answer::Allow).await,
            Channel::Terminal => self.desk.put(ask),
            Channel::None => {
                // A call that waits since before, when there was someone to ask.
                let nobody = "there is no one to ask; run it on a terminal, or with --yes";
                self.answer(&ask, Answer::Refuse(Some(nobody.into()))).await;
            }
        }
    }

    async fn give(&mut self, ask: &Ask, given: Given) {
        let Some(answer) = given.answer else { return self.late(&AnswerError::Unknown) };
        let told = match given.command {
            Some(command) => self.of.session.command(command).answer(ask, answer).await,
            None => self.of.session.answer(ask, answer).await,
        };
        if let Err(error) = told {
            self.late(&error);
        }
    }

    /// The answer from before counts for nothing.
    fn late(&self, why: &AnswerError) {
        self.of.late.set(true);
        eprintln!("portcullis: the answer was not taken: {why}");
    }

    async fn answer(&mut self, ask: &Ask, answer: Answer) {
        match self.of.session.answer(ask, answer).await {
            // The turn was cancelled while the answer was typed.
            Ok(()) | Err(AnswerError::Settled | AnswerError::Unknown) => {}
            Err(error) => eprintln!("portcullis: the answer was not taken: {error}"),
        }
    }

    /// The first one cancels the turn, the second one leaves.
    fn signal(&mut self, cause: Cause) -> Option<Fate> {
        if self.cancelled.is_some() {
            return Some(Fate::Left("was left at once; the turn is open in the log".into()));
        }
        self.cancelled = Some(cause);
        let session = self.of.session.clone();
        // Its commit is not waited for here: the record of it will come by, and a second signal must be heard.
        tokio::spawn(async move {
            if let Err(error) = session.cancel(cause).await {
                eprintln!("portcullis: the cancel could not be stored: {error}");
            }
        });
        None
    }

    /// The session left memory with its turn open: why is not in the log, but the turn's handle knows.
    async fn gone(&mut self) -> Fate {
        match self.turn.take() {
            Some(turn) => Fate::Left(format!("could not go on: {}", turn.await)),
            None => Fate::Left("could not go on; PORTCULLIS_LOG=warn tells why".into()),
        }
    }

    fn fate(&mut self) -> Fate {
        if let Some(why) = self.lost.take() {
            return Fate::Left(format!("could not go on: {why}"));
        }
        match (self.bad.take(), self.cancelled) {
            (Some((turn, end)), _) => Fate::Ended(turn, end),
            (None, Some(_)) if self.of.prompts.left() > 0 => {
                Fate::Left(format!("was cancelled with {} prompts not sent", self.of.prompts.left()))
            }
            (None, _) => Fate::Completed,
        }
    }
}
