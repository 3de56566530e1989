# The recipes that CI runs. `just` lists them.

default:
    @just --list

# Everything that must pass.
check:
    scripts/check

# One part of it: fmt, clippy, docs, tests, faults, loom, fuzz, example, bench.
part NAME:
    scripts/check {{NAME}}

# The loom models, then each seeded fault, which exactly its model must catch.
loom:
    scripts/loom

# Each fuzz target for some seconds, and its corpus.
fuzz SECONDS="10":
    scripts/fuzz {{SECONDS}}

# The benchmarks, each beside its floor.
bench:
    cargo bench

# The example session.
demo:
    cargo run --release -- run examples/first-session --yes

# Cuts the power of a writing journal twenty times, beside a control that must lose. Needs root and loop devices.
power-cut:
    cargo test --release -p portcullis-sqlite --test power_cut -- --ignored --nocapture
