import { readFileSync } from 'node:fs';

/** Checks that a test file uses the shared stack. @param {string} path */
export function isSharing(path) {
  return /\buseShared(Stack|Providers)\(/.test(readFileSync(path, 'utf8'));
}
