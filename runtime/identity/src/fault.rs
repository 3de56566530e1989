//! The seeded faults, one per property. All are `false` unless the crate is built for loom, so the branches they guard
//! are compiled away in every build that ships. Each is the classic mistake for its cell: look first, act later.

/// Numbers are read and written back in two steps.
pub(crate) const MINT: bool = cfg!(all(portcullis_loom, feature = "fault-mint"));
/// A nested call is counted after its parent was looked at, not with it.
pub(crate) const LINEAGE: bool = cfg!(all(portcullis_loom, feature = "fault-lineage"));
/// A seal is checked, then set.
pub(crate) const SEAL: bool = cfg!(all(portcullis_loom, feature = "fault-seal"));
/// A cell is found open, then settled.
pub(crate) const SETTLE: bool = cfg!(all(portcullis_loom, feature = "fault-settle"));
/// A waiter finds the cell open, then leaves its waker.
pub(crate) const WAKE: bool = cfg!(all(portcullis_loom, feature = "fault-wake"));
/// The winner is looked up, then written.
pub(crate) const FINISH: bool = cfg!(all(portcullis_loom, feature = "fault-finish"));
/// The door is found open, then entered.
pub(crate) const INTAKE: bool = cfg!(all(portcullis_loom, feature = "fault-intake"));
/// The next number is read, then moved.
pub(crate) const SEQUENCE: bool = cfg!(all(portcullis_loom, feature = "fault-sequence"));
/// A parent is found live, then given the child.
pub(crate) const CANCEL: bool = cfg!(all(portcullis_loom, feature = "fault-cancel"));
/// The same for a nursery's spawn.
pub(crate) const NURSERY: bool = cfg!(all(portcullis_loom, feature = "fault-nursery"));
