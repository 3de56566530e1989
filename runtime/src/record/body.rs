//! What records say: one struct a type, and the table of types.

use super::carried::Carried;
use super::decision::{DecisionBegun, DecisionRecorded, DecisionsRecorded};
use crate::{
    Content, Ended, Finish, Frozen, HandlerId, Outcome, Point, Reason, RequestHeader, RequestId, Seq,
    SessionId, Source, Usage, outcome::CauseName, plan::Registered,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident = $kind:literal v $version:literal;)*) => {
        /// What a record says.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Body {
            $($(#[$doc])* $name($name),)*
            /// A record of an owner that this build may not know: skipped by the law, kept in the log.
            Own(crate::seam::OwnRecord),
        }

        $(impl From<$name> for Body {
            fn from(body: $name) -> Body {
                Body::$name(body)
            }
        })*

        impl Body {
            /// The types of the runtime itself, with their versions.
            pub const TYPES: &'static [(&'static str, u32)] = &[$(($kind, $version)),*];

            /// May an owner give its records this type? `owner/name`, and none of the runtime's own.
            pub fn may_be_owned(kind: &str) -> bool {
                let named = kind.split_once('/').is_some_and(|(owner, name)| !owner.is_empty() && !name.is_empty());
                named && Body::TYPES.iter().all(|(own, _)| *own != kind)
            }

            /// The type, as the log spells it.
            pub fn kind(&self) -> &str {
                match self {
                    $(Body::$name(_) => $kind,)*
                    Body::Own(own) => &own.kind,
                }
            }

            /// The version of the type that this build writes.
            pub fn version(&self) -> u32 {
                match self {
                    $(Body::$name(_) => $version,)*
                    Body::Own(_) => 1,
                }
            }

            pub(super) fn data(&self) -> Result<String, serde_json::Error> {
                match self {
                    $(Body::$name(body) => serde_json::to_string(body),)*
                    Body::Own(own) => Ok(own.data.compact()),
                }
            }

            /// `None` when the type is none of the runtime's.
            pub(super) fn read(kind: &str, data: &str) -> Option<Result<Body, serde_json::Error>> {
                match kind {
                    $($kind => Some(serde_json::from_str::<$name>(data).map(Body::$name)),)*
                    _ => None,
                }
            }
        }
    };
}

bodies! {
    /// The log's first record.
    SessionCreated = "session/created" v 1;
    /// A process took the session up again; whatever was in flight before is orphaned.
    SessionResumed = "session/resumed" v 1;
    /// A process gave the session up on purpose, with work of the open turn under way.
    SessionLeft = "session/left" v 1;
    /// A command had nothing to do, or what it asked for was done already; its name is taken.
    SessionCommand = "session/command" v 1;
    /// A prompt that no turn had taken was taken back.
    SessionWithdrawn = "session/withdrawn" v 1;
    /// The session is over.
    SessionClosed = "session/closed" v 1;
    /// The configuration from here on.
    ConfigInForce = "config/in-force" v 1;
    /// Something was sent to the session.
    PromptQueued = "prompt/queued" v 1;
    /// A turn opens and takes what was queued.
    TurnStart = "turn/start" v 1;
    /// A prompt that passed.
    UserMessage = "user/message" v 1;
    /// A prompt that did not.
    PromptBlocked = "prompt/blocked" v 1;
    /// Context that code added.
    ContextMessage = "context/message" v 1;
    /// A step opens.
    StepStart = "step/start" v 1;
    /// The step's calls all have results.
    StepEnd = "step/end" v 1;
    /// The seldom-changing part of requests, from here on.
    HeaderChanged = "request/header" v 1;
    /// A request goes to the model.
    ModelRequested = "model/requested" v 1;
    /// What the model said.
    AssistantMessage = "assistant/message" v 1;
    /// A call's identity is sealed; once more for each time that it was deferred and taken up again.
    ToolCall = "tool/call" v 1;
    /// Other arguments than the model's are in force; in one append with its `tool/call`.
    ToolRewrite = "tool/rewrite" v 1;
    /// A handler decided.
    DecisionRecorded = "decision/recorded" v 1;
    /// Several handlers of a point decided without a pause between them.
    DecisionsRecorded = "decisions/recorded" v 1;
    /// A handler that must not run twice is about to run.
    DecisionBegun = "decision/begun" v 1;
    /// A call waits: a person is asked about it, or it was deferred.
    InputRequested = "input/requested" v 1;
    /// The wait is over.
    InputResolved = "input/resolved" v 1;
    /// A body is about to start.
    ToolDispatched = "tool/dispatched" v 1;
    /// A body came back.
    ToolReturned = "tool/returned" v 1;
    /// A call's result.
    ToolResult = "tool/result" v 1;
    /// Steering between steps.
    SteeringMessage = "steering/message" v 1;
    /// The turn was cancelled.
    TurnCancelled = "turn/cancelled" v 1;
    /// A turn closes.
    TurnEnd = "turn/end" v 1;
    /// A child session started.
    SubagentStarted = "subagent/started" v 1;
    /// A child session ended.
    SubagentEnded = "subagent/ended" v 1;
    /// A compaction began.
    CompactionStarted = "compaction/started" v 1;
    /// A summary stands for a range of messages.
    CompactionEnded = "compaction/ended" v 1;
}

/// `session/created`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The session.
    pub id: SessionId,
    /// Its working directory.
    pub cwd: Arc<str>,
    /// The front door: `cli`, `http`, `library`, …
    pub channel: Arc<str>,
    /// The call that spawned it, for a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// What its first records were copied from, for a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The session whose conversation was cleared, when a person began afresh after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared: Option<SessionId>,
}

/// Where a child session comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent session.
    pub session: SessionId,
    /// Its call; nothing when one of its handlers asked the child something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<crate::CallKey>,
}

/// Where a fork comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed {
    /// The session forked.
    pub session: SessionId,
    /// The last record of that session that was taken over, by its number there.
    pub seq: Seq,
    /// This log's first record of its own: those before it were taken over, or close what was open in them. 0 when it is not
    /// known.
    #[serde(default)]
    pub own: Seq,
}

/// `session/resumed`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionResumed {}

/// `session/left`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionLeft {}

/// `session/command`: the command is the record's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCommand {
    /// The turn that was being cancelled already; none when there was nothing to cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<u64>,
}

/// `session/withdrawn`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionWithdrawn {
    /// The queued record.
    pub prompt: Seq,
    /// Who took it back.
    pub by: Source,
    /// Why.
    pub cause: CauseName,
}

/// `session/closed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClosed {
    /// Why.
    pub reason: Arc<str>,
}

/// `config/in-force`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigInForce {
    /// SHA-256 of the rest, hexadecimal: equal digests are equal configurations.
    pub digest: Arc<str>,
    /// The handlers, in order.
    pub handlers: Vec<HandlerRow>,
    /// The model's name.
    pub model: Arc<str>,
    /// The limits.
    pub limits: Limits,
}

/// A handler in `config/in-force`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerRow {
    /// The point.
    pub point: Point,
    /// Who.
    #[serde(flatten)]
    pub id: HandlerId,
}

impl From<&Registered> for HandlerRow {
    fn from(row: &Registered) -> HandlerRow {
        HandlerRow { point: row.point, id: row.id.clone() }
    }
}

/// The limits a turn is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Forced continuations in a row; a tool call starts the count anew. 0 means none is granted.
    pub continuations_in_a_row: u32,
    /// Forced continuations in one turn.
    pub continuations_per_turn: u32,
    /// How deep subagents may nest: 1 means that the session may have some, and they none.
    #[serde(default = "Limits::default_agent_depth")]
    pub agent_depth: u32,
    /// How many subagents one agent may have at a time.
    #[serde(default = "Limits::default_agents_at_once")]
    pub agents_at_once: u32,
    /// The size of a conversation, in tokens as the model counts them, from which on it is summarised before the next
    /// request; `None` for never. A model that reports no usage is never summarised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_at: Option<u64>,
}

impl Limits {
    fn default_agent_depth() -> u32 {
        Limits::default().agent_depth
    }
    fn default_agents_at_once() -> u32 {
        Limits::default().agents_at_once
    }
}

impl Default for Limits {
    /// 8 continuations in a row, 64 in a turn (C-TURN-7); subagents 3 deep, 16 at once; no compaction.
    fn default() -> Limits {
        Limits {
            continuations_in_a_row: 8,
            continuations_per_turn: 64,
            agent_depth: 3,
            agents_at_once: 16,
            compact_at: None,
        }
    }
}

/// What kind of thing was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// A prompt: opens a turn.
    Prompt,
    /// Steering: joins and forces the next step of an open turn; without one it is a prompt.
    Steering,
    /// Context that code injects: never wakes the model.
    Inject,
    /// A background child's result: waits for the next turn.
    Child,
    /// Late context of a hook: waits for the next turn.
    Hook,
}

impl QueueKind {
    /// True when it opens a turn.
    pub fn opens_turn(self) -> bool {
        matches!(self, QueueKind::Prompt | QueueKind::Steering)
    }
}

/// `prompt/queued`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptQueued {
    /// What kind of thing.
    pub kind: QueueKind,
    /// What it says.
    pub content: Content,
    /// Who sent it.
    pub source: Source,
}

/// `turn/start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStart {
    /// The queued records it takes, in order.
    pub takes: Vec<Seq>,
}

/// `user/message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// What the model reads.
    pub content: Content,
    /// Who sent it.
    pub source: Source,
    /// The queued record it came from.
    pub from: Seq,
}

/// `prompt/blocked`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptBlocked {
    /// What was sent.
    pub content: Content,
    /// Who sent it.
    pub source: Source,
    /// Why it was blocked.
    pub reason: Reason,
    /// The queued record it came from.
    pub from: Seq,
}

/// `context/message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextMessage {
    /// What the model reads.
    pub content: Content,
    /// Whose it is.
    pub source: Source,
    /// The queued record it came from, for injected context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Seq>,
}

/// `step/start`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepStart {}

/// `step/end`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepEnd {}

/// `request/header`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HeaderChanged(pub Arc<RequestHeader>);

/// `model/requested`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRequested {
    /// Which attempt at this step's request, from 1.
    pub attempt: u32,
    /// Which conversation it carries: whoever makes the request anew from the log knows whether it is the same. Logs of
    /// older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Carried>,
}

/// `assistant/message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The blocks, in order.
    pub blocks: Arc<[AssistantBlock]>,
    /// What the request used, if the model said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it stopped.
    pub finish: Finish,
}

/// A block of what the model said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AssistantBlock {
    /// Text.
    Text {
        /// The text.
        text: Arc<str>,
    },
    /// Reasoning.
    Reasoning {
        /// The text.
        text: Arc<str>,
    },
    /// A call.
    Call {
        /// The model's own id; it may repeat.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// The arguments, exactly as the model wrote them.
        arguments: Arc<str>,
    },
}

impl AssistantMessage {
    /// The calls, in order: id, name, arguments. None for a message cut short by its limit or a cancel, or declined: such
    /// calls never run.
    pub fn calls(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Arc<str>)> {
        let runs = !matches!(self.finish, Finish::MaxTokens | Finish::Interrupted | Finish::Refused { .. });
        self.blocks.iter().filter(move |_| runs).filter_map(|block| match block {
            AssistantBlock::Call { id, name, arguments } => Some((id, name, arguments)),
            _ => None,
        })
    }

    /// The text blocks joined.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .blocks
            .iter()
            .filter_map(|block| match block {
                AssistantBlock::Text { text } => Some(&**text),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }
}

/// `tool/call`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The tool's name, as the model wrote it.
    pub name: Arc<str>,
    /// The model's own id; it may repeat.
    pub id: Arc<str>,
    /// The arguments in force, or why there are none.
    pub arguments: Arguments,
    /// The tool declared itself idempotent.
    pub idempotent: bool,
    /// The tool declared itself safe to overlap.
    pub concurrency_safe: bool,
}

/// A call's arguments after materialisation, look-up, schema check and rewrite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Arguments {
    /// Accepted.
    Sealed {
        /// The exact text.
        #[serde(with = "crate::frozen::exact")]
        text: Frozen,
    },
    /// Refused: the call runs nothing.
    Refused {
        /// The text that was refused.
        raw: Arc<str>,
        /// Why: `unknown_tool` or `invalid_arguments`.
        refused: Ended,
    },
}

/// `tool/rewrite`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRewrite {
    /// The model's arguments.
    #[serde(with = "crate::frozen::exact")]
    pub requested: Frozen,
    /// The arguments proposed instead.
    #[serde(with = "crate::frozen::exact")]
    pub effective: Frozen,
    /// Who proposed them.
    pub by: HandlerId,
}

/// `input/requested`: a call waits for somebody outside. A person is asked whether it may run; or it was deferred, and its host
/// takes it up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRequested {
    /// The request.
    pub request: RequestId,
    /// SHA-256 of the arguments in force, hexadecimal: the answer is bound to them.
    pub digest: Arc<str>,
    /// Why it waits.
    pub reasons: Vec<Reason>,
    /// Who asks, or defers.
    pub by: Vec<HandlerId>,
    /// When it expires, in milliseconds since 1970 by the host's clock; never, without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Nobody is asked: the call was deferred.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
}

impl InputRequested {
    /// What binds an answer to these arguments.
    pub fn digest_of(arguments: &Frozen) -> Arc<str> {
        arguments.sha256_hex()
    }
}

/// How a question was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// The call goes on, once.
    Allowed,
    /// A person refused.
    Refused,
    /// The question was withdrawn.
    Cancelled,
    /// There is no one to ask.
    Unavailable,
    /// Nobody answered, or took the call up, in time.
    Expired,
    /// The host takes the deferred call up again: its rewriters and its gate are asked anew.
    Resumed,
}

/// `input/resolved`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputResolved {
    /// The request.
    pub request: RequestId,
    /// How.
    pub resolution: Resolution,
    /// What the person said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Reason>,
    /// Who answered.
    pub by: Source,
}

/// `tool/dispatched`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDispatched {
    /// Which attempt, from 1.
    pub attempt: u32,
}

/// `tool/returned`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReturned {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Arc<Outcome>,
    /// How long the body took, in milliseconds.
    pub ms: u64,
}

/// `tool/result`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// How the call ended.
    pub outcome: Ended,
    /// What the model reads.
    pub content: Content,
    /// Whether the model reads it as an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
}

/// `steering/message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteeringMessage {
    /// What the model reads.
    pub content: Content,
    /// Whose it is.
    pub source: Source,
    /// The queued record it came from; none for a forced continuation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Seq>,
}

/// `turn/cancelled`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCancelled {
    /// Who.
    pub by: Source,
    /// Why.
    pub cause: CauseName,
}

/// `turn/end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// How.
    pub reason: EndReason,
    /// Queued steering that was dropped with the turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Seq>,
}

/// How a turn ended (C-LOG-5). An unknown kind means: ended, without success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// The model had said all and nobody wanted more.
    Completed,
    /// Every prompt of the batch was blocked.
    Rejected {
        /// The last block's reason.
        reason: Reason,
    },
    /// It was cancelled.
    Aborted {
        /// By whom.
        by: Source,
        /// The first cause.
        reason: CauseName,
    },
    /// A handler halted it.
    Halted {
        /// Who.
        by: HandlerId,
        /// Why.
        reason: Reason,
    },
    /// The model ran into its output limit.
    MaxTokens,
    /// The turn was forced on too often.
    ContinuationCap {
        /// The limit it hit.
        limit: u32,
    },
    /// The model or the runtime failed.
    Error {
        /// A stable code.
        code: Arc<str>,
        /// What happened.
        message: Arc<str>,
    },
    /// It was given up after a restart.
    Interrupted,
    /// A kind that a later version wrote.
    #[serde(other)]
    Unknown,
}

impl EndReason {
    /// The stable name, as the log spells it.
    pub fn name(&self) -> &'static str {
        match self {
            EndReason::Completed => "completed",
            EndReason::Rejected { .. } => "rejected",
            EndReason::Aborted { .. } => "aborted",
            EndReason::Halted { .. } => "halted",
            EndReason::MaxTokens => "max_tokens",
            EndReason::ContinuationCap { .. } => "continuation_cap",
            EndReason::Error { .. } => "error",
            EndReason::Interrupted => "interrupted",
            EndReason::Unknown => "unknown",
        }
    }

    /// True only for `completed`.
    pub fn is_success(&self) -> bool {
        matches!(self, EndReason::Completed)
    }
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())?;
        match self {
            EndReason::Rejected { reason } => write!(f, ": {reason}"),
            EndReason::Aborted { reason, .. } => write!(f, ": {}", reason.0.as_str()),
            EndReason::Halted { by, reason } => write!(f, " by {by}: {reason}"),
            EndReason::ContinuationCap { limit } => write!(f, ": forced on {limit} times"),
            EndReason::Error { code, message } => write!(f, ": {code}: {message}"),
            _ => Ok(()),
        }
    }
}

/// `subagent/started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentStarted {
    /// The child.
    pub child: SessionId,
}

/// `subagent/ended`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentEnded {
    /// The child.
    pub child: SessionId,
    /// How its turn ended.
    pub outcome: EndReason,
}

/// `compaction/started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionStarted {
    /// The first record whose message the summary will stand for.
    pub from: Seq,
    /// The last one.
    pub to: Seq,
    /// How large the conversation was, in tokens.
    #[serde(default)]
    pub tokens: u64,
}

/// `compaction/ended`: with a summary, or with the reason why there is none. Without one the range stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionEnded {
    /// The first record whose message the summary stands for.
    pub from: Seq,
    /// The last one.
    pub to: Seq,
    /// What the model reads in place of the range from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Content>,
    /// Why there is no summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Reason>,
}
