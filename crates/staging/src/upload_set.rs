//! Which uploads belong together: the files that one sender sends for one submission.
//!
//! A server that hands a job over sends its files itself, and shows its user's signature. It may be hostile, and other servers may have
//! that signature, too. So what each of them sends is apart from what the user sends, and from what the others send: none can replace,
//! spoil or complete the files of another.

use pliant_control::job::{Hop, handed_over_by};
use pliant_control::names::{Key, Name, User};

/// The files that one sender sends for one submission.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UploadSet {
    /// The owner of the submission.
    pub user: User,
    /// Its key.
    pub key: Key,
    /// Who sends them.
    pub sender: Sender,
}

/// Who sends the files of a submission. Its owner comes first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sender {
    /// The owner of the submission.
    Owner,
    /// A server that hands the job over.
    Server(Name),
}

impl UploadSet {
    /// The files that the owner of a submission sends.
    pub fn of_owner(user: User, key: Key) -> UploadSet {
        UploadSet { user, key, sender: Sender::Owner }
    }

    /// The files that a server sends for a job that it hands over.
    pub fn of_server(user: User, key: Key, server: Name) -> UploadSet {
        UploadSet { user, key, sender: Sender::Server(server) }
    }

    /// The files of a job that is at that server: by its path, sent by the server that handed it over last, or by its owner.
    pub fn of_job(user: User, key: Key, hops: &[Hop], at: &Name) -> UploadSet {
        match handed_over_by(hops, at) {
            Some(from) => UploadSet::of_server(user, key, from.clone()),
            None => UploadSet::of_owner(user, key),
        }
    }

    /// The name of its folder, among those of the same user. No two sets have one name: no name of a server has a `_`.
    pub(crate) fn folder(&self) -> String {
        match &self.sender {
            Sender::Owner => self.key.to_string(),
            Sender::Server(server) => format!("{}_{server}", self.key),
        }
    }

    /// The set of a user whose folder has that name, if it is the name of one.
    pub(crate) fn of_folder(user: &User, name: &str) -> Option<UploadSet> {
        let (key, sender) = match name.split_once('_') {
            Some((key, server)) => (key, Sender::Server(server.parse().ok()?)),
            None => (name, Sender::Owner),
        };
        let set = UploadSet { user: user.clone(), key: key.parse().ok()?, sender };
        // Keys have other spellings, too.
        (set.folder() == name).then_some(set)
    }

    /// The name of its folder among those that are being deleted. The last `.` ends the name of the user.
    pub(crate) fn thrown(&self) -> String {
        format!("{}.{}", self.user, self.folder())
    }

    /// True if it is for the same submission.
    pub(crate) fn is_for(&self, user: &User, key: Key) -> bool {
        self.user == *user && self.key == key
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sets() -> impl Strategy<Value = UploadSet> {
        let user = prop_oneof!["[a-c][._@-]?[a-c0-9]{0,3}", "[a-c]\\.[0-9a-f]{32}"];
        let server = prop_oneof!["[a-c]", "[a-c]-[a-c]", "[0-9a-f]{32}"].prop_map(Some);
        (user, any::<[u8; 16]>(), prop_oneof![Just(None), server]).prop_map(|(user, key, server)| UploadSet {
            user: user.parse().unwrap(),
            key: Key(key),
            sender: server.map_or(Sender::Owner, |server| Sender::Server(server.parse().unwrap())),
        })
    }

    proptest! {
        #[test]
        fn the_folders_of_two_sets_have_two_names(one in sets(), other in sets(), by in 0..4u8) {
            // Most of the time they differ in one part only.
            let other = match by {
                0 => UploadSet { sender: other.sender, ..one.clone() },
                1 => UploadSet { user: other.user, ..one.clone() },
                2 => UploadSet { key: other.key, ..one.clone() },
                _ => other,
            };
            prop_assert_eq!(one == other, (&one.user, one.folder()) == (&other.user, other.folder()));
            prop_assert_eq!(one == other, one.thrown() == other.thrown());
            prop_assert_eq!(UploadSet::of_folder(&one.user, &one.folder()), Some(one));
        }
    }

    #[test]
    fn other_names_are_those_of_no_set() {
        let alice = "alice".parse().unwrap();
        let key = "0123456789abcdef0123456789abcdef";
        for name in [
            "",
            "a",
            &key[1..],
            &format!("{key}_"),
            &format!("{key}_A"),
            &format!("{key}.a"),
            &key.to_uppercase(),
        ] {
            assert_eq!(UploadSet::of_folder(&alice, name), None, "{name}");
        }
        assert!(UploadSet::of_folder(&alice, key).is_some());
    }
}
