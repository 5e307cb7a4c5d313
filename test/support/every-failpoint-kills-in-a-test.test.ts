import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { FAILPOINTS } from '../../packages/core/src/failpoint.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

test('a test of a running service kills it at each failpoint', () => {
  const files = globSync('test/{faults,providers}/*.test.ts', { cwd: ROOT });
  const text = files.map((path) => readFileSync(`${ROOT}/${path}`, 'utf8')).join('\n');
  const armed = new Set(
    Array.from(text.matchAll(/['"`,]([a-z-]+):(?:kill|\$\{)/g), ([, name]) => name),
  );
  expect(Object.keys(FAILPOINTS).filter((name) => !armed.has(name))).toEqual([]);
});
