import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const CHUNK_BYTES = 65_536;

/** A file system in memory that a test can fill. Only root may mount one (test/support/jest/left-out.mjs). */
export interface SmallDisk {
  path: string;
  /** Leaves no byte free, also of what was freed since the last call. */
  fill(): void;
  free(): void;
  /** Its users must have ended. */
  unmount(): void;
}

/** Mounts one of a size such as `96m`. */
export function mountSmallDisk(size: string): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'carillon-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', path]);
  const filler = join(path, 'filler');
  return {
    path,
    fill() {
      const file = openSync(filler, 'a');
      try {
        for (const chunk = Buffer.alloc(CHUNK_BYTES); ; ) writeSync(file, chunk);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler, { force: true }),
    unmount() {
      execFileSync('umount', [path]);
      rmdirSync(path);
    },
  };
}
