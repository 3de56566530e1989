//! What must not compile, each beside a twin that differs only in the forbidden line and does.

#[test]
fn forbidden_lines_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail/*_ok.rs");
    cases.compile_fail("tests/compile_fail/*_fail.rs");
}
