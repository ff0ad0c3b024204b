//! Environment variables that users give their scripts.

/// What the name of such a variable must be, for errors.
pub const VARIABLE_NAME: &str = "a variable of letters, digits and `_` that is not reserved (PLIANT_*, SLURM_*, OAR_*, \
     LD_*, IFS and others that act before the script does)";

/// The first letters of names that belong to others: to Pliant, to the batch system that describes a job by them, and to the
/// loader, which acts on them before the script does.
const RESERVED: [&str; 4] = ["PLIANT_", "SLURM_", "OAR_", "LD_"];
/// Further variables by which the C library or a shell loads or runs something else before the script.
const LOADING: [&str; 7] = ["GLIBC_TUNABLES", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS", "PS4"];

/// True if users may give their scripts a variable of that name: a name of the shell that is not reserved. A script can still set
/// every variable itself.
pub fn may_be_given(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    let is_reserved = RESERVED.iter().any(|start| name.starts_with(start)) || LOADING.contains(&name);
    starts_well && name.bytes().all(letters) && !is_reserved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_shell_may_be_given_unless_they_are_reserved() {
        for name in ["A", "_x1", "OMP_NUM_THREADS", "PATH", "HOME", "LANG", "PLIANT", "SLURM", "ENVIRONMENT"]
        {
            assert!(may_be_given(name), "{name}");
        }
        for name in [
            "",
            "1A",
            "A-B",
            "A B",
            "A=B",
            "É",
            "PLIANT_JOB",
            "SLURM_JOB_ID",
            "OAR_JOB_ID",
            "LD_PRELOAD",
            "ENV",
            "IFS",
        ] {
            assert!(!may_be_given(name), "{name}");
        }
    }
}
