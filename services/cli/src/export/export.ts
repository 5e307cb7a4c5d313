import { rename } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Argument, type Command, Option } from 'commander';
import { commandFailed } from '../failure.ts';
import { formatCount } from '../output.ts';
import { type ProgressContext, startProgress } from '../progress.ts';
import { RECORD_FORMATS, type RecordFormat } from '../records/read-records.ts';
import { type CommandContext, requireSetting } from '../stack.ts';
import { type ExportProgress, openForAppending, readProgress } from './partial-file.ts';
import {
  EXPORT_KINDS,
  type ExportKind,
  type ExportRequest,
  InterruptedExport,
  streamExport,
} from './stream-export.ts';

interface ExportOptions {
  output: string;
  format: RecordFormat;
  push?: string;
}

type ExportContext = CommandContext &
  ProgressContext & { err(text: string): void; stopSignal(): AbortSignal };

/** Maximum requests in a row without a further row; then the command fails. */
const MAX_FRUITLESS_ATTEMPTS = 10;
const BYTES_PER_MB = 1_000_000;

/** Adds `carillon export`, which writes an app's data to a file. */
export function addExportCommand(program: Command, context: ExportContext): void {
  program
    .command('export')
    .description(
      "write an app's data to a file; repeat an interrupted export with the same options to continue it",
    )
    .addArgument(new Argument('<kind>', 'the data').choices(EXPORT_KINDS))
    .requiredOption('--output <file>', 'the file; until it is complete, its name ends in .partial')
    .addOption(
      new Option('--format <format>', 'the format').choices(RECORD_FORMATS).default('ndjson'),
    )
    .option('--push <id>', 'the push of the recipients')
    .action(async (kind: ExportKind, options: ExportOptions) => {
      const stack = context.stack();
      const request = {
        ...{ base: requireSetting(stack, 'api'), key: requireSetting(stack, 'apiKey'), kind },
        ...{ format: options.format, push: options.push, signal: context.stopSignal() },
      };
      const { rows } = await exportToFile(context, request, options.output);
      context.output.show({ kind, rows, file: options.output }, [
        `${formatCount(rows, 'row')} written to ${options.output}.`,
      ]);
    });
}

/** Appends to the partial file until it is complete, and gives it its name. */
async function exportToFile(
  context: ExportContext,
  request: ExportRequest,
  file: string,
): Promise<ExportProgress> {
  const partial = `${file}.partial`;
  const { kind, format, signal } = request;
  let progress = await readProgress(partial, kind, format);
  if (progress.rows > 0) context.err(`Continuing after ${formatCount(progress.rows, 'row')}.\n`);
  for (let fruitless = 0; !progress.isComplete; ) {
    const interruption = await appendExport(
      context,
      { ...request, after: progress.after },
      partial,
    );
    const before = progress.rows;
    progress = await readProgress(partial, kind, format);
    if (progress.isComplete) break;
    fruitless = progress.rows > before ? 0 : fruitless + 1;
    if (fruitless === MAX_FRUITLESS_ATTEMPTS)
      throw commandFailed(`The export ended early: ${interruption.message}.`);
    context.err(`Interrupted after ${formatCount(progress.rows, 'row')}; continuing.\n`);
    await delay(interruption.retryAfterSeconds * 1_000, undefined, { signal });
  }
  await rename(partial, file);
  return progress;
}

/** Appends the rows of one request; returns the reason why it did not reach the end, if it did not. */
async function appendExport(
  context: ProgressContext,
  request: ExportRequest,
  partial: string,
): Promise<InterruptedExport> {
  const handle = await openForAppending(partial);
  // The API does not count the rows before it sends them.
  const progress = startProgress(context, { total: undefined, noun: 'MB' });
  let bytes = 0;
  try {
    for await (const chunk of streamExport(request)) {
      await handle.appendFile(chunk);
      bytes += chunk.length;
      progress.update(bytes / BYTES_PER_MB);
    }
    return new InterruptedExport('the server sent no complete export', 1);
  } catch (error) {
    if (error instanceof InterruptedExport) return error;
    throw error;
  } finally {
    progress.stop();
    await handle.sync();
    await handle.close();
  }
}
