//! A pure driver for the law: no clock, no thread, no future. It plays sessions on [`State`] from a tape of choices and
//! asserts the properties that every record must have.
#![allow(dead_code, unreachable_pub, reason = "a module of several test binaries, each of which uses a part")]

pub mod check;
pub mod driver;
pub mod handlers;

use portcullis_runtime::*;
use std::sync::Arc;

/// Choices, one number each. An exhausted tape answers 0, and 0 is always the choice that lets a session come to rest.
#[derive(Debug, Clone)]
pub struct Tape {
    numbers: Vec<u16>,
    at: usize,
}

impl Tape {
    pub fn new(numbers: Vec<u16>) -> Tape {
        Tape { numbers, at: 0 }
    }

    /// A number below `n`.
    pub fn pick(&mut self, n: u16) -> u16 {
        let number = self.numbers.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        // From the upper end, so that a random tape seldom answers 0 where 0 means "stop".
        u16::try_from(u32::from(number) * u32::from(n) / 65_536).unwrap_or(0)
    }

    /// True once in `n` times; never at the end of the tape.
    pub fn once_in(&mut self, n: u16) -> bool {
        self.pick(n) == n - 1
    }

    pub fn is_over(&self) -> bool {
        self.at >= self.numbers.len()
    }
}

pub fn session() -> SessionId {
    SessionId::new("s1").expect("a sound name")
}

pub fn created() -> SessionCreated {
    SessionCreated {
        id: session(),
        cwd: "/w".into(),
        channel: "cli".into(),
        parent: None,
        seed: None,
        cleared: None,
    }
}

pub fn config(limits: Limits) -> ConfigInForce {
    ConfigInForce { digest: "d0".into(), handlers: Vec::new(), model: "m".into(), limits }
}

pub fn header(system: &str) -> HeaderChanged {
    HeaderChanged(Arc::new(RequestHeader { model: "m".into(), system: system.into(), tools: Vec::new() }))
}

pub fn queued(kind: QueueKind, text: &str, source: Source) -> PromptQueued {
    PromptQueued { kind, content: text.into(), source }
}

pub fn prompt(text: &str) -> PromptQueued {
    queued(QueueKind::Prompt, text, Source::User)
}

pub fn says(text: &str) -> AssistantMessage {
    let blocks = Arc::from([AssistantBlock::Text { text: text.into() }]);
    AssistantMessage { blocks, usage: None, finish: Finish::Stop }
}

pub fn calls(calls: &[(&str, &str, &str)]) -> AssistantMessage {
    let blocks = calls.iter().map(|(id, name, arguments)| AssistantBlock::Call {
        id: (*id).into(),
        name: (*name).into(),
        arguments: (*arguments).into(),
    });
    AssistantMessage { blocks: blocks.collect(), usage: None, finish: Finish::Calls }
}

pub fn sealed(id: &str, name: &str, text: &str) -> ToolCall {
    ToolCall {
        name: name.into(),
        id: id.into(),
        arguments: Arguments::Sealed { text: Frozen::arguments(text).expect("an object") },
        idempotent: false,
        concurrency_safe: false,
    }
}

pub fn handler(name: &str) -> HandlerId {
    HandlerId::new("policy", name)
}

pub fn decided(point: Point, subject: Subject, id: HandlerId, decision: Decision) -> DecisionRecorded {
    let made =
        HandlerDecision { id, order: 0, decision, context: Vec::new(), halt: None, failure: None, ms: 0 };
    DecisionRecorded { point, subject, made }
}

pub fn own(kind: &str, data: &str) -> OwnRecord {
    OwnRecord { kind: kind.into(), data: Frozen::parse(data).expect("JSON") }
}

/// Numbers records as they come.
pub fn number(drafts: impl IntoIterator<Item = Draft>) -> Vec<Arc<Record>> {
    drafts
        .into_iter()
        .enumerate()
        .map(|(seq, draft)| draft.seal(Seq(seq as u64), 1000 + seq as u64))
        .collect()
}
