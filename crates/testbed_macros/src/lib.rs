//! The attribute `#[test]` of the testbed, which names a test to the program that runs all of them.

use proc_macro::{TokenStream, TokenTree};

/// A test, for `testbed::runner`. The argument is a variant of its `Kind`; without one, the test is `Plain`.
#[proc_macro_attribute]
pub fn test(kind: TokenStream, function: TokenStream) -> TokenStream {
    let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn");
    let mut tokens = function.clone().into_iter().skip_while(|token| !is_fn(token));
    let name = tokens.nth(1).expect("a function with a name");
    let kind = if kind.is_empty() { "Plain".to_owned() } else { kind.to_string() };
    let named = format!(
        "::testbed::inventory::submit! {{ ::testbed::runner::Test {{
            path: concat!(module_path!(), \"::{name}\"), kind: ::testbed::runner::Kind::{kind}, run: {name},
        }} }}"
    );
    let named: TokenStream = named.parse().expect("Rust");
    function.into_iter().chain(named).collect()
}
