//! Where a handler's decision may stand.

use super::{
    State, Turn,
    apply::{Checked, UNKNOWN_CALL, need},
};
use crate::{CallPath, Permitted, Point, Record, Resolution, Source, Subject, Verdict};

impl State {
    /// Each handler decides once, and what follows holds for the decisions of a point alike: what may stand after one may
    /// stand after the others.
    pub(super) fn decides(&self, record: &Record) -> Checked {
        let d = record.body.decisions().ok_or("it holds no decision")?;
        let before = self.has_decided(d.point, d.subject);
        for (place, made) in d.made.iter().enumerate() {
            let again = d.made[..place].iter().any(|other| other.id == made.id)
                || before && self.decision_of(d.point, d.subject, &made.id).is_some();
            need(!again, "this handler has decided already")?;
            need(made.decision.fits(d.point), "its point decides otherwise")?;
        }
        let turn = self.turn.as_deref().ok_or("no turn is open")?;
        let batch = turn.steps == 0 && turn.step.is_none();
        let of_call = d.subject.call().is_some();
        need(of_call || record.at.call.is_none(), "it is about no call")?;
        need(!of_call || record.at.step.is_some(), "it names no step")?;
        match (d.subject, d.point) {
            (
                Subject::Call(path) | Subject::Again { call: path, .. },
                Point::Rewrite | Point::PreExecute | Point::Permission | Point::Guard | Point::PostExecute,
            ) => {
                need(record.at.call.as_ref() == Some(path), "the envelope names another call")?;
                need(*d.subject == self.subject_of(path), "it is about another attempt at the call's gate")?;
                self.decides_call(d.point, path, record)
            }
            (Subject::Prompt(seq), Point::PromptSubmit) => {
                self.start_stands(turn)?;
                let next = match turn.takes.get(turn.settled) {
                    Some((next, q)) => {
                        let judged = q.kind.opens_turn() && q.source == Source::User;
                        next == seq && judged && turn.ended_at_start().is_none()
                    }
                    None => {
                        let first =
                            self.steering().is_some_and(|(s, q)| s == seq && q.source == Source::User);
                        let open = turn.halt.as_ref().is_none_or(|h| h.subject == *d.subject);
                        first && open && turn.step.is_none() && turn.steps > 0 && turn.goes_on()
                    }
                };
                need(next, "it is about no prompt that is to be judged now")
            }
            (Subject::Session(seq), point) if point == self.start_point() => {
                let open = batch && turn.settled == 0;
                need(open && self.starts.iter().any(|(s, _)| s == seq), "that start is closed already")
            }
            (Subject::Batch(n), Point::Batch) => {
                let step = turn.step.as_ref().filter(|step| step.number == *n);
                need(
                    step.is_some_and(|step| self.batch_is_owed(turn, step)),
                    "no such calls are to be judged now",
                )
            }
            (Subject::Step(n), Point::Continuation) => {
                let asked =
                    turn.step.is_none() && turn.steps > 0 && !turn.owes_step() && turn.answered_last();
                need(
                    asked && self.boundary_is_open(turn, d.subject) && turn.steps == *n,
                    "that step's end is not to be judged now",
                )
            }
            (Subject::Step(n), Point::Stop) => {
                let boundary =
                    turn.step.is_none() && turn.steps > 0 && turn.owes_step() && turn.answered_last();
                need(
                    boundary && self.boundary_is_open(turn, d.subject) && turn.steps == *n,
                    "the turn does not go on from there",
                )
            }
            (Subject::Compaction(seq), Point::Compaction) => {
                let open = turn.compaction.as_ref().is_some_and(|open| open.at == *seq);
                need(open, "that compaction is not under way")
            }
            (Subject::Compaction(seq), Point::Compacted) => {
                let stands = turn.summarised.as_ref().is_some_and(|(at, _)| at == seq);
                need(stands, "no summary stands there, or a step has begun since")
            }
            _ => Err("its point has other subjects"),
        }
    }

    /// A step's boundary may still be judged: no halt came from elsewhere, and no steering is being judged. What was begun
    /// first is finished first.
    fn boundary_is_open(&self, turn: &Turn, subject: &Subject) -> bool {
        let steered = self
            .steering()
            .is_some_and(|(seq, _)| self.has_decided(Point::PromptSubmit, &Subject::Prompt(*seq)));
        !steered && turn.halt.as_ref().is_none_or(|h| h.subject == *subject)
    }

    /// C-PIPE-1: rewriters before the identity, the gate before a person, guards before the body, reviews after all.
    fn decides_call(&self, point: Point, path: &CallPath, record: &Record) -> Checked {
        let subject = self.subject_of(path);
        let later = |point| self.is_entered(point, &subject);
        let checked = self.call_at(record, |c| {
            need(!c.result, "the call has its result")?;
            match point {
                Point::Rewrite => {
                    need(c.sealed.is_none() && c.rewrite.is_none(), "the call is sealed already")
                }
                Point::PostExecute => Ok(()),
                _ => {
                    need(c.accepted(), "the call is not sealed, or its arguments were refused")?;
                    need(!c.decided() && !later(Point::PostExecute), "the call is decided already")?;
                    if point == Point::PreExecute {
                        let passed = later(Point::Permission) || later(Point::Guard);
                        need(c.asked.is_none() && !passed, "the gate is passed")
                    } else if point == Point::Permission {
                        need(
                            c.asked.is_none() && !later(Point::Guard),
                            "a person is asked, or nobody has to be",
                        )?;
                        need(matches!(self.gate(path), Verdict::Ask { .. }), "nobody asks")
                    } else if later(Point::Guard) {
                        // The gate was open for the guard before this one, and nothing has closed it.
                        Ok(())
                    } else {
                        match self.gate(path) {
                            Verdict::Open => Ok(()),
                            Verdict::Ask { .. } => need(
                                c.answered.as_ref().is_some_and(|a| a.resolution == Resolution::Allowed)
                                    || matches!(self.permission(path), Permitted::Allowed(_)),
                                "a person must agree first",
                            ),
                            Verdict::Deferred { .. } => Err("the call is deferred"),
                            Verdict::Closed { .. } => Err("the gate is closed"),
                        }
                    }
                }
            }
        });
        match (checked, point) {
            // A nested call's rewriters run before its `tool/call` announces it.
            (Err(UNKNOWN_CALL), Point::Rewrite) => self.nested_parent(Some(path)),
            (Ok(()), Point::Rewrite) => self.sealed_before(Some(path)),
            // It had ended for the review before this one.
            (Ok(()), Point::PostExecute) if later(Point::PostExecute) => Ok(()),
            (Ok(()), Point::PostExecute) => {
                need(self.outcome(path, Some(Point::Guard)).is_some(), "the call has not ended")
            }
            (other, _) => other,
        }
    }
}
