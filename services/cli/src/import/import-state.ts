import { existsSync } from 'node:fs';
import { open, readFile, rm, stat, truncate } from 'node:fs/promises';
import { writeAtomically } from '@carillon/runtime/write-atomically';
import { z } from 'zod';

/** Options and progress of an import. */
const stateSchema = z.object({
  app: z.string(),
  source: z.string(),
  /** The options that decide what its lines become. */
  options: z.string().default(''),
  format: z.string(),
  size: z.number(),
  modifiedMs: z.number(),
  position: z.object({
    end: z.number(),
    lines: z.number(),
    columns: z.array(z.string()).optional(),
  }),
  counts: z.object({
    imported: z.number(),
    existing: z.number(),
    refused: z.number(),
    /** Of those imported or there already. */
    android: z.number().default(0),
  }),
  /** Bytes of the report that belong to the lines before the position. */
  reportBytes: z.number(),
});
export type ImportState = z.infer<typeof stateSchema>;

/** A line that was not imported. */
export interface Refusal {
  line: number;
  reason: string;
}

/** Progress through a file. */
export interface ImportJournal {
  /** What the command does. */
  noun: 'import' | 'check';
  state: ImportState;
  /** Takes the progress and the refusals of some lines, after these are imported. */
  save(refusals: readonly Refusal[]): Promise<void>;
}

/** Creates the state of an import that begins. */
export async function createState(
  file: string,
  request: Pick<ImportState, 'app' | 'source' | 'options' | 'format'>,
): Promise<ImportState> {
  const { size, mtimeMs } = await stat(file);
  return {
    ...request,
    ...{ size, modifiedMs: mtimeMs, position: { end: 0, lines: 0 } },
    ...{ counts: { imported: 0, existing: 0, refused: 0, android: 0 }, reportBytes: 0 },
  };
}

/** Opens the journal of an import beside its file: that of an interrupted one with the same file and options, or a new one. */
export async function openJournal(
  file: string,
  request: Pick<ImportState, 'app' | 'source' | 'options' | 'format'>,
): Promise<ImportJournal> {
  const fresh = await createState(file, request);
  const path = statePath(file);
  const stored = existsSync(path)
    ? stateSchema.safeParse(JSON.parse(await readFile(path, 'utf8'))).data
    : undefined;
  const isSame =
    stored !== undefined &&
    (['app', 'source', 'options', 'format', 'size', 'modifiedMs'] as const).every(
      (name) => stored[name] === fresh[name],
    );
  const state = isSame ? stored : fresh;
  // Refusals of lines that will be read again.
  if (existsSync(reportPath(file))) await truncate(reportPath(file), state.reportBytes);
  return { noun: 'import', state, save: (refusals) => saveState(file, state, refusals) };
}

/** The report is on disk first. */
async function saveState(
  file: string,
  state: ImportState,
  refusals: readonly Refusal[],
): Promise<void> {
  if (refusals.length > 0) {
    const report = await open(reportPath(file), 'a', 0o600);
    try {
      await report.appendFile(refusals.map((refusal) => `${JSON.stringify(refusal)}\n`).join(''));
      await report.sync();
      state.reportBytes = (await report.stat()).size;
    } finally {
      await report.close();
    }
  }
  writeAtomically(statePath(file), JSON.stringify(state));
}

/** Removes the state of an import that is complete. */
export const removeState = (file: string): Promise<void> => rm(statePath(file), { force: true });

/** Returns the path of the report of refused lines. */
export const reportPath = (file: string): string => `${file}.refused.ndjson`;

const statePath = (file: string): string => `${file}.import.json`;
