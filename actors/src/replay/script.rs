//! What a log says about its own replay: which record came from outside, what was answered where, and in how many lives.

use crate::control::{Answer, Given};
use portcullis_runtime::{
    Arguments, AssistantMessage, At, Body, CallPath, ConfigInForce, EndReason, Finish, HeaderChanged,
    Outcome, Point, QueueKind, Record, RequestId, Resolution, Subject, law::State,
};
use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// A log, to be played again.
#[derive(Debug)]
pub(crate) struct Script {
    pub(super) log: Vec<Arc<Record>>,
    /// Its processes, one after the other: each from where it opened the session to where it was left.
    pub(super) lives: Vec<Range<usize>>,
    /// What each of them began under, where its opening says so.
    configs: Vec<Option<usize>>,
    /// At its end nothing is owed.
    pub(super) at_rest: bool,
    /// Where its turns end.
    ends: Vec<usize>,
}

/// What the code of a call did, in order.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// It called a tool, as its call of this number.
    Called(u32),
    /// A wrapper ran it again.
    Again,
    /// It came back.
    Returned(Arc<Outcome>),
}

/// What the model answered to a request.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    /// This, to its end.
    Message(usize, AssistantMessage),
    /// This, until the turn was cancelled there.
    Interrupted(usize, AssistantMessage),
    /// Nothing: it failed.
    Failed(usize, Arc<str>, Arc<str>),
    /// Nothing, as long as the process lived or the turn went on.
    Nothing,
}

impl Script {
    pub(super) fn new(log: Vec<Arc<Record>>, state: &State) -> Script {
        let own = match log.first().map(|record| &record.body) {
            Some(Body::SessionCreated(created)) => created.seed.as_ref().map_or(0, |seed| index(seed.own.0)),
            _ => 0,
        };
        let resumed = (own..log.len()).filter(|n| *n > 0 && matches!(log[*n].body, Body::SessionResumed(_)));
        let mut bounds: Vec<usize> = [own].into_iter().chain(resumed).collect();
        bounds.dedup();
        let ends = bounds.iter().skip(1).copied().chain([log.len()]);
        let lives: Vec<Range<usize>> = bounds.iter().copied().zip(ends).map(|(from, to)| from..to).collect();
        let opened_with = |life: &Range<usize>| {
            let opens = |body: &Body| matches!(body, Body::SessionCreated(_) | Body::SessionResumed(_));
            let behind = life.clone().find(|n| !opens(&log[*n].body))?;
            matches!(log[behind].body, Body::ConfigInForce(_)).then_some(behind)
        };
        let configs = lives.iter().map(opened_with).collect();
        let at_rest = matches!(state.next(None), portcullis_runtime::law::Next::Idle);
        let ends = (0..log.len()).filter(|n| matches!(log[*n].body, Body::TurnEnd(_))).collect();
        Script { log, lives, configs, at_rest, ends }
    }

    /// The turn that is open there, or that opens next: nothing that is asked within it is answered elsewhere.
    pub(super) fn turn(&self, n: usize) -> Range<usize> {
        let next = self.ends.partition_point(|end| *end < n);
        let from = next.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        from..self.ends.get(next).map_or(self.log.len(), |end| end + 1)
    }

    fn body(&self, n: usize) -> Option<&Body> {
        self.log.get(n).map(|record| &record.body)
    }

    /// The configuration and the request header that a life begins under, as far as the log knows them.
    pub(super) fn profile(&self, life: &Range<usize>) -> (Option<&ConfigInForce>, Option<&HeaderChanged>) {
        let before = |is: fn(&Body) -> bool| self.log[..life.start].iter().rev().find(|r| is(&r.body));
        let own = self.lives.iter().position(|one| one == life).and_then(|place| self.configs[place]);
        let config = own.map(|place| &self.log[place]);
        let config = config.or_else(|| before(|body| matches!(body, Body::ConfigInForce(_))));
        let is_header = |body: &Body| matches!(body, Body::HeaderChanged(_));
        let header = self.log[life.clone()].iter().find(|record| is_header(&record.body));
        let header = header.or_else(|| before(is_header));
        let config = config.and_then(|record| match &record.body {
            Body::ConfigInForce(config) => Some(config),
            _ => None,
        });
        let header = header.and_then(|record| match &record.body {
            Body::HeaderChanged(header) => Some(header),
            _ => None,
        });
        (config, header)
    }

    /// The points at which somebody decided.
    pub(super) fn points(&self, life: &Range<usize>) -> BTreeSet<Point> {
        self.log[life.clone()]
            .iter()
            .filter_map(|record| decided(&record.body))
            .map(|(point, _)| point)
            .collect()
    }

    /// What a tool said of itself: idempotent, safe to overlap.
    pub(super) fn flags(&self, life: &Range<usize>, tool: &str) -> (bool, bool) {
        let sealed = |record: &Arc<Record>| match &record.body {
            Body::ToolCall(call)
                if *call.name == *tool && matches!(call.arguments, Arguments::Sealed { .. }) =>
            {
                Some((call.idempotent, call.concurrency_safe))
            }
            _ => None,
        };
        let within = self.log[life.clone()].iter().find_map(sealed);
        within.or_else(|| self.log.iter().find_map(sealed)).unwrap_or_default()
    }

    /// Came it from outside, with nothing here to make it anew?
    pub(super) fn is_outside(&self, n: usize) -> bool {
        match self.body(n) {
            Some(
                Body::PromptQueued(_)
                | Body::SubagentStarted(_)
                | Body::SubagentEnded(_)
                | Body::SessionLeft(_)
                | Body::SessionCommand(_)
                | Body::SessionWithdrawn(_)
                | Body::SessionClosed(_),
            ) => true,
            // What changed in the middle of a life was no work of the session's.
            Some(Body::ConfigInForce(_)) => !self.configs.contains(&Some(n)),
            // An owner's record goes with the decision behind it.
            Some(Body::Own(_)) => self.decision_behind(n).is_none(),
            _ => false,
        }
    }

    /// The decision that an owner's record goes with, or that stands there itself.
    fn decision_behind(&self, n: usize) -> Option<usize> {
        let mut at = n;
        while matches!(self.body(at), Some(Body::Own(_))) {
            at += 1;
        }
        let decided = self.body(at).and_then(decided).is_some();
        (decided && self.log[at].at == self.log[n].at).then_some(at)
    }

    /// Does what came from outside belong behind the beginning of a judgement whose end stands behind it? Steering does
    /// not wait for a boundary that is not judged yet; this one waited.
    pub(super) fn crossed(&self, n: usize) -> bool {
        let joins =
            |n: usize| matches!(self.body(n), Some(Body::PromptQueued(q)) if q.kind != QueueKind::Prompt);
        let mut next = n;
        let mut joined = false;
        while self.is_outside(next) {
            joined |= joins(next);
            next += 1;
        }
        let point =
            self.decision_behind(next).and_then(|at| decided(&self.log[at].body)).map(|(point, _)| point);
        joined && matches!(point, Some(Point::Continuation | Point::Stop))
    }

    /// The cause of the cancel that stands there.
    pub(super) fn cancel(&self, n: usize) -> Option<portcullis_runtime::Cause> {
        match self.body(n)? {
            Body::TurnCancelled(cancelled) => Some(cancelled.cause.0),
            _ => None,
        }
    }

    /// Did someone answer although the turn was cancelled there? Then the cancel came when they had been asked.
    pub(super) fn answered_behind(&self, cancel: usize) -> bool {
        let interrupted = matches!(self.body(cancel + 1), Some(Body::AssistantMessage(m)) if m.finish == Finish::Interrupted);
        interrupted || self.decision_behind(cancel + 1).is_some()
    }

    /// What was decided at a point about a subject in this part of the log: where, and the records.
    pub(super) fn decisions(
        &self,
        within: Range<usize>,
        at: &At,
        point: Point,
        subject: &Subject,
    ) -> Vec<(usize, Range<usize>)> {
        let mut found = Vec::new();
        for n in within.clone() {
            if self.log[n].at != *at || decided(&self.log[n].body) != Some((point, subject)) {
                continue;
            }
            let mut from = n;
            while from > within.start
                && matches!(self.log[from - 1].body, Body::Own(_))
                && self.log[from - 1].at == *at
            {
                from -= 1;
            }
            found.push((from, from..n + 1));
        }
        found
    }

    /// Where this call, or the turn's own loop, says something next.
    pub(super) fn next_of(&self, within: Range<usize>, call: Option<&CallPath>) -> Option<usize> {
        within.into_iter().find(|n| {
            let record = &self.log[*n];
            match call {
                Some(_) => record.at.call.as_ref() == call && !self.is_outside(*n),
                // Context that a call has earned is the turn's to write, behind the last result.
                None => {
                    let own = record.at.call.is_none() || matches!(record.body, Body::ContextMessage(_));
                    own && record.at.turn.is_some() && !self.is_outside(*n)
                }
            }
        })
    }

    /// How a question was settled by a person, or by its time, and where.
    pub(super) fn answer(&self, within: Range<usize>, request: &RequestId) -> Option<(usize, Given)> {
        within.into_iter().find_map(|n| {
            let record = &self.log[n];
            let Body::InputResolved(r) = &record.body else { return None };
            if r.request != *request {
                return None;
            }
            let answer = match r.resolution {
                Resolution::Allowed => Answer::Allow,
                Resolution::Refused => Answer::Refuse(r.text.clone()),
                Resolution::Expired => return Some((n, Given::Expired)),
                Resolution::Resumed => return Some((n, Given::Resume(r.by.clone(), record.key.clone()))),
                _ => return None,
            };
            Some((n, Given::Answer(answer, r.by.clone(), record.key.clone())))
        })
    }

    /// When a question expires, as its record says.
    pub(super) fn expires(&self, within: Range<usize>, request: &RequestId) -> Option<u64> {
        within.into_iter().find_map(|n| match &self.log[n].body {
            Body::InputRequested(asked) if asked.request == *request => asked.expires,
            _ => None,
        })
    }

    /// Was there nobody to ask?
    pub(super) fn nobody_to_ask(&self, within: Range<usize>, request: &RequestId) -> bool {
        within.into_iter().any(|n| {
            matches!(&self.log[n].body, Body::InputResolved(r)
                if r.request == *request && r.resolution == Resolution::Unavailable)
        })
    }

    /// What the code of a call does next, and where.
    pub(super) fn act(&self, within: Range<usize>, of: &At, called: &[u32]) -> Option<(usize, Act)> {
        let path = of.call.as_ref()?;
        within.into_iter().find_map(|n| {
            let record = &self.log[n];
            if (record.at.turn, record.at.step) != (of.turn, of.step) {
                return None;
            }
            let call = record.at.call.as_ref()?;
            if call == path {
                return match &record.body {
                    Body::ToolDispatched(_) => Some((n, Act::Again)),
                    Body::ToolReturned(returned) => Some((n, Act::Returned(returned.outcome.clone()))),
                    _ => None,
                };
            }
            let (position, parent) = call.positions().split_last()?;
            (parent == path.positions() && !called.contains(position)).then_some((n, Act::Called(*position)))
        })
    }

    /// Which calls a body made, below this number and not yet: they were made before, though they spoke later.
    pub(super) fn called_before(
        &self,
        within: Range<usize>,
        of: &At,
        number: u32,
        called: &[u32],
    ) -> Vec<u32> {
        let made = |position: &u32| {
            !called.contains(position) && self.first_of(within.clone(), of, *position).is_some()
        };
        (0..number).filter(made).collect()
    }

    fn first_of(&self, within: Range<usize>, of: &At, position: u32) -> Option<usize> {
        let path = of.call.as_ref()?.nested(position);
        within.into_iter().find(|n| {
            let at = &self.log[*n].at;
            (at.turn, at.step) == (of.turn, of.step) && at.call.as_ref() == Some(&path)
        })
    }

    /// A call as its parent's body made it: the tool and the arguments.
    pub(super) fn made(&self, within: Range<usize>, at: &At, position: u32) -> Option<(Arc<str>, Arc<str>)> {
        let path = at.call.as_ref()?.nested(position);
        let within = &self.log[within];
        let of = |record: &&Arc<Record>| {
            (record.at.turn, record.at.step) == (at.turn, at.step) && record.at.call.as_ref() == Some(&path)
        };
        let requested = within.iter().filter(of).find_map(|record| match &record.body {
            Body::ToolRewrite(rewrite) => Some(rewrite.requested.text().into()),
            _ => None,
        });
        within.iter().filter(of).find_map(|record| match &record.body {
            Body::ToolCall(call) => {
                let raw = requested.clone().unwrap_or_else(|| match &call.arguments {
                    Arguments::Sealed { text } => text.text().into(),
                    Arguments::Refused { raw, .. } => raw.clone(),
                });
                Some((call.name.clone(), raw))
            }
            _ => None,
        })
    }

    /// What the model answered to the request that stands there.
    pub(super) fn said(&self, request: usize, within: Range<usize>) -> Said {
        let (turn, mut cancelled) = (self.log[request].at.turn, false);
        for n in request + 1..within.end {
            if self.log[n].at.turn != turn {
                continue;
            }
            match &self.log[n].body {
                Body::AssistantMessage(message) if message.finish == Finish::Interrupted => {
                    let cancel = (request..n).rev().find(|n| self.cancel(*n).is_some()).unwrap_or(n);
                    return Said::Interrupted(cancel, message.clone());
                }
                Body::AssistantMessage(message) => return Said::Message(n, message.clone()),
                Body::ModelRequested(_) => return Said::Nothing,
                Body::TurnCancelled(_) => cancelled = true,
                Body::StepEnd(_) if cancelled => return Said::Nothing,
                Body::TurnEnd(end) => {
                    let EndReason::Error { code, message } = &end.reason else { return Said::Nothing };
                    let first = self.next_of(request + 1..within.end, None).unwrap_or(n);
                    return Said::Failed(first, code.clone(), message.clone());
                }
                _ => {}
            }
        }
        Said::Nothing
    }

    /// What is asked of the model when so many records stand: the request, or the compaction that wants a summary.
    pub(super) fn asked(&self, head: usize) -> Option<usize> {
        (0..head).rev().find(|n| {
            matches!(
                self.log[*n].body,
                Body::ModelRequested(_) | Body::CompactionStarted(_) | Body::CompactionEnded(_)
            )
        })
    }
}

/// What a record decides. The one place here that knows in which records decisions are.
fn decided(body: &Body) -> Option<(Point, &Subject)> {
    body.decisions().map(|decisions| (decisions.point, decisions.subject))
}

pub(super) fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
