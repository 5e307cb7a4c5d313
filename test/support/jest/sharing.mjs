import { readFileSync } from 'node:fs';

/** Checks that a test file uses the shared stack. @param {string} path */
export function isSharing(path) {
  return readFileSync(path, 'utf8').includes('useSharedStack(');
}
