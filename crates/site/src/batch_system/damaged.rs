//! Captured output with some letters in place of others, and sometimes without its end.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Damages one of these texts.
pub(crate) fn damaged(printed: &'static [&'static str]) -> impl Strategy<Value = String> {
    // Separators and digits find more than any other letter.
    let letter = prop_oneof![
        any::<char>(),
        select(&['\u{1f}', '\u{1e}', '\n', '0', '9', '-', '[', ']', '"', ','][..])
    ];
    (select(printed), vec((any::<Index>(), letter), 0..4), any::<Index>(), any::<bool>()).prop_map(
        |(text, changes, end, is_cut)| {
            let mut letters: Vec<char> = text.chars().collect();
            for (at, letter) in changes {
                let at = at.index(letters.len());
                letters[at] = letter;
            }
            if is_cut {
                letters.truncate(end.index(letters.len()));
            }
            letters.into_iter().collect()
        },
    )
}
