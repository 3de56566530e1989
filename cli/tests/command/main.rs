//! The built binary against real directories, hooks, processes and terminals.

mod asks;
mod ends;
mod export;
mod first_session;
mod log;
mod park;
mod sessions;
mod setup;
mod signals;
mod support;
