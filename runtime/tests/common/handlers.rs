//! What scripted handlers decide, tools do and models say: any of it, as the tape has it.

use super::Tape;
use portcullis_runtime::*;
use std::sync::Arc;

pub fn failure(tape: &mut Tape) -> Failure {
    match tape.pick(4) {
        0 => Failure::Panic { message: "boom".into() },
        1 => Failure::Error { message: "no route".into() },
        2 => Failure::Deadline { limit_ms: 10_000 },
        _ => Failure::Nonsense { message: "not JSON".into() },
    }
}

fn gate(tape: &mut Tape) -> Gate {
    match tape.pick(6) {
        0 | 1 => Gate::Allow,
        2 => Gate::Ask { reason: None },
        3 => Gate::ask("sure?"),
        4 => Gate::defer("later"),
        _ => Gate::deny("not here"),
    }
}

/// One handler's answer at a point: the decision, its context, its halt, the failure it stands for.
pub struct Answer {
    pub decision: Decision,
    pub ends_chain: bool,
    pub context: Vec<Arc<str>>,
    pub halt: Option<Reason>,
    pub failure: Option<Failure>,
}

fn answer<S: Seam>(tape: &mut Tape, decide: impl FnOnce(&mut Tape) -> S::Decision) -> Answer {
    let failure = tape.once_in(7).then(|| failure(tape));
    let decision = failure.as_ref().map_or_else(|| decide(tape), S::failed);
    let context = match tape.pick(4) {
        2 => vec!["note".into()],
        3 => vec!["one".into(), " ".into(), "two".into()],
        _ => Vec::new(),
    };
    let halt = tape.once_in(24).then(|| Reason::from("enough"));
    Answer { ends_chain: S::ends_chain(&decision), decision: S::record(decision), context, halt, failure }
}

pub fn decide(point: Point, tape: &mut Tape) -> Answer {
    match point {
        Point::SessionStart => answer::<SessionStart>(tape, |_| Started {}),
        Point::PromptSubmit => answer::<PromptSubmit>(tape, |t| match t.pick(8) {
            6 => Submit::replace("instead"),
            5 => Submit::replace(" "),
            7 => Submit::block("not that"),
            _ => Submit::allow(),
        }),
        Point::Rewrite => answer::<Rewrite>(tape, |t| {
            let proposal = match t.pick(5) {
                3 => Proposal::arguments(Frozen::arguments(r#"{"safe": 1.0}"#).expect("an object")),
                4 => Proposal::arguments(Frozen::arguments(r#"{"bad":1}"#).expect("an object")),
                _ => Proposal::pass(),
            };
            if t.once_in(4) { proposal.carrying(gate(t)) } else { proposal }
        }),
        Point::PreExecute => answer::<PreExecute>(tape, gate),
        Point::Permission => answer::<Permission>(tape, |t| match t.pick(5) {
            0 | 1 => Permit::Abstain,
            2 | 3 => Permit::Allow,
            _ => Permit::deny("nobody may"),
        }),
        Point::Batch => answer::<ToolBatch>(tape, |_| Batched {}),
        Point::PostExecute => answer::<PostExecute>(tape, |t| match t.pick(6) {
            4 => Review::replace("reviewed"),
            5 => Review::block("fix that"),
            _ => Review::accept(),
        }),
        Point::Continuation => answer::<TurnContinuation>(tape, |t| match t.pick(6) {
            0..=2 => Continue::Abstain,
            3 => Continue::Again { reason: None },
            _ => Continue::again("tests fail"),
        }),
        Point::Stop => {
            answer::<TurnStop>(tape, |t| if t.once_in(5) { StopTurn::Stop } else { StopTurn::Abstain })
        }
        Point::Compaction => answer::<Compaction>(tape, |t| match t.pick(4) {
            0 => Compact::skip("not now"),
            1 => Compact::keeping("the plan"),
            _ => Compact::proceed(),
        }),
        Point::Compacted => answer::<AfterCompaction>(tape, |_| Noted {}),
        // A guard denies or abstains, and its failure denies.
        _ => {
            let failure = tape.once_in(12).then(|| failure(tape));
            let verdict = if failure.is_some() || tape.once_in(6) {
                GuardVerdict::Deny { reason: "guarded".into() }
            } else {
                GuardVerdict::Abstain
            };
            let ends_chain = verdict != GuardVerdict::Abstain;
            let decision = Decision::Guard(verdict);
            Answer { decision, ends_chain, context: Vec::new(), halt: None, failure }
        }
    }
}

pub fn outcome(tape: &mut Tape) -> Outcome {
    match tape.pick(7) {
        0..=2 => Outcome::completed(Output::text("done")),
        3 => Outcome::completed(Output::text("7").with_value(Frozen::parse(r#"{"n":7}"#).expect("JSON"))),
        4 => Outcome::tool_error("exit 1"),
        5 => Outcome::ended(Ended::InvalidOutput { message: "/n: missing".into() }),
        _ => Outcome { ended: Ended::Timeout { limit_ms: 50 }, output: Some(Output::text("half")) },
    }
}

/// A message of the model; `None` when the request fails.
pub fn message(tape: &mut Tape) -> Option<AssistantMessage> {
    let text = |t: &str| AssistantBlock::Text { text: t.into() };
    // Small, large, or not said.
    let usage =
        [None, Some(20), Some(100)][usize::from(tape.pick(3))].map(|input| Usage { input, output: 0 });
    let finish =
        |blocks: Vec<AssistantBlock>, finish| Some(AssistantMessage { blocks: blocks.into(), usage, finish });
    match tape.pick(12) {
        0..=3 => finish(vec![text("done")], Finish::Stop),
        4 => finish(Vec::new(), Finish::Stop),
        5 if tape.once_in(3) => finish(vec![text("cut"), call(tape, 0)], Finish::MaxTokens),
        6 if tape.once_in(3) => finish(Vec::new(), Finish::Refused { reason: "declined".into() }),
        7 if tape.once_in(3) => None,
        _ => {
            let mut blocks = vec![AssistantBlock::Reasoning { text: "hm".into() }];
            for i in 0..=tape.pick(3) {
                blocks.push(call(tape, i));
            }
            finish(blocks, Finish::Calls)
        }
    }
}

/// Ids repeat on purpose: a call is named by its place.
fn call(tape: &mut Tape, position: u16) -> AssistantBlock {
    let (name, arguments) = [
        ("Bash", r#"{"command": "ls\u0020-l"}"#),
        ("Read", r#"{"path":"a","n":12345678901234567890}"#),
        ("Read", ""),
        ("Bash", r#"{"command":"#),
        ("Nothing", "{}"),
        ("Bash", "{}"),
    ][usize::from(tape.pick(6))];
    let id = if tape.once_in(3) { "same".to_string() } else { format!("c{position}") };
    AssistantBlock::Call { id: id.into(), name: name.into(), arguments: arguments.into() }
}
