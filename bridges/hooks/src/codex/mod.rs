//! The hooks of Codex: what differs from the sibling dialect.

#[allow(dead_code)]
mod config;
#[allow(dead_code)]
mod matcher;
#[allow(dead_code)]
mod payload;
#[allow(dead_code)]
mod process;

pub use config::{Change, Changed, CodexLayers, CodexTrust, TrustError, TrustStatus, TrustedHook};
