//! The site of the documents, which `make site` makes. `make suite NAME=site`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use testbed::{project, test};

fn build(project: &Path) -> Output {
    Command::new(project.join("tools/site/build")).output().expect("tools/site/build")
}

/// The directory of the project's site, which is built once.
fn site() -> PathBuf {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let output = build(&project());
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        project().join("target/site").canonicalize().expect("a site")
    });
    BUILT.clone()
}

/// The files in a directory and below it.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Those with this extension, and their text.
fn texts(files: &[PathBuf], extension: &str) -> BTreeMap<PathBuf, String> {
    let files = files.iter().filter(|file| file.extension().is_some_and(|known| known == extension));
    files.map(|file| (file.clone(), fs::read_to_string(file).expect("text"))).collect()
}

/// The values of an attribute, and the elements that have it.
fn attributes<'a>(html: &'a str, attribute: &str) -> Vec<(&'a str, &'a str)> {
    let begin = format!(" {attribute}=\"");
    let tags = html.split('<').filter_map(|rest| rest.split('>').next());
    let values = tags.filter_map(|tag| Some((tag.split(' ').next()?, tag.split_once(&begin)?.1.split('"').next()?)));
    values.collect()
}

#[test(By("make suite NAME=site"))]
fn every_link_in_the_site_leads_to_a_page_and_nothing_is_fetched_from_elsewhere() {
    let site = site();
    let files = files(&site);
    let pages = texts(&files, "html");
    let mut links = 0;
    for (page, html) in &pages {
        for (element, link) in ["href", "src"].iter().flat_map(|attribute| attributes(html, attribute)) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            if path.contains(':') {
                assert!(element == "a" && path.starts_with("https:"), "{}: {link}", page.display());
                continue;
            }
            let linked = if path.is_empty() { page.clone() } else { page.with_file_name(path) };
            let linked = linked.canonicalize().unwrap_or_else(|error| panic!("{}: {link}: {error}", page.display()));
            assert!(linked.is_file() && linked.starts_with(&site), "{}: {link}", page.display());
            let has_anchor = || attributes(&pages[&linked], "id").iter().any(|(_, id)| *id == anchor);
            assert!(anchor.is_empty() || has_anchor(), "{}: {link}", page.display());
            links += 1;
        }
    }
    assert!(links > 1000, "{links}");
    for (file, css) in texts(&files, "css") {
        let fetched = css.split("url(").skip(1).filter_map(|rest| rest.split(')').next());
        for fetched in fetched.map(|url| url.trim_matches(['"', '\''])).filter(|url| !url.starts_with("data:")) {
            assert!(file.with_file_name(fetched).is_file(), "{}: {fetched}", file.display());
        }
    }
    let listed = attributes(&pages[&site.join("toc.html")], "href");
    for wanted in ["README.html", "docs/reference.html", "contrib/page/index.html", "examples/docker/Dockerfile.html"] {
        assert!(listed.contains(&("a", wanted)), "{wanted} is not in {listed:?}");
    }
}

/// As llmstxt.org wants it: at the root, with links to pages as they were written, which link to each other.
#[test(By("make suite NAME=site"))]
fn the_site_has_an_llms_txt_whose_pages_are_there_as_they_were_written() {
    let site = site();
    let text = fs::read_to_string(site.join("llms.txt")).expect("a list of pages");
    let pages: Vec<_> = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let written = fs::read(site.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(!page.ends_with(".md") || written == fs::read(project().join(page)).expect("a page"), "{page}");
    }
}

#[test(By("make suite NAME=site"))]
fn a_document_that_the_summary_lacks_makes_no_site() {
    let copy = tempfile::tempdir().expect("a directory");
    for directory in ["tools", "contrib"] {
        fs::create_dir(copy.path().join(directory)).expect("own directory");
    }
    for name in ["README.md", "snowflake_pg.control", "docs", "contrib/page", "tools/site"] {
        let to = copy.path().join(name);
        let status = Command::new("cp").arg("-R").args([&project().join(name), &to]).status().expect("cp");
        assert!(status.success(), "{name}");
    }
    fs::write(copy.path().join("docs/new.md"), "# New\n").expect("own file");
    let output = build(copy.path());
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(!output.status.success() && said == "==> docs/new.md is missing from docs/SUMMARY.md\n", "{said}");
}
