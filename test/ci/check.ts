// Checks what changed since the last commit, for a developer: types, lint, documents and lists, and the tests of the tier
// `fast` that import a changed file or one that imports it, and so on; changed test files of other tiers too.

import { fileURLToPath } from 'node:url';
import { filesOf, readTiers } from '../support/jest/tiers.ts';
import { listChangesSince } from './changes.ts';
import { GATES, runGates } from './gates.ts';
import { runProgram, select, stopWithSignals } from './run-part.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

let isInterrupted = false;

stopWithSignals(() => {
  isInterrupted = true;
});
const fast = readTiers(ROOT)
  .filter(({ name }) => name === 'fast')
  .flatMap(filesOf);
const tests = listChangesSince(ROOT, 'HEAD').filter(
  (path) => path.endsWith('.test.ts') && !fast.includes(path),
);
const gates = Object.keys(GATES).filter((name) => name !== 'unused code');
const failed = await runGates(ROOT, gates);
await runTests(['--tier=fast', '--onlyChanged']);
if (tests.length > 0) await runTests(select(tests));
process.stdout.write(
  failed.length > 0 ? `\nfailed: ${failed.join('; ')}\n` : '\nNothing failed.\n',
);
process.exitCode = failed.length > 0 ? 1 : 0;

async function runTests(args: readonly string[]): Promise<void> {
  const program = ['npm', 'test', '--', ...args];
  const options = { root: ROOT, timeoutMs: Number.POSITIVE_INFINITY, isShown: true };
  const isOk = !isInterrupted && (await runProgram(program, options)).isOk;
  if (!isOk) failed.push(program.join(' '));
}
