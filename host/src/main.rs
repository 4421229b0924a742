//! The command `cofferdam`. Everything is in the library.

/// A call takes and returns memory a thousand times, a part of it on another thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cofferdam::cli::main()
}
