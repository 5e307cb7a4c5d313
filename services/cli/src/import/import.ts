import { access, constants } from 'node:fs/promises';
import { describeError } from '@carillon/admin/admin-error';
import { requireApp } from '@carillon/admin/require-app';
import { usesFcmForAndroid } from '@carillon/store/apps';
import type { Store } from '@carillon/store/store';
import { Argument, type Command, Option } from 'commander';
import { withStore } from '../database.ts';
import { commandFailed } from '../failure.ts';
import { formatCount } from '../output.ts';
import { type ProgressContext, startProgress } from '../progress.ts';
import { RECORD_FORMATS, type RecordFormat } from '../records/read-records.ts';
import type { CommandContext } from '../stack.ts';
import type { AppleSettings } from './field-parsers.ts';
import { type ImportRequest, importLines } from './import-lines.ts';
import { type ImportState, openState, removeState, reportPath, saveState } from './import-state.ts';
import { type FileLine, readLines } from './read-lines.ts';
import { FCM_SOURCES, SOURCES, type Source } from './sources.ts';

interface ImportOptions {
  app: string;
  source: Source;
  format?: RecordFormat;
  environment: AppleSettings['environment'];
  bundle?: string;
  webhooks?: true;
}

type ImportContext = CommandContext &
  ProgressContext & { err(text: string): void; stopSignal(): AbortSignal };

/** Maximum lines that are written together. */
const LINES_PER_WRITE = 1_000;
const BYTES_PER_MB = 1_000_000;

/** Adds `carillon import`, which imports devices from a file. */
export function addImportCommand(program: Command, context: ImportContext): void {
  program
    .command('import')
    .description(
      'import devices from a file; repeat an interrupted import with the same options to continue it',
    )
    .addArgument(new Argument('<file>', 'CSV or NDJSON'))
    .requiredOption('--app <id>', 'the app that the devices get')
    .addOption(
      new Option('--source <source>', 'the origin of the file')
        .choices(Object.keys(SOURCES))
        .makeOptionMandatory(),
    )
    .addOption(
      new Option(
        '--format <format>',
        'the format, if the name of the file does not end in it',
      ).choices(RECORD_FORMATS),
    )
    .addOption(
      new Option('--environment <environment>', 'the APNs environment of the iOS devices')
        .choices(['production', 'development'])
        .default('production'),
    )
    .option('--bundle <id>', 'the bundle id of the iOS app')
    .option('--webhooks', 'send device.registered to webhooks for each device that is imported')
    .action(async (file: string, options: ImportOptions) => {
      await requireReadable(file);
      const { counts, lacksFcm } = await importFile(context, file, options);
      showResult(context, file, counts);
      if (lacksFcm)
        context.err(
          `FCM is off for the Android devices of this app. Turn it on with: carillon app set ${options.app} --fcm-fallback 0\n`,
        );
    });
}

interface CompletedImport {
  counts: ImportState['counts'];
  /** The app doesn't use FCM, by which alone some of the devices are reached. */
  lacksFcm: boolean;
}

async function importFile(
  context: ImportContext,
  file: string,
  options: ImportOptions,
): Promise<CompletedImport> {
  const { app, source, environment, bundle } = options;
  const format = options.format ?? formatOf(file);
  return withStore(context.stack(), async (store) => {
    const settings = await requireApp(store, app);
    const webhooks = options.webhooks === true ? await listReported(store, app) : [];
    const request = { app, source, apple: { environment, bundle }, webhooks };
    const state = await openState(file, { app, source, format });
    if (state.position.end > 0) context.err(`Continuing after line ${state.position.lines}.\n`);
    await importRest(context, { store, file, format }, request, state);
    await removeState(file);
    const { counts } = state;
    const hasFcmPhones = FCM_SOURCES.includes(source) && counts.android > 0;
    return { counts, lacksFcm: hasFcmPhones && !usesFcmForAndroid(settings) };
  });
}

/** Lists the webhooks that a registration through the API is reported to. */
async function listReported(
  { knownWebhooks }: Pick<Store, 'knownWebhooks'>,
  app: string,
): Promise<string[]> {
  await knownWebhooks.refresh();
  return knownWebhooks.listSubscribed(app, 'device.registered');
}

/** @throws Failure when the file can't be read */
async function requireReadable(file: string): Promise<void> {
  try {
    await access(file, constants.R_OK);
  } catch (error) {
    throw commandFailed(`The file can't be read: ${describeError(error)}.`);
  }
}

function formatOf(file: string): RecordFormat {
  const format = RECORD_FORMATS.find((name) => file.toLowerCase().endsWith(`.${name}`));
  if (format !== undefined) return format;
  throw commandFailed(`The format of ${file} is unknown; give --format.`);
}

async function importRest(
  context: ImportContext,
  { store, file, format }: { store: Store; file: string; format: RecordFormat },
  request: ImportRequest,
  state: ImportState,
): Promise<void> {
  const signal = context.stopSignal();
  const done = state.position.end / BYTES_PER_MB;
  const progress = startProgress(context, { total: state.size / BYTES_PER_MB, noun: 'MB', done });
  let lines: FileLine[] = [];
  async function flush(): Promise<void> {
    const last = lines.at(-1);
    if (last === undefined) return;
    const refusals = await importLines(store, request, lines, state.counts);
    state.position = last.position;
    await saveState(file, state, refusals);
    lines = [];
    progress.update(last.position.end / BYTES_PER_MB);
  }
  try {
    for await (const line of readLines(file, { source: request.source, format }, state.position)) {
      lines.push(line);
      if (lines.length < LINES_PER_WRITE) continue;
      await flush();
      if (signal.aborted)
        throw commandFailed(
          `The import was stopped after line ${state.position.lines}. Repeat the command to continue it.`,
        );
    }
    await flush();
  } finally {
    progress.stop();
  }
}

function showResult(
  { output }: ImportContext,
  file: string,
  { imported, existing, refused }: ImportState['counts'],
): void {
  const report = refused === 0 ? {} : { report: reportPath(file) };
  output.show({ imported, existing, refused, ...report }, [
    `${formatCount(imported, 'entry', 'entries')} imported, ${existing} there already, ${refused} refused.`,
    ...(refused === 0 ? [] : [`Refused lines with their reasons: ${reportPath(file)}`]),
  ]);
}
