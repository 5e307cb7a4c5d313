import { expect, test } from '@jest/globals';
import { startProcess } from '../../../test/support/child-process.ts';

const LOGGER = new URL('../src/logger.ts', import.meta.url);
const LINES = 1_000;

/** Runs a process that logs and ends at once. @returns its lines, parsed */
async function readLines(end: string): Promise<{ n?: number; msg: string }[]> {
  const program = `
    import { createLogger } from '${LOGGER}';
    const log = createLogger('logging', 'info');
    for (let n = 0; n < ${LINES}; n += 1) log.info({ n }, 'line');
    ${end}`;
  const child = startProcess(process.execPath, ['--input-type=module', '--eval', program]);
  await child.exited;
  const lines = child
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'));
  return lines.map((line) => JSON.parse(line));
}

test.each(['', 'process.exit();', "throw new Error('unexpected');"])(
  'all lines are written before the end by "%s"',
  async (end) => {
    const lines = await readLines(end);
    expect(lines.map(({ n }) => n)).toEqual(Array.from({ length: LINES }, (_, n) => n));
  },
);

test('a fatal line is written at once, after those before it', async () => {
  const lines = await readLines("log.fatal('the end'); process.kill(process.pid, 'SIGKILL');");
  expect(lines).toHaveLength(LINES + 1);
  expect(lines.at(-1)).toMatchObject({ msg: 'the end' });
});
