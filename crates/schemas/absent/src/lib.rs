//! A derive of JsonSchema that makes nothing, for builds that need no schema.

use proc_macro::TokenStream;

/// Accepts what schemars' derive accepts, and makes nothing.
#[proc_macro_derive(JsonSchema, attributes(schemars, serde))]
pub fn absent(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
