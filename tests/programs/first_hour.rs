//! The first hour of a stranger, who has a package and the documents: README, and the first steps with Django, Drizzle
//! and Rails. All that a document shows is taken from it.
//!
//! `make suite NAME=first-hour` builds the package first, makes a root of Debian, and fetches what PyPI and npm have.
//! What is typed there, and what comes, is in `target/transcripts/first-hour.txt`.

mod frameworks;
mod readme;
mod stranger;

use stranger::Stranger;
use testbed::test;

#[test(By("make suite NAME=first-hour"))]
fn a_stranger_has_ids_by_the_documents_alone_in_psql_django_drizzle_and_rails() {
    let mut stranger = Stranger::new();
    readme::install(&stranger);
    stranger.worker = readme::configure(&stranger);
    readme::use_psql(&stranger);
    frameworks::django(&stranger);
    frameworks::drizzle(&stranger);
    // Last, as it puts the extension into template1.
    frameworks::rails(&stranger);
}
