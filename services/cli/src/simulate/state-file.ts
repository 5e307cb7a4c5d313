import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import { isAbsent, reasonOf, refused } from '../failure.ts';
import { credentials } from './credentials.ts';

const stateSchema = z.object({
  app: z.string(),
  platform: z.string(),
  devices: z.array(credentials),
});
/** The devices of an earlier simulation. */
export type State = z.infer<typeof stateSchema>;

/** Reads the file; undefined when there is none. @throws Failure when it isn't ours to overwrite */
export function readState(path: string): State | undefined {
  try {
    return stateSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    if (isAbsent(error)) return undefined;
    const why = error instanceof z.ZodError ? 'it is no state of a simulation' : reasonOf(error);
    throw refused(`${path} can't be used: ${why}.`);
  }
}

/** Writes the file in one step, for its owner only: it holds credentials. */
export function writeState(path: string, state: State): void {
  const half = `${path}.half`;
  try {
    writeFileSync(half, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
    renameSync(half, path);
  } catch (error) {
    throw refused(`${path} can't be written: ${reasonOf(error)}.`);
  }
}
