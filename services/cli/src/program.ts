import { EnvError } from '@carillon/runtime/env';
import { Command, CommanderError } from 'commander';
import { addAccountCommands } from './account.ts';
import { addAppCommands } from './app.ts';
import { addCredentialCommands } from './credential/command.ts';
import { addDeviceCommands } from './device.ts';
import { addDoctorCommand } from './doctor/command.ts';
import { EXIT, Failure, misused, reasonOf, refused } from './failure.ts';
import { addKeyCommands } from './key.ts';
import { addMigrateCommand } from './migrate.ts';
import { createOutput } from './output.ts';
import { addPushCommands } from './push.ts';
import { addSimulateCommand } from './simulate/command.ts';
import { findStack } from './stack.ts';

/** What the command line has of its surroundings. */
export interface Surroundings {
  env: NodeJS.ProcessEnv;
  nodeVersion: string;
  /** Of the product. */
  version: string;
  out(text: string): void;
  err(text: string): void;
  /** Aborts when whoever runs the command wants it to stop; from the first call on, that no longer kills it. */
  stopSignal(): AbortSignal;
}

/**
 * Runs one command line.
 *
 * @returns the exit code
 */
export async function run(args: readonly string[], around: Surroundings): Promise<number> {
  // Known before anything is parsed: a wrong command line is answered in the form that was asked for.
  const output = createOutput(around.out, () => args.includes('--json'));
  try {
    await createProgram(around, output).parseAsync(args, { from: 'user' });
    return EXIT.done;
  } catch (error) {
    const failure = asFailure(error);
    if (failure === undefined) return EXIT.done;
    around.err(`${failure.message}\n`);
    if (output.isJson() && failure.answer !== '') around.out(`${failure.answer}\n`);
    return failure.exitCode;
  }
}

function createProgram(around: Surroundings, output: ReturnType<typeof createOutput>): Command {
  const program = new Command('carillon')
    .description("Carillon's command line for operators")
    .version(around.version)
    .option('--json', 'print one JSON value on standard output')
    .exitOverride()
    .configureOutput({
      writeOut: around.out,
      // Help that nobody asked for says what is possible; errors are told by run.
      writeErr: around.err,
      outputError: () => undefined,
    });
  const deps = { ...around, stack: () => findStack(around.env), output };
  addMigrateCommand(program, deps);
  addAccountCommands(program, deps);
  addAppCommands(program, deps);
  addKeyCommands(program, deps);
  addCredentialCommands(program, deps);
  addDeviceCommands(program, deps);
  addPushCommands(program, deps);
  addSimulateCommand(program, deps);
  addDoctorCommand(program, deps);
  return program;
}

/** Any end of a command as a failure; undefined for help and version, which were asked for. */
function asFailure(error: unknown): Failure | undefined {
  if (error instanceof Failure) return error;
  if (error instanceof EnvError) return misused(onOneLine(error.message));
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return undefined;
    if (error.code === 'commander.help') return misused('Say which command to run.');
    return misused(error.message.replace(/^error: /, ''));
  }
  return refused(`The command failed: ${reasonOf(error)}.`);
}

/** A list of faults as a sentence: its marks and line breaks left out. */
function onOneLine(text: string): string {
  return text.replace(/\s*\n\s*[✖→]?\s*/g, ' ');
}
