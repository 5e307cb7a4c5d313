import { open } from 'node:fs/promises';
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
import { type ImportRequest, type ImportStore, importLines } from './import-lines.ts';
import {
  createState,
  type ImportJournal,
  type ImportState,
  openJournal,
  removeState,
  reportPath,
} from './import-state.ts';
import { type FileLine, readLines } from './read-lines.ts';
import { createRefusalSummary, type RefusedLines } from './refusal-summary.ts';
import { FCM_SOURCES, NDJSON_SOURCES, SOURCES, type Source } from './sources.ts';

interface ImportOptions {
  app: string;
  source: Source;
  format?: RecordFormat;
  environment: AppleSettings['environment'];
  bundle?: string;
  webhooks?: true;
  check?: true;
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
    .option('--check', 'say what the import would do, by reason, and write nothing')
    .action(async (file: string, options: ImportOptions) => {
      await requireReadable(file);
      const { counts, reasons, lacksFcm } = await importFile(context, file, options);
      if (reasons === undefined) showResult(context, file, counts);
      else showCheck(context, counts, reasons);
      if (lacksFcm)
        context.err(
          `FCM is off for the Android devices of this app. Turn it on with: carillon app set ${options.app} --fcm-fallback 0\n`,
        );
    });
}

interface CompletedImport {
  counts: ImportState['counts'];
  /** Of a check: the refused lines. */
  reasons?: RefusedLines[];
  /** The app doesn't use FCM, by which alone some of the devices are reached. */
  lacksFcm: boolean;
}

async function importFile(
  context: ImportContext,
  file: string,
  options: ImportOptions,
): Promise<CompletedImport> {
  const { app, source, environment, bundle } = options;
  const format = options.format ?? formatOf(file, source);
  return withStore(context.stack(), async (store) => {
    const settings = await requireApp(store, app);
    const webhooks = options.webhooks === true ? await listReported(store, app) : [];
    const request = { app, source, apple: { environment, bundle }, webhooks };
    const run = options.check === true ? checkFile : importIntoStore;
    const { counts, reasons } = await run(context, { store, file, format }, request);
    const hasFcmPhones = FCM_SOURCES.includes(source) && counts.android > 0;
    return {
      counts,
      ...(reasons && { reasons }),
      lacksFcm: hasFcmPhones && !usesFcmForAndroid(settings),
    };
  });
}

interface ImportedFile {
  store: Store;
  file: string;
  format: RecordFormat;
}

type ImportRun = (
  context: ImportContext,
  imported: ImportedFile,
  request: ImportRequest,
) => Promise<Omit<CompletedImport, 'lacksFcm'>>;

const importIntoStore: ImportRun = async (context, { store, file, format }, request) => {
  const journal = await openJournal(file, { ...describeRequest(request), format });
  const { position, counts } = journal.state;
  if (position.end > 0) context.err(`Continuing after line ${position.lines}.\n`);
  await importRest(context, { store, file, format }, request, journal);
  await removeState(file);
  return { counts };
};

/** Returns what two runs must have in common for the second to continue the first. */
function describeRequest({ app, source, apple, webhooks }: ImportRequest) {
  const { environment, bundle } = apple;
  return { app, source, options: JSON.stringify([environment, bundle, webhooks.length > 0]) };
}

/** Reads the whole file, also if its import has begun. */
const checkFile: ImportRun = async (context, { store, file, format }, request) => {
  const state = await createState(file, { ...describeRequest(request), format });
  const summary = createRefusalSummary();
  const journal: ImportJournal = {
    ...{ noun: 'check', state },
    save: async (refusals) => summary.add(refusals),
  };
  const target = { devices: store.devices, imports: store.imports.startCheck() };
  await importRest(context, { store: target, file, format }, request, journal);
  return { counts: state.counts, reasons: summary.list() };
};

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
    const handle = await open(file);
    // A folder can be opened, but not read.
    await handle.read(Buffer.alloc(1), 0, 1, 0).finally(() => handle.close());
  } catch (error) {
    throw commandFailed(`The file can't be read: ${describeError(error)}.`);
  }
}

function formatOf(file: string, source: Source): RecordFormat {
  if (NDJSON_SOURCES.includes(source)) return 'ndjson';
  const format = RECORD_FORMATS.find((name) => file.toLowerCase().endsWith(`.${name}`));
  if (format !== undefined) return format;
  throw commandFailed(`The format of ${file} is unknown; give --format.`);
}

async function importRest(
  context: ImportContext,
  { store, file, format }: Omit<ImportedFile, 'store'> & { store: ImportStore },
  request: ImportRequest,
  { noun, state, save }: ImportJournal,
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
    await save(refusals);
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
          `The ${noun} was stopped after line ${state.position.lines}. Repeat the command${noun === 'import' ? ' to continue it' : ''}.`,
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

function showCheck(
  { output }: ImportContext,
  { imported, existing, refused }: ImportState['counts'],
  reasons: readonly RefusedLines[],
): void {
  output.show({ imported, existing, refused, reasons }, [
    `${formatCount(imported, 'entry', 'entries')} would be imported, ${existing} there already, ${refused} refused. Nothing was written.`,
    ...reasons.map(
      ({ reason, lines, line }) => `${formatCount(lines, 'line')}, the first is ${line}: ${reason}`,
    ),
  ]);
}
