//! Codex's dialect of the shell-hook protocol.

#[allow(dead_code)]
mod config;
#[allow(dead_code)]
mod mapping;
#[allow(dead_code)]
mod matcher;
#[allow(dead_code, unused_imports)]
mod output;
#[allow(dead_code)]
mod payload;
#[allow(dead_code)]
mod process;

pub use config::{Change, Changed, CodexLayers, CodexTrust, TrustError, TrustStatus, TrustedHook};
