import { AdminError, describeError } from '@carillon/admin/admin-error';
import { ApiError } from '@carillon/core/api-error';
import { SettingsError } from '@carillon/core/settings-error';
import { Command, CommanderError } from 'commander';
import { addAccountCommands } from './account.ts';
import { addAppCommands } from './app.ts';
import { addCanaryCommand } from './canary.ts';
import { addCredentialCommands } from './credential.ts';
import { addDeviceCommands } from './device.ts';
import { addDoctorCommand } from './doctor.ts';
import { addExamples } from './examples.ts';
import { addExportCommand } from './export/export.ts';
import { addFailureCommands } from './failed-deliveries.ts';
import {
  commandFailed,
  EXIT,
  Failure,
  toAdminFailure,
  toRejection,
  usageError,
} from './failure.ts';
import { addImportCommand } from './import/import.ts';
import { addKeyCommands } from './key.ts';
import { addMigrateCommand } from './migrate.ts';
import { addOperatorCommands } from './operator.ts';
import { createOutput } from './output.ts';
import { addPrepareCommand } from './prepare.ts';
import { addPushCommands } from './push.ts';
import { addQueuesCommand } from './queues.ts';
import { addSimulateCommand } from './simulate/simulate.ts';
import { findStack } from './stack.ts';
import { addTopicCommands } from './topic.ts';
import { addWebhookCommands } from './webhook.ts';

/** Environment of a command line, as the process or a test provides it. */
export interface CliContext {
  env: NodeJS.ProcessEnv;
  nodeVersion: string;
  /** Version of the product. */
  version: string;
  out(text: string): void;
  err(text: string): void;
  /** Standard error, on which progress bars are drawn if it is a terminal. */
  terminal: NodeJS.WritableStream;
  /** Asks a question of yes and no on a terminal; absent without one. */
  confirm?: ((question: string) => Promise<boolean>) | undefined;
  /**
   * Returns a signal that aborts when the command receives SIGINT or SIGTERM; the first call disables the default exit.
   */
  stopSignal(): AbortSignal;
}

/**
 * Runs one command line.
 *
 * @returns the exit code
 */
export async function run(args: readonly string[], context: CliContext): Promise<number> {
  // Read before the arguments are parsed, so that the error of an invalid command line is JSON too.
  const output = createOutput(context.out, () => args.includes('--json'));
  try {
    await createProgram(context, output).parseAsync(args, { from: 'user' });
    return EXIT.success;
  } catch (error) {
    const failure = toFailure(error);
    if (failure === undefined) return EXIT.success;
    context.err(`${failure.message}\n`);
    if (output.isJson() && failure.json !== '') context.out(`${failure.json}\n`);
    return failure.exitCode;
  }
}

/** Creates the command line with all its commands. */
export function createProgram(
  context: CliContext,
  output: ReturnType<typeof createOutput>,
): Command {
  const program = new Command('carillon')
    .description('Command line for operators of Carillon')
    .version(context.version)
    .option('--json', 'print one JSON value on standard output')
    .exitOverride()
    .configureOutput({
      writeOut: context.out,
      // Commander writes its usage text here; run writes the errors.
      writeErr: context.err,
      outputError: () => undefined,
    });
  const deps = { ...context, stack: () => findStack(context.env), output };
  addMigrateCommand(program, deps);
  addPrepareCommand(program, deps);
  addAccountCommands(program, deps);
  addAppCommands(program, deps);
  addKeyCommands(program, deps);
  addWebhookCommands(program, deps);
  addCredentialCommands(program, deps);
  addOperatorCommands(program, deps);
  addDeviceCommands(program, deps);
  addTopicCommands(program, deps);
  addPushCommands(program, deps);
  addFailureCommands(program, deps);
  addQueuesCommand(program, deps);
  addExportCommand(program, deps);
  addImportCommand(program, deps);
  addSimulateCommand(program, deps);
  addCanaryCommand(program, deps);
  addDoctorCommand(program, deps);
  addExamples(program);
  return program;
}

/** Converts any error to a failure; returns undefined for --help and --version, which Commander throws as errors. */
function toFailure(error: unknown): Failure | undefined {
  if (error instanceof Failure) return error;
  if (error instanceof AdminError) return toAdminFailure(error);
  if (error instanceof ApiError) return toRejection(error);
  if (error instanceof SettingsError) return usageError(joinLines(error.message));
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return undefined;
    if (error.code === 'commander.help') return usageError('Give a command to run.');
    return usageError(error.message.replace(/^error: /, ''));
  }
  return commandFailed(`The command failed: ${describeError(error)}.`);
}

/** Joins a list of errors to one line, without its bullets. */
function joinLines(text: string): string {
  return text.replace(/\s*\n\s*[✖→]?\s*/g, ' ');
}
