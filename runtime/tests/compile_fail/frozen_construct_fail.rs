// C-ID-1: a value can only come out of the scan.
use portcullis_runtime::frozen::Frozen;

#[allow(dead_code)]
fn anything<T>() -> T {
    panic!("only its type is needed")
}

fn main() {
    let frozen = Frozen { 0: anything() };
    assert_eq!(frozen.text(), "1");
}
