#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| portcullis_hooks::fuzz::run("transcript", data));
