//! Whether figures contradict the verdict of a claim.

/// The verdicts with which the last column of a row begins.
pub(super) const VERDICTS: [&str; 4] = ["yes", "in part", "no", "not checkable"];

/// Whether a figure agrees with a claim: none if the figure leaves it open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Judgement(pub(super) Option<bool>);

impl Judgement {
    /// One word for a ledger.
    pub(super) fn word(self) -> &'static str {
        match self.0 {
            Some(true) => "yes",
            Some(false) => "no",
            None => "open",
        }
    }
}

/// Why a verdict and the judgements of all parts of a claim cannot both be right.
pub(super) fn contradiction(verdict: &str, judgements: &[Judgement]) -> Option<&'static str> {
    let any = |judged: bool| judgements.contains(&Judgement(Some(judged)));
    let all = |judged: bool| {
        !judgements.is_empty() && judgements.iter().all(|judgement| *judgement == Judgement(Some(judged)))
    };
    match verdict {
        "yes" if any(false) => Some("the verdict is yes, and a figure is against the claim"),
        "no" if all(true) => Some("the verdict is no, and all figures are for the claim"),
        "in part" if all(true) => Some("the verdict is in part, and all figures are for the claim"),
        "in part" if all(false) => Some("the verdict is in part, and all figures are against the claim"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_and_figures() {
        let contradicts = |verdict: &str, judged: &[Option<bool>]| {
            let judgements: Vec<Judgement> = judged.iter().copied().map(Judgement).collect();
            contradiction(verdict, &judgements).is_some()
        };
        let (yes, no, open) = (Some(true), Some(false), None);
        for (verdict, judged, expected) in [
            ("yes", &[yes, open][..], false),
            ("yes", &[yes, no], true),
            ("no", &[yes, no], false),
            ("no", &[no, no], false),
            ("no", &[yes, yes], true),
            ("no", &[yes, open], false),
            ("in part", &[yes, open], false),
            ("in part", &[yes, yes], true),
            ("in part", &[no, no], true),
            ("in part", &[no, yes], false),
            ("in part", &[], false),
            ("not checkable", &[no], false),
        ] {
            assert_eq!(contradicts(verdict, judged), expected, "{verdict}, {judged:?}");
        }
    }
}
