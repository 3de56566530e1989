//! Two histories beside each other.
//!
//! What happened is compared by its place in the law (turn, step, call, and which record there), not by its number: calls
//! that overlap may be told in another order. Times, what requests used in tokens, and the names of sessions are no history.

use crate::{At, Body, CompactionStarted, Record, RequestId, Seq, SessionId, Subject};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

/// What two histories have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Comparison {
    /// How many places say the same.
    pub same: u64,
    /// How many do not, or are in one of the two only.
    pub differing: u64,
    /// The first of those.
    pub first: Option<Difference>,
}

/// A place at which two histories differ. At least one of the two is there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The place.
    pub place: Place,
    /// What the first history says there.
    pub left: Option<Arc<Record>>,
    /// What the second one says there.
    pub right: Option<Arc<Record>>,
}

/// A place in the law: two records of two logs that have the same one are about the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    turn: Option<u64>,
    step: Option<u32>,
    call: Option<Vec<u32>>,
    what: String,
    /// Which one of those, from 0.
    nth: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(turn) = self.turn {
            write!(f, "turn {turn}, ")?;
        }
        if let Some(step) = self.step {
            write!(f, "step {step}, ")?;
        }
        if let Some(call) = &self.call {
            let path: Vec<String> = call.iter().map(u32::to_string).collect();
            write!(f, "call {}, ", path.join("."))?;
        }
        f.write_str(&self.what)?;
        if self.nth > 0 { write!(f, " ({})", self.nth + 1) } else { Ok(()) }
    }
}

/// Compares two logs.
pub fn compare(left: &[Arc<Record>], right: &[Arc<Record>]) -> Comparison {
    let (left, right) = (places(left), places(right));
    let there: HashMap<&Place, &(Place, Body, Arc<Record>)> = right.iter().map(|r| (&r.0, r)).collect();
    let mut found = Comparison::default();
    let mut first: BTreeMap<Seq, Difference> = BTreeMap::new();
    let mut here = HashMap::new();
    for (place, body, record) in &left {
        here.insert(place, ());
        let other = there.get(place);
        if other.is_some_and(|(_, other, _)| other == body) {
            found.same += 1;
            continue;
        }
        found.differing += 1;
        let right = other.map(|(_, _, record)| record.clone());
        let left = Some(record.clone());
        first.entry(record.seq).or_insert(Difference { place: place.clone(), left, right });
    }
    for (place, _, record) in right.iter().filter(|(place, ..)| !here.contains_key(place)) {
        found.differing += 1;
        let right = Some(record.clone());
        first.entry(record.seq).or_insert(Difference { place: place.clone(), left: None, right });
    }
    found.first = first.into_values().next();
    found
}

/// The records with their places, and what they say there.
fn places(records: &[Arc<Record>]) -> Vec<(Place, Body, Arc<Record>)> {
    let (mut of_kind, mut ordinals) = (HashMap::<&str, u64>::new(), HashMap::new());
    for record in records {
        let count = of_kind.entry(record.body.kind()).or_default();
        ordinals.insert(record.seq, Seq(*count));
        *count += 1;
    }
    // A record is named by which one of its type it is.
    let ordinal = |seq: Seq| ordinals.get(&seq).copied().unwrap_or(Seq(u64::MAX));
    let names = names(records);
    let mut seen: HashMap<Place, u32> = HashMap::new();
    let mut out = Vec::with_capacity(records.len());
    for record in records {
        // How many records the decisions of a point are is not what was decided.
        let bodies = match record.body.decisions() {
            Some(decisions) => decisions.each().map(Body::from).collect(),
            None => vec![record.body.clone()],
        };
        for body in bodies {
            let body = nameless(&body.timeless().with_seqs(&ordinal), &names);
            let At { turn, step, call } = record.at.clone();
            let call = call.map(|call| call.positions().to_vec());
            let mut place = Place { turn, step, call, what: what(&body), nth: 0 };
            let nth = seen.entry(place.clone()).or_default();
            place.nth = *nth;
            *nth += 1;
            out.push((place, body, record.clone()));
        }
    }
    out
}

/// What a record is about, beside its turn, step and call.
fn what(body: &Body) -> String {
    match body {
        Body::DecisionRecorded(d) => {
            let about = match &d.subject {
                Subject::Session(nth) => format!(" start {}", nth.0 + 1),
                Subject::Prompt(nth) => format!(" prompt {}", nth.0 + 1),
                Subject::Compaction(nth) => format!(" compaction {}", nth.0 + 1),
                Subject::Again { attempt, .. } => format!(" attempt {attempt}"),
                Subject::Call(_) | Subject::Step(_) | Subject::Batch(_) => String::new(),
            };
            format!("{} {}{about} {}", body.kind(), d.point, d.id)
        }
        Body::Own(own) => match own.data.root().get("handler").and_then(|handler| handler.as_str()) {
            Some(handler) => format!("{} {handler}", own.kind),
            None => own.kind.to_string(),
        },
        other => other.kind().to_owned(),
    }
}

/// The names under which the session speaks of itself: its own, and those of whom it was forked from.
fn names(records: &[Arc<Record>]) -> Vec<SessionId> {
    match records.first().map(|record| &record.body) {
        Some(Body::SessionCreated(created)) => {
            let seed = created.seed.as_ref().map(|seed| seed.session.clone());
            [created.id.clone()].into_iter().chain(seed).collect()
        }
        _ => Vec::new(),
    }
}

/// The same without what two runs of one history have of their own: names of sessions, and what requests used.
fn nameless(body: &Body, names: &[SessionId]) -> Body {
    let mut body = body.clone();
    let own = |name: &SessionId| {
        let rest = names.iter().find_map(|own| name.as_str().strip_prefix(own.as_str()));
        rest.and_then(|rest| SessionId::new(format!("session{rest}")).ok()).unwrap_or_else(|| name.clone())
    };
    let request = |request: &RequestId| {
        let call = request.as_str().rsplit_once(':').map_or(request.as_str(), |(_, call)| call);
        RequestId::from_text(format!("session:{call}"))
    };
    match &mut body {
        Body::SessionCreated(created) => {
            let nobody = || SessionId::new("session").unwrap_or_else(|_| created.id.clone());
            let name = nobody();
            created.id = name.clone();
            if let Some(parent) = &mut created.parent {
                parent.session = name.clone();
            }
            if let Some(seed) = &mut created.seed {
                seed.session = name.clone();
            }
            created.cleared = created.cleared.as_ref().map(|_| name.clone());
        }
        Body::InputRequested(asked) => asked.request = request(&asked.request),
        Body::InputResolved(settled) => settled.request = request(&settled.request),
        Body::SubagentStarted(started) => started.child = own(&started.child),
        Body::SubagentEnded(ended) => ended.child = own(&ended.child),
        Body::AssistantMessage(message) => message.usage = None,
        Body::CompactionStarted(CompactionStarted { tokens, .. }) => *tokens = 0,
        _ => {}
    }
    body
}
