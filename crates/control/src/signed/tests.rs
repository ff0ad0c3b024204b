//! What is signed, and what must match. Signatures are words here: who signed, for which bytes.

use std::collections::BTreeSet;

use pliant_model::{Estimate, MoveReason, Procs, Span, Speedup, Time};
use proptest::prelude::*;

use super::*;
use crate::agent::Contradiction;
use crate::handoff_chain::{ChainFault, check_chain, check_reporter};
use crate::job::{Exit, Hop, JobRecord, JobState, Work};
use crate::names::{Handle, Key, Name, User};
use crate::reason::DiscoverySummary;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn user(text: &str) -> User {
    text.parse().unwrap()
}

fn claim() -> Claim {
    Claim {
        owner: user("alice"),
        key: Key([1; 16]),
        digest: Digest([2; 32]),
        audience: name("lyon"),
        made: Time(1_000),
        lifetime: CLAIM_LIFETIME,
    }
}

const KEY: Key = Key([1; 16]);

/// Checks the claim of alice for lyon, accepted at some time.
fn checked(claim: &Claim, accepted: i64) -> Result<(), ClaimFault> {
    let (owner, audience) = (user("alice"), name("lyon"));
    let accepted = Time(accepted);
    claim.check(&Expected { owner: &owner, key: KEY, digest: Digest([2; 32]), audience: &audience, accepted })
}

#[test]
fn every_field_of_a_claim_must_match() {
    assert_eq!(checked(&claim(), 1_000), Ok(()));
    let check = |change: fn(&mut Claim), word: &str| {
        let mut changed = claim();
        change(&mut changed);
        assert_eq!(checked(&changed, 1_000).unwrap_err().word(), word);
        assert_ne!(
            changed.signed_bytes(ClaimSubject::Submission),
            claim().signed_bytes(ClaimSubject::Submission),
            "{word}: the signature is for other bytes"
        );
    };
    check(|claim| claim.owner = user("bob"), "owner");
    check(|claim| claim.key = Key([9; 16]), "key");
    check(|claim| claim.digest = Digest([9; 32]), "digest");
    check(|claim| claim.audience = name("paris"), "audience");
    check(|claim| claim.made = Time(1_000 + CLOCK_TOLERANCE.0 + 1), "expired");
    check(|claim| claim.made = Time(999 - CLAIM_LIFETIME.0), "expired");
    check(|claim| claim.lifetime = Span(0), "expired");
    check(|claim| claim.lifetime = Span(86_401), "expired");
    check(|claim| claim.lifetime = Span(-1), "expired");
}

#[test]
fn a_claim_is_accepted_within_its_lifetime_and_moves_for_a_month() {
    let (made, last) = (1_000, 1_000 + CLAIM_LIFETIME.0);
    assert_eq!(checked(&claim(), last), Ok(()));
    assert_eq!(checked(&claim(), last + 1), Err(ClaimFault::Expired));
    assert_eq!(checked(&claim(), made - CLOCK_TOLERANCE.0), Ok(()), "the client's clock is ahead");
    assert_eq!(checked(&claim(), made - CLOCK_TOLERANCE.0 - 1), Err(ClaimFault::Early));
    assert!(
        claim().moves_at(Time(made + CLAIM_MOVES.0)) && !claim().moves_at(Time(made + CLAIM_MOVES.0 + 1))
    );
}

#[test]
fn a_signature_counts_for_one_kind_of_statement() {
    let claim = claim();
    let (job, owner, to) = ("lyon.1".parse().unwrap(), user("alice"), name("paris"));
    let statement = HandoffStatement {
        job: &job,
        owner: &owner,
        key: KEY,
        claim: Digest([2; 32]),
        from: &claim.audience,
        to: &to,
        attempt: 1,
        at: Time(1_000),
    };
    let all = [
        claim.signed_bytes(ClaimSubject::Submission),
        claim.signed_bytes(ClaimSubject::Launch),
        statement.signed_bytes(),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 3);
    assert!(
        claim
            .signed_bytes(ClaimSubject::Submission)
            .starts_with(b"\0\0\0\x1apliant submission claim v1\0\0\0\x05alice")
    );
}

#[test]
fn digests_and_signatures_are_kept_as_text() {
    let digest = Digest(std::array::from_fn(|at| at as u8 * 7));
    let text = serde_json::to_string(&digest).unwrap();
    assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
    let signature = Signature { bytes: vec![0, 1, 255], certificate: (0..=255).collect() };
    let text = serde_json::to_string(&signature).unwrap();
    assert_eq!(serde_json::from_str::<Signature>(&text).unwrap(), signature);
    for bad in ["\"\"", "\"0g\"", &format!("\"{}\"", "0".repeat(63)), &format!("\"{}\"", "é".repeat(32))] {
        assert!(serde_json::from_str::<Digest>(bad).is_err(), "{bad}");
    }
}

/// A signature that is the signer and the bytes.
fn sign(signer: &str, bytes: &[u8]) -> Signature {
    Signature { bytes: bytes.to_vec(), certificate: signer.as_bytes().to_vec() }
}

fn verify(statement: &HandoffStatement<'_>, signature: &Signature) -> Result<(), String> {
    let is_signed = signature.bytes == statement.signed_bytes();
    match is_signed && signature.certificate == statement.from.as_str().as_bytes() {
        true => Ok(()),
        false => Err("another key".to_owned()),
    }
}

/// A handoff of a job of alice, signed by a server.
fn hop(job: &str, from: &str, to: &str, attempt: u32, signer: &str) -> Hop {
    let (job, owner): (Handle, User) = (job.parse().unwrap(), user("alice"));
    let (from, to) = (name(from), name(to));
    let (claim, at) = (Digest([5; 32]), Time(10));
    let statement =
        HandoffStatement { job: &job, owner: &owner, key: KEY, claim, from: &from, to: &to, attempt, at };
    let signature = sign(signer, &statement.signed_bytes());
    let expected = Estimate { procs: Procs(1), walltime: Span(60), start: Time(10) };
    Hop {
        from,
        to,
        attempt,
        at,
        before: Time::MAX,
        expected,
        reason: MoveReason::EarlierCompletion,
        signed: Some(Box::new(HandoffSignature { claim, at, signature })),
    }
}

fn good() -> Vec<Hop> {
    vec![hop("lyon.1", "lyon", "paris", 1, "lyon"), hop("lyon.1", "paris", "nancy", 4, "paris")]
}

fn chained(hops: &[Hop], holder: &str) -> Result<(), ChainFault> {
    let of = (&"lyon.1".parse().unwrap(), &user("alice"), KEY, Digest([5; 32]));
    check_chain(of, hops, &name(holder), verify)
}

#[test]
fn a_chain_leads_from_the_server_of_the_job_id_to_the_holder() {
    assert_eq!(chained(&[], "lyon"), Ok(()));
    assert_eq!(chained(&good(), "nancy"), Ok(()));
    let check = |change: fn(&mut Vec<Hop>), holder: &str, word: &str| {
        let mut hops = good();
        change(&mut hops);
        assert_eq!(chained(&hops, holder).map_err(|fault| fault.word()), Err(word), "{hops:?}");
    };
    check(|_| {}, "paris", "chain");
    check(|hops| hops.clear(), "nancy", "chain");
    check(|hops| drop(hops.remove(0)), "nancy", "chain");
    check(|hops| drop(hops.pop()), "nancy", "chain");
    check(|hops| hops.swap(0, 1), "nancy", "chain");
    check(|hops| hops[1].signed = None, "nancy", "unsigned");
    check(|hops| hops[0].attempt = 2, "nancy", "signature");
    check(|hops| hops[1].to = name("rennes"), "rennes", "signature");
    check(|hops| hops[1] = hop("lyon.1", "paris", "nancy", 4, "nancy"), "nancy", "signature");
    check(|hops| hops[1] = hop("lyon.2", "paris", "nancy", 4, "paris"), "nancy", "signature");
    check(|hops| hops[1].signed.as_mut().unwrap().claim = Digest([6; 32]), "nancy", "claim");
    check(|hops| hops[1].signed.as_mut().unwrap().at = Time(11), "nancy", "signature");
}

fn record(hops: Vec<Hop>, state: JobState) -> JobRecord {
    let expected = Estimate { procs: Procs(1), walltime: Span(60), start: Time(10) };
    JobRecord {
        handle: "lyon.1".parse().unwrap(),
        key: KEY,
        owner: user("alice"),
        name: "one".to_owned(),
        work: Work::new(Procs(1), Span(60), Speedup::Rigid),
        state,
        submitted: Time(1),
        expected,
        procs: Procs(1),
        walltime: Span(60),
        started: (state != JobState::Queued).then_some(Time(10)),
        ended: state.is_final().then_some(Time(20)),
        exit: state.is_final().then_some(Exit::Code(0)),
        requeues: 0,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops,
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: None,
    }
}

#[test]
fn a_server_reports_what_it_has_and_what_it_handed_over() {
    let check = |record: &JobRecord, reporter: &str, expected: Result<(), &str>| {
        let found = check_reporter(record, &name(reporter), verify);
        assert_eq!(found.map_err(|fault| fault.word()), expected, "{reporter}: {record:?}");
    };
    use JobState::{Active, Completed, Queued};
    for state in [Queued, Active, Completed] {
        check(&record(Vec::new(), state), "lyon", Ok(()));
        check(&record(Vec::new(), state), "paris", Err("chain"));
        check(&record(good(), state), "nancy", Ok(()));
        check(&record(good(), state), "lyon", Err("chain"));
    }
    let unsigned = |from, to| Hop { signed: None, ..hop("lyon.1", from, to, 4, from) };
    let departed = |state| record(vec![good()[0].clone(), unsigned("paris", "nancy")], state);
    check(&departed(Queued), "paris", Ok(()));
    check(&departed(Active), "paris", Err("departed"));
    check(&departed(Completed), "paris", Err("departed"));
    check(&departed(Queued), "nancy", Err("unsigned"));
    check(&departed(Queued), "lyon", Err("unsigned"));
    check(&record(vec![unsigned("lyon", "paris")], Completed), "paris", Err("unsigned"));
    check(&record(vec![unsigned("paris", "nancy")], Queued), "paris", Err("chain"));
    check(&record(vec![unsigned("lyon", "lyon")], Completed), "lyon", Err("unsigned"));
    let mut other = record(good(), Completed);
    other.owner = user("bob");
    check(&other, "nancy", Err("signature"));
    let mut other = record(good(), Completed);
    other.key = Key([8; 16]);
    check(&other, "nancy", Err("signature"));
}

#[test]
fn what_is_known_of_a_job_is_not_contradicted() {
    use JobState::{Active, Completed, Queued};
    let check = |known: &JobRecord, reported: &JobRecord, expected: Option<Contradiction>| {
        assert_eq!(Contradiction::of(known, reported), expected, "{known:?} {reported:?}");
    };
    let changed = |state, change: fn(&mut JobRecord)| {
        let mut record = record(good(), state);
        change(&mut record);
        record
    };
    for known in [Queued, Active, Completed].map(|state| record(good(), state)) {
        for state in [Queued, Active, Completed] {
            check(&known, &changed(state, |job| job.owner = user("bob")), Some(Contradiction::Owner));
            check(&known, &changed(state, |job| job.key = Key([8; 16])), Some(Contradiction::Key));
        }
        check(&known, &known.clone(), None);
        let later = changed(Completed, |_| {});
        check(&known, &later, None);
        let elsewhere = changed(Completed, |job| job.hops[1].to = name("rennes"));
        check(&known, &elsewhere, Some(Contradiction::Moves));
    }
    let ended = record(good(), Completed);
    check(&ended, &changed(Active, |_| {}), None);
    check(&ended, &changed(Completed, |job| job.exit = Some(Exit::Code(1))), Some(Contradiction::Ended));
    check(&ended, &changed(Completed, |job| job.name.push('2')), Some(Contradiction::Ended));
    let moved_on = changed(Queued, |job| job.hops.push(hop("lyon.1", "nancy", "lyon", 5, "nancy")));
    check(&ended, &moved_on, Some(Contradiction::Ended));
}

proptest! {
    /// Claims that differ have different bytes, wherever the letters of their fields are.
    #[test]
    fn different_claims_have_different_bytes(
        owners in ["[a-b]{1,3}", "[a-b]{1,3}"],
        audiences in ["[a-b]{1,3}", "[a-b]{1,3}"],
        numbers in any::<[(u8, u8, i64, i64); 2]>(),
    ) {
        let claim = |at: usize| {
            let (key, digest, made, lifetime) = numbers[at];
            Claim {
                owner: user(&owners[at]),
                key: Key([key; 16]),
                digest: Digest([digest; 32]),
                audience: name(&audiences[at]),
                made: Time(made),
                lifetime: Span(lifetime),
            }
        };
        let bytes = |at| claim(at).signed_bytes(ClaimSubject::Submission);
        prop_assert_eq!(claim(0) == claim(1), bytes(0) == bytes(1));
    }
}
