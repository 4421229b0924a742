//! Links `wasi:http` into a linker.

use wasmtime::Result;
use wasmtime::component::Linker;
use wasmtime_wasi_http::p2::bindings::{LinkOptions, sync::http};
use wasmtime_wasi_http::{WasiHttp, WasiHttpCtxView};

use crate::capability::state::CallState;

impl CallState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.http.view(&mut self.table)
    }
}

pub(in crate::capability) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    let options = LinkOptions::default();
    http::outgoing_handler::add_to_linker::<_, WasiHttp>(linker, CallState::http)?;
    http::types::add_to_linker::<_, WasiHttp>(linker, &(&options).into(), CallState::http)
}
