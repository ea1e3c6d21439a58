//! The commands, one module each.

pub(crate) mod backup;
pub(crate) mod batches;
pub(crate) mod bench;
mod bulk;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod destinations;
pub(crate) mod dlq;
pub(crate) mod doctor;
pub(crate) mod domains;
pub(crate) mod echo;
mod filter;
mod follow;
pub(crate) mod github;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod migrate;
mod operation;
pub(crate) mod ops;
mod pages;
mod payload;
pub(crate) mod restore;
pub(crate) mod retention;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod submit;

use crate::args::{Cli, Client, Command, Global};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Runs the requested command.
pub(crate) fn run(cli: Cli) -> Result<Exit, CliError> {
    match cli.command {
        Command::Client(command) => match *command {
            // Works on the database: the file holds dead letters that no server could store.
            Client::Dlq(dlq::Command::Import(args)) => dlq::import::run(&args, &cli.global),
            command => client(command, cli.global),
        },
        Command::Migrate(args) => migrate::run(&args, &cli.global),
        Command::Backup(args) => backup::run(args, &cli.global),
        Command::Restore(args) => restore::run(&args, &cli.global),
        Command::Doctor(args) => doctor::run(&args, &cli.global),
        Command::Bench(args) => bench::run(&args, &cli.global),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(&args),
        Command::Github(command) => github::run(*command, cli.global),
        Command::Demo(args) => demo::run(args, &cli.global),
        Command::Init(args) => init::run(&args, &cli.global),
        Command::Echo(args) => echo::run(&args, &cli.global),
        Command::Serve(args) => serve::run(args, &cli.global),
        Command::Keys(command) => keys::run(command, &cli.global),
    }
}

fn client(command: Client, global: Global) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ran = runtime.block_on(async {
        let mut context = Context::open(global).await?;
        let exit = ask(command, &mut context).await?;
        context.out.flush()?;
        Ok(exit)
    });
    // A name server that does not answer must not delay the end of the command.
    runtime.shutdown_background();
    ran
}

async fn ask(command: Client, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Client::Status(args) => status::run(args, context).await,
        Client::Submit(args) => submit::run(args, context).await,
        Client::Ops(command) => ops::run(command, context).await,
        Client::Dlq(command) => dlq::run(command, context).await,
        Client::Domains(command) => domains::run(command, context).await,
        Client::Destinations(command) => destinations::run(command, context).await,
        Client::Batches(command) => batches::run(command, context).await,
        Client::Retention(command) => retention::run(command, context).await,
    }
}
