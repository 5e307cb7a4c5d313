import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { createTimestamp } from '../src/logger.ts';

const SCRIPT = fileURLToPath(new URL('logging-process.ts', import.meta.url));
const LINES = 1_000;

/** Runs the process that logs. @returns its lines, parsed */
function readLines(end: string): Promise<{ n?: number; msg: string }[]> {
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT, end], (_error, stdout) =>
      resolve(
        stdout
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line)),
      ),
    );
  });
}

test.each(['return', 'exit', 'throw'])(
  'all lines are written before the end by %s',
  async (end) => {
    const lines = await readLines(end);
    expect(lines.map(({ n }) => n)).toEqual(Array.from({ length: LINES }, (_, n) => n));
  },
);

test('a fatal line is written at once, after those before it', async () => {
  const lines = await readLines('fatal');
  expect(lines).toHaveLength(LINES + 1);
  expect(lines.at(-1)).toMatchObject({ msg: 'the end' });
});

test('the time of a line is exact in every millisecond', () => {
  const times = [1_700_000_000_000, 1_700_000_000_007, 1_700_000_000_999, 1_700_000_001_000];
  let time = 0;
  const timestamp = createTimestamp(() => time);
  for (time of [...times, ...times]) {
    expect(timestamp()).toBe(`,"time":"${new Date(time).toISOString()}"`);
  }
});
