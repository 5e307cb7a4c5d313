import { renameSync, rmSync, writeFileSync } from 'node:fs';

/** Writes a file in one step, readable by its owner only: a reader finds the old content or the new one. */
export function writeAtomically(path: string, content: string | Uint8Array): void {
  const tempPath = `${path}.half`;
  try {
    writeFileSync(tempPath, content, { mode: 0o600 });
    renameSync(tempPath, path);
  } catch (error) {
    rmSync(tempPath, { force: true });
    throw error;
  }
}
