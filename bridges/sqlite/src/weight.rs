//! What a record weighs, in bytes, before it is encoded: a bound on memory needs an estimate where the record is
//! enqueued, and encoding is the writer thread's work.

use portcullis_runtime::{Arguments, AssistantBlock, Body, Content, HandlerDecision, Record};

/// The envelope and the small fields of a record.
const ENVELOPE: usize = 256;

/// Counts the texts that can be long; escapes are not counted.
pub(crate) fn weight(record: &Record) -> usize {
    ENVELOPE
        + match &record.body {
            Body::PromptQueued(body) => content(&body.content),
            Body::UserMessage(body) => content(&body.content),
            Body::PromptBlocked(body) => content(&body.content),
            Body::ContextMessage(body) => content(&body.content),
            Body::SteeringMessage(body) => content(&body.content),
            Body::CompactionEnded(body) => body.summary.as_ref().map_or(0, content),
            Body::ToolResult(body) => content(&body.content),
            Body::ToolReturned(body) => body.outcome.output.as_ref().map_or(0, |output| {
                content(&output.content) + output.value.as_ref().map_or(0, |value| value.text().len())
            }),
            Body::HeaderChanged(body) => {
                // A tool's schema is about as long as what describes it.
                body.0.system.len()
                    + body.0.tools.iter().map(|t| 2 * t.description.len() + 256).sum::<usize>()
            }
            Body::AssistantMessage(body) => body.blocks.iter().map(block).sum(),
            Body::ToolCall(body) => match &body.arguments {
                Arguments::Sealed { text } => text.text().len(),
                Arguments::Refused { raw, .. } => raw.len(),
            },
            Body::ToolRewrite(body) => body.requested.text().len() + body.effective.text().len(),
            Body::DecisionRecorded(body) => context(std::slice::from_ref(&body.made)),
            Body::DecisionsRecorded(body) => context(&body.decisions),
            Body::Own(body) => body.data.text().len(),
            _ => 0,
        }
}

/// What rides along with decisions, and a word for each of them.
fn context(made: &[HandlerDecision]) -> usize {
    made.iter().map(|made| 128 + made.context.iter().map(|text| text.len()).sum::<usize>()).sum()
}

fn content(content: &Content) -> usize {
    content.to_text().len()
}

fn block(block: &AssistantBlock) -> usize {
    match block {
        AssistantBlock::Text { text } | AssistantBlock::Reasoning { text } => text.len(),
        AssistantBlock::Call { id, name, arguments } => id.len() + name.len() + arguments.len(),
        _ => 0,
    }
}
