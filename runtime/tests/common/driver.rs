//! The driver: `loop { next → carry it out → commit records }`, with kills, cancels and queued things in between.

use super::{Tape, check, handlers};
use portcullis_runtime::{
    law::{CallOwes, Next, Passed, State},
    *,
};
use std::{collections::BTreeMap, mem, sync::Arc};

/// Valid logs, different each, the same in every run.
pub fn logs(count: u64) -> Vec<Vec<Arc<Record>>> {
    (1..=count)
        .map(|seed| {
            let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let numbers = (0..260).map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                (x >> 24) as u16
            });
            let mut driver = Driver::new(Tape::new(numbers.collect()));
            driver.play();
            driver.log
        })
        .collect()
}

/// The process was killed and a new one folded the log: whatever was being done is forgotten.
pub struct Killed;

type Alive = Result<(), Killed>;

/// What occurred, by name, over all scripts.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    pub records: BTreeMap<String, u64>,
    pub ends: BTreeMap<&'static str, u64>,
    pub outcomes: BTreeMap<&'static str, u64>,
    pub points: BTreeMap<Point, u64>,
    pub events: BTreeMap<&'static str, u64>,
}

/// Which of the driver's own duties a record is committed for.
#[derive(Clone)]
enum Duty {
    /// What `next` owed.
    Next,
    /// What a call that a body started owed.
    Nested(CallPath),
    /// None: a failure that no rule answers.
    Failure,
}

pub struct Driver {
    pub tape: Tape,
    pub log: Vec<Arc<Record>>,
    pub state: State,
    pub seen: Seen,
    pub limits: Limits,
    passed: Option<Passed>,
    nested_passed: BTreeMap<CallPath, Point>,
    /// How many handlers each point has.
    plan: BTreeMap<Point, u16>,
    kills: u32,
}

impl Driver {
    pub fn new(tape: Tape) -> Driver {
        let mut new = Driver {
            tape,
            log: Vec::new(),
            state: State::new(),
            seen: Seen::default(),
            limits: Limits::default(),
            passed: None,
            nested_passed: BTreeMap::new(),
            plan: BTreeMap::new(),
            kills: 0,
        };
        for point in Point::ALL {
            let handlers = new.tape.pick(3);
            new.plan.insert(point, handlers);
        }
        let limits = Limits {
            continuations_in_a_row: u32::from(new.tape.pick(4)) + 1,
            continuations_per_turn: u32::from(new.tape.pick(4)) + 2,
            compact_at: new.tape.once_in(2).then_some(100),
            ..Limits::default()
        };
        new.limits = limits;
        new
    }

    /// Plays the whole tape, then lets the session come to rest.
    pub fn play(&mut self) {
        let _ = self.open();
        let mut rounds = 0;
        loop {
            rounds += 1;
            assert!(rounds < 20_000, "C-TURN: a turn that does not end: {:?}", self.state.next(None));
            if let Ok(true) = self.round() {
                break;
            }
        }
        assert_eq!(self.state.open_turn(), None, "every turn ends");
        let _ = self.close();
        check::log(&self.log, self.limits);
    }

    fn open(&mut self) -> Alive {
        self.add(At::session(), super::created())?;
        self.add(At::session(), super::config(self.limits))
    }

    fn close(&mut self) -> Alive {
        self.add(At::session(), SessionClosed { reason: "done".into() })?;
        assert!(self.state.is_closed());
        self.kill();
        assert!(!self.state.is_closed());
        Ok(())
    }

    /// One duty. True when the script is over and the session at rest.
    fn round(&mut self) -> Result<bool, Killed> {
        self.outside()?;
        if self.state.open_turn().is_some() && self.tape.once_in(150) {
            let drafts = self.state.fail("runtime_failed", "no more memory");
            self.note("failed");
            self.commit_for(Duty::Failure, drafts)?;
            return Ok(false);
        }
        match self.state.next(self.passed.as_ref()) {
            Next::Idle => {
                if self.tape.is_over() {
                    return Ok(true);
                }
                let source = if self.tape.once_in(8) { Source::owner("app") } else { Source::User };
                self.queue(QueueKind::Prompt, source)?;
            }
            Next::Await => panic!("nothing is in flight at {:#?}", self.log.last()),
            Next::Commit(drafts) => self.commit(drafts)?,
            Next::Judge { point, subject } => self.point(point, subject)?,
            Next::OpenStep { step } => {
                let turn = self.turn();
                let mut drafts = vec![Draft::new(At::step(turn, step), StepStart {})];
                if self.state.header().is_none() || self.tape.once_in(10) {
                    let system = format!("system {}", self.log.len());
                    drafts.push(Draft::new(At::step(turn, step), super::header(&system)));
                }
                self.commit(drafts)?;
            }
            Next::Model { attempt } => self.model(attempt)?,
            Next::Summarise => self.summarise()?,
            Next::Call { path, owes } => self.call(&path, owes)?,
            other => panic!("unknown duty {other:?}"),
        }
        Ok(false)
    }

    // What happens at any time.

    fn outside(&mut self) -> Alive {
        match self.tape.pick(60) {
            50 => self.queue(QueueKind::Prompt, Source::User),
            51 => self.queue(QueueKind::Steering, Source::User),
            52 => self.queue(QueueKind::Steering, Source::owner("hooks")),
            53 => self.queue(QueueKind::Inject, Source::owner("app")),
            54 => self.queue(QueueKind::Child, Source::owner("app")),
            55 => self.queue(QueueKind::Hook, Source::owner("hooks")),
            56 if self.log.len().is_multiple_of(3) => self.withdraw(),
            56 => self.add(At::session(), super::config(self.limits)),
            57 if self.log.len().is_multiple_of(3) => {
                self.add_of_command(At::session(), SessionCommand { cancelled: None })
            }
            57 => self.add(At::session(), Body::Own(super::own("hook/invoked", r#"{"late":true}"#))),
            58 if self.state.open_turn().is_some() && self.state.cancelled().is_none() => {
                self.note("cancelled");
                let cause = [Cause::User, Cause::Deadline, Cause::Shutdown][usize::from(self.tape.pick(3))];
                let cancel = TurnCancelled { by: Source::User, cause: CauseName(cause) };
                self.add(At::turn(self.turn()), cancel)
            }
            59 => {
                self.kill();
                Err(Killed)
            }
            _ => Ok(()),
        }
    }

    /// Takes back a prompt that waits, if one does.
    fn withdraw(&mut self) -> Alive {
        let waits = |seq: &Seq| self.state.whereabouts(*seq) == law::Whereabouts::Waits;
        let Some(prompt) = self.state.waiting().find(waits) else { return Ok(()) };
        let withdrawn = SessionWithdrawn { prompt, by: Source::User, cause: CauseName(Cause::User) };
        self.note("withdrawn");
        self.add_of_command(At::session(), withdrawn)?;
        assert_eq!(self.state.whereabouts(prompt), law::Whereabouts::Over);
        Ok(())
    }

    /// Under a name that no other command has.
    fn add_of_command(&mut self, at: At, body: impl Into<Body>) -> Alive {
        let command = CommandId::new(format!("c{}", self.log.len())).expect("a name");
        let draft = Draft::new(at, body).of_command(Some(command.clone()));
        self.commit(vec![draft])?;
        assert!(self.state.caused(&command).is_some());
        Ok(())
    }

    fn queue(&mut self, kind: QueueKind, source: Source) -> Alive {
        let text = format!("sent at {}", self.log.len());
        self.add_of_command(At::session(), super::queued(kind, &text, source))
    }

    /// Drops everything but the log's text, and takes the session up again.
    fn kill(&mut self) {
        self.kills += 1;
        self.note("killed");
        let lines: Vec<String> = self.log.iter().map(|record| encode(record)).collect();
        self.log = lines.iter().map(|line| Arc::new(decode(line).expect("our own line"))).collect();
        self.state = State::fold(&self.log).expect("our own log");
        self.passed = None;
        self.nested_passed.clear();
        if self.state.open_turn().is_some() && self.kills.is_multiple_of(4) {
            // It was left on purpose.
            self.push(&Duty::Next, Draft::new(At::session(), SessionLeft {}));
        }
        let resumed = Draft::new(At::session(), SessionResumed {});
        self.push(&Duty::Next, resumed);
    }

    fn note(&mut self, event: &'static str) {
        *self.seen.events.entry(event).or_default() += 1;
    }

    fn turn(&self) -> u64 {
        self.state.open_turn().expect("an open turn")
    }

    // Commits.

    fn add(&mut self, at: At, body: impl Into<Body>) -> Alive {
        self.commit(vec![Draft::new(at, body)])
    }

    fn commit(&mut self, drafts: Vec<Draft>) -> Alive {
        self.commit_for(Duty::Next, drafts)
    }

    fn commit_for(&mut self, duty: Duty, drafts: Vec<Draft>) -> Alive {
        assert!(!drafts.is_empty(), "an empty append");
        for (i, draft) in drafts.into_iter().enumerate() {
            // C-DUR-3: after any record, also within an append.
            if i > 0 && self.tape.once_in(25) {
                self.note("killed within an append");
                self.kill();
                return Err(Killed);
            }
            self.push(&duty, draft);
        }
        Ok(())
    }

    /// One record, with every property that a record must have.
    fn push(&mut self, duty: &Duty, draft: Draft) {
        let body = draft.body();
        let discharged = match duty {
            Duty::Failure => true,
            Duty::Next => {
                self.state.next(self.passed.as_ref()).is_discharged_by(body)
                    || self.state.next(None).is_discharged_by(body)
            }
            Duty::Nested(path) => {
                let passed = self.nested_passed.get(path).copied();
                let announced = self.state.call_facts(path).is_some();
                let owes = if announced { self.state.call(path, passed) } else { CallOwes::Seal };
                let own = Next::Call { path: path.clone(), owes }.is_discharged_by(body);
                own || matches!(body, Body::PromptQueued(_))
            }
        };
        assert!(
            discharged,
            "`{}` was not owed after {:?}: next is {:?} ({:?} passed)\n{}",
            body.kind(),
            self.log.last().map(|r| r.body.kind().to_string()),
            self.state.next(self.passed.as_ref()),
            self.passed,
            self.tail(),
        );
        if matches!(body, Body::ModelRequested(_)) {
            check::request(&self.state.transcript());
        }
        let record = draft.seal(self.state.head(), 1_000 + self.log.len() as u64);
        let line = encode(&record);
        assert_eq!(decode(&line).as_ref(), Ok(&*record), "C-LOG-1: {line}");
        if let Err(invalid) = self.state.apply(&record) {
            panic!("{invalid}\n{line}\n{}", self.tail());
        }
        self.count(&record);
        self.log.push(record);
        let fresh = State::fold(&self.log).expect("a valid log");
        same(&self.state, &fresh, self.passed.as_ref());
    }

    pub fn tail(&self) -> String {
        let from = self.log.len().saturating_sub(40);
        self.log[from..].iter().map(|record| encode(record)).collect::<Vec<_>>().join("\n")
    }

    fn count(&mut self, record: &Record) {
        let kind = match &record.body {
            Body::Own(_) => "own".to_string(),
            body => body.kind().to_string(),
        };
        *self.seen.records.entry(kind).or_default() += 1;
        match &record.body {
            Body::TurnEnd(end) => *self.seen.ends.entry(end.reason.name()).or_default() += 1,
            Body::ToolResult(r) => *self.seen.outcomes.entry(r.outcome.name()).or_default() += 1,
            body => {
                if let Some(d) = body.decisions() {
                    *self.seen.points.entry(d.point).or_default() += d.made.len() as u64;
                }
            }
        }
    }

    // Points.

    /// Asks the handlers that have not decided. Returns early when the turn was cancelled meanwhile. Handlers between which
    /// nothing happens decide in one record.
    fn judge(&mut self, point: Point, subject: &Subject, at: &At, duty: &Duty) -> Alive {
        let (mut made, mut own) = (Vec::new(), Vec::new());
        for order in 0..self.plan[&point] {
            let id = HandlerId::new(format!("policy{order}"), "h");
            if let Some(recorded) = self.state.decision_of(point, subject, &id) {
                if ends_chain(&recorded.decision) {
                    break;
                }
                continue;
            }
            // While the handler is deciding.
            if made.is_empty() || self.tape.once_in(2) {
                self.decide(point, subject, at, duty, (&mut own, &mut made))?;
                self.outside()?;
                if self.state.cancelled().is_some() {
                    return Ok(());
                }
            }
            if self.log.len().is_multiple_of(9) && !self.state.has_begun(point, subject, &id) {
                // One that must not run twice; cut off, it has failed, which is a decision like any other.
                self.decide(point, subject, at, duty, (&mut own, &mut made))?;
                let begun = DecisionBegun { point, subject: subject.clone(), id: id.clone() };
                self.commit_for(duty.clone(), vec![Draft::new(at.clone(), begun)])?;
                self.outside()?;
                if self.state.cancelled().is_some() {
                    return Ok(());
                }
            }
            let answer = handlers::decide(point, &mut self.tape);
            if self.tape.once_in(4) {
                own.push(Draft::new(at.clone(), Body::Own(super::own("hook/result", r#"{"exit":0}"#))));
            }
            made.push(HandlerDecision {
                id,
                order: order.into(),
                decision: answer.decision,
                context: answer.context,
                halt: answer.halt,
                failure: answer.failure,
                ms: 3,
            });
            if answer.ends_chain {
                break;
            }
        }
        self.decide(point, subject, at, duty, (&mut own, &mut made))
    }

    fn decide(
        &mut self,
        point: Point,
        subject: &Subject,
        at: &At,
        duty: &Duty,
        (own, made): (&mut Vec<Draft>, &mut Vec<HandlerDecision>),
    ) -> Alive {
        let Some(decided) = DecisionsRecorded::of(point, subject, mem::take(made)) else { return Ok(()) };
        let mut drafts = mem::take(own);
        drafts.push(Draft::new(at.clone(), decided));
        self.commit_for(duty.clone(), drafts)
    }

    /// A point that is about no call.
    fn point(&mut self, point: Point, subject: Subject) -> Alive {
        let at = At::turn(self.turn());
        if point == Point::Batch {
            let calls = self.state.batch();
            assert!(!calls.is_empty() && calls.iter().all(|call| call.key.step == self.state.step_number()));
        }
        self.judge(point, &subject, &at, &Duty::Next)?;
        let drafts = self.state.close(point, &subject);
        self.passed = Some((point, subject));
        if self.state.cancelled().is_some() {
            assert!(drafts.is_empty(), "C-TURN-9: nothing closes as usual in a cancelled turn");
            return Ok(());
        }
        if drafts.is_empty() {
            let steered = point == Point::Continuation && self.state.has_prompts();
            let silent =
                matches!(point, Point::SessionStart | Point::Stop | Point::Compaction | Point::Compacted);
            assert!(steered || silent, "every other point leaves a record");
            return Ok(());
        }
        self.commit(drafts)
    }

    // The model.

    fn summarise(&mut self) -> Alive {
        let owed = self.state.compaction().expect("under way");
        assert!(!owed.conversation.is_empty() && owed.tokens >= 100);
        self.outside()?;
        if self.state.cancelled().is_some() {
            return Ok(());
        }
        let before = self.state.transcript().len();
        let summary = if self.tape.once_in(4) { Err("busy".into()) } else { Ok("so far".into()) };
        let left = if summary.is_ok() { before - owed.conversation.len() + 1 } else { before };
        let drafts = self.state.end_compaction(summary);
        self.commit(drafts)?;
        assert_eq!(self.state.transcript().len(), left, "one message for all that lay behind");
        Ok(())
    }

    fn model(&mut self, attempt: u32) -> Alive {
        let at = At::step(self.turn(), self.state.step_number());
        if self.state.header().is_none() {
            // The append that opened the step was cut.
            self.add(at.clone(), super::header("again"))?;
        }
        self.add(at.clone(), ModelRequested { attempt, digest: None })?;
        assert_eq!(self.state.next(None), Next::Await, "the model is at work");
        for _ in 0..self.tape.pick(3) {
            self.outside()?;
        }
        if self.state.cancelled().is_some() {
            if self.tape.once_in(2) {
                // What had come by then crosses the cancel.
                let part = AssistantMessage { finish: Finish::Interrupted, ..super::says("half a") };
                self.note("interrupted");
                return self.add(at, part);
            }
            return Ok(());
        }
        match handlers::message(&mut self.tape) {
            Some(message) => self.add(at, message),
            None => {
                self.note("model failed");
                let drafts = self.state.fail("model_failed", "no answer");
                self.commit_for(Duty::Failure, drafts)
            }
        }
    }

    // Calls.

    fn call(&mut self, path: &CallPath, owes: CallOwes) -> Alive {
        if !path.is_top() {
            // A body is gone and left this one behind.
            self.note("left behind");
            return match owes {
                CallOwes::Commit(drafts) => self.commit(drafts),
                other => panic!("{path} is not to go on: {other:?}"),
            };
        }
        let passed = self.owed(path, owes, &Duty::Next)?;
        if let Some(point) = passed {
            self.passed = Some((point, self.state.subject_of(path)));
        }
        Ok(())
    }

    /// A call that a body starts: the same path, driven by whoever started it.
    fn nested(&mut self, path: &CallPath) -> Alive {
        let duty = Duty::Nested(path.clone());
        if self.state.call_facts(path).is_none() {
            let (name, raw) = started(path);
            self.seal(path, "n", name, raw, &duty)?;
        }
        for _ in 0..200 {
            if self.state.cancelled().is_none() {
                self.outside()?;
            }
            let passed = self.nested_passed.get(path).copied();
            let owes = self.state.call(path, passed);
            if owes == CallOwes::Done {
                return Ok(());
            }
            if self.state.cancelled().is_none() && self.tape.once_in(40) {
                self.note("abandoned");
                return Ok(());
            }
            if let Some(point) = self.owed(path, owes, &duty)? {
                self.nested_passed.insert(path.clone(), point);
            }
        }
        panic!("{path} does not end");
    }

    /// One duty of a call. Yields the point that was passed, if one was.
    fn owed(&mut self, path: &CallPath, owes: CallOwes, duty: &Duty) -> Result<Option<Point>, Killed> {
        let (turn, step) = (self.turn(), self.state.step_number());
        let at = At::call(turn, step, path.clone());
        let subject = self.state.subject_of(path);
        match owes {
            CallOwes::Seal => {
                if path.is_top() {
                    let facts = self.state.call_facts(path).expect("a call");
                    self.seal(path, &facts.id, &facts.name, &facts.raw, duty)?;
                } else {
                    let (name, raw) = started(path);
                    self.seal(path, "n", name, raw, duty)?;
                }
            }
            CallOwes::Judge(point) => {
                self.judge(point, &subject, &at, duty)?;
                if point == Point::PostExecute && self.state.cancelled().is_none() && self.tape.once_in(2) {
                    // `close` says the same as `next` behind the point.
                    let drafts = self.state.close(point, &subject);
                    let owes = if drafts.is_empty() { CallOwes::Held } else { CallOwes::Commit(drafts) };
                    assert_eq!(owes, self.state.call(path, Some(point)));
                }
                return Ok(Some(point));
            }
            CallOwes::Ask { ref by, ref reasons } | CallOwes::Defer { ref by, ref reasons } => {
                let (by, reasons) = (by.clone(), reasons.clone());
                let deferred = matches!(owes, CallOwes::Defer { .. });
                let key = CallKey { turn, step, call: path.clone() };
                let request = RequestId::at(&super::session(), &key, self.state.attempt(path));
                let arguments = self.state.call_facts(path).and_then(|facts| facts.arguments);
                let digest = InputRequested::digest_of(&arguments.expect("sealed before it asks"));
                let asked = InputRequested { request, digest, reasons, by, expires: None, deferred };
                self.commit_for(duty.clone(), vec![Draft::new(at, asked)])?;
            }
            CallOwes::Answer(request) => {
                assert!(self.state.asks().iter().any(|(p, r)| p == path && r.request == request));
                self.outside()?;
                if self.state.cancelled().is_some() {
                    return Ok(None);
                }
                if self.state.deferral(path).is_some() {
                    return self.deferred(path, request, duty).map(|()| None);
                }
                let resolution = [
                    Resolution::Allowed,
                    Resolution::Allowed,
                    Resolution::Refused,
                    Resolution::Cancelled,
                    Resolution::Unavailable,
                    Resolution::Expired,
                ][usize::from(self.tape.pick(6))];
                let text = self.tape.once_in(2).then(|| Reason::from("no way"));
                let answer = InputResolved { request, resolution, text, by: Source::User };
                self.commit_for(duty.clone(), vec![Draft::new(at, answer)])?;
            }
            CallOwes::Dispatch { attempt } => self.body(path, attempt, duty)?,
            CallOwes::Commit(drafts) => self.commit_for(duty.clone(), drafts)?,
            other => panic!("{path} owes {other:?}\n{}", self.tail()),
        }
        Ok(None)
    }

    /// C-BRIDGE-9: those behind it may go on; then somebody takes it up again, or nobody does in time.
    fn deferred(&mut self, path: &CallPath, request: RequestId, duty: &Duty) -> Alive {
        if path.is_top() && self.tape.once_in(2) {
            let behind: Vec<CallPath> =
                self.state.open_calls().map(|(open, _)| open.clone()).filter(|open| open > path).collect();
            for open in behind {
                self.overtake(&open)?;
            }
            if self.state.cancelled().is_some() {
                return Ok(());
            }
        }
        let resolution = [Resolution::Resumed, Resolution::Resumed, Resolution::Resumed, Resolution::Expired]
            [usize::from(self.tape.pick(4))];
        let at = At::call(self.turn(), self.state.step_number(), path.clone());
        let resolved = InputResolved { request, resolution, text: None, by: Source::User };
        self.commit_for(duty.clone(), vec![Draft::new(at, resolved)])?;
        self.nested_passed.remove(path);
        if resolution == Resolution::Resumed {
            self.note("resumed");
            assert_eq!(self.state.call(path, None), CallOwes::Seal, "from the beginning");
            assert!(!self.state.has_decided(Point::PreExecute, &self.state.subject_of(path)));
        }
        Ok(())
    }

    /// A call behind a deferred one: as far as it comes without its result.
    fn overtake(&mut self, path: &CallPath) -> Alive {
        let duty = Duty::Nested(path.clone());
        self.nested_passed.remove(path);
        for _ in 0..200 {
            if self.state.cancelled().is_some() {
                return Ok(());
            }
            let owes = self.state.call(path, self.nested_passed.get(path).copied());
            match owes {
                CallOwes::Held => {
                    self.note("held");
                    return Ok(());
                }
                CallOwes::Answer(_) if self.state.deferral(path).is_some() => return Ok(()),
                CallOwes::Dispatch { .. } => self.note("overtaken"),
                _ => {}
            }
            if let Some(point) = self.owed(path, owes, &duty)? {
                self.nested_passed.insert(path.clone(), point);
            }
        }
        panic!("{path} does not come to its result");
    }

    fn seal(&mut self, path: &CallPath, id: &str, name: &str, raw: &str, duty: &Duty) -> Alive {
        let at = At::call(self.turn(), self.state.step_number(), path.clone());
        let subject = self.state.subject_of(path);
        let mut call = ToolCall {
            name: name.into(),
            id: id.into(),
            arguments: Arguments::Refused { raw: raw.into(), refused: Ended::UnknownTool },
            idempotent: name == "Read",
            concurrency_safe: name == "Read",
        };
        let invalid = |message: String| Arguments::Refused {
            raw: raw.into(),
            refused: Ended::InvalidArguments { message: message.into() },
        };
        let mut drafts = Vec::new();
        if name != "Nothing" {
            match Frozen::arguments(raw) {
                Err(refused) => call.arguments = invalid(refused.to_string()),
                Ok(requested) => {
                    self.judge(Point::Rewrite, &subject, &at, duty)?;
                    if self.state.cancelled().is_some() {
                        return Ok(());
                    }
                    let folded = Rewrite::fold(&self.state.decided::<Rewrite>(&subject));
                    call.arguments = match folded.effective {
                        None => Arguments::Sealed { text: requested },
                        Some((_, effective)) if effective.text().contains("bad") => {
                            invalid("bad: not in the schema".into())
                        }
                        // The append was cut behind its `tool/rewrite`, which stands.
                        Some((_, effective)) if self.is_rewritten(path) => {
                            Arguments::Sealed { text: effective }
                        }
                        Some((by, effective)) => {
                            let rewrite = ToolRewrite { requested, effective: effective.clone(), by };
                            drafts.push(Draft::new(at.clone(), rewrite));
                            Arguments::Sealed { text: effective }
                        }
                    };
                }
            }
        }
        drafts.push(Draft::new(at, call));
        self.commit_for(duty.clone(), drafts)
    }

    fn is_rewritten(&self, path: &CallPath) -> bool {
        self.state.call_facts(path).is_some_and(|facts| facts.requested.is_some())
    }

    fn body(&mut self, path: &CallPath, attempt: u32, duty: &Duty) -> Alive {
        let at = At::call(self.turn(), self.state.step_number(), path.clone());
        self.commit_for(duty.clone(), vec![Draft::new(at.clone(), ToolDispatched { attempt })])?;
        assert_eq!(self.state.call(path, None), CallOwes::Await, "its body runs");
        for _ in 0..self.tape.pick(2) {
            self.outside()?;
        }
        if path.positions().len() < 3 && self.tape.once_in(3) {
            for position in 0..=self.tape.pick(2) {
                if self.state.cancelled().is_some() {
                    break;
                }
                self.nested(&path.nested(u32::from(position)))?;
            }
        }
        let outcome = match self.state.cancelled() {
            Some(cancelled) => Outcome {
                ended: Ended::Cancelled { cause: cancelled.cause },
                output: self.tape.once_in(2).then(|| Output::text("partly")),
            },
            None => handlers::outcome(&mut self.tape),
        };
        let returned = ToolReturned { attempt, outcome: Arc::new(outcome), ms: 12 };
        self.commit_for(duty.clone(), vec![Draft::new(at, returned)])
    }
}

/// What a body calls, by place: run again, it calls the same.
fn started(path: &CallPath) -> (&'static str, &'static str) {
    match path.positions() {
        [.., 0] => ("Bash", "{}"),
        [_, _, _] => ("Nothing", "{}"),
        _ => ("Read", r#"{"path":"b"}"#),
    }
}

fn ends_chain(decision: &Decision) -> bool {
    matches!(decision, Decision::Guard(GuardVerdict::Deny { .. }))
        || PreExecute::recall(decision).is_some_and(PreExecute::ends_chain)
        || Permission::recall(decision).is_some_and(Permission::ends_chain)
        || PromptSubmit::recall(decision).is_some_and(PromptSubmit::ends_chain)
}

/// C-DUR-1: what was folded record by record is what a fold of the log is, as far as anyone can see.
pub fn same(one: &State, other: &State, passed: Option<&Passed>) {
    assert_eq!(one.head(), other.head());
    assert_eq!(one.next(None), other.next(None));
    assert_eq!(one.next(passed), other.next(passed));
    assert_eq!(one.transcript(), other.transcript());
    assert_eq!(one.asks(), other.asks());
    assert_eq!(one.header(), other.header());
    assert_eq!(one.limits(), other.limits());
    assert_eq!(one.config(), other.config());
    assert_eq!(one.open_turn(), other.open_turn());
    assert_eq!(one.step_number(), other.step_number());
    assert_eq!(one.current_prompt(), other.current_prompt());
    assert_eq!(one.starts_owed(), other.starts_owed());
    assert_eq!(one.cancelled(), other.cancelled());
    assert_eq!(one.forced_in_a_row(), other.forced_in_a_row());
    assert_eq!(one.last_text(), other.last_text());
    assert_eq!(one.is_closed(), other.is_closed());
    assert!(one.waiting().eq(other.waiting()));
    assert_eq!(one.fail("c", "m"), other.fail("c", "m"));
    for position in 0..4 {
        let top = CallPath::top(position);
        for path in [top.nested(0), top] {
            assert_eq!(one.gate(&path), other.gate(&path));
            for passed in [
                None,
                Some(Point::PreExecute),
                Some(Point::Permission),
                Some(Point::Guard),
                Some(Point::PostExecute),
            ] {
                assert_eq!(one.call(&path, passed), other.call(&path, passed));
                assert_eq!(one.outcome(&path, passed), other.outcome(&path, passed));
            }
        }
    }
}
