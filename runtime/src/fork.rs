//! Forks: another session that goes on from a copy of this one's log, up to a place in it (C-DUR-7).
//!
//! The copy is a log of its own: it folds without its parent, and to the same conversation. What has to be closed in it is
//! closed there; the parent is only read.

use crate::{
    At, Body, Draft, Record, Seed, Seq, SessionId, Subject,
    law::{Invalid, State},
};
use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

/// Where a session is forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ForkAt {
    /// Where its log ends. A turn that is open there is `interrupted` in the fork.
    #[default]
    Head,
    /// Behind this turn, which must be over.
    Turn(u64),
    /// Behind this step of this turn, which must be over. The turn is `interrupted` in the fork.
    Step(u64, u32),
}

/// Why a text is no [`ForkAt`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no place to fork at: give a turn, such as 2, or a turn and a step, such as 2.1")]
pub struct BadForkAt(String);

impl FromStr for ForkAt {
    type Err = BadForkAt;

    /// `TURN` or `TURN.STEP`, both from 1.
    fn from_str(text: &str) -> Result<ForkAt, BadForkAt> {
        let bad = || BadForkAt(text.into());
        let (turn, step) = match text.split_once('.') {
            Some((turn, step)) => (turn, Some(step.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let turn: u64 = turn.parse().map_err(|_| bad())?;
        Ok(step.map_or(ForkAt::Turn(turn), |step| ForkAt::Step(turn, step)))
    }
}

impl fmt::Display for ForkAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForkAt::Head => f.write_str("its end"),
            ForkAt::Turn(turn) => write!(f, "turn {turn}"),
            ForkAt::Step(turn, step) => write!(f, "step {turn}.{step}"),
        }
    }
}

/// Why a session was not forked. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// There is no such place in its log, or not yet.
    #[error("session `{session}` cannot be forked at {at}: {why}")]
    NotThere {
        /// The session.
        session: SessionId,
        /// The place.
        at: ForkAt,
        /// What there is.
        why: String,
    },
    /// It is a subagent's: it has no place of its own to go on from.
    #[error("session `{0}` is a subagent's and cannot be forked; fork the session that started it")]
    Subagent(SessionId),
    /// Its log breaks the law, or what closes the fork's does.
    #[error("the log of session `{session}` does not fold: {invalid}")]
    Unlawful {
        /// The session.
        session: SessionId,
        /// Where and why.
        invalid: Invalid,
    },
}

/// The log of a fork of this session, called `child`: its own `session/created`, a copy of what stands up to the place, and
/// what closes a turn that is open there. `time` is that of the records that are new.
///
/// Not copied are prompts, steering and context that were sent and not taken by then: whoever sent them waits for the parent.
///
/// # Errors
/// [`ForkError`].
pub fn fork(
    parent: &[Arc<Record>],
    at: ForkAt,
    child: &SessionId,
    time: u64,
) -> Result<Vec<Arc<Record>>, ForkError> {
    let Some(Body::SessionCreated(created)) = parent.first().map(|record| &record.body) else {
        let why = "its log is empty".into();
        return Err(ForkError::NotThere { session: child.clone(), at, why });
    };
    if created.parent.is_some() {
        return Err(ForkError::Subagent(created.id.clone()));
    }
    let cut =
        place(parent, at).map_err(|why| ForkError::NotThere { session: created.id.clone(), at, why })?;
    let unlawful = |invalid| ForkError::Unlawful { session: created.id.clone(), invalid };
    let taken = &parent[..cut];
    let waiting: BTreeSet<Seq> = State::fold(taken).map_err(unlawful)?.waiting().collect();
    let kept: Vec<&Arc<Record>> = taken.iter().filter(|record| is_taken(record, &waiting)).collect();
    // A number becomes that of the first record from there on that is kept.
    let renumbered = |seq: Seq| Seq(kept.partition_point(|record| record.seq < seq) as u64);

    let mut created = created.clone();
    let last = Seq(cut as u64 - 1);
    created.seed = Some(Seed { session: created.id.clone(), seq: last, own: Seq(0) });
    (created.id, created.cleared) = (child.clone(), None);
    let copy = |(number, record): (u64, &&Arc<Record>)| {
        let body = record.body.with_seqs(&renumbered);
        // The names of commands are the parent's: whoever sent one there sends it there again.
        Arc::new(Record { seq: Seq(number), time: record.time, at: record.at.clone(), key: None, body })
    };
    let copies: Vec<Arc<Record>> = (1..).zip(&kept[1..]).map(copy).collect();
    let fold = |own: u64| {
        let mut head = created.clone();
        head.seed = head.seed.map(|seed| Seed { own: Seq(own), ..seed });
        let mut log = vec![Draft::new(At::session(), head).seal(Seq(0), time)];
        log.extend(copies.iter().cloned());
        let mut state = State::fold(&log)?;
        for draft in state.interrupt() {
            let record = draft.seal(state.head(), time);
            state.apply(&record)?;
            log.push(record);
        }
        Ok(log)
    };
    // How many records close it is known when it is closed.
    let own = fold(0).map_err(unlawful)?.len() as u64;
    fold(own).map_err(unlawful)
}

/// How many records stand before the place.
fn place(parent: &[Arc<Record>], at: ForkAt) -> Result<usize, String> {
    let behind = |found: &dyn Fn(&Record) -> bool| parent.iter().position(|r| found(r)).map(|at| at + 1);
    let (turn, step) = match at {
        ForkAt::Head => return Ok(parent.len()),
        ForkAt::Turn(turn) => (turn, None),
        ForkAt::Step(turn, step) => (turn, Some(step)),
    };
    let of_turn = |record: &Record| record.at.turn == Some(turn);
    let found = match step {
        None => behind(&|r| of_turn(r) && matches!(r.body, Body::TurnEnd(_))),
        Some(_) => behind(&|r| of_turn(r) && r.at.step == step && matches!(r.body, Body::StepEnd(_))),
    };
    found.ok_or_else(|| {
        let last = |number: &dyn Fn(&Record) -> Option<u64>| {
            parent.iter().filter_map(|record| number(record)).max().unwrap_or_default()
        };
        let turns = last(&|record| record.at.turn);
        let steps = last(&|record| record.at.step.filter(|_| of_turn(record)).map(u64::from));
        match step {
            _ if turn == 0 || turn > turns => format!("it has {turns} turn{}", plural(turns)),
            None => "that turn is open; name a step of it, or no place".into(),
            Some(step) if step == 0 || u64::from(step) > steps => {
                format!("that turn has {steps} step{}", plural(steps))
            }
            Some(_) => "that step is open".into(),
        }
    })
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Not what waits, nor what was decided about it; and a fork of a session that was closed is open.
fn is_taken(record: &Record, waiting: &BTreeSet<Seq>) -> bool {
    match &record.body {
        Body::PromptQueued(_) => !waiting.contains(&record.seq),
        Body::SessionClosed(_) | Body::SessionCommand(_) | Body::SessionLeft(_) => false,
        body => !body
            .decisions()
            .is_some_and(|d| matches!(d.subject, Subject::Prompt(seq) if waiting.contains(seq))),
    }
}
