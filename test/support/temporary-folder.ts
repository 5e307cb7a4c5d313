import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from '@jest/globals';

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Makes a folder that is removed when the test file has ended. */
export function createTemporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'carillon-test-'));
  folders.push(folder);
  return folder;
}
