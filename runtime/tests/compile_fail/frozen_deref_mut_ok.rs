// C-ID-1: a sealed value dereferences to nothing that could be changed.
use portcullis_runtime::frozen::Frozen;

fn main() {
    let mut frozen = Frozen::parse("1").unwrap();
    let inner = &mut frozen;
    assert_eq!(inner.text(), "1");
}
