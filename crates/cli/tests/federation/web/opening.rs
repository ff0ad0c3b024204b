//! The browser that `pliant web` opens, by an `xdg-open` that notes what it is given.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::*;

/// A folder with that `xdg-open`, one for the page that leads to the link, and the file that notes the words and that page.
struct Opener {
    dir: tempfile::TempDir,
}

impl Opener {
    fn new() -> Opener {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["bin", "runtime"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let opener = Opener { dir };
        let (program, noted) = (opener.path("bin/xdg-open"), opener.path("noted"));
        let script = format!(
            "#!/bin/sh\n{{ echo \"$#\"; echo \"$1\"; cat \"$1\"; }} > '{0}.new'\nmv '{0}.new' '{0}'\n",
            noted.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        opener
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command with these words, on a display or on none.
    fn command(&self, federation: &Federation, words: &[&str], display: Option<&str>) -> Command {
        let mut command = pliant(&federation.client_file(Role::User, "alice"), words);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command
            .env("XDG_RUNTIME_DIR", self.path("runtime"))
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY");
        if let Some(display) = display {
            command.env("DISPLAY", display);
        }
        command
    }

    fn pages(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.path("runtime")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_is_opened_on_a_display_and_only_there() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let opener = Opener::new();
    let pages = Pages::started(opener.command(&federation, &["web"], Some(":99")), &federation);
    let noted =
        until("the browser to be opened", async || std::fs::read_to_string(opener.path("noted")).ok()).await;
    let mut lines = noted.lines();
    assert_eq!(lines.next(), Some("1"), "{noted}");
    let page = Path::new(lines.next().unwrap());
    // The link has the token, which is for one browser of this user: it is not in the words of a command.
    assert_eq!(opener.pages(), [page]);
    assert_eq!(page.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let leads = format!("content=\"0;url=http://{}{}\"", pages.address, pages.link);
    assert!(lines.next().unwrap().contains(&leads), "{noted}");
    // It is the link that works once.
    let pages = pages.open();
    assert_eq!(pages.without_cookie().get(&pages.link).status, 410);

    // That pages answer shows that the command is past the place at which it would open one.
    for (words, display) in [(&["web", "--no-open"][..], Some(":99")), (&["web"], None), (&["web"], Some(""))]
    {
        let opener = Opener::new();
        let pages = Pages::started(opener.command(&federation, words, display), &federation).open();
        assert_eq!(pages.get("/").status, 200);
        assert_eq!(opener.pages(), Vec::<PathBuf>::new(), "{words:?} {display:?}");
        assert!(!opener.path("noted").exists(), "{words:?} {display:?}");
    }
}
