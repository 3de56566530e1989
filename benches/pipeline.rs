//! Stub while it is written.
fn main() {}
