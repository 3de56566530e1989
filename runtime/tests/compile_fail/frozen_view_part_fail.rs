// C-ID-1: a view gives no mutable part.
use portcullis_runtime::frozen::{Frozen, View};

fn main() {
    let frozen = Frozen::parse("[1]").unwrap();
    let mut view = frozen.root();
    let part: Option<&mut View<'_>> = view.at(0);
    assert!(part.is_some());
    view = frozen.root();
    assert_eq!(view.len(), 1);
}
