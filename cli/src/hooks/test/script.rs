//! The script of the model that makes the event happen.

use super::feed::{Event, Feed, Round, quoted};

/// How often the last answer of a turn is repeated, should a hook force the turn on.
const AGAIN: u32 = 1_000_000;
/// Longer than any case may take, in milliseconds.
const NEVER: u32 = 3_600_000;
/// What the runtime says when it asks for a summary.
const SUMMARISE: &str = "Write a summary that will stand in its place";
/// From so many tokens on a conversation is summarised, in the cases that are about that.
pub(super) const FULL: u64 = 1000;
/// The call that starts the subagent in which everything happens.
pub(super) const SPAWN: &str = "toolu_spawn";
/// The tool it calls.
pub(super) const AGENT: &str = "Agent";

/// What the agent that works under a call is asked.
pub(super) fn task(call: &str) -> String {
    format!("The task of {call}.")
}

/// The script as the model reads it.
pub(super) fn script(feed: &Feed) -> String {
    let mut turns = Vec::new();
    if feed.batch {
        for parent in feed.rounds.iter().filter(|round| has_agent(feed, &round.id)) {
            let own = feed.rounds.iter().filter(|round| round.parent.as_deref() == Some(&parent.id));
            let steps: Vec<String> = own.map(|round| calls(&[round])).chain([text("done", AGAIN)]).collect();
            turns.push(turn(Some(&task(&parent.id)), &steps, 1));
        }
        let top: Vec<&Round> = feed.rounds.iter().filter(|round| round.parent.is_none()).collect();
        turns.push(turn(None, &[calls(&top), text("done", AGAIN)], 1));
        return model(feed, &turns);
    }
    let mut acts: Vec<Vec<String>> = Vec::new();
    if feed.event.is_of_tool() {
        let steps = feed.rounds.iter().map(|round| calls(&[round]));
        acts.push(steps.chain([text("done", AGAIN)]).collect());
    } else if feed.event.is_stop() {
        for rounds in feed.turns() {
            let front = rounds[0].active.then(|| text("not quite", 1));
            let steps = rounds.iter().map(|round| text(&round.last, 1));
            let rest = rounds.last().map(|round| text(&round.last, AGAIN));
            acts.push(front.into_iter().chain(steps).chain(rest).collect());
        }
    } else if feed.event == Event::StopFailure {
        let failed = feed
            .rounds
            .iter()
            .map(|round| format!(r#"{{"fail":{{"kind":"fatal","message":{}}}}}"#, quoted(&round.last)));
        acts.push(failed.take(1).collect());
    } else if feed.event == Event::Interrupt {
        // It would answer when nobody listens any more.
        acts.push(vec![format!(r#"{{"text":"done","delay_ms":{NEVER}}}"#)]);
    } else if feed.event.is_of_compaction() {
        acts.push(vec![format!(
            r#"{{"text":"done","repeat":{AGAIN},"usage":{{"input":{FULL},"output":1}}}}"#
        )]);
    } else {
        acts.push(vec![text("done", AGAIN)]);
    }
    match &feed.agent {
        Some(agent) => {
            turns.extend(acts.iter().map(|steps| turn(Some(&task(SPAWN)), steps, 1)));
            let input = format!(
                r#"{{"description":"the case","prompt":{},"subagent_type":{}}}"#,
                quoted(&task(SPAWN)),
                quoted(&agent.kind)
            );
            turns.push(turn(None, &[call(&[(SPAWN, AGENT, &input)]), text("done", AGAIN)], 1));
        }
        None if feed.event.is_stop() => turns.extend(acts.iter().map(|steps| turn(None, steps, 1))),
        None => turns.extend(acts.iter().map(|steps| turn(None, steps, AGAIN))),
    }
    model(feed, &turns)
}

/// Does an agent work under this call?
pub(super) fn has_agent(feed: &Feed, call: &str) -> bool {
    feed.rounds.iter().any(|round| round.parent.as_deref() == Some(call) && round.agent.is_some())
}

fn model(feed: &Feed, turns: &[String]) -> String {
    // A hook asks about the event's JSON, which names the event; nothing else that is said here does.
    let asked = quoted(&format!(r#""hook_event_name":"{}""#, feed.event.name()));
    let aside = |says: &String| format!(r#"{{"contains":{asked},"steps":[{}]}}"#, text(says, AGAIN));
    let mut asides: Vec<String> = feed.model_says.iter().map(aside).collect();
    if feed.event.is_of_compaction() {
        let summary = text(&feed.rounds[0].last, AGAIN);
        asides.push(format!(r#"{{"contains":{},"steps":[{summary}]}}"#, quoted(SUMMARISE)));
    }
    format!(r#"{{"name":"case","turns":[{}],"asides":[{}]}}"#, turns.join(","), asides.join(","))
}

fn turn(prompt: Option<&str>, steps: &[String], repeat: u32) -> String {
    let prompt = prompt.map(|prompt| format!("\"prompt\":{},", quoted(prompt))).unwrap_or_default();
    format!(r#"{{{prompt}"repeat":{repeat},"steps":[{}]}}"#, steps.join(","))
}

fn text(text: &str, repeat: u32) -> String {
    format!(r#"{{"text":{},"repeat":{repeat}}}"#, quoted(text))
}

fn calls(rounds: &[&Round]) -> String {
    let all: Vec<(&str, &str, &str)> = rounds.iter().map(|r| (&*r.id, &*r.tool, &*r.input)).collect();
    call(&all)
}

fn call(calls: &[(&str, &str, &str)]) -> String {
    // `raw`: the arguments go out exactly as they are written, whatever they are.
    let calls: Vec<String> = calls
        .iter()
        .map(|(id, name, input)| {
            format!(r#"{{"id":{},"name":{},"raw":{}}}"#, quoted(id), quoted(name), quoted(input))
        })
        .collect();
    format!(r#"{{"calls":[{}]}}"#, calls.join(","))
}
