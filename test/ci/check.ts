// Checks what changed since the last commit, for a developer: types, lint, and the tests of the tier `fast` that import a
// changed file or one that imports it, and so on; changed test files of other tiers too.

import { fileURLToPath } from 'node:url';
import { filesOf, readTiers } from '../support/jest/tiers.ts';
import { listChangesSince } from './changes.ts';
import { runGates } from './gates.ts';
import { runProgram } from './run-part.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const failed = await runGates(ROOT, ['types', 'types of the pages', 'lint']);
const fast = readTiers(ROOT)
  .filter(({ name }) => name === 'fast')
  .flatMap(filesOf);
const tests = listChangesSince(ROOT, 'HEAD').filter(
  (path) => path.endsWith('.test.ts') && !fast.includes(path),
);
const runs = [
  ['--tier=fast', '--onlyChanged'],
  ...(tests.length > 0 ? [['--runTestsByPath', ...tests]] : []),
];
for (const args of runs) {
  const timeoutMs = Number.POSITIVE_INFINITY;
  const { isOk } = await runProgram(['npm', 'test', '--', ...args], {
    root: ROOT,
    timeoutMs,
    isShown: true,
  });
  if (!isOk) failed.push(`npm test -- ${args.join(' ')}`);
}
process.stdout.write(
  failed.length > 0 ? `\nfailed: ${failed.join('; ')}\n` : '\nNothing failed.\n',
);
process.exitCode = failed.length > 0 ? 1 : 0;
