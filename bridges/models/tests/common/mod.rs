//! Conversations for the tests, and what a model answers to them.
#![allow(dead_code)] // Each test binary uses its own part.

use futures::StreamExt;
use portcullis_models::ScriptedModel;
use portcullis_runtime::{
    AssistantBlock, Cancel, Frozen, Message, Model, ModelError, ModelEvent, ModelRequest, RequestHeader,
    Source, ToolHeader, law::Transcript,
};

pub(crate) type Item = Result<ModelEvent, ModelError>;

pub(crate) fn script(text: &str) -> ScriptedModel {
    ScriptedModel::from_json(text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn user(text: &str) -> Message {
    Message::User { content: text.into(), source: Source::User }
}

pub(crate) fn context(text: &str) -> Message {
    Message::Context { content: text.into(), source: Source::owner("policy") }
}

pub(crate) fn steering(text: &str) -> Message {
    Message::Steering { content: text.into(), source: Source::owner("policy") }
}

pub(crate) fn said(text: &str) -> Message {
    Message::Assistant { blocks: [AssistantBlock::Text { text: text.into() }].into() }
}

pub(crate) fn called(id: &str, name: &str, arguments: &str) -> Message {
    let call = AssistantBlock::Call { id: id.into(), name: name.into(), arguments: arguments.into() };
    Message::Assistant { blocks: [call].into() }
}

pub(crate) fn result(id: &str, name: &str, text: &str, error: bool) -> Message {
    Message::Result { id: id.into(), name: name.into(), content: text.into(), error }
}

pub(crate) fn request(messages: &[Message]) -> ModelRequest {
    let schema = Frozen::parse(r#"{"type":"object"}"#).expect("JSON");
    let tool = ToolHeader { name: "Bash".into(), description: "Runs.".into(), schema };
    let header =
        RequestHeader { model: "scripted".into(), system: "You are careful.".into(), tools: vec![tool] };
    ModelRequest::new(header.into(), Transcript::default().with(messages), 1, Cancel::new())
}

pub(crate) fn answer(model: &ScriptedModel, messages: &[Message]) -> Vec<Item> {
    respond(model, request(messages))
}

pub(crate) fn respond(model: &ScriptedModel, request: ModelRequest) -> Vec<Item> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(model.respond(request).collect())
}

/// The text of an answer that must not fail.
pub(crate) fn text(model: &ScriptedModel, messages: &[Message]) -> String {
    let events = answer(model, messages);
    let texts = events.into_iter().filter_map(|event| match event {
        Ok(ModelEvent::Text(text)) => Some(text),
        Ok(_) => None,
        Err(error) => panic!("{error}"),
    });
    texts.collect()
}

/// The message of a request that must fail.
pub(crate) fn fatal(model: &ScriptedModel, messages: &[Message]) -> String {
    match answer(model, messages).as_slice() {
        [Err(ModelError::Fatal { message })] => message.clone(),
        other => panic!("expected one fatal error, saw {other:?}"),
    }
}
