//! Links `wasi:http` into a linker.

use wasmtime::Result;
use wasmtime::component::Linker;
use wasmtime_wasi_http::p2::bindings::{LinkOptions, sync::http};
use wasmtime_wasi_http::p3::bindings::http as http03;
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

pub(in crate::capability) fn add_wasi03_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    http03::client::add_to_linker::<_, WasiHttp>(linker, CallState::http)?;
    http03::types::add_to_linker::<_, WasiHttp>(linker, CallState::http)
}
