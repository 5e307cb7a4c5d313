import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT } from '../support/first-run/test-home.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const SHORT = ['--seconds', '2', '--warm-up', '1'];

test('of the api under load: a file for debuggers, and a table of ten', async () => {
  const out = join(createTemporaryFolder(), 'api.cpuprofile');
  const { code, stdout, stderr } = await profile('api', ...SHORT, '--out', out);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const [path, cpu, summary, parts, head, ...rows] = stdout.trimEnd().split('\n');
  expect(path).toMatch(/api\.cpuprofile$/);
  expect(cpu).toMatch(/^CPU of a core: .*\bmongodb \d+\.\d %/);
  expect(summary).toMatch(/^api: busy for \d+\.\d % of [12]\.\d s$/);
  expect(parts).toMatch(/^by part: .*\bpackages\/\w+ \d+\.\d %/);
  expect(head?.trim().split(/\s{2,}| (?=busy)/)).toEqual(['self ms', 'busy', 'function', 'where']);
  expect(rows).toHaveLength(10);
  const self = rows.map((row) => Number(row.slice(0, 8)));
  expect(self).toEqual([...self].sort((a, b) => b - a));
  expect(self[0]).toBeGreaterThan(0);
  // It is the api's, under the load: parsing and writing requests leaves its marks.
  const { nodes, samples } = JSON.parse(readFileSync(out, 'utf8')) as {
    nodes: { callFrame: { url: string } }[];
    samples: number[];
  };
  expect(samples.length).toBeGreaterThan(100);
  expect(nodes.some(({ callFrame }) => callFrame.url.includes('/packages/accept/src/'))).toBe(true);
});

test('of a gateway, one of two, under single pushes at a rate', async () => {
  const out = join(createTemporaryFolder(), 'gateway.cpuprofile');
  const load = ['--rate', '50', '--gateways', '2'];
  const args = ['device-gateway', ...SHORT, '--out', out, ...load];
  const { code, stdout, stderr } = await profile(...args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^\d+ pushes a second, p50 \d+\.\d ms, p99 \d+\.\d ms$/m);
  expect(stdout).toMatch(/^device-gateway: busy for/m);
  expect(existsSync(out)).toBe(true);
});

test.each([
  [['gateway']],
  [['api', '--rate', '0']],
  [['api', '--warm-up', 'no']],
  [['api', '--gateways', 'many']],
])('of %j: the services are named, and nothing is started or written', async (args) => {
  const out = join(createTemporaryFolder(), 'x.cpuprofile');
  const { code, stdout, stderr } = await profile(...args, '--out', out);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain('device-gateway');
  expect(existsSync(out)).toBe(false);
});

interface Run {
  code: number | null;
  stdout: string;
  stderr: string;
}

function profile(...args: string[]): Promise<Run> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['bench/profile/main.ts', ...args],
      { cwd: ROOT, timeout: 170_000 },
      (_error, stdout, stderr) => resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}
