import { mkdtemp, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const IN_MEMORY = '/dev/shm';
/** Below it the folder is on disk: the data of a stack takes less than a gigabyte, and several stacks run at once. */
const MIN_FREE_BYTES = 4 * 1_024 ** 3;

/**
 * Makes a folder for the data of a database or of a stack; the caller removes it. It is in memory where there is room:
 * MongoDB waits for the disk at every index and journaled write. What a killed process has written survives there too.
 */
export async function createDataFolder(): Promise<string> {
  // The bootstrap removes what an interrupted run has left.
  const name = `${process.env.CARILLON_TEST_RUN ?? 'carillon-test'}-`;
  return mkdtemp(join((await hasRoomInMemory()) ? IN_MEMORY : tmpdir(), name));
}

async function hasRoomInMemory(): Promise<boolean> {
  if (process.availableMemory() < MIN_FREE_BYTES) return false;
  try {
    const { bavail, bsize } = await statfs(IN_MEMORY);
    return bavail * bsize >= MIN_FREE_BYTES;
  } catch {
    return false;
  }
}
