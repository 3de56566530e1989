//! What may run once only: found in the logs that a process left, and checked against what the next one ran.

use crate::{
    house::{Ran, call_key, key_of},
    logs::Logs,
};
use portcullis::{Body, Record, SessionId};
use std::{collections::BTreeSet, sync::Arc};

pub(crate) fn each(logs: &Logs) -> impl Iterator<Item = (&SessionId, &Arc<Record>)> {
    logs.iter().flat_map(|(session, records)| records.iter().map(move |record| (session, record)))
}

/// The keys of all decisions that are durable.
pub(crate) fn committed(logs: &Logs) -> BTreeSet<String> {
    each(logs)
        .flat_map(|(session, record)| {
            let each = record.body.decisions().into_iter().flat_map(|decisions| decisions.each());
            each.map(move |d| key_of(session, &record.at, &d))
        })
        .collect()
}

/// The bodies that are not idempotent and were started, and the calls that have their result.
pub(crate) fn started(logs: &Logs) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut once, mut bodies, mut results) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (session, record) in each(logs) {
        let at = &record.at;
        let Some(call) = &at.call else { continue };
        let key = call_key(session, at.turn.unwrap_or_default(), at.step.unwrap_or_default(), call);
        match &record.body {
            Body::ToolCall(call) if !call.idempotent => drop(once.insert(key)),
            Body::ToolDispatched(_) if once.contains(&key) => drop(bodies.insert(key)),
            Body::ToolResult(_) => drop(results.insert(key)),
            _ => {}
        }
    }
    (bodies, results)
}

/// C-DUR-1, 2: what the process that took over ran was not decided, run or shown before, and nothing twice.
pub(crate) fn ran_nothing_twice(before: &Logs, ran: &Ran, at: &str) {
    let committed = committed(before);
    for (key, times) in ran.handlers.lock().unwrap().iter() {
        assert!(!committed.contains(key), "{at}: {key} was decided and asked again");
        assert_eq!(*times, 1, "{at}: {key} ran more than once");
    }
    let (bodies, results) = started(before);
    for key in ran.bodies.lock().unwrap().keys() {
        assert!(!bodies.contains(key), "{at}: the body of {key} ran twice");
    }
    for (key, times) in ran.results.lock().unwrap().iter() {
        assert!(!results.contains(key) && *times == 1, "{at}: the result of {key} was shown twice");
    }
    // C-SUB-3: a subagent's end is observed once.
    for (child, times) in ran.ends.lock().unwrap().iter() {
        let ended = |(_, record): (&SessionId, &Arc<Record>)| matches!(&record.body, Body::SubagentEnded(ended) if ended.child.as_str() == child);
        assert!(!each(before).any(ended) && *times == 1, "{at}: the end of {child} was shown twice");
    }
}
