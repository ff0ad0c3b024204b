//! Signs submissions and launches with the key of the user's certificate.

use pliant_control::coallocation::TaskSpec;
use pliant_control::names::{Key, Name, User};
use pliant_control::payload::Payload;
use pliant_control::signed::{CLAIM_LIFETIME, Claim, ClaimSubject, Digest, SignedClaim};
use pliant_model::Time;
use pliant_staging::FileSpec;
use pliant_transport::Clock;
use pliant_wire::{SignedTasks, SubmittedWork, submission_digest, task_digest, tasks_digest};

use super::{Client, ClientError};

impl Client {
    /// The last second in which the user's certificate is valid.
    pub fn certificate_not_after(&self) -> Time {
        self.tls.own().not_after
    }

    /// Signs a submission for a server. Signed anew for each server and with each try.
    ///
    /// # Errors
    ///
    /// The user's key cannot sign.
    pub fn sign_submission(
        &self,
        key: Key,
        (what, inputs, pinned): (&SubmittedWork, &[FileSpec], bool),
        server: &Name,
    ) -> Result<SignedClaim, ClientError> {
        self.sign(ClaimSubject::Submission, key, submission_digest(what, inputs, pinned), server)
    }

    /// Signs tasks of a launch for the agent that coordinates it.
    ///
    /// # Errors
    ///
    /// The user's key cannot sign.
    pub fn sign_tasks<'a>(
        &self,
        launch: Key,
        tasks: impl Iterator<Item = &'a TaskSpec>,
        agent: &Name,
    ) -> Result<SignedTasks, ClientError> {
        let tasks: Vec<Digest> = tasks.map(task_digest).collect();
        let claim = self.sign(ClaimSubject::Launch, launch, tasks_digest(&tasks), agent)?;
        Ok(SignedTasks { claim, tasks })
    }

    /// The same, as what a coordinator passes on.
    pub(super) fn signed_tasks<'a>(
        &self,
        launch: Key,
        tasks: impl Iterator<Item = &'a TaskSpec>,
        agent: &Name,
    ) -> Result<Payload, ClientError> {
        self.sign_tasks(launch, tasks, agent).map(|signed| Payload::of(&signed))
    }

    fn sign(
        &self,
        subject: ClaimSubject,
        key: Key,
        digest: Digest,
        audience: &Name,
    ) -> Result<SignedClaim, ClientError> {
        let owner: User = self.user().parse().map_err(ClientError::usage)?;
        let (audience, made) = (audience.clone(), Clock::start(Time(0)).now());
        let claim = Claim { owner, key, digest, audience, made, lifetime: CLAIM_LIFETIME };
        let signature = self.tls.sign(&claim.signed_bytes(subject)).map_err(ClientError::tls)?;
        Ok(SignedClaim { claim, signature })
    }
}
