//! What a registration is for.

use crate::Scene;
use std::{fmt, sync::Arc};

/// A name pattern: `*` stands for any run of characters, the rest is literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolMatch(Arc<str>);

impl ToolMatch {
    /// Every name.
    pub fn any() -> ToolMatch {
        ToolMatch("*".into())
    }

    /// A pattern.
    pub fn new(pattern: &str) -> ToolMatch {
        ToolMatch(pattern.into())
    }

    /// Does the name match? Linear in the name for each run of `*`.
    pub fn matches(&self, name: &str) -> bool {
        if &*self.0 == "*" {
            return true;
        }
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.len() >= last.len() && rest.ends_with(last)
    }

    /// The pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a handler narrowed itself to (C-SEAM-3): tool names, the kind of front door, agent depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matches {
    pub(super) tools: ToolMatch,
    pub(super) channel: ToolMatch,
    pub(super) depth: (u32, u32),
}

impl Default for Matches {
    /// Everything.
    fn default() -> Matches {
        Matches { tools: ToolMatch::any(), channel: ToolMatch::any(), depth: (0, u32::MAX) }
    }
}

impl Matches {
    /// Is it for this place, and this tool if there is one?
    pub fn fit(&self, scene: &Scene, tool: Option<&str>) -> bool {
        let session = &scene.session;
        tool.is_none_or(|tool| self.tools.matches(tool))
            && self.channel.matches(&session.channel)
            && (self.depth.0..=self.depth.1).contains(&session.depth())
    }
}

impl fmt::Display for Matches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tools.as_str())?;
        if self.channel != ToolMatch::any() {
            write!(f, " channel={}", self.channel.as_str())?;
        }
        match self.depth {
            (0, u32::MAX) => Ok(()),
            (from, u32::MAX) => write!(f, " depth={from}.."),
            (from, to) => write!(f, " depth={from}..={to}"),
        }
    }
}
