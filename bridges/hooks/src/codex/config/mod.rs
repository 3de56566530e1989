//! Which hooks there are: the files, their order, and whom a person has trusted.

mod edit;
pub(super) mod environment;
mod file;
mod handler;
mod layers;
pub(super) mod mount;
mod project;
mod read;
mod review;
mod tree;
mod trust;

#[cfg(any(test, fuzzing))]
pub(crate) use edit::with;
#[cfg(any(test, fuzzing))]
pub(crate) use file::{config, hooks_json};
pub use layers::CodexLayers;
pub use review::{CodexTrust, TrustError, TrustedHook};
pub use trust::{Change, Changed, TrustStatus};

#[cfg(test)]
mod tests;
