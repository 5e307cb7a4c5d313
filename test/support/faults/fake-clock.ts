import { globSync } from 'node:fs';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FAKETIME_LIBRARY } from '../jest/left-out.mjs';

/** Returns the variables that give a process libfaketime. @throws when the library is not installed */
export function fakeTimeEnv(): Record<string, string> {
  const [library] = globSync(FAKETIME_LIBRARY);
  if (library === undefined) throw new Error(`there is no ${FAKETIME_LIBRARY}`);
  return { LD_PRELOAD: library, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
}

/** Seconds after which a process reads its offset again. */
const CACHE_SECONDS = 1;

/** A wall clock that a test sets, for processes that are started with `env`. Their monotonic clock is the machine's. */
export interface FakeClock {
  env: Record<string, string>;
  /** Sets the clock to so many seconds from the machine's; the processes follow within a second. */
  setOffset(seconds: number): Promise<void>;
  remove(): Promise<void>;
}

/** Creates a clock that is right at first. */
export async function createFakeClock(): Promise<FakeClock> {
  const folder = await mkdtemp(join(tmpdir(), 'carillon-clock-'));
  const file = join(folder, 'offset');
  async function setOffset(seconds: number): Promise<void> {
    // In one step: a process must not read half a number.
    await writeFile(`${file}.new`, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`);
    await rename(`${file}.new`, file);
  }
  await setOffset(0);
  return {
    env: {
      ...fakeTimeEnv(),
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: String(CACHE_SECONDS),
    },
    setOffset,
    remove: () => rm(folder, { recursive: true }),
  };
}
