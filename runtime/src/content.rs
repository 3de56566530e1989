//! What messages are made of, and who they come from.

use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc};

/// The content of a message or of a tool's result: a list of blocks, cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Content(Arc<[Block]>);

/// One block of content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Block {
    /// Plain text.
    Text {
        /// The text, as it is shown and sent.
        text: Arc<str>,
    },
}

impl Content {
    /// Content of one text block.
    pub fn text(text: impl Into<Arc<str>>) -> Content {
        Content(Arc::from([Block::Text { text: text.into() }]))
    }

    /// The blocks in order.
    pub fn blocks(&self) -> &[Block] {
        &self.0
    }

    /// All text of the content, blocks joined by a line break.
    pub fn to_text(&self) -> Cow<'_, str> {
        match &*self.0 {
            [Block::Text { text }] => Cow::Borrowed(text),
            many => {
                let texts: Vec<&str> = many.iter().map(|Block::Text { text }| &**text).collect();
                Cow::Owned(texts.join("\n"))
            }
        }
    }

    /// True when no block says anything: such content never becomes a message of its own.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|Block::Text { text }| text.trim().is_empty())
    }
}

impl<T: Into<Arc<str>>> From<T> for Content {
    fn from(text: T) -> Content {
        Content::text(text)
    }
}

/// Where a message comes from. Context and steering that code adds carry their owner and are never recorded as the user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// A person, or the program that speaks for one.
    User,
    /// Registered code: a policy, a bridge, an extension.
    Owner {
        /// The owner's registered name.
        owner: Arc<str>,
    },
    /// The runtime itself.
    Runtime,
}

impl Source {
    /// Registered code by its owner's name.
    pub fn owner(owner: impl Into<Arc<str>>) -> Source {
        Source::Owner { owner: owner.into() }
    }
}

/// Why something was refused, fed back or halted: a sentence for the model or a person. Never empty: empty text becomes
/// the generic line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Arc<str>")]
pub struct Reason(Arc<str>);

impl Reason {
    /// What stands where a reason was empty.
    pub const GENERIC: &'static str = "Refused by policy, without a stated reason.";

    /// The sentence.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The sentence as a shared text.
    pub fn to_shared(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl<T: Into<Arc<str>>> From<T> for Reason {
    fn from(text: T) -> Reason {
        let text = text.into();
        if text.trim().is_empty() { Reason(Reason::GENERIC.into()) } else { Reason(text) }
    }
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
