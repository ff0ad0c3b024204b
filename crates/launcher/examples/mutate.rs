//! Checks the invariants of the fuzz target `launcher` on mutated inputs, where the fuzzer cannot run:
//! `cargo run --release -p pliant-launcher --example mutate -- INPUTS SEED`.

#[path = "../tests/support/invariants.rs"]
mod invariants;
#[path = "../tests/support/mutation.rs"]
mod mutation;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let (inputs, seed): (u64, u64) = (numbers.next().unwrap_or(10_000_000), numbers.next().unwrap_or(1));
    let (corpus, mut random) = (mutation::corpus(), mutation::Random(seed));
    let mut understood: u64 = 0;
    for _ in 0..inputs {
        let bytes = mutation::mutated(&corpus, &mut random);
        understood += u64::from(
            pliant_launcher::Request::decode(&bytes).is_ok()
                || std::str::from_utf8(&bytes).is_ok_and(|text| pliant_launcher::Config::parse(text).is_ok()),
        );
        invariants::hold(&bytes);
    }
    println!("{inputs} inputs from seed {seed}, {understood} of them understood: every invariant holds");
}
