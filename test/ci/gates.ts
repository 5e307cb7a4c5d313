import { CHECKS } from '../../scripts/checks/checks.ts';
import { type Outcome, runProgram } from './run-part.ts';

const TIMEOUT_MS = 300_000;

/** Checks without tests. */
export const GATES: Readonly<Record<string, readonly string[]>> = {
  types: ['node_modules/.bin/tsc', '--noEmit'],
  'types of the pages': ['node_modules/.bin/tsc', '--noEmit', '-p', 'services/dashboard/web'],
  lint: ['node_modules/.bin/biome', 'check', '.'],
  'unused code': ['node_modules/.bin/knip', '--no-config-hints'],
  ...Object.fromEntries(
    Object.keys(CHECKS).map((name) => [
      name,
      ['node_modules/.bin/node', 'scripts/checks/main.ts', name],
    ]),
  ),
};

/** Runs checks side by side, and prints the output of each when it ends. @returns the names of those that failed */
export async function runGates(root: string, names: readonly string[]): Promise<string[]> {
  const failed: string[] = [];
  const run = async (name: string) => {
    const program = GATES[name] ?? [];
    const { output, isOk }: Outcome = await runProgram(program, {
      ...{ root, timeoutMs: TIMEOUT_MS },
      isShown: false,
    });
    process.stdout.write(`\n== ${name}: ${isOk ? 'passed' : 'failed'} ==\n${output}`);
    if (!isOk) failed.push(name);
  };
  await Promise.all(names.map(run));
  return failed;
}
