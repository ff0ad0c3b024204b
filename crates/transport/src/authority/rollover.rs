//! The replacement of an authority by a new root of the same federation, without a moment in which anybody is refused.
//!
//! 1. [`Authority::begin_rollover`] makes the new root. Everybody gets the new `ca.pem`, which has both.
//! 2. [`Authority::switch_rollover`]: the new root signs from now on. Every holder renews.
//! 3. [`Authority::finish_rollover`] drops the old root. Everybody gets the new `ca.pem`.
//!
//! Each step may be repeated, and publishes its files again.

use pliant_model::Time;

use super::roots::Root;
use super::{AUTHORITY_DAYS, Authority, DAY_S, write};
use crate::error::{AuthorityError, io};
use crate::files::{FileReaders, lock};
use crate::register::{CertificateRecord, Register, Rollover, RolloverStep};

/// How far the replacement of an authority is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RolloverStatus {
    /// The last step; none if the authority has one root.
    pub step: Option<RolloverStep>,
    /// How many roots are trusted.
    pub roots: usize,
    /// The last second in which the root that signs is valid, since the Unix epoch.
    pub not_after: i64,
    /// Those whose last valid certificate is of the old root.
    pub waiting: Vec<String>,
}

impl Authority {
    /// How far a replacement is.
    pub fn rollover(&self, now: Time) -> Result<RolloverStatus, AuthorityError> {
        Ok(status(&Register::read(&self.register_path())?, now))
    }

    /// Makes a new root, which is trusted beside the present one and signs nothing yet but revocation lists.
    pub fn begin_rollover(&self, now: Time) -> Result<RolloverStatus, AuthorityError> {
        self.step(now, |register| match &register.rollover {
            Some(Rollover { step: RolloverStep::Begun, .. }) => Ok(()),
            Some(_) => Err(wrong("no rollover, or one that has begun", "one whose new root signs already")),
            None => {
                let not_after = now.seconds() + AUTHORITY_DAYS * DAY_S;
                let (key, certificate) = self.new_root(&register.federation, now, not_after)?;
                // Keys of earlier rollovers have other numbers of lists.
                let file = format!("ca-{}.key", register.crl_number + 1);
                write(&self.key_path(&file), &key, FileReaders::Owner)?;
                let step = RolloverStep::Begun;
                let old_certificates = register.certificates.len();
                register.rollover =
                    Some(Rollover { step, key: file, not_after, old_certificates, certificate });
                Ok(())
            }
        })
    }

    /// Lets the new root sign certificates from now on. The old one is trusted as before.
    pub fn switch_rollover(&self, now: Time) -> Result<RolloverStatus, AuthorityError> {
        self.step(now, |register| {
            let present = Root::signing(self, register)?.certificate;
            let old_certificates = register.certificates.len();
            let Some(rollover) = &mut register.rollover else {
                return Err(wrong("a rollover that has begun", "none"));
            };
            if rollover.step == RolloverStep::Begun {
                rollover.step = RolloverStep::Switched;
                rollover.old_certificates = old_certificates;
                let new = std::mem::replace(&mut rollover.certificate, present);
                std::mem::swap(&mut rollover.key, &mut register.key);
                std::mem::swap(&mut rollover.not_after, &mut register.not_after);
                // Where the certificate of the key that signs is looked for.
                let both = format!("{new}{}", rollover.certificate);
                write(&self.ca_path(), &both, FileReaders::All)?;
            }
            Ok(())
        })
    }

    /// Drops the old root. Refused while there are holders who have not renewed, unless `force` says that they are to be
    /// locked out.
    pub fn finish_rollover(&self, force: bool, now: Time) -> Result<RolloverStatus, AuthorityError> {
        let mut old_key = None;
        let status = self.step(now, |register| {
            let waiting = status(register, now).waiting;
            match &register.rollover {
                Some(Rollover { step: RolloverStep::Switched, .. }) if !waiting.is_empty() && !force => {
                    Err(AuthorityError::NotRenewed { holders: waiting })
                }
                Some(Rollover { step: RolloverStep::Switched, key, .. }) => {
                    old_key = Some(self.key_path(key));
                    register.rollover = None;
                    Ok(())
                }
                Some(_) => Err(wrong("a rollover whose new root signs", "one that has only begun")),
                None => Err(wrong("a rollover whose new root signs", "none")),
            }
        })?;
        if let Some(path) = old_key {
            std::fs::remove_file(&path).map_err(io(&path, "remove"))?;
        }
        Ok(status)
    }

    /// Changes the register, and publishes what follows.
    fn step(
        &self,
        now: Time,
        change: impl FnOnce(&mut Register) -> Result<(), AuthorityError>,
    ) -> Result<RolloverStatus, AuthorityError> {
        let _lock = lock(&self.dir).map_err(io(&self.dir, "lock the folder"))?;
        let mut register = Register::read(&self.register_path())?;
        change(&mut register)?;
        self.publish(&mut register, now)?;
        Ok(status(&register, now))
    }
}

fn wrong(expected: &'static str, found: &'static str) -> AuthorityError {
    AuthorityError::Rollover { expected, found }
}

fn status(register: &Register, now: Time) -> RolloverStatus {
    let Some(rollover) = &register.rollover else {
        return RolloverStatus { step: None, roots: 1, not_after: register.not_after, waiting: Vec::new() };
    };
    let old_certificates = match rollover.step {
        RolloverStep::Begun => register.certificates.len(),
        RolloverStep::Switched => rollover.old_certificates,
    };
    let valid = |records: &[CertificateRecord]| -> Vec<String> {
        let mut holders: Vec<String> = records
            .iter()
            .filter(|record| record.state(now) == "valid")
            .map(CertificateRecord::holder)
            .collect();
        holders.sort();
        holders.dedup();
        holders
    };
    let (old, new) = register.certificates.split_at(old_certificates.min(register.certificates.len()));
    let (mut waiting, renewed) = (valid(old), valid(new));
    waiting.retain(|holder| renewed.binary_search(holder).is_err());
    RolloverStatus { step: Some(rollover.step), roots: 2, not_after: register.not_after, waiting }
}
