// C-ID-1: the text has no mutable view.
use portcullis_runtime::frozen::Frozen;

fn main() {
    let mut frozen = Frozen::parse("1").unwrap();
    let text: &mut str = frozen.text();
    assert_eq!(text, "1");
    frozen = Frozen::parse("2").unwrap();
    drop(frozen);
}
