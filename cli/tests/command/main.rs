//! The built binary against real directories, hooks, processes and terminals.

mod asks;
mod defer;
mod ends;
mod export;
mod first_session;
mod fork;
mod inbox;
mod log;
mod overlay;
mod park;
mod reload;
mod replay;
mod sessions;
mod setup;
mod signals;
mod support;
mod whatif;
