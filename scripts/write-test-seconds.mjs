// Writes how long the test files take that `npm test` leaves out, which divides them into slices of CI:
//
//   npm run test:all -- --json --outputFile=FILE
//   node_modules/.bin/node scripts/write-test-seconds.mjs FILE [FILE …]
//
// Files that are not in the results, or that failed there, keep their seconds.

import { readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { filesOf, readTiers } from '../test/support/jest/tiers.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TARGET = `${ROOT}test/support/jest/seconds.json`;

const before = JSON.parse(readFileSync(TARGET, 'utf8'));
const measured = Object.fromEntries(process.argv.slice(2).flatMap(readResults));
const files = readTiers(ROOT)
  .filter(({ name }) => !['fast', 'stack'].includes(name))
  .flatMap(filesOf)
  .sort();
const seconds = files.flatMap((file) => {
  const value = measured[file] ?? before[file];
  return value === undefined ? [] : [[file, value]];
});
writeFileSync(TARGET, `${JSON.stringify(Object.fromEntries(seconds), undefined, 2)}\n`);

/** Reads Jest's results: path from the root, and seconds, of each file that passed. */
function readResults(path) {
  const { testResults } = JSON.parse(readFileSync(path, 'utf8'));
  return testResults
    .filter(({ status }) => status === 'passed')
    .map(({ name, startTime, endTime }) => [
      relative(ROOT, name),
      Math.ceil((endTime - startTime) / 1_000),
    ]);
}
