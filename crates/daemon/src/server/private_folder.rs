//! The state folder of a server is its own: other users of the host have nothing to look for there.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Bits of a mode for the group and for others.
const OTHERS: u32 = 0o077;

/// Makes a folder that its owner alone can read and enter, or makes one such that is there.
///
/// # Errors
///
/// It cannot be made, or is no folder.
pub(super) fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mode = fs::metadata(folder)?.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let path = folder.display();
    match fs::set_permissions(folder, Permissions::from_mode(mode & !OTHERS)) {
        Ok(()) => {
            tracing::info!(%path, "other users could enter the state folder (mode {mode:o}): it is closed to them")
        }
        Err(error) => tracing::warn!(
            %path, %error, "other users can enter the state folder (mode {mode:o}): have its owner run chmod 700 on it"
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_cannot_enter_a_folder_that_is_new_or_was_open() {
        let scratch = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let folder = scratch.path().join("var/state");
        make_private(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        for open in [0o755, 0o2770, 0o701] {
            fs::set_permissions(&folder, Permissions::from_mode(open)).unwrap();
            make_private(&folder).unwrap();
            assert_eq!(mode(&folder), open & 0o7700, "{open:o}");
        }
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(make_private(&file).is_err());
    }
}
