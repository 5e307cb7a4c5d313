import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

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
