//! The command `cofferdam`. Everything is in the library.

fn main() -> std::process::ExitCode {
    cofferdam::cli::main()
}
